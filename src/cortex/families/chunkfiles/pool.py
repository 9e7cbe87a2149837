"""The shelves of a process: one per folder and settings, shared by all windows that have it, closed
some time after the last one.

As with engines, a window says once what it has and gives it back at its end. A shelf is opened when
the first window comes, because what is wrong with its files is to be told then.
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
    """A shelf and how many windows have it."""

    directory: Path
    settings: Settings
    shelf: ChunkIndex | None = None
    windows: int = 0
    ending: threading.Timer | None = None
    turn: threading.Lock = field(default_factory=threading.Lock)  # to open or close it


class ChunkIndexPool:
    """Opens the shelf of a folder for whoever wants it, and closes it when nobody does."""

    def __init__(self, *, linger: float = 0.0, watch: bool = True) -> None:
        """`linger`: seconds that a shelf stays open without a window."""
        self._linger = linger
        self._watch = watch
        self._lock = threading.Lock()
        self._known: list[PooledIndex] = []
        self._closed = False

    def borrow(self, directory: Path, settings: Settings) -> PooledIndex:
        """The open shelf of a folder, for a window that gives it back at its end.

        Raises: as `ChunkIndex.start`.
        """
        with self._lock:
            if self._closed:
                raise ConfigError("WORKSPACE_MISSING", "the server is ending")
            one = next(
                (
                    one
                    for one in self._known
                    if (one.directory, one.settings) == (directory, settings)
                ),
                None,
            )
            if one is None:
                one = PooledIndex(directory, settings)
                self._known.append(one)
            one.windows += 1
            if one.ending is not None:
                one.ending.cancel()
                one.ending = None
        try:
            with one.turn:
                if one.shelf is None:
                    one.shelf = _open(directory, settings, self._watch)
        except BaseException:
            self.give_back(one)
            raise
        return one

    def give_back(self, one: PooledIndex) -> None:
        """Say that a window is done; the shelf is closed at once where nothing lingers."""
        with self._lock:
            one.windows -= 1
            if one.windows:
                return
            if self._linger and one.shelf is not None and not self._closed:
                one.ending = threading.Timer(self._linger, self._close_unused, (one,))
                one.ending.daemon = True
                one.ending.start()
                return
        self._close_unused(one)

    def shelves(self) -> list[ChunkIndex]:
        """Those that are open."""
        with self._lock:
            return [one.shelf for one in self._known if one.shelf is not None]

    def close(self) -> None:
        """Close everything, whoever has it."""
        with self._lock:
            self._closed = True
            known, self._known = self._known, []
        for one in known:
            if one.ending is not None:
                one.ending.cancel()
            with one.turn:
                _close(one)

    def _close_unused(self, one: PooledIndex) -> None:
        with one.turn:
            with self._lock:
                if one.windows:  # somebody came meanwhile
                    return
                if one in self._known:
                    self._known.remove(one)
            _close(one)


def _open(directory: Path, settings: Settings, watch: bool) -> ChunkIndex:
    shelf = ChunkIndex(directory, settings, watch=watch)
    try:
        shelf.start()
    except BaseException:
        shelf.close()
        raise
    return shelf


def _close(one: PooledIndex) -> None:
    shelf, one.shelf = one.shelf, None
    if shelf is not None:
        try:
            shelf.close()
        except Exception:  # the others are to be closed, too
            log.exception("closing %s failed", one.directory)
