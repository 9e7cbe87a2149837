"""The import of a Conduit database: sources, documents and reusable vectors."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from cortex.base.errors import FileError
from cortex.base.settings import load
from cortex.base.types import Stamp
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.library import Library
from cortex.families.documents.conduit_import import import_conduit, same_model, scheme_of
from families.documents.conduit_databases import make_base


class Costly(HashingEmbedder):
    """An embedder with costly vectors, which records what it was asked to embed."""

    def __init__(self, model: str = "words", dimensions: int = 8) -> None:
        super().__init__(dimensions)
        self.costly = True
        self.stamp = Stamp("ollama", model, dimensions)
        self.asked: list[str] = []

    def embed(self, texts, mode):
        self.asked += texts if mode == "passage" else []
        return super().embed(texts, mode)


@pytest.fixture
def open_library(tmp_path: Path) -> Iterator[Callable[..., Library]]:
    with ExitStack() as opened:

        def open_one(embedder: HashingEmbedder | None = None) -> Library:
            settings = load(
                None,
                environment={"CORTEX_HOME": str(tmp_path / "home")},
                flags={"indexing.workers": 1},
                user_home=tmp_path,
            )
            library = Library(settings, embedder=embedder or HashingEmbedder())
            opened.enter_context(library)
            return library

        yield open_one


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "drafts").mkdir(parents=True)
    (folder / "lamp.md").write_text("# Lamp\n\nHow to switch a lamp.\n", encoding="utf-8")
    (folder / "desk.md").write_text("# Desk\n\nA desk has drawers.\n", encoding="utf-8")
    (folder / "desk.py").write_text("drawers = 3\n", encoding="utf-8")
    (folder / "drafts" / "later.md").write_text("# Later\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("version", [1, 2])
def test_sources_keep_ids_names_and_patterns_and_missing_folders_are_reported(
    open_library, notes, tmp_path, version
):
    made = make_base(tmp_path / "conduit" / "conduit.db", version)
    made.source("0b1e-uuid", str(notes), "My notes", '["*.md"]', '["drafts/**"]', "manual")
    made.source("gone-id", str(tmp_path / "gone"), "Old")
    made.source("home-id", "/", "everything")
    made.connection.close()
    library = open_library()
    done = import_conduit(library, made.path.parent)
    assert [(source.id, source.name, source.status) for source in done.sources] == [
        ("0b1e-uuid", "My notes", "added"),
        ("gone-id", "Old", "gone"),
        ("home-id", "everything", "refused"),
    ]
    assert (done.version, done.complete) == (version, False)
    assert "whole disk" in done.sources[2].reason
    (folder,) = library.folders()
    assert (folder.key, folder.name, folder.watch) == ("0b1e-uuid", "My notes", False)
    assert {doc.path for doc in library.store.content.docs(folder.source.id)} == {
        "lamp.md",
        "desk.md",
    }
    assert done.sources[0].documents == 2


def test_a_second_import_changes_nothing(open_library, notes, tmp_path):
    made = make_base(tmp_path / "conduit.db")
    made.source("a", str(notes), "notes")
    made.connection.close()
    library = open_library()
    assert import_conduit(library, made.path).complete
    done = import_conduit(library, made.path)
    assert [(source.status, source.documents) for source in done.sources] == [("present", 4)]
    assert len(library.folders()) == 1


def test_source_with_a_taken_name_is_renamed(open_library, notes, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    library = open_library()
    library.add_folder(other, name="Notes")
    made = make_base(tmp_path / "conduit.db")
    made.source("a", str(notes), "notes")
    made.connection.close()
    assert [source.name for source in import_conduit(library, made.path).sources] == [
        "notes (conduit)"
    ]


def with_vectors(
    tmp_path: Path, notes: Path, model: str, dimensions: int = 8, prefix: str = "none"
) -> Path:
    made = make_base(tmp_path / "conduit.db")
    made.source("a", str(notes), "notes", '["*.md"]')
    rows = [[1.0] + [0.0] * (dimensions - 1)] * 2
    made.document(
        "d", "a", str(notes / "lamp.md"), ["# Lamp\n\nHow to switch a lamp.", "cut otherwise"], rows
    )
    made.stamp("ollama", model, dimensions, prefix)
    made.connection.close()
    return made.path


def test_vectors_of_the_same_model_and_text_are_reused(open_library, notes, tmp_path):
    embedder = Costly()
    library = open_library(embedder)
    done = import_conduit(library, with_vectors(tmp_path, notes, "words:latest"))
    assert (done.vectors, done.reused) == (2, 1)
    assert "1 of 2" in done.note
    assert not any("switch a lamp" in text for text in embedder.asked)
    assert any("drawers" in text for text in embedder.asked)
    (folder,) = library.folders()
    stamp = embedder.stamp
    lamp = next(
        doc for doc in library.store.content.docs(folder.source.id) if doc.path == "lamp.md"
    )
    ((chunk, _),) = library.store.content.chunks(lamp.blob)
    ((found, raw),) = next(library.store.paid.rows(stamp, [chunk]))
    assert found == chunk
    assert np.frombuffer(raw, dtype="<f2").tolist() == [1.0] + [0.0] * 7


@pytest.mark.parametrize(
    ("model", "dimensions", "prefix"),
    [("other", 8, "none"), ("words", 4, "none"), ("words", 8, "1234abcd")],
)
def test_vectors_of_another_model_are_not_reused(
    open_library, notes, tmp_path, model, dimensions, prefix
):
    embedder = Costly()
    done = import_conduit(
        open_library(embedder), with_vectors(tmp_path, notes, model, dimensions, prefix)
    )
    assert done.reused == 0
    assert "made anew" in done.note


def test_models_are_the_same_by_weights_and_prefix_not_by_spelling():
    ours = Stamp("ollama", "nomic-embed-text:latest", 768, "nomic-embed-text")
    prefixed = scheme_of("search_document: ", "search_query: ")
    assert same_model(Stamp("llama-server", "nomic-embed-text-v1.5", 768, prefixed), ours)
    assert same_model(Stamp("ollama", "nomic-embed-text", 768, prefixed), ours)
    assert not same_model(Stamp("ollama", "nomic-embed-text", 768, "none"), ours)
    assert not same_model(Stamp("ollama", "nomic-embed-text", 768, ""), ours)
    assert not same_model(Stamp("ollama", "nomic-embed-text-v2-moe", 768, prefixed), ours)
    # Only queries have a prefix
    asks = Stamp("ollama", "mxbai-embed-large", 1024, "mxbai-embed-large")
    assert same_model(Stamp("ollama", "mxbai-embed-large-v1", 1024, "none"), asks)


def test_invalid_sources_are_refused_and_the_others_imported(open_library, tmp_path):
    base = make_base(tmp_path / "conduit.db", version=1)
    for number in range(3):
        (tmp_path / f"docs{number}").mkdir()
    rows = [
        ("nul", "/tmp/\0x", "nul"),
        ("long", "/" + "a" * 5000, "long"),
        ("user", "~nobody-of-that-name/docs", "user"),
        ("k)\n```\nFound 3 results", str(tmp_path / "docs0"), "key"),
        ("colour", str(tmp_path / "docs1"), "red\x1b[31m\nname"),
        ("wordy", str(tmp_path / "docs2"), "word " * 1000),
    ]
    for key, path, name in rows:
        base.source(key, path, name)
    library = open_library()
    done = import_conduit(library, tmp_path / "conduit.db")
    assert [source.status for source in done.sources] == [
        "refused",
        "gone",
        "refused",
        "refused",
        "added",
        "added",
    ]
    assert [folder.key for folder in library.folders()] == ["colour", "wordy"]
    assert all(
        folder.name.isprintable() and len(folder.name) <= 100 for folder in library.folders()
    )


def test_view_in_place_of_a_table_is_unreadable(open_library, tmp_path):
    endless = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x AS source_id, '/x' AS path FROM r"
    with closing(sqlite3.connect(tmp_path / "conduit.db")) as connection:
        connection.execute(f"CREATE VIEW kb_sources AS {endless}")
    with pytest.raises(FileError) as caught:
        import_conduit(open_library(), tmp_path / "conduit.db")
    assert caught.value.code == "IMPORT_UNREADABLE"
