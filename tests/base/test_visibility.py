"""Access policy of team records: scopes, and the records that a viewer sees."""

from __future__ import annotations

import pytest

from cortex.base.record_model import (
    SENSITIVE,
    Draft,
    Link,
    Notification,
    Observation,
    Record,
    Subcortex,
    Thread,
)
from cortex.base.visibility import REVIEWER, UNFILED, Viewer, scope_of, sees

ALL = frozenset({"*"})
RECORDS = {
    record.id: record
    for record in (
        Record("lamps", Subcortex("lamps", "Lamps")),
        Record("thread_1", Thread("Why?", subcortex="lamps")),
        Record("thread_2", Thread("Who pays?", sensitivity=SENSITIVE)),
        Record("obs_1", Observation("Seen", thread="thread_1")),
        Record("obs_2", Observation("Unfiled")),
        Record("link_1", Link("obs_1", "supports", "thread_1")),
        Record("link_2", Link("obs_2", "supports", "thread_2")),
        Record("link_3", Link("obs_1", "supports", "link_1")),
        Record("draft_1", Draft("comment", "", "Hm.", target="obs_1"), author="ada/agent"),
        Record("note_1", Notification("mention", "bob", "link_1", "Look", "mentioned"), "ada"),
        Record("note_2", Notification("mention", "bob", "note_2", "Look", "mentioned"), "ada"),
    )
}


def is_seen(viewer: Viewer, record_id: str) -> bool:
    return sees(viewer, RECORDS[record_id], RECORDS.get)


@pytest.mark.parametrize(
    ("record_id", "scope"),
    [
        ("lamps", "lamps"),
        ("thread_1", "lamps"),
        ("obs_1", "lamps"),
        ("obs_2", UNFILED),
        ("link_1", "lamps"),
        ("draft_1", "lamps"),
        ("note_1", "lamps"),
    ],
)
def test_scope_follows_the_references_of_a_record(record_id: str, scope: str):
    assert scope_of(RECORDS[record_id], RECORDS.get) == scope


def test_cycle_of_references_has_no_scope():
    assert scope_of(RECORDS["note_2"], RECORDS.get) == UNFILED


def test_viewer_sees_records_of_its_scopes_only():
    lamps = Viewer("cyd", 2, reads=frozenset({"lamps"}))
    assert is_seen(lamps, "thread_1") and not is_seen(lamps, "obs_2")
    everything = Viewer("cyd", 2, reads=ALL)
    assert is_seen(everything, "thread_1") and is_seen(everything, "obs_2")


def test_everywhere_does_not_cover_a_hidden_scope():
    viewer = Viewer("cyd", 4, reads=ALL, writes=ALL, hidden=frozenset({"lamps"}))
    assert not is_seen(viewer, "thread_1") and not viewer.may_write("lamps")
    assert Viewer("cyd", 4, reads=ALL | {"lamps"}, hidden=frozenset({"lamps"})).may_read("lamps")


def test_sensitive_record_needs_a_viewer_with_access_to_it():
    assert not is_seen(Viewer("cyd", 4, reads=ALL), "thread_2")
    assert is_seen(Viewer("cyd", 4, sensitive=True, reads=ALL), "thread_2")


@pytest.mark.parametrize(
    ("name", "tier", "expected"),
    [
        ("ada", 1, True),
        ("ada/agent", 1, True),
        ("cyd", REVIEWER - 1, False),
        ("cyd", REVIEWER, True),
    ],
)
def test_draft_is_seen_by_its_author_and_reviewers(name: str, tier: int, expected: bool):
    assert is_seen(Viewer(name, tier, reads=ALL), "draft_1") is expected


@pytest.mark.parametrize(("name", "expected"), [("bob", True), ("ada", True), ("bo", False)])
def test_notification_is_seen_by_its_recipient_and_author(name: str, expected: bool):
    assert is_seen(Viewer(name, 4, reads=ALL), "note_1") is expected


def test_link_is_seen_only_with_both_of_its_ends():
    viewer = Viewer("cyd", 4, reads=ALL)
    assert is_seen(viewer, "link_1")
    assert not is_seen(viewer, "link_2"), "one end is sensitive"
    assert not is_seen(viewer, "link_3"), "an end is a link itself"
