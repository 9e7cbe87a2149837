"""A real Daemon with a scripted handler of session events: `hooked_daemon.py SOCKET TOKEN`."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading

from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.interfaces.assembly.families import SharedResources
from cortex.interfaces.assembly.pool import engine_pool
from cortex.interfaces.daemon.server import (
    ClientRefused,
    ClientSession,
    Daemon,
    Hello,
    SessionEvent,
)


def open_nothing(hello: Hello) -> ClientSession:
    raise ClientRefused("nothing is served here", 1)


def handle_session_event(session_event: SessionEvent) -> str:
    if session_event.event == "raise":
        raise ValueError(session_event.variables["ACK_KEY"])
    if session_event.event == "wait":
        threading.Event().wait(60)  # longer than any caller waits
    return f"{session_event.event} in {session_event.cwd}"


async def serve(path: str, token: str) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(8)
    print("listens", flush=True)
    await Daemon(
        listener,
        open_nothing,
        handle_session_event,
        SharedResources(engine_pool(keep=False), ChunkIndexPool()),
        idle=0,
        memory=0,
        token=token,
    ).run(lambda: True)


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
