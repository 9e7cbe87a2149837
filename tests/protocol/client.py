"""A foreign MCP client: raw JSON-RPC lines to a subprocess, nothing of the SDK."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import forking

FAMILY = Path(__file__).with_name("family.py")
WAIT_SECONDS = 20.0
MODERN = "2026-07-28"


def envelope(version: str = MODERN) -> dict:
    """The `_meta` that every request of the stateless revision carries."""
    return {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "foreign", "version": "1"},
    }


class Client:
    """A running server and its two pipes; every line that comes out must be JSON-RPC."""

    def __init__(
        self, argv: Sequence[str] = (sys.executable, str(FAMILY), "stdio"), **options: object
    ) -> None:
        self.process = forking.Popen(
            [*argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **{"stderr": subprocess.DEVNULL, **options},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        self._lines: queue.SimpleQueue[dict | list[dict] | None] = queue.SimpleQueue()
        self.garbage: list[bytes] = []
        self.aside: list[dict] = []  # what came while waiting for something else
        self._next = 0
        self._reader = threading.Thread(target=self._pump, daemon=True)
        self._reader.start()

    def _pump(self) -> None:
        for line in self._stdout:
            try:
                said = json.loads(line)
                assert said != []
                for message in said if isinstance(said, list) else [said]:
                    assert message["jsonrpc"] == "2.0"
                    assert ("method" in message) != ("id" in message)
                self._lines.put(said)
            except (ValueError, AssertionError, TypeError, KeyError):
                self.garbage.append(line)
        self._lines.put(None)

    def send(self, line: bytes) -> None:
        self._stdin.write(line + b"\n")
        self._stdin.flush()

    def ask(
        self, method: str, params: dict | None = None, id: int | str | None = None
    ) -> int | str:
        self._next += 1
        id = f"q{self._next}" if id is None else id
        message = {"jsonrpc": "2.0", "id": id, "method": method} | (
            {} if params is None else {"params": params}
        )
        self.send(json.dumps(message).encode())
        return id

    def notify(self, method: str, params: dict | None = None) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}}).encode())

    def take(self, seconds: float = WAIT_SECONDS) -> dict | None:
        """The next message; None at the end. The answers to a batch go aside."""
        while isinstance(said := self._lines.get(timeout=seconds), list):
            self.aside.extend(said)
        return said

    def take_batch(self) -> list[dict]:
        """The next answers to a batch, by their ids as text; the messages before go aside."""
        while not isinstance(said := self._lines.get(timeout=WAIT_SECONDS), list):
            assert said is not None, "the server ended"
            self.aside.append(said)
        return sorted(said, key=lambda answer: str(answer["id"]))

    def answer(self, id: int | str, seconds: float = WAIT_SECONDS) -> dict:
        """The message that answers a request; the others go aside."""
        deadline = time.monotonic() + seconds
        while True:
            message = self.take(max(0.01, deadline - time.monotonic()))
            assert message is not None, "the server ended"
            if message.get("id") == id and "method" not in message:
                return message
            self.aside.append(message)

    def request(self, method: str, params: dict | None = None) -> dict:
        return self.answer(self.ask(method, params))

    def call(self, tool: str, arguments: dict | None = None, **meta: object) -> dict:
        params: dict = {"name": tool, "arguments": arguments or {}}
        return self.request("tools/call", params | ({"_meta": meta} if meta else {}))

    def initialize(self, version: str = "2025-11-25") -> dict:
        who = {"name": "foreign", "version": "1"}
        result = self.request(
            "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": who}
        )
        self.notify("notifications/initialized")
        return result

    def wait_for(self, method: str) -> dict:
        """The next notification of that method."""
        while True:
            message = self.take()
            assert message is not None, "the server ended"
            if message.get("method") == method:
                return message
            self.aside.append(message)

    def close(self) -> int:
        """Close stdin and wait for the end; gives the exit code."""
        if not self._stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._stdin.close()
        return self.process.wait(WAIT_SECONDS)

    def signal(self, number: int) -> float:
        """Send a signal; gives the seconds until the process ended."""
        start = time.monotonic()
        os.kill(self.process.pid, number)
        self.process.wait(WAIT_SECONDS)
        return time.monotonic() - start

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait()
        if not self._stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._stdin.close()
        self._reader.join(WAIT_SECONDS)
        self._stdout.close()
