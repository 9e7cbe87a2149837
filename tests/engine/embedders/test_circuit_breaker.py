"""A dead server that had embedded everything: answers by words, and one wait only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cortex.base.settings import load
from cortex.base.types import Cancel, Mode, Page, Query
from cortex.engine import embedders
from cortex.engine.embedders import remote
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.embedders.remote import RemoteEmbedder, RemoteModel
from cortex.engine.embedders.server_client import EmbeddingServer
from cortex.engine.engine import Engine
from engine.embedders.stub import Reply, Stub, embeddings

WAIT = 0.5


@pytest.fixture
def open_engine(tmp_path: Path, stub: Stub) -> Iterator[Callable[[], Engine]]:
    root = tmp_path / "work"
    root.mkdir()
    (root / "lamp.py").write_text(
        "def switch_lamp(state):\n    return not state\n", encoding="utf-8"
    )
    settings = load(
        root, environment={"CORTEX_HOME": str(tmp_path / "home")}, flags={"indexing.workers": 1}
    )
    with ExitStack() as opened:

        def open_one() -> Engine:
            asked = RemoteEmbedder(
                EmbeddingServer("openai", f"{stub.url}/v1", timeout=20.0), RemoteModel("small")
            )
            return opened.enter_context(
                Engine(root, settings, embedders=Embedders(asked, HashingEmbedder))
            )

        yield open_one


def timed(engine: Engine, text: str) -> tuple[Page, float]:
    started = time.monotonic()
    page = engine.search(Query(text))
    return page, time.monotonic() - started


def test_first_query_to_a_dead_server_waits_and_later_queries_do_not(
    open_engine: Callable[[], Engine], stub: Stub, monkeypatch
) -> None:
    assert embedders.QUERY_SECONDS == remote.QUERY_SECONDS == 5.0
    engine = open_engine()
    engine.index()
    assert engine.embedding.embed(cancel=Cancel())
    assert timed(engine, "switch lamp")[0].mode is Mode.HYBRID
    monkeypatch.setattr(remote, "QUERY_SECONDS", WAIT)
    over = threading.Event()
    stub.answer = lambda asked: embeddings(asked) if over.wait(20) else Reply()
    try:
        # The other has never reached it
        for asking, name in ((engine, "openai small"), (open_engine(), "openai")):
            page, took = timed(asking, "lamp")
            assert (page.mode, page.hits[0].path, WAIT <= took < WAIT + 4) == (
                Mode.WORDS,
                "lamp.py",
                True,
            )
            (note,) = page.notes
            assert note.startswith(
                f"answered by words: {name} can't be asked now (openai at {stub.url}/v1 did not answer"
            )
            asked = len(stub.asked)
            for text in ("switch the lamp", "state", "lamp"):
                page, took = timed(asking, text)
                assert (page.mode, page.notes, took < WAIT, len(stub.asked)) == (
                    Mode.WORDS,
                    (note,),
                    True,
                    asked,
                )
    finally:
        over.set()
