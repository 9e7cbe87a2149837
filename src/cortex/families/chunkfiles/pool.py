"""Chunk indexes of a process: one per folder and settings, shared by all sessions.

As with engines, a session borrows an index once and returns it at its end; the index is closed some
time after the last session. It is opened for the first session, so that problems with its files are
reported then.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path

from cortex.base.errors import ConfigError
from cortex.base.settings import Settings
from cortex.families.chunkfiles.index import ChunkIndex

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class PooledIndex:
    """A chunk index and the number of sessions that use it."""

    directory: Path
    settings: Settings
    shelf: ChunkIndex | None = None
    windows: int = 0
    ending: threading.Timer | None = None
    # Held while the index is opened or closed.
    turn: threading.Lock = field(default_factory=threading.Lock)


class ChunkIndexPool:
    """Pool that opens the index of a folder on demand and closes it when it is unused."""

    def __init__(self, *, linger: float = 0.0, watch: bool = True) -> None:
        """Create an empty pool; an unused index stays open for `linger` seconds."""
        self._linger = linger
        self._watch = watch
        self._lock = threading.Lock()
        self._pooled: list[PooledIndex] = []
        self._closed = False

    def borrow(self, directory: Path, settings: Settings) -> PooledIndex:
        """Return the open index of a folder; the session gives it back at its end.

        Raises: as `ChunkIndex.start`.
        """
        with self._lock:
            if self._closed:
                raise ConfigError("WORKSPACE_MISSING", "the server is ending")
            pooled = next(
                (
                    pooled
                    for pooled in self._pooled
                    if (pooled.directory, pooled.settings) == (directory, settings)
                ),
                None,
            )
            if pooled is None:
                pooled = PooledIndex(directory, settings)
                self._pooled.append(pooled)
            pooled.windows += 1
            if pooled.ending is not None:
                pooled.ending.cancel()
                pooled.ending = None
        try:
            with pooled.turn:
                if pooled.shelf is None:
                    pooled.shelf = _open(directory, settings, self._watch)
        except BaseException:
            self.give_back(pooled)
            raise
        return pooled

    def give_back(self, pooled: PooledIndex) -> None:
        """Return an index to the pool; it is closed at once without a linger time."""
        with self._lock:
            pooled.windows -= 1
            if pooled.windows:
                return
            if self._linger and pooled.shelf is not None and not self._closed:
                pooled.ending = threading.Timer(self._linger, self._close_unused, (pooled,))
                pooled.ending.daemon = True
                pooled.ending.start()
                return
        self._close_unused(pooled)

    def shelves(self) -> list[ChunkIndex]:
        """List the open indexes."""
        with self._lock:
            return [pooled.shelf for pooled in self._pooled if pooled.shelf is not None]

    def close(self) -> None:
        """Close everything, even indexes in use."""
        with self._lock:
            self._closed = True
            known, self._pooled = self._pooled, []
        for pooled in known:
            if pooled.ending is not None:
                pooled.ending.cancel()
            with pooled.turn:
                _close(pooled)

    def _close_unused(self, pooled: PooledIndex) -> None:
        with pooled.turn:
            with self._lock:
                # Another session borrowed it meanwhile.
                if pooled.windows:
                    return
                if pooled in self._pooled:
                    self._pooled.remove(pooled)
            _close(pooled)


def _open(directory: Path, settings: Settings, watch: bool) -> ChunkIndex:
    index = ChunkIndex(directory, settings, watch=watch)
    try:
        index.start()
    except BaseException:
        index.close()
        raise
    return index


def _close(pooled: PooledIndex) -> None:
    index, pooled.shelf = pooled.shelf, None
    if index is not None:
        try:
            index.close()
        except Exception:
            # The other indexes have to be closed, too.
            log.exception("closing %s failed", pooled.directory)
