"""Connection of a store as its queries see it: open, inside a transaction.

`Unbuffered` is the plain form. For records in PostgreSQL there is a form that buffers writes and
caches reads (`records/write_batch.py`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from cortex.base.errors import StoreError
from cortex.base.record_model import Record

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Row = tuple[Any, ...]
Values = Sequence[Any] | Mapping[str, Any]


class WriteConflict(StoreError):
    """Two writers conflicted and this one was rolled back, or the connection broke.

    The write can be retried: either nothing was written, or a caller with an idempotency key finds
    the earlier result.
    """


class Connection(Protocol):
    """Connection to SQLite or PostgreSQL; the statements are in SQLite's dialect."""

    def execute(self, statement: str, values: Values = ..., /) -> Any: ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> Any: ...

    def insert(self, into: str, rows: Sequence[Row]) -> None:
        """Insert new rows; `into` is the statement up to its values."""
        ...

    def next_change(self) -> int:
        """Take the next change number."""
        ...

    def cached(self, key: Hashable, read: Callable[[Connection], Value]) -> Value:
        """Result of a read, perhaps cached; pending writes must not affect it uncached."""
        ...

    def prefetch(
        self, keys: Iterable[Key], read: Callable[[Connection, list[Key]], Mapping[Key, Any]]
    ) -> None:
        """Read several values for `cached` at once, None for missing ones, if that helps."""
        ...

    def remember(self, key: Hashable, value: object) -> None:
        """Replace a value of `cached`, because it was written."""
        ...

    def remember_record(self, record: Record[Any]) -> None:
        """Replace a cached record, and the id of the newest one."""
        ...


class Unbuffered:
    """Part of a connection that writes at once, and reads again each time."""

    execute: Callable[..., Any]
    executemany: Callable[..., Any]

    def insert(self, into: str, rows: Sequence[Row]) -> None:
        if rows:
            self.executemany(f"{into} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    def next_change(self) -> int:
        self.execute("UPDATE counters SET value = value + 1 WHERE name = 'change'")
        return self.execute("SELECT value FROM counters WHERE name = 'change'").fetchone()[0]

    def cached(self, key: Hashable, read: Callable[[Connection], Value]) -> Value:
        return read(self)

    def prefetch(
        self, keys: Iterable[Key], read: Callable[[Connection, list[Key]], Mapping[Key, Any]]
    ) -> None:
        """Prefetch nothing: a read in this process costs no round trip."""

    def remember(self, key: Hashable, value: object) -> None:
        """Remember nothing."""

    def remember_record(self, record: Record[Any]) -> None:
        """Remember nothing."""


class SqliteConnection(sqlite3.Connection, Unbuffered):
    """Connection to the SQLite file of a store, or to one in memory."""


class SingleReads:
    """Part of a connection provider: single queries, each in a transaction of its own.

    Inside a block that reads, they see the state of that block.
    """

    read: Callable[[], AbstractContextManager[Connection]]

    def rows(self, query: str, values: Values = ()) -> list[Any]:
        """All rows of a query."""
        with self.read() as connection:
            return connection.execute(query, values).fetchall()

    def row(self, query: str, values: Values = ()) -> Any:
        """First row of a query, None if there is none."""
        with self.read() as connection:
            return connection.execute(query, values).fetchone()

    def value(self, query: str, values: Values = ()) -> Any:
        """First column of the first row of a query that has one."""
        return self.row(query, values)[0]


class Connected(Protocol):
    """Connection provider for records: SQLite or PostgreSQL."""

    def write(
        self, *, durable: bool = False, erase: bool = False
    ) -> AbstractContextManager[Connection]: ...

    def read(self) -> AbstractContextManager[Connection]: ...

    def rows(self, query: str, values: Values = ()) -> list[Any]: ...

    def row(self, query: str, values: Values = ()) -> Any: ...

    def value(self, query: str, values: Values = ()) -> Any: ...

    def together(self) -> AbstractContextManager[None]: ...

    def jot(self, statement: str, values: Sequence[object]) -> None: ...
