"""What cortexd does at the moments of a session: tells what is known of the project, sees that what
hooks brought is taken in.

The library is opened for it where it isn't, and stays open for a while. Its keeper takes the inbox
in, since two who did that at once would remember twice; here is only seen that there is a keeper.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.base.settings import Settings
from cortex.engine.library import Library
from cortex.engine.library_session import library_settings
from cortex.engine.pool import EnginePool
from cortex.engine.store import STORE_NAME
from cortex.families.memory.databases import databases
from cortex.families.memory.hook_inbox import is_waiting
from cortex.families.memory.session_brief import tell
from cortex.families.memory.session_context import context_of
from cortex.interfaces.daemon.hook import MOST_CHARACTERS, START
from cortex.interfaces.daemon.server import SessionEvent, SessionEventHandler

MOST = 12  # memories of the project, and of others, at a session's start
# For what was just written elsewhere: a session doesn't wait while a database is copied
FRESH_SECONDS = 0.05
TAKE_SECONDS = 30.0  # that the library is held open for its keeper to take the inbox in
POLL_SECONDS = 0.05
_holding = threading.Lock()

log = logging.getLogger(__name__)


def moments(engines: EnginePool) -> SessionEventHandler:
    """What is said at a moment, with the settings of the client's variables."""

    def say(moment: SessionEvent) -> str:
        settings = library_settings(moment.variables, shared=True)
        if moment.event == START:
            return _start(engines, settings, moment.cwd)
        take_in_soon(engines, settings)
        return ""

    return say


def take_in_soon(engines: EnginePool, settings: Settings) -> None:
    """Have the inbox taken in, if there is something in it; in a thread that nobody waits for when
    all is ending.
    """
    if is_waiting(settings.home):
        threading.Thread(
            target=_hold_open, args=(engines, settings), name="inbox", daemon=True
        ).start()


def _start(engines: EnginePool, settings: Settings, cwd: str) -> str:
    """What is known of the project; a library is not made for it."""
    if not ((settings.home / STORE_NAME).is_file() or databases(settings)) or not os.path.isabs(
        cwd
    ):
        return ""
    with _open(engines, settings) as library:
        context = context_of(library.reader, Path(cwd), most=MOST, fresh=FRESH_SECONDS, looking=0.0)
        return tell(context, MOST_CHARACTERS)


def _hold_open(engines: EnginePool, settings: Settings) -> None:
    """Keep the library open until its keeper, or whoever has the lease, has emptied the inbox."""
    if not _holding.acquire(blocking=False):  # the one who does sees what came now, too
        return
    deadline = time.monotonic() + TAKE_SECONDS
    try:
        with _open(engines, settings):
            while is_waiting(settings.home) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
    except CortexError as error:
        log.warning("the inbox waits: %s", error.message)
    finally:
        _holding.release()


@contextmanager
def _open(engines: EnginePool, settings: Settings) -> Iterator[Library]:
    lent = engines.borrow(settings.home, settings)
    try:
        with engines.use(lent, wait=False) as engine:
            assert isinstance(engine, Library)
            yield engine
    finally:
        engines.give_back(lent)
