"""A write is acknowledged when it is stored; the indexes may follow later."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cortex.base.actors import agent, person
from cortex.base.errors import InputError
from cortex.base.record_model import Comment, Draft, Observation, RecordFilter, Thread
from cortex.engine import library as libraries
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.library import Library
from cortex.engine.store.index import lexical as words_module
from cortex.engine.store.index.lexical import LexicalIndex
from cortex.families.team import ids
from cortex.families.team.ids import fresh_key
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.writes.create import create
from cortex.families.team.writes.drafts import approve, create_draft
from cortex.families.team.writes.transactions import check_key
from families.team.invariants import check_records


def test_record_is_written_now_and_found_once_indexed(library, settings, monkeypatch, caplog):
    create(library, Observation("The first lamp"), actor=person())
    mine = library.store.indexes.words()
    assert mine is not None and library.holds_lease()
    mine.close()
    (folder,) = settings.home.glob("words-*")
    others = LexicalIndex(folder)
    others.apply([], (), mine.watermark())  # it has the lock now
    monkeypatch.setattr(words_module, "LOCK_SECONDS", 0.0)
    kept = create(library, Observation("The second lamp"), actor=person(), key="once")
    assert library.store.records.one(kept.id) == kept
    assert create(library, Observation("The second lamp"), actor=person(), key="once") == kept
    assert "can't be searched yet" in caplog.text
    others.close()
    assert library.follow()
    assert [hit.record.id for hit in find(library, RecordQuery("second lamp")).hits][:1] == [
        kept.id
    ]


def test_lease_holder_that_does_not_index_is_awaited_once(library, settings, monkeypatch):
    assert library.holds_lease()
    with Library(settings, embedders=Embedders(None)) as other, ThreadPoolExecutor(1) as threads:
        monkeypatch.setattr(libraries, "FOLLOW_SECONDS", 0.05)
        create(other, Thread("Which lamp?"), actor=person())
        monkeypatch.setattr(libraries, "FOLLOW_SECONDS", 60.0)
        started = time.monotonic()
        create(other, Thread("Which chair?"), actor=person())
        assert not other.follow() and time.monotonic() - started < 30
        library.catch_up()
        later = threads.submit(create, other, Thread("Which table?"), actor=person())
        while not later.done():
            library.catch_up()
        assert other.follow()
        assert len(find(other, RecordQuery("table")).hits) == 1


def test_one_of_many_concurrent_approvals_publishes(library, settings, monkeypatch):
    # The lease is held without a process that renews it.
    monkeypatch.setattr(libraries, "FOLLOW_SECONDS", 0.1)
    thread = create(library, Thread("Which lamp?"), actor=person()).id
    draft = create_draft(
        library, Draft("comment", "", "The green one.", target=thread), actor=agent(settings)
    )[0].id

    def decide(place: Library, number: int) -> str:
        try:
            return approve(place, draft, actor=person(), key=f"k{number}").record.id
        except InputError as error:
            return error.code

    with Library(settings, embedders=Embedders(None)) as other, ThreadPoolExecutor(16) as threads:
        outcomes = list(
            threads.map(lambda number: decide((library, other)[number % 2], number), range(16))
        )
    published = [outcome for outcome in outcomes if outcome != "RECORD_CHANGED"]
    assert len(published) == 1 and outcomes.count("RECORD_CHANGED") == 15
    comments = library.store.records.select(RecordFilter(kinds=("comment",)))
    assert [comment.id for comment in comments] == published
    check_records(settings.home, settings)


def test_key_with_a_secret_is_refused_and_a_hex_number_is_not():
    number = "3f2b8c1d9e0a7f6b5c4d3e2f1a0b9c8d"
    for key in (f"key-{number}", f"retry-key-{number}", f"thread_{number}", fresh_key()):
        check_key(key)
    with pytest.raises(InputError) as caught:
        check_key("thread_ghp_" + number + "aZ9k")
    assert caught.value.code == "SENSITIVE_BLOCKED"


def test_records_keep_their_order_when_the_clock_goes_back(library, monkeypatch):
    thread = create(
        library,
        Thread("Which lamp?", "We decided on the blue lamp for the replica."),
        actor=person(),
    ).id
    create(library, Comment(thread, "Ok"), actor=person(), summary="The blue one.")
    past = time.time() - 3_600
    monkeypatch.setattr(ids, "_last", 0)  # as in another process
    monkeypatch.setattr(time, "time", lambda: past)
    later = [
        create(library, Comment(thread, f"We decided on {name}."), actor=person())
        for name in ("red", "green")
    ]
    comments = library.store.records.select(RecordFilter(kinds=("comment",)))
    assert [comment.id for comment in comments[:2]] == [
        comment.id for comment in later[::-1]
    ] and len(comments) == 3
    body = library.store.records.one(thread).body
    assert body.summary.startswith("The blue one.\n\nSince then:\n") and body.summary.index(
        "red"
    ) < body.summary.index("green")
