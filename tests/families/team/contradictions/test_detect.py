"""Candidate contradictions of a new record."""

from __future__ import annotations

from typing import NoReturn

from cortex.base.errors import CortexError
from cortex.base.record_model import (
    SENSITIVE,
    Artifact,
    CodeLink,
    Evidence,
    Link,
    Observation,
    RecordFilter,
    Thread,
)
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.library import Library
from cortex.families.team.writes.create import create_observations
from families.team.writes.record_writes import AGENT, make


class SlowLibrary(Library):
    """A library in which every search takes too long."""

    def search(self, *_: object, **__: object) -> NoReturn:
        raise CortexError("SEARCH_TIMEOUT", "too slow")


def candidates(library: Library) -> list[Link]:
    return [
        record.body
        for record in library.store.records.select(
            RecordFilter(kinds=("link",), states=("candidate",))
        )
    ]


def test_contradicting_record_becomes_a_candidate(library: Library) -> None:
    evidence = (Evidence("url", "https://example.com/"),)
    old = make(
        library,
        Artifact(
            "Cache timeout", "The cache timeout is 30 seconds.", state="accepted", evidence=evidence
        ),
    )
    batch = create_observations(
        library,
        [Observation("Cache timeout", "The cache timeout is 60 seconds.")],
        actor=AGENT,
        key="s:1",
    )
    (link,) = candidates(library)
    assert (link.source, link.relation, link.target) == (
        batch.outcomes[0].id,
        "contradicts",
        old.id,
    )
    assert "60" in link.note and "30" in link.note and old.id in batch.outcomes[0].warnings[0]
    (notification,) = library.store.records.select(
        RecordFilter(kinds=("notification",), refs=(("recipient", "person"),))
    )
    assert notification.body.type == "review_needed" and "contradict" in notification.body.title
    again = create_observations(
        library,
        [Observation("Cache timeout", "The cache timeout is 60 seconds.")],
        actor=AGENT,
        key="s:1",
    )
    assert (
        again.outcomes[0].warnings == batch.outcomes[0].warnings and len(candidates(library)) == 1
    )


def test_records_of_the_same_code_are_compared_whatever_their_title(library: Library) -> None:
    link = CodeLink("src/cache.py", symbol="Cache.get")
    old = make(
        library,
        Artifact("How long things stay", "The cache timeout is 30 seconds.", code_links=(link,)),
    )
    make(
        library,
        Artifact(
            "Elsewhere",
            "The cache timeout is 45 seconds.",
            code_links=(CodeLink("src/cache.py", symbol="Cache.put"),),
        ),
    )
    make(
        library,
        Observation("Seen in production", "The cache timeout is 60 seconds.", code_links=(link,)),
    )
    assert [candidate.target for candidate in candidates(library)] == [old.id]


def test_contradiction_of_a_sensitive_decision_is_sensitive(library: Library) -> None:
    old = make(
        library,
        Thread(
            "Cache timeout",
            "The cache timeout is 30 seconds.",
            type="decision",
            sensitivity=SENSITIVE,
        ),
    )
    make(library, Thread("Cache timeout", "The cache timeout is 60 seconds.", type="decision"))
    assert [(candidate.target, candidate.sensitivity) for candidate in candidates(library)] == [
        (old.id, SENSITIVE)
    ]


def test_agreeing_or_unrelated_record_is_no_candidate(library: Library) -> None:
    make(library, Artifact("Cache timeout", "The cache timeout is 30 seconds."))
    make(library, Observation("Cache timeout", "The cache timeout is 30 seconds."))
    make(library, Observation("Lock timeout", "The lock timeout is 60 seconds."))
    # A question, no decision
    make(library, Thread("Cache timeout", "The cache timeout is 60 seconds."))
    assert candidates(library) == []


def test_closed_or_superseded_record_is_no_candidate(library: Library) -> None:
    evidence = (Evidence("url", "https://example.com/"),)
    old = make(
        library,
        Artifact(
            "Cache timeout", "The cache timeout is 30 seconds.", state="accepted", evidence=evidence
        ),
    )
    new = Artifact(
        "Cache timeout",
        "The cache timeout is 60 seconds.",
        state="accepted",
        evidence=evidence,
        supersedes=old.id,
    )
    make(library, new)
    make(library, Observation("Cache timeout", "The cache timeout is 60 seconds."))
    assert candidates(library) == []


def test_candidates_of_one_record_are_limited(library: Library) -> None:
    for number in range(6):
        make(library, Observation("Cache timeout", f"The cache timeout is {30 + number} seconds."))
    before = len(candidates(library))
    make(library, Observation("Cache timeout", "The cache timeout is 90 seconds."))
    assert len(candidates(library)) - before == 3


def test_record_is_written_when_the_search_for_candidates_fails(library: Library) -> None:
    make(library, Artifact("Cache timeout", "The cache timeout is 30 seconds."))
    observation = Observation("Cache timeout", "The cache timeout is 60 seconds.")
    with SlowLibrary(library.settings, embedders=Embedders(None)) as slow:
        assert make(slow, observation).version == 1
    assert candidates(library) == []
