"""Costly embedders: run in the background, paid for once, searched when complete."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from cortex.base.errors import NetworkError
from cortex.base.settings import load
from cortex.base.types import Cancel, Mode, Note, Query, Stamp
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.embedders import EmbedMode
from cortex.engine.embedders.circuit_breaker import CircuitBreaker, Embedders
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine

DEADLINE = 20.0
LAMP = 'def switch_lamp(state):\n    """Turn the lamp on or off."""\n    return not state\n'
DESK = "class Desk:\n    def drawers(self):\n        return 3\n"
Open = Callable[..., Engine]


class CostlyEmbedder(HashingEmbedder):
    """An embedder that counts its texts, and fails or waits on request."""

    def __init__(self, model: str = "costly", dimensions: int = 32) -> None:
        super().__init__(dimensions)
        self.costly = True
        self.stamp = Stamp("test", model, dimensions)
        self.paid: list[str] = []
        self.fails = False
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Event()
        self.closed = threading.Event()

    def connect(self) -> Stamp:
        self._answer()
        return self.stamp

    def embed(self, texts: Sequence[str], mode: EmbedMode) -> np.ndarray:
        self._answer()
        if mode == "passage":
            while not self.gate.wait(0.01):
                self.waiting.set()
                if self.closed.is_set():
                    raise NetworkError("EMBEDDER_UNAVAILABLE", "the embedder was closed")
            self.paid += texts
        return super().embed(texts, mode)

    def close(self) -> None:
        self.closed.set()

    def _answer(self) -> None:
        if self.fails:
            raise NetworkError("EMBEDDER_UNAVAILABLE", "no answer from the test")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    write(folder, {"pyproject.toml": "[project]\n", "src/lamp.py": LAMP, "src/desk.py": DESK})
    return folder


@pytest.fixture
def open_engine(root: Path, tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as opened:

        def open_one(embedder=None, standby=None, earlier=None, **flags: object) -> Engine:
            def open_earlier(stamp: Stamp):
                return earlier if earlier is not None and earlier.stamp == stamp else None

            named = {name.replace("__", "."): value for name, value in flags.items()}
            settings = load(
                root,
                environment={"CORTEX_HOME": str(tmp_path / "home")},
                flags={"indexing.workers": 1, **named},
                user_home=tmp_path,
            )
            embedders = Embedders(embedder, lambda: standby, open_earlier)
            return opened.enter_context(Engine(root, settings, embedders=embedders))

        yield open_one


@pytest.fixture
def keep() -> Iterator[Callable[[Engine], AutoIndexer]]:
    with ExitStack() as opened:

        def keep_one(engine: Engine) -> AutoIndexer:
            keeper = AutoIndexer(engine)
            opened.callback(keeper.close)
            return keeper

        yield keep_one


def write(root: Path, texts: dict[str, str]) -> None:
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def embed(engine: Engine) -> bool:
    return engine.embedding.embed(cancel=Cancel())


def state_of(engine: Engine):
    state = engine.vitals().embedding
    assert state is not None
    return state


def sets(engine: Engine) -> list[str]:
    """The embedders that have vectors on disk."""
    return sorted(
        f"{manifest.stamp.provider} {manifest.stamp.model}"
        for manifest in engine.store.indexes.sets.on_disk()
        if manifest
    )


def chunks(engine: Engine) -> set[int]:
    lookup = engine.store.content
    return {chunk for doc in lookup.docs(engine.source.id) for chunk, _ in lookup.chunks(doc.blob)}


def test_cheap_embedder_answers_and_no_run_calls_the_costly_one(open_engine):
    costly = CostlyEmbedder()
    engine = open_engine(costly, HashingEmbedder())
    engine.index()
    assert costly.paid == []
    page = engine.search(Query("switch lamp"))
    assert (page.mode, page.hits[0].path) == (Mode.HYBRID, "src/lamp.py")
    assert any("hashing words" in note and "test costly" in note for note in page.notes)
    state = state_of(engine)
    assert (state.answering, state.share, state.costly) == ("hashing words", 0.0, True)


def test_complete_costly_vectors_answer_and_replace_the_cheap_ones(open_engine):
    costly = CostlyEmbedder()
    engine = open_engine(costly, HashingEmbedder())
    engine.index()
    assert embed(engine)
    page = engine.search(Query("switch lamp", mode=Mode.MEANING))
    assert (page.mode, page.hits[0].path, page.notes) == (Mode.MEANING, "src/lamp.py", ())
    state = state_of(engine)
    assert (state.answering, state.share, state.problem) == ("test costly", 1.0, "")
    assert (sets(engine), engine.store.check()) == (["test costly"], [])


def test_words_answer_until_all_is_embedded_without_a_cheap_embedder(open_engine):
    engine = open_engine(CostlyEmbedder())
    engine.index()
    page = engine.search(Query("switch lamp"))
    assert (page.mode, page.hits[0].path) == (Mode.WORDS, "src/lamp.py")
    assert any("embedded by test costly" in note for note in page.notes)


def test_auto_indexer_embeds_in_the_background_and_follows_later_saves(
    open_engine, keep, root, until
):
    costly = CostlyEmbedder()
    engine = open_engine(costly)
    keep(engine)
    until(lambda: state_of(engine).answering == "test costly")
    write(root, {"src/chair.py": "def sit_down():\n    return 'chair'\n"})
    until(
        lambda: (
            [hit.path for hit in engine.search(Query("sit down chair", mode=Mode.MEANING)).hits][:1]
            == ["src/chair.py"]
        )
    )
    assert len(costly.paid) == len(set(costly.paid))


def test_the_most_useful_files_are_embedded_first(open_engine, root):
    old = "def old_code():\n    return 1\n"
    write(
        root,
        {
            "tests/test_lamp.py": "def test_it():\n    pass\n",
            "vendor/big.py": "def vendored():\n    pass\n",
        },
    )
    write(root, {"README.md": "# About\n\nAll of it.\n", "src/old.py": old})
    os.utime(root / "src/old.py", (1, 1))
    costly = CostlyEmbedder()
    engine = open_engine(costly)
    engine.index()
    embed(engine)
    order = [
        next(number for number, text in enumerate(costly.paid) if word in text)
        for word in ("switch_lamp", "old_code", "About", "test_it", "vendored")
    ]
    assert order == sorted(order)


def test_same_text_is_never_paid_for_twice(open_engine, root):
    costly = CostlyEmbedder()
    engine = open_engine(costly, HashingEmbedder())
    many = "\n\n\n".join(
        f"def function_{number}():\n    return {[number] * 200}\n" for number in range(6)
    )
    write(root, {"src/many.py": many})
    engine.index()
    embed(engine)
    before = len(costly.paid)
    write(root, {"src/copy.py": LAMP, "src/many.py": many.replace("function_3", "another_name")})
    engine.index()
    embed(engine)
    (new,) = costly.paid[before:]
    assert "another_name" in new
    write(root, {"src/many.py": many})  # as after a switch of branches
    engine.index()
    assert state_of(engine).share == 1.0
    engine.index(force=True)
    assert embed(engine)
    assert len(costly.paid) == before + 1
    assert set(engine.store.indexes.vectors(costly.stamp).ids().tolist()) == chunks(engine)


def test_restart_continues_embedding_where_it_stopped(open_engine, root):
    write(
        root,
        {
            f"src/f{number}.py": f"def function_{number}():\n    return {number}\n"
            for number in range(60)
        },
    )
    first = CostlyEmbedder()
    engine = open_engine(first, HashingEmbedder())
    engine.index()
    cancel = Cancel()
    assert not engine.embedding.embed(progress=lambda step: cancel.cancel(), cancel=cancel)
    assert 0 < len(first.paid) < 60
    assert 0 < state_of(engine).share < 1
    assert state_of(engine).answering == "hashing words"
    engine.close()
    second = CostlyEmbedder()
    again = open_engine(second, HashingEmbedder())
    assert embed(again) is False  # whose lease it is decides
    assert again.holds_lease()
    assert embed(again)
    assert set(first.paid).isdisjoint(second.paid)
    assert state_of(again).share == 1.0


def test_missing_vector_after_completion_keeps_the_others_in_use(open_engine, root):
    costly = CostlyEmbedder()
    engine = open_engine(costly, HashingEmbedder())
    engine.index()
    embed(engine)
    write(root, {"src/chair.py": "def sit_down():\n    return 'chair'\n"})
    engine.index()
    page = engine.search(Query("switch lamp"))
    assert (page.mode, page.notes) == (Mode.HYBRID, ())
    assert (state_of(engine).answering, 0.5 < state_of(engine).share < 1) == ("test costly", True)
    assert engine.store.check() == []


def test_cheap_vectors_answer_again_when_most_costly_ones_are_missing(open_engine, root):
    costly = CostlyEmbedder()
    engine = open_engine(costly, HashingEmbedder())
    engine.index()
    embed(engine)
    write(
        root,
        {
            f"src/f{number}.py": f"def function_{number}():\n    return {number}\n"
            for number in range(30)
        },
    )
    engine.index()
    cancel = Cancel()
    engine.embedding.embed(progress=lambda step: cancel.cancel(), cancel=cancel)
    assert state_of(engine).answering == "hashing words"
    embed(engine)
    assert (state_of(engine).answering, sets(engine)) == ("test costly", ["test costly"])


def test_second_model_is_kept_beside_the_first_and_going_back_costs_nothing(open_engine):
    first, second = CostlyEmbedder("first"), CostlyEmbedder("second", 64)
    engine = open_engine(first, HashingEmbedder())
    engine.index()
    embed(engine)
    engine.close()
    engine = open_engine(second, HashingEmbedder())
    engine.index()
    assert sets(engine) == ["hashing words", "test first", "test second"]
    assert state_of(engine).answering == "hashing words"
    embed(engine)
    assert (sets(engine), state_of(engine).answering) == (["test second"], "test second")
    engine.close()
    back = CostlyEmbedder("first")
    engine = open_engine(back, HashingEmbedder())
    engine.index()
    embed(engine)
    assert (back.paid, state_of(engine).answering, sets(engine)) == (
        [],
        "test first",
        ["test first"],
    )


def test_the_earlier_model_answers_until_the_new_one_has_embedded_everything(open_engine, root):
    earlier, wanted = CostlyEmbedder("earlier"), CostlyEmbedder("wanted", 64)
    engine = open_engine(earlier)
    engine.index()
    embed(engine)
    engine.close()
    engine = open_engine(wanted, HashingEmbedder(), earlier)
    assert state_of(engine).answering == "test earlier"
    write(root, {"src/chair.py": "def sit_down():\n    return 'chair'\n"})
    engine.index()
    page = engine.search(Query("switch lamp", mode=Mode.MEANING))
    assert (page.mode, page.hits[0].path, "test earlier" in page.notes[0]) == (
        Mode.MEANING,
        "src/lamp.py",
        True,
    )
    assert sets(engine) == ["test earlier", "test wanted"]  # the cheap one isn't needed
    assert engine.store.check() == []
    earlier.fails = True
    assert engine.search(Query("switch the lamp")).mode is Mode.WORDS
    engine.embedding.catch_up()
    assert state_of(engine).answering == "hashing words"
    embed(engine)
    assert (state_of(engine).answering, sets(engine)) == ("test wanted", ["test wanted"])


def test_query_that_cannot_be_embedded_is_answered_by_words_and_not_cached(open_engine):
    costly = CostlyEmbedder()
    engine = open_engine(costly, HashingEmbedder())
    engine.index()
    embed(engine)
    costly.fails = True
    page = engine.search(Query("switch lamp"))
    assert (page.mode, page.hits[0].path, page.cached) == (Mode.WORDS, "src/lamp.py", False)
    assert any("no answer from the test" in note for note in page.notes)
    assert state_of(engine).problem == "no answer from the test"
    costly.fails = False
    engine.embedding._embedders.wanted._rests_until = 0.0  # some time later
    page = engine.search(Query("switch lamp"))
    assert (page.mode, page.cached) == (Mode.HYBRID, False)


def test_failed_background_embedding_is_retried_later(open_engine, keep, until):
    costly = CostlyEmbedder()
    costly.fails = True
    engine = open_engine(costly, HashingEmbedder())
    keep(engine)
    until(
        lambda: state_of(engine).problem == "no answer from the test" and state_of(engine).answering
    )
    assert engine.search(Query("switch lamp")).mode is Mode.HYBRID
    costly.fails = False
    engine.embedding._embedders.wanted._rests_until = 0.0
    until(lambda: state_of(engine).answering == "test costly")
    assert state_of(engine).problem == ""


def test_texts_beyond_the_vector_limit_are_not_paid_for(open_engine):
    costly = CostlyEmbedder(dimensions=256)
    engine = open_engine(costly, HashingEmbedder(8), limits__memory__embeddings=200)
    engine.index()
    assert not embed(engine)
    assert costly.paid == []
    assert "limits.memory.embeddings" in state_of(engine).problem


def test_closing_does_not_wait_for_a_batch_under_way(open_engine, keep, until):
    costly = CostlyEmbedder()
    costly.gate.clear()
    engine = open_engine(costly, HashingEmbedder())
    keeper = keep(engine)
    assert costly.waiting.wait(DEADLINE)
    assert engine.search(Query("switch lamp")).mode is Mode.HYBRID  # it holds nobody up
    keeper.close()
    engine.embedding.stop()
    costly.close()  # who lends an embedder closes it
    engine.close()
    assert not engine.embedding._thread.is_alive()


def test_embedder_closed_on_purpose_is_not_reported(open_engine, keep, until, caplog):
    class Waited(CostlyEmbedder):
        def close(self) -> None:
            super().close()
            until(lambda: not engine.embedding.working)

    first, second = Waited("first"), Waited("second")
    engine = open_engine(first)
    first.gate.clear()
    second.gate.clear()
    keeper = keep(engine)
    assert first.waiting.wait(DEADLINE)
    engine.embedders = Embedders(second)
    engine.embedding.use(engine.embedders)  # as after a change of settings
    first.close()
    assert second.waiting.wait(DEADLINE)
    keeper.close()
    engine._lent_embedders = False  # it closes the one that it has
    engine.close()
    assert second.closed.is_set()
    assert "embedding stopped" not in caplog.text


def test_embedder_that_failed_a_query_gets_no_passages_until_its_rest_ends(open_engine, root):
    write(
        root,
        {
            f"src/f{number}.py": f"def function_{number}():\n    return {number}\n"
            for number in range(60)
        },
    )
    costly = CostlyEmbedder()
    engine = open_engine(costly)
    engine.index()
    wanted = engine.embedding._embedders.wanted

    def fail(step: object) -> None:
        costly.fails = True
        with pytest.raises(NetworkError):
            wanted.query("?")
        costly.fails = False

    assert not engine.embedding.embed(progress=fail, cancel=Cancel())
    assert (wanted.rests, len(costly.paid)) == (True, 16)


def test_success_begun_before_a_failure_does_not_end_the_rest():
    costly = CostlyEmbedder()
    guarded = CircuitBreaker(costly)
    costly.gate.clear()
    passages = threading.Thread(target=lambda: guarded.passages(["a"]))
    passages.start()
    assert costly.waiting.wait(DEADLINE)
    costly.fails = True
    with pytest.raises(NetworkError):
        guarded.query("?")
    costly.fails = False
    costly.gate.set()
    passages.join(DEADLINE)
    assert (len(costly.paid), guarded.rests, guarded.problem) == (
        1,
        True,
        "no answer from the test",
    )
    guarded.query("?")
    assert (guarded.rests, guarded.problem) == (False, "")


def test_rest_of_an_embedder_grows_with_each_failure_despite_connecting():
    costly = CostlyEmbedder()
    guarded, rests = CircuitBreaker(costly), []
    for _ in range(3):
        costly.fails = False
        guarded.connect()  # it is connected already
        costly.fails = True
        with pytest.raises(NetworkError):
            guarded.passages(["a"])
        rests.append(round(guarded._rests_until - time.monotonic()))
    assert rests == [5, 10, 20]


def test_search_during_embedding_counts_no_chunks_and_loads_no_new_vectors(open_engine, root):
    write(
        root,
        {
            f"src/f{number}.py": f"def function_{number}():\n    return {number}\n"
            for number in range(60)
        },
    )
    engine = open_engine(CostlyEmbedder(), HashingEmbedder())
    engine.index()
    cancel = Cancel()
    engine.embedding.embed(progress=lambda step: cancel.cancel(), cancel=cancel)
    costly = CostlyEmbedder()
    reader = open_engine(costly, HashingEmbedder())
    reader.search(Query("desk"))
    said: list[str] = []
    with reader.store.indexes.sets._connections.read() as connection:  # the only one that is open
        connection.set_trace_callback(said.append)
    page = reader.search(Query("switch lamp"))
    assert (page.mode, len(page.notes), len(said) > 3) == (Mode.HYBRID, 1, True)
    assert "not everything is embedded by test costly yet" in page.notes[0]
    assert [line for line in said if "FROM blobs WHERE EXISTS" in line] == []
    assert reader.store.indexes.vectors(costly.stamp)._view.folded == 0
    assert 0 < state_of(reader).share < 1


def test_reader_searches_vectors_of_the_lease_holder(open_engine):
    holder, reader = CostlyEmbedder(), CostlyEmbedder()
    engine = open_engine(holder)
    engine.index()
    other = open_engine(reader)
    assert other.search(Query("switch lamp")).mode is Mode.WORDS
    embed(engine)
    page = other.search(Query("switch lamp"))
    assert (page.mode, page.cached, reader.paid) == (Mode.HYBRID, False, [])


def test_forgotten_text_leaves_no_vector(open_engine):
    engine = open_engine(CostlyEmbedder())
    engine.index()
    (doc,) = engine.put([Note("notes", "a.md", "the cat sleeps\n")])
    embed(engine)

    def count() -> int:
        return sum(vectors for _, _, vectors in engine.store.paid.models())

    before = count()
    engine.forget([doc])
    assert count() == before - 1


def test_unused_models_are_dropped_after_a_while(open_engine):
    engine = open_engine(CostlyEmbedder("first"))
    engine.index()
    embed(engine)
    engine.close()
    engine = open_engine(CostlyEmbedder("second"))
    engine.index()
    embed(engine)
    engine.embedding.sweep(2**40)
    assert [stamp.model for stamp, _, _ in engine.store.paid.models()] == ["second"]


def test_vectors_of_removed_texts_are_removed(open_engine, root):
    engine = open_engine(CostlyEmbedder())
    engine.index()
    embed(engine)
    (root / "src/desk.py").unlink()
    engine.index()
    ((_, _, before),) = engine.store.paid.models()
    engine.store.content.sweep(2**40)
    engine.embedding.sweep(0)
    ((_, _, after),) = engine.store.paid.models()
    assert 0 < after < before
