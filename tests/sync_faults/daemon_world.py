"""The same team with the real thing: each member has a cortexd that syncs, an agent that writes
through it over MCP, and a terminal.

Whoever is killed here is a cortexd, a front end or a terminal; what agents don't hear of they try
again under the same key.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from interfaces.daemon.sandbox import CORTEX, Sandbox
from protocol.client import Client
from sync_faults.checks import opened
from sync_faults.children import Child, Nursery
from sync_faults.plan import AGENT, Deed
from sync_faults.world import QUIET_SECONDS, Member, World

ANSWER_SECONDS = 60.0
SYNC_SECONDS = 0.2
CONFIG = f"team:\n  agent_tier: 2\n  sync_seconds: {SYNC_SECONDS}\n"
# Of agents, over MCP; else they are done as the library does them
CALLS = ("observation", "batch", "draft", "note")


@dataclass
class Desk:
    """What a member's agent works with."""

    place: Sandbox
    window: Client | None = None
    turn: threading.Lock = field(default_factory=threading.Lock)

    def open(self) -> Client:
        """The agent's window; a front end starts cortexd where there is none."""
        with self.turn:
            if self.window is not None:
                return self.window
            self.window = Client(
                [*CORTEX, "mcp", "team"], env=self.place.environment(), cwd=self.place.root
            )
            window = self.window
        window.initialize()
        return window

    def kill_window(self) -> None:
        with self.turn:
            if self.window is not None:
                self.window.process.kill()

    def drop(self) -> None:
        with self.turn:
            window, self.window = self.window, None
        if window is not None:
            window.process.kill()
            window.__exit__()


class DaemonWorld(World):
    """A team with cortexd."""

    def __init__(
        self, number: int, folder: Path, nursery: Nursery, url: str, tokens: dict[str, str]
    ) -> None:
        super().__init__(number, folder, nursery, url, tokens)
        self.desks: dict[str, Desk] = {}
        for name, member in self.members.items():
            member.skew = 0.0  # the clock of a cortexd is that of its machine
            member.home.mkdir()
            (member.home / "config.yml").write_text(CONFIG, encoding="utf-8")
            place = Sandbox(
                member.home, nursery.folder / f"{name}{number}", folder / f"{name}-work"
            )
            place.run.mkdir(mode=0o700)
            place.root.mkdir()
            self.desks[name] = Desk(place)

    def begin(self) -> None:
        """As ever; then what one agent writes comes to the other member by their cortexds alone."""
        super().begin()
        (ada, bob), mark = self.members.values(), next(self._marks)
        self.desks[bob.name].open()
        seen = Deed("observation", mark, ada.name, AGENT, about=self.pools.known["thread"][0])
        self._do(ada, seen, bob.name)
        self.deeds.append(seen)
        deadline = time.monotonic() + QUIET_SECONDS
        while not _has(bob.home, seen.made):
            assert time.monotonic() < deadline, "cortexd doesn't sync"
            time.sleep(0.05)

    def _spoil_the_way(self) -> None:
        """A cortexd that failed once waits for half a minute: at first it doesn't."""

    def _start_member(self, member: Member) -> Child:
        return self._start(member, syncs=False)

    def kill(self, member: Member) -> None:
        desk = self.desks[member.name]
        match random.Random(f"{self.number} {member.kills}").randrange(4):
            case 0:
                super().kill(member)
            case 1:
                desk.kill_window()
                member.kills += 1
            case _:
                for pid in desk.place.cortexds():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    member.kills += 1

    def _do(self, member: Member, deed: Deed, other: str) -> None:
        if deed.by != AGENT or deed.deed not in CALLS:
            super()._do(member, deed, other)
            return
        while True:
            if (answer := self._call(member, deed)) is not None:
                break
            if not deed.retried:
                return
        if answer.get("error"):
            deed.refused_here = answer["error"]["code"]
            return
        told = answer["data"]
        deed.made = " ".join(told.get("ids") or [told.get("draft_id") or told["task_id"]])
        deed.acknowledged = True

    def _call(self, member: Member, deed: Deed) -> dict | None:
        """What the agent is told, None where no answer came."""
        desk = self.desks[member.name]
        name, arguments = call_of(deed)
        try:
            window = desk.open()
            asked = {"name": name, "arguments": {**arguments, "idempotency_key": deed.key}}
            answer = window.answer(window.ask("tools/call", asked), ANSWER_SECONDS)
        except (AssertionError, OSError, ValueError, queue.Empty):  # killed
            desk.drop()
            return None
        body = json.loads(answer["result"]["content"][0]["text"])
        return None if body.get("error", {}).get("code") == "SERVER_LOST" else body

    def close(self) -> None:
        for desk in self.desks.values():
            desk.drop()
            desk.place.end()
        super().close()


def _has(home: Path, number: str) -> bool:
    with opened(f"sqlite:///{home}") as database:
        return (
            database.execute("SELECT 1 FROM records WHERE id = ?", (number,)).fetchone() is not None
        )


def call_of(deed: Deed) -> tuple[str, dict[str, object]]:
    """The tool that does a deed, and its arguments."""
    match deed.deed:
        case "observation":
            one = {
                "title": f"Limit of {deed.mark}",
                "summary_md": f"The limit is {deed.number} ampere.",
                "links": [deed.about],
            }
            return "cortex_create_observations", {"observations": [one]}
        case "batch":
            some = [
                {"title": f"Cold {deed.mark}", "links": [deed.about]},
                {"title": f"Warm {deed.mark}"},
            ]
            return "cortex_create_observations", {"observations": some}
        case "draft":
            return "cortex_create_draft", {
                "draft_type": "comment",
                "body_md": f"Say {deed.mark}.",
                "target_ref": deed.about,
            }
    return "cortex_update_task", {"task_id": deed.about, "notes": deed.mark}
