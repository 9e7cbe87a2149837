"""Workspaces of a connection or command; engines are open while a call uses them.

Resolves a tool's `workspace` argument to an engine. Answers are rendered in other modules.
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
# Time for an engine that is just being opened before closing gives up on it.
CLOSE_SECONDS = 5.0

log = logging.getLogger(__name__)


class Workspaces:
    """Open workspaces of one connection."""

    def __init__(self, workspaces: Sequence[Workspace], engines: EnginePool) -> None:
        self._pool = engines
        self._handles = [
            engines.borrow(workspace.root, workspace.settings) for workspace in workspaces
        ]
        self._failures: dict[Path, CortexError] = {}
        self._closed = threading.Event()
        self._opening = threading.Thread(target=self._open_all, name="open workspaces", daemon=True)
        self._names = _unique_names([workspace.root for workspace in workspaces])
        self.jobs = Jobs()
        self._client_settings = [workspace.settings for workspace in workspaces]

    @property
    def names(self) -> tuple[str, ...]:
        """Names for callers: the folder's name where that is unique, else the path."""
        return tuple(self._names.values())

    @property
    def settings(self) -> Settings:
        """Settings of the first workspace, which hold for the connection as a whole."""
        first = self._handles[0]
        engine = first.engine
        return engine.settings if engine else first.settings

    @property
    def unheeded(self) -> tuple[str, ...]:
        """Notes on the client's variables that don't apply to a shared index, one sentence each."""
        pairs = zip(self._client_settings, self._handles, strict=True)
        notes = [
            client_settings.unheeded(handle.engine.settings if handle.engine else handle.settings)
            for client_settings, handle in pairs
        ]
        return tuple(dict.fromkeys(note for texts in notes for note in texts))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Notes on workspaces that failed to open in the latest call, with the reason."""
        return tuple(
            f"{self._names[root]} is left out: {error.message}"
            for root, error in self._failures.items()
        )

    def start(self) -> None:
        """Open everything in the background, so that indexing starts before the first query."""
        self._opening.start()

    def _open_all(self) -> None:
        try:
            with self.open():
                pass
        except CortexError as error:
            # Every call that needs the workspace reports the error itself.
            log.warning("%s", error.message)

    @contextmanager
    def open(self, name: str | None = None) -> Iterator[list[tuple[str, Engine]]]:
        """Open the named workspace, or all that can be opened, as (name, engine) for one call.

        Raises: ConfigError WORKSPACE_UNKNOWN; InputError WORKSPACE_AMBIGUOUS; StoreError or
        FileError if none can be opened.
        """
        chosen = [
            handle
            for handle in self._handles
            if name is None or self._matches_name(handle.root, name)
        ]
        if not chosen:
            raise ConfigError(
                "WORKSPACE_UNKNOWN",
                f"unknown workspace {name!r}; known: {', '.join(self.names)}",
                context={"workspace": name, "known": list(self.names)},
            )
        if name is not None and len(chosen) > 1:
            raise ambiguous(f"the name {name!r}", [self._names[handle.root] for handle in chosen])
        with ExitStack() as stack:
            opened: list[tuple[str, Engine]] = []
            failure: CortexError | None = None
            for handle in chosen:
                try:
                    opened.append(
                        (self._names[handle.root], stack.enter_context(self._use(handle)))
                    )
                    self._failures.pop(handle.root, None)
                except CortexError as error:
                    failure = self._failures[handle.root] = error
            if failure and not opened:
                raise failure
            yield opened

    def _use(self, handle: EngineHandle) -> AbstractContextManager[Engine]:
        if self._closed.is_set():
            raise ConfigError("WORKSPACE_MISSING", "the server is ending")
        return self._pool.use(handle)

    def _matches_name(self, root: Path, name: str) -> bool:
        if name in (self._names[root], str(root), root.name):
            return True
        try:
            return os.path.isabs(name) and os.path.realpath(name) == str(root)
        except (OSError, ValueError):
            return False

    @contextmanager
    def places(self) -> Iterator[list[SearchTarget]]:
        """Open everything that can be opened as search targets for one call; maybe none."""
        with ExitStack() as stack:
            try:
                engines = stack.enter_context(self.open())
            except CortexError as error:
                log.warning("%s", error.message)
                engines = []
            yield places_of(engines)

    def look_again(self, engine: Engine) -> bool:
        """Schedule a comparison of the workspace with its index; false if no process keeps it."""
        return self._pool.look_again(engine)

    def close(self) -> None:
        """Return every engine to the pool."""
        if not self._closed.is_set():
            self._closed.set()
            for handle in self._handles:
                self._pool.give_back(handle)
            if self._opening.is_alive():
                self._opening.join(CLOSE_SECONDS)


def ambiguous(what: str, names: Sequence[str]) -> InputError:
    """Error for a name or path that several workspaces have."""
    message = f"several workspaces have {what}: {', '.join(names)}"
    return InputError("WORKSPACE_AMBIGUOUS", message, context={"candidates": list(names)})


def places_of(engines: Sequence[tuple[str, Engine]]) -> list[SearchTarget]:
    """Search targets for the workspaces of a call."""
    several = len(engines) > 1
    return [
        SearchTarget(
            FAMILY,
            name,
            partial(_search_engine, engine),
            opener="get_file_context path" + (" workspace" if several else ""),
        )
        for name, engine in engines
    ]


def _search_engine(engine: Engine, query: Query, cancel: Cancel) -> Page:
    return engine.search(query, cancel=cancel)


def _unique_names(roots: Sequence[Path]) -> dict[Path, str]:
    counts: dict[str, int] = {}
    for root in roots:
        counts[root.name] = counts.get(root.name, 0) + 1
    return {
        root: root.name if root.name and counts[root.name] == 1 else str(root) for root in roots
    }
