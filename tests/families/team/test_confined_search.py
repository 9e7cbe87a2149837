"""Searches of a reader with limited access: hidden records leave no trace.

Not in hits, totals, snippets, notes or scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cortex.base.actors import person
from cortex.base.errors import InputError
from cortex.base.record_model import SENSITIVE, Body, Record, Subcortex, Thread
from cortex.base.settings import Settings
from cortex.base.types import Cancel, Mode, Query
from cortex.base.visibility import Viewer
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction, Store
from cortex.families.team.ids import fresh_key, new_id
from cortex.families.team.search import RecordQuery, find, page_of
from cortex.families.team.writes.transactions import perform

SECRET = "The zanzibar merger closes in May"


def open_shelved(home: Path, root: str, read_only: bool, _: object) -> Store:
    """Open the store of a home with its records on a shelf for each scope."""
    return Store(home, root, read_only=read_only, shelved=True)


def open_confined(home: Path, root: str, read_only: bool, _: object) -> Store:
    """Open the same store, as others see it."""
    return Store(home, root, read_only=read_only, confined=True)


class Team:
    """Two subcortexes, one of them private, and a viewer of each."""

    def __init__(self, library: Library, seen: Library) -> None:
        self.library, self.seen = library, seen
        self.open, self.private = self.keep(
            Subcortex("open-topic", "Open"), Subcortex("private-topic", "Private")
        )
        self.hers = Viewer(
            "ada", 4, True, frozenset({"*", self.private.id}), hidden=frozenset({self.private.id})
        )
        self.his = Viewer("bob", 2, False, frozenset({"*"}), hidden=frozenset({self.private.id}))

    def keep(self, *bodies: Body) -> list[Record[Any]]:
        made: list[Record[Any]] = []

        def work(step: RecordTransaction) -> str:
            made.extend(step.make(new_id(type(body)), body) for body in bodies)
            return ""

        perform(self.library, work, actor=person(), key=fresh_key(), action="test", payload="")
        self.library.follow()
        self.seen.store.content.drop_recent()
        return made

    def change(self, record: Record[Any], **parts: object) -> None:
        def work(step: RecordTransaction) -> str:
            kept = step.get(record.id)
            assert kept is not None
            return step.put(replace(kept, body=replace(kept.body, **parts))).id

        perform(self.library, work, actor=person(), key=fresh_key(), action="test", payload="")
        self.library.follow()

    def find(self, viewer: Viewer, text: str, **more: Any) -> tuple[list[str], int, str]:
        """The titles of the hits, the total, and all texts of the answer."""
        with self.seen.store.viewed_by(viewer):
            found = find(self.seen, RecordQuery(text, **more))
        found_text = " ".join([*(f"{hit.snippet} {hit.why}" for hit in found.hits), *found.notes])
        return [hit.record.body.title for hit in found.hits], found.total, found_text


@pytest.fixture(params=["words", "meaning"])
def team(settings: Settings, request: pytest.FixtureRequest) -> Iterator[Team]:
    embedders = Embedders(HashingEmbedder() if request.param == "meaning" else None)
    with Library(settings, embedders=embedders, open_store=open_shelved) as library:
        library.holds_lease()
        library.follow()
        with Library(
            settings, embedders=embedders, read_only=True, open_store=open_confined
        ) as seen:
            yield Team(library, seen)


def test_hidden_record_is_not_found_even_as_the_best_hit(team):
    team.keep(
        Thread("Merger", SECRET, subcortex=team.private.id),
        Thread(
            "Merger of two branches", "A merger commit closes the branch", subcortex=team.open.id
        ),
        Thread("Merger plans", SECRET, subcortex=team.open.id, sensitivity=SENSITIVE),
        Thread("Lamps", "Lamps are lit in May", subcortex=team.open.id),
    )
    assert team.find(team.hers, "zanzibar merger closes", types=("thread",))[0][0] in (
        "Merger",
        "Merger plans",
    )
    titles, total, text = team.find(team.his, "zanzibar merger closes", types=("thread",))
    assert titles[0] == "Merger of two branches"
    assert {"Merger", "Merger plans"}.isdisjoint(titles)
    assert total == len(titles)
    assert "zanzibar" not in text.casefold()
    assert team.find(team.his, "zanzibar", types=("thread",), mode=Mode.WORDS)[:2] == ([], 0)
    assert team.find(team.his, "")[1] == 3  # the open topic and its two threads
    assert team.find(team.his, "zanzibar", sensitivity=SENSITIVE)[:2] == ([], 0)


def test_cached_answer_is_not_given_to_another_reader(team):
    team.keep(
        Thread("Merger", SECRET, subcortex=team.private.id),
        Thread("Merging", "A merger of branches"),
    )
    for _ in range(2):
        assert "Merger" in team.find(team.hers, "merger")[0]
        assert team.find(team.his, "merger")[0] == ["Merging"]
        assert "Merger" in team.find(team.hers, "merger", since=1)[0]
        assert team.find(team.his, "merger", since=1)[0] == ["Merging"]


def test_hidden_subcortex_is_unknown(team):
    with team.seen.store.viewed_by(team.his):
        for name in (team.private.id, "private-topic", "nowhere-topic"):
            with pytest.raises(InputError) as caught:
                find(team.seen, RecordQuery("merger", subcortex=name))
            assert caught.value.code == "SCOPE_NOT_FOUND"
            assert "private-topic" not in str(caught.value).replace(name, "")


def test_record_moved_into_a_hidden_subcortex_is_not_found(team):
    (thread,) = team.keep(Thread("Merger", SECRET, subcortex=team.open.id))
    assert team.find(team.his, "zanzibar")[0] == ["Merger"]
    team.change(thread, subcortex=team.private.id)
    assert team.find(team.his, "zanzibar")[:2] == ([], 0)
    assert team.find(team.hers, "zanzibar")[0] == ["Merger"]
    team.change(thread, subcortex=team.open.id)
    assert team.find(team.his, "zanzibar")[0] == ["Merger"]
    team.change(thread, sensitivity=SENSITIVE)
    assert team.find(team.his, "zanzibar")[:2] == ([], 0)


def test_pages_and_counts_cover_visible_records_only(team):
    team.keep(
        *(Thread(f"Merger {number}", SECRET, subcortex=team.private.id) for number in range(5))
    )
    team.keep(Thread("Merger of branches", "A merger"))
    with team.seen.store.viewed_by(team.his):
        page = page_of(team.seen, RecordQuery(), Query("merger", limit=10), Cancel())
        assert (page.total, page.docs) == (1, 2)
        assert [hit.text for hit in page.hits if "zanzibar" in hit.text] == []
        below = page_of(
            team.seen,
            RecordQuery(),
            Query("zanzibar merger", mode=Mode.WORDS, threshold=1.0),
            Cancel(),
        )
        assert "not in any file: zanzibar" in below.notes[0]
    assert team.find(team.his, "merger")[1] == 1


def test_reader_without_access_finds_nothing(team):
    team.keep(Thread("Merger", SECRET), Thread("Lamps", "lit"))
    assert find(team.seen, RecordQuery("merger")).hits == ()
    assert find(team.seen, RecordQuery("")).total == 0
    assert Engine.search(team.seen, Query("merger")).hits == ()


def test_confidence_does_not_depend_on_hidden_records(team):
    team.keep(
        Thread("Merger of branches", "A merger commit closes the branch", subcortex=team.open.id)
    )

    def relevance() -> list[float]:
        with team.seen.store.viewed_by(team.his):
            return [
                hit.relevance
                for hit in find(team.seen, RecordQuery("zanzibar merger", mode=Mode.WORDS)).hits
            ]

    before = relevance()
    team.keep(
        *(Thread(f"Merger {number}", SECRET, subcortex=team.private.id) for number in range(5))
    )
    assert relevance() == before
