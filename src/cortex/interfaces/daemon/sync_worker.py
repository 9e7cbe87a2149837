"""cortexd brings its home and the team's Core together in the background: soon after a write, and
every now and then.

A thread of its own, since the Core may be slow and the keeper of the library may not wait for it.
When a sync is due is `Pace`'s to say, and what one does is known in `cortex.families.team.sync`;
here is only seen that it happens, and that it ends with cortexd. A home without a Core costs a look
at one file a second. Whether something new waits is asked of the store when its file has changed.
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
from cortex.base.runtime.sqlite_file_state import may_lack, state_of
from cortex.base.settings import Settings, load
from cortex.base.types import Cancel
from cortex.engine.library import Library
from cortex.engine.pool import EnginePool
from cortex.engine.store import STORE_NAME, Store
from cortex.families.team.sync import connection, cycle, state
from cortex.families.team.sync.backoff import Pace
from cortex.families.team.sync.client import Remote
from cortex.families.team.sync.cycle import FAILED, SyncOutcome

LOOK_SECONDS = 0.5  # between two looks whether something is to be done
CLOSE_SECONDS = 0.5  # for a sync under way when the end comes; one that is cut off costs nothing

log = logging.getLogger(__name__)


class Syncing:
    """Syncs one home until it is closed."""

    def __init__(self, engines: EnginePool, home: Path, *, skip_first: bool = False) -> None:
        self._engines = engines
        self._home = home
        self._skip_first = skip_first
        self._cancel = Cancel()
        self._closing = threading.Event()
        self._remote: Remote | None = None  # of the sync under way
        self._pace: Pace | None = None  # None where the home has no Core
        self._seen: tuple[int, ...] = ()  # how the store's files were when it was last asked
        self._seen_at = 0.0
        self._waiting = 0
        self._last: SyncOutcome | None = None
        self._thread = threading.Thread(target=self._go_on, name="sync", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End, in the middle of a sync, too; one that still waits for the Core's answer isn't
        waited for.
        """
        self._cancel.cancel()
        self._closing.set()
        remote = self._remote
        if remote is not None:
            remote.close()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def has_work(self) -> bool:
        """Whether writes wait that will be sent: cortexd stays for them, though not where only a
        person can help.
        """
        pace, last = self._pace, self._last
        return (
            pace is not None
            and pace.every > 0
            and bool(self._waiting)
            and (last is None or last.status != FAILED)
        )

    # -- the thread
    # ----------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            try:
                self._look()
            except Cancelled:
                return
            except CortexError as error:
                self._failed(error.message)
            # A background thread's last line of defence: the next look starts afresh
            except Exception:
                if self._closing.is_set():  # what it worked with was closed meanwhile
                    return
                log.exception("syncing %s failed", self._home)
                self._failed("it failed unexpectedly; the log has more")

    def _look(self) -> None:
        """Sync, if that is due."""
        if not connection.has_token(self._home):
            self._pace, self._waiting, self._seen = None, 0, ()
            return
        self._ask_store()
        if self._pace is not None and self._pace.is_due(time.monotonic(), self._waiting):
            self._sync()

    def _ask_store(self) -> None:
        """Learn whether there is a Core, and what waits, where the store has changed."""
        files, now = state_of(self._home / STORE_NAME), time.time()
        if not files or (files == self._seen and not may_lack(files, self._seen_at, now)):
            return
        self._seen, self._seen_at = files, now
        with closing(Store(self._home, read_only=True)) as store:
            connected = bool(store.truth.get(state.URL))
            self._waiting = store.outbox.count()[0] if connected else 0
        if not connected:
            self._pace = None
        elif self._pace is None:
            every = self._settings().team.sync_seconds
            first = time.monotonic() + every if self._skip_first else 0.0
            self._pace = Pace(every, due=first, waiting=self._waiting if self._skip_first else 0)
            self._skip_first = False

    def _sync(self) -> None:
        """One sync. Raises: CortexError, Cancelled."""
        settings = self._settings()  # as they are now
        lent = self._engines.borrow(settings.home, settings)
        try:
            with self._engines.use(lent, wait=False) as engine:
                assert isinstance(engine, Library)
                with closing(_remote_of(engine)) as self._remote:
                    outcome = cycle.sync(engine, self._remote, cancel=self._cancel)
        finally:
            self._remote = None
            self._engines.give_back(lent)
        self._note(outcome, settings.team.sync_seconds)

    def _note(self, outcome: SyncOutcome, every: float) -> None:
        """Remember how it went, and when the next one is due."""
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

    def _failed(self, message: str) -> None:
        """Nothing could be tried at all: no token, no disk, no store."""
        if self._pace is not None:
            self._note(SyncOutcome(FAILED, waiting=self._waiting, error=message), self._pace.every)

    def _settings(self) -> Settings:
        return load(None, environment={"CORTEX_HOME": str(self._home)})


def _remote_of(library: Library) -> Remote:
    """The Core of a home; why nothing can be sent to it is told by status, too.

    Raises: CortexError.
    """
    try:
        return connection.remote_of(library)
    except CortexError as error:
        if library.store.truth.get(state.URL):
            library.store.truth.set({state.ERROR: error.message, state.CODE: error.code})
        raise
