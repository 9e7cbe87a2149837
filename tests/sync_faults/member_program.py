"""A member of a team as a process: writes as they and their agent do, and syncs in the background
as cortexd does. Spoken to by lines.
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
from sync_faults import deeds

EVERY_SECONDS = 0.05  # between two syncs


def main(link: socket.socket, asked: dict[str, Any]) -> None:
    if skew := asked["skew"]:
        _put_clock(skew)
    settings = settings_of(Path(asked["home"]), CORTEX_TEAM_AGENT_TIER="2")
    link.sendall(b"{}\n")
    if asked["syncs"]:
        _stay(link, settings)
        return
    for line in link.makefile("r", encoding="utf-8"):
        # As each command does, so that cortexd has it in between
        with open_library(settings) as library:
            _say(link, answer(library, json.loads(line)))


def _stay(link: socket.socket, settings: Settings) -> None:
    """Be there as cortexd is, and sync in the background."""
    with open_library(settings) as library:
        busy = threading.Event()
        threading.Thread(target=_sync_on, args=(library, busy), daemon=True).start()
        for line in link.makefile("r", encoding="utf-8"):
            told = json.loads(line)
            # Whoever is asked for something else wants it quiet
            (busy.set if "do" in told else busy.clear)()
            _say(link, answer(library, told))


def _say(link: socket.socket, told: Mapping[str, object]) -> None:
    link.sendall(json.dumps(told).encode() + b"\n")


def answer(library: Library, asked: dict[str, Any]) -> Mapping[str, object]:
    """What comes of what a member is asked for."""
    if told := asked.get("do"):
        try:
            made = deeds.do(library, told)
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
            "told": [
                (one.about, f"{one.title} {one.why}")
                for one in waiting
                if one.type == "system_alert"
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


def _put_clock(skew: float) -> None:
    """Have the clock of this process show another time."""
    now, now_ns = time.time, time.time_ns
    time.time, time.time_ns = (lambda: now() + skew), (lambda: now_ns() + int(skew * 1e9))


@cache
def _remote(library: Library) -> Remote:
    return remote_of(library)


def _sync_on(library: Library, busy: threading.Event) -> None:
    """Sync again and again while there is work; whatever is in the way, the next time may be
    better.
    """
    while busy.wait():
        time.sleep(EVERY_SECONDS)
        if library.store.content.get(state.URL):
            sync(library, _remote(library))
