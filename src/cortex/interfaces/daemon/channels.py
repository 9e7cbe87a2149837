"""Ways to a server, and the lines that come over them; standard library only."""

from __future__ import annotations

import contextlib
import os
import select
import sys

TYPE_CHECKING = False  # as checkers know it: loading `typing` takes longer than all else here
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Sequence

MAX_LINE_BYTES = 10 * 1024 * 1024  # longer ones are passed on without a look: cortexd refuses them
CHUNK_BYTES = 65_536
CHILD_SECONDS = 10.0  # for a child that has closed its stdout to end


class Channel:
    """A way to a server."""

    def read(self) -> bytes:
        """What came over it, b"" at its end."""
        raise NotImplementedError

    def write(self, raw: bytes) -> None:
        """Send all of it. Raises: OSError or ValueError, where the way is no more."""
        raise NotImplementedError

    def is_ready(self, seconds: float) -> bool:
        """Wait so long for something to read; false where nothing came."""
        return True

    def end(self) -> None:
        """Say that nothing more will be asked."""

    def close(self) -> int:
        """Let go of it; gives the exit code, where it was a process."""
        return 0


class SocketLink(Channel):
    """A connection to cortexd."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw

    def read(self) -> bytes:
        try:
            return self._raw.recv(CHUNK_BYTES)
        except OSError:
            return b""

    def write(self, raw: bytes) -> None:
        self._raw.sendall(raw)

    def is_ready(self, seconds: float) -> bool:
        return bool(select.select([self._raw], [], [], seconds)[0])

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._raw.shutdown(1)

    def close(self) -> int:
        # Not closed but shut: a thread that is just about to write must not meet the next socket
        # under the same number. It is closed when nobody has it any more.
        with contextlib.suppress(OSError):
            self._raw.shutdown(2)
        return 0


class ChildLink(Channel):
    """A server of our own in a child, which ends when we do: it reads from a pipe that only we
    hold.
    """

    def __init__(self, command: Sequence[str]) -> None:
        import subprocess

        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._child.stdin is not None and self._child.stdout is not None
        self._in, self._out = self._child.stdin, self._child.stdout.fileno()

    def read(self) -> bytes:
        return os.read(self._out, CHUNK_BYTES)

    def write(self, raw: bytes) -> None:
        write_all(self._in.fileno(), raw)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._in.close()

    def close(self) -> int:
        from subprocess import TimeoutExpired

        self.end()
        try:
            return self._child.wait(CHILD_SECONDS)
        except TimeoutExpired:
            self._child.kill()
            return self._child.wait()


def in_process(arguments: Sequence[str]) -> list[str]:
    """The command line of a server that doesn't need cortexd; a folder `cortex` in the working
    directory isn't taken for ours.
    """
    return [sys.executable, "-P", "-m", "cortex", "mcp", "--no-sidecar", *arguments]


def client_lines(read: Callable[[], bytes]) -> Iterator[tuple[bytes, bool]]:
    """The lines that `read` gives until its end, and whether each is whole: one that is too long
    comes in parts.
    """
    parts: list[bytes] = []
    size, cut = 0, False
    while chunk := _attempt(read):
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield (
                (b"".join((*parts, line)), True)
                if not cut
                else (b"".join((*parts, line, b"\n")), False)
            )
            parts, size, cut = [], 0, False
        parts.append(rest)
        size += len(rest)
        if size > MAX_LINE_BYTES:
            yield b"".join(parts), False
            parts, size, cut = [], 0, True
    if any(parts):
        yield b"".join(parts), not cut


def server_lines(read: Callable[[], bytes]) -> Iterator[bytes]:
    """The lines that a server says, however long; what it could not say to its end before it died
    is none.
    """
    parts: list[bytes] = []
    while chunk := _attempt(read):
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*parts, line))
            parts = []
        parts.append(rest)


def write_all(descriptor: int, rest: bytes) -> None:
    """Write all of it. Raises: OSError, where nobody reads."""
    view = memoryview(rest)
    while view:
        view = view[os.write(descriptor, view) :]


def _attempt(read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except OSError:
        return b""
