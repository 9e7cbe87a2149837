"""Memories of a claude-mem database of any generation, in any state; never written."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cortex.base.errors import CortexError
from cortex.base.runtime.sqlite_file_state import state_of
from cortex.base.types import Memory, MemoryState
from cortex.engine.sources import sqlite_snapshot
from cortex.families.memory.adapters.claude_mem import (
    ClaudeMemDatabase,
    ClaudeMemRow,
    Session,
    open_database,
)
from families.memory.adapters.claude_mem_databases import GENERATIONS, START

WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
for line in sys.stdin:
    connection.execute(
        "INSERT INTO observations (memory_session_id, project, type, title, created_at, created_at_epoch) VALUES ('s', 'ack', 'change', ?, '', 1)",
        (line.strip(),),
    )
    connection.commit()
    print("written", flush=True)
"""


def everything(database: ClaudeMemDatabase) -> list[object]:
    """All that can be read from a database."""
    rows = database.rows(limit=100)
    answers: list[object] = [database.count(), database.last(), rows, database.sessions(None, 100)]
    answers += [database.row(row.memory.key) for row in rows]
    answers += [database.session(row.memory.session) for row in rows]
    return answers


def ask(path: Path) -> list[object]:
    with open_database(path) as database:
        return everything(database)


def error_of(path: Path) -> CortexError:
    with pytest.raises(CortexError) as caught:
        ask(path)
    return caught.value


# -- generations
# -------------------------------------------------------------------------------------------------------


def test_the_third_generation_gives_its_memories_with_their_documents_ids(make):
    made = make("3")
    made.session("s", title="Railway setup", moment=START - 86_400_000)
    facts, concepts, files = ["It needs a prefix"], ["railway", "gotcha"], ["railway.toml"]
    made.memory(
        "ack_s_2026-11-15_001",
        "A prefix",
        subtitle="At build time",
        facts=facts,
        concepts=concepts,
        files_touched=files,
    )
    made.memory(None, None, "shop", text="# First line\nand more", keywords="queue, worker", session_id="other")  # fmt: skip
    with open_database(made.path) as database:
        assert database.count() == 2
        second, first = database.rows(limit=10)
        assert first == ClaudeMemRow(1, Memory(
            "ack_s_2026-11-15_001", "A prefix", "At build time", tuple(facts), tuple(concepts), tuple(files), "",
            "ack", "s", "2026-11-14", START, "", "claude-mem",
        ))  # fmt: skip
        assert second == ClaudeMemRow(2, Memory(
            "obs_2", "First line", concepts=("queue", "worker"), text="# First line\nand more", project="shop",
            session="other", date="2026-11-15", created=START, provenance="claude-mem",
        ))  # fmt: skip
        assert database.row("ack_s_2026-11-15_001") == first
        assert database.row("obs_2") == second
        assert (database.row("obs_1"), database.row("obs_3"), database.row("")) == (
            None,
            None,
            None,
        )


@pytest.mark.parametrize("generation", ["4", "8", "13", "carried"])
def test_from_the_fourth_generation_on_an_observation_is_a_memory(make, generation):
    made = make(generation)
    session = made.session("client-1", moment=START - 86_400_000)
    made.observation(
        session, "Hooks fire twice", type="bugfix", subtitle="At stop", facts=["Stop fires", "Twice"], narrative="It did.",
        concepts=["gotcha"], files_read=["a.py", "b.py"], files_modified=["b.py", "c.py"], created_at_epoch=START,
    )  # fmt: skip
    made.observation("nobody's", None, text="Told in one text\nonly")
    with open_database(made.path) as database:
        bare, full = database.rows(limit=10)
        assert full.memory == Memory(
            "obs_1", "Hooks fire twice", "At stop", ("Stop fires", "Twice"), ("gotcha",), ("a.py", "b.py", "c.py"), "It did.",
            "ack", "client-1", "2026-11-14", START, "bugfix", "claude-mem",
        )  # fmt: skip
        assert (bare.memory.title, bare.memory.session, bare.memory.date) == (
            "Told in one text",
            "nobody's",
            "2026-11-15",
        )
        assert (full.state, full.other_project) == (None, "")
        assert database.row("obs_1") == full
        assert database.last() == bare.number


def test_a_project_that_was_merged_into_another_counts_as_that_one(make):
    made = make("13")
    session = made.session("client-1")
    made.observation(
        session, "a", "worktree", merged_into_project="ack", created_at_epoch=START + 1
    )
    made.observation(session, "b", "worktree", merged_into_project="", created_at_epoch=START + 2)
    made.observation(
        session, "c", "worktree", merged_into_project="ack", created_at_epoch=START + 3
    )
    made.observation(session, "d", "gone", merged_into_project="ack", created_at_epoch=START + 4)
    made.observation(session, "e", "ack", created_at_epoch=START + 5)
    made.summary(session, "Merged", "worktree", merged_into_project="ack")
    with open_database(made.path) as database:
        found = {
            row.memory.title: (row.memory.project, row.other_project)
            for row in database.rows(limit=9)
        }
        assert found == {
            "a": ("ack", "worktree"), "b": ("worktree", ""), "c": ("ack", "worktree"), "d": ("ack", "gone"), "e": ("ack", ""),
        }  # fmt: skip
        assert [session.project for session in database.sessions(["ack"], 5)] == ["ack"]
        assert database.sessions(["worktree"], 5) == []


@pytest.mark.parametrize("generation", ["patched", "curated"])
def test_patched_database_gives_text_ids_and_the_state_where_it_has_one(make, generation):
    made = make(generation)
    state = {"status": "Promoted"} if generation == "curated" else {}
    made.memory("ack_abc_2026-01-04_001", "A prefix", session="abc", date="2026-01-04", session_id="5846fad1", files=["x"], **state)  # fmt: skip
    made.memory("second", "Other", session_id="5846fad1")
    made.insert("overviews", id="o", project="ack", session="abc", content="All of it.", created_at="2026-01-04T10:30:00Z", session_id="5846fad1")  # fmt: skip
    made.insert("observations", id="x", session_id="5846fad1", type="tool", narrative="PRIVATE")
    with open_database(made.path) as database:
        assert database.count() == 2
        other, first = database.rows(limit=5)
        assert (first.memory.key, first.memory.session, first.memory.date, first.memory.files) == (
            "ack_abc_2026-01-04_001",
            "abc",
            "2026-01-04",
            ("x",),
        )
        assert database.row(first.memory.key) == first
        assert first.state == (MemoryState.PROMOTED if state else None)
        assert other.state == (MemoryState.STAGING if state else None)
        summed = Session("abc", "ack", "All of it.", "All of it.", 1767522600000, "2026-01-04")
        assert database.sessions(["ack"], 5) == [summed]
        assert database.session("abc") == database.session("5846fad1") == summed


def test_upgraded_database_gives_its_old_memories_and_its_observations(make):
    made = make("carried")
    for number in range(3):
        made.memory(f"old_{number}" if number else None, f"old {number}")
        made.observation("s", f"new {number}")
    made.insert(
        "overviews",
        session_id="s",
        content="Old.",
        created_at="",
        created_at_epoch=START - 5,
        project="ack",
    )
    made.summary("t", "New")
    with open_database(made.path) as database:
        rows = database.rows(limit=10)
        assert [row.memory.key for row in rows] == [
            "obs_3",
            "obs_2",
            "obs_1",
            "old_2",
            "old_1",
            "mem_1",
        ]
        assert rows == sorted(rows, key=lambda row: -row.number)
        assert [database.row(row.memory.key) for row in rows] == rows
        assert database.count() == 6
        assert database.rows(limit=10, ascending=True) == rows[::-1]
        assert database.rows(below=rows[1].number, limit=2) == rows[2:4]
        assert database.rows(above=rows[-3].number, limit=2, ascending=True) == rows[1:3][::-1]
        assert [session.title for session in database.sessions(None, 5)] == ["New", "Old."]


def test_raw_observations_are_read_only_where_there_are_no_memories(make):
    made = make("3")
    table = "CREATE TABLE observations (id INTEGER PRIMARY KEY, sdk_session_id TEXT, project TEXT, text TEXT, type TEXT)"
    made.connection.execute(table)
    made.insert("observations", sdk_session_id="s", project="ack", text="PRIVATE", type="discovery")
    made.memory("one", "One")
    with open_database(made.path) as database:
        assert [row.memory.key for row in database.rows(limit=5)] == ["one"]
    made.connection.execute("DROP TABLE memories")
    made.connection.commit()
    with open_database(made.path) as database:
        assert [row.memory.text for row in database.rows(limit=5)] == ["PRIVATE"]


@pytest.mark.parametrize("generation", ["3", "8", "13"])
def test_prompts_and_tool_answers_are_never_read(make, generation):
    made = make(generation)
    session = made.session("client-1")
    if generation == "3":
        made.memory("one", "One", session_id=session)
    else:
        made.observation(session, "One")
        made.insert("user_prompts", content_session_id="client-1", prompt_number=1, prompt_text="PRIVATE", created_at="", created_at_epoch=1)  # fmt: skip
        made.insert(
            "pending_messages",
            session_db_id=1,
            content_session_id="client-1",
            tool_response="PRIVATE",
        )
    assert "PRIVATE" not in repr(ask(made.path))


# -- walking
# -----------------------------------------------------------------------------------------------------------


def test_rows_are_walked_by_number_in_both_directions(make):
    made = make("8")
    made.many(95, per_session=10)
    made.connection.execute("DELETE FROM observations WHERE id BETWEEN 40 AND 49")
    made.connection.commit()
    with open_database(made.path) as database:
        walked: list[ClaudeMemRow] = []
        while rows := database.rows(below=walked[-1].number if walked else None, limit=20):
            walked += rows
        assert [row.number for row in walked] == [*range(95, 49, -1), *range(39, 0, -1)]
        upwards: list[ClaudeMemRow] = []
        while rows := database.rows(
            above=upwards[-1].number if upwards else 0, limit=20, ascending=True
        ):
            upwards += rows
        assert upwards == walked[::-1]
        assert (
            database.rows(above=95, limit=5),
            database.rows(limit=0),
            database.rows(below=-(10**30), limit=5),
        ) == ([], [], [])


def test_page_of_rows_reads_little_more_than_it_returns(make, monkeypatch):
    made = make("13")
    made.many(10_000, per_session=2)
    with open_database(made.path, seconds=-1.0) as database:
        # None of these may take more
        monkeypatch.setattr(sqlite_snapshot, "READ_STEPS", 20_000)
        assert len(database.rows(below=5000, limit=10)) == 10
        assert len(database.rows(above=5000, limit=10, ascending=True)) == 10
        assert len(database.sessions(["shop"], 5)) == len(database.sessions(None, 5)) == 5
        assert database.row("obs_7777") is not None and database.session("1234") is not None
        # This one reads every row
        with pytest.raises(CortexError):
            database.rows(limit=10_000)


# -- states
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("generation", list(GENERATIONS))
def test_reading_changes_nothing_in_the_folder(make, generation):
    made = make(generation)
    made.close()
    folder = made.path.parent
    before = (
        {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()},
        folder.stat().st_mtime_ns,
    )
    assert list(before[0]) == [made.path.name]
    ask(made.path)
    assert ({path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}, folder.stat().st_mtime_ns) == before  # fmt: skip


def test_rows_of_a_writer_in_another_process_are_seen_as_they_come(make):
    made = make("13")
    made.observation("s", "first")
    made.close()
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(made.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        with open_database(made.path) as kept:
            for number in range(1, 6):
                before = state_of(made.path)
                writer.stdin.write(f"row {number}\n")
                writer.stdin.flush()
                assert writer.stdout.readline() == "written\n"
                assert state_of(made.path) != before
                with open_database(made.path) as database:
                    assert database.rows(limit=1)[0].memory.title == f"row {number}"
                    assert database.rows(above=number, limit=5) == database.rows(limit=1)
            # It was opened before the writer came
            assert kept.count() == 6
        writer.stdin.close()
        assert writer.wait(30) == 0
    assert [path.name for path in made.path.parent.iterdir()] == [made.path.name]


def test_locked_database_is_reported_as_locked(make, monkeypatch):
    monkeypatch.setattr(sqlite_snapshot, "BUSY_SECONDS", 0.05)
    made = make("13")
    made.observation("s", "first")
    made.connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    made.connection.execute("BEGIN EXCLUSIVE")
    made.connection.execute("DELETE FROM observations")
    error = error_of(made.path)
    assert error.code == "IMPORT_UNREADABLE" and "locked" in error.message


@pytest.mark.parametrize(
    "content", [b"", b"no database " * 1000, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_file_that_is_no_database_is_reported(tmp_path, content):
    path = tmp_path / "claude-mem.db"
    path.write_bytes(content)
    error = error_of(path)
    assert error.code == "IMPORT_UNREADABLE" and str(path) in error.message
    assert [path.name for path in tmp_path.iterdir()] == [
        path.name
    ] and path.read_bytes() == content


def test_foreign_database_and_missing_file_are_reported(tmp_path):
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.executescript(
        "CREATE TABLE memories (id TEXT PRIMARY KEY, content, memory_type, namespace, status);"
    )
    connection.executescript(
        "CREATE VIEW observations AS SELECT id AS title, content AS text FROM memories;"
    )
    connection.close()
    assert "neither" in error_of(tmp_path / "other.db").message
    assert error_of(tmp_path / "none.db").code == "FILE_NOT_FOUND"
    assert error_of(tmp_path).code == "FILE_NOT_FOUND"


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_a_database_that_is_torn_anywhere_is_read_or_an_error(make, part):
    made = make("13")
    made.many(300)
    made.close()
    whole = made.path.read_bytes()
    place = int(len(whole) * part)
    for torn in (
        whole[:place],
        whole[:place] + b"\xa5" * (len(whole) - place),
        whole[:place] + bytes(len(whole) - place),
    ):
        made.path.write_bytes(torn)
        try:
            ask(made.path)
        except CortexError as error:
            assert error.code == "IMPORT_UNREADABLE"


@pytest.mark.parametrize("generation", list(GENERATIONS))
def test_every_column_may_be_missing(make, generation):
    made = make(generation)
    session = (
        made.session("client-1") if generation not in ("patched", "curated", "carried") else "s"
    )
    made.memory("one", "One") if "memories" in GENERATIONS[generation][1] else made.observation(
        session, "One"
    )
    if generation in ("4", "8", "13", "carried"):
        made.summary(session, "Request")
    made.connection.execute("DROP TABLE IF EXISTS observations_fts")
    for (name,) in made.connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'index' AND sql > ''"
    ).fetchall():
        made.connection.execute(f"DROP INDEX {name}")
    dropped = 0
    tables = made.connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table'"
    ).fetchall()
    for (table,) in tables:
        for _, column, _, _, _, key in made.connection.execute(
            f"PRAGMA table_info({table})"
        ).fetchall():
            if key or column == "title":
                continue
            try:
                made.connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
            except sqlite3.OperationalError:
                # What is unique must stay
                continue
            made.connection.commit()
            dropped += 1
            assert ask(made.path)[0] == 1, f"without {table}.{column}"
    assert dropped > 10


def test_newer_database_is_read_as_far_as_its_tables_are_known(make):
    made = make("13")
    made.connection.executescript(
        "INSERT INTO schema_versions (version, applied_at) VALUES (99, 'then'); ALTER TABLE observations ADD COLUMN mood TEXT DEFAULT 'fine';"
        "CREATE TABLE dreams (id INTEGER PRIMARY KEY, dream TEXT); ALTER TABLE session_summaries RENAME TO retrospects;"
    )
    made.observation("s", "One")
    with open_database(made.path) as database:
        assert [row.memory.title for row in database.rows(limit=5)] == ["One"]
        assert database.sessions(None, 5) == []
    made.connection.executescript("DROP TABLE observations;")
    assert "migration 99" in error_of(made.path).message


# -- values
# ------------------------------------------------------------------------------------------------------------

STRANGE = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.binary(max_size=20), st.text(max_size=20),
    st.sampled_from(['["a"', "[[[", '{"a": 1}', "a\0b", "x" * 50_000, "[" + '"y", ' * 50_000, "staging", "2026-01-04", 10**18]),
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(values=st.lists(STRANGE, min_size=28, max_size=28), number=st.integers(-(2**63), 2**63 - 1))
def test_any_column_value_is_read_without_an_error(tmp_path_factory, values, number):
    path = tmp_path_factory.mktemp("strange") / "a.db"
    connection = sqlite3.connect(path)
    for table in ("memories", "observations", "session_summaries", "sdk_sessions", "overviews"):
        names = "document_id project merged_into_project title subtitle facts concepts files narrative text type date session memory_session_id session_id "
        names += "content_session_id started_at_epoch custom_title request learned content created_at_epoch created_at status reviewed_by files_read version keywords"
        connection.execute(f"CREATE TABLE {table} ({', '.join(names.split())})")
        wanted = [
            value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
            for value in values
        ]
        connection.execute(
            f"INSERT INTO {table} (rowid, {', '.join(names.split())}) VALUES ({number}, {', '.join('?' * 28)})",
            wanted,
        )
    connection.commit()
    connection.close()
    with open_database(path) as database:
        assert database.count() == 2
        rows = database.rows(limit=5)
        for row in rows:
            memory = row.memory
            repr(row).encode("utf-8")
            assert 0 < len(memory.key) <= 300 and all(
                len(part) <= 20_000
                for part in (memory.title, memory.text, *memory.facts, *memory.files)
            )
            assert database.row(memory.key) is not None
        database.session(rows[0].memory.session if rows else "x")
        database.sessions(None, 5)
