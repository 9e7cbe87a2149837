"""A team of two and its Core, each a process with a home of its own, on a faulty network."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from sync_faults import proxy as network
from sync_faults.checks import opened
from sync_faults.children import Child, ChildEnded, ForkServer
from sync_faults.plan import FIRST, LOCAL_REFUSALS, MemberWrite, Pools, aim, mark_of, plan_writes
from sync_faults.proxy import ACCIDENTS, Proxy

MEMBERS = ("ada", "bob")
DAY = 86_400.0
QUIET_SECONDS = 60.0
PAUSE_SECONDS = 0.02
# Syncs of each member before the network is healed
UNHEALED_SYNCS = 2
SCOPE = "lamps"


@dataclass
class Member:
    """A team member: home, proxy to the Core, and process."""

    name: str
    principal: str  # name at the Core
    home: Path
    proxy: Proxy
    token: str
    skew: float = 0.0  # seconds that their clock is ahead
    child: Child | None = None
    kills: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def principals_of(number: int) -> dict[str, str]:
    """Principal of each member: in some worlds both are one person with two machines."""
    return (
        dict.fromkeys(MEMBERS, MEMBERS[0]) if number % 5 == 4 else {name: name for name in MEMBERS}
    )


class World:
    """A team, its Core, the faults between them, and the writes that were tried."""

    def __init__(
        self, number: int, folder: Path, fork_server: ForkServer, url: str, tokens: dict[str, str]
    ) -> None:
        """`url` is the address of the ledger."""
        self.number, self.folder, self.fork_server, self.url = number, folder, fork_server, url
        self.chance = random.Random(f"world {number}")
        self.members = {
            name: Member(
                name, principal, folder / name, Proxy(f"{number} {name}"), tokens[principal]
            )
            for name, principal in principals_of(number).items()
        }
        if number % 3 < 2:  # a clock is days ahead, or behind
            self.members["bob"].skew = self.chance.choice((3 * DAY, -2 * DAY, 0.5 * DAY))
        self.core: Child | None = None
        self.core_kills = self.cuts = 0
        self.writes: list[MemberWrite] = []
        self.refused: set[str] = set()  # marks
        self.outcomes: dict[str, dict] = {}  # of each member's last sync
        self.pools = Pools()
        self.scope = ""
        self._core_lock = threading.Lock()
        self._timers: list[threading.Timer] = []
        self._failed: list[BaseException] = []
        self._marks = (mark_of(number, place) for place in count())

    # -- processes

    def start_core(self) -> None:
        self.core = self.fork_server.start(
            "core", self.folder / "core.log", url=self.url, home=str(self.folder / "core")
        )
        port = urlsplit(self.core.read()["address"]).port
        assert port
        for member in self.members.values():
            member.proxy.target = ("127.0.0.1", port)

    def kill_core(self, away: float = 0.0) -> None:
        """Kill the Core, and start it again after a while."""
        with self._core_lock:
            assert self.core is not None
            self.core.kill()
            self.core_kills += 1
            time.sleep(away)
            self.start_core()

    def ask_core(self, path: str, body: dict[str, object]) -> str:
        """Ask the Core as its first member, past the proxy."""
        member = self.members[MEMBERS[0]]
        headers = {"Authorization": f"Bearer {member.token}", "Content-Type": "application/json"}
        host, port = member.proxy.target
        request = Request(f"http://{host}:{port}{path}", json.dumps(body).encode(), headers)
        with urlopen(request, timeout=QUIET_SECONDS) as answer:
            return answer.read().decode()

    def child_of(self, member: Member) -> Child:
        """The process of a member, started if there is none."""
        with member.lock:
            if member.child is None:
                member.child = self._start_member(member)
                member.child.read()
            return member.child

    def _start_member(self, member: Member) -> Child:
        return self._start(member, syncs=True)

    def _start(self, member: Member, *, syncs: bool) -> Child:
        log = self.folder / f"{member.name}.log"
        return self.fork_server.start(
            "member", log, home=str(member.home), skew=member.skew, syncs=syncs
        )

    def kill(self, member: Member) -> None:
        """Kill a member's process; the next use starts another one."""
        with member.lock:
            child, member.child = member.child, None
        if child is not None:
            child.kill()
            member.kills += 1

    def ask(self, member: Member, asked: dict[str, object]) -> dict:
        """Ask a member's process, and another one if that was killed."""
        while True:
            child = self.child_of(member)
            try:
                return child.ask(asked)
            except ChildEnded:
                self._forget(member, child)

    def _forget(self, member: Member, child: Child) -> None:
        child.wait()
        with member.lock:
            if member.child is child:
                member.child = None

    def logs(self) -> str:
        """The end of each process's output."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(
            f"{log.name}:\n{log.read_text('utf-8', 'replace')[-3000:]}" for log in logs
        )

    def close(self) -> None:
        for member in self.members.values():
            member.proxy.close()
        self.fork_server.end_all()

    # -- the beginning

    def begin(self) -> None:
        """Both members write before there is a Core; then they join it on the faulty network."""
        ada = self.members["ada"]
        self.pools.known["subcortex"] = [self.ask(ada, {"write": self._subcortex()})["id"]]
        for name, member in self.members.items():
            plan = [
                write
                for action in FIRST
                for write in plan_writes(self.chance, name, self._marks, 1, (action,))
            ]
            self._run_plan(member, plan, self.chance)
            self.writes += [write for write in plan if write.about or not write.shape.about]
        self._raise_failed()
        for write in self.writes:
            self.pools.add(write)
        self.scope = SCOPE
        self._set_first_faults()
        for member in self.members.values():
            deadline = time.monotonic() + QUIET_SECONDS
            while self.ask(member, {"connect": member.proxy.url, "token": member.token}).get(
                "error"
            ):
                assert time.monotonic() < deadline, "a member never joins"
        self.settle()

    def _set_first_faults(self) -> None:
        """Set the faults of the network before the members join."""
        for member in self.members.values():
            self._set_faults(member, self.chance)
            member.proxy.partition = ""

    def _subcortex(self) -> dict[str, object]:
        return {
            "action": "subcortex",
            "mark": next(self._marks),
            "key": "scope",
            "by": "person",
            "slug": SCOPE,
        }

    # -- a round

    def play(self, chance: random.Random, count: int) -> list[MemberWrite]:
        """Both members write during faults; returns the tried writes."""
        for member in self.members.values():
            self._set_faults(member, chance)
        plans = {
            name: plan_writes(chance, name, self._marks, chance.randrange(3, count + 1))
            for name in MEMBERS
        }
        writers = [
            threading.Thread(
                target=self._run_plan,
                args=(self.members[name], plan, random.Random(chance.random())),
            )
            for name, plan in plans.items()
        ]
        faults = threading.Thread(
            target=self._inject_faults, args=(random.Random(chance.random()),)
        )
        for thread in (*writers, faults):
            thread.start()
        for thread in (*writers, faults):
            thread.join(QUIET_SECONDS)
            assert not thread.is_alive(), "a thread hangs"
        self._raise_failed()
        done = [
            write
            for plan in plans.values()
            for write in plan
            if write.about or not write.shape.about
        ]
        self.writes += done
        for write in done:
            self.pools.add(write)
        return done

    def learn(self, refused: set[str]) -> None:
        """Forget the records of refused writes, so that no later write is about them."""
        self.refused |= refused
        self.pools.forget(
            record_id
            for write in self.writes
            if write.mark in refused and write.shape.makes
            for record_id in write.made.split()
        )

    def _raise_failed(self) -> None:
        if self._failed:
            raise self._failed[0]

    def _set_faults(self, member: Member, chance: random.Random) -> None:
        accidents = chance.sample(ACCIDENTS, 4)
        member.proxy.accident_rates = dict.fromkeys(accidents, chance.choice((0.05, 0.1, 0.2)))
        member.proxy.partition = chance.choice(
            ("", "", network.REFUSE, network.REFUSE, network.HOLE)
        )

    def _run_plan(self, member: Member, plan: list[MemberWrite], chance: random.Random) -> None:
        try:
            pools = self.pools.copy()
            other = next(name for name in MEMBERS if name != member.name)
            for write in plan:
                if aim(write, pools, chance):
                    self._write(member, write, other)
                    pools.add(write)
                time.sleep(chance.random() * PAUSE_SECONDS)
        except BaseException as error:
            self._failed.append(error)

    def _write(self, member: Member, write: MemberWrite, other: str) -> None:
        """Do a write, and retry it under the same key if no answer came, unless it isn't retried."""
        request: dict[str, object] = {"write": write.request(other, self.scope)}
        dies = write.dies
        while True:
            child = self.child_of(member)
            try:
                answer = child.ask(request | {"dies": dies})
                break
            except ChildEnded:
                self._forget(member, child)
                member.kills += dies
                if not write.retried:
                    return
                dies = False
        if code := answer.get("error"):
            assert code in LOCAL_REFUSALS, f"{write}: {answer}"
            write.refused_here = code
            return
        write.made, write.acknowledged = answer["id"], True

    def _inject_faults(self, chance: random.Random) -> None:
        """Kill processes and partition the network at random moments."""
        try:
            for _ in range(chance.randrange(4)):
                time.sleep(chance.random() * 0.15)
                member = self.members[chance.choice(MEMBERS)]
                match chance.randrange(8):
                    case 0:
                        self.kill(member)
                    case 1:
                        self.kill_core(chance.random() * 0.1)
                    case 2:  # it has written, and its answer is lost
                        member.proxy.hooks[network.AFTER] = self.kill_core
                    case 3:  # during the write
                        member.proxy.hooks[network.BEFORE] = partial(
                            self._soon, chance.random() * 0.01, self.kill_core
                        )
                    case 4:  # it has the answer, and perhaps stored it
                        member.proxy.hooks[network.DELIVERED] = partial(
                            self._kill_soon, member, chance.random() * 0.01
                        )
                    case 5:
                        member.proxy.partition = (
                            ""
                            if member.proxy.partition
                            else chance.choice((network.REFUSE, network.HOLE))
                        )
                    case 6:
                        self._set_faults(member, chance)
                    case 7:  # the Core goes on without its connections to the database
                        member.proxy.hooks[network.BEFORE] = partial(
                            self._soon, chance.random() * 0.02, self._cut_database
                        )
        except BaseException as error:
            self._failed.append(error)

    def _soon(self, delay: float, call: Callable[[], None]) -> None:
        timer = threading.Timer(delay, call)
        self._timers.append(timer)
        timer.start()

    def _cut_database(self) -> None:
        """End all connections to a PostgreSQL database; SQLite has none."""
        if self.url.startswith("postgresql"):
            import psycopg

            others = "datname = current_database() AND pid <> pg_backend_pid()"
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(
                    f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"
                )
            self.cuts += 1

    def _kill_soon(self, member: Member, delay: float) -> None:
        time.sleep(delay)
        self.kill(member)

    # -- quiet

    def settle(self) -> None:
        """Heal the network and sync until no member has changes; fails if that never comes."""
        for timer in self._timers:
            timer.join(QUIET_SECONDS)
        self._timers.clear()
        self._sync_unhealed()
        for member in self.members.values():
            member.proxy.heal()
        with self._core_lock:  # a killed Core has been started again
            pass
        deadline = time.monotonic() + QUIET_SECONDS
        while not self._is_quiet():
            assert time.monotonic() < deadline, f"the members never settle: {self.outcomes}"

    def _sync_unhealed(self) -> None:
        """Sync without partitions, but with all other accidents."""
        for member in self.members.values():
            member.proxy.partition = ""
        for _ in range(UNHEALED_SYNCS):
            for member in self.members.values():
                self.ask(member, {"sync": True})

    def _is_quiet(self) -> bool:
        """Sync both; returns whether nothing waits then, and both have seen the last change."""
        self.outcomes = {
            name: self.ask(member, {"sync": True}) for name, member in self.members.items()
        }
        with opened(self.url) as database:
            (last,) = database.execute(
                "SELECT value FROM counters WHERE name = 'change'"
            ).fetchone()
        return all(
            outcome["waiting"] == 0 and outcome["cursor"].split(":")[1:2] == [str(last)]
            for outcome in self.outcomes.values()
        )
