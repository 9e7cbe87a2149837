import random
from dataclasses import replace

import pytest

from cortex.base.types import Cancel, Hit, Mode, Page, Query
from cortex.engine.search.federated import FederatedHit, SearchTarget, federated_search


def make_hit(
    path: str, relevance: float, *, source: int = 1, score: float = 1.0, text: str = "text"
) -> Hit:
    return Hit(source, 1, 1, path, 1, 2, text, score, relevance)


def make_place(
    family: str, name: str, *hits: Hit, notes: tuple[str, ...] = (), **more: object
) -> SearchTarget:
    def ask(query: Query, cancel: Cancel) -> Page:
        shown = hits[query.offset : query.offset + query.limit]
        return Page(shown, len(hits), Mode.HYBRID, notes, docs=len(hits), chunks=2)

    return SearchTarget(family, name, ask, **more)  # type: ignore[arg-type]


CODE = make_place(
    "code",
    "project",
    make_hit("a.py", 0.9, score=0.1),
    make_hit("b.py", 0.4, score=0.1),
    notes=("slow",),
)
DOCUMENTS = make_place(
    "kb",
    "documents",
    make_hit("guide.md", 0.8, source=7, score=9.0),
    make_hit("notes.md", 0.4, source=8, score=9.0),
    sources={7: "handbook", 8: "diary"},
)


def found(located: list[FederatedHit]) -> list[tuple[str, str, str]]:
    return [
        (located_hit.family, located_hit.source, located_hit.hit.path) for located_hit in located
    ]


def test_hits_of_several_sources_are_merged_by_relevance_not_score():
    located, page = federated_search([DOCUMENTS, CODE], Query("x"), Cancel())
    assert found(located) == [
        ("code", "project", "a.py"),
        ("kb", "handbook", "guide.md"),
        ("code", "project", "b.py"),
        ("kb", "diary", "notes.md"),
    ]
    assert (page.total, page.docs, page.chunks, page.notes) == (4, 4, 4, ("project: slow",))


def test_spread_lets_a_nearly_as_relevant_family_in():
    sure = make_place("code", "project", *(make_hit(f"{name}.py", 0.8) for name in "abcd"))
    nearly = make_place("team", "records", make_hit("thread", 0.76), make_hit("task", 0.5))
    assert [
        located_hit.hit.path
        for located_hit in federated_search([sure, nearly], Query("x"), Cancel())[0]
    ][:4] == ["a.py", "b.py", "c.py", "d.py"]
    spread, _ = federated_search([sure, nearly], Query("x"), Cancel(), spread=0.03)
    assert [located_hit.hit.path for located_hit in spread] == [
        "a.py",
        "b.py",
        "thread",
        "c.py",
        "d.py",
        "task",
    ]
    parts = [
        federated_search([sure, nearly], Query("x", limit=2, offset=at), Cancel(), spread=0.03)[0]
        for at in (0, 2, 4)
    ]
    assert [located_hit for part in parts for located_hit in part] == spread


def test_copies_of_a_file_are_shown_once_at_the_better_rank():
    code = make_place(
        "code", "project", make_hit("a.py", 0.9), make_hit("b.py", 0.5), make_hit("b.py", 0.3)
    )
    copied = {"chunk-a": "a.py", "chunk-b": "b.py", "chunk-c": "c.py", "far": "a.py"}
    whole_file = replace(make_hit("chunk-b", 0.8), start_line=0, end_line=0)
    far = replace(make_hit("far", 0.6), start_line=50, end_line=60)
    hits = (whole_file, make_hit("chunk-c", 0.7), far, make_hit("chunk-a", 0.4))
    chunks = make_place("chunks", "chunks", *hits, copy_of=lambda hit: copied[hit.path])
    located, page = federated_search([code, chunks], Query("x"), Cancel())
    assert [(located_hit.hit.path, located_hit.hit.relevance) for located_hit in located] == [
        ("a.py", 0.9), ("b.py", 0.5), ("chunk-c", 0.7), ("far", 0.6), ("b.py", 0.3),
    ]  # fmt: skip
    assert page.total == 5
    parts = [
        federated_search([code, chunks], Query("x", limit=2, offset=at), Cancel())[0]
        for at in (0, 2, 4)
    ]
    assert [located_hit for part in parts for located_hit in part] == located
    others = make_place("code", "other", make_hit("z.py", 0.1))
    assert len(federated_search([code, others, chunks], Query("x"), Cancel())[0]) == 8


def test_merged_hits_do_not_depend_on_the_order_of_sources():
    forth, back = ([CODE, DOCUMENTS], [DOCUMENTS, CODE])
    assert (
        federated_search(forth, Query("x"), Cancel())[0]
        == federated_search(back, Query("x"), Cancel())[0]
    )


def test_pages_of_a_merged_answer_have_no_gap_or_repetition():
    whole, _ = federated_search([CODE, DOCUMENTS], Query("x"), Cancel())
    parts = [
        federated_search([CODE, DOCUMENTS], Query("x", limit=1, offset=at), Cancel())[0]
        for at in range(5)
    ]
    assert [located_hit for part in parts for located_hit in part] == whole


@pytest.mark.parametrize("spread", [0.0, 0.03])
@pytest.mark.parametrize("size", [1, 3, 10])
def test_paging_meets_every_hit_once_in_the_order_of_each_source(spread, size):
    chance = random.Random(f"{spread} {size}")
    for number in range(20):
        places = [
            make_place(
                family,
                name,
                *(make_hit(f"{chance.random()}", chance.randrange(11) / 10) for _ in range(count)),
            )
            for family, name, count in (
                ("code", "a", 17),
                ("code", "b", number),
                ("kb", "c", 30),
                ("team", "d", 9),
            )
        ]
        total = 56 + number
        whole = federated_search(places, Query("x", limit=total), Cancel(), spread=spread)[0]
        met = [
            located_hit
            for at in range(0, total, size)
            for located_hit in federated_search(
                places, Query("x", limit=size, offset=at), Cancel(), spread=spread
            )[0]
        ]
        assert met == whole and len({located_hit.hit.path for located_hit in met}) == total
        for place in places:  # each in the order that its place gave them
            asked = [hit.path for hit in place.ask(Query("x", limit=total), Cancel()).hits]
            assert [
                located_hit.hit.path for located_hit in met if located_hit.hit.path in asked
            ] == asked


def test_hits_carry_text_until_the_budget_is_used():
    located, _ = federated_search([CODE, DOCUMENTS], Query("x", characters=5), Cancel())
    assert [located_hit.hit.text for located_hit in located] == ["text", "text", "", ""]


def test_single_source_is_answered_unchanged():
    located, page = federated_search([DOCUMENTS], Query("x", limit=1), Cancel())
    assert found(located) == [("kb", "handbook", "guide.md")]
    assert (len(page.hits), page.total) == (1, 2)
