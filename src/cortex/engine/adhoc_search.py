"""Search over files as they are now, without the index.

An in-memory engine reads and ranks them, one query at a time. It is kept for the next query, which
only reads what has changed since, and released when unused. Knows no engine by name: the caller
passes a function that opens one.
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
    """The methods used of an engine."""

    def reconfigure(self, settings: Settings) -> None: ...

    def index(self, *, progress: ProgressCallback, cancel: Cancel) -> IndexReport: ...

    def search(self, query: Query, *, cancel: Cancel) -> Page: ...

    def close(self) -> None: ...


class AdhocSearch:
    """In-memory engine, opened on first use."""

    def __init__(self, open_reader: Callable[[], Reader]) -> None:
        self._open_reader = open_reader
        self._reader: Reader | None = None
        self._turn = threading.Lock()
        self._used = 0.0

    def search(self, query: Query, cancel: Cancel, deadline: float) -> Page:
        """Read changed files, then chunk and rank everything.

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
        stop = Cancel()

        def check_time(_: Progress) -> None:
            if cancel or time.monotonic() > deadline:
                stop.cancel()

        with suppress(Cancelled):
            self._reader.index(progress=check_time, cancel=stop)
        if stop:
            raise (
                Cancelled()
                if cancel
                else LimitError("SEARCH_TIMEOUT", "reading all files ran out of time")
            )
        return self._reader.search(replace(query, mode=Mode.WORDS), cancel=cancel)

    def reconfigure(self, settings: Settings) -> None:
        """Apply other settings from now on."""
        if self._reader is not None:
            self._reader.reconfigure(settings)

    def release_idle(self, idle_seconds: float) -> None:
        """Release the engine when it was unused for that long."""
        if self._turn.acquire(blocking=False):
            try:
                if self._reader is not None and time.monotonic() - self._used >= idle_seconds:
                    self._reader.close()
                    self._reader = None
                    give_memory_back()
            finally:
                self._turn.release()

    def close(self) -> None:
        """Release the engine; a search under way ends at its next file."""
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
    """Search files as they are for the literal text of a query, or a regular expression."""
    matches = search_exact(
        query,
        source,
        files,
        deadline=deadline,
        max_file_size=settings.workspace.max_file_size,
        cancel=cancel,
        redacted=settings.security.redact != "off",
    )
    return matches.page(query)
