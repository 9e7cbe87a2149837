"""Watcher for a directory of chunk files, in a thread of its own.

Reports a change once the directory is quiet again, because an indexer writes several files. A
directory that is never quiet is checked all the same; one that can't be watched, or doesn't exist
at the moment, is checked every few seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cortex.engine.sources.watcher import Watcher

# Time without a change.
QUIET_SECONDS = 0.5
# For a directory that is never quiet.
LONGEST_WAIT = 10.0
# Interval where nothing can be watched, or nothing is there.
LOOK_SECONDS = 2.0
# Interval while the directory is watched.
SAFETY_SECONDS = 600.0
# Interval between two calls of `rest` while it has work left.
REST_SECONDS = 0.2
CLOSE_SECONDS = 5.0

log = logging.getLogger(__name__)


class ChunkFileWatcher:
    """Thread that calls `begin` once, then `look` after changes and `rest` in between.

    `rest` returns whether it is done.
    """

    def __init__(
        self,
        directory: Path,
        *,
        begin: Callable[[], None],
        look: Callable[[], None],
        rest: Callable[[], bool],
        watch: bool,
    ) -> None:
        self._directory = directory
        self._begin, self._look, self._rest, self._watch = begin, look, rest, watch
        # Times of changes that have not been handled yet; 0 if there are none.
        self._first_change = self._last_change = 0.0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"shelf {directory.name}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def look_again(self) -> None:
        """Check the directory soon, as after a change."""
        self._last_change = time.monotonic()
        self._first_change = self._first_change or self._last_change
        self._wake.set()

    def pause(self, seconds: float) -> None:
        """Sleep in the watcher's thread, unless it is closing."""
        self._closing.wait(seconds)

    def close(self) -> None:
        """Stop watching, waiting briefly for a check in progress."""
        self._closing.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        self._begin()
        watcher: Watcher | None = None
        looked = time.monotonic()
        while not self._closing.is_set():
            if watcher is None or not watcher.alive:
                watcher = self._restart_watcher(watcher)
            watching = watcher is not None and watcher.alive
            if (
                time.monotonic() - looked > (SAFETY_SECONDS if watching else LOOK_SECONDS)
                or self._is_quiet()
            ):
                self._first_change, looked = 0.0, time.monotonic()
                self._look()
            done = self._rest()
            self._wake.wait(self._timeout(watching, done))
            self._wake.clear()
        if watcher is not None:
            watcher.close()

    def _restart_watcher(self, watcher: Watcher | None) -> Watcher | None:
        """Replace a dead watcher if possible, and check for changes that it missed."""
        if watcher is not None:
            watcher.close()
        if not self._watch or not self._directory.is_dir():
            return None
        fresh = Watcher(self._directory, self._on_change)
        if not fresh.start():
            return None
        self.look_again()
        return fresh

    def _on_change(self, paths: set[str]) -> None:
        # Ignore subfolders, which hold an indexer's temporary files.
        if any("/" not in path for path in paths):
            self.look_again()

    def _is_quiet(self) -> bool:
        """True if something changed, and then nothing for a while."""
        now, first = time.monotonic(), self._first_change
        return bool(first) and (
            now - self._last_change >= QUIET_SECONDS or now - first >= LONGEST_WAIT
        )

    def _timeout(self, watching: bool, done: bool) -> float:
        if self._first_change:
            return max(0.01, self._last_change + QUIET_SECONDS - time.monotonic())
        if not done:
            return REST_SECONDS
        return SAFETY_SECONDS if watching else LOOK_SECONDS
