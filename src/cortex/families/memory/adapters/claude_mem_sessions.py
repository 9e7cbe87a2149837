"""Read the sessions of a claude-mem database: client ids, start times and summaries.

Generations differ in their tables: `sessions` and `streaming_sessions` with `overviews`, then
`sdk_sessions` with `session_summaries`; a migrated database has several. User prompts and tool
outputs are never read.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from cortex.engine.sources.sqlite_snapshot import columns
from cortex.families.memory.adapters.coerce import (
    MAX_CHARACTERS,
    MAX_LIST_CHARACTERS,
    MAX_NAME,
    day,
    first_line,
    line,
    milliseconds,
    text,
)

# Values per SQL statement.
BATCH = 500
# Columns of the product's own session id: current name and former name.
INNER = ("memory_session_id", "sdk_session_id")
# Columns of the client's session id.
CLIENT = ("content_session_id", "claude_session_id")
IDS = (*INNER, *CLIENT, "session_id")
LISTS = frozenset("facts concepts keywords files files_touched files_read files_modified".split())

_START_TIMES = ("started_at_epoch", "started_at", "created_at_epoch", "created_at")
_SUMMARY_TIMES = (
    *("created_at_epoch", "created_at", "updated_at_epoch"),
    *("started_at_epoch", "started_at"),
)
_STARTS = ("sdk_sessions", "streaming_sessions", "sessions")
_PARTS = (
    ("Learned", "learned"),
    ("Completed", "completed"),
    ("Investigated", "investigated"),
    ("Next steps", "next_steps"),
    ("Notes", "notes"),
)

Record = dict[str, object]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Session:
    """Session with its summary."""

    # The client's own id if known.
    id: str
    project: str
    title: str
    overview: str
    # Time of the last summary, in milliseconds since 1970.
    created: int
    # Start date as YYYY-MM-DD.
    date: str


@dataclass(frozen=True, slots=True)
class Start:
    """Start of a session."""

    client: str
    moment: int
    title: str
    project: str
    # All ids of the session.
    names: tuple[str, ...]


def records(
    connection: sqlite3.Connection,
    table: str,
    wanted: Sequence[str],
    rest: str,
    values: Sequence[object] = (),
) -> Iterator[Record]:
    """Yield rows of a table as dicts of the wanted columns, with values cut to the kept size.

    Columns that the table doesn't have are None.
    """
    present = columns(connection, table)
    if not present:
        return
    names = [name for name in wanted if name in present]
    cuts = ["rowid"]
    for name in names:
        limit = MAX_LIST_CHARACTERS if name in LISTS else MAX_CHARACTERS
        # The length in bytes, because both the length of a text and the result of `substr` end
        # at the first NUL.
        cuts.append(
            f"CASE WHEN length(CAST({name} AS BLOB)) > {limit} THEN substr({name}, 1, {limit}) "
            f"ELSE {name} END"
        )
    for rowid, *row in connection.execute(f"SELECT {', '.join(cuts)} FROM {table} {rest}", values):
        values_by_name = dict(zip(names, row, strict=True))
        yield {"rowid": rowid, **{name: values_by_name.get(name) for name in wanted}}


def filled(record: Record, *names: str) -> str:
    """First of these columns that isn't empty."""
    return next((value for name in names if (value := text(record[name]))), "")


def project_of(record: Record) -> str:
    """Project of a record: the one that its own was merged into, else its own."""
    return (line(record["merged_into_project"]) or line(record["project"]))[:MAX_NAME]


def starts(connection: sqlite3.Connection, names: Iterable[str]) -> dict[str, Start]:
    """Look up sessions by the product's or the client's ids."""
    sessions: dict[str, Start] = {}
    wanted = (*IDS, *_START_TIMES, "custom_title", "title", "project", "merged_into_project")
    ids = sorted({name for name in names if name})
    for table in _STARTS:
        for column in IDS:
            missing = [name for name in ids if name not in sessions]
            if not missing or column not in columns(connection, table):
                continue
            for batch in _batches(missing):
                rest = f"WHERE {column} IN ({_placeholders(batch)})"
                for record in records(connection, table, wanted, rest, batch):
                    sessions.setdefault(text(record[column]), _start(record))
    return sessions


def _start(record: Record) -> Start:
    return Start(
        client=filled(record, *CLIENT, "session_id"),
        moment=milliseconds(*(record[name] for name in _START_TIMES)),
        title=line(record["custom_title"]) or line(record["title"]),
        project=project_of(record),
        names=tuple(
            value for name in (*CLIENT, *INNER, "session_id") if (value := text(record[name]))
        ),
    )


def recent(
    connection: sqlite3.Connection, projects: Sequence[str] | None, limit: int
) -> list[Session]:
    """Summarised sessions, newest first; with `projects` only those of these projects."""
    by_id: dict[str, Session] = {}
    for table in ("session_summaries", "overviews", "streaming_sessions"):
        for session in _summaries(connection, table, _newest(connection, table, projects, limit)):
            by_id.setdefault(session.id, session)
    return sorted(by_id.values(), key=lambda session: session.created, reverse=True)[:limit]


def find_session(connection: sqlite3.Connection, name: str) -> Session | None:
    """Look up a session by the product's or the client's id."""
    start = starts(connection, [name]).get(name)
    names = sorted({name, *(start.names if start else ())})
    for table in ("session_summaries", "overviews", "streaming_sessions"):
        present = columns(connection, table)
        keys = [key for key in (*IDS, "session") if key in present]
        if keys:
            where = " OR ".join(f"{key} IN ({_placeholders(names)})" for key in keys)
            rest = f"WHERE {where} ORDER BY rowid DESC LIMIT 1"
            newest = records(connection, table, (), rest, names * len(keys))
            for session in _summaries(connection, table, [_rowid(record) for record in newest]):
                return session
    if start is None:
        return None
    return Session(start.client, start.project, start.title, "", start.moment, day(start.moment))


def _newest(
    connection: sqlite3.Connection, table: str, projects: Sequence[str] | None, limit: int
) -> list[int]:
    """Row ids of the newest row of each of the newest sessions.

    Rows are read one by one, so that no more than needed are read.
    """
    wanted = ("project", "merged_into_project", *IDS, "session")
    newest: dict[str, int] = {}
    for record in _newest_first(connection, table, wanted, projects):
        if len(newest) >= limit:
            break
        name, rowid = _name(record), _rowid(record)
        if name and (projects is None or project_of(record) in projects):
            newest.setdefault(name, rowid)
    return list(newest.values())


def _newest_first(
    connection: sqlite3.Connection,
    table: str,
    wanted: Sequence[str],
    projects: Sequence[str] | None,
) -> Iterator[Record]:
    """Rows of a table, newest first, except those of other projects; some may come twice."""
    named = [
        name for name in ("project", "merged_into_project") if name in columns(connection, table)
    ]
    if projects is None or len(projects) > BATCH or not named:
        return records(connection, table, wanted, "ORDER BY rowid DESC")
    # One index scan for each project: in a single query SQLite would sort all their rows.
    scans = [
        records(connection, table, wanted, f"WHERE {name} = ? ORDER BY rowid DESC", (project,))
        for name in named
        for project in projects
    ]
    return heapq.merge(*scans, key=_rowid, reverse=True)


def _summaries(
    connection: sqlite3.Connection, table: str, rowids: Sequence[int]
) -> Iterator[Session]:
    """Sessions of these rows, without empty ones."""
    columns_of_text = ("date", "title", "subtitle", "request", "content")
    wanted = ("project", "merged_into_project", *IDS, "session", *columns_of_text)
    wanted = (*wanted, *(name for _, name in _PARTS), *_SUMMARY_TIMES)
    rows: list[Record] = []
    for batch in _batches(rowids):
        rest = f"WHERE rowid IN ({_placeholders(batch)}) ORDER BY rowid DESC"
        rows += records(connection, table, wanted, rest, batch)
    known = starts(connection, (filled(record, *IDS) for record in rows))
    for record in rows:
        start = known.get(filled(record, *IDS))
        session = _session(record, start)
        if session.title or session.overview:
            yield session


def _session(record: Record, start: Start | None) -> Session:
    parts = [f"{label}: {value}" for label, name in _PARTS if (value := line(record[name]))]
    overview = text(record["content"]) or "\n".join(parts) or text(record["subtitle"])
    title = (start.title if start else "") or line(record["title"]) or line(record["request"])
    created = milliseconds(*(record[name] for name in _SUMMARY_TIMES))
    return Session(
        id=text(record["session"]) or (start.client if start else "") or _name(record),
        project=project_of(record),
        title=title or first_line(overview),
        overview=overview[:MAX_CHARACTERS],
        created=created,
        date=text(record["date"])[:10] or day(start.moment if start and start.moment else created),
    )


def _rowid(record: Record) -> int:
    return rowid if isinstance(rowid := record["rowid"], int) else 0


def _name(record: Record) -> str:
    return filled(record, "session", *IDS)


def _batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + BATCH] for start in range(0, len(values), BATCH))


def _placeholders(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
