"""Following a directory of chunk files: when it changed and is quiet again, somebody is told; in a
thread of its own.

Quiet, because an indexer writes several files. A directory that is never quiet is looked at all the
same, one that can't be watched, or isn't there just now, every few seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cortex.engine.sources.watcher import Watcher

QUIET_SECONDS = 0.5  # without a change
LONGEST_WAIT = 10.0  # for a directory that is never quiet
LOOK_SECONDS = 2.0  # between two looks where nothing can be watched, or nothing is there
SAFETY_SECONDS = 600.0  # between two looks while it is watched
REST_SECONDS = 0.2  # between two calls of `rest`, while there is something left to do
CLOSE_SECONDS = 5.0

log = logging.getLogger(__name__)


class Follower:
    """Calls `begin` once, then `look` whenever the directory may have changed, and `rest` in
    between, which says whether it is done.
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
        self._first_change = self._last_change = 0.0  # that nobody has looked at; 0: none
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"shelf {directory.name}", daemon=True
        )

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def look_again(self) -> None:
        """Look soon, as after a change."""
        self._last_change = time.monotonic()
        self._first_change = self._first_change or self._last_change
        self._wake.set()

    def pause(self, seconds: float) -> None:
        """Let time pass in the thread that follows, unless it is to end."""
        self._closing.wait(seconds)

    def close(self) -> None:
        """Stop following; a look under way is waited for, briefly."""
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
                watcher = self._watch_anew(watcher)
            watching = watcher is not None and watcher.alive
            if (
                time.monotonic() - looked > (SAFETY_SECONDS if watching else LOOK_SECONDS)
                or self._is_quiet()
            ):
                self._first_change, looked = 0.0, time.monotonic()
                self._look()
            done = self._rest()
            self._wake.wait(self._next(watching, done))
            self._wake.clear()
        if watcher is not None:
            watcher.close()

    def _watch_anew(self, watcher: Watcher | None) -> Watcher | None:
        """A watcher that works, where one can; what happened while nobody watched is looked at."""
        if watcher is not None:
            watcher.close()
        if not self._watch or not self._directory.is_dir():
            return None
        fresh = Watcher(self._directory, self._note)
        if not fresh.start():
            return None
        self.look_again()
        return fresh

    def _note(self, paths: set[str]) -> None:
        if any("/" not in path for path in paths):  # not below: an indexer's temporary files
            self.look_again()

    def _is_quiet(self) -> bool:
        """Whether something changed, and then nothing for a while."""
        now, first = time.monotonic(), self._first_change
        return bool(first) and (
            now - self._last_change >= QUIET_SECONDS or now - first >= LONGEST_WAIT
        )

    def _next(self, watching: bool, done: bool) -> float:
        if self._first_change:
            return max(0.01, self._last_change + QUIET_SECONDS - time.monotonic())
        if not done:
            return REST_SECONDS
        return SAFETY_SECONDS if watching else LOOK_SECONDS
