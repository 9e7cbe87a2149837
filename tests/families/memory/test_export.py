"""Exports of memories: read back unchanged, and by claude-mem."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import hypothesis
from hypothesis import strategies

from cortex.base.types import Citation, Memory, MemoryState
from cortex.families.memory.adapters.claude_mem import open_database
from cortex.families.memory.export import ExportedMemory, export_of
from cortex.families.memory.file_import import ImportedMemory, read

NOW = 1_767_000_000_000


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


CITED = Citation("/home/kim/shop", "lamp.py", "Lamp.switch", b"\1\2", b"\3", "abc123")


LINES = strategies.text(
    strategies.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=20
)


PARTS = strategies.lists(LINES, max_size=3, unique=True).map(tuple)


MEMORIES = strategies.builds(
    Memory,
    key=LINES,
    title=LINES,
    subtitle=strategies.just("") | LINES,
    facts=PARTS,
    concepts=PARTS,
    files=PARTS,
    text=strategies.lists(LINES, max_size=3).map("\n".join),
    project=strategies.just("") | LINES,
    session=strategies.just("") | LINES,
    date=strategies.just("2026-01-05"),
    created=strategies.integers(10**12, 2 * 10**12),
    kind=strategies.sampled_from(["", "decision", "gotcha"]),
    provenance=strategies.just("") | LINES,
)


KEPT = strategies.builds(
    ExportedMemory,
    memory=MEMORIES,
    state=strategies.none() | strategies.sampled_from(MemoryState),
    scope=strategies.just("") | LINES,
    citations=strategies.sampled_from([(), (CITED,)]),
    superseded_by=strategies.just("") | LINES,
)


@hypothesis.given(strategies.lists(KEPT, max_size=4))
def test_exported_memories_are_read_back_unchanged(tmp_path_factory, kept):
    path = write(tmp_path_factory.mktemp("export") / "export.json", export_of(kept, at=NOW))
    assert list(read(path)) == [
        ImportedMemory(
            exported.memory,
            exported.state,
            exported.scope,
            exported.citations,
            exported.superseded_by,
        )
        for exported in kept
    ]


def test_a_citation_without_a_hash_or_path_is_left_out(tmp_path):
    said = export_of([ExportedMemory(Memory("k", "title"), citations=(CITED,))], at=NOW)
    (row,) = said["observations"]  # pyright: ignore[reportGeneralTypeIssues]
    row["cortex"]["citations"] += [
        7,
        {},
        {"path": "x", "file_hash": "no hash"},
        {"file_hash": "0a"},
    ]
    (brought,) = read(write(tmp_path / "export.json", said))
    assert brought.citations == (CITED,)


CLAUDE_MEM = """
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT UNIQUE NOT NULL, memory_session_id TEXT UNIQUE, project TEXT NOT NULL, user_prompt TEXT,
  started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL, completed_at TEXT, completed_at_epoch INTEGER, status TEXT CHECK(status IN ('active','completed','failed')) NOT NULL DEFAULT 'active');
CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, text TEXT,
  type TEXT NOT NULL CHECK(type IN ('decision','bugfix','feature','refactor','discovery','change')), title TEXT, subtitle TEXT, facts TEXT, narrative TEXT,
  concepts TEXT, files_read TEXT, files_modified TEXT, prompt_number INTEGER, discovery_tokens INTEGER DEFAULT 0, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL,
  FOREIGN KEY(memory_session_id) REFERENCES sdk_sessions(memory_session_id) ON DELETE CASCADE);
"""


def test_export_fits_the_schema_of_claude_mem(tmp_path):
    """Its importer binds these columns of each row; the tables are those of its strictest version."""
    memories = [
        Memory("a", "Lamps", "sub", ("f",), ("gotcha",), ("lamp.py",), "story", "shop", "s1", "2026-01-05", NOW, "decision"),
        Memory("b", "No session", created=NOW + 1, kind="gotcha"),
        Memory("c", "Same session", session="s1", project="mall", created=NOW - 5),
    ]  # fmt: skip
    said = json.loads(
        json.dumps(export_of([ExportedMemory(memory) for memory in memories], at=NOW))
    )
    connection = sqlite3.connect(tmp_path / "claude-mem.db")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.executescript(CLAUDE_MEM)
    for table, rows in (("sdk_sessions", said["sessions"]), ("observations", said["observations"])):
        for row in rows:
            row.pop("cortex", None)
            marks = ", ".join("?" * len(row))
            connection.execute(
                f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values())
            )
    connection.commit()
    connection.close()
    with open_database(tmp_path / "claude-mem.db") as database:
        read_back = [row.memory for row in database.rows(limit=9, ascending=True)]
    assert [
        (memory.title, memory.facts, memory.files, memory.text, memory.session, memory.kind)
        for memory in read_back
    ] == [
        ("Lamps", ("f",), ("lamp.py",), "story", "s1", "decision"),
        ("No session", (), (), "", "cortex", "discovery"),
        ("Same session", (), (), "", "s1", "discovery"),
    ]
    assert (said["totalObservations"], said["totalSessions"], said["exportedAtEpoch"]) == (
        3,
        2,
        NOW,
    )
