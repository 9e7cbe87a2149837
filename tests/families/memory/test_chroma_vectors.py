"""Reuse of vectors from Chroma where the model is the same."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from cortex.base.settings import load
from cortex.base.types import Cancel, Note, Stamp
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.embedders.onnx import STAMP as ONNX
from cortex.engine.library import Library
from cortex.families.memory.chroma_vectors import is_same, reuse
from families.memory.adapters.chroma_stores import ADD, make_collection

SIZE = 384


class Costly(HashingEmbedder):
    """An embedder with costly vectors, which records what it was asked to embed."""

    def __init__(self, model: str = "all-MiniLM-L6-v2", dimensions: int = SIZE) -> None:
        super().__init__(dimensions)
        self.costly = True
        self.stamp = Stamp("onnx", model, dimensions)
        self.asked: list[str] = []

    def embed(self, texts, mode):
        self.asked += texts if mode == "passage" else []
        return super().embed(texts, mode)


@pytest.fixture
def open_library(tmp_path: Path) -> Iterator[Callable[[HashingEmbedder], Library]]:
    with ExitStack() as opened:

        def open_one(embedder: HashingEmbedder) -> Library:
            settings = load(
                None,
                environment={"CORTEX_HOME": str(tmp_path / "home")},
                flags={"indexing.workers": 1},
                user_home=tmp_path,
            )
            library = opened.enter_context(Library(settings, embedder=embedder))
            library.put(
                [
                    Note("person", "obs_1", "Lamps are switched by a relay."),
                    Note("person", "obs_2", "A desk."),
                ]
            )
            return library

        yield open_one


@pytest.fixture
def chroma(tmp_path: Path) -> Path:
    made = make_collection(tmp_path / "chroma", "cm__claude-mem", SIZE)
    row = np.zeros(SIZE)
    row[7] = 1
    made.queue(ADD, "obs_1_narrative", row)
    made.queue(ADD, "obs_3_narrative", row)
    return made.store


def texts_of(library: Library) -> list[tuple[str, list[str]]]:
    """Every memory, by key, with the texts of its chunks as they are stored."""
    lookup = library.store.content
    return [
        (
            doc.path,
            [
                lookup.text(doc.blob)[chunk.start : chunk.end]
                for _, chunk in lookup.chunks(doc.blob)
            ],
        )
        for doc in lookup.docs(library.source.id)
    ]


def test_a_memory_that_has_a_vector_is_not_embedded_again(open_library, chroma):
    embedder = Costly()
    library = open_library(embedder)
    assert reuse(library, chroma, texts_of(library)) == 1
    assert library.embedding.embed(cancel=Cancel())
    assert not any("relay" in text for text in embedder.asked)
    assert any("desk" in text for text in embedder.asked)
    lamp = next(doc for doc in library.store.content.docs(library.source.id) if doc.path == "obs_1")
    ((chunk, _),) = library.store.content.chunks(lamp.blob)
    ((_, raw),) = next(library.store.paid.rows(embedder.stamp, [chunk]))
    assert np.flatnonzero(np.frombuffer(raw, dtype="<f2")).tolist() == [7]


def test_second_reuse_changes_nothing(open_library, chroma):
    library = open_library(Costly())
    assert [reuse(library, chroma, texts_of(library)) for _ in range(2)] == [1, 1]
    assert [count for _, _, count in library.store.paid.models()] == [1]


def test_vectors_of_another_model_are_not_reused_and_that_is_logged(open_library, chroma, caplog):
    library = open_library(Costly("nomic-embed-text"))
    with caplog.at_level(logging.INFO, "cortex.families.memory.chroma_vectors"):
        assert reuse(library, chroma, texts_of(library)) == 0
    assert "nomic-embed-text is wanted" in caplog.text
    assert library.store.paid.models() == []


def test_free_vectors_are_not_reused(open_library, chroma):
    library = open_library(HashingEmbedder(SIZE))
    assert reuse(library, chroma, texts_of(library)) == 0


def test_a_memory_of_several_chunks_is_embedded_here(open_library, chroma):
    library = open_library(Costly())
    assert reuse(library, chroma, [("obs_1", ["first half", "second half"]), ("obs_2", [])]) == 0


def test_missing_or_damaged_store_costs_only_its_vectors(open_library, chroma, tmp_path, caplog):
    library = open_library(Costly())
    assert reuse(library, tmp_path / "nowhere", texts_of(library)) == 0
    (chroma / "chroma.sqlite3").write_bytes(b"no database" * 500)
    with caplog.at_level(logging.INFO, "cortex.families.memory.chroma_vectors"):
        assert reuse(library, chroma, texts_of(library)) == 0
    assert "can't be read" in caplog.text


def test_vectors_of_another_length_are_not_reused(open_library, tmp_path):
    library = open_library(Costly())
    made = make_collection(tmp_path / "other", "cm__claude-mem", 8)
    made.queue(ADD, "obs_1_narrative", np.ones(8))
    assert reuse(library, made.store, texts_of(library)) == 0


@pytest.mark.parametrize(
    ("stamp", "same"),
    [
        (ONNX, True),
        (Stamp("openai", "sentence-transformers/all-MiniLM-L6-v2", 384), True),
        (Stamp("ollama", "all-minilm:latest", 384), True),
        # It has twelve layers
        (Stamp("ollama", "all-minilm:33m", 384), False),
        (Stamp("openai", "all-MiniLM-L12-v2", 384), False),
        (Stamp("openai", "all-MiniLM-L6-v2", 256), False),
        (Stamp("openai", "all-MiniLM-L6-v2", 384, "multilingual-e5"), False),
        (Stamp("local", "cortex-static", 256), False),
    ],
)
def test_the_same_model_is_known_by_its_name_size_and_prefix(stamp, same):
    assert is_same(stamp) is same
