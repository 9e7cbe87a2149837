"""Read a claude-mem database of any generation and convert its rows to memories.

Generations are recognised by their columns, and missing columns are empty: an unknown newer
database is read as far as it is alike. The first generations kept `memories`; from the fourth on an
observation is one. A migrated database provides both; observations beside `memories` that hold
nothing but a raw text are no memories. User prompts and tool outputs are never read. Only reads;
access and curation are decided elsewhere.
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
    line,
    milliseconds,
    text,
    title_from,
    unique,
)

__all__ = ["PRODUCT", "ClaudeMemDatabase", "ClaudeMemRow", "Session", "open_database"]

PRODUCT = "claude-mem"
# Offset of observations' row numbers in a database that has `memories`, too.
SECOND_TABLE = 1 << 40

_FILES = ("files", "files_touched", "files_read", "files_modified")
_WANTED = (
    *("id", "document_id", "project", "merged_into_project", "title", "subtitle", "facts"),
    *("concepts", "keywords", *_FILES, "narrative", "text", "type", "date"),
    *("session", *INNER, "session_id", "created_at_epoch", "created_at", "status"),
)
_KEY = re.compile(r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]{0,298}[^\s\x00-\x1f\x7f])?")
_NUMBERED = re.compile(r"(?:obs|mem)_(-?[0-9]{1,19})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_STATES = {str(state): state for state in MemoryState}
# Range of SQLite's integers.
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ClaudeMemRow:
    """Memory as stored in the database."""

    # Row number; newer rows have higher numbers.
    number: int
    memory: Memory
    # Project it was recorded in, if that was merged into the memory's project.
    other_project: str = ""
    # None if the database has no state.
    state: MemoryState | None = None


@dataclass(frozen=True, slots=True)
class _Table:
    """Table of memories."""

    name: str
    # Offset that is added to its row numbers.
    base: int
    # Key prefix for rows without a key of their own.
    prefix: str
    # Columns that may hold a row's own key.
    keys: tuple[str, ...]


class ClaudeMemDatabase:
    """Open database.

    Each result is consistent in itself; rows that are written meanwhile are in the next one.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._tables = file.read(_tables)

    def count(self) -> int:
        """Number of memories."""

        def work(connection: sqlite3.Connection) -> int:
            return sum(
                connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]
                for table in self._tables
            )

        return self._file.read(work)

    def last(self) -> int:
        """Number of the newest row, 0 if there is none."""
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
        """Memories with numbers between these two, newest first unless `ascending`."""

        order = "ASC" if ascending else "DESC"
        rest = f"WHERE rowid > ? AND rowid < ? ORDER BY rowid {order} LIMIT ?"

        def work(connection: sqlite3.Connection) -> list[ClaudeMemRow]:
            rows: list[ClaudeMemRow] = []
            for table in self._tables if ascending else reversed(self._tables):
                # Both bounds are exclusive; without bounds, the lowest and the highest possible
                # row numbers are left out, too.
                low, high = (
                    _local_rowid(above, table, _LOWEST),
                    _local_rowid(below, table, _HIGHEST),
                )
                rows += _rows(connection, table, rest, (low, high, max(0, limit - len(rows))))
            return rows

        return self._file.read(work)

    def row(self, key: str) -> ClaudeMemRow | None:
        """Look up a memory by its key."""

        def candidates(connection: sqlite3.Connection) -> Iterator[ClaudeMemRow]:
            numbered = _NUMBERED.fullmatch(key)
            for table in self._tables:
                for column in table.keys:
                    yield from _rows(connection, table, f"WHERE {column} = ? LIMIT 2", (key,))
                if numbered and _LOWEST <= int(numbered[1]) <= _HIGHEST:
                    yield from _rows(connection, table, "WHERE rowid = ?", (int(numbered[1]),))

        def work(connection: sqlite3.Connection) -> ClaudeMemRow | None:
            return next((row for row in candidates(connection) if row.memory.key == key), None)

        return self._file.read(work)

    def sessions(self, projects: Sequence[str] | None, limit: int) -> list[Session]:
        """Summarised sessions of these projects, or of all, newest first."""
        return self._file.read(
            lambda connection: claude_mem_sessions.recent(connection, projects, limit)
        )

    def session(self, session_id: str) -> Session | None:
        """Look up a session by its id."""
        return self._file.read(
            lambda connection: claude_mem_sessions.find_session(connection, session_id)
        )


@contextmanager
def open_database(path: Path, *, seconds: float = READ_SECONDS) -> Iterator[ClaudeMemDatabase]:
    """Open the database in a file; each read takes at most `seconds`.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE, also while it is read.
    """
    with opened(path, PRODUCT, seconds) as file:
        yield ClaudeMemDatabase(file)


# -- schema detection


def _tables(connection: sqlite3.Connection) -> tuple[_Table, ...]:
    """Tables with memories. Raises: sqlite3.DatabaseError if there is none."""
    old, new = columns(connection, "memories"), columns(connection, "observations")
    old = old if old & {"title", "text"} else frozenset()
    structured = {"title", "facts"} <= new and new & set(INNER)
    new = new if structured or (not old and new & {"title", "text", "narrative"}) else frozenset()
    if not old and not new:
        version = _version(connection)
        objects = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        reason = "its tables are others" if version or objects else "it is empty"
        reason += f" (migration {version})" if version else ""
        raise sqlite3.DatabaseError(
            f"{reason}; neither `memories` nor `observations` is there as any known version "
            "makes it"
        )
    tables = []
    if old:
        tables.append(_table(connection, "memories", old, 0, "mem_" if new else "obs_"))
    if new:
        tables.append(_table(connection, "observations", new, SECOND_TABLE if old else 0, "obs_"))
    return tuple(tables)


def _version(connection: sqlite3.Connection) -> int:
    """Number of the newest migration, 0 if unknown."""
    if "version" not in columns(connection, "schema_versions"):
        return 0
    version = connection.execute(
        "SELECT max(version) FROM schema_versions WHERE typeof(version) = 'integer'"
    ).fetchone()[0]
    return version if isinstance(version, int) else 0


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


def _rows(
    connection: sqlite3.Connection, table: _Table, rest: str, values: Sequence[object]
) -> list[ClaudeMemRow]:
    rows = list(records(connection, table.name, _WANTED, rest, values))
    sessions = [filled(record, *INNER, "session_id") for record in rows]
    known = starts(connection, sessions)
    return [
        _row(record, table, known.get(session))
        for record, session in zip(rows, sessions, strict=True)
    ]


def _row(record: Record, table: _Table, start: Start | None) -> ClaudeMemRow:
    rowid = record["rowid"] if isinstance(record["rowid"], int) else 0
    project, recorded = project_of(record), line(record["project"])[:MAX_NAME]
    return ClaudeMemRow(
        number=table.base + rowid,
        memory=_memory(record, _key(record, table, rowid), project, start),
        other_project=recorded if recorded != project else "",
        state=_STATES.get(text(record["status"]).lower()),
    )


def _memory(record: Record, key: str, project: str, start: Start | None) -> Memory:
    body = filled(record, "narrative", "text")
    facts = entries(record["facts"], "\n")
    subtitle = line(record["subtitle"])
    created = milliseconds(record["created_at_epoch"], record["created_at"], record["date"])
    date = _DATE.match(text(record["date"]))
    files = (entries(record[name], ",") for name in _FILES)
    return Memory(
        key=key,
        title=line(record["title"]) or title_from(body, subtitle, facts),
        subtitle=subtitle,
        facts=facts,
        concepts=entries(record["concepts"], ",") or entries(record["keywords"], ","),
        files=unique(name for names in files for name in names),
        text=body,
        project=project,
        session=text(record["session"])
        or (start.client if start else "")
        or filled(record, *INNER, "session_id"),
        date=date[0] if date else day(start.moment if start and start.moment else created),
        created=created,
        kind=line(record["type"])[:MAX_NAME],
        provenance=PRODUCT,
    )


def _key(record: Record, table: _Table, rowid: int) -> str:
    for column in table.keys:
        own = record[column]
        if isinstance(own, str) and _KEY.fullmatch(own):
            return own
    return f"{table.prefix}{rowid}"


def _local_rowid(number: int | None, table: _Table, otherwise: int) -> int:
    return otherwise if number is None else max(_LOWEST, min(_HIGHEST, number - table.base))
