"""Pool of the engines of a process: one per folder and settings, shared by all windows.

A window (a connection, a command) registers its folders once; only a call under way holds an
engine. An engine without windows is closed after some time. Where memory is short, so is the one
unused longest although a window has it: the next call opens it again, and it catches up. Two
settings for one folder are two engines on one store: the second has no lease and asks the first, as
another process would. The settings that decide the content of an index are the same for both
(`Settings.index_values`).
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from cortex.base.errors import ConfigError, CortexError, StoreError
from cortex.base.runtime.process_stats import give_memory_back, memory_bytes
from cortex.base.settings import Settings, load_again
from cortex.base.types import EmbeddingState, Freshness, count_secrets
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.engine import Engine

# Time that calls wait for the first scan of an engine that was just opened.
LOOK_SECONDS = 3.0
POLL_SECONDS = 0.02
# State of a project with a closed engine.
CLOSED = "closed"

log = logging.getLogger(__name__)


Opener = Callable[[Path, Settings], Engine]


@dataclass(slots=True, eq=False)
class EngineHandle:
    """A folder with its settings: its windows, calls under way, and engine while open."""

    root: Path
    # From files and the variables of the windows.
    settings: Settings
    windows: int = 0
    calls: int = 0
    # Time at which the last call or window ended.
    used: float = 0.0
    engine: Engine | None = None
    keeper: AutoIndexer | None = None
    opened: float = 0.0
    # State of an engine that was closed.
    last: Freshness | None = None
    # Held to open or close the engine.
    turn: threading.Lock = field(default_factory=threading.Lock)

    def refresh(self) -> Settings:
        """Reload the settings from their files."""
        engine = self.engine
        self.settings = load_again(engine.followed_settings.stated if engine else self.settings)
        return self.settings


@dataclass(frozen=True, slots=True)
class PooledProject:
    """Status of a folder that windows have, or had lately."""

    root: Path
    windows: int
    freshness: Freshness
    embedding: EmbeddingState | None = None
    # Files left out as secrets.
    secrets: int = 0


def open_engine(root: Path, settings: Settings) -> Engine:
    """Open the engine of a folder, or the person's library where the folder is the home."""
    from cortex.engine.library import Library

    return Library(settings) if root == settings.home else Engine(root, settings)


class EnginePool:
    """Opens engines for calls, and closes the unused ones."""

    def __init__(
        self, *, keep: bool, linger: float = 0.0, rest: float = 0.0, opener: Opener | None = None
    ) -> None:
        """`keep` keeps the folders fresh in the background.

        An engine without windows stays open for `linger` seconds. One with windows may be closed
        after `rest` unused seconds, where memory is short.
        """
        self._open_engine = opener or open_engine
        self._auto_index = keep
        self._linger = linger
        self._rest = rest
        # Never held during disk access.
        self._lock = threading.Lock()
        self._handles: list[EngineHandle] = []
        self._closed = False

    def borrow(self, root: Path, settings: Settings) -> EngineHandle:
        """Register a window for a folder, to be given back at its end; opens nothing yet."""
        settings = load_again(settings)
        with self._lock:
            known = [handle for handle in self._handles if handle.root == root]
        for handle in known:
            # Not under the lock, because this reads files.
            handle.refresh()
        with self._lock:
            handle = next(
                (
                    handle
                    for handle in self._handles
                    if handle.root == root and handle.settings == settings
                ),
                None,
            )
            if handle is None:
                handle = EngineHandle(root, settings)
                self._handles.append(handle)
            handle.windows += 1
            return handle

    def give_back(self, handle: EngineHandle) -> None:
        """Unregister a window; the engine is closed at once where nothing lingers."""
        with self._lock:
            handle.windows -= 1
            handle.used = time.monotonic()
        self._close_if_last(handle)

    @contextmanager
    def use(self, handle: EngineHandle, *, wait: bool = True) -> Iterator[Engine]:
        """Lend the engine of a folder for one call, and open it where it isn't open.

        An engine that was just opened is given some time to catch up, if `wait`.

        Raises: ConfigError WORKSPACE_MISSING once the handle was given back or the pool is closed;
        StoreError and FileError where it can't be opened.
        """
        with self._lock:
            # An engine opened now would never be closed.
            if not handle.windows and handle not in self._handles:
                raise _server_ending()
            handle.calls += 1
        try:
            engine = self._open(handle)
            engine.follow_settings()
            if wait:
                _await_first_look(handle, engine)
            try:
                yield engine
            except StoreError as error:
                # A project's damaged index is rebuilt for the next call.
                engine.start_anew(error)
                raise
        finally:
            with self._lock:
                handle.calls -= 1
                handle.used = time.monotonic()
            self._close_if_last(handle)

    def _close_if_last(self, handle: EngineHandle) -> None:
        if not self._linger and not handle.windows:
            self.close_idle()

    def _open(self, handle: EngineHandle) -> Engine:
        """Return the engine, opened where it isn't.

        Not under the pool's lock: a slow disk delays only the calls for its own folder.
        """
        with handle.turn:
            if handle.engine is None and not self._closed:
                handle.refresh()
                handle.engine = self._open_engine(handle.root, handle.settings)
                handle.keeper = AutoIndexer(handle.engine) if self._auto_index else None
                handle.opened = time.monotonic()
                # The pool was closed meanwhile, without this engine.
                if self._closed:
                    _close(handle.root, handle.engine, handle.keeper)
            if handle.engine is None or self._closed:
                raise _server_ending()
            return handle.engine

    def look_again(self, engine: Engine) -> bool:
        """Request a scan of the folder in the background; false without an auto-indexer."""
        with self._lock:
            keeper = next(
                (handle.keeper for handle in self._handles if handle.engine is engine), None
            )
        if keeper is not None:
            keeper.look_again()
        return keeper is not None

    def close_idle(self, most_bytes: int = 0) -> None:
        """Close engines that no window has had lately.

        Above `most_bytes` also those unused longest, until the process is below it.
        """
        with self._lock:
            idle = sorted(
                (handle for handle in self._handles if not handle.calls),
                key=lambda handle: (handle.windows > 0, handle.used),
            )
        for handle in idle:
            unused = time.monotonic() - handle.used
            if (not handle.windows and unused >= self._linger) or (
                most_bytes
                and memory_bytes() > most_bytes
                and (not handle.windows or unused >= self._rest)
            ):
                self._close_unused(handle)
        with self._lock:
            self._handles = [
                handle
                for handle in self._handles
                if handle.windows or handle.calls or handle.engine
            ]

    def _close_unused(self, handle: EngineHandle) -> None:
        """Close an engine, unless a call, a run or embedding is under way.

        A call that comes meanwhile waits and opens it again.
        """
        engine, keeper = handle.engine, handle.keeper
        if (
            engine is None
            or (handle.windows and _is_at_work(engine))
            or not handle.turn.acquire(blocking=False)
        ):
            return
        try:
            last = _last_state(engine)
            with self._lock:
                if handle.calls:
                    return
                handle.settings, handle.last, handle.engine, handle.keeper = (
                    engine.followed_settings.stated,
                    last,
                    None,
                    None,
                )
            _close(handle.root, engine, keeper)
        finally:
            handle.turn.release()
        del engine, keeper
        # An engine and its parts refer to one another.
        gc.collect()
        give_memory_back()

    def projects(self) -> list[PooledProject]:
        """Projects that are open, or were closed while a window has them; not the home."""
        with self._lock:
            known = [
                handle
                for handle in self._handles
                if (handle.engine or handle.last) and handle.root != handle.settings.home
            ]
            for handle in known:
                # Keeps it open while it is asked.
                handle.calls += 1
        try:
            return [
                PooledProject(handle.root, handle.windows, state, *_details(handle.engine))
                for handle in known
                if (state := handle.engine.freshness() if handle.engine else handle.last)
            ]
        finally:
            with self._lock:
                for handle in known:
                    handle.calls -= 1

    def close(self) -> None:
        """Close all engines, in use or not."""
        self._closed = True
        with self._lock:
            handles, self._handles = self._handles, []
        for handle in handles:
            if handle.engine is not None:
                _close(handle.root, handle.engine, handle.keeper)


def _details(engine: Engine | None) -> tuple[EmbeddingState | None, int]:
    if engine is None:
        return None, 0
    return engine.embedding.status(ask=False), count_secrets(
        engine.store.content.skipped(engine.source.id)
    )


def _close(root: Path, engine: Engine, keeper: AutoIndexer | None) -> None:
    try:
        if keeper is not None:
            keeper.close()
        engine.close()
    except Exception:
        # The other engines must be closed, too.
        log.exception("closing %s failed", root)


def _server_ending() -> ConfigError:
    return ConfigError("WORKSPACE_MISSING", "the server is ending")


def _is_at_work(engine: Engine) -> bool:
    return engine.running or engine.embedding.working


def _last_state(engine: Engine) -> Freshness | None:
    try:
        return replace(engine.freshness(), state=CLOSED)
    except CortexError:
        # The engine can be closed without it.
        return None


def _await_first_look(handle: EngineHandle, engine: Engine) -> None:
    """Let an engine that was just opened catch up.

    A first index takes longer; a search waits for that by itself.
    """
    keeper, deadline = handle.keeper, handle.opened + LOOK_SECONDS
    while (
        keeper is not None and time.monotonic() < deadline and not keeper.looked.wait(POLL_SECONDS)
    ):
        if not handle.windows or (engine.running and not engine.freshness().last_indexed):
            return
