"""A connection to cortexd without a shim."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterable

from cortex.base.runtime.rendezvous import Rendezvous


class RawConnection:
    """Bytes to the socket of cortexd, and its lines."""

    def __init__(self, meeting: Rendezvous) -> None:
        link = meeting.connect()
        assert link is not None, "no cortexd listens"
        self._meeting = meeting
        self._link = link
        self._link.settimeout(30)

    def send(self, raw: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has heard enough
            self._link.sendall(raw)

    def introduce(self, arguments: list[str]) -> dict:
        """Send the hello of a shim; gives the welcome."""
        hello: dict[str, object] = {
            "arguments": arguments,
            "cwd": "/",
            "variables": {},
            "version": "0.0.1",
            "pid": 1,
        }
        welcome = self._meeting.exchange(self._link, hello, 30)
        assert welcome is not None
        return welcome

    def converse(self, lines: Iterable[bytes], last: bytes, seconds: float) -> None:
        """Send the lines while reading JSON-RPC until the last line is answered."""

        def write() -> None:
            for line in lines:
                self._link.sendall(line + b"\n")
            self._link.sendall(last)

        self._link.settimeout(seconds)
        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        wanted = json.loads(last)["id"]
        with self._link.makefile("rb") as answers:
            for line in answers:
                said = json.loads(line)
                for message in said if isinstance(said, list) else [said]:
                    assert message["jsonrpc"] == "2.0"
                    assert ("method" in message) != ("id" in message)
                if isinstance(said, dict) and said.get("id") == wanted:
                    break
            else:
                raise AssertionError("cortexd ended the connection")
        writer.join(5)

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *exc: object) -> None:
        self._link.close()
