"""Searches over files as they are now, without the index: an engine in memory reads and ranks them,
one question at a time.

It is kept for the next question, which only reads what has changed since, and let go when it is not
used. Knows no engine by name: whoever makes one hands in how.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from cortex.base.errors import Cancelled, LimitError
from cortex.base.runtime.process_stats import give_memory_back
from cortex.base.settings import Settings
from cortex.base.types import (
    Cancel,
    IndexReport,
    Mode,
    Page,
    Progress,
    ProgressCallback,
    Query,
    ScannedFile,
    Source,
)
from cortex.engine.search import search_exact

POLL_SECONDS = 0.05


class Reader(Protocol):
    """What is needed of an engine."""

    def reconfigure(self, settings: Settings) -> None: ...

    def index(self, *, progress: ProgressCallback, cancel: Cancel) -> IndexReport: ...

    def search(self, query: Query, *, cancel: Cancel) -> Page: ...

    def close(self) -> None: ...


class AdhocSearch:
    """The engine in memory, opened when it is needed."""

    def __init__(self, open_reader: Callable[[], Reader]) -> None:
        self._open_reader = open_reader
        self._reader: Reader | None = None
        self._turn = threading.Lock()
        self._used = 0.0

    def search(self, query: Query, cancel: Cancel, deadline: float) -> Page:
        """Read what has changed, cut and rank every chunk.

        Raises: Cancelled, LimitError SEARCH_TIMEOUT.
        """
        while not self._turn.acquire(timeout=POLL_SECONDS):
            if cancel:
                raise Cancelled()
            if time.monotonic() > deadline:
                raise LimitError("SEARCH_TIMEOUT", "other searches of all files took too long")
        try:
            return self._search(query, cancel, deadline)
        finally:
            self._used = time.monotonic()
            self._turn.release()

    def _search(self, query: Query, cancel: Cancel, deadline: float) -> Page:
        if self._reader is None:
            self._reader = self._open_reader()
        late = Cancel()

        def look(_: Progress) -> None:
            if cancel or time.monotonic() > deadline:
                late.cancel()

        with suppress(Cancelled):
            self._reader.index(progress=look, cancel=late)
        if late:
            raise (
                Cancelled()
                if cancel
                else LimitError("SEARCH_TIMEOUT", "reading all files ran out of time")
            )
        return self._reader.search(replace(query, mode=Mode.WORDS), cancel=cancel)

    def reconfigure(self, settings: Settings) -> None:
        """Read with other settings from now on."""
        if self._reader is not None:
            self._reader.reconfigure(settings)

    def rest(self, idle_seconds: float) -> None:
        """Let go of what was read when it was unused for that long."""
        if self._turn.acquire(blocking=False):
            try:
                if self._reader is not None and time.monotonic() - self._used >= idle_seconds:
                    self._reader.close()
                    self._reader = None
                    give_memory_back()
            finally:
                self._turn.release()

    def close(self) -> None:
        """Let go of what was read; a search under way ends at its next file."""
        if self._reader is not None:
            self._reader.close()


def search_files(
    query: Query,
    source: Source,
    files: Iterable[ScannedFile],
    settings: Settings,
    deadline: float,
    cancel: Cancel,
) -> Page:
    """Search for the very words of a query, or a regular expression, in files as they are."""
    found = search_exact(
        query,
        source,
        files,
        deadline=deadline,
        max_file_size=settings.workspace.max_file_size,
        cancel=cancel,
        redacted=settings.security.redact != "off",
    )
    return found.page(query)
