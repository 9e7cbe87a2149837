"""Faults in calls of SQLite, of files below some folders, of numpy and of tantivy.

`Faults` counts the calls of each kind; the armed fault makes the n-th call fail, or the n-th and
all later ones, until it is lifted.
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
MAX_PAGES = 1 << 30
# The most memory that SQLite still gets
HEAP_BYTES = 40_000


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of call that fails, and the error code that a caller must get for it."""

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
    """Counted calls of this process, and the one that fails."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = tuple(str(folder) for folder in folders)
        self._library = _sqlite_library()
        self._lock = threading.RLock()
        self._full_databases: list[sqlite3.Connection] = []
        self.counts: Counter[str] = Counter()
        self._armed: Fault | None = None
        self._at, self._lasting, self._heap, self.hits = 0, False, 0, 0

    @property
    def available(self) -> tuple[Fault, ...]:
        """The faults that can be made here: the memory of SQLite needs access to its library."""
        return tuple(
            fault
            for fault in FAULTS
            if self._library is not None or fault.name != "memory of SQLite"
        )

    @contextmanager
    def armed(self, fault: Fault, at: int, *, lasting: bool, heap: int) -> Iterator[None]:
        """Make the call of that number fail inside the block, and if `lasting` all later ones."""
        self.counts.clear()
        self._at, self._lasting, self._heap, self.hits = at, lasting, heap, 0
        self._armed = fault
        try:
            yield
        finally:
            self._armed = None
            self._lift()

    def count(self, kind: str) -> bool:
        """Count a call and return whether it must fail."""
        with self._lock:
            self.counts[kind] += 1
            if self._armed is None or self._armed.kind != kind:
                return False
            number = self.counts[kind]
            due = number >= self._at if self._lasting else number == self._at
            self.hits += due
            return due

    def check(self, kind: str) -> None:
        """Count a call, and raise the armed fault's error if the call must fail."""
        if self.count(kind):
            raise self.make_error()

    def make_error(self) -> BaseException:
        """The error of the armed fault."""
        assert self._armed is not None and self._armed.error is not None
        return self._armed.error()

    def run_statement(self, connection: sqlite3.Connection, run: Callable[[], Any]) -> Any:
        """Run a statement of SQLite, without pages or memory left if it must fail."""
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
        """Return whether a path, or an open file, lies below the folders."""
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
        self._full_databases.append(connection)

    def _limit_heap(self) -> None:
        assert self._library is not None
        self._library.sqlite3_hard_heap_limit64(self._library.sqlite3_memory_used() + self._heap)

    def _lift(self) -> None:
        if self._library is not None:
            self._library.sqlite3_hard_heap_limit64(0)
        for connection in self._full_databases:
            try:
                sqlite3.Connection.execute(
                    connection, f"PRAGMA max_page_count = {MAX_PAGES}"
                ).fetchone()
            except sqlite3.ProgrammingError:  # closed meanwhile
                continue
        self._full_databases.clear()


def install(faults: Faults, patch: pytest.MonkeyPatch) -> None:
    """Count all calls of these kinds from now on."""
    for name in OS_CALLS:
        patch.setattr(os, name, _counted_os(faults, getattr(os, name)))
    raw = _counted_file(faults)
    opener = _counted_open(faults, builtins.open, raw)
    patch.setattr(builtins, "open", opener)
    patch.setattr(io, "open", opener)
    patch.setattr(vector_log, "FileIO", raw)
    patch.setattr(sqlite3, "connect", _counted_connect(faults, sqlite3.connect))
    for module in ARRAY_MODULES:
        patch.setattr(module, "np", _CountedNumpy(faults))
    patch.setattr(lexical, "tantivy", _CountedTantivy(tantivy, faults))


def _sqlite_library() -> ctypes.CDLL | None:
    """The library of Python's module: a statement can only lower its limit on memory."""
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
            faults.check("file")
        return original(target, *arguments, **options)

    return call


def _counted_file(faults: Faults) -> type[io.FileIO]:
    class CountedFile(io.FileIO):
        """A file with counted writes."""

        def write(self, data: Any, /) -> int:
            faults.check("file")
            return super().write(data)

    return CountedFile


def _counted_open(
    faults: Faults, original: Callable[..., Any], raw: Callable[..., Any]
) -> Callable[..., Any]:
    def call(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if not set(mode) & set("wxa+") or arguments or not faults.is_watched(file):
            return original(file, mode, *arguments, **options)
        faults.check("file")
        opener, buffering = options.pop("opener", None), options.pop("buffering", -1)
        found = raw(file, mode.replace("b", "").replace("t", ""), opener=opener)
        buffered = found if not buffering else io.BufferedWriter(found)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, **options)

    return call


def _counted_connect(faults: Faults, original: Callable[..., Any]) -> Callable[..., Any]:
    plain = sqlite3.Connection

    class Counted(plain):
        """A connection with counted statements."""

        def execute(self, *arguments: Any) -> Any:
            return faults.run_statement(self, lambda: plain.execute(self, *arguments))

        def executemany(self, *arguments: Any) -> Any:
            return faults.run_statement(self, lambda: plain.executemany(self, *arguments))

    def connect(*arguments: Any, **options: Any) -> Any:
        if options.get("factory", plain) is plain:
            options["factory"] = Counted
        return original(*arguments, **options)

    return connect


class _CountedNumpy:
    """numpy with counted functions."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(numpy, name)
        if not callable(found) or (isinstance(found, type) and name != "memmap"):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self._faults.check("array")
            return found(*arguments, **options)

        return call


class _CountedTantivy:
    """tantivy, or one of its indexes, writers and searchers, with counted calls."""

    def __init__(self, inner: Any, faults: Faults) -> None:
        self._inner, self._faults = inner, faults

    def __getattr__(self, name: str) -> Any:
        return self._wrapped(getattr(self._inner, name), self._inner is tantivy)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        inner, faults = self._inner, self._faults
        if faults.count("words"):
            # A traceback that is kept must not keep a writer, and with it the lock on its folder.
            del self, inner
            raise faults.make_error()
        return self._wrapped(inner(*arguments, **options), True)

    def _wrapped(self, found: Any, result: bool) -> Any:
        ours = found is tantivy.Index or isinstance(
            found, (tantivy.Index, tantivy.IndexWriter, tantivy.Searcher)
        )
        return (
            _CountedTantivy(found, self._faults)
            if ours or (callable(found) and not result)
            else found
        )
