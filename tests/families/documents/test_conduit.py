"""Conduit databases of both generations in any state; never written."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cortex.base.errors import CortexError
from cortex.base.types import Stamp
from cortex.engine.sources import sqlite_snapshot
from cortex.families.documents.conduit import ConduitFolder, open_base
from families.documents.conduit_databases import MadeDatabase, make_base


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., MadeDatabase]]:
    opened: list[MadeDatabase] = []

    def make_one(version: int = 2) -> MadeDatabase:
        opened.append(make_base(tmp_path / "conduit" / "conduit.db", version))
        return opened[-1]

    yield make_one
    for made in opened:
        made.connection.close()


def fill(made: MadeDatabase, version: int) -> None:
    made.source(
        "0b1e-uuid", "/home/me/notes", "notes", '["*.md", "*.txt"]', '["drafts/**"]', "manual"
    )
    made.source("b", "/gone", "Old ö", None, "null")
    vectors = [[3.0, 4.0], [0.0, 1.0]] if version == 2 else []
    made.document("doc_1", "0b1e-uuid", "/home/me/notes/a.md", ["lamps", "desks"], vectors)
    if version == 2:
        made.stamp("ollama", "nomic-embed-text", 2, "nomic")


def state_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def code_of(path: Path) -> str:
    with pytest.raises(CortexError) as caught, open_base(path) as base:
        base.folders()
        list(base.texts())
    return caught.value.code


@pytest.mark.parametrize("version", [1, 2])
def test_both_generations_give_their_sources_documents_and_chunks(make, version):
    made = make(version)
    fill(made, version)
    made.connection.close()
    before = state_of(made.path.parent)
    with open_base(made.path) as base:
        assert base.version == version
        assert base.folders() == [
            ConduitFolder(
                "0b1e-uuid", "notes", "/home/me/notes", ("*.md", "*.txt"), ("drafts/**",), "manual"
            ),
            ConduitFolder("b", "Old ö", "/gone", (), (), "watch"),
        ]
        assert [folder.watch for folder in base.folders()] == [False, True]
        assert [(document.id, document.path) for document in base.documents("0b1e-uuid")] == [
            ("doc_1", "/home/me/notes/a.md")
        ]
        assert list(base.documents("b")) == []
        assert [(text.document, text.ordinal, text.text, text.end) for text in base.texts()] == [
            ("doc_1", 0, "lamps", 5),
            ("doc_1", 1, "desks", 5),
        ]
        vectors = list(base.vectors())
        if version == 1:
            assert (base.stamp(), vectors) == (None, [])
        else:
            assert base.stamp() == Stamp("ollama", "nomic-embed-text", 2, "nomic")
            assert [text for text, _ in vectors] == ["lamps", "desks"]
            assert np.allclose([row for _, row in vectors], [[0.6, 0.8], [0.0, 1.0]])
    assert state_of(made.path.parent) == before


def test_database_in_use_is_read_with_its_latest_writes(make):
    made = make()
    fill(made, 2)
    assert made.path.with_name("conduit.db-wal").stat().st_size > 0
    before = made.path.read_bytes()
    with open_base(made.path.parent) as base:
        assert len(base.folders()) == 2
        # The owner can go on writing
        made.source("c", "/more", "more")
    assert made.path.read_bytes() == before
    with open_base(made.path.parent) as base:
        assert len(base.folders()) == 3


def test_a_journal_that_a_crash_left_is_read_and_left_as_it_is(make, tmp_path):
    made = make()
    fill(made, 2)
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("conduit.db", "conduit.db-wal"):
        shutil.copyfile(made.path.with_name(name), crashed / name)
    before = state_of(crashed)
    with open_base(crashed) as base:
        assert len(base.folders()) == 2
    assert state_of(crashed) == before


def test_missing_columns_are_no_error(make):
    made = make()
    made.source("a", "/x", "x")
    made.document("d", "a", "/x/d.md", ["text"], [[1.0]])
    for column in ("patterns", "excludes", "sync_mode", "type", "error"):
        made.connection.execute(f"ALTER TABLE kb_sources DROP COLUMN {column}")
    made.connection.execute("ALTER TABLE kb_chunks DROP COLUMN start_char")
    made.connection.execute("DROP TABLE kb_embedding_stamp")
    made.connection.commit()
    with open_base(made.path) as base:
        assert base.folders() == [ConduitFolder("a", "x", "/x", (), (), "watch")]
        assert [text.start for text in base.texts()] == [-1]
        assert (base.version, base.stamp(), list(base.vectors())) == (2, None, [])


def test_damaged_vectors_are_left_out(make):
    made = make()
    made.source("a", "/x", "x")
    nan = float("nan")
    made.document(
        "d",
        "a",
        "/x/d.md",
        ["one", "two", "three", "four"],
        [[1.0, 0.0], [1.0], [nan, 1.0], [0.0, 0.0]],
    )
    made.stamp("ollama", "m", 2)
    with open_base(made.path) as base:
        assert [text for text, _ in base.vectors()] == ["one"]


def test_patterns_in_any_form_are_read(make):
    made = make()
    for number, patterns in enumerate(("*.md, *.txt", '[1, "a"]', "[broken", "")):
        made.source(str(number), f"/{number}", "x", patterns)
    with open_base(made.path) as base:
        assert [folder.patterns for folder in base.folders()] == [("*.md", "*.txt"), ("a",), (), ()]


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100])
def test_file_that_is_no_database_is_reported(tmp_path, content):
    (tmp_path / "conduit.db").write_bytes(content)
    assert code_of(tmp_path) == "IMPORT_UNREADABLE"
    assert (tmp_path / "conduit.db").read_bytes() == content


def test_foreign_database_and_missing_file_are_reported(tmp_path):
    sqlite3.connect(tmp_path / "other.db").executescript("CREATE TABLE x (y);").connection.close()
    assert code_of(tmp_path / "other.db") == "IMPORT_UNREADABLE"
    assert code_of(tmp_path / "none.db") == "FILE_NOT_FOUND"
    assert code_of(tmp_path) == "FILE_NOT_FOUND"


def test_a_torn_database_is_an_error_and_no_crash(make):
    made = make()
    made.source("a", "/x", "x")
    made.document("d", "a", "/x/d.md", ["word " * 5000] * 20)
    made.connection.close()
    raw = bytearray(made.path.read_bytes())
    raw[8192:] = b"\xff" * (len(raw) - 8192)
    made.path.write_bytes(raw)
    assert code_of(made.path) == "IMPORT_UNREADABLE"


def test_locked_database_is_reported_as_locked(make, monkeypatch):
    monkeypatch.setattr(sqlite_snapshot, "BUSY_SECONDS", 0.05)
    made = make()
    fill(made, 2)
    made.connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    made.connection.execute("PRAGMA journal_mode = DELETE")
    made.connection.execute("BEGIN EXCLUSIVE")
    made.connection.execute("DELETE FROM kb_chunks")
    journal = made.path.with_name("conduit.db-wal")
    # As if it were in use
    journal.touch()
    made.path.with_name("conduit.db-shm").touch()
    with pytest.raises(CortexError, match="locked"), open_base(made.path) as base:
        base.folders()
