"""A claude-mem database queried with LIKE, or by an FTS5 table over its rows."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

COLUMNS = ("title", "subtitle", "facts", "narrative", "concepts")

Found = list[tuple[int, str]]  # number and title


def ask_by_like(connection: sqlite3.Connection, text: str) -> Found:
    """The ten newest rows that hold all words somewhere."""
    words = text.split()
    every = " AND ".join(
        f"({' OR '.join(f'{column} LIKE ?' for column in COLUMNS)})" for _ in words
    )
    values = [f"%{word}%" for word in words for _ in COLUMNS]
    ask = (
        f"SELECT id, title FROM observations WHERE {every} ORDER BY created_at_epoch DESC LIMIT 10"
    )
    return connection.execute(ask, values).fetchall()


def copy_with_words(path: Path, copy: Path) -> sqlite3.Connection:
    """A database with an FTS5 table of the rows, as versions up to 12 kept one."""
    made = sqlite3.connect(copy)
    columns = ", ".join(COLUMNS)
    made.execute("ATTACH ? AS other", (str(path),))
    made.execute(f"CREATE VIRTUAL TABLE found USING fts5({columns})")
    made.execute(
        f"INSERT INTO found (rowid, {columns}) SELECT id, {columns} FROM other.observations"
    )
    made.commit()
    return made


def ask_by_match(connection: sqlite3.Connection, text: str) -> Found:
    """The ten best rows that hold any of the words."""
    words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", text))
    ask = "SELECT rowid, title FROM found WHERE found MATCH ? ORDER BY rank LIMIT 10"
    return connection.execute(ask, (words,)).fetchall()
