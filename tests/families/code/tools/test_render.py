"""Answers of the code tools keep to their budget and sum up workspaces."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.base.errors import InputError
from cortex.base.types import (
    Chunk,
    FileView,
    Freshness,
    Hit,
    Mode,
    Page,
    Skipped,
    StoreStats,
    Symbol,
)
from cortex.engine.search.federated import FederatedHit
from cortex.families.code.tools import render
from cortex.families.code.tools.render import (
    chunks_answer,
    file_answer,
    partial_first,
    search_answer,
    search_metadata,
)
from cortex.toolkit.pagination import dump

texts = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Z", "Cc"))
    | st.sampled_from('\n"\\\t\x01🦀'),
    max_size=3_000,
)


hits = st.builds(
    Hit,
    source=st.just(1),
    doc=st.just(1),
    chunk=st.integers(1, 10),
    path=st.text(st.sampled_from('abc/"é'), min_size=1, max_size=300),
    start_line=st.integers(1, 10_000),
    end_line=st.integers(1, 10_000),
    text=texts,
    score=st.just(1.0),
    relevance=st.floats(0, 1).map(lambda number: round(number, 4)),
    qualified=st.text(max_size=200),
    name=st.text(max_size=50),
    kind=st.sampled_from(["function", "class", "section", "block"]),
)


@settings(max_examples=150)
@given(
    st.lists(hits, max_size=30),
    st.integers(200, 6_000),
    st.lists(st.text(max_size=400), max_size=4),
    st.integers(0, 500),
    st.booleans(),
)
def test_no_search_answer_is_longer_than_its_budget(found, budget, notes, more, several):
    metadata = {
        "strategy": "tfidf",
        "executionTime": 12.3,
        "totalResults": len(found) + more,
        "notes": notes,
    }
    located = [FederatedHit("w" * 40, hit) for hit in found]
    try:
        body = search_answer(located, metadata, budget, several=several, offset=0, key="q")
    except InputError as error:
        # Not even one place fits, and it says how much is needed
        assert error.code == "BUDGET_TOO_SMALL"
        body = search_answer(
            located, metadata, error.context["needed"], several=several, offset=0, key="q"
        )
        assert body["results"]
        return
    assert len(dump(body)) <= budget * 4
    assert bool(body["results"]) == bool(found)
    assert ("cursor" in body["metadata"]) == (len(body["results"]) < len(found) + more)


views = st.builds(
    FileView,
    path=st.text(st.sampled_from("abc/é"), min_size=1, max_size=400),
    language=st.just("python"),
    size=st.just(1),
    modified=st.just(""),
    text=texts,
    chunks=st.lists(
        st.builds(
            Chunk,
            st.integers(0, 9),
            st.just(0),
            st.just(1),
            st.integers(1, 9),
            st.integers(1, 99),
            st.just("x"),
        )
    ).map(tuple),
    symbols=st.lists(
        st.builds(
            Symbol,
            st.just("n"),
            st.text(max_size=80),
            st.just("function"),
            st.integers(1, 9),
            st.integers(1, 99),
        )
    ).map(tuple),
)


@settings(max_examples=150)
@given(views, st.integers(200, 3_000), st.data())
def test_no_file_answer_is_longer_than_its_budget_and_all_lines_come(view, budget, data):
    lines = view.text.split("\n")
    total = max(1, len(lines) - (not lines[-1]))
    start = data.draw(st.integers(1, total))
    end = data.draw(st.integers(start, total))
    taken, at = [], start
    while True:
        try:
            body = file_answer(view, at, end, budget, "")
        except InputError as error:
            assert error.context["needed"] > budget
            return
        assert len(dump(body)) <= budget * 4
        taken.append(body)
        if "nextLine" not in body:
            break
        assert body["nextLine"] == body["endLine"] + 1 > at
        at = body["nextLine"]
    assert taken[-1]["endLine"] == end
    if (
        not any(part.get("truncated") and "nextLine" not in part for part in taken)
        and len(taken) == 1
    ):
        assert taken[0]["text"] == "\n".join(lines[start - 1 : end])


def test_notes_of_a_partial_answer_come_before_its_results():
    page = Page(
        (), 0, Mode.HYBRID, ("not read yet: 5,291 of 5,691 files; ask again",), is_partial=True
    )
    body = partial_first({"results": [], "metadata": search_metadata(page, 1.0, [])})
    assert dump(body).startswith('{"metadata":{"notes":["not read yet')


def test_a_chunk_larger_than_the_budget_comes_in_part():
    text = 'say "yes"\n' * 2_000
    chunks = (Chunk(0, 0, len(text), 1, 2_000, "block"), Chunk(1, 0, 4, 1, 1, "block"))
    view = FileView("wide.txt", "text", len(text), "", text, chunks, ())
    body = chunks_answer(view, None, 0, 500)
    assert [chunk.get("truncated") for chunk in body["chunks"]] == [True]
    assert len(dump(body)) <= 500 * 4 + 100
    assert chunks_answer(view, None, 1, 500)["chunks"][0]["text"] == "say "


def test_status_sums_all_workspaces_and_averages_the_searched_ones():
    asked = vitals(
        average_search_ms=8.0, cache_hit_rate=0.5, cache_bytes=2 << 10, disk_bytes=3 << 20
    )
    idle = vitals(skipped=(Skipped("a.png", "binary"),), cache_bytes=1 << 10, disk_bytes=1 << 20)
    parts = [
        render.status_answer(name, stats, render.About("/"))
        for name, stats in (("x", asked), ("y", idle))
    ]
    whole = render.sum_status(parts, [("x", asked), ("y", idle)])
    assert whole["cache"] == {
        "memoryUsage": "3.0KB",
        "diskUsage": "4.0MB",
        "hitRate": 0.5,
        "lastCleanup": None,
    }
    assert whole["skipped"] == {
        "total": 1,
        "byReason": {"binary": 1},
        "files": [{"file": "a.png", "reason": "binary", "workspace": "y"}],
    }
    performance = render.stats_answer([asked, idle], 0)["performance"]
    assert (performance["averageSearchTime"], performance["cacheHitRate"]) == (8.0, 0.5)


def vitals(**known):
    empty = {"skipped": (), "chunks": 0, "disk_bytes": 0}
    return StoreStats(Freshness("ready", 1.0, ""), False, 0, 0, 0, **{**empty, **known})
