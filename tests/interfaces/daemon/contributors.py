"""Agents that write team records, each over a window of its own.

A write without an acknowledgement is retried under the same key.
"""

from __future__ import annotations

import json
import queue
import random
import signal
import threading
from dataclasses import dataclass, field

from interfaces.daemon.sandbox import CORTEX, Sandbox
from protocol.client import Client

ANSWER_SECONDS = 60.0


@dataclass
class Contributor:
    """One agent: opens a window, writes, is killed, opens another one and writes on."""

    sandbox: Sandbox
    number: int
    thread: str  # the id of one
    task: str
    acknowledged: dict[str, str] = field(default_factory=dict)  # key -> id
    replays: int = 0
    starts: int = 0
    _window: Client | None = None

    def __post_init__(self) -> None:
        self._chance = random.Random(self.number)
        self._turn = threading.Lock()

    def work(self, writes: int, ended: threading.Event) -> None:
        """Write at least this many, and go on until `ended` is set."""
        step = 0
        while step < writes or not ended.is_set():
            key = f"agent{self.number}-{step}"
            while (written := self._try(key, step)) is None:
                pass
            assert self.acknowledged.setdefault(key, written) == written
            if self._chance.random() < 0.1:  # as after a lost answer
                assert self._try(key, step) in (written, None)
            step += 1
        self.close()

    def _try(self, key: str, step: int) -> str | None:
        """One call; gives the id in its answer, None without an answer."""
        name, arguments = self._call(step)
        try:
            window = self._open()
            answer = window.answer(
                window.ask(
                    "tools/call", {"name": name, "arguments": {**arguments, "idempotency_key": key}}
                ),
                ANSWER_SECONDS,
            )
        except (AssertionError, OSError, ValueError, queue.Empty):  # killed
            with self._turn:
                window, self._window = self._window, None
            assert window is not None and window.process.wait(ANSWER_SECONDS) == -signal.SIGKILL, (
                "it ended without being killed"
            )
            window.__exit__()
            return None
        body = json.loads(answer["result"]["content"][0]["text"])
        if answer["result"].get("isError"):
            assert body["error"]["code"] == "SERVER_LOST", body
            return None
        data = body["data"]
        self.replays += bool(data.get("replayed"))
        if data.get("updated"):
            return f"{data['task_id']} {arguments['notes']}"
        return data["ids"][0] if "ids" in data else data.get("comment_id") or data["draft_id"]

    def mark(self, step: int) -> str:
        """A text that nothing else contains."""
        return f"Mark {self.number} {step}."

    def _call(self, step: int) -> tuple[str, dict[str, object]]:
        mark = self.mark(step)
        match step % 4:
            case 0:
                return "cortex_create_observations", {
                    "observations": [{"title": mark, "links": [self.thread]}]
                }
            case 1:
                about = {"title": mark, "citations": [self.thread]}
                return "cortex_create_draft", {
                    "draft_type": "artifact",
                    "body_md": f"{mark} It holds.",
                    "metadata": about,
                }
            case 2:
                return "cortex_publish_comment", {"thread_id": self.thread, "body_md": mark}
        return "cortex_update_task", {"task_id": self.task, "status": "in_progress", "notes": mark}

    def _open(self) -> Client:
        with self._turn:
            if self._window is None:
                self.starts += 1
                self._window = Client(
                    [*CORTEX, "mcp", "team"], env=self.sandbox.environment(), cwd=self.sandbox.root
                )
                window = self._window
            else:
                return self._window
        window.initialize()
        return window

    def kill(self) -> None:
        """Kill its window, even during a call."""
        with self._turn:
            if self._window is not None:
                self._window.process.kill()

    def close(self) -> None:
        with self._turn:
            if self._window is not None:
                with self._window as window:
                    assert window.close() == 0 and window.garbage == []
                self._window = None
