"""Background indexing that keeps an engine's folders fresh.

Takes the lease when it is free, indexes, watches and serves requests, in one thread per engine for
any number of folders. Without the lease it keeps trying, so that the next process takes over within
a second when the holder dies. Where the holder follows another folder of the same store, it watches
its own and has the holder index. Where watching is off or impossible, a full scan runs every
`updateInterval`. When the store is reopened, it starts anew.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.base.types import Cancel
from cortex.engine.engine import Engine, Followed
from cortex.engine.sources.watcher import FolderWatch

# Full scans while watching: an overflowing event queue or a network drive sends no events.
SAFETY_SCAN_SECONDS = 600.0
# Time between two attempts to take the lease.
LEASE_SECONDS = 0.5
# Time between two checks for requests of other processes.
REQUEST_SECONDS = 0.25
IDLE_WORKER_SECONDS = 20.0
CLEAN_UP_SECONDS = 3_600.0
# Changed paths above which a full scan is cheaper.
SCAN_ALL_PATHS = 500
# Pause after a failed run.
RETRY_SECONDS = 5.0

log = logging.getLogger(__name__)


class _Track:
    """A followed source: its watcher, and the changes that are not indexed yet."""

    def __init__(self, followed: Followed, wake: threading.Event) -> None:
        self.source = followed.source
        self.watches = followed.watch
        self.root = Path(followed.source.root)
        self._wake = wake
        self._lock = threading.Lock()
        self._paths: set[str] = set()
        self._everything = False
        self.watch = FolderWatch(self.root, self.note, enabled=self.watches)
        self.last_scan = time.monotonic()
        # Time of the next run, after a failed one.
        self.not_before = 0.0

    def note(self, paths: set[str]) -> None:
        """Have these paths indexed soon; "" is everything."""
        with self._lock:
            self._paths |= paths
            self._everything |= "" in paths or len(self._paths) > SCAN_ALL_PATHS
        self._wake.set()

    def take(self) -> set[str]:
        """Take the pending paths; {""} is everything."""
        with self._lock:
            waiting = {""} if self._everything else self._paths
            self._paths, self._everything = set(), False
        return waiting


class AutoIndexer:
    """Keeps one engine fresh until it is closed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._cancel = Cancel()
        self._tracks: dict[int, _Track] = {}
        # A full scan is due.
        self._scan_due = False
        # Settings of the last full scan.
        self._scanned_settings: dict[str, object] = {}
        # Set once a first full scan is done, successful or not, or left to another process.
        self.looked = threading.Event()
        engine.is_auto_indexed = True
        self._thread = threading.Thread(
            target=self._run, name=f"keeper {engine.root.name}", daemon=True
        )
        self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Stop; a run under way is cancelled at its next file."""
        self._engine.is_auto_indexed = False
        self._closing.set()
        self._cancel.cancel()
        self._wake.set()
        self._thread.join(timeout)

    def look_again(self) -> None:
        """Request a full scan, because something that decides on files has changed."""
        self._scan_due = True
        self._wake.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                # Workers also read files for answers without the lease.
                self._engine.release_idle(IDLE_WORKER_SECONDS)
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
            except Exception:
                # Last handler of a background thread: the next round starts afresh.
                log.exception("keeping %s fresh failed", self._engine.root)
                self._closing.wait(RETRY_SECONDS)

    def _is_needed(self, holder: bool) -> bool:
        if holder:
            return self._engine.store.lease.held
        return not (self._engine.holds_lease() or self._is_followed())

    def _is_followed(self) -> bool:
        """True if the lease holder watches this very folder.

        The holder of a linked worktree's store may watch another.
        """
        return self._engine.store.lease.followed() in ("", str(self._engine.root))

    def _follow(self, *, holder: bool) -> None:
        """Watch and index; without the lease, by asking its holder.

        Ends when the lease is lost, or when another process can do it better.
        """
        clean_up_at = 0.0
        store = self._engine.store
        # There may be changes from before watching began.
        self._scan_due = True
        try:
            while (
                not self._closing.is_set()
                and self._engine.store is store
                and self._is_needed(holder)
            ):
                self._follow_settings()
                self._update_tracks()
                self._index_pending()
                if holder and time.monotonic() >= clean_up_at:
                    clean_up_at = time.monotonic() + CLEAN_UP_SECONDS
                    self._engine.clean_up()
                if holder:
                    self._engine.serve_requests()
                    self._engine.embedding.work()
                self._engine.release_idle(IDLE_WORKER_SECONDS)
                if self._wake.wait(REQUEST_SECONDS):
                    self._wake.clear()
        finally:
            for track in self._tracks.values():
                track.watch.close()
            self._tracks = {}

    def _follow_settings(self) -> None:
        """Request a full scan where settings that decide the index's content changed."""
        self._engine.follow_settings()
        values = self._engine.settings.index_values()
        if values != self._scanned_settings:
            self._scanned_settings, self._scan_due = values, True

    def _update_tracks(self) -> None:
        """Start and stop tracks to match the engine's sources, and note due scans."""
        wanted = {followed.source.id: followed for followed in self._engine.followed()}
        for source_id, track in list(self._tracks.items()):
            if source_id not in wanted or wanted[source_id].watch != track.watches:
                self._tracks.pop(source_id).watch.close()
        for source_id, followed in wanted.items():
            if source_id not in self._tracks:
                self._tracks[source_id] = _Track(followed, self._wake)
                self._tracks[source_id].note({""})
        scan_due, self._scan_due = self._scan_due, False
        now = time.monotonic()
        for track in self._tracks.values():
            if track.watch.renew():
                track.note({""})
            interval = (
                SAFETY_SCAN_SECONDS
                if track.watch.active
                else self._engine.settings.indexing.update_interval
            )
            if scan_due or (interval and now - track.last_scan > interval):
                track.note({""})

    def _index_pending(self) -> None:
        """Index the pending paths of all tracks."""
        for track in list(self._tracks.values()):
            if self._closing.is_set() or time.monotonic() < track.not_before:
                continue
            paths = track.take()
            if not paths:
                continue
            error = self._try_index(track, None if "" in paths else paths)
            if "" in paths:
                track.last_scan = time.monotonic()
            # A run that `close` cancelled is no failure.
            if error is not None and not self._closing.is_set():
                log.warning("indexing %s stopped: %s", track.root, error.message)
                # At the limit on embeddings all else is done.
                if error.code != "EMBEDDINGS_LIMIT":
                    track.not_before = time.monotonic() + RETRY_SECONDS
                    track.note(paths)
        self.looked.set()

    def _try_index(self, track: _Track, paths: set[str] | None) -> CortexError | None:
        try:
            self._engine.index(source=track.source, paths=paths, cancel=self._cancel)
        except CortexError as error:
            return error
        return None
