"""A search by somebody who may not see everything: what is hidden leaves no trace in hits, totals,
snippets, notes or scores.
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


class Shelved(Library):
    """A library whose records stand on a shelf for each scope."""

    def _open_store(self, directory: Path | None, root: str) -> Store:
        return Store(directory, root, shelved=True)


class Seen(Library):
    """The same library, as others see it."""

    def _open_store(self, directory: Path | None, root: str) -> Store:
        return Store(directory, root, read_only=True, confined=True)


class Team:
    """Two topics, one of them private, and who reads what."""

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
        """The titles that are found, how many there are, and all that is told besides."""
        with self.seen.store.viewed_by(viewer):
            found = find(self.seen, RecordQuery(text, **more))
        told = " ".join([*(f"{hit.snippet} {hit.why}" for hit in found.hits), *found.notes])
        return [hit.record.body.title for hit in found.hits], found.total, told


@pytest.fixture(params=["words", "meaning"])
def team(settings: Settings, request: pytest.FixtureRequest) -> Iterator[Team]:
    embedders = Embedders(HashingEmbedder() if request.param == "meaning" else None)
    with Shelved(settings, embedders=embedders) as library:
        library.holds_lease()
        library.follow()
        with Seen(settings, embedders=embedders, read_only=True) as seen:
            yield Team(library, seen)


def test_what_is_hidden_is_not_found_although_it_would_be_the_best_hit(team):
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
    titles, total, told = team.find(team.his, "zanzibar merger closes", types=("thread",))
    assert titles[0] == "Merger of two branches"
    assert {"Merger", "Merger plans"}.isdisjoint(titles)
    assert total == len(titles)
    assert "zanzibar" not in told.casefold()
    assert team.find(team.his, "zanzibar", types=("thread",), mode=Mode.WORDS)[:2] == ([], 0)
    assert team.find(team.his, "")[1] == 3  # the open topic and its two threads
    assert team.find(team.his, "zanzibar", sensitivity=SENSITIVE)[:2] == ([], 0)


def test_an_answer_to_one_is_not_given_to_another(team):
    team.keep(
        Thread("Merger", SECRET, subcortex=team.private.id),
        Thread("Merging", "A merger of branches"),
    )
    for _ in range(2):
        assert "Merger" in team.find(team.hers, "merger")[0]
        assert team.find(team.his, "merger")[0] == ["Merging"]
        assert "Merger" in team.find(team.hers, "merger", since=1)[0]
        assert team.find(team.his, "merger", since=1)[0] == ["Merging"]


def test_a_hidden_topic_is_as_one_that_is_not_there(team):
    with team.seen.store.viewed_by(team.his):
        for name in (team.private.id, "private-topic", "nowhere-topic"):
            with pytest.raises(InputError) as caught:
                find(team.seen, RecordQuery("merger", subcortex=name))
            assert caught.value.code == "SCOPE_NOT_FOUND"
            assert "private-topic" not in str(caught.value).replace(name, "")


def test_what_moves_into_a_hidden_topic_is_gone_from_what_others_find(team):
    (thread,) = team.keep(Thread("Merger", SECRET, subcortex=team.open.id))
    assert team.find(team.his, "zanzibar")[0] == ["Merger"]
    team.change(thread, subcortex=team.private.id)
    assert team.find(team.his, "zanzibar")[:2] == ([], 0)
    assert team.find(team.hers, "zanzibar")[0] == ["Merger"]
    team.change(thread, subcortex=team.open.id)
    assert team.find(team.his, "zanzibar")[0] == ["Merger"]
    team.change(thread, sensitivity=SENSITIVE)
    assert team.find(team.his, "zanzibar")[:2] == ([], 0)


def test_pages_and_their_counts_are_those_of_what_is_seen(team):
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
        assert "not in any file: zanzibar" in below.notes[0]  # whoever else says it
    assert team.find(team.his, "merger")[1] == 1


def test_nobody_finds_nothing(team):
    team.keep(Thread("Merger", SECRET), Thread("Lamps", "lit"))
    assert find(team.seen, RecordQuery("merger")).hits == ()
    assert find(team.seen, RecordQuery("")).total == 0
    assert Engine.search(team.seen, Query("merger")).hits == ()


def test_how_sure_a_hit_is_does_not_tell_what_others_say(team):
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
