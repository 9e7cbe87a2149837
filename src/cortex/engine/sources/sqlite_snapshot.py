"""Read-only access to another product's SQLite file.

A file without a journal beside it is opened as immutable: no lock is taken, no file is made, and a
result counts only if the file is still the same afterwards. A file in use by its owner is read as
SQLite allows it. A journal left by a crash would be replayed into the file, so that file is copied
first, unless it is huge. Knows no table.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from cortex.base.errors import FileError
from cortex.base.runtime.sqlite_file_state import real, state_of

# Longest wait for a lock.
BUSY_SECONDS = 5.0
# Limit for one reading: SQLite could walk a damaged tree for ever.
READ_SECONDS = 120.0
# Instructions of SQLite's virtual machine between two looks at the clock.
READ_STEPS = 50_000
TRIES = 4
COPY_BYTES = 256 << 20
# Bytes per second of a slow disk.
COPY_RATE = 50 << 20
_PRAGMAS = ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0")

T = TypeVar("T")


class File:
    """Another product's database, open for reading."""

    def __init__(self, path: Path, product: str, seconds: float) -> None:
        self.path = path
        self.product = product
        # Limit for one reading, and for a lock.
        self._seconds = seconds
        self._connection: sqlite3.Connection | None = None
        self._copy_folder: tempfile.TemporaryDirectory[str] | None = None
        # State of the file when it was opened; None where SQLite itself guards it.
        self._state: tuple[int, ...] | None = None

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `work` on the database.

        `work` runs again where the file changed meanwhile, so it may leave no cursor behind.

        Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
        """
        deadline = time.monotonic() + self._seconds
        for _ in range(TRIES):
            if self._has_changed():
                self.close()
            try:
                with self.explained():
                    result = work(self.connection())
            except FileError:
                if not self._has_changed() or time.monotonic() > deadline:
                    raise
            else:
                if not self._has_changed():
                    return result
        raise self._error(
            f"{self.path} changes all the time ({self.product} is writing): try again in a moment"
        )

    def connection(self) -> sqlite3.Connection:
        """Return the connection, opened if needed. Raises: FileError, OSError, sqlite3.Error."""
        if self._connection is None:
            self._connection = self._open()
        deadline = time.monotonic() + self._seconds
        self._connection.set_progress_handler(lambda: time.monotonic() > deadline, READ_STEPS)
        return self._connection

    def check(self) -> None:
        """Check that the file is unchanged since it was opened.

        Raises: FileError IMPORT_UNREADABLE.
        """
        if self._has_changed():
            raise self._error(
                f"{self.path} was changed while it was read ({self.product} is writing): try again"
            )

    def close(self) -> None:
        """Close the connection and remove the copy."""
        if self._connection is not None:
            self._connection.close()
        if self._copy_folder is not None:
            self._copy_folder.cleanup()
        self._connection = self._copy_folder = self._state = None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Translate errors of SQLite and the system to FileError."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(self._reason(error)) from error
        except UnicodeDecodeError as error:
            # Raised for a schema that is no text.
            raise self._error(
                f"{self.path} can't be read as a {self.product} database: it is damaged"
            ) from error
        except OSError as error:
            raise self._error(f"{self.path} can't be read: {error.strerror or error}") from error

    def _open(self) -> sqlite3.Connection:
        path = real(self.path)
        if not path.is_file():
            message = f"there is no {self.product} database at {self.path}"
            raise FileError("FILE_NOT_FOUND", message, context={"path": str(self.path)})
        journal, index = _size(path, "-wal"), _size(path, "-shm")
        if _size(path, "-journal") > 0 or (journal >= 0 and index >= 0):
            connection = self._connect(path, "mode=ro")
            try:
                connection.execute("PRAGMA schema_version")
                return connection
            except sqlite3.Error as error:
                connection.close()
                if not isinstance(error, sqlite3.OperationalError) or "locked" in str(error):
                    raise
            # Left by a crash, or in a place where SQLite would have to write.
            journal = 1
        if journal > 0:
            return self._connect_to_copy(path)
        self._state = state_of(self.path)
        return self._connect(path, "mode=ro&immutable=1")

    def _connect_to_copy(self, path: Path) -> sqlite3.Connection:
        self._state = state_of(self.path)
        files = [
            path,
            *(
                path.with_name(path.name + end)
                for end in ("-wal", "-journal")
                if _size(path, end) > 0
            ),
        ]
        size = sum(file.stat().st_size for file in files)
        if size > min(COPY_BYTES, self._seconds * COPY_RATE):
            raise self._error(
                f"{self.path} has a journal that a crash left behind, and is too large "
                f"to be copied for reading ({size >> 20} MB): "
                f"start {self.product} once, so that it puts its database in order"
            )
        self._copy_folder = tempfile.TemporaryDirectory(
            prefix="cortex-read-", ignore_cleanup_errors=True
        )
        for file in files:
            shutil.copyfile(file, Path(self._copy_folder.name) / file.name)
        self.check()
        return self._connect(Path(self._copy_folder.name) / path.name, "mode=rw")

    def _connect(self, path: Path, options: str) -> sqlite3.Connection:
        # `as_uri` would turn a Windows share into a host name, which SQLite refuses.
        name = path.as_posix()
        uri = f"file://{'' if name.startswith('/') else '/'}{quote(os.fsencode(name))}?{options}"
        connection = sqlite3.connect(uri, uri=True, timeout=min(BUSY_SECONDS, self._seconds))
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for pragma in _PRAGMAS:
            # This SQLite may not know the pragma.
            with suppress(sqlite3.OperationalError):
                connection.execute(f"PRAGMA {pragma}")
        return connection

    def _has_changed(self) -> bool:
        return self._state is not None and self._state != state_of(self.path)

    def _error(self, message: str) -> FileError:
        return FileError("IMPORT_UNREADABLE", message, context={"path": str(self.path)})

    def _reason(self, error: sqlite3.Error) -> str:
        message = str(error)
        if isinstance(error, sqlite3.OperationalError) and "locked" in message:
            return (
                f"{self.path} is locked by another program ({self.product} is writing): try "
                "again when it has finished"
            )
        if message == "interrupted" and self._seconds < READ_SECONDS:
            return f"{self.path} can't be read in the time that an answer has: ask again"
        if message == "interrupted":
            return (
                f"{self.path} can't be read in {self._seconds:.0f} s: check it with `PRAGMA "
                "integrity_check`"
            )
        return f"{self.path} can't be read as a {self.product} database: {message}"


@contextmanager
def opened(path: Path, product: str, seconds: float = READ_SECONDS) -> Iterator[File]:
    """Open another product's database for several readings, each limited to `seconds`."""
    file = File(path, product, seconds)
    try:
        yield file
    finally:
        file.close()


@contextmanager
def reading(path: Path, product: str) -> Iterator[sqlite3.Connection]:
    """Open a connection to another product's database for one short reading.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE, also for errors while it is read.
    """
    with opened(path, product) as file, file.explained():
        yield file.connection()
        file.check()


def columns(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    """Columns of a table, empty where there is no such table.

    Views and virtual tables don't count: they can run code of their own.
    """
    rows = connection.execute(
        "SELECT about.name FROM sqlite_master AS known, pragma_table_info(known.name) AS about "
        "WHERE known.type = 'table' AND known.rootpage > 0 AND known.name = ?",
        (table,),
    )
    return frozenset(row[0] for row in rows)


def select(
    connection: sqlite3.Connection, table: str, wanted: tuple[str, ...], rest: str = ""
) -> sqlite3.Cursor:
    """Select columns of a table; a missing column is NULL in every row."""
    present = columns(connection, table)
    names = ", ".join(name if name in present else f"NULL AS {name}" for name in wanted)
    return connection.execute(f"SELECT {names} FROM {table} {rest}")


def _size(path: Path, end: str) -> int:
    """Size of a file beside another, -1 where there is none."""
    try:
        return path.with_name(path.name + end).stat().st_size
    except FileNotFoundError:
        return -1
