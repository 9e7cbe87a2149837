"""Records and changes as JSON, both ways, and invalid JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.errors import InputError
from cortex.base.record_model import (
    KINDS,
    Artifact,
    Attachment,
    CodeLink,
    Comment,
    Draft,
    Evidence,
    Link,
    Notification,
    Observation,
    Record,
    Subcortex,
    Task,
    Term,
    Thread,
)
from cortex.engine.store import OutboxEntry, RecordChange, VersionedRecord
from cortex.families.team.ids import new_id
from cortex.families.team.wire.codec import (
    MOST_CHARACTERS,
    MOST_VALUES,
    action_from,
    action_to,
    body_from,
    body_to,
    canonical,
    changed_from,
    changed_to,
    error_to,
    record_from,
    record_to,
)

text = st.text(max_size=20)
texts = st.lists(text, max_size=3).map(tuple)
links = st.lists(st.builds(CodeLink, text, text, text, st.integers(0, 99)), max_size=2).map(tuple)
bodies: dict[str, st.SearchStrategy[Any]] = {
    "subcortex": st.builds(Subcortex, text, text, stewards=texts, glossary=st.lists(st.builds(Term, text, text)).map(tuple)),
    "thread": st.builds(Thread, text, text, tags=texts, summary=text, code_links=links),
    "comment": st.builds(Comment, text, text, citations=texts),
    "observation": st.builds(Observation, text, attachments=st.lists(st.builds(Attachment, text, text), max_size=2).map(tuple)),
    "artifact": st.builds(
        Artifact, text, last_reviewed=st.integers(0, 9), evidence=st.lists(st.builds(Evidence, text, text), max_size=2).map(tuple)
    ),
    "task": st.builds(Task, text, assignees=texts, state=text),
    "draft": st.builds(Draft, text, text, text, patch=st.lists(st.tuples(text, text), max_size=2).map(tuple)),
    "notification": st.builds(Notification, text, text, text, text, text),
    "link": st.builds(Link, text, text, text),
}  # fmt: skip
of_a_kind = st.sampled_from(sorted(bodies)).flatmap(
    lambda kind: st.tuples(st.just(kind), bodies[kind], bodies[kind])
)


def through_json(value: object) -> Any:
    return json.loads(json.dumps(value))


def test_all_kinds_are_covered():
    assert set(bodies) == set(KINDS)


@given(of_a_kind, st.integers(0, 9))
def test_record_and_change_round_trip(kinds, number):
    kind, before, after = kinds
    kept = VersionedRecord(Record(new_id(KINDS[kind]), after, "ada", 1, 2, 3), number)
    assert record_from(through_json(record_to(kept))) == kept
    for was in (None, before):
        changed = RecordChange(kept.record.id, kind, "ada/agent", number, was, after)
        assert changed_from(through_json(changed_to(changed))) == changed
        assert canonical([changed]) == canonical([changed_from(through_json(changed_to(changed)))])


def test_action_round_trips():
    changed = RecordChange(new_id(Thread), "thread", "ada", 5, None, Thread("x"))
    entry = OutboxEntry(
        1, "key", "agent", 2, "create_thread", 77, (changed,), "waiting", 0, "", "", 0
    )
    action = action_from(through_json(action_to(entry, "key@home/agent", entry.changes)))
    assert (action.key, action.action, action.actor, action.tier, action.at) == (
        "key@home/agent", "create_thread", "agent", 2, 77,
    )  # fmt: skip
    assert action.changes == entry.changes and not action.again
    again: Any = action_to(replace(entry, taken=5), "key", entry.changes)
    assert action_from(through_json(again)).again
    again["payload"]["again"] = 1
    with pytest.raises(InputError) as caught:
        action_from(again)
    assert caught.value.context["field"] == "action.payload.again"


def action_json(**more: object) -> dict[str, Any]:
    change = {
        "id": new_id(Thread),
        "kind": "thread",
        "author": "ada",
        "created": 5,
        "before": None,
        "after": {"title": "x"},
    }
    return {
        "idempotency_key": "key",
        "action": "create_thread",
        "payload": {"actor": "person", "tier": 4, "at": 1, "changes": [change | more]},
    }


CHANGE = "action.payload.changes[0]"


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"after": {"title": "x", "colour": "red"}}, f"{CHANGE}.after"),
        ({"after": {"title": 5}}, f"{CHANGE}.after.title"),
        ({"after": {"title": None}}, f"{CHANGE}.after.title"),
        ({"after": {}}, f"{CHANGE}.after.title"),
        ({"after": None}, f"{CHANGE}.after"),
        ({"after": []}, f"{CHANGE}.after"),
        ({"after": {"title": "x", "tags": "red"}}, f"{CHANGE}.after.tags"),
        ({"after": {"title": "x", "tags": ["red", 5]}}, f"{CHANGE}.after.tags[1]"),
        ({"after": {"title": "x", "code_links": [{"path": "a", "line_start": True}]}}, f"{CHANGE}.after.code_links[0].line_start"),
        ({"after": {"title": "x", "code_links": [{"path": "a", "line_start": -1}]}}, f"{CHANGE}.after.code_links[0].line_start"),
        ({"after": {"title": "x", "code_links": [{"path": "a", "line_start": 2**63}]}}, f"{CHANGE}.after.code_links[0].line_start"),
        ({"after": {"title": "x", "code_links": [{"path": "a", "line_start": 1.5}]}}, f"{CHANGE}.after.code_links[0].line_start"),
        ({"after": {"title": "x", "code_links": [[]]}}, f"{CHANGE}.after.code_links[0]"),
        ({"after": {"title": "x" * (MOST_CHARACTERS + 1)}}, f"{CHANGE}.after.title"),
        ({"after": {"title": "x", "tags": ["a"] * (MOST_VALUES + 1)}}, f"{CHANGE}.after.tags"),
        ({"before": {"title": "x", "state": {}}}, f"{CHANGE}.before.state"),
        ({"kind": "spell"}, f"{CHANGE}.kind"),
        ({"kind": "draft", "after": {}}, f"{CHANGE}.id"),
        ({"id": "thread_1"}, f"{CHANGE}.id"),
        ({"id": "thread_8" + "0" * 25}, f"{CHANGE}.id"),
        ({"id": 7}, f"{CHANGE}.id"),
        ({"author": ""}, f"{CHANGE}.author"),
        ({"author": "a b"}, f"{CHANGE}.author"),
        ({"author": "a\x00"}, f"{CHANGE}.author"),
        ({"created": "yesterday"}, f"{CHANGE}.created"),
        ({"version": 3}, CHANGE),
    ],
)  # fmt: skip
def test_invalid_record_is_an_error_that_names_its_field(more, place):
    with pytest.raises(InputError) as error:
        action_from(through_json(action_json(**more)))
    assert error.value.code == "RECORD_INVALID" and error.value.context["field"] == place
    assert place in error.value.message


@pytest.mark.parametrize(
    ("field", "value"),
    [("idempotency_key", ""), ("idempotency_key", "a b"), ("idempotency_key", "x" * 401), ("action", "Do it"), ("payload", 5), ("more", 1)],
)  # fmt: skip
def test_invalid_action_is_refused(field, value):
    with pytest.raises(InputError, match=r"^action"):
        action_from(action_json() | {field: value})
    for strange in (None, [], "x", 5):
        with pytest.raises(InputError):
            action_from(strange)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("actor", "root"),
        ("tier", -1),
        ("tier", "4"),
        ("changes", []),
        ("changes", {}),
        ("who", "me"),
    ],
)
def test_invalid_payload_is_refused(field, value):
    sent = action_json()
    sent["payload"][field] = value
    with pytest.raises(InputError):
        action_from(sent)


def test_a_pair_has_two_parts():
    sent = body_to(Draft("task_update", "x", "y", patch=(("state", "done"),)))
    assert body_from("draft", sent) == Draft("task_update", "x", "y", patch=(("state", "done"),))
    for patch in ([["state"]], [["state", "done", "x"]], [["state", 1]], ["state"]):
        with pytest.raises(InputError):
            body_from("draft", sent | {"patch": patch})


def test_unknown_field_of_a_newer_core_is_ignored():
    kept = VersionedRecord(Record(new_id(Thread), Thread("x"), "ada", 1, 2, 3), 4)
    sent = record_to(kept)
    sent["body"] = {"title": "x", "mood": ["new"]}
    assert record_from({**sent, "colour": "red"}) == kept
    with pytest.raises(InputError):
        record_from({**sent, "body": {"title": 5}})


def test_secret_in_place_of_a_field_is_not_repeated():
    secret = "AKIA" + "IOSFODNN7EXAMPLQ"
    with pytest.raises(InputError) as error:
        body_from("thread", {"title": "x", secret: "y"})
    assert secret not in error.value.message


def test_conflict_has_a_detail_for_each_field():
    conflicts = [{"field": "state"}, {"field": "notes"}]
    error = InputError("RECORD_CHANGED", "changed", context={"conflicts": conflicts})
    assert error_to(error) == {"code": "RECORD_CHANGED", "message": "changed", "details": conflicts}
    assert error_to(InputError("RECORD_INVALID", "no", context={"field": "x"}))["details"] == [
        {"field": "x"}
    ]
