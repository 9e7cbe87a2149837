"""The process's own stdin and stdout as lines, out of reach of any stray print.

Reading and writing are a daemon thread each, because a blocked read of stdin can't be cancelled and
a client that doesn't read must not stop the loop. Threads and loop hand over through plain queues:
what the async libraries offer for it takes twice the time. It knows nothing of what the lines say
and works the same on Windows.
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

from cortex.interfaces.transports.thread_pool import soon

log = logging.getLogger(__name__)

CHUNK_BYTES = 65_536
CHUNKS_AHEAD = 2  # read before the loop has taken them


@dataclass(frozen=True, slots=True)
class Stdio:
    """Private descriptors of what was stdin and stdout."""

    read: int
    write: int


def claim() -> Stdio:
    """Take stdin and stdout for the protocol: from now on `print` goes to stderr, and children read
    nothing.
    """
    if sys.stdout is not None:
        sys.stdout.flush()
    taken = Stdio(os.dup(0), os.dup(1))
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a stderr
        os.dup2(nowhere, 1)
    os.close(nowhere)
    return taken


async def chunks(stdio: Stdio) -> AsyncIterator[bytes]:
    """What arrives on stdin, as it arrives, until its end."""
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
    """Read and hand over one chunk after the other; an empty one is the end."""
    chunk = b"more"
    while chunk:
        room.acquire()
        try:
            chunk = os.read(descriptor, CHUNK_BYTES)
        except OSError as error:
            log.debug("reading stdin ended: %s", error)
            chunk = b""
        if not soon(loop, put, chunk):
            return


def writing(stdio: Stdio) -> Callable[[bytes], Awaitable[None]]:
    """A function that writes a line to stdout, whole and after those before, even if nobody waits
    for it to be written.

    It raises OSError once nobody reads.
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
    """Write one line after the other for as long as there is a loop that has some."""
    alive = True
    while alive:
        line, written = lines.get()
        failed: OSError | None = None
        try:
            _write_all(descriptor, line + b"\n")
        except OSError as error:
            failed = error
        alive = soon(loop, _settle, written, failed)


def _settle(written: asyncio.Future[None], failed: OSError | None) -> None:
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
