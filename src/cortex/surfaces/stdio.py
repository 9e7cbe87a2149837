"""The process's own stdin and stdout as lines, out of reach of any stray print.

Reading is a daemon thread, because a blocked read of stdin can't be cancelled; writing is a thread per line, because a client
that doesn't read must not stop the loop. It knows nothing of what the lines say and works the same on Windows.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectSendStream

log = logging.getLogger(__name__)

CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Stdio:
    """Private descriptors of what was stdin and stdout."""

    read: int
    write: int


def claim() -> Stdio:
    """Take stdin and stdout for the protocol: from now on `print` goes to stderr, and children read nothing."""
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
    send, receive = anyio.create_memory_object_stream[bytes](0)
    loop = asyncio.get_running_loop()
    threading.Thread(target=_pump, args=(stdio.read, send, loop), name="stdin", daemon=True).start()
    with send, receive:
        async for chunk in receive:
            if not chunk:
                return
            yield chunk


def _pump(descriptor: int, send: MemoryObjectSendStream[bytes], loop: asyncio.AbstractEventLoop) -> None:
    """Read and hand over one chunk after the other; an empty one is the end."""
    while True:
        try:
            chunk = os.read(descriptor, CHUNK_BYTES)
        except OSError as error:
            log.debug("reading stdin ended: %s", error)
            chunk = b""
        try:
            asyncio.run_coroutine_threadsafe(send.send(chunk), loop).result()
        except (RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError, concurrent.futures.CancelledError):
            return  # nobody reads any more
        if not chunk:
            return


async def write_line(stdio: Stdio, line: bytes) -> None:
    """Write one line. Raises: OSError once nobody reads it."""
    await anyio.to_thread.run_sync(_write_all, stdio.write, line + b"\n", abandon_on_cancel=True)


def _write_all(descriptor: int, rest: bytes) -> None:
    view = memoryview(rest)
    while view:
        view = view[os.write(descriptor, view) :]
