"""Repair of what can be rebuilt: a project's database, and the indexes of any store.

A project's database that is damaged, or that a newer version wrote, is set aside, and its files are
read again. An index is rebuilt from its database. The database of a home is the only copy of a
person's data: nothing here touches it.
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

# Time that queries wait for another thread or process to rebuild damaged indexes.
HEAL_SECONDS = 3.0
POLL_SECONDS = 0.05
DISCARDED = {"STORE_CORRUPT": "damaged", "STORE_NEWER": "of a newer version of Cortex"}

Opened = TypeVar("Opened")

log = logging.getLogger(__name__)


def reported_damage(store: Store) -> StoreError:
    """Error for a database that another process found damaged."""
    path = store.directory and str(store.directory / STORE_NAME)
    message = "another process found the database damaged"
    return StoreError("STORE_CORRUPT", message, context={"path": path})


class Replacement:
    """Replacement of a project's unusable database, where that is `allowed`."""

    def __init__(self, root: Path, *, allowed: bool) -> None:
        self._root = root
        self._allowed = allowed
        # Reason for the rebuild.
        self.notice = ""

    def open(self, directory: Path | None, open_store: Callable[[Path | None], Opened]) -> Opened:
        """Open a store; begin a new one where its database can't be used."""
        if self.is_due(directory) and directory is not None:
            # Another process that holds the lease does it itself.
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
        """True if another process found the database damaged."""
        return self._allowed and directory is not None and is_reported_damaged(directory)

    def may_replace(self, store: Store, error: CortexError) -> bool:
        """True if this process may set a failed store aside.

        Where another process holds the lease, the damage is reported to it.
        """
        if store.directory is None or error.code not in DISCARDED or not self._allowed:
            return False
        # The error may be about the home's database, which is no reason to replace this one.
        if error.context.get("path") != str(store.directory / STORE_NAME):
            return False
        if not store.lease.take():
            report_damage(store.directory)
            return False
        return True

    def discard(self, store: Store, error: CortexError) -> None:
        """Close a store and set its database aside."""
        log.warning("%s: %s", self._root, error.message)
        self._note(error.code, store.set_aside())

    def _note(self, code: str, kept: Path) -> None:
        self.notice = (
            f"the index was {DISCARDED[code]} and is built anew; the old one is kept as {kept}"
        )
        log.warning("%s: %s", self._root, self.notice)


class Healing:
    """Repair of damaged indexes that a query finds, here or by the lease holder."""

    def __init__(
        self,
        is_damaged: Callable[[], bool],
        repair: Callable[[], bool],
        is_held: Callable[[], bool],
    ) -> None:
        """`repair` rebuilds them in this thread.

        It returns false if an auto-indexer or another process does it.
        """
        self._is_damaged = is_damaged
        self._repair = repair
        self._is_held = is_held
        self._deadline = 0.0

    def heal(self) -> bool:
        """Rebuild damaged indexes, or wait a little for that; true if none is damaged."""
        if not self._is_damaged():
            self._deadline = 0.0
            return True
        try:
            if self._repair() and not self._is_damaged():
                return True
        except CortexError as error:
            log.warning("a damaged index can't be built anew yet: %s", error.message)
            return False
        # Only the first query waits: a stuck holder must not delay every query.
        self._deadline = self._deadline or time.monotonic() + HEAL_SECONDS
        while time.monotonic() < self._deadline and self._is_held():
            time.sleep(POLL_SECONDS)
            if not self._is_damaged():
                return True
        return False
