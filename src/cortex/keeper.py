"""Keeping an engine's folder fresh in the background: take the lease when it is free, index, watch, serve requests.

One thread per engine. Without the lease it tries to get it, so that the next process takes over within a second when the holder
dies; and where the holder follows another folder of the same store, it watches its own and has the holder index. Where watching is
off or impossible, a comparing scan runs every `updateInterval`. When the store is opened anew, keeping starts anew with it.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field

from cortex.engine import Engine
from cortex.errors import CortexError
from cortex.sources.watch import Watcher
from cortex.types import Cancel

SAFETY_SCAN_SECONDS = 600.0  # while watching: an overflowing event queue or a network drive tells nobody
LEASE_SECONDS = 0.5  # between two tries to get the lease
REQUEST_SECONDS = 0.25  # between two looks at what other processes ask for
IDLE_WORKER_SECONDS = 20.0
CLEAN_UP_SECONDS = 3_600.0
SCAN_ALL_PATHS = 500  # more changed paths than this: one look at everything is cheaper
RETRY_SECONDS = 5.0  # after a run that failed

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pending:
    """What the watcher saw and nobody indexed yet."""

    paths: set[str] = field(default_factory=set)
    everything: bool = True


class Keeper:
    """Keeps one engine fresh until it is closed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._cancel = Cancel()
        self._lock = threading.Lock()
        self._pending = _Pending()
        self.looked = threading.Event()  # a first look at everything is done, whatever came of it, or is another's work
        engine.kept = True
        self._thread = threading.Thread(target=self._keep, name=f"keeper {engine.root.name}", daemon=True)
        self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Stop keeping; a run under way is cancelled at its next file."""
        self._engine.kept = False
        self._closing.set()
        self._cancel.cancel()
        self._wake.set()
        self._thread.join(timeout)

    def look_again(self) -> None:
        """Compare the whole folder soon: something that decides which files belong has changed."""
        self._note({""})

    def _keep(self) -> None:
        while not self._closing.is_set():
            try:
                self._engine.rest(IDLE_WORKER_SECONDS)  # files are read for answers without the lease, too
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
            except Exception:  # a background thread's last line of defence: the next round starts afresh
                log.exception("keeping %s fresh failed", self._engine.root)
                self._closing.wait(RETRY_SECONDS)

    def _is_needed(self, holder: bool) -> bool:
        if holder:
            return self._engine.store.lease.held
        return not (self._engine.holds() or self._is_followed())

    def _is_followed(self) -> bool:
        """Whether the lease holder watches this very folder; the holder of a linked worktree's store may watch another."""
        return self._engine.store.lease.followed() in ("", str(self._engine.root))

    def _follow(self, *, holder: bool) -> None:
        """Watch and index; without the lease, by asking its holder, until there is somebody better to do it."""
        watcher = self._watch()
        self._note({""})  # whatever happened while nobody watched
        last_scan = last_watch = time.monotonic()
        last_clean = 0.0
        store = self._engine.store
        try:
            while not self._closing.is_set() and self._engine.store is store and self._is_needed(holder):
                now = time.monotonic()
                if watcher is not None and not watcher.alive and now - last_watch > RETRY_SECONDS:
                    watcher.close()  # a name that isn't text ends a watcher; what happened since is found by a look at everything
                    watcher, last_watch = self._watch(), now
                    self._note({""})
                watching = watcher is not None and watcher.alive
                interval = SAFETY_SCAN_SECONDS if watching else self._engine.settings.indexing.update_interval
                if interval and now - last_scan > interval:
                    self._note({""})
                if self._work():
                    last_scan = time.monotonic()
                if holder and now - last_clean > CLEAN_UP_SECONDS:
                    last_clean = now
                    self._engine.clean_up()
                if holder:
                    self._engine.serve_requests()
                    self._engine.embedding.work()
                self._engine.rest(IDLE_WORKER_SECONDS)
                if self._wake.wait(REQUEST_SECONDS):
                    self._wake.clear()
        finally:
            if watcher is not None:
                watcher.close()

    def _watch(self) -> Watcher | None:
        if not self._engine.settings.workspace.watch_files:
            return None
        watcher = Watcher(self._engine.root, self._note)
        if watcher.start():
            return watcher
        log.warning("%s can't be watched; it is compared every few seconds instead", self._engine.root)
        return None

    def _note(self, paths: set[str]) -> None:
        with self._lock:
            self._pending.paths |= paths
            self._pending.everything |= "" in paths or len(self._pending.paths) > SCAN_ALL_PATHS
        self._wake.set()

    def _work(self) -> bool:
        """Index what is pending; true if that was a look at everything."""
        with self._lock:
            pending, self._pending = self._pending, _Pending(everything=False)
        if not pending.everything and not pending.paths:
            return False
        failed = self._try_index(None if pending.everything else pending.paths)
        self.looked.set()
        if failed is not None:
            log.warning("indexing %s stopped: %s", self._engine.root, failed.message)
            if failed.code != "EMBEDDINGS_LIMIT":  # there, all is done that can be
                self._note({""} if pending.everything else pending.paths)
                self._closing.wait(RETRY_SECONDS)
        return pending.everything

    def _try_index(self, paths: set[str] | None) -> CortexError | None:
        try:
            self._engine.index(paths=paths, cancel=self._cancel)
        except CortexError as error:
            return error
        return None
