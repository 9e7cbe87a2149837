"""Agents that write to what a team keeps, each over a window of its own; what isn't acknowledged is
tried again under the same key.
"""

from __future__ import annotations

import json
import queue
import random
import signal
import threading
from dataclasses import dataclass, field

from interfaces.daemon.place import CORTEX, Place
from protocol.client import Client

ANSWER_SECONDS = 60.0


@dataclass
class Contributor:
    """One agent: opens a window, writes, is killed, opens another one and writes on."""

    place: Place
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
        """Write so many, and on until it is ended."""
        step = 0
        while step < writes or not ended.is_set():
            key = f"agent{self.number}-{step}"
            while (told := self._try(key, step)) is None:
                pass
            assert self.acknowledged.setdefault(key, told) == told
            if self._chance.random() < 0.1:  # as who didn't hear the answer
                assert self._try(key, step) in (told, None)
            step += 1
        self.close()

    def _try(self, key: str, step: int) -> str | None:
        """One call; gives the id that it told, None where no answer came."""
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
                "nobody killed it"
            )
            window.__exit__()
            return None
        body = json.loads(answer["result"]["content"][0]["text"])
        if answer["result"].get("isError"):
            assert body["error"]["code"] == "SERVER_LOST", body
            return None
        told = body["data"]
        self.replays += bool(told.get("replayed"))
        if told.get("updated"):
            return f"{told['task_id']} {arguments['notes']}"
        return told["ids"][0] if "ids" in told else told.get("comment_id") or told["draft_id"]

    def mark(self, step: int) -> str:
        """What nothing else says."""
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
                    [*CORTEX, "mcp", "team"], env=self.place.environment(), cwd=self.place.root
                )
                window = self._window
            else:
                return self._window
        window.initialize()
        return window

    def kill(self) -> None:
        """Kill its window, whatever it is at."""
        with self._turn:
            if self._window is not None:
                self._window.process.kill()

    def close(self) -> None:
        with self._turn:
            if self._window is not None:
                with self._window as window:
                    assert window.close() == 0 and window.garbage == []
                self._window = None
