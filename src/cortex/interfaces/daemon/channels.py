"""Channels from the shim to a server, and their line framing. Standard library only."""

from __future__ import annotations

import contextlib
import os
import select
import sys

# Type checkers know the name. Importing `typing` takes longer than everything else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Sequence

# Longer lines are passed on without parsing: cortexd rejects them.
MAX_LINE_BYTES = 10 * 1024 * 1024
CHUNK_BYTES = 65_536
# Time for a child to exit after it closed its stdout.
CHILD_SECONDS = 10.0


class Channel:
    """Byte stream to a server."""

    def read(self) -> bytes:
        """Read the next bytes, b"" at the end."""
        raise NotImplementedError

    def write(self, raw: bytes) -> None:
        """Send all of it. Raises: OSError or ValueError, if the channel is closed."""
        raise NotImplementedError

    def is_ready(self, seconds: float) -> bool:
        """Wait for something to read; false on a timeout."""
        return True

    def end(self) -> None:
        """Signal that no more requests follow."""

    def close(self) -> int:
        """Close the channel, and return the exit code if it was a process."""
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
        # Shut down rather than closed: a thread that is about to write must not hit another socket
        # with the same descriptor. It is closed when it is garbage-collected.
        with contextlib.suppress(OSError):
            self._raw.shutdown(2)
        return 0


class ChildLink(Channel):
    """Server in a child process; it ends with this one, which alone holds the pipe to its stdin."""

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
    """Command line of a server without cortexd.

    `-P` keeps a folder named `cortex` in the working directory from being imported.
    """
    return [sys.executable, "-P", "-m", "cortex", "mcp", "--no-sidecar", *arguments]


def client_lines(read: Callable[[], bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield lines until `read` ends, each with true; parts of over-long lines come with false."""
    parts: list[bytes] = []
    size, cut = 0, False
    while chunk := _read_or_end(read):
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
    """Yield a server's lines of any length; an unfinished last line is dropped."""
    parts: list[bytes] = []
    while chunk := _read_or_end(read):
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*parts, line))
            parts = []
        parts.append(rest)


def write_all(descriptor: int, rest: bytes) -> None:
    """Write all of it. Raises: OSError, if the reader is gone."""
    view = memoryview(rest)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_or_end(read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except OSError:
        return b""
