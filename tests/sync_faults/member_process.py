"""A team member as a process: their and their agent's writes, and a sync in the background.

Answers lines of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from cortex.base.errors import CortexError
from cortex.base.settings import Settings
from cortex.base.types import Mode
from cortex.engine.library import Library
from cortex.families.team.inbox import inbox
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.sync import state
from cortex.families.team.sync.client import Remote
from cortex.families.team.sync.connection import connect, remote_of
from cortex.families.team.sync.cycle import sync
from families.memory.libraries import open_library, settings_of
from sync_faults import member_writes

# Between two syncs
SYNC_PAUSE_SECONDS = 0.05


def main(link: socket.socket, asked: dict[str, Any]) -> None:
    if skew := asked["skew"]:
        _skew_clock(skew)
    settings = settings_of(Path(asked["home"]), CORTEX_TEAM_AGENT_TIER="2")
    link.sendall(b"{}\n")
    if asked["syncs"]:
        _serve(link, settings)
        return
    for line in link.makefile("r", encoding="utf-8"):
        # Opened for each line as commands do, so that cortexd has it in between
        with open_library(settings) as library:
            _send(link, answer(library, json.loads(line)))


def _serve(link: socket.socket, settings: Settings) -> None:
    """Keep the library open as cortexd does, and sync in the background."""
    with open_library(settings) as library:
        busy = threading.Event()
        threading.Thread(target=_sync_while_busy, args=(library, busy), daemon=True).start()
        for line in link.makefile("r", encoding="utf-8"):
            asked = json.loads(line)
            # Every other request wants quiet
            (busy.set if "write" in asked else busy.clear)()
            _send(link, answer(library, asked))


def _send(link: socket.socket, message: Mapping[str, object]) -> None:
    link.sendall(json.dumps(message).encode() + b"\n")


def answer(library: Library, asked: dict[str, Any]) -> Mapping[str, object]:
    """Do a request and return its result."""
    if request := asked.get("write"):
        try:
            made = member_writes.apply(library, request)
        except CortexError as error:
            return {"error": error.code, "message": error.message}
        if asked.get("dies"):
            os.kill(os.getpid(), signal.SIGKILL)
        return {"id": made}
    if query := asked.get("find"):
        page = find(library, RecordQuery(str(query), mode=Mode.WORDS))
        return {"ids": [hit.record.id for hit in page.hits]}
    if asked.get("inbox"):
        waiting = inbox(library, None, limit=1000).entries
        return {
            "alerts": [
                (entry.about, f"{entry.title} {entry.why}")
                for entry in waiting
                if entry.type == "system_alert"
            ]
        }
    if asked.get("check"):
        return {"followed": library.follow(), "wrong": library.store.check()}
    if url := asked.get("connect"):
        try:
            connect(library, str(url), asked["token"])
        except CortexError as error:
            return {"error": error.code, "message": error.message}
        return {}
    outcome = sync(library, _remote(library))
    return asdict(outcome) | {"cursor": library.store.content.get(state.CURSOR)}


def _skew_clock(skew: float) -> None:
    """Set the clock of this process ahead by so many seconds."""
    now, now_ns = time.time, time.time_ns
    time.time, time.time_ns = (lambda: now() + skew), (lambda: now_ns() + int(skew * 1e9))


@cache
def _remote(library: Library) -> Remote:
    return remote_of(library)


def _sync_while_busy(library: Library, busy: threading.Event) -> None:
    """Sync again and again while there is work, whatever the last sync came to."""
    while busy.wait():
        time.sleep(SYNC_PAUSE_SECONDS)
        if library.store.content.get(state.URL):
            sync(library, _remote(library))
