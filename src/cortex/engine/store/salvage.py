"""Salvage of a damaged home database into a new one.

Reads the old file page by page (`sqlite_pages.py`), keeps each row that fits its table, and fills
gaps from a snapshot. Only data that can't be recreated is salvaged: docs and mirrored memories are
rebuilt by the caller. The old file is only read.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortex.base.types import MemoryState
from cortex.engine.store.records.json_codec import from_json
from cortex.engine.store.schema import MIGRATIONS, migrate
from cortex.engine.store.snapshots import KEPT
from cortex.engine.store.sqlite_pages import Pages, RawRow, Value

# Tables with rows that can be identified by their shape alone, if no root leads to them.
_SHAPED = ("memories", "records", "versions", "judgements", "decisions", "audit", "keys", "outbox")
# The year 2255: a later time, or one before 1970, is a damaged number.
_LATEST_MS = 9_000_000_000_000


def _is_list(value: Any) -> bool:
    return isinstance(json.loads(value), list)


def _is_time(value: Any) -> bool:
    return 0 <= value < _LATEST_MS


def _is_state(value: Any) -> bool:
    return value == "" or bool(MemoryState(value))


# Checks of values beyond their type: a row that fails one is damaged, though SQLite wouldn't
# notice.
_CHECKS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "memories": {
        **dict.fromkeys(("facts", "concepts", "files"), _is_list),
        "created": _is_time,
        "state": _is_state,
    },
    "judgements": {"state": _is_state, "at": _is_time},
    "decisions": {"before": lambda value: isinstance(json.loads(value), dict), "at": _is_time},
    "records": {"created": _is_time, "updated": _is_time},
    "outbox": {"changes": lambda value: bool(json.loads(value))},
    "folders": dict.fromkeys(("include", "exclude"), _is_list),
}
_TYPES: Mapping[str, tuple[type, ...]] = {"INTEGER": (int,), "TEXT": (str,), "BLOB": (bytes,)}


@dataclass(frozen=True, slots=True)
class Salvaged:
    """Row counts of a new database by table: read from the damaged file, filled from a snapshot."""

    read: Mapping[str, int]
    filled: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Table:
    """Expected shape of a table."""

    name: str
    columns: tuple[tuple[str, str, bool], ...]  # name, type, required
    rowid: int  # index of the column that is the rowid, -1 for none

    def fit(self, row: RawRow, fewest: int) -> tuple[Value, ...] | None:
        """Values of a row of this table, at least `fewest`; None if the row doesn't fit."""
        values = list(row.values)
        if not fewest <= len(values) <= len(self.columns):
            return None
        if self.rowid >= 0 and values[self.rowid] is None:
            values[self.rowid] = row.rowid
        for value, (_, kind, needed) in zip(values, self.columns, strict=False):
            if needed if value is None else not isinstance(value, _TYPES[kind]):
                return None
            # No stored text contains a zero byte: a part of the disk was lost.
            if isinstance(value, str) and "\0" in value:
                return None
        named = dict(zip((name for name, _, _ in self.columns), values, strict=False))
        return tuple(values) if _is_valid(self.name, named) else None


def salvage(damaged: Path, snapshot: Path | None, target: Path) -> Salvaged:
    """Build a new database from the readable rows of a damaged one and an unpacked snapshot.

    Raises: OSError if the damaged file can't be read at all.
    """
    pages = Pages(damaged)
    version = _version(pages)
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        migrate(connection, version)
        tables = {name: _table(connection, name) for name in KEPT if _has(connection, name)}
        read = _read(connection, pages, tables)
        filled = _fill(connection, snapshot, tables) if snapshot else Counter[str]()
        migrate(connection)
        # Rows with a lost foreign key would be errors for ever; the old file still has them.
        for table, rowid, *_ in connection.execute("PRAGMA foreign_key_check").fetchall():
            if rowid is not None:
                connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))
        for table, condition in _ORPHANS.items():
            connection.execute(f"DELETE FROM {table} WHERE {condition}")
        connection.execute("COMMIT")
    return Salvaged(read, filled)


# Tables without rowids, so that SQLite's own check can't name their rows.
_ORPHANS = {
    "refs": "record NOT IN (SELECT id FROM records)",
    "versions": "record NOT IN (SELECT id FROM records)",
    "concepts": "memory NOT IN (SELECT id FROM memories)",
    "outbox_records": "entry NOT IN (SELECT id FROM outbox)",
    "grants": "principal NOT IN (SELECT id FROM principals)",
    "tokens": "principal NOT IN (SELECT id FROM principals)",
}


def _version(pages: Pages) -> int:
    """Schema version of the file; the latest if the stored one is implausible."""
    version, latest = pages.version, len(MIGRATIONS)
    if not 0 < version < latest:
        return latest
    named = {entry.name for entry in pages.schema(set()) if entry.kind == "table"}
    with closing(sqlite3.connect(":memory:")) as connection:
        migrate(connection, version)
        return version if all(_has(connection, name) for name in named) else latest


def _read(
    connection: sqlite3.Connection, pages: Pages, tables: Mapping[str, _Table]
) -> Counter[str]:
    """Insert rows from the pages: first those below a root, which win, then lost ones."""
    seen: set[int] = set()
    counts: Counter[str] = Counter()
    for entry in pages.schema(seen):
        rows = pages.rows(entry.root, seen)
        table = tables.get(entry.name) if entry.kind == "table" else None
        if table is None:
            # Read anyway, so that none of its rows is mistaken for a lost one.
            for _ in rows:
                pass
            continue
        fitting = [values for row in rows if (values := table.fit(row, len(table.columns) // 2))]
        counts[table.name] += _put(connection, table, fitting)
    lost: dict[str, list[tuple[Value, ...]]] = {}
    shaped = [tables[name] for name in _SHAPED if name in tables]
    for row in pages.lost_rows(seen):
        for table in shaped:
            if (values := table.fit(row, len(table.columns))) is not None:
                lost.setdefault(table.name, []).append(values)
                break
    for name, candidates in lost.items():
        # Of several versions of one record the last one wins.
        candidates.sort(
            key=lambda values: values[2] if name == "records" and isinstance(values[2], int) else 0,
            reverse=True,
        )
        counts[name] += _put(connection, tables[name], candidates)
    return counts


def _fill(
    connection: sqlite3.Connection, snapshot: Path, tables: Mapping[str, _Table]
) -> Counter[str]:
    """Insert rows that a snapshot has and the damaged file lacks."""
    counts: Counter[str] = Counter()
    read = {row[0] for row in connection.execute("SELECT id FROM memories")}
    with closing(sqlite3.connect(f"{snapshot.absolute().as_uri()}?mode=ro", uri=True)) as source:
        for name, table in tables.items():
            if not _has(source, name):
                continue
            known = {row[1] for row in source.execute(f"PRAGMA table_info({name})")}
            columns = [column for column, _, _ in table.columns if column in known]
            rows: Iterable[Sequence[Value]] = source.execute(
                f"SELECT {', '.join(columns)} FROM {name}"
            )
            if name == "citations":
                # Citations have no key by which a duplicate would be ignored.
                rows = [row for row in rows if row[columns.index("memory")] not in read]
            counts[name] = _put(connection, table, rows, columns)
    return counts


def _put(
    connection: sqlite3.Connection,
    table: _Table,
    rows: Iterable[Sequence[Value]],
    columns: Sequence[str] = (),
) -> int:
    """Insert rows that aren't there; returns their number."""
    count = 0
    for values in rows:
        names = columns or [name for name, _, _ in table.columns][: len(values)]
        if table.name == "memories" and values[names.index("origin")] != "":
            continue
        conflict = (
            "REPLACE" if table.name in ("counters", "facts", "meta") and not columns else "IGNORE"
        )
        marks = ", ".join("?" * len(values))
        statement = f"INSERT OR {conflict} INTO {table.name} ({', '.join(names)}) VALUES ({marks})"
        count += connection.execute(statement, tuple(values)).rowcount
    return count


def _table(connection: sqlite3.Connection, name: str) -> _Table:
    columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
    keys = [index for index, _, kind, _, _, key in columns if key and kind == "INTEGER"]
    alone = len([column for column in columns if column[5]]) == 1
    return _Table(
        name,
        tuple((column, kind, bool(needed)) for _, column, kind, needed, _, _ in columns),
        keys[0] if keys and alone else -1,
    )


def _has(connection: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


def _is_valid(table: str, named: Mapping[str, Any]) -> bool:
    """True if the values of a row pass the checks of its table."""
    try:
        if table in ("records", "versions"):
            from_json(named["kind"], named["body"])
        return all(check(named[column]) for column, check in _CHECKS.get(table, {}).items())
    except (ValueError, LookupError, TypeError, RecursionError):
        return False
