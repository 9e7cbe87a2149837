"""Handlers of session events: brief a starting session, and have the hook inbox processed.

The library is opened for an event if needed, and stays open for a while. Only its keeper processes
the inbox, since two processes would store each memory twice; this module only makes sure that there
is a keeper.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.base.settings import Settings
from cortex.engine.library_session import borrowed_library, library_settings
from cortex.engine.pool import EnginePool
from cortex.engine.store import STORE_NAME
from cortex.families.memory.databases import databases
from cortex.families.memory.hook_inbox import is_waiting
from cortex.families.memory.session_brief import brief_text
from cortex.families.memory.session_context import context_of
from cortex.interfaces.daemon.hook import MOST_CHARACTERS, START
from cortex.interfaces.daemon.server import SessionEvent, SessionEventHandler

# Memories of the project, and of other projects, in the brief of a session.
MOST = 12
# For memories just written elsewhere: a session doesn't wait while a database is copied.
FRESH_SECONDS = 0.05
TAKE_SECONDS = 30.0  # for the keeper to process the inbox
POLL_SECONDS = 0.05
_holding = threading.Lock()

log = logging.getLogger(__name__)


def session_event_handler(engines: EnginePool) -> SessionEventHandler:
    """Make the event handler, which uses the settings of the client's variables."""

    def say(event: SessionEvent) -> str:
        settings = library_settings(event.variables, shared=True)
        if event.event == START:
            return _brief(engines, settings, event.cwd)
        take_in_soon(engines, settings)
        return ""

    return say


def take_in_soon(engines: EnginePool, settings: Settings) -> None:
    """Process the inbox in a daemon thread if it has files."""
    if is_waiting(settings.home):
        threading.Thread(
            target=_hold_open, args=(engines, settings), name="inbox", daemon=True
        ).start()


def _brief(engines: EnginePool, settings: Settings, cwd: str) -> str:
    """Render the brief about the project; no library is created for it."""
    if not ((settings.home / STORE_NAME).is_file() or databases(settings)) or not os.path.isabs(
        cwd
    ):
        return ""
    with borrowed_library(engines, settings) as library:
        context = context_of(library.reader, Path(cwd), most=MOST, fresh=FRESH_SECONDS, looking=0.0)
        return brief_text(context, MOST_CHARACTERS)


def _hold_open(engines: EnginePool, settings: Settings) -> None:
    """Keep the library open until its keeper or the holder of the lease has emptied the inbox."""
    # Another thread does this already and will see the new files.
    if not _holding.acquire(blocking=False):
        return
    deadline = time.monotonic() + TAKE_SECONDS
    try:
        with borrowed_library(engines, settings):
            while is_waiting(settings.home) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
    except CortexError as error:
        log.warning("the inbox waits: %s", error.message)
    finally:
        _holding.release()
