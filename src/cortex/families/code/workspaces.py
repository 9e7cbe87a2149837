"""The workspaces that a server or command works on: engines opened on demand, kept fresh where that is wanted.

Knows which engine a tool's `workspace` argument means and how answers from several are merged; what a tool says is in the
other modules.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cortex.engine import Engine
from cortex.errors import ConfigError, CortexError
from cortex.keeper import Keeper
from cortex.settings import Settings, Workspace
from cortex.types import Cancel, Hit, Mode, Page, Query

START_SECONDS = 3.0  # that a first question waits for a keeper to begin with its first look

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Located:
    """A hit and the workspace that it is in."""

    workspace: str
    hit: Hit


class Workspaces:
    """The open workspaces of one connection."""

    def __init__(self, found: Sequence[Workspace], *, keep: bool) -> None:
        self._found = tuple(found)
        self._keep = keep
        self._lock = threading.Lock()
        self._engines: dict[Path, Engine] = {}
        self._keepers: dict[Path, Keeper] = {}
        self._failures: dict[Path, CortexError] = {}
        self._closed = False
        self._names = _unique_names([workspace.root for workspace in found])

    @property
    def names(self) -> tuple[str, ...]:
        """What a caller calls them: the folder's name where that is unique, else the path."""
        return tuple(self._names.values())

    @property
    def settings(self) -> Settings:
        """The settings of the first workspace: those that hold for a connection as a whole."""
        first = self._engines.get(self._found[0].root)
        return first.settings if first else self._found[0].settings

    @property
    def left_out(self) -> tuple[str, ...]:
        """Which workspaces could not be opened when they were last asked for, and why."""
        return tuple(f"{self._names[root]} is left out: {error.message}" for root, error in self._failures.items())

    def start(self) -> None:
        """Open everything in the background, so that indexing starts before the first question."""
        threading.Thread(target=self._try_all, name="open workspaces", daemon=True).start()

    def _try_all(self) -> None:
        try:
            self.open()
        except CortexError as error:  # each question that needs it is told
            log.warning("%s", error.message)

    def open(self, name: str | None = None) -> list[tuple[str, Engine]]:
        """The named workspace, or all that can be opened, as (name, engine).

        Raises: ConfigError WORKSPACE_UNKNOWN; StoreError and FileError, if none of them can be opened.
        """
        chosen = [workspace for workspace in self._found if name is None or self._is_called(workspace.root, name)]
        if not chosen:
            raise ConfigError(
                "WORKSPACE_UNKNOWN",
                f"unknown workspace {name!r}; known: {', '.join(self.names)}",
                context={"workspace": name, "known": list(self.names)},
            )
        opened: list[tuple[str, Engine]] = []
        failure: CortexError | None = None
        for workspace in chosen:
            try:
                opened.append((self._names[workspace.root], self._engine(workspace)))
                self._failures.pop(workspace.root, None)
            except CortexError as error:
                failure = self._failures[workspace.root] = error
        if failure and not opened:
            raise failure
        return opened

    def _is_called(self, root: Path, name: str) -> bool:
        if name in (self._names[root], str(root), root.name):
            return True
        try:
            return os.path.isabs(name) and os.path.realpath(name) == str(root)
        except (OSError, ValueError):
            return False

    def _engine(self, workspace: Workspace) -> Engine:
        with self._lock:
            engine = self._engines.get(workspace.root)
            if engine is None:
                if self._closed:
                    raise ConfigError("WORKSPACE_MISSING", "the server is ending")
                engine = self._engines[workspace.root] = Engine(workspace.root, workspace.settings)
                if self._keep:
                    self._keepers[workspace.root] = Keeper(engine)
                    _await_start(engine)
            return engine

    def look_again(self, engine: Engine) -> bool:
        """Have the workspace compared soon in the background; false where nobody keeps it."""
        keeper = self._keepers.get(engine.root)
        if keeper is not None:
            keeper.look_again()
        return keeper is not None

    def close(self) -> None:
        """Stop keeping and close every engine."""
        with self._lock:
            self._closed = True
            for keeper in self._keepers.values():
                keeper.close()
            for engine in self._engines.values():
                engine.close()
            self._keepers.clear()
            self._engines.clear()


def _await_start(engine: Engine) -> None:
    """Where nothing is indexed yet, let the keeper begin, so that a first question can wait for what it finds."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and not engine.running:
        state = engine.freshness()
        if state.last_indexed or state.error or not engine.holds():
            return
        time.sleep(0.01)


def search_all(engines: Sequence[tuple[str, Engine]], query: Query, cancel: Cancel) -> tuple[list[Located], Page]:
    """Ask every engine and merge by relevance; the page sums up what was searched."""
    if len(engines) == 1:
        name, engine = engines[0]
        page = engine.search(query, cancel=cancel)
        return [Located(name, hit) for hit in page.hits], page
    # All of them with text: which hits are shown, and so need it, is known only after merging.
    deep = replace(query, offset=0, limit=query.offset + query.limit, characters=0)
    pages = [(name, engine.search(deep, cancel=cancel)) for name, engine in engines]
    merged = sorted(
        (Located(name, hit) for name, page in pages for hit in page.hits),
        key=lambda one: (-one.hit.relevance, one.workspace, one.hit.path, one.hit.start_line, one.hit.chunk),
    )
    whole = Page(
        hits=(),
        total=sum(page.total for _, page in pages),
        mode=pages[0][1].mode if pages else Mode.WORDS,
        notes=tuple(dict.fromkeys(f"{name}: {note}" for name, page in pages for note in page.notes)),
        docs=sum(page.docs for _, page in pages),
        chunks=sum(page.chunks for _, page in pages),
        cached=all(page.cached for _, page in pages),
    )
    return _trim(merged[query.offset : query.offset + query.limit], query.characters), whole


def _trim(located: Sequence[Located], characters: int) -> list[Located]:
    """The hits, with text until there are `characters` of it (0 is no limit), as one engine gives it out."""
    trimmed: list[Located] = []
    left = characters or sys.maxsize
    for one in located:
        trimmed.append(one if left > 0 else replace(one, hit=replace(one.hit, text="")))
        left -= len(one.hit.text)
    return trimmed


def _unique_names(roots: Sequence[Path]) -> dict[Path, str]:
    counts: dict[str, int] = {}
    for root in roots:
        counts[root.name] = counts.get(root.name, 0) + 1
    return {root: root.name if root.name and counts[root.name] == 1 else str(root) for root in roots}
