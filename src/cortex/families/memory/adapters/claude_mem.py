"""A claude-mem database of any generation, its rows as memories.

The generations are told apart by their columns, and a column that one doesn't have is empty: a
newer database than is known is read as far as it is alike. The first kept `memories`; from the
fourth on an observation is one. A database that was carried along from the one to the other gives
both; observations beside `memories` that say nothing but a raw text are no memories. What people
typed and what tools answered is never read. Only reads; what counts, and for whom, is not decided
here.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cortex.base.types import Memory, MemoryState
from cortex.engine.sources.sqlite_snapshot import READ_SECONDS, File, columns, opened
from cortex.families.memory.adapters import claude_mem_sessions
from cortex.families.memory.adapters.claude_mem_sessions import (
    INNER,
    Record,
    Session,
    Start,
    filled,
    project_of,
    records,
    starts,
)
from cortex.families.memory.adapters.coerce import (
    MAX_NAME,
    day,
    entries,
    first_line,
    line,
    milliseconds,
    text,
    unique,
)

__all__ = ["PRODUCT", "ClaudeMemDatabase", "ClaudeMemRow", "Session", "open_database"]

PRODUCT = "claude-mem"
# What the numbers of observations begin at in a database that has `memories` too
SECOND_TABLE = 1 << 40

_WANTED = (
    *(
        "id",
        "document_id",
        "project",
        "merged_into_project",
        "title",
        "subtitle",
        "facts",
        "concepts",
        "keywords",
    ),
    *(
        "files",
        "files_touched",
        "files_read",
        "files_modified",
        "narrative",
        "text",
        "type",
        "date",
    ),
    *("session", *INNER, "session_id", "created_at_epoch", "created_at", "status"),
)
_KEY = re.compile(r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]{0,298}[^\s\x00-\x1f\x7f])?")
_NUMBERED = re.compile(r"(?:obs|mem)_(-?[0-9]{1,19})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_STATES = {str(state): state for state in MemoryState}
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1  # of SQLite's numbers


@dataclass(frozen=True, slots=True)
class ClaudeMemRow:
    """A memory as the database has it."""

    number: int  # by which rows are walked: newer ones have higher numbers
    memory: Memory
    other_project: str = ""  # where it was recorded, when that was merged into the memory's project
    state: MemoryState | None = None  # None where nobody says


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of memories."""

    name: str
    base: int  # what is added to its rows' numbers
    prefix: str  # of the key of a row that has none of its own
    keys: tuple[str, ...]  # the columns that a row's own key may stand in


class ClaudeMemDatabase:
    """An open database.

    Each answer is consistent in itself; rows that are written meanwhile are in the next one.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._tables = file.read(_tables)

    def count(self) -> int:
        """How many memories there are."""

        def work(connection: sqlite3.Connection) -> int:
            return sum(
                connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]
                for table in self._tables
            )

        return self._file.read(work)

    def last(self) -> int:
        """The number of the newest row, 0 where there is none."""
        newest = self.rows(limit=1)
        return newest[0].number if newest else 0

    def rows(
        self,
        *,
        above: int | None = None,
        below: int | None = None,
        limit: int,
        ascending: bool = False,
    ) -> list[ClaudeMemRow]:
        """The memories with numbers between these two, newest first unless asked otherwise."""

        def work(connection: sqlite3.Connection) -> list[ClaudeMemRow]:
            found: list[ClaudeMemRow] = []
            for table in self._tables if ascending else reversed(self._tables):
                values = (
                    _local(above, table, _LOWEST),
                    _local(below, table, _HIGHEST),
                    max(0, limit - len(found)),
                )
                # Both ends are meant to be left out; where none was given, the very first and the
                # very last number are too.
                order = (
                    "WHERE rowid > ? AND rowid < ? ORDER BY rowid "
                    f"{'ASC' if ascending else 'DESC'} LIMIT ?"
                )
                found += _rows(connection, table, order, values)
            return found

        return self._file.read(work)

    def row(self, key: str) -> ClaudeMemRow | None:
        """The memory with this key."""

        def work(connection: sqlite3.Connection) -> ClaudeMemRow | None:
            numbered = _NUMBERED.fullmatch(key)
            for table in self._tables:
                for column in table.keys:
                    for found in _rows(connection, table, f"WHERE {column} = ? LIMIT 2", (key,)):
                        if found.memory.key == key:
                            return found
                if numbered and _LOWEST <= int(numbered[1]) <= _HIGHEST:
                    for found in _rows(connection, table, "WHERE rowid = ?", (int(numbered[1]),)):
                        if found.memory.key == key:
                            return found
            return None

        return self._file.read(work)

    def sessions(self, projects: Sequence[str] | None, limit: int) -> list[Session]:
        """The sessions that something was summed up of, newest first: of these projects, or of all."""
        return self._file.read(
            lambda connection: claude_mem_sessions.recent(connection, projects, limit)
        )

    def session(self, session_id: str) -> Session | None:
        """What is known of a session."""
        return self._file.read(lambda connection: claude_mem_sessions.one(connection, session_id))


@contextmanager
def open_database(path: Path, *, seconds: float = READ_SECONDS) -> Iterator[ClaudeMemDatabase]:
    """The database in a file, for a moment; each answer of it takes at most so long.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE, also while it is read.
    """
    with opened(path, PRODUCT, seconds) as file:
        yield ClaudeMemDatabase(file)


# -- what it is
# --------------------------------------------------------------------------------------------------------


def _tables(connection: sqlite3.Connection) -> tuple[_Table, ...]:
    """The tables that memories are in. Raises: sqlite3.DatabaseError where there is none."""
    old, new = columns(connection, "memories"), columns(connection, "observations")
    old = old if old & {"title", "text"} else frozenset()
    structured = {"title", "facts"} <= new and new & set(INNER)
    new = new if structured or (not old and new & {"title", "text", "narrative"}) else frozenset()
    if not old and not new:
        found, version = (
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0],
            _version(connection),
        )
        what = (
            f"its tables are others (migration {version})"
            if version
            else "its tables are others"
            if found
            else "it is empty"
        )
        raise sqlite3.DatabaseError(
            f"{what}; neither `memories` nor `observations` is there as any known version makes it"
        )
    tables = []
    if old:
        tables.append(_table(connection, "memories", old, 0, "mem_" if new else "obs_"))
    if new:
        tables.append(_table(connection, "observations", new, SECOND_TABLE if old else 0, "obs_"))
    return tuple(tables)


def _version(connection: sqlite3.Connection) -> int:
    """The newest migration, 0 where none is told."""
    if "version" not in columns(connection, "schema_versions"):
        return 0
    found = connection.execute(
        "SELECT max(version) FROM schema_versions WHERE typeof(version) = 'integer'"
    ).fetchone()[0]
    return found if isinstance(found, int) else 0


def _table(
    connection: sqlite3.Connection, name: str, present: frozenset[str], base: int, prefix: str
) -> _Table:
    kinds = connection.execute(
        "SELECT type FROM pragma_table_info(?) WHERE name = 'id'", (name,)
    ).fetchone()
    own = "id" if kinds and "INT" not in str(kinds[0]).upper() else ""
    keys = tuple(column for column in ("document_id", own) if column in present)
    return _Table(name, base, prefix, keys)


# -- rows
# --------------------------------------------------------------------------------------------------------------


def _rows(
    connection: sqlite3.Connection, table: _Table, rest: str, values: Sequence[object]
) -> list[ClaudeMemRow]:
    found = list(records(connection, table.name, _WANTED, rest, values))
    known = starts(connection, (filled(record, *INNER, "session_id") for record in found))
    return [
        _row(record, table, known.get(filled(record, *INNER, "session_id"))) for record in found
    ]


def _row(record: Record, table: _Table, start: Start | None) -> ClaudeMemRow:
    number = record["rowid"] if isinstance(record["rowid"], int) else 0
    project, recorded = project_of(record), line(record["project"])[:MAX_NAME]
    return ClaudeMemRow(
        number=table.base + number,
        memory=_memory(record, _key(record, table, number), project, start),
        other_project=recorded if recorded != project else "",
        state=_STATES.get(text(record["status"]).lower()),
    )


def _memory(record: Record, key: str, project: str, start: Start | None) -> Memory:
    told = filled(record, "narrative", "text")
    facts = entries(record["facts"], "\n")
    subtitle = line(record["subtitle"])
    created = milliseconds(record["created_at_epoch"], record["created_at"], record["date"])
    date = _DATE.match(text(record["date"]))
    files = (
        entries(record[name], ",")
        for name in ("files", "files_touched", "files_read", "files_modified")
    )
    return Memory(
        key=key,
        title=line(record["title"])
        or first_line(told)
        or subtitle
        or first_line(facts[0] if facts else ""),
        subtitle=subtitle,
        facts=facts,
        concepts=entries(record["concepts"], ",") or entries(record["keywords"], ","),
        files=unique(name for some in files for name in some),
        text=told,
        project=project,
        session=text(record["session"])
        or (start.client if start else "")
        or filled(record, *INNER, "session_id"),
        date=date[0] if date else day(start.moment if start and start.moment else created),
        created=created,
        kind=line(record["type"])[:MAX_NAME],
        provenance=PRODUCT,
    )


def _key(record: Record, table: _Table, number: int) -> str:
    for column in table.keys:
        own = record[column]
        if isinstance(own, str) and _KEY.fullmatch(own):
            return own
    return f"{table.prefix}{number}"


def _local(number: int | None, table: _Table, otherwise: int) -> int:
    return otherwise if number is None else max(_LOWEST, min(_HIGHEST, number - table.base))
