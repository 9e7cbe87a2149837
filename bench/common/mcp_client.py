"""A small MCP client on a server's stdio, from the standard library alone."""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

CALL_SECONDS = 120.0
CLOSE_SECONDS = 10.0
REVISION = "2025-06-18"


class RpcError(RuntimeError):
    """The server answered with an error instead of a result."""

    def __init__(self, error: dict) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code = error.get("code")


class Session:
    """A running server, after its handshake."""

    def __init__(
        self, command: Sequence[str], environment: dict[str, str], folder: Path | None = None
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed in `close`
        self.server = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._number = 0
        self.notifications: list[dict] = []
        threading.Thread(target=self._read, daemon=True).start()
        client = {
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        self.greeting = self.request("initialize", client)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, object] | None = None) -> dict:
        """The result of a request.

        Raises: RpcError, RuntimeError when the server ended, queue.Empty when it is silent.
        """
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params or {}})
        deadline = time.monotonic() + CALL_SECONDS
        while True:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            if not line:
                raise RuntimeError(f"the server ended during {method}: {self._tail()}")
            message = json.loads(line)
            if message.get("id") == self._number and "method" not in message:
                if "error" in message:
                    raise RpcError(message["error"])
                return message["result"]
            # The server asks for something that we don't offer
            if "id" in message and "method" in message:
                self._send(
                    {
                        "jsonrpc": "2.0",
                        "id": message["id"],
                        "error": {"code": -32601, "message": "not offered"},
                    }
                )
            elif "method" in message:
                self.notifications.append(message)

    def call(self, tool: str, **arguments: object) -> dict:
        """A tool's answer, decoded from JSON. Raises: RuntimeError when the tool failed."""
        return json.loads(self.text(tool, **arguments))

    def text(self, tool: str, **arguments: object) -> str:
        """The text block that a tool answers with. Raises: RuntimeError when the tool failed."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        text = result["content"][0]["text"]
        if result.get("isError"):
            raise RuntimeError(f"{tool} failed: {text[:500]}")
        return text

    def read(self, uri: str) -> dict:
        """A resource's JSON."""
        return json.loads(self.request("resources/read", {"uri": uri})["contents"][0]["text"])

    def wait_until_ready(self) -> dict:
        """Wait until Cortex has compared the folder with its index; its status then."""
        deadline = time.monotonic() + CALL_SECONDS
        while time.monotonic() < deadline:
            status = self.read("codeindex://workspace/status")
            if status["indexing"]["status"] == "ready":
                return status
            time.sleep(0.1)
        raise RuntimeError("Cortex was not ready in time")

    def close(self) -> int:
        """End the server by closing its input; its exit code."""
        assert self.server.stdin is not None and self.server.stdout is not None
        self.server.stdin.close()
        try:
            self.server.wait(timeout=CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        self.server.stdout.close()
        self._errors.close()
        return self.server.returncode

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _send(self, message: dict[str, object]) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(message) + "\n")
        self.server.stdin.flush()

    def _read(self) -> None:
        assert self.server.stdout is not None
        for line in self.server.stdout:
            if line.strip():
                self._lines.put(line)
        self._lines.put("")

    def _tail(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")[-2000:]
