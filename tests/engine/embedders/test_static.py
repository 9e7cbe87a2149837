"""The embedder that comes with the package: its words, its vectors, its limits."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.engine.embedders.static import MODEL, StaticEmbedder, WordVectors, parts_of, runs_of

GOLDEN = Path(__file__).with_name("static_golden.npy")
GOLDEN_TEXTS = (
    "how does the connection pool limit the number of open connections",
    "parseHTTPConfig",
    "def read_lines(path):\n    with open(path, encoding='utf-8') as file:\n        return file.read().splitlines()\n",
    "public static <T> Optional<T> firstOf(Collection<? extends T> values) { return values.stream().findFirst(); }",
    "Résumé: the café's naïve façade, httpclient and unmarshalling",
)
LARGEST_FILE = 8_000_000


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder()


def test_identifiers_are_cut_into_lower_case_words():
    assert [part for run in runs_of("parseHTTPConfig2 snake_case_name utf8") for part in parts_of(run)] == [
        "parse", "http", "config", "snake", "case", "name", "utf",
    ]  # fmt: skip


def test_accents_are_removed_from_words():
    assert runs_of("café naïve") == runs_of("cafe naive") == ["cafe", "naive"]


def test_an_unknown_word_is_cut_into_known_ones():
    words = WordVectors(["the", "http", "client", "clients", "lie"])
    assert words.cut("httpclient") == (1, 2)
    assert words.cut("httpclients") == (1, 3)
    assert words.cut("client") == (2,)
    assert words.cut("zzqqyy") == ()


def test_spellings_of_a_word_are_counted_together():
    words = WordVectors(["read", "line"])
    assert words.count("readLine READ_LINE read") == {0: 3, 1: 2}


def test_static_vectors_equal_those_of_the_release(embedder: StaticEmbedder):
    vectors = embedder.embed(GOLDEN_TEXTS, "passage")
    assert np.abs(vectors - np.load(GOLDEN)).max() < 1e-6


def test_static_stamp_names_the_model(embedder: StaticEmbedder):
    assert embedder.name == "static"
    assert embedder.stamp.provider == "local"
    assert embedder.stamp.model.startswith("cortex-static-")
    assert (
        embedder.stamp.dimensions
        == embedder.dimensions
        == embedder.embed(["a word"], "query").shape[1]
        == 256
    )


@given(texts=st.lists(st.text(max_size=200), max_size=5))
def test_every_text_has_a_vector_of_length_one_or_none_at_all(texts: list[str]):
    vectors = _shared().embed(texts, "passage")
    assert vectors.shape == (len(texts), 256)
    assert vectors.dtype == np.float32
    lengths = np.linalg.norm(vectors, axis=1)
    assert np.allclose(lengths[lengths > 0], 1.0, atol=1e-5)


def test_text_without_known_words_is_near_to_no_other(embedder: StaticEmbedder):
    assert not embedder.embed(["", "+++ {} ;;", "日本語"], "query").any()


def test_a_text_has_the_same_vector_alone_and_among_others(embedder: StaticEmbedder):
    alone = np.vstack([embedder.embed([text], "passage") for text in GOLDEN_TEXTS])
    assert np.array_equal(alone, embedder.embed(GOLDEN_TEXTS, "passage"))


def test_similar_texts_are_near_without_a_shared_word(embedder: StaticEmbedder):
    query = embedder.embed(["remove an entry from the dictionary"], "query")[0]
    right, wrong = embedder.embed(
        [
            "def pop(self, key):\n    del self._map[key]",
            "def connect(host, port):\n    return socket(host, port)",
        ],
        "passage",
    )
    assert query @ right > query @ wrong + 0.1


def test_model_file_is_small_enough_for_the_wheel():
    assert MODEL.stat().st_size <= LARGEST_FILE


def test_embedding_a_chunk_takes_less_than_a_millisecond(embedder: StaticEmbedder):
    chunk = "\n".join(
        f"    result_{number} = handler.process(value_{number}, timeout=settings.read_timeout)"
        for number in range(50)
    )
    embedder.embed([chunk], "passage")
    start = time.process_time()
    embedder.embed([chunk] * 200, "passage")
    assert time.process_time() - start < 0.2


def test_long_text_without_words_is_embedded_quickly(embedder: StaticEmbedder):
    start = time.process_time()
    embedder.embed(["a" * 1_000_000, "x " * 300_000, "é" * 100_000], "passage")
    assert time.process_time() - start < 2.0


_opened: list[StaticEmbedder] = []


def _shared() -> StaticEmbedder:
    if not _opened:
        _opened.append(StaticEmbedder())
    return _opened[0]
