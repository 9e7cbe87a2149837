"""Search in memories: filters, order, and rows that aren't copied yet."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.base.errors import InputError
from cortex.base.types import Memory, MemoryState
from cortex.engine.library import Library
from cortex.engine.store import OWN
from cortex.families.memory import mirror, search
from cortex.families.memory.curation import judge, supersede
from cortex.families.memory.file_import import ImportedMemory
from cortex.families.memory.writer import add, add_all
from families.memory.adapters.claude_mem_databases import make_claude_mem
from families.memory.libraries import (
    CancelAfter,
    ask,
    copy,
    database,
    hold,
    one_of,
    open_library,
    settings_of,
    titles,
)

DAY = 86_400_000
NOW = int(time.time() * 1000)


@pytest.fixture
def library(isolated) -> Iterator[Library]:
    with open_library(settings_of(isolated.cortex)) as opened:
        yield opened


def keep(
    library: Library, title: str, state: MemoryState = MemoryState.APPROVED, **parts: object
) -> str:
    return add(library, Memory("", title, **parts), state=state).key  # type: ignore[arg-type]


@pytest.fixture
def fruit(library) -> Library:
    keep(
        library,
        "Apples keep in the cellar",
        project="orchard",
        concepts=("storage", "Apple"),
        created=NOW - 3 * DAY,
    )
    keep(
        library,
        "Pears bruise in the cart",
        project="market",
        concepts=("storage",),
        created=NOW - 2 * DAY,
    )
    keep(
        library,
        "Plums are dried in August",
        MemoryState.STAGING,
        project="orchard",
        created=NOW - DAY,
    )
    key = keep(
        library,
        "Cherries go first to the birds",
        project="hedge",
        concepts=("birds",),
        created=NOW - 4 * DAY,
    )
    judge(library, [one_of(library, key)], "promote")
    return library


# -- filters
# ---------------------------------------------------------------------------------------------------


def test_newest_memories_come_first_without_a_query(fruit):
    found = ask(fruit, limit=2)
    assert [title.split()[0] for title in titles(found)] == ["Pears", "Apples"] and found.total == 3
    rest = ask(fruit, limit=2, offset=2)
    assert [title.split()[0] for title in titles(rest)] == ["Cherries"] and rest.total == 3


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("approved", "Pears Apples Cherries"),
        ("staging", "Plums"),
        ("all", "Plums Pears Apples Cherries"),
    ],
)
def test_status_selects_the_memories_that_answer(fruit, status, expected):
    found = ask(fruit, status=status)
    assert " ".join(title.split()[0] for title in titles(found)) == expected
    assert [hit.shown for hit in found.hits] == [
        not title.startswith("Plums") for title in titles(found)
    ]


@pytest.mark.parametrize("query", ["", "plums dried in August"])
@pytest.mark.parametrize("status", ["approved", "staging", "all"])
def test_rejected_or_superseded_memory_never_answers(library, query, status):
    first = keep(library, "Plums are dried in August", created=1)
    second = keep(library, "Plums are dried in September", created=2)
    third = keep(library, "Plums are dried on the roof in August", created=3)
    judge(library, [one_of(library, first)], "reject")
    supersede(library, one_of(library, second), one_of(library, third))
    expected = [] if status == "staging" else ["Plums are dried on the roof in August"]
    assert titles(ask(library, query, status=status)) == expected


@pytest.mark.parametrize("query", ["", "storage in the cellar or the cart of the birds"])
@pytest.mark.parametrize(
    ("narrow", "expected"),
    [
        ({"tags": ("STORAGE",)}, {"Apples", "Pears"}),
        ({"tags": ("storage", "apple")}, {"Apples"}),
        ({"tags": ("storage", "birds")}, set()),
        ({"tags": ("", " ", "birds")}, {"Cherries"}),
        ({"project": "Orchard"}, {"Apples", "Cherries"}),
        ({"scope": "market"}, {"Pears", "Cherries"}),
        ({"project": "nowhere"}, {"Cherries"}),
        ({"project": "market", "tags": ("storage",)}, {"Pears"}),
    ],
)
def test_filters_narrow_with_and_without_a_query(fruit, query, narrow, expected):
    found = ask(fruit, query, **narrow)
    assert {title.split()[0] for title in titles(found)} == expected and found.total == len(
        expected
    )


def test_query_words_rank_the_results(fruit):
    assert titles(ask(fruit, "what bruises pears"))[0].startswith("Pears")
    assert ask(fruit, "what bruises pears").hits[0].relevance > 0
    assert titles(ask(fruit, "xylophone")) == [] and ask(fruit, "xylophone").total == 0


def test_blank_query_gives_the_newest(fruit):
    assert titles(ask(fruit, "  \n")) == titles(ask(fruit))


def test_a_query_that_is_too_long_is_refused(fruit):
    with pytest.raises(InputError) as error:
        ask(fruit, "x" * 1_000_000)
    assert error.value.code.startswith("QUERY_")


# -- the order
# ---------------------------------------------------------------------------------------------------------


def test_newer_or_nearer_memory_ranks_first_among_similar_ones(library):
    keep(library, "Deploys need the blue token first", project="shop", created=NOW - 900 * DAY)
    keep(library, "Deploys need the blue token second", project="site", created=NOW)
    assert titles(ask(library, "deploys blue token"))[0].endswith("second")
    assert titles(ask(library, "deploys blue token", near=("shop",)))[0].endswith("first")
    assert titles(ask(library, "deploys blue token", near=("SHOP",)))[0].endswith("first")


def test_old_memory_is_still_found(library):
    keep(library, "The zebra crossing was painted", created=1)
    for number in range(30):
        keep(library, f"Lamp {number} was painted", created=NOW - number)
    found = ask(library, "zebra crossing painted")
    assert titles(found)[0] == "The zebra crossing was painted"
    assert len(titles(ask(library, limit=50))) == 31


def test_approved_memory_ranks_before_a_similar_one_in_staging(library):
    keep(library, "Deploys need the blue token of staging", MemoryState.STAGING, created=NOW)
    keep(library, "Deploys need the blue token of people", created=NOW - 100 * DAY)
    assert titles(ask(library, "deploys blue token", status="all"))[0].endswith("people")


def test_long_memory_is_one_result(library):
    keep(
        library,
        "A long story",
        text="\n\n".join(f"## Part {n}\n\n" + "The zebra walked on. " * 60 for n in range(12)),
    )
    keep(library, "A short one", text="The zebra stood.")
    found = ask(library, "zebra")
    assert sorted(titles(found)) == ["A long story", "A short one"] and found.total == 2


def test_pages_of_a_query_join_to_the_whole_answer(library):
    add_all(
        library,
        (ImportedMemory(Memory("", f"Lamp {n} is blue", created=NOW - n)) for n in range(40)),
        state=MemoryState.APPROVED,
    )
    whole = titles(ask(library, "blue lamp", limit=40))
    pages = [
        title
        for offset in range(0, 40, 7)
        for title in titles(ask(library, "blue lamp", limit=7, offset=offset))
    ]
    assert pages == whole == titles(ask(library, "blue lamp", limit=40)) and len(set(whole)) == 40


# -- uncopied rows
# --------------------------------------------------------------------------------------------


@pytest.fixture
def large(library, isolated, monkeypatch) -> Library:
    """A library with an uncopied database, because another process holds the lease."""
    made = make_claude_mem(isolated.user / ".claude-mem" / "claude-mem.db")
    made.many(2_000)
    made.observation(
        made.session("last", "shop"),
        "Zebras count coins",
        "shop",
        concepts=["zebra", "coin"],
        created_at_epoch=NOW,
    )
    made.close()
    # A busy machine reads fewer rows in less
    monkeypatch.setattr(search, "GLANCE_SECONDS", 10.0)
    with open_library(library.settings) as other:
        hold(other)
        yield library


def test_uncopied_rows_answer_by_plain_words_with_a_note(large):
    found = ask(large, "count the zebras")
    assert (
        titles(found)[0] == "Zebras count coins"
        and found.hits[0].record.state is None
        and found.hits[0].shown
    )
    assert "are being indexed" in found.notes[-1] and "2,001 rows" in found.notes[-1]


def test_filters_narrow_uncopied_rows(large):
    assert titles(ask(large, tags=("ZEBRA", "coin"))) == ["Zebras count coins"]
    assert (
        titles(ask(large, "zebra", project="ack"))
        == titles(ask(large, "zebra", status="staging"))
        == []
    )
    assert titles(ask(large, limit=1)) == ["Zebras count coins"]
    assert len(ask(large, "login", scope="Shop", limit=50).hits) == 50


def test_copied_and_uncopied_rows_answer_together(library, isolated, monkeypatch):
    monkeypatch.setattr(mirror, "BATCH", 2)
    database(
        isolated.user / ".claude-mem", "Zebra one", "Zebra two", "Zebra three", "Zebra four"
    ).close()
    keep(library, "Zebra of our own", created=NOW)
    mirror.sync(library, cancel=CancelAfter(0))
    assert len(library.store.memories.mirrors()) == 1 and mirror.copied(library).left == 2
    found = ask(library, "zebra")
    assert sorted(titles(found)) == [
        "Zebra four",
        "Zebra of our own",
        "Zebra one",
        "Zebra three",
        "Zebra two",
    ]
    assert len({hit.record.ref for hit in found.hits}) == 5
    copy(library)
    found = ask(library, "zebra")
    assert not any("indexed" in note for note in found.notes) and len(found.hits) == 5


def test_uncurated_setting_applies_to_uncopied_rows(isolated):
    database(isolated.user / ".claude-mem", "Zebra one").close()
    with (
        open_library(settings_of(isolated.cortex, {"memory.uncurated": "staging"})) as library,
        open_library(library.settings) as other,
    ):
        hold(other)
        assert titles(ask(library, "zebra")) == [] and titles(
            ask(library, "zebra", status="all")
        ) == ["Zebra one"]
        assert [hit.shown for hit in ask(library, status="staging").hits] == [False]


def test_search_waits_only_briefly_for_new_rows(library, isolated):
    made = database(isolated.user / ".claude-mem", "Apples")
    copy(library)
    made.observation("own-s1", "Pears")
    started = time.monotonic()
    # No process copies
    found = ask(library)
    assert time.monotonic() - started < 3 and titles(found) == ["Apples"]
    copy(library)
    assert sorted(titles(ask(library))) == ["Apples", "Pears"]
    made.close()


def test_own_memories_answer_without_a_database(library):
    keep(library, "Lamps are blue")
    assert titles(ask(library, "lamp")) == ["Lamps are blue"] and ask(library).present == ()
    assert [hit.record.origin for hit in ask(library).hits] == [OWN]


def test_read_only_library_answers(fruit, isolated):
    with open_library(fruit.settings, read_only=True) as reader:
        assert titles(ask(reader, "what bruises pears"))[0].startswith("Pears")


@pytest.mark.skipif(os.name == "nt", reason="a file that is open can't be moved there")
def test_vanished_database_gives_no_answers(library, isolated, tmp_path: Path):
    database(isolated.user / ".claude-mem", "Apples").close()
    copy(library)
    os.rename(isolated.user / ".claude-mem", tmp_path / "aside")
    assert titles(ask(library, "apples")) == titles(ask(library)) == []
