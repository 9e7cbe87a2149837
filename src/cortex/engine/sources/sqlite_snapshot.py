"""Another product's SQLite file, opened so that nothing of it changes.

A file without a journal beside it is opened as immutable: no lock is taken, no file is made; what
was read counts only if the file is still the same afterwards. One whose owner runs is read as
SQLite allows it. A journal that a crash left behind would be replayed into the file, so that one is
copied first, unless it is huge. Knows no table.
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

BUSY_SECONDS = 5.0  # for a lock, where there is so much time
READ_SECONDS = 120.0  # for one reading: a damaged tree can be walked for ever
READ_STEPS = 50_000  # of SQLite's machine between two looks at the clock
TRIES = 4
COPY_BYTES = 256 << 20
COPY_RATE = 50 << 20  # bytes in a second, of a slow disk
_PRAGMAS = ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0")

T = TypeVar("T")


class File:
    """Somebody else's database, for as long as somebody reads in it."""

    def __init__(self, path: Path, product: str, seconds: float) -> None:
        self.path = path
        self.product = product
        self._seconds = seconds  # for one reading, and for a lock
        self._connection: sqlite3.Connection | None = None
        self._aside: tempfile.TemporaryDirectory[str] | None = None
        # Of the file when it was opened; None where SQLite watches over it
        self._state: tuple[int, ...] | None = None

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` makes of the database; it works again where the file changed meanwhile, so it
        may leave no cursor behind.

        Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
        """
        deadline = time.monotonic() + self._seconds
        for _ in range(TRIES):
            if self._changed():
                self.close()
            try:
                with self.explained():
                    result = work(self.connection())
            except FileError:
                if not self._changed() or time.monotonic() > deadline:
                    raise
            else:
                if not self._changed():
                    return result
        raise self._error(
            f"{self.path} changes all the time ({self.product} is writing): try again in a moment"
        )

    def connection(self) -> sqlite3.Connection:
        """The connection, opened where it isn't. Raises: FileError, OSError, sqlite3.Error."""
        if self._connection is None:
            self._connection = self._open()
        deadline = time.monotonic() + self._seconds
        self._connection.set_progress_handler(lambda: time.monotonic() > deadline, READ_STEPS)
        return self._connection

    def check(self) -> None:
        """Raises: FileError IMPORT_UNREADABLE where the file isn't any more what it was when it was
        opened.
        """
        if self._changed():
            raise self._error(
                f"{self.path} was changed while it was read ({self.product} is writing): try again"
            )

    def close(self) -> None:
        """Give everything back."""
        if self._connection is not None:
            self._connection.close()
        if self._aside is not None:
            self._aside.cleanup()
        self._connection = self._aside = self._state = None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Whatever SQLite and the system complain of, said as a FileError."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(self._reason(error)) from error
        except UnicodeDecodeError as error:  # SQLite's complaint about a schema that is no text
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
            journal = 1  # it was left by a crash, or lies where SQLite would have to write
        if journal > 0:
            return self._copied(path)
        self._state = state_of(self.path)
        return self._connect(path, "mode=ro&immutable=1")

    def _copied(self, path: Path) -> sqlite3.Connection:
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
                f"{self.path} has a journal that a crash left behind, and is too large to be copied for reading ({size >> 20} MB): "
                f"start {self.product} once, so that it puts its database in order"
            )
        self._aside = tempfile.TemporaryDirectory(prefix="cortex-read-", ignore_cleanup_errors=True)
        for file in files:
            shutil.copyfile(file, Path(self._aside.name) / file.name)
        self.check()
        return self._connect(Path(self._aside.name) / path.name, "mode=rw")

    def _connect(self, path: Path, how: str) -> sqlite3.Connection:
        # `as_uri` would make a server's name of a Windows share, which SQLite refuses.
        name = path.as_posix()
        uri = f"file://{'' if name.startswith('/') else '/'}{quote(os.fsencode(name))}?{how}"
        connection = sqlite3.connect(uri, uri=True, timeout=min(BUSY_SECONDS, self._seconds))
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for pragma in _PRAGMAS:
            with suppress(sqlite3.OperationalError):  # one that this SQLite doesn't know
                connection.execute(f"PRAGMA {pragma}")
        return connection

    def _changed(self) -> bool:
        return self._state is not None and self._state != state_of(self.path)

    def _error(self, message: str) -> FileError:
        return FileError("IMPORT_UNREADABLE", message, context={"path": str(self.path)})

    def _reason(self, error: sqlite3.Error) -> str:
        said = str(error)
        if isinstance(error, sqlite3.OperationalError) and "locked" in said:
            return f"{self.path} is locked by another program ({self.product} is writing): try again when it has finished"
        if said == "interrupted" and self._seconds < READ_SECONDS:
            return f"{self.path} can't be read in the time that an answer has: ask again"
        if said == "interrupted":
            return f"{self.path} can't be read in {self._seconds:.0f} s: check it with `PRAGMA integrity_check`"
        return f"{self.path} can't be read as a {self.product} database: {said}"


@contextmanager
def opened(path: Path, product: str, seconds: float = READ_SECONDS) -> Iterator[File]:
    """Somebody else's database, to be read in several steps, each of them by itself and in so many
    seconds.
    """
    file = File(path, product, seconds)
    try:
        yield file
    finally:
        file.close()


@contextmanager
def reading(path: Path, product: str) -> Iterator[sqlite3.Connection]:
    """A connection to somebody else's database, for one short reading.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE, also for what goes wrong while it is
    read.
    """
    with opened(path, product) as file, file.explained():
        yield file.connection()
        file.check()


def columns(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    """The columns of a table, none where there is no such table; views and virtual tables are none,
    for they run what they like.
    """
    found = connection.execute(
        "SELECT about.name FROM sqlite_master AS known, pragma_table_info(known.name) AS about "
        "WHERE known.type = 'table' AND known.rootpage > 0 AND known.name = ?",
        (table,),
    )
    return frozenset(row[0] for row in found)


def select(
    connection: sqlite3.Connection, table: str, wanted: tuple[str, ...], rest: str = ""
) -> sqlite3.Cursor:
    """These columns of a table; one that it doesn't have is NULL in every row."""
    present = columns(connection, table)
    names = ", ".join(name if name in present else f"NULL AS {name}" for name in wanted)
    return connection.execute(f"SELECT {names} FROM {table} {rest}")


def _size(path: Path, end: str) -> int:
    """The size of a file beside another, -1 where there is none."""
    try:
        return path.with_name(path.name + end).stat().st_size
    except FileNotFoundError:
        return -1
