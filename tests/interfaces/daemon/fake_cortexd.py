"""A scripted cortexd: takes the hello of a shim, reads its lines, answers and dies on cue."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

WAIT_SECONDS = 30.0


class Connection:
    """A welcomed connection of a shim."""

    def __init__(self, raw: socket.socket, **welcome: object) -> None:
        self._raw = raw
        raw.settimeout(WAIT_SECONDS)
        self._lines = raw.makefile("rb")
        self.hello = self.hear()
        self.say({"version": "0", "messages": [], **welcome})

    def hear(self) -> dict:
        """The next line; {} at the end."""
        line = self._lines.readline()
        return json.loads(line) if line else {}

    def hears_nothing_more(self) -> bool:
        """Check that nothing arrives for a moment."""
        self._raw.settimeout(0.15)
        try:
            return self._raw.recv(1, socket.MSG_PEEK) == b""
        except TimeoutError:
            return True
        finally:
            self._raw.settimeout(WAIT_SECONDS)

    def say(self, body: object) -> None:
        self.write(json.dumps(body).encode() + b"\n")

    def write(self, raw: bytes) -> None:
        self._raw.sendall(raw)

    def answer(self, request: dict, result: object = None) -> None:
        self.say(
            {"jsonrpc": "2.0", "id": request["id"], "result": {} if result is None else result}
        )

    def die(self) -> None:
        self._lines.close()
        self._raw.close()


class FakeCortexd:
    """Listener at the socket of cortexd."""

    def __init__(self, path: str, again: tuple[str, ...] = ("search_code",)) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        os.chmod(Path(path).parent, 0o700)
        self._again = again
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(8)
        self._listener.settimeout(WAIT_SECONDS)
        self._taken: list[Connection] = []

    def accept(self, **welcome: object) -> Connection:
        """Welcome the next shim, with these fields added to the welcome."""
        raw = self._listener.accept()[0]
        self._taken.append(Connection(raw, **{"again": list(self._again), **welcome}))
        return self._taken[-1]

    def refuse(self, welcome: dict | None) -> dict:
        """Return the hello of the next shim; answer it with `welcome` or nothing, and hang up."""
        raw = self._listener.accept()[0]
        with raw, raw.makefile("rb") as lines:
            hello = json.loads(lines.readline())
            if welcome is not None:
                raw.sendall(json.dumps(welcome).encode() + b"\n")
        return hello

    def next_says(self) -> bytes:
        """Return the first line of the next connection, empty if it hangs up."""
        raw = self._listener.accept()[0]
        with raw, raw.makefile("rb") as lines:
            return lines.readline()

    def no_connection_comes(self) -> bool:
        self._listener.settimeout(0.2)
        try:
            self._listener.accept()[0].close()
            return False
        except TimeoutError:
            return True
        finally:
            self._listener.settimeout(WAIT_SECONDS)

    def close(self) -> None:
        for connection in self._taken:
            connection.die()
        self._listener.close()
