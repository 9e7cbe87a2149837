"""Faults inside single calls: of SQLite, of files below some folders, of numpy and of the word
index.

`Faults` counts the calls of each kind; the one that is armed makes the n-th fail, or the n-th and
all after it, until it is lifted.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import io
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest
import tantivy

from cortex.engine.store.index import (
    lexical,
    vector_file,
    vector_index,
    vector_indexes,
    vector_log,
    vector_scan,
)

OS_CALLS = ("open", "write", "fsync", "mkdir", "replace", "rename", "link")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
ARRAY_MODULES = (vector_log, vector_file, vector_index, vector_scan, vector_indexes)
MOST_PAGES = 1 << 30
HEAP_BYTES = 40_000  # that SQLite still gets, at most


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that fails, and the codes that a caller may be told for it."""

    name: str
    kind: str  # of the calls that fail
    code: str
    error: Callable[[], BaseException] | None = None  # None: SQLite's own


FAULTS = (
    Fault(
        "full file", "file", "DISK_FULL", lambda: OSError(errno.ENOSPC, "No space left on device")
    ),
    Fault("broken file", "file", "STORE_IO", lambda: OSError(errno.EIO, "Input/output error")),
    Fault("full database", "statement", "DISK_FULL"),
    Fault("memory of SQLite", "statement", "MEMORY_SHORT"),
    Fault("memory of numpy", "array", "MEMORY_SHORT", MemoryError),
    Fault("memory of the words", "words", "MEMORY_SHORT", MemoryError),
    Fault(
        "full words",
        "words",
        "DISK_FULL",
        lambda: ValueError("An IO error occurred: 'No space left on device (os error 28)'"),
    ),
)


class Faults:
    """The calls of this process that are counted, and the one that is to fail."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = tuple(str(folder) for folder in folders)
        self._library = _sqlite_library()
        self._turn = threading.RLock()
        self._limited: list[sqlite3.Connection] = []
        self.counts: Counter[str] = Counter()
        self._armed: Fault | None = None
        self._at, self._lasting, self._heap, self.hits = 0, False, 0, 0

    @property
    def available(self) -> tuple[Fault, ...]:
        """The faults that can be made here: the memory of SQLite only where its library is reached."""
        return tuple(
            fault
            for fault in FAULTS
            if self._library is not None or fault.name != "memory of SQLite"
        )

    @contextmanager
    def armed(self, fault: Fault, at: int, *, lasting: bool, heap: int) -> Iterator[None]:
        """Make the call with that number fail inside the block, and where it is `lasting` all after
        it.
        """
        self.counts.clear()
        self._at, self._lasting, self._heap, self.hits = at, lasting, heap, 0
        self._armed = fault
        try:
            yield
        finally:
            self._armed = None
            self._lift()

    def count(self, kind: str) -> bool:
        """Count a call; true where it is to fail."""
        with self._turn:
            self.counts[kind] += 1
            if self._armed is None or self._armed.kind != kind:
                return False
            number = self.counts[kind]
            due = number >= self._at if self._lasting else number == self._at
            self.hits += due
            return due

    def point(self, kind: str) -> None:
        """Count a call that Python makes, and have it fail where it is its turn."""
        if self.count(kind):
            raise self.make_error()

    def make_error(self) -> BaseException:
        """Make the error of the fault that is armed."""
        assert self._armed is not None and self._armed.error is not None
        return self._armed.error()

    def run_statement(self, connection: sqlite3.Connection, run: Callable[[], Any]) -> Any:
        """Run a statement of SQLite, with no page or no memory left where it is its turn."""
        if not self.count("statement"):
            return run()
        assert self._armed is not None
        if self._armed.name == "full database":
            self._fill(connection)
        else:
            self._limit_heap()
        try:
            return run()
        finally:
            if not self._lasting:
                self._lift()

    def is_watched(self, target: object) -> bool:
        """Tell whether a path, or an open file, lies below the folders."""
        if isinstance(target, int):
            try:
                target = os.readlink(f"/proc/self/fd/{target}")
            except OSError:
                return False
        return isinstance(target, (str, os.PathLike)) and str(os.fspath(target)).startswith(
            self._folders
        )

    def _fill(self, connection: sqlite3.Connection) -> None:
        pages = sqlite3.Connection.execute(connection, "PRAGMA page_count").fetchone()[0]
        sqlite3.Connection.execute(
            connection, f"PRAGMA max_page_count = {max(1, pages)}"
        ).fetchone()
        self._limited.append(connection)

    def _limit_heap(self) -> None:
        assert self._library is not None
        self._library.sqlite3_hard_heap_limit64(self._library.sqlite3_memory_used() + self._heap)

    def _lift(self) -> None:
        if self._library is not None:
            self._library.sqlite3_hard_heap_limit64(0)
        for connection in self._limited:
            try:
                sqlite3.Connection.execute(
                    connection, f"PRAGMA max_page_count = {MOST_PAGES}"
                ).fetchone()
            except sqlite3.ProgrammingError:  # closed meanwhile
                continue
        self._limited.clear()


def install(faults: Faults, patch: pytest.MonkeyPatch) -> None:
    """Have all calls of these kinds counted from now on."""
    for name in OS_CALLS:
        patch.setattr(os, name, _counted_os(faults, getattr(os, name)))
    raw = _raw_file(faults)
    opener = _counted_open(faults, builtins.open, raw)
    patch.setattr(builtins, "open", opener)
    patch.setattr(io, "open", opener)
    patch.setattr(vector_log, "FileIO", raw)
    patch.setattr(sqlite3, "connect", _counted_connect(faults, sqlite3.connect))
    for module in ARRAY_MODULES:
        patch.setattr(module, "np", _Arrays(faults))
    patch.setattr(lexical, "tantivy", _Words(tantivy, faults))


def _sqlite_library() -> ctypes.CDLL | None:
    """The library below Python's module; its limit on memory can be lowered by a statement, but not
    raised.
    """
    import _sqlite3

    try:
        library = ctypes.CDLL(_sqlite3.__file__)
        library.sqlite3_hard_heap_limit64.argtypes = [ctypes.c_int64]
        library.sqlite3_hard_heap_limit64.restype = library.sqlite3_memory_used.restype = (
            ctypes.c_int64
        )
    except (OSError, AttributeError):
        return None
    return library


def _counted_os(faults: Faults, original: Callable[..., Any]) -> Callable[..., Any]:
    reads = original is os.open

    def call(target: Any, *arguments: Any, **options: Any) -> Any:
        if faults.is_watched(target) and not (reads and not arguments[0] & WRITING):
            faults.point("file")
        return original(target, *arguments, **options)

    return call


def _raw_file(faults: Faults) -> type[io.FileIO]:
    class Raw(io.FileIO):
        """A file whose writes are counted."""

        def write(self, data: Any, /) -> int:
            faults.point("file")
            return super().write(data)

    return Raw


def _counted_open(
    faults: Faults, original: Callable[..., Any], raw: Callable[..., Any]
) -> Callable[..., Any]:
    def call(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if not set(mode) & set("wxa+") or arguments or not faults.is_watched(file):
            return original(file, mode, *arguments, **options)
        faults.point("file")
        opener, buffering = options.pop("opener", None), options.pop("buffering", -1)
        found = raw(file, mode.replace("b", "").replace("t", ""), opener=opener)
        buffered = found if not buffering else io.BufferedWriter(found)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, **options)

    return call


def _counted_connect(faults: Faults, original: Callable[..., Any]) -> Callable[..., Any]:
    plain = sqlite3.Connection

    class Counted(plain):
        """A connection whose statements are counted."""

        def execute(self, *arguments: Any) -> Any:
            return faults.run_statement(self, lambda: plain.execute(self, *arguments))

        def executemany(self, *arguments: Any) -> Any:
            return faults.run_statement(self, lambda: plain.executemany(self, *arguments))

    def connect(*arguments: Any, **options: Any) -> Any:
        if options.get("factory", plain) is plain:
            options["factory"] = Counted
        return original(*arguments, **options)

    return connect


class _Arrays:
    """numpy, whose functions are counted."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(numpy, name)
        if not callable(found) or (isinstance(found, type) and name != "memmap"):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self._faults.point("array")
            return found(*arguments, **options)

        return call


class _Words:
    """tantivy, its indexes, writers and searchers, whose calls are counted."""

    def __init__(self, inner: Any, faults: Faults) -> None:
        self._inner, self._faults = inner, faults

    def __getattr__(self, name: str) -> Any:
        return self._wrapped(getattr(self._inner, name), self._inner is tantivy)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        inner, faults = self._inner, self._faults
        if faults.count("words"):
            # Who keeps the exception must not keep a writer, and with it the lock on its folder.
            del self, inner
            raise faults.make_error()
        return self._wrapped(inner(*arguments, **options), True)

    def _wrapped(self, found: Any, result: bool) -> Any:
        ours = found is tantivy.Index or isinstance(
            found, (tantivy.Index, tantivy.IndexWriter, tantivy.Searcher)
        )
        return _Words(found, self._faults) if ours or (callable(found) and not result) else found
