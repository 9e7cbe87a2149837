"""The engines of a process, lent to whoever needs them: one per folder and settings, kept fresh, closed some time after the last use.

A command borrows and closes; cortexd lends the same engine to every connection with the same folder and the same settings. Two
settings for one folder are two engines on one store: the second has no lease and asks the first, as another process would.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from cortex.engine import Engine
from cortex.errors import ConfigError
from cortex.keeper import Keeper
from cortex.process import give_memory_back, memory_bytes
from cortex.settings import Settings

START_SECONDS = 3.0  # that a first question waits for a keeper to begin with its first look

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Lent:
    """An engine, opened by the first who has it, and how many have it."""

    root: Path
    asked: Settings  # as the borrower had them: what changes at run time changes the engine's own
    engine: Engine | None = None
    keeper: Keeper | None = None
    opening: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    left: float = 0.0  # when the last user gave it back


class Engines:
    """Opens an engine for a folder once, and closes it when nobody has it."""

    def __init__(self, *, keep: bool, linger: float = 0.0) -> None:
        self._keep = keep
        self._linger = linger
        self._lock = threading.Lock()
        self._lent: list[_Lent] = []
        self._closed = False

    def borrow(self, root: Path, settings: Settings) -> Engine:
        """The engine of a folder with these settings, opened where it isn't yet.

        Raises: ConfigError WORKSPACE_MISSING once all is closed; StoreError and FileError, where it can't be opened.
        """
        with self._lock:
            if self._closed:
                raise ConfigError("WORKSPACE_MISSING", "the server is ending")
            one = next((one for one in self._lent if one.root == root and one.asked == settings), None)
            if one is None:
                one = _Lent(root, settings)
                self._lent.append(one)
            one.users += 1
        try:
            engine = self._open(one)
        except BaseException:
            self._return(one)
            raise
        if one.keeper is not None:
            _await_start(engine)
        return engine

    def _open(self, one: _Lent) -> Engine:
        """The engine, opened where it isn't; not under the lock of all: a slow disk holds up only those who want what is on it."""
        with one.opening:
            if one.engine is None:
                one.engine = Engine(one.root, one.asked)
                one.keeper = Keeper(one.engine) if self._keep else None
                if self._closed:  # meanwhile, and without this one
                    _close(one)
                    raise ConfigError("WORKSPACE_MISSING", "the server is ending")
            return one.engine

    def _return(self, one: _Lent) -> None:
        with self._lock:
            one.users -= 1
            one.left = time.monotonic()
            if not one.users and one.engine is None and one in self._lent:
                self._lent.remove(one)

    def give_back(self, engine: Engine) -> None:
        """Say that a borrower is done; the engine is closed at once where nothing lingers."""
        one = self._find(engine)
        if one is None:
            return
        self._return(one)
        if not self._linger:
            self.close_idle()

    def look_again(self, engine: Engine) -> bool:
        """Have the folder compared soon in the background; false where nobody keeps it."""
        one = self._find(engine)
        if one is None or one.keeper is None:
            return False
        one.keeper.look_again()
        return True

    def _find(self, engine: Engine) -> _Lent | None:
        with self._lock:
            return next((one for one in self._lent if one.engine is engine), None)

    def close_idle(self, most_bytes: int = 0) -> None:
        """Close what nobody has and nobody had lately; all that nobody has, where the process is above `most_bytes`."""
        linger = 0.0 if most_bytes and memory_bytes() > most_bytes else self._linger
        with self._lock:
            now = time.monotonic()
            idle = [one for one in self._lent if not one.users and now - one.left >= linger]
            self._lent = [one for one in self._lent if one not in idle]
        for one in idle:
            _close(one)
        if idle:
            give_memory_back()

    def open(self) -> list[tuple[Engine, int]]:
        """What is open now, with the number of those who have it."""
        with self._lock:
            return [(one.engine, one.users) for one in self._lent if one.engine]

    def close(self) -> None:
        """Close everything, whoever has it."""
        with self._lock:
            self._closed = True
            lent, self._lent = self._lent, []
        for one in lent:
            _close(one)


def _close(one: _Lent) -> None:
    try:
        if one.keeper is not None:
            one.keeper.close()
        if one.engine is not None:
            one.engine.close()
    except Exception:  # the others are to be closed, too
        log.exception("closing %s failed", one.root)


def _await_start(engine: Engine) -> None:
    """Where nothing is indexed yet, let the keeper begin, so that a first question can wait for what it finds."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and not engine.running:
        state = engine.freshness()
        if state.last_indexed or state.error or not engine.holds():
            return
        time.sleep(0.01)
