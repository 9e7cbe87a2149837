"""MCP on stdin and stdout, until the client closes stdin, disappears or sends a signal."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import anyio
from mcp.server.lowlevel.server import Server

from cortex.interfaces.transports.jsonrpc import split_lines
from cortex.interfaces.transports.mcp.line_server import serve_lines
from cortex.interfaces.transports.mcp.server import CORTEX, Identity, make_server
from cortex.interfaces.transports.mcp.std_streams import Stdio, chunks, claim, writing
from cortex.interfaces.transports.thread_pool import ThreadPool, end, leave_soon
from cortex.toolkit.tool import Family


def serve_stdio(
    families: Sequence[Family], stdio: Stdio | None = None, identity: Identity = CORTEX
) -> int:
    """Serve the families on stdin and stdout and close them; return the exit code.

    `stdio` comes from `claim()`, for a caller that claimed early so that opening the families could
    not print.
    """
    threads = ThreadPool()
    anyio.run(_serve, make_server(families, threads, identity), stdio or claim())
    return end(families, threads)


async def _serve(server: Server[Any], stdio: Stdio) -> None:
    loop = asyncio.get_running_loop()
    with anyio.CancelScope() as scope, _woken_by_signals(loop):

        def stop(signum: int, frame: FrameType | None) -> None:
            leave_soon()
            # The loop has ended already.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(scope.cancel)

        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, stop)
        await serve_lines(server, split_lines(chunks(stdio)), writing(stdio))
        # An unread line still blocks the writer thread.
        leave_soon()


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let every signal wake the loop.

    A signal just before the loop goes to sleep would otherwise wait for the next event.
    """
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.setblocking(False)
        try:
            loop.add_reader(near, near.recv, 64)
        # On Windows the loop does this itself.
        except NotImplementedError:
            yield
            return
        before = signal.set_wakeup_fd(far.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(near)
