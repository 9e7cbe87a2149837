"""Integrity of the SQLite file of a store."""

from __future__ import annotations

import os
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from cortex.base.paths import open_private
from cortex.engine.store.connection import SqliteConnection

# Messages of `integrity_check` about an index over an intact table.
_INDEX_DAMAGE = re.compile(
    r"row \d+ missing from index .*|wrong # of entries in index .*|non-unique entry in index .*"
)
# Messages of SQLite's integrity check that are read.
MAX_MESSAGES = 10_000


def problems_of(connection: SqliteConnection) -> list[str]:
    """Check pages, indexes, foreign keys, and that memories and records have a searchable doc."""
    verdict = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    if verdict != ["ok"]:
        return [f"SQLite: {'; '.join(verdict[:3])}"]
    loose = Counter(row[0] for row in connection.execute("PRAGMA foreign_key_check"))
    problems = [
        f"{count} rows of {table} point to nothing" for table, count in sorted(loose.items())
    ]
    for table, key in (("memories", "key"), ("records", "id")):
        count = connection.execute(
            f"SELECT count(*) FROM {table} WHERE source IS NOT NULL AND NOT EXISTS "
            f"(SELECT 1 FROM docs WHERE docs.source = {table}.source "
            f"AND docs.path = {table}.{key})"
        ).fetchone()[0]
        problems += [f"{count} {table} are not found by search"] if count else []
    return problems


def is_damaged_in_indexes_only(connection: SqliteConnection) -> bool:
    """True if the tables are intact and only SQLite's own indexes are not: `REINDEX` helps."""
    rows = connection.execute(f"PRAGMA integrity_check({MAX_MESSAGES})").fetchall()
    return len(rows) < MAX_MESSAGES and all(_INDEX_DAMAGE.fullmatch(row[0]) for row in rows)


def copy_pages(connection: SqliteConnection, target: Path) -> None:
    """Copy a database page by page.

    Includes the log, and pages that SQLite can no longer reach.
    """
    os.close(open_private(str(target), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    with closing(sqlite3.connect(target)) as copy:
        connection.backup(copy)
