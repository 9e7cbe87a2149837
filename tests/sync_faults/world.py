"""A team of two and its Core: each a process with a home of its own, a road between them, and
whoever does harm.
"""

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

from sync_faults import proxy as road
from sync_faults.checks import opened
from sync_faults.children import Child, Gone, Nursery
from sync_faults.plan import FIRST, LOCAL_REFUSALS, Deed, Pools, aim, mark_of, plan_deeds
from sync_faults.proxy import ACCIDENTS, Proxy

MEMBERS = ("ada", "bob")
DAY = 86_400.0
QUIET_SECONDS = 60.0
PAUSE_SECONDS = 0.02
STORMY = 2  # syncs of each before the road is mended
SCOPE = "lamps"


@dataclass
class Member:
    """One of the team: their home, the road to the Core, and the process that works for them."""

    name: str
    principal: str  # what the Core calls them
    home: Path
    proxy: Proxy
    token: str
    skew: float = 0.0  # seconds that their clock is ahead
    child: Child | None = None
    kills: int = 0
    turn: threading.Lock = field(default_factory=threading.Lock)


def principals_of(number: int) -> dict[str, str]:
    """Who the members of a world are at the Core: in some they are one person with two machines."""
    return (
        dict.fromkeys(MEMBERS, MEMBERS[0]) if number % 5 == 4 else {name: name for name in MEMBERS}
    )


class World:
    """All of it."""

    def __init__(
        self, number: int, folder: Path, nursery: Nursery, url: str, tokens: dict[str, str]
    ) -> None:
        """`url` is where the ledger is."""
        self.number, self.folder, self.nursery, self.url = number, folder, nursery, url
        self.chance = random.Random(f"world {number}")
        self.members = {
            name: Member(
                name, principal, folder / name, Proxy(f"{number} {name}"), tokens[principal]
            )
            for name, principal in principals_of(number).items()
        }
        if number % 3 < 2:  # somebody's clock is days ahead, or behind
            self.members["bob"].skew = self.chance.choice((3 * DAY, -2 * DAY, 0.5 * DAY))
        self.core: Child | None = None
        self.core_kills = self.cuts = 0
        self.deeds: list[Deed] = []
        self.refused: set[str] = set()  # marks
        self.told: dict[str, dict] = {}  # what came of each member's last sync
        self.pools = Pools()
        self.scope = ""
        self._core_turn = threading.Lock()
        self._timers: list[threading.Timer] = []
        self._failed: list[BaseException] = []
        self._marks = (mark_of(number, one) for one in count())

    # -- processes
    # -----------------------------------------------------------------------------------------------------

    def start_core(self) -> None:
        self.core = self.nursery.start(
            "core", self.folder / "core.log", url=self.url, home=str(self.folder / "core")
        )
        port = urlsplit(self.core.read()["address"]).port
        assert port
        for member in self.members.values():
            member.proxy.target = ("127.0.0.1", port)

    def kill_core(self, away: float = 0.0) -> None:
        """Kill the Core as it is, and start it again after a while."""
        with self._core_turn:
            assert self.core is not None
            self.core.kill()
            self.core_kills += 1
            time.sleep(away)
            self.start_core()

    def ask_core(self, path: str, body: dict[str, object]) -> str:
        """What the Core answers to its first member, on no bad road."""
        member = self.members[MEMBERS[0]]
        headers = {"Authorization": f"Bearer {member.token}", "Content-Type": "application/json"}
        host, port = member.proxy.target
        request = Request(f"http://{host}:{port}{path}", json.dumps(body).encode(), headers)
        with urlopen(request, timeout=QUIET_SECONDS) as answer:
            return answer.read().decode()

    def child_of(self, member: Member) -> Child:
        """The process of a member, started where there is none."""
        with member.turn:
            if member.child is None:
                member.child = self._start_member(member)
                member.child.read()
            return member.child

    def _start_member(self, member: Member) -> Child:
        return self._start(member, syncs=True)

    def _start(self, member: Member, *, syncs: bool) -> Child:
        log = self.folder / f"{member.name}.log"
        return self.nursery.start(
            "member", log, home=str(member.home), skew=member.skew, syncs=syncs
        )

    def kill(self, member: Member) -> None:
        """Kill a member's process as it is; whoever needs it starts another one."""
        with member.turn:
            child, member.child = member.child, None
        if child is not None:
            child.kill()
            member.kills += 1

    def ask(self, member: Member, asked: dict[str, object]) -> dict:
        """Ask a member's process, another one where that was killed."""
        while True:
            child = self.child_of(member)
            try:
                return child.ask(asked)
            except Gone:
                self._lost(member, child)

    def _lost(self, member: Member, child: Child) -> None:
        child.gone()
        with member.turn:
            if member.child is child:
                member.child = None

    def logs(self) -> str:
        """What the processes said to people, the end of it."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(
            f"{log.name}:\n{log.read_text('utf-8', 'replace')[-3000:]}" for log in logs
        )

    def close(self) -> None:
        for member in self.members.values():
            member.proxy.close()
        self.nursery.end_all()

    # -- the beginning
    # -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Both have written something before there was a Core; then they join it, on a bad road,
        and have it all there.
        """
        ada = self.members["ada"]
        self.pools.known["subcortex"] = [self.ask(ada, {"do": self._subcortex()})["id"]]
        for name, member in self.members.items():
            plan = [
                deed
                for one in FIRST
                for deed in plan_deeds(self.chance, name, self._marks, 1, (one,))
            ]
            self._work(member, plan, self.chance)
            self.deeds += [deed for deed in plan if deed.about or not deed.shape.about]
        self._raise_failed()
        for deed in self.deeds:
            self.pools.add(deed)
        self.scope = SCOPE
        self._spoil_the_way()
        for member in self.members.values():
            deadline = time.monotonic() + QUIET_SECONDS
            while self.ask(member, {"connect": member.proxy.url, "token": member.token}).get(
                "error"
            ):
                assert time.monotonic() < deadline, "they never join"
        self.settle()

    def _spoil_the_way(self) -> None:
        """Who joins finds the road as bad as it will be."""
        for member in self.members.values():
            self._set_weather(member, self.chance)
            member.proxy.cut_off = ""

    def _subcortex(self) -> dict[str, object]:
        return {
            "deed": "subcortex",
            "mark": next(self._marks),
            "key": "scope",
            "by": "person",
            "slug": SCOPE,
        }

    # -- a round
    # -------------------------------------------------------------------------------------------------------

    def play(self, chance: random.Random, count: int) -> list[Deed]:
        """Both write while harm is done; gives what was tried."""
        for member in self.members.values():
            self._set_weather(member, chance)
        plans = {
            name: plan_deeds(chance, name, self._marks, chance.randrange(3, count + 1))
            for name in MEMBERS
        }
        works = [
            threading.Thread(
                target=self._work, args=(self.members[name], plan, random.Random(chance.random()))
            )
            for name, plan in plans.items()
        ]
        harm = threading.Thread(target=self._harm, args=(random.Random(chance.random()),))
        for thread in (*works, harm):
            thread.start()
        for thread in (*works, harm):
            thread.join(QUIET_SECONDS)
            assert not thread.is_alive(), "somebody hangs"
        self._raise_failed()
        done = [
            deed for plan in plans.values() for deed in plan if deed.about or not deed.shape.about
        ]
        self.deeds += done
        for deed in done:
            self.pools.add(deed)
        return done

    def learn(self, refused: set[str]) -> None:
        """What the Core didn't take is nothing to write about, what it took is known to both."""
        self.refused |= refused
        self.pools.forget(
            one
            for deed in self.deeds
            if deed.mark in refused and deed.shape.makes
            for one in deed.made.split()
        )

    def _raise_failed(self) -> None:
        if self._failed:
            raise self._failed[0]

    def _set_weather(self, member: Member, chance: random.Random) -> None:
        bad = chance.sample(ACCIDENTS, 4)
        member.proxy.weather = dict.fromkeys(bad, chance.choice((0.05, 0.1, 0.2)))
        member.proxy.cut_off = chance.choice(("", "", road.REFUSE, road.REFUSE, road.HOLE))

    def _work(self, member: Member, plan: list[Deed], chance: random.Random) -> None:
        try:
            pools = self.pools.copy()
            other = next(name for name in MEMBERS if name != member.name)
            for deed in plan:
                if aim(deed, pools, chance):
                    self._do(member, deed, other)
                    pools.add(deed)
                time.sleep(chance.random() * PAUSE_SECONDS)
        except BaseException as error:
            self._failed.append(error)

    def _do(self, member: Member, deed: Deed, other: str) -> None:
        """Have a deed done, again under the same key where no answer came, or leave it at that."""
        told: dict[str, object] = {"do": deed.told(other, self.scope)}
        dies = deed.dies
        while True:
            child = self.child_of(member)
            try:
                answer = child.ask(told | {"dies": dies})
                break
            except Gone:
                self._lost(member, child)
                member.kills += dies
                if not deed.retried:
                    return
                dies = False
        if code := answer.get("error"):
            assert code in LOCAL_REFUSALS, f"{deed}: {answer}"
            deed.refused_here = code
            return
        deed.made, deed.acknowledged = answer["id"], True

    def _harm(self, chance: random.Random) -> None:
        """Kill, cut off and let go on, at moments that nobody chose."""
        try:
            for _ in range(chance.randrange(4)):
                time.sleep(chance.random() * 0.15)
                member = self.members[chance.choice(MEMBERS)]
                match chance.randrange(8):
                    case 0:
                        self.kill(member)
                    case 1:
                        self.kill_core(chance.random() * 0.1)
                    case 2:  # it has written, and nobody hears of it
                        member.proxy.at[road.AFTER] = self.kill_core
                    case 3:  # while it is at it
                        member.proxy.at[road.BEFORE] = partial(
                            self._soon, chance.random() * 0.01, self.kill_core
                        )
                    case 4:  # it has been told, and perhaps written it down
                        member.proxy.at[road.TAKEN] = partial(
                            self._kill_soon, member, chance.random() * 0.01
                        )
                    case 5:
                        member.proxy.cut_off = (
                            "" if member.proxy.cut_off else chance.choice((road.REFUSE, road.HOLE))
                        )
                    case 6:
                        self._set_weather(member, chance)
                    case 7:  # the Core goes on, and its connections to the database don't
                        member.proxy.at[road.BEFORE] = partial(
                            self._soon, chance.random() * 0.02, self._cut_database
                        )
        except BaseException as error:
            self._failed.append(error)

    def _soon(self, delay: float, deed: Callable[[], None]) -> None:
        timer = threading.Timer(delay, deed)
        self._timers.append(timer)
        timer.start()

    def _cut_database(self) -> None:
        """End all connections to a PostgreSQL database; a file has none."""
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
    # ---------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Heal everything, and sync until nobody has anything to say; raises where that never
        comes.
        """
        for timer in self._timers:
            timer.join(QUIET_SECONDS)
        self._timers.clear()
        self._sync_in_the_storm()
        for member in self.members.values():
            member.proxy.heal()
        with self._core_turn:  # whoever starts it again has done so
            pass
        deadline = time.monotonic() + QUIET_SECONDS
        while not self._is_quiet():
            assert time.monotonic() < deadline, f"they are never done: {self.told}"

    def _sync_in_the_storm(self) -> None:
        """Nobody is cut off any more, but the road is as bad as ever."""
        for member in self.members.values():
            member.proxy.cut_off = ""
        for _ in range(STORMY):
            for member in self.members.values():
                self.ask(member, {"sync": True})

    def _is_quiet(self) -> bool:
        """Have both sync; gives whether nothing waits then, and both have seen the last change."""
        self.told = {
            name: self.ask(member, {"sync": True}) for name, member in self.members.items()
        }
        with opened(self.url) as database:
            (last,) = database.execute(
                "SELECT value FROM counters WHERE name = 'change'"
            ).fetchone()
        return all(
            one["waiting"] == 0 and one["cursor"].split(":")[1:2] == [str(last)]
            for one in self.told.values()
        )
