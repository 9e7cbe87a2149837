"""Daily snapshot of a home, made in the background."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from cortex.base.errors import explained
from cortex.engine.store import STORE_NAME, Store
from cortex.engine.store.snapshots import DAILY, is_due, is_under_way, make_snapshot

# Time between two checks for a due snapshot.
LOOK_SECONDS = 300.0
# Time that closing waits for a snapshot under way; the next one begins anew.
CLOSE_SECONDS = 10.0

log = logging.getLogger(__name__)


class DailySnapshot:
    """Starts a home's snapshot when it is due, and waits for it on close."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        # Time of the next check.
        self._look_at = 0.0

    def look(self, store: Store) -> None:
        """Start a snapshot if one is due; checks only every few minutes."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_SECONDS
            self.begin(store)

    def begin(self, store: Store, wait_seconds: float = 0.0) -> None:
        """Start a snapshot if one is due and this process holds the lease, then wait for it.

        Failures are logged; `cortex doctor` shows a missing snapshot.
        """
        if store.directory is not None and store.lease.held:
            self._thread = back_up_soon(store.directory) or self._thread
        if self._thread is not None:
            self._thread.join(wait_seconds)

    def close(self) -> None:
        """Wait briefly for a snapshot under way."""
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)


def back_up_soon(home: Path) -> threading.Thread | None:
    """Start the daily snapshot in a thread; None if none is due or one is under way."""
    database = home / STORE_NAME
    if not is_due(database) or is_under_way(home):
        return None
    thread = threading.Thread(target=_back_up, args=(database,), name="snapshot", daemon=True)
    thread.start()
    return thread


def _back_up(database: Path) -> None:
    try:
        make_snapshot(database, DAILY)
    except Exception as error:
        # Last handler of the thread: everything else works without a snapshot.
        log.warning(
            "could not make a snapshot of %s: %s", database, explained(error, "a snapshot").message
        )
