"""The workspaces that a connection or command has; their engines are open for as long as a call
uses them.

Knows which engine a tool's `workspace` argument means; what a tool says is in the other modules.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

from cortex.base.errors import ConfigError, CortexError, InputError
from cortex.base.settings import Settings, Workspace
from cortex.base.types import Cancel, Page, Query
from cortex.engine.engine import Engine
from cortex.engine.pool import EngineHandle, EnginePool
from cortex.engine.search.federated import SearchTarget
from cortex.families.code.tools.jobs import Jobs

FAMILY = "code"
CLOSE_SECONDS = 5.0  # for an engine that is just being opened, before nobody waits for it any more

log = logging.getLogger(__name__)


class Workspaces:
    """The open workspaces of one connection."""

    def __init__(self, found: Sequence[Workspace], engines: EnginePool) -> None:
        self._lender = engines
        self._lent = [engines.borrow(workspace.root, workspace.settings) for workspace in found]
        self._failures: dict[Path, CortexError] = {}
        self._closed = threading.Event()
        self._opening = threading.Thread(target=self._try_all, name="open workspaces", daemon=True)
        self._names = _unique_names([workspace.root for workspace in found])
        self.jobs = Jobs()
        self._asked = [workspace.settings for workspace in found]

    @property
    def names(self) -> tuple[str, ...]:
        """What a caller calls them: the folder's name where that is unique, else the path."""
        return tuple(self._names.values())

    @property
    def settings(self) -> Settings:
        """The settings of the first workspace: those that hold for a connection as a whole."""
        first = self._lent[0]
        engine = first.engine
        return engine.settings if engine else first.settings

    @property
    def unheeded(self) -> tuple[str, ...]:
        """Which variables of this client don't count for an index, and what does, in a sentence
        each.
        """
        pairs = zip(self._asked, self._lent, strict=True)
        notes = [
            asked.unheeded(one.engine.settings if one.engine else one.settings)
            for asked, one in pairs
        ]
        return tuple(dict.fromkeys(note for texts in notes for note in texts))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Which workspaces could not be opened when they were last asked for, and why."""
        return tuple(
            f"{self._names[root]} is left out: {error.message}"
            for root, error in self._failures.items()
        )

    def start(self) -> None:
        """Open everything in the background, so that indexing starts before the first question."""
        self._opening.start()

    def _try_all(self) -> None:
        try:
            with self.open():
                pass
        except CortexError as error:  # each question that needs it is told
            log.warning("%s", error.message)

    @contextmanager
    def open(self, name: str | None = None) -> Iterator[list[tuple[str, Engine]]]:
        """The named workspace, or all that can be opened, as (name, engine), for one call.

        Raises: ConfigError WORKSPACE_UNKNOWN; InputError WORKSPACE_AMBIGUOUS; StoreError and
        FileError, if none of them can be opened.
        """
        chosen = [one for one in self._lent if name is None or self._is_called(one.root, name)]
        if not chosen:
            raise ConfigError(
                "WORKSPACE_UNKNOWN",
                f"unknown workspace {name!r}; known: {', '.join(self.names)}",
                context={"workspace": name, "known": list(self.names)},
            )
        if name is not None and len(chosen) > 1:
            raise ambiguous(f"the name {name!r}", [self._names[one.root] for one in chosen])
        with ExitStack() as used:
            opened: list[tuple[str, Engine]] = []
            failure: CortexError | None = None
            for one in chosen:
                try:
                    opened.append((self._names[one.root], used.enter_context(self._use(one))))
                    self._failures.pop(one.root, None)
                except CortexError as error:
                    failure = self._failures[one.root] = error
            if failure and not opened:
                raise failure
            yield opened

    def _use(self, one: EngineHandle) -> AbstractContextManager[Engine]:
        if self._closed.is_set():
            raise ConfigError("WORKSPACE_MISSING", "the server is ending")
        return self._lender.use(one)

    def _is_called(self, root: Path, name: str) -> bool:
        if name in (self._names[root], str(root), root.name):
            return True
        try:
            return os.path.isabs(name) and os.path.realpath(name) == str(root)
        except (OSError, ValueError):
            return False

    @contextmanager
    def places(self) -> Iterator[list[SearchTarget]]:
        """All that can be opened, to be searched in one call; none where nothing can."""
        with ExitStack() as used:
            try:
                engines = used.enter_context(self.open())
            except CortexError as error:
                log.warning("%s", error.message)
                engines = []
            yield places_of(engines)

    def look_again(self, engine: Engine) -> bool:
        """Have the workspace compared soon in the background; false where nobody keeps it."""
        return self._lender.look_again(engine)

    def close(self) -> None:
        """Give every workspace back."""
        if not self._closed.is_set():
            self._closed.set()
            for one in self._lent:
                self._lender.give_back(one)
            if self._opening.is_alive():
                self._opening.join(CLOSE_SECONDS)


def ambiguous(what: str, names: Sequence[str]) -> InputError:
    """The error for a name or path that several workspaces have."""
    message = f"several workspaces have {what}: {', '.join(names)}"
    return InputError("WORKSPACE_AMBIGUOUS", message, context={"candidates": list(names)})


def places_of(engines: Sequence[tuple[str, Engine]]) -> list[SearchTarget]:
    """The workspaces of a call, to be searched together."""
    several = len(engines) > 1
    return [
        SearchTarget(
            FAMILY,
            name,
            partial(_ask, engine),
            opener="get_file_context path" + (" workspace" if several else ""),
        )
        for name, engine in engines
    ]


def _ask(engine: Engine, query: Query, cancel: Cancel) -> Page:
    return engine.search(query, cancel=cancel)


def _unique_names(roots: Sequence[Path]) -> dict[Path, str]:
    counts: dict[str, int] = {}
    for root in roots:
        counts[root.name] = counts.get(root.name, 0) + 1
    return {
        root: root.name if root.name and counts[root.name] == 1 else str(root) for root in roots
    }
