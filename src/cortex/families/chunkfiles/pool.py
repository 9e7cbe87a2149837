"""Chunk indexes of a process: one per folder and settings, shared by all sessions.

An index is opened for its first session, so that problems with its files are reported then, and
stays open while one has it.
"""

from __future__ import annotations

from pathlib import Path

from cortex.base.settings import Settings
from cortex.engine.shared_pool import PoolHandle, SharedPool
from cortex.families.chunkfiles.index import ChunkIndex

ChunkIndexHandle = PoolHandle[ChunkIndex]


class ChunkIndexPool(SharedPool[ChunkIndexHandle]):
    """Pool that opens the index of a folder on demand and closes it when it is unused."""

    def __init__(self, *, linger: float = 0.0, watch: bool = True) -> None:
        """Create an empty pool; an unused index stays open for `linger` seconds."""
        super().__init__(ChunkIndexHandle, linger=linger, rest=0.0)
        self._watch = watch

    def borrow(self, directory: Path, settings: Settings) -> ChunkIndexHandle:
        """Return the open index of a folder; the session gives it back at its end.

        Raises: ConfigError WORKSPACE_MISSING once the pool is closed; as `ChunkIndex.start`.
        """
        handle = self._register(directory, settings)
        with self._lock:
            # A session may search at any time.
            handle.calls += 1
        try:
            self._ensure_open(handle)
        except BaseException:
            self.give_back(handle)
            raise
        return handle

    def give_back(self, handle: ChunkIndexHandle) -> None:
        """Return an index to the pool; it is closed at once without a linger time."""
        with self._lock:
            handle.calls -= 1
        super().give_back(handle)

    def indexes(self) -> list[ChunkIndex]:
        """List the open indexes."""
        with self._lock:
            return [handle.resource for handle in self._handles if handle.resource is not None]

    def _open(self, handle: ChunkIndexHandle) -> ChunkIndex:
        index = ChunkIndex(handle.root, handle.settings, watch=self._watch)
        try:
            index.start()
        except BaseException:
            index.close()
            raise
        return index
