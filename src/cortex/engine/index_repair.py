"""Repair of what can be made again: a project's database, and the indexes of any store.

A project's database that is damaged, or that a newer version wrote, is set aside, and its files are
read again. An index is built anew from its database. The database of a home is the only copy of
what a person wrote: nothing here touches it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from cortex.base.errors import CortexError, StoreError
from cortex.engine.store import STORE_NAME, Store, is_reported_damaged, report_damage, set_aside

# That questions wait for another thread or process to build damaged indexes anew
HEAL_SECONDS = 3.0
POLL_SECONDS = 0.05
DISCARDED = {"STORE_CORRUPT": "damaged", "STORE_NEWER": "of a newer version of Cortex"}

Opened = TypeVar("Opened")

log = logging.getLogger(__name__)


def reported_damage(store: Store) -> StoreError:
    """The error of a database that another process found damaged."""
    path = store.directory and str(store.directory / STORE_NAME)
    message = "another process found the database damaged"
    return StoreError("STORE_CORRUPT", message, context={"path": path})


class Replacement:
    """Replacement of a project's database that can't be used; none is replaced where that isn't
    `allowed`.
    """

    def __init__(self, root: Path, *, allowed: bool) -> None:
        self._root = root
        self._allowed = allowed
        self.notice = ""  # why the store is being filled anew

    def open(self, directory: Path | None, open_store: Callable[[Path | None], Opened]) -> Opened:
        """Open a store, anew where its database can't be used."""
        if self.is_due(directory) and directory is not None:
            # Where another process holds the lease, that one does it.
            with suppress(CortexError):
                self._note("STORE_CORRUPT", set_aside(directory))
        try:
            return open_store(directory)
        except StoreError as error:
            if directory is None or error.code not in DISCARDED or not self._allowed:
                raise
            try:
                self._note(error.code, set_aside(directory))
            except CortexError:
                report_damage(directory)
                raise error from None
            return open_store(directory)

    def is_due(self, directory: Path | None) -> bool:
        """Whether another process found the database damaged."""
        return self._allowed and directory is not None and is_reported_damaged(directory)

    def may_replace(self, store: Store, error: CortexError) -> bool:
        """Whether this process may set a store aside that failed; the holder of its lease is told
        where another is.
        """
        if store.directory is None or error.code not in DISCARDED or not self._allowed:
            return False
        # A call may read the home's database as well: what is wrong there says nothing of this one.
        if error.context.get("path") != str(store.directory / STORE_NAME):
            return False
        if not store.lease.take():
            report_damage(store.directory)
            return False
        return True

    def discard(self, store: Store, error: CortexError) -> None:
        """Close a store, and set its database aside."""
        log.warning("%s: %s", self._root, error.message)
        self._note(error.code, store.set_aside())

    def _note(self, code: str, kept: Path) -> None:
        self.notice = (
            f"the index was {DISCARDED[code]} and is built anew; the old one is kept as {kept}"
        )
        log.warning("%s: %s", self._root, self.notice)


class Healing:
    """Repair of damaged indexes when a question finds them, here or by who holds the lease."""

    def __init__(
        self,
        is_damaged: Callable[[], bool],
        repair: Callable[[], bool],
        is_held: Callable[[], bool],
    ) -> None:
        """`repair` builds them anew in this thread, or returns false where a keeper or another
        process does it.
        """
        self._is_damaged = is_damaged
        self._repair = repair
        self._is_held = is_held
        self._deadline = 0.0

    def heal(self) -> bool:
        """Build damaged indexes anew, or wait a little for who does; true where none is damaged
        then.
        """
        if not self._is_damaged():
            self._deadline = 0.0
            return True
        try:
            if self._repair() and not self._is_damaged():
                return True
        except CortexError as error:
            log.warning("a damaged index can't be built anew yet: %s", error.message)
            return False
        # Once: a holder that stands still must not hold up every question.
        self._deadline = self._deadline or time.monotonic() + HEAL_SECONDS
        while time.monotonic() < self._deadline and self._is_held():
            time.sleep(POLL_SECONDS)
            if not self._is_damaged():
                return True
        return False
