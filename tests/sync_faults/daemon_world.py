"""A team whose members have a cortexd that syncs, an MCP client that writes, and a terminal.

Killed are a cortexd, a front end or a terminal; agents retry an unanswered write under its key.
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
from sync_faults.children import Child, ForkServer
from sync_faults.plan import AGENT, MemberWrite
from sync_faults.world import QUIET_SECONDS, Member, World

ANSWER_SECONDS = 60.0
SYNC_SECONDS = 0.2
CONFIG = f"team:\n  agent_tier: 2\n  sync_seconds: {SYNC_SECONDS}\n"
# Actions that agents call over MCP; all others use the library
MCP_ACTIONS = ("observation", "batch", "draft", "note")


@dataclass
class AgentClient:
    """MCP client of a member's agent, opened again when its front end was killed."""

    place: Sandbox
    client: Client | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self) -> Client:
        """The open client; its front end starts cortexd if there is none."""
        with self.lock:
            if self.client is not None:
                return self.client
            self.client = Client(
                [*CORTEX, "mcp", "team"], env=self.place.environment(), cwd=self.place.root
            )
            client = self.client
        client.initialize()
        return client

    def kill_client(self) -> None:
        with self.lock:
            if self.client is not None:
                self.client.process.kill()

    def drop(self) -> None:
        with self.lock:
            client, self.client = self.client, None
        if client is not None:
            client.process.kill()
            client.__exit__()


class DaemonWorld(World):
    """A world whose members have a cortexd."""

    def __init__(
        self, number: int, folder: Path, fork_server: ForkServer, url: str, tokens: dict[str, str]
    ) -> None:
        super().__init__(number, folder, fork_server, url, tokens)
        self.agents: dict[str, AgentClient] = {}
        for name, member in self.members.items():
            member.skew = 0.0  # the clock of a cortexd is that of its machine
            member.home.mkdir()
            (member.home / "config.yml").write_text(CONFIG, encoding="utf-8")
            place = Sandbox(
                member.home, fork_server.folder / f"{name}{number}", folder / f"{name}-work"
            )
            place.run.mkdir(mode=0o700)
            place.root.mkdir()
            self.agents[name] = AgentClient(place)

    def begin(self) -> None:
        """Begin as ever; then a write of one agent reaches the other member by their cortexds alone."""
        super().begin()
        (ada, bob), mark = self.members.values(), next(self._marks)
        self.agents[bob.name].open()
        observation = MemberWrite(
            "observation", mark, ada.name, AGENT, about=self.pools.known["thread"][0]
        )
        self._write(ada, observation, bob.name)
        self.writes.append(observation)
        deadline = time.monotonic() + QUIET_SECONDS
        while not _has(bob.home, observation.made):
            assert time.monotonic() < deadline, "cortexd doesn't sync"
            time.sleep(0.05)

    def _set_first_faults(self) -> None:
        """No faults at first: a cortexd whose sync failed waits for half a minute."""

    def _start_member(self, member: Member) -> Child:
        return self._start(member, syncs=False)

    def kill(self, member: Member) -> None:
        agent = self.agents[member.name]
        match random.Random(f"{self.number} {member.kills}").randrange(4):
            case 0:
                super().kill(member)
            case 1:
                agent.kill_client()
                member.kills += 1
            case _:
                for pid in agent.place.cortexds():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    member.kills += 1

    def _write(self, member: Member, write: MemberWrite, other: str) -> None:
        if write.by != AGENT or write.action not in MCP_ACTIONS:
            super()._write(member, write, other)
            return
        while True:
            if (answer := self._call(member, write)) is not None:
                break
            if not write.retried:
                return
        if answer.get("error"):
            write.refused_here = answer["error"]["code"]
            return
        data = answer["data"]
        write.made = " ".join(data.get("ids") or [data.get("draft_id") or data["task_id"]])
        write.acknowledged = True

    def _call(self, member: Member, write: MemberWrite) -> dict | None:
        """The answer that the agent gets, or None without one."""
        agent = self.agents[member.name]
        name, arguments = call_of(write)
        try:
            client = agent.open()
            asked = {"name": name, "arguments": {**arguments, "idempotency_key": write.key}}
            answer = client.answer(client.ask("tools/call", asked), ANSWER_SECONDS)
        except (AssertionError, OSError, ValueError, queue.Empty):  # killed
            agent.drop()
            return None
        body = json.loads(answer["result"]["content"][0]["text"])
        return None if body.get("error", {}).get("code") == "SERVER_LOST" else body

    def close(self) -> None:
        for agent in self.agents.values():
            agent.drop()
            agent.place.end()
        super().close()


def _has(home: Path, record_id: str) -> bool:
    with opened(f"sqlite:///{home}") as database:
        return (
            database.execute("SELECT 1 FROM records WHERE id = ?", (record_id,)).fetchone()
            is not None
        )


def call_of(write: MemberWrite) -> tuple[str, dict[str, object]]:
    """The tool for a write, and its arguments."""
    match write.action:
        case "observation":
            observation = {
                "title": f"Limit of {write.mark}",
                "summary_md": f"The limit is {write.number} ampere.",
                "links": [write.about],
            }
            return "cortex_create_observations", {"observations": [observation]}
        case "batch":
            observations = [
                {"title": f"Cold {write.mark}", "links": [write.about]},
                {"title": f"Warm {write.mark}"},
            ]
            return "cortex_create_observations", {"observations": observations}
        case "draft":
            return "cortex_create_draft", {
                "draft_type": "comment",
                "body_md": f"Say {write.mark}.",
                "target_ref": write.about,
            }
    return "cortex_update_task", {"task_id": write.about, "notes": write.mark}
