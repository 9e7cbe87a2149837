"""Background sync of cortexd's home with the team's Core, after writes and periodically.

Runs in its own thread, since the Core may be slow and the library's keeper must not wait for it.
`Pace` decides when a sync is due, and `cortex.families.team.sync` does it; this module only runs it
and stops it with cortexd. A home without a Core costs two checks of one file per second. The
outbox is read only when the store's files have changed.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from cortex.base.errors import Cancelled, CortexError
from cortex.base.runtime.sqlite_file_state import needs_reread, state_of
from cortex.base.settings import Settings, load
from cortex.base.types import Cancel
from cortex.engine.library import Library
from cortex.engine.library_session import borrowed_library
from cortex.engine.pool import EnginePool
from cortex.engine.store import STORE_NAME, Store
from cortex.families.team.sync import connection, cycle, state
from cortex.families.team.sync.backoff import Pace
from cortex.families.team.sync.client import Remote
from cortex.families.team.sync.cycle import FAILED, SyncOutcome

LOOK_SECONDS = 0.5  # between two checks for a due sync
# For a running sync at shutdown. Cutting it off loses nothing.
CLOSE_SECONDS = 0.5

log = logging.getLogger(__name__)


class Syncing:
    """Worker that syncs one home until it is closed."""

    def __init__(self, engines: EnginePool, home: Path, *, skip_first: bool = False) -> None:
        self._engines = engines
        self._home = home
        self._skip_first = skip_first
        self._cancel = Cancel()
        self._closing = threading.Event()
        self._remote: Remote | None = None  # of the running sync
        self._pace: Pace | None = None  # None if the home has no Core
        self._seen: tuple[int, ...] = ()  # state of the store's files at the last read
        self._seen_at = 0.0
        self._waiting = 0
        self._last: SyncOutcome | None = None
        self._thread = threading.Thread(target=self._run, name="sync", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop, also during a sync; don't wait long for a response of the Core."""
        self._cancel.cancel()
        self._closing.set()
        remote = self._remote
        if remote is not None:
            remote.close()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def has_work(self) -> bool:
        """True if cortexd should stay alive to send waiting writes.

        Not after a failure that only a person can resolve.
        """
        pace, last = self._pace, self._last
        return (
            pace is not None
            and pace.every > 0
            and bool(self._waiting)
            and (last is None or last.status != FAILED)
        )

    # -- the thread

    def _run(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            try:
                self._look()
            except Cancelled:
                return
            except CortexError as error:
                self._record_failure(error.message)
            # Keep the background thread alive: the next check starts afresh.
            except Exception:
                # Closing has closed its resources.
                if self._closing.is_set():
                    return
                log.exception("syncing %s failed", self._home)
                self._record_failure("it failed unexpectedly; the log has more")

    def _look(self) -> None:
        """Sync if that is due."""
        if not connection.has_token(self._home):
            self._pace, self._waiting, self._seen = None, 0, ()
            return
        self._ask_store()
        if self._pace is not None and self._pace.is_due(time.monotonic(), self._waiting):
            self._sync()

    def _ask_store(self) -> None:
        """Read the connection and the outbox if the store's files have changed."""
        files, now = state_of(self._home / STORE_NAME), time.time()
        if not files or (files == self._seen and not needs_reread(files, self._seen_at, now)):
            return
        self._seen, self._seen_at = files, now
        with closing(Store(self._home, read_only=True)) as store:
            connected = bool(store.content.get(state.URL))
            self._waiting = store.outbox.count()[0] if connected else 0
        if not connected:
            self._pace = None
        elif self._pace is None:
            every = self._settings().team.sync_seconds
            first = time.monotonic() + every if self._skip_first else 0.0
            self._pace = Pace(every, due=first, waiting=self._waiting if self._skip_first else 0)
            self._skip_first = False

    def _sync(self) -> None:
        """Run one sync. Raises: CortexError, Cancelled."""
        # Loaded anew, because they may have changed.
        settings = self._settings()
        try:
            with (
                borrowed_library(self._engines, settings) as library,
                closing(_remote_of(library)) as self._remote,
            ):
                outcome = cycle.sync(library, self._remote, cancel=self._cancel)
        finally:
            self._remote = None
        self._record(outcome, settings.team.sync_seconds)

    def _record(self, outcome: SyncOutcome, every: float) -> None:
        """Log the outcome and schedule the next sync."""
        changed = self._last is None or (self._last.status, self._last.error) != (
            outcome.status,
            outcome.error,
        )
        if changed or outcome.flushed or outcome.refused or outcome.pulled or outcome.erased:
            log.info(
                "synced: %s, %d sent, %d refused, %d came, %d left, %d wait%s",
                *(
                    outcome.status,
                    outcome.flushed,
                    outcome.refused,
                    outcome.pulled,
                    outcome.erased,
                    outcome.waiting,
                ),
                f": {outcome.error}" if outcome.error else "",
            )
        self._last, self._waiting = outcome, outcome.waiting
        pace = self._pace or Pace(every)
        self._pace = replace(pace, every=every).after(outcome, time.monotonic(), random.random())

    def _record_failure(self, message: str) -> None:
        """Record a sync that couldn't start: no token, no disk, no store."""
        if self._pace is not None:
            self._record(
                SyncOutcome(FAILED, waiting=self._waiting, error=message), self._pace.every
            )

    def _settings(self) -> Settings:
        return load(None, environment={"CORTEX_HOME": str(self._home)})


def _remote_of(library: Library) -> Remote:
    """Open the Core of a home, and store an error for the status. Raises: CortexError."""
    try:
        return connection.remote_of(library)
    except CortexError as error:
        if library.store.content.get(state.URL):
            library.store.content.set({state.ERROR: error.message, state.CODE: error.code})
        raise
