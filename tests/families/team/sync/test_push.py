"""The batches that a home sends to a Core, and how it handles each answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cortex.base.actors import person
from cortex.base.record_model import Comment, Notification, Observation, Subcortex, Task, Thread
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction
from cortex.families.team.ids import new_id
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.sync import client, push, state
from cortex.families.team.sync.cycle import SyncOutcome
from cortex.families.team.sync.run_context import now
from cortex.families.team.wire.codec import record_to
from engine.embedders.stub import Asked, Reply
from families.team.sync.fake_core import FakeCore
from families.team.sync.homes import alerts, do, edit, make, once

DAY_MS = 24 * 60 * 60 * 1000


def ids_of(asked: Asked) -> list[list[str]]:
    """The ids of the records of each action of a flush."""
    return [
        [change["id"] for change in action["payload"]["changes"]]
        for action in asked.body["actions"]
    ]


def flushes(core: FakeCore) -> list[int]:
    """How many actions each flush had."""
    return [
        len(request.body["actions"])
        for request in core.stub.asked
        if request.path.endswith("/flush")
    ]


def answer_flush(core: FakeCore, answer: Callable[[Asked], Reply | None]) -> None:
    """Answer flushes with this, or as always where it gives nothing."""
    own = core.stub.answer

    def first(asked: Asked) -> Reply:
        said = answer(asked) if asked.path.endswith("/flush") else None
        return own(asked) if said is None else said

    core.stub.answer = first


def refuse_to_read(core: FakeCore, number: str, status: int, *, also_ids: bool = False) -> None:
    """Make the Core unable to read actions with this record, except for its id."""

    def answer(asked: Asked) -> Reply | None:
        for action, ids in zip(asked.body["actions"], ids_of(asked), strict=True):
            if number in ids and (also_ids or "after" in action["payload"]["changes"][0]):
                error = {"code": "RECORD_INVALID", "message": "what is this?", "details": []}
                return Reply({"error": error}, status)
        return None

    answer_flush(core, answer)


def result(action: dict[str, Any], status: str, **more: object) -> dict[str, object]:
    key = action["idempotency_key"]
    return {"idempotency_key": key, "status": status, "id": None, "records": [], **more}


# -- batches


@pytest.mark.parametrize("status", [400, 413, 422])
def test_unreadable_entry_is_bisected_and_refused_alone(joined, core, status):
    ids = [make(joined, Observation(f"seen {place}")) for place in range(9)]
    refuse_to_read(core, ids[2], status)
    outcome = once(joined, core)
    assert (outcome.status, outcome.flushed, outcome.refused, outcome.waiting) == (
        "partial",
        8,
        1,
        0,
    )
    # 9 and 4 fail, 2 are taken, 2 fail; alone it fails again, and its id alone is asked about
    assert flushes(core) == [9, 4, 2, 2, 1, 1, 6]
    assert set(core.kept) == {*ids} - {ids[2]}
    (refused,) = joined.store.outbox.refused()
    assert (refused.code, [change.id for change in refused.changes]) == ("RECORD_INVALID", [ids[2]])
    assert "what is this?" in refused.reason
    (alert,) = alerts(joined)
    assert "did not take this (RECORD_INVALID)" in alert and "seen 2" in alert
    assert joined.store.records.one(ids[2]) is not None, "what was typed stays"


@pytest.mark.parametrize("status", [402, 404, 409, 423])
def test_error_about_no_entry_refuses_none(joined, core, status):
    make(joined, Observation("one"))
    make(joined, Observation("two"))
    answer_flush(core, lambda asked: Reply({"error": {"code": "ODD", "message": "no"}}, status))
    outcome = once(joined, core)
    assert (outcome.status, outcome.waiting, flushes(core)) == ("failed", 2, [2])
    assert "ODD" in outcome.error
    assert [entry.attempts for entry in joined.store.outbox.waiting()] == [0, 0]
    assert joined.store.outbox.refused() == [] and alerts(joined) == []


def test_oversized_answer_is_requested_in_parts(joined, core, monkeypatch):
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 100_000)
    for place in range(12):
        make(joined, Observation(f"seen {place}"))

    def answer(asked: Asked) -> Reply | None:
        many = len(asked.body["actions"]) > 3
        return Reply({"data": {"results": []}, "meta": "x" * 200_000}) if many else None

    answer_flush(core, answer)
    assert once(joined, core) == SyncOutcome("ok", flushed=12)
    assert flushes(core) == [12, 6, 3, 3, 3, 3]


def test_entry_with_an_unreadable_id_stays_refused(joined, core):
    thread = make(joined, Thread("Title"))
    once(joined, core)
    edit(joined, thread, title="Longer title")
    refuse_to_read(core, thread, 413, also_ids=True)
    core.edit(thread, body="of Bob")
    outcome = once(joined, core)
    assert outcome.refused == 1 and joined.store.outbox.refused()[0].code == "RECORD_INVALID"
    # Everything was compared once more: the page may have left the thread out while it waited
    assert joined.store.records.one(thread).body == core.bodies()[thread]
    assert core.bodies()[thread].body == "of Bob"


@pytest.mark.parametrize("status", ["applied", "replayed", "retry"])
def test_only_a_refused_id_shows_that_the_core_lacks_it(joined, core, status):
    thread = make(joined, Thread("Title"))
    once(joined, core)
    core.edit(thread, body="of Bob")
    edit(joined, thread, title="Longer title")

    def answer(asked: Asked) -> Reply | None:
        action = asked.body["actions"][0]
        if "after" in action["payload"]["changes"][0]:
            return Reply({"error": {"code": "RECORD_INVALID", "message": "no"}}, 422)
        # An odd Core: it answers with another thread.
        record = json.loads(json.dumps(record_json(core, thread)))
        record["body"]["title"] = "never so at the Core"
        return Reply({"data": {"results": [result(action, status, records=[record])]}})

    answer_flush(core, answer)
    assert once(joined, core).refused == 1
    assert joined.store.records.one(thread).body == core.bodies()[thread]


def record_json(core: FakeCore, number: str) -> Any:
    return record_to(core.kept[number])


def test_unanswered_entries_are_sent_later(joined, core):
    make(joined, Observation("one"))
    make(joined, Observation("two"))
    answer_flush(core, lambda asked: Reply({"data": {"results": []}}))
    outcome = once(joined, core)
    assert (outcome.status, outcome.waiting, flushes(core)) == ("partial", 2, [2])
    assert outcome.error == "the Core says nothing of what was sent"
    first, second = joined.store.outbox.waiting()
    assert (first.attempts, first.reason) == (1, outcome.error) and second.attempts == 0


def test_partly_answered_batch_sends_the_rest_at_once(joined, core):
    ids = [make(joined, Observation(f"seen {place}")) for place in range(3)]
    own = core.stub.answer

    def answer(asked: Asked) -> Reply | None:
        said = own(asked)
        return Reply({"data": {"results": said.body["data"]["results"][:1]}})

    answer_flush(core, answer)
    assert once(joined, core) == SyncOutcome("ok", flushed=3)
    assert flushes(core) == [3, 2, 1] and list(core.kept) == ids


@pytest.mark.parametrize(
    ("message", "why"), [("", "the Core wants it later"), ("too busy", "too busy")]
)
def test_deferred_entry_waits_with_its_reason(joined, core, message, why):
    make(joined, Observation("one"))
    error = {"code": "LATER", "message": message} if message else None
    answer_flush(
        core,
        lambda asked: Reply(
            {"data": {"results": [result(asked.body["actions"][0], "retry", error=error)]}}
        ),
    )
    outcome = once(joined, core)
    assert (outcome.status, outcome.error, outcome.waiting) == ("partial", why, 1)
    (entry,) = joined.store.outbox.waiting()
    assert (entry.attempts, entry.reason) == (1, why)


def test_refusal_without_a_code_is_a_refusal(joined, core):
    number = make(joined, Observation("one"))
    answer_flush(
        core,
        lambda asked: Reply({"data": {"results": [result(asked.body["actions"][0], "refused")]}}),
    )
    assert once(joined, core).refused == 1
    (entry,) = joined.store.outbox.refused()
    assert (entry.code, entry.changes[0].id) == ("REFUSED", number)


def test_new_subcortex_ends_its_batch(joined, core):
    make(joined, Observation("before"))
    place = make(joined, Subcortex("ops", "Operations"))
    make(joined, Thread("In it", subcortex=place))
    make(joined, Observation("after"))
    edit(joined, place, description="What runs")
    make(joined, Observation("last"))
    assert once(joined, core) == SyncOutcome("ok", flushed=6)
    assert flushes(core) == [2, 4]


def test_entry_as_large_as_a_batch_is_sent_alone(joined, core, monkeypatch):
    monkeypatch.setattr(push, "BATCH_BYTES", 10)
    for place in range(3):
        make(joined, Observation(f"seen {place}"))
    assert once(joined, core) == SyncOutcome("ok", flushed=3)
    assert flushes(core) == [1, 1, 1]


def test_batch_is_filled_up_to_its_byte_limit(joined, core, monkeypatch):
    for place in range(4):
        make(joined, Observation(f"seen {place}"))
    once(joined, core)
    (sent,) = (request for request in core.stub.asked if request.path.endswith("/flush"))
    bodies = [
        len(json.dumps(action, ensure_ascii=False).encode()) for action in sent.body["actions"]
    ]
    core.stub.asked.clear()
    for place in range(4):
        make(joined, Observation(f"seen {place}"))
    monkeypatch.setattr(push, "BATCH_BYTES", sum(bodies[:2]))
    once(joined, core)
    assert flushes(core) == [2, 2]


# -- accepted and refused writes


def test_accepted_but_hidden_record_is_removed_and_counted(joined, core):
    thread, *notes = new_id(Thread), new_id(Notification), new_id(Notification)

    def work(step: RecordTransaction) -> str:
        made = step.make(thread, Thread("Hidden"))
        for note, who in zip(notes, ("bob", "carl"), strict=True):
            step.make(note, Notification("mention", who, thread, "Hidden", "why"))
        return made.id

    do(joined, work, person())
    core.hidden |= {thread, *notes}
    own_merged = core._merged
    core._merged = lambda change: change.after if change.before is None else own_merged(change)  # type: ignore[method-assign]
    outcome = once(joined, core)
    # The thread when it is sent, where notifications don't count, and each of them by the news of it
    assert (outcome.status, outcome.flushed, outcome.erased) == ("ok", 1, 1 + 3)
    assert joined.store.records.get([thread, *notes]) == {}


def test_refusal_also_removes_records_made_by_the_same_write(joined, core):
    thread = make(joined, Thread("Title"))
    once(joined, core)
    seen, note = new_id(Observation), new_id(Notification)

    def work(step: RecordTransaction) -> str:
        record = step.get(thread)
        assert record is not None
        step.make(seen, Observation("What the change meant"))
        step.make(note, Notification("mention", "bob", thread, "Title", "why"))
        return step.put(replace(record, body=replace(record.body, title="Mine"))).id

    do(joined, work, person())
    joined.follow()
    core.refuses.add(thread)
    assert seen in found(joined, "change meant")
    assert once(joined, core).refused == 1
    assert joined.store.records.one(seen) is None and joined.store.records.one(note) is None
    assert joined.store.records.one(thread).body.title == "Title"
    assert seen not in found(joined, "change meant")


def found(library: Library, text: str) -> list[str]:
    return [hit.record.id for hit in find(library, RecordQuery(text)).hits]


def test_later_acceptance_removes_the_alert(joined, core):
    number = make(joined, Task("Ship it"))
    core.refuses.add(number)
    assert once(joined, core).refused == 1 and len(alerts(joined)) == 1
    assert once(joined, core).refused == 0 and len(alerts(joined)) == 1
    core.refuses.clear()
    joined.store.outbox.retry([entry.id for entry in joined.store.outbox.refused()])
    assert once(joined, core) == SyncOutcome("ok", flushed=1)
    assert alerts(joined) == [] and joined.store.outbox.count() == (0, 0)


# -- retries


def refuse_for(core: FakeCore, number: str, code: str) -> None:
    """Refuse actions that name this record, for this reason."""

    def answer(asked: Asked) -> Reply | None:
        (ids,) = ids_of(asked)[:1]
        if ids != [number]:
            return None
        error = {"code": code, "message": "it is not here", "details": []}
        actions = asked.body["actions"]
        return Reply({"data": {"results": [result(actions[0], "refused", error=error)]}})

    answer_flush(core, answer)


@pytest.mark.parametrize(
    ("code", "again"),
    [
        ("TARGET_NOT_FOUND", True),
        ("SCOPE_NOT_FOUND", True),
        ("RECORD_UNKNOWN", True),
        ("RIGHTS_MISSING", False),
        ("RECORD_INVALID", False),
    ],
)
def test_write_refused_for_a_missing_record_is_sent_when_it_arrives(joined, core, code, again):
    core.write(thread := new_id(Thread), Thread("Of Bob"))
    once(joined, core)
    comment = make(joined, Comment(thread, "a point"))
    own = core.stub.answer
    refuse_for(core, comment, code)
    assert once(joined, core).refused == 1
    core.stub.answer = own
    assert once(joined, core).flushed == 0, "nothing came, and nothing is sent"
    core.edit(thread, title="Of Bob again")
    outcome = once(joined, core)
    assert (outcome.flushed, comment in core.kept) == ((1, True) if again else (0, False))
    assert joined.store.outbox.count() == (0, 0 if again else 1)
    assert len(alerts(joined)) == (0 if again else 1)


@pytest.mark.parametrize(("ago", "again"), [(6 * DAY_MS, True), (8 * DAY_MS, False), (None, False)])
def test_write_that_a_restored_core_lost_is_retried_for_a_week(joined, core, ago, again):
    thread, other = make(joined, Thread("Title")), new_id(Thread)
    core.write(other, Thread("Of Bob"))
    once(joined, core)
    comment = make(joined, Comment(thread, "a point"))
    once(joined, core)
    core.put_back([other], "e2")
    core.refuses.add(comment)
    assert once(joined, core).refused == 1
    core.refuses.clear()
    assert joined.store.outbox.refused()[0].taken
    joined.store.content.set({state.RESENT: "" if ago is None else str(now() - ago)})
    core.edit(thread, title="Of Bob now")
    once(joined, core)
    assert (comment in core.kept) is again
