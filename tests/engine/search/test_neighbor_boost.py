"""Memories in a search: the boost of neighbors, named speakers, and hidden memories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.base.settings import load
from cortex.base.types import Memory, MemoryState, Mode, Page, Query, Source
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.library import Library
from cortex.engine.search.query_classes import Corpus, QueryClass
from cortex.engine.search.query_parser import parse
from cortex.engine.search.weights import WEIGHTS, weights_of
from cortex.engine.store import OWN, SHOWN, STAGED, MemoryVerdict, NewMemory
from cortex.engine.store.memories.queries import MEMORIES
from cortex.families.memory.index_text import word

TALK = (
    "Ines: Good morning! Did the lighthouse get its new lamp?",
    "Bo: It came on Tuesday, on the small ferry, packed in straw.",
    "Ines: And who carried it up all those stairs?",
    "Bo: Nobody. We hoisted it with the old crane.",
    "Ines: I baked bread and forgot the salt.",
    "Bo: Then we eat it with cheese.",
    "Ines: The ferry is late again.",
)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    environment = {"CORTEX_HOME": str(tmp_path / "home"), "CORTEX_SEARCH_ENABLE_CACHING": "false"}
    with Library(load(tmp_path, environment=environment), embedder=HashingEmbedder()) as opened:
        assert opened.store.lease.take()
        yield opened


def remember(
    library: Library, *lines: str, session: str = "harbour", name: str = SHOWN, start: int = 1
) -> None:
    """Remember these lines, one memory each, in this order."""
    state = MemoryState.APPROVED if name == SHOWN else MemoryState.STAGING
    new = [
        NewMemory(
            Memory(
                f"{session}_{number}",
                line[:60],
                text=line,
                project="coast",
                session=session,
                created=number,
            ),
            name,
            state,
            scope="coast",
            fingerprint=f"{session}{number}".encode(),
            number=number,
        )
        for number, line in enumerate(lines, start)
    ]
    library.store.memories.add(new, word, actor="person")
    library.embedding.catch_up()


def sources(library: Library, *names: str) -> list[Source]:
    return library.store.memories.sources({OWN}, names or (SHOWN,))


def ask(library: Library, text: str, *names: str, mode: Mode = Mode.WORDS, **more: object) -> Page:
    return library.search(
        Query(text, mode=mode, limit=20, **more), sources=sources(library, *names)
    )  # type: ignore[arg-type]


def keys(page: Page) -> list[str]:
    return [hit.path for hit in page.hits]


@pytest.mark.parametrize("mode", [Mode.WORDS, Mode.HYBRID])
def test_answer_beside_a_question_is_found_by_the_question_s_words(library, mode):
    remember(library, *TALK)
    assert "harbour_2" in keys(ask(library, "new lamp of the lighthouse", mode=mode))[:2]
    assert "harbour_4" in keys(ask(library, "who carried it up the stairs", mode=mode))[:2]


def test_distant_memory_or_other_session_gets_no_boost(library):
    remember(library, *TALK)
    remember(library, "Bo: It came on Tuesday, too.", session="elsewhere")
    found = keys(ask(library, "new lamp of the lighthouse"))
    assert "harbour_2" in found
    assert "elsewhere_1" not in found
    assert "harbour_6" not in found


def test_neighbor_boost_is_in_the_explanation_and_the_reason(library):
    remember(library, *TALK)
    page = ask(library, "new lamp of the lighthouse", explain=True)
    first, second = page.hits[:2]
    assert dict(first.evidence)["words"] > 0
    assert dict(second.evidence)["neighbouring chunks"] > 0
    assert second.why == "neighbouring chunks"


def test_hidden_memory_boosts_no_neighbor(library):
    remember(library, TALK[0], name=STAGED)
    remember(library, *TALK[1:4], start=2)
    assert keys(ask(library, "lighthouse lamp")) == []
    assert keys(ask(library, "lighthouse lamp", SHOWN, STAGED))[:2] == ["harbour_1", "harbour_2"]


def test_deleted_or_rejected_memory_boosts_no_neighbor(library):
    remember(library, *TALK)
    verdict = MemoryVerdict((OWN, "harbour_3"), MemoryState.REJECTED, None)
    library.store.memories.decide([verdict], word, action="reject", actor="person", reason="")
    library.store.memories.delete([(OWN, "harbour_1")], actor="person")
    library.embedding.catch_up()
    assert keys(ask(library, "lighthouse lamp")) == []
    assert keys(ask(library, "carried up the stairs")) == []


def test_search_in_chosen_memories_returns_no_neighbor(library):
    remember(library, *TALK)
    (source,) = sources(library)
    asked = frozenset(
        doc.id
        for doc in library.store.content.docs(source.id)
        if doc.path in ("harbour_1", "harbour_7")
    )
    query = Query("lighthouse lamp", mode=Mode.WORDS)
    assert keys(library.search(query, sources=[source], docs=asked)) == ["harbour_1"]


def test_long_memory_boosts_its_neighbors_less(library):
    shares = []
    for number, more in enumerate(("", " and so it went on" * 100)):
        remember(
            library,
            "The lighthouse needs a lamp" + more,
            "It came on Tuesday.",
            session=f"s{number}",
        )
        remember(library, "Somebody else speaks of a lighthouse.", session=f"o{number}")
        hits = ask(library, "lighthouse lamp", explain=True).hits
        shares.append(
            dict(next(hit for hit in hits if hit.path == f"s{number}_2").evidence)[
                "neighbouring chunks"
            ]
        )
    assert 0 < shares[1] < shares[0] / 2


def test_speaker_named_in_the_query_comes_first(library):
    remember(library, "Ines: The crane was painted in spring.", session="a")
    remember(library, "Bo: The crane was painted in spring.", session="b")
    assert keys(ask(library, "what did Bo say of the crane that was painted")) == ["b_1", "a_1"]
    assert keys(ask(library, "what did Ines say of the crane that was painted")) == ["a_1", "b_1"]


def test_query_of_many_or_only_unknown_words_is_answered(library):
    remember(library, *TALK)
    assert keys(ask(library, " ".join(TALK)))
    assert keys(ask(library, "zxqv blorf")) == []


def test_repeated_query_has_the_same_answer_with_falling_relevance(library):
    remember(library, *TALK)
    for mode in (Mode.WORDS, Mode.HYBRID):
        page = ask(library, "lamp on the ferry", mode=mode)
        assert page == ask(library, "lamp on the ferry", mode=mode)
        values = [hit.relevance for hit in page.hits]
        assert values == sorted(values, reverse=True)
        assert [hit.score for hit in page.hits] == sorted(
            (hit.score for hit in page.hits), reverse=True
        )


def test_memories_have_weights_of_their_own():
    for query_class in QueryClass:
        weights = weights_of((query_class,), Corpus.MEMORIES)
        assert (weights.path, weights.stem, weights.coherence) == (0, 0, 0)
        assert weights.coverage > WEIGHTS[query_class].coverage
    assert "her" not in parse("what did she paint for her sister", corpus=Corpus.MEMORIES).weights
    assert "her" in parse("what did she paint for her sister").weights
    assert MEMORIES == Corpus.MEMORIES
