"""The engines of a process: one per folder and settings, shared by all windows that have it, open
while somebody needs it.

A window (a connection, a command) says once which folders it has; only a call under way holds an
engine. What no window has is closed after some time; where memory is short, so is what was unused
longest though a window has it: the next call opens it again, and it catches up with what changed
meanwhile. Two settings for one folder are two engines on one store: the second has no lease and
asks the first, as another process would. What decides what an index holds is the same for both
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

# That calls wait, after an engine was opened, for its keeper's first look at what changed
LOOK_SECONDS = 3.0
POLL_SECONDS = 0.02
CLOSED = "closed"  # the state of a project whose engine is

log = logging.getLogger(__name__)


Opener = Callable[[Path, Settings], Engine]


@dataclass(slots=True, eq=False)
class EngineHandle:
    """A folder with its settings: how many windows have it, how many calls use it now, and its
    engine while that is open.
    """

    root: Path
    settings: Settings  # as files and the windows' variables say it
    windows: int = 0
    calls: int = 0
    used: float = 0.0  # when the last call, or the last window, ended
    engine: Engine | None = None
    keeper: AutoIndexer | None = None
    opened: float = 0.0
    last: Freshness | None = None  # of an engine that was closed
    turn: threading.Lock = field(default_factory=threading.Lock)  # to open or close the engine

    def refresh(self) -> Settings:
        """The settings as their files say it now."""
        engine = self.engine
        self.settings = load_again(engine.followed_settings.stated if engine else self.settings)
        return self.settings


@dataclass(frozen=True, slots=True)
class PooledProject:
    """What there is to know of a folder that windows have, or had lately."""

    root: Path
    windows: int
    freshness: Freshness
    embedding: EmbeddingState | None = None
    secrets: int = 0  # files that are left out as such


def open_engine(root: Path, settings: Settings) -> Engine:
    """Open the engine of a folder, or the person's library where the folder is the home."""
    from cortex.engine.library import Library

    return Library(settings) if root == settings.home else Engine(root, settings)


class EnginePool:
    """Opens the engine of a folder for whoever calls, and closes it when nobody needs it."""

    def __init__(
        self, *, keep: bool, linger: float = 0.0, rest: float = 0.0, opener: Opener | None = None
    ) -> None:
        """`keep` follows the folders; without windows an engine lingers, and with one it may rest
        unused before it is in the way.
        """
        self._open_engine = opener or open_engine
        self._keep = keep
        self._linger = linger
        self._rest = rest
        self._lock = threading.Lock()  # never waits for a disk
        self._lent: list[EngineHandle] = []
        self._closed = False

    def borrow(self, root: Path, settings: Settings) -> EngineHandle:
        """A folder for a window, which gives it back at its end; nothing is opened yet."""
        settings = load_again(settings)
        with self._lock:
            known = [one for one in self._lent if one.root == root]
        for one in known:
            one.refresh()  # not under the lock: files are looked at
        with self._lock:
            one = next(
                (one for one in self._lent if one.root == root and one.settings == settings), None
            )
            if one is None:
                one = EngineHandle(root, settings)
                self._lent.append(one)
            one.windows += 1
            return one

    def give_back(self, one: EngineHandle) -> None:
        """Say that a window is done; the engine is closed at once where nothing lingers."""
        with self._lock:
            one.windows -= 1
            one.used = time.monotonic()
        self._close_if_last(one)

    @contextmanager
    def use(self, one: EngineHandle, *, wait: bool = True) -> Iterator[Engine]:
        """The engine of a folder for one call, opened where it isn't; it stays open until the call
        is done.

        One that was just opened is given some time to catch up, unless somebody can't `wait`.

        Raises: ConfigError WORKSPACE_MISSING once it was given back or all is closed; StoreError
        and FileError, where it can't be opened.
        """
        with self._lock:
            if not one.windows and one not in self._lent:  # nobody would close what is opened now
                raise _ending()
            one.calls += 1
        try:
            engine = self._open(one)
            engine.follow_settings()
            if wait:
                _await_first_look(one, engine)
            try:
                yield engine
            except StoreError as error:
                # A damaged index of a project is built anew for the next call, whichever call found
                # it.
                engine.start_anew(error)
                raise
        finally:
            with self._lock:
                one.calls -= 1
                one.used = time.monotonic()
            self._close_if_last(one)

    def _close_if_last(self, one: EngineHandle) -> None:
        if not self._linger and not one.windows:
            self.close_idle()

    def _open(self, one: EngineHandle) -> Engine:
        """The engine, opened where it isn't; not under the lock of all: a slow disk holds up only
        those who want what is on it.
        """
        with one.turn:
            if one.engine is None and not self._closed:
                one.refresh()
                one.engine = self._open_engine(one.root, one.settings)
                one.keeper = AutoIndexer(one.engine) if self._keep else None
                one.opened = time.monotonic()
                if self._closed:  # meanwhile, and without this one
                    _close(one.root, one.engine, one.keeper)
            if one.engine is None or self._closed:
                raise _ending()
            return one.engine

    def look_again(self, engine: Engine) -> bool:
        """Have the folder compared soon in the background; false where nobody keeps it."""
        with self._lock:
            keeper = next((one.keeper for one in self._lent if one.engine is engine), None)
        if keeper is not None:
            keeper.look_again()
        return keeper is not None

    def close_idle(self, most_bytes: int = 0) -> None:
        """Close what no window has had lately; above `most_bytes` what is unused longest, until the
        process is below it.
        """
        with self._lock:
            idle = sorted(
                (one for one in self._lent if not one.calls),
                key=lambda one: (one.windows > 0, one.used),
            )
        for one in idle:
            unused = time.monotonic() - one.used
            if (not one.windows and unused >= self._linger) or (
                most_bytes
                and memory_bytes() > most_bytes
                and (not one.windows or unused >= self._rest)
            ):
                self._close_unused(one)
        with self._lock:
            self._lent = [one for one in self._lent if one.windows or one.calls or one.engine]

    def _close_unused(self, one: EngineHandle) -> None:
        """Close an engine, unless a call, a run or embedding is under way; a call that comes
        meanwhile waits and opens it again.
        """
        engine, keeper = one.engine, one.keeper
        if (
            engine is None
            or (one.windows and _is_at_work(engine))
            or not one.turn.acquire(blocking=False)
        ):
            return
        try:
            last = _last_state(engine)
            with self._lock:
                if one.calls:
                    return
                one.settings, one.last, one.engine, one.keeper = (
                    engine.followed_settings.stated,
                    last,
                    None,
                    None,
                )
            _close(one.root, engine, keeper)
        finally:
            one.turn.release()
        del engine, keeper
        gc.collect()  # an engine and its parts know one another
        give_memory_back()

    def projects(self) -> list[PooledProject]:
        """What is open now, or was closed while a window has it; Cortex's own home is no project."""
        with self._lock:
            known = [
                one
                for one in self._lent
                if (one.engine or one.last) and one.root != one.settings.home
            ]
            for one in known:
                one.calls += 1  # so that it stays open while it is asked
        try:
            return [
                PooledProject(one.root, one.windows, state, *_details(one.engine))
                for one in known
                if (state := one.engine.freshness() if one.engine else one.last)
            ]
        finally:
            with self._lock:
                for one in known:
                    one.calls -= 1

    def close(self) -> None:
        """Close everything, whoever has it."""
        self._closed = True
        with self._lock:
            lent, self._lent = self._lent, []
        for one in lent:
            if one.engine is not None:
                _close(one.root, one.engine, one.keeper)


def _details(engine: Engine | None) -> tuple[EmbeddingState | None, int]:
    if engine is None:
        return None, 0
    return engine.embedding.status(ask=False), count_secrets(
        engine.store.truth.skipped(engine.source.id)
    )


def _close(root: Path, engine: Engine, keeper: AutoIndexer | None) -> None:
    try:
        if keeper is not None:
            keeper.close()
        engine.close()
    except Exception:  # the others are to be closed, too
        log.exception("closing %s failed", root)


def _ending() -> ConfigError:
    return ConfigError("WORKSPACE_MISSING", "the server is ending")


def _is_at_work(engine: Engine) -> bool:
    return engine.running or engine.embedding.working


def _last_state(engine: Engine) -> Freshness | None:
    try:
        return replace(engine.freshness(), state=CLOSED)
    except CortexError:  # it can be closed all the same
        return None


def _await_first_look(one: EngineHandle, engine: Engine) -> None:
    """Let an engine that was just opened catch up; for a first index, which takes longer, a search
    waits by itself.
    """
    keeper, deadline = one.keeper, one.opened + LOOK_SECONDS
    while (
        keeper is not None and time.monotonic() < deadline and not keeper.looked.wait(POLL_SECONDS)
    ):
        if not one.windows or (engine.running and not engine.freshness().last_indexed):
            return
