"""Lines over the process's own stdin and stdout, protected from stray prints.

Reading and writing have a daemon thread each, because a blocked read of stdin can't be cancelled
and a client that doesn't read must not stop the loop. Threads and loop communicate through plain
queues: the facilities of the async libraries take twice the time. It knows nothing about the
content of the lines and works the same on Windows.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from cortex.interfaces.transports.thread_pool import call_on_loop

log = logging.getLogger(__name__)

CHUNK_BYTES = 65_536
# Chunks that are read before the loop has taken them.
CHUNKS_AHEAD = 2


@dataclass(frozen=True, slots=True)
class Stdio:
    """Private descriptors of the original stdin and stdout."""

    read: int
    write: int


def claim() -> Stdio:
    """Take over stdin and stdout for the protocol.

    From now on `print` goes to stderr, and child processes read nothing.
    """
    if sys.stdout is not None:
        sys.stdout.flush()
    claimed = Stdio(os.dup(0), os.dup(1))
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 0)
    try:
        os.dup2(2, 1)
    # The process was started without a stderr.
    except OSError:
        os.dup2(devnull, 1)
    os.close(devnull)
    return claimed


async def chunks(stdio: Stdio) -> AsyncIterator[bytes]:
    """Yield the bytes of stdin as they arrive, until its end."""
    arrived: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(CHUNKS_AHEAD)
    pump = (stdio.read, room, asyncio.get_running_loop(), arrived.put_nowait)
    threading.Thread(target=_pump, args=pump, name="stdin", daemon=True).start()
    while chunk := await arrived.get():
        room.release()
        yield chunk


def _pump(
    descriptor: int,
    room: threading.Semaphore,
    loop: asyncio.AbstractEventLoop,
    put: Callable[[bytes], None],
) -> None:
    """Read chunks and hand them to the loop; an empty one is the end."""
    chunk = b"more"
    while chunk:
        room.acquire()
        try:
            chunk = os.read(descriptor, CHUNK_BYTES)
        except OSError as error:
            log.debug("reading stdin ended: %s", error)
            chunk = b""
        if not call_on_loop(loop, put, chunk):
            return


def writing(stdio: Stdio) -> Callable[[bytes], Awaitable[None]]:
    """Return a function that writes whole lines to stdout, in order.

    A line is written even if the wait for it is cancelled. The function raises OSError once the
    reader is gone.
    """
    loop = asyncio.get_running_loop()
    lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
    threading.Thread(
        target=_write, args=(stdio.write, lines, loop), name="stdout", daemon=True
    ).start()

    async def write_line(line: bytes) -> None:
        written = loop.create_future()
        lines.put((line, written))
        await written

    return write_line


def _write(
    descriptor: int,
    lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]],
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Write lines for as long as the loop runs."""
    alive = True
    while alive:
        line, written = lines.get()
        failed: OSError | None = None
        try:
            _write_all(descriptor, line + b"\n")
        except OSError as error:
            failed = error
        alive = call_on_loop(loop, _complete, written, failed)


def _complete(written: asyncio.Future[None], failed: OSError | None) -> None:
    if written.cancelled():
        return
    if failed is None:
        written.set_result(None)
    else:
        written.set_exception(failed)


def _write_all(descriptor: int, rest: bytes) -> None:
    view = memoryview(rest)
    while view:
        view = view[os.write(descriptor, view) :]
