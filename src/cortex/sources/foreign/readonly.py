"""Another product's SQLite file, opened so that nothing of it changes.

A file without a journal beside it is opened as immutable: no lock is taken, no file is made. One whose owner runs is read as SQLite
allows it. A journal that was left behind by a crash would be replayed into the file, so that one is copied first. Knows no table.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cortex.errors import FileError

BUSY_SECONDS = 5.0


@contextmanager
def reading(path: Path, product: str) -> Iterator[sqlite3.Connection]:
    """A connection to somebody else's database.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE, also for what goes wrong while it is read.
    """
    if not path.is_file():
        raise FileError("FILE_NOT_FOUND", f"there is no {product} database at {path}", context={"path": str(path)})
    aside: tempfile.TemporaryDirectory[str] | None = None
    try:
        journal = path.with_name(f"{path.name}-wal")
        if not journal.exists():
            connection = _connect(path, "mode=ro&immutable=1")
        elif path.with_name(f"{path.name}-shm").exists():
            connection = _connect(path, "mode=ro")
        else:
            aside = tempfile.TemporaryDirectory(prefix="cortex-import-", ignore_cleanup_errors=True)
            for file in (path, journal):
                shutil.copyfile(file, Path(aside.name) / file.name)
            connection = _connect(Path(aside.name) / path.name, "mode=rw")
        try:
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise FileError("IMPORT_UNREADABLE", _reason(path, product, error), context={"path": str(path)}) from error
    except OSError as error:
        message = f"{path} can't be read: {error.strerror or error}"
        raise FileError("IMPORT_UNREADABLE", message, context={"path": str(path)}) from error
    finally:
        if aside is not None:
            aside.cleanup()


def _connect(path: Path, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True, timeout=BUSY_SECONDS)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
        with suppress(sqlite3.OperationalError):  # one that this SQLite doesn't know
            connection.execute(f"PRAGMA {pragma}")
    return connection


def columns(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    """The columns of a table, none where there is no such table; a view isn't one, for it can go on for ever."""
    found = connection.execute(
        "SELECT about.name FROM sqlite_master AS known, pragma_table_info(known.name) AS about "
        "WHERE known.type = 'table' AND known.name = ?",
        (table,),
    )
    return frozenset(row[0] for row in found)


def select(connection: sqlite3.Connection, table: str, wanted: tuple[str, ...], rest: str = "") -> sqlite3.Cursor:
    """These columns of a table; one that it doesn't have is NULL in every row."""
    present = columns(connection, table)
    names = ", ".join(name if name in present else f"NULL AS {name}" for name in wanted)
    return connection.execute(f"SELECT {names} FROM {table} {rest}")


def _reason(path: Path, product: str, error: sqlite3.Error) -> str:
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return f"{path} is locked by another program ({product} is writing)"
    return f"{path} can't be read as a {product} database: {error}"
