"""Connections to a store's one SQLite file: the only place where they are made.

A store on disk has one writing connection under a lock and one reading connection per thread (WAL: readers never wait for the
writer). A store in memory has a single connection under the same lock. An encrypted store would change `_connect` and nothing else.
SQLite's own errors leave here as the tree of errors.py.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cortex.errors import CortexError, FileError, StoreError

BUSY_TIMEOUT_MS = 10_000
CACHE_KIB = 8_192  # page cache of one connection; the default of 2 MB makes index look-ups of a large store slow
JOURNAL_LIMIT_BYTES = 64 << 20  # a WAL grown by a long run is cut back to this at the next checkpoint


class Connections:
    """All connections of this process to one store."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._closed = False
        with translated(path):
            self._writer = _connect(path)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed when the block ends, rolled back when it raises."""
        with self._lock, translated(self.path):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One consistent view: every statement in the block sees the same state."""
        if self.path is None:
            with self._lock, translated(self.path):
                yield self._writer
            return
        with translated(self.path):
            connection = self._reader()
            if connection.in_transaction:  # a nested block shares the outer view
                yield connection
                return
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("COMMIT")

    def _reader(self) -> sqlite3.Connection:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = _connect(self.path)
            with self._lock:
                self._readers.append(connection)
        return connection

    def checkpoint(self) -> None:
        """Move what the WAL holds into the file and cut it, so that a long run doesn't leave a large one behind."""
        if self.path is not None:
            with self._lock, translated(self.path):
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for connection in self._readers:
                connection.close()
            self._writer.close()


def _connect(path: Path | None) -> sqlite3.Connection:
    connection = sqlite3.connect(
        ":memory:" if path is None else str(path),
        timeout=BUSY_TIMEOUT_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = OFF")
    connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_LIMIT_BYTES}")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    return connection


@contextmanager
def translated(path: Path | None) -> Iterator[None]:
    """Turn what SQLite, the word index and the disk say into errors that a person can act on."""
    where = str(path or "memory")
    try:
        yield
    except CortexError:
        raise
    except sqlite3.DatabaseError as error:
        raise _from_text(str(error), where, error) from error
    except OSError as error:
        if error.errno == 28:
            raise FileError("DISK_FULL", f"the disk is full: {where} can't grow", context={"path": where}) from error
        if isinstance(error, PermissionError):
            raise StoreError(
                "STORE_UNWRITABLE", f"{where} can't be written: {error.strerror}", context={"path": where}
            ) from error
        raise


def _from_text(message: str, where: str, error: Exception) -> CortexError:
    lowered = message.lower()
    context = {"path": where, "cause": message}
    if "disk is full" in lowered or "no space left" in lowered or "disk i/o error" in lowered:
        return FileError("DISK_FULL", f"writing to {where} failed: {message}", context=context)
    if "locked" in lowered or "busy" in lowered:
        return StoreError("STORE_LOCKED", f"{where} is locked by another process", context=context)
    if "readonly" in lowered or "unable to open" in lowered or "permission" in lowered:
        return StoreError("STORE_UNWRITABLE", f"{where} can't be opened for writing: {message}", context=context)
    if isinstance(error, (sqlite3.ProgrammingError, sqlite3.InterfaceError)) and "closed" in lowered:
        return StoreError("STORE_LOCKED", "the store is closed", context=context)
    if isinstance(error, (sqlite3.IntegrityError, sqlite3.ProgrammingError)):
        return CortexError("INTERNAL_ERROR", f"{where}: {message}", context=context)
    if "malformed" in lowered or "not a database" in lowered or "corrupt" in lowered or "no such table" in lowered:
        return StoreError("STORE_CORRUPT", f"{where} is damaged: {message}", context=context)
    return CortexError("INTERNAL_ERROR", f"{where}: {message}", context=context)
