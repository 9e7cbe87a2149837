"""Pool of the engines of a process: one per folder and settings, shared by all windows.

A window (a connection, a command) registers its folders once; only a call under way holds an
engine. An engine without windows is closed after some time. Where memory is short, so is the one
unused longest although a window has it: the next call opens it again, and it catches up. Two
settings for one folder are two engines on one store: the second has no lease and asks the first, as
another process would. The settings that decide the content of an index are the same for both
(`Settings.index_values`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from cortex.base.errors import CortexError, StoreError
from cortex.base.settings import Settings, load_again
from cortex.base.types import EmbeddingState, Freshness, count_secrets
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.engine import Engine
from cortex.engine.shared_pool import PoolHandle, SharedPool, server_ending

# Time that calls wait for the first scan of an engine that was just opened.
LOOK_SECONDS = 3.0
POLL_SECONDS = 0.02
# State of a project with a closed engine.
CLOSED = "closed"

Opener = Callable[[Path, Settings], Engine]


@dataclass(frozen=True, slots=True)
class KeptEngine:
    """An open engine and what keeps it fresh."""

    engine: Engine
    keeper: AutoIndexer | None
    opened: float

    def close(self) -> None:
        """Stop indexing, and close the engine."""
        if self.keeper is not None:
            self.keeper.close()
        self.engine.close()


@dataclass(slots=True, eq=False)
class EngineHandle(PoolHandle[KeptEngine]):
    """A folder with its settings, from files and the variables of the windows."""

    # State of an engine that was closed.
    last: Freshness | None = None

    @property
    def engine(self) -> Engine | None:
        """The engine while it is open."""
        return self.resource.engine if self.resource else None

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


class EnginePool(SharedPool[EngineHandle]):
    """Pool that lends an engine to each call."""

    def __init__(
        self, *, keep: bool, linger: float = 0.0, rest: float = 0.0, opener: Opener | None = None
    ) -> None:
        """`keep` keeps the folders fresh in the background."""
        super().__init__(EngineHandle, linger=linger, rest=rest)
        self._open_engine = opener or open_engine
        self._auto_index = keep

    def borrow(self, root: Path, settings: Settings) -> EngineHandle:
        """Register a window for a folder, to be given back at its end; opens nothing yet."""
        settings = load_again(settings)
        with self._lock:
            known = [handle for handle in self._handles if handle.root == root]
        for handle in known:
            # Not under the lock, because this reads files.
            handle.refresh()
        return self._register(root, settings)

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
                raise server_ending()
            handle.calls += 1
        try:
            self._ensure_open(handle)
            kept = cast(KeptEngine, handle.resource)
            engine = kept.engine
            engine.follow_settings()
            if wait:
                _await_first_look(handle, kept)
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

    def _open(self, handle: EngineHandle) -> KeptEngine:
        engine = self._open_engine(handle.root, handle.refresh())
        keeper = AutoIndexer(engine) if self._auto_index else None
        return KeptEngine(engine, keeper, time.monotonic())

    def _may_close(self, handle: EngineHandle) -> bool:
        """Decide whether nothing is under way, and note the state for status output."""
        engine = handle.engine
        if engine is None or (handle.windows and (engine.running or engine.embedding.working)):
            return False
        # The engine can be closed without it.
        with suppress(CortexError):
            handle.last = replace(engine.freshness(), state=CLOSED)
        handle.settings = engine.followed_settings.stated
        return True

    def look_again(self, engine: Engine) -> bool:
        """Request a scan of the folder in the background; false without an auto-indexer."""
        with self._lock:
            opened = [handle.resource for handle in self._handles if handle.resource]
        keeper = next((kept.keeper for kept in opened if kept.engine is engine), None)
        if keeper is not None:
            keeper.look_again()
        return keeper is not None

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


def _details(engine: Engine | None) -> tuple[EmbeddingState | None, int]:
    if engine is None:
        return None, 0
    return engine.embedding.status(ask=False), count_secrets(
        engine.store.content.skipped(engine.source.id)
    )


def _await_first_look(handle: EngineHandle, kept: KeptEngine) -> None:
    """Let an engine that was just opened catch up.

    A first index takes longer; a search waits for that by itself.
    """
    engine, keeper, deadline = kept.engine, kept.keeper, kept.opened + LOOK_SECONDS
    while (
        keeper is not None and time.monotonic() < deadline and not keeper.looked.wait(POLL_SECONDS)
    ):
        if not handle.windows or (engine.running and not engine.freshness().last_indexed):
            return
