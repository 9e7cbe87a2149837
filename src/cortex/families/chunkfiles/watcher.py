"""Watcher for a directory of chunk files, in a thread of its own.

Reports a change once the directory is quiet again, because an indexer writes several files. A
directory that is never quiet is checked all the same; one that can't be watched, or doesn't exist
at the moment, is checked every few seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from cortex.engine.sources.watcher import FolderWatch

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
        self._begin, self._look, self._rest = begin, look, rest
        self._watch = FolderWatch(directory, self._on_change, enabled=watch)
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
        looked = time.monotonic()
        while not self._closing.is_set():
            if self._watch.renew():
                self.look_again()
            interval = SAFETY_SECONDS if self._watch.active else LOOK_SECONDS
            if time.monotonic() - looked > interval or self._is_quiet():
                self._first_change, looked = 0.0, time.monotonic()
                self._look()
            timeout = interval if self._rest() else REST_SECONDS
            if self._first_change:
                timeout = max(0.01, self._last_change + QUIET_SECONDS - time.monotonic())
            self._wake.wait(timeout)
            self._wake.clear()
        self._watch.close()

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
