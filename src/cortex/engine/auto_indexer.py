"""Keeping an engine's folders fresh in the background: take the lease when it is free, index,
watch, serve requests.

One thread per engine, however many folders it follows. Without the lease it tries to get it, so
that the next process takes over within a second when the holder dies; and where the holder follows
another folder of the same store, it watches its own and has the holder index. Where watching is off
or impossible, a comparing scan runs every `updateInterval`. When the store is opened anew, keeping
starts anew with it.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.base.types import Cancel
from cortex.engine.engine import Engine, Followed
from cortex.engine.sources.watcher import Watcher

# While watching: an overflowing event queue or a network drive tells nobody
SAFETY_SCAN_SECONDS = 600.0
LEASE_SECONDS = 0.5  # between two tries to get the lease
REQUEST_SECONDS = 0.25  # between two looks at what other processes ask for
IDLE_WORKER_SECONDS = 20.0
CLEAN_UP_SECONDS = 3_600.0
SCAN_ALL_PATHS = 500  # more changed paths than this: one look at everything is cheaper
RETRY_SECONDS = 5.0  # after a run that failed
WATCH_AGAIN_SECONDS = 300.0  # a folder that could not be watched may have been away

log = logging.getLogger(__name__)


class _Track:
    """One source that is followed: its watcher, and what was seen and nobody indexed yet."""

    def __init__(self, followed: Followed, wake: threading.Event) -> None:
        self.source = followed.source
        self.watches = followed.watch
        self.root = Path(followed.source.root)
        self._wake = wake
        self._lock = threading.Lock()
        self._paths: set[str] = set()
        self._everything = False
        self._watcher: Watcher | None = None
        self._next_watch = 0.0  # when to try it, or to try it again
        self.last_scan = time.monotonic()
        self.not_before = 0.0  # after a run that failed

    def note(self, paths: set[str]) -> None:
        """Have these paths indexed soon; "" is everything."""
        with self._lock:
            self._paths |= paths
            self._everything |= "" in paths or len(self._paths) > SCAN_ALL_PATHS
        self._wake.set()

    def take(self) -> set[str]:
        """What waits; {""} is everything."""
        with self._lock:
            waiting = {""} if self._everything else self._paths
            self._paths, self._everything = set(), False
        return waiting

    def watch(self) -> None:
        """See that the folder is watched, where that is wanted and possible; after a gap everything
        is to be looked at.
        """
        now = time.monotonic()
        if not self.watches or self.watching or now < self._next_watch:
            return
        # A name that isn't text ends a watcher; what happened since is found by a look at
        # everything
        self.close()
        watcher = Watcher(self.root, self.note)
        if watcher.start():
            self._watcher, self._next_watch = watcher, now + RETRY_SECONDS
            self.note({""})
            return
        if not self._next_watch:
            log.warning("%s can't be watched; it is compared every few seconds instead", self.root)
        self._next_watch = now + WATCH_AGAIN_SECONDS

    @property
    def watching(self) -> bool:
        return self._watcher is not None and self._watcher.alive

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None


class AutoIndexer:
    """Keeps one engine fresh until it is closed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._cancel = Cancel()
        self._tracks: dict[int, _Track] = {}
        self._again = False  # everything is to be compared
        self._values: dict[str, object] = {}  # of settings, with which everything was compared last
        # A first look at everything is done, whatever came of it, or is another's work
        self.looked = threading.Event()
        engine.kept = True
        self._thread = threading.Thread(
            target=self._keep, name=f"keeper {engine.root.name}", daemon=True
        )
        self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Stop keeping; a run under way is cancelled at its next file."""
        self._engine.kept = False
        self._closing.set()
        self._cancel.cancel()
        self._wake.set()
        self._thread.join(timeout)

    def look_again(self) -> None:
        """Compare everything soon: something that decides which files belong has changed."""
        self._again = True
        self._wake.set()

    def _keep(self) -> None:
        while not self._closing.is_set():
            try:
                # Files are read for answers without the lease, too
                self._engine.rest(IDLE_WORKER_SECONDS)
                if self._engine.store.lease.take():
                    self._follow(holder=True)
                elif not self._is_followed():
                    self._follow(holder=False)
                else:
                    self.looked.set()
                self._closing.wait(LEASE_SECONDS)
            except CortexError as error:
                log.warning("%s: %s", self._engine.root, error.message)
                self._closing.wait(RETRY_SECONDS)
            # A background thread's last line of defence: the next round starts afresh
            except Exception:
                log.exception("keeping %s fresh failed", self._engine.root)
                self._closing.wait(RETRY_SECONDS)

    def _is_needed(self, holder: bool) -> bool:
        if holder:
            return self._engine.store.lease.held
        return not (self._engine.holds() or self._is_followed())

    def _is_followed(self) -> bool:
        """Whether the lease holder watches this very folder; the holder of a linked worktree's
        store may watch another.
        """
        return self._engine.store.lease.followed() in ("", str(self._engine.root))

    def _follow(self, *, holder: bool) -> None:
        """Watch and index; without the lease, by asking its holder, until there is somebody better
        to do it.
        """
        clean_up_at = 0.0
        store = self._engine.store
        self._again = True  # whatever happened while nobody watched
        try:
            while (
                not self._closing.is_set()
                and self._engine.store is store
                and self._is_needed(holder)
            ):
                self._follow_settings()
                self._keep_tracks()
                self._work()
                if holder and time.monotonic() >= clean_up_at:
                    clean_up_at = time.monotonic() + CLEAN_UP_SECONDS
                    self._engine.clean_up()
                if holder:
                    self._engine.serve_requests()
                    self._engine.embedding.work()
                self._engine.rest(IDLE_WORKER_SECONDS)
                if self._wake.wait(REQUEST_SECONDS):
                    self._wake.clear()
        finally:
            for track in self._tracks.values():
                track.close()
            self._tracks = {}

    def _follow_settings(self) -> None:
        """Compare everything again where settings that decide what the index holds have changed."""
        self._engine.follow_settings()
        values = self._engine.settings.index_values()
        if values != self._values:
            self._values, self._again = values, True

    def _keep_tracks(self) -> None:
        """Follow what there is to be followed, and nothing else; say what is due."""
        wanted = {followed.source.id: followed for followed in self._engine.followed()}
        for number, track in list(self._tracks.items()):
            if number not in wanted or wanted[number].watch != track.watches:
                self._tracks.pop(number).close()
        for number, followed in wanted.items():
            if number not in self._tracks:
                self._tracks[number] = _Track(followed, self._wake)
                self._tracks[number].note({""})
        again, self._again = self._again, False
        now = time.monotonic()
        for track in self._tracks.values():
            track.watch()
            interval = (
                SAFETY_SCAN_SECONDS
                if track.watching
                else self._engine.settings.indexing.update_interval
            )
            if again or (interval and now - track.last_scan > interval):
                track.note({""})

    def _work(self) -> None:
        """Index what is pending."""
        for track in list(self._tracks.values()):
            if self._closing.is_set() or time.monotonic() < track.not_before:
                continue
            paths = track.take()
            if not paths:
                continue
            failed = self._try_index(track, None if "" in paths else paths)
            if "" in paths:
                track.last_scan = time.monotonic()
            if failed is not None:
                log.warning("indexing %s stopped: %s", track.root, failed.message)
                if failed.code != "EMBEDDINGS_LIMIT":  # there, all is done that can be
                    track.not_before = time.monotonic() + RETRY_SECONDS
                    track.note(paths)
        self.looked.set()

    def _try_index(self, track: _Track, paths: set[str] | None) -> CortexError | None:
        try:
            self._engine.index(source=track.source, paths=paths, cancel=self._cancel)
        except CortexError as error:
            return error
        return None
