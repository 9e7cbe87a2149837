"""The sessions of a claude-mem database: who they are to the client, when they began, and what was
summed up of them.

Three kinds of tables tell of them, as the generations went: `sessions` and `streaming_sessions`
with `overviews`, then `sdk_sessions` with `session_summaries`; a database that was carried along
has several. What people typed and what tools answered is never read.
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

BATCH = 500  # values in one question
# The product's own id of a session, as it is called now and was before
INNER = ("memory_session_id", "sdk_session_id")
CLIENT = ("content_session_id", "claude_session_id")  # the client's
LISTS = frozenset("facts concepts keywords files files_touched files_read files_modified".split())

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
    """A session, and what was summed up of it."""

    id: str  # the client's own where it is known
    project: str
    title: str
    overview: str
    created: int  # when it was summed up last, in milliseconds since 1970
    date: str  # of its start, as YYYY-MM-DD


@dataclass(frozen=True, slots=True)
class Start:
    """A session as it began."""

    client: str
    moment: int
    title: str
    project: str
    names: tuple[str, ...]  # all its ids


def records(
    connection: sqlite3.Connection,
    table: str,
    wanted: Sequence[str],
    rest: str,
    values: Sequence[object] = (),
) -> Iterator[Record]:
    """Rows of a table by the names of these columns, each cut to what is kept; a column that it
    doesn't have is None.
    """
    present = columns(connection, table)
    if not present:
        return
    names = [name for name in wanted if name in present]
    cuts = ["rowid"]
    for name in names:
        limit = MAX_LIST_CHARACTERS if name in LISTS else MAX_CHARACTERS
        # The length in bytes: that of a text ends at its first NUL, and so would what `substr`
        # gives of a short one.
        cuts.append(
            f"CASE WHEN length(CAST({name} AS BLOB)) > {limit} THEN substr({name}, 1, {limit}) "
            f"ELSE {name} END"
        )
    for number, *row in connection.execute(f"SELECT {', '.join(cuts)} FROM {table} {rest}", values):
        said = dict(zip(names, row, strict=True))
        yield {"rowid": number, **{name: said.get(name) for name in wanted}}


def filled(record: Record, *names: str) -> str:
    """The first of these columns that says something."""
    return next((said for name in names if (said := text(record[name]))), "")


def project_of(record: Record) -> str:
    """Whose it is now: the project that its own was merged into, else its own."""
    return (line(record["merged_into_project"]) or line(record["project"]))[:MAX_NAME]


def starts(connection: sqlite3.Connection, names: Iterable[str]) -> dict[str, Start]:
    """The sessions that are called so, by the product or by the client."""
    found: dict[str, Start] = {}
    wanted = (
        *CLIENT,
        *INNER,
        "session_id",
        "started_at_epoch",
        "started_at",
        "created_at_epoch",
        "created_at",
    )
    wanted += ("custom_title", "title", "project", "merged_into_project")
    asked = sorted({name for name in names if name})
    for table in _STARTS:
        for column in (*INNER, *CLIENT, "session_id"):
            missing = [name for name in asked if name not in found]
            if not missing or column not in columns(connection, table):
                continue
            for some in _batches(missing):
                rest = f"WHERE {column} IN ({_marks(some)})"
                for record in records(connection, table, wanted, rest, some):
                    found.setdefault(text(record[column]), _start(record))
    return found


def _start(record: Record) -> Start:
    return Start(
        client=filled(record, *CLIENT, "session_id"),
        moment=milliseconds(*(record[name] for name in ("started_at_epoch", "started_at", "created_at_epoch", "created_at"))),
        title=line(record["custom_title"]) or line(record["title"]),
        project=project_of(record),
        names=tuple(said for name in (*CLIENT, *INNER, "session_id") if (said := text(record[name]))),
    )  # fmt: skip


def recent(
    connection: sqlite3.Connection, projects: Sequence[str] | None, limit: int
) -> list[Session]:
    """The sessions that something was summed up of, newest first; only those of these projects
    where some are given.
    """
    found: dict[str, Session] = {}
    for table in ("session_summaries", "overviews", "streaming_sessions"):
        for one in _summed(connection, table, _newest(connection, table, projects, limit)):
            found.setdefault(one.id, one)
    return sorted(found.values(), key=lambda one: one.created, reverse=True)[:limit]


def one(connection: sqlite3.Connection, name: str) -> Session | None:
    """The session that is called so, by the product or by the client."""
    start = starts(connection, [name]).get(name)
    names = sorted({name, *(start.names if start else ())})
    for table in ("session_summaries", "overviews", "streaming_sessions"):
        present = columns(connection, table)
        keys = [key for key in (*INNER, *CLIENT, "session_id", "session") if key in present]
        if keys:
            rest = " OR ".join(f"{key} IN ({_marks(names)})" for key in keys)
            found = records(
                connection,
                table,
                (),
                f"WHERE {rest} ORDER BY rowid DESC LIMIT 1",
                names * len(keys),
            )
            for session in _summed(connection, table, [_number(record) for record in found]):
                return session
    return (
        Session(start.client, start.project, start.title, "", start.moment, day(start.moment))
        if start
        else None
    )


def _newest(
    connection: sqlite3.Connection, table: str, projects: Sequence[str] | None, limit: int
) -> list[int]:
    """The newest row of each of the newest sessions; rows are looked at one by one, so that no more
    than needed are.
    """
    wanted = ("project", "merged_into_project", *INNER, *CLIENT, "session_id", "session")
    newest: dict[str, int] = {}
    for record in _backwards(connection, table, wanted, projects):
        if len(newest) >= limit:
            break
        name, number = _name(record), _number(record)
        if name and (projects is None or project_of(record) in projects):
            newest.setdefault(name, number)
    return list(newest.values())


def _backwards(
    connection: sqlite3.Connection,
    table: str,
    wanted: Sequence[str],
    projects: Sequence[str] | None,
) -> Iterator[Record]:
    """The rows of a table, newest first, without those that can't be of these projects; some of
    them twice.
    """
    named = [
        name for name in ("project", "merged_into_project") if name in columns(connection, table)
    ]
    if projects is None or len(projects) > BATCH or not named:
        return records(connection, table, wanted, "ORDER BY rowid DESC")
    # One walk along an index for each: SQLite would sort all rows of all of them.
    walks = [
        records(connection, table, wanted, f"WHERE {name} = ? ORDER BY rowid DESC", (project,))
        for name in named
        for project in projects
    ]
    return heapq.merge(*walks, key=_number, reverse=True)


def _summed(
    connection: sqlite3.Connection, table: str, numbers: Sequence[int]
) -> Iterator[Session]:
    """These rows as sessions."""
    wanted = (
        "project",
        "merged_into_project",
        *INNER,
        *CLIENT,
        "session_id",
        "session",
        "date",
        "title",
        "subtitle",
    )
    wanted += ("request", "content", *(name for _, name in _PARTS))
    wanted += (
        "created_at_epoch",
        "created_at",
        "updated_at_epoch",
        "started_at_epoch",
        "started_at",
    )
    found = [
        record
        for some in _batches(numbers)
        for record in records(
            connection, table, wanted, f"WHERE rowid IN ({_marks(some)}) ORDER BY rowid DESC", some
        )
    ]
    known = starts(connection, (filled(record, *INNER, *CLIENT, "session_id") for record in found))
    for record in found:
        start = known.get(filled(record, *INNER, *CLIENT, "session_id"))
        session = _session(record, start)
        if session.title or session.overview:
            yield session


def _session(record: Record, start: Start | None) -> Session:
    parts = [f"{label}: {said}" for label, name in _PARTS if (said := line(record[name]))]
    overview = text(record["content"]) or "\n".join(parts) or text(record["subtitle"])
    title = (start.title if start else "") or line(record["title"]) or line(record["request"])
    moments = (
        "created_at_epoch",
        "created_at",
        "updated_at_epoch",
        "started_at_epoch",
        "started_at",
    )
    created = milliseconds(*(record[name] for name in moments))
    return Session(
        id=text(record["session"]) or (start.client if start else "") or _name(record),
        project=project_of(record),
        title=title or first_line(overview),
        overview=overview[:MAX_CHARACTERS],
        created=created,
        date=text(record["date"])[:10] or day(start.moment if start and start.moment else created),
    )


def _number(record: Record) -> int:
    return number if isinstance(number := record["rowid"], int) else 0


def _name(record: Record) -> str:
    return filled(record, "session", *INNER, *CLIENT, "session_id")


def _batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + BATCH] for start in range(0, len(values), BATCH))


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
