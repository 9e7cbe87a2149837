"""After something was written: the indexes follow, here where this process holds the lease, else in the one that does."""

from __future__ import annotations

import time

from cortex.library import Library

FOLLOW_SECONDS = 10.0
POLL_SECONDS = 0.02


def follow(library: Library, *, forget: bool = False) -> bool:
    """Have what was written found, and what was deleted gone; true where that is so when it returns."""
    store = library.store
    store.lookup.drop_recent()
    deadline = time.monotonic() + FOLLOW_SECONDS
    if library.holds():
        library.embedding.catch_up()
        if forget:
            store.indexes.tidy()
    while store.indexes.state()[1] < store.truth.seq() or (forget and store.truth.words_linger):
        if library.holds() or not store.lease.holder() or not _wait(deadline):
            return False
    while forget and not store.checkpoint():  # the write-ahead log has the text, too
        if not _wait(deadline):
            return False
    return True


def _wait(deadline: float) -> bool:
    time.sleep(POLL_SECONDS)
    return time.monotonic() < deadline
