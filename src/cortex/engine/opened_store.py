"""Open store of an engine, with its runs and embedding; reopened if its files were replaced."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.base.types import Source
from cortex.engine.embedding_coordinator import EmbeddingCoordinator
from cortex.engine.index_repair import Replacement, reported_damage
from cortex.engine.run_queue import RunQueue
from cortex.engine.store import Store
from cortex.engine.store_folder import has_lost_project

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """Everything that belongs to one opening of a store."""

    store: Store
    # The main source.
    source: Source
    embedding: EmbeddingCoordinator
    runs: RunQueue

    @property
    def damaged(self) -> bool:
        """True if an index has to be rebuilt."""
        return self.store.indexes.damaged or self.embedding.damaged

    def close(self) -> None:
        """Stop the work on the store, and close it."""
        self.runs.close()
        self.embedding.close()
        self.store.close()


class StoreHandle:
    """The store that an engine has open; reopens it when its files are removed or damaged."""

    def __init__(
        self,
        directory: Path | None,
        open_store: Callable[[Path | None], OpenedStore],
        replacement: Replacement,
        on_reopened: Callable[[], None],
    ) -> None:
        self._open_store = open_store
        self._replacement = replacement
        self._on_reopened = on_reopened
        self._lock = threading.Lock()
        self._closed = False
        self._opened = replacement.open(directory, open_store)

    @property
    def closed(self) -> bool:
        """True from the beginning of `close`."""
        return self._closed

    def current(self) -> OpenedStore:
        """Return the open store; reopen it if its files were removed.

        Other processes would never see what is written to removed files.
        """
        opened = self._opened
        if self._closed or not opened.store.replaced:
            return opened
        with self._lock:
            directory = opened.store.directory
            if self._opened is not opened or directory is None or has_lost_project(directory):
                return self._opened
            log.warning("the files in %s were removed or replaced; reopening the store", directory)
            self._reopen(directory)
            opened.embedding.close()
            # This also ends a run under way, at its next step.
            opened.store.close()
        return self._opened

    def start_anew(self, error: CortexError) -> bool:
        """Replace a project's damaged database by an empty one; true if that was done."""
        opened = self._opened
        if self._closed or not self._replacement.may_replace(opened.store, error):
            return False
        with self._lock:
            if self._opened is opened:
                opened.embedding.close()
                self._replacement.discard(opened.store, error)
                self._reopen(opened.store.directory)
        return True

    def replace_reported(self) -> None:
        """Replace the database if another process reported it damaged."""
        store = self.current().store
        if self._replacement.is_due(store.directory):
            self.start_anew(reported_damage(store))

    def _reopen(self, directory: Path | None) -> None:
        self._opened = self._replacement.open(directory, self._open_store)
        self._on_reopened()

    def stop(self) -> None:
        """Signal the work on the store to end, and don't reopen it any more."""
        self._closed = True
        self._opened.embedding.stop()

    def close(self) -> None:
        """Stop the work on the store, and close it."""
        self._closed = True
        self._opened.close()
