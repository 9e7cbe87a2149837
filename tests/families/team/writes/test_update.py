"""Changes of records: versions, keys, permissions, and their effect on dependent records."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from cortex.base.record_model import (
    SENSITIVE,
    Actor,
    Artifact,
    Comment,
    Link,
    Record,
    Subcortex,
    Task,
    Thread,
)
from cortex.engine.library import Library
from cortex.families.team.writes import update
from cortex.families.team.writes.update import revise
from families.team.writes.record_writes import PERSON, WRITER, edit, found_by, make, now, refused


def test_change_adds_a_version_and_keeps_the_old_one(library: Library) -> None:
    thread = make(library, Thread("Old title", "B"))
    after = edit(library, thread, title="  New\ntitle ")
    assert (after.body.title, after.body.body, after.version, after.author) == (
        "New title",
        "B",
        2,
        "person",
    )
    assert [
        version.body.title for version in library.store.records.versions(thread.id).values()
    ] == ["Old title", "New title"]
    assert found_by(library, "old") == [] and found_by(library, "new") == [thread.id]


def test_empty_change_writes_nothing(library: Library) -> None:
    thread = make(library, Thread("T"))
    assert edit(library, thread, title=" T ") == thread


def test_change_of_an_outdated_version_is_refused(library: Library) -> None:
    thread = make(library, Thread("T"))
    edit(library, thread, title="U", version=1)
    error = refused(lambda: edit(library, thread, title="V", version=1))
    assert (error.code, error.context["version"], now(library, thread).body.title) == (
        "RECORD_CHANGED",
        2,
        "U",
    )


def test_concurrent_changes_are_all_made(library: Library) -> None:
    task = make(library, Task("T"))

    def mark(number: int) -> None:
        def change(body: Task) -> Task:
            return replace(body, tags=(*body.tags, f"t{number}"))

        revise(library, task.id, change, actor=PERSON, action="edit")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(mark, range(16)))
    assert (
        set(now(library, task).body.tags) == {f"t{number}" for number in range(16)}
        and now(library, task).version == 17
    )


def test_same_key_changes_a_record_once(library: Library) -> None:
    task = make(library, Task("T"))

    def change(body: Task) -> Task:
        return replace(body, notes=body.notes + "x")

    for _ in range(2):
        revise(library, task.id, change, actor=PERSON, action="edit", key="s:1")
    assert now(library, task).body.notes == "x"


def test_edit_without_permission_is_refused(library: Library) -> None:
    thread, scope = make(library, Thread("T")), make(library, Subcortex("billing", "Billing"))
    assert refused(lambda: edit(library, thread, WRITER, title="U")).code == "RIGHTS_MISSING"
    assert (
        refused(lambda: edit(library, scope, Actor("lead", 3), name="U")).code == "RIGHTS_MISSING"
    )
    assert edit(library, thread, Actor("lead", 3), title="U").version == 2


def test_change_is_validated_like_a_new_record(library: Library) -> None:
    thread = make(library, Thread("T"))
    assert refused(lambda: edit(library, thread, title="")).code == "RECORD_INVALID"
    assert refused(lambda: edit(library, thread, subcortex="nowhere")).code == "SCOPE_NOT_FOUND"
    assert (
        refused(
            lambda: edit(library, thread, body="ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A")
        ).code
        == "SENSITIVE_BLOCKED"
    )
    assert now(library, thread) == thread


def test_referenced_record_can_not_be_removed(library: Library) -> None:
    scope, thread, other = (
        make(library, Subcortex("billing", "B")),
        make(library, Thread("T")),
        make(library, Thread("U")),
    )
    comment, link = (
        make(library, Comment(thread.id, "B")),
        make(library, Link(thread.id, "supports", other.id)),
    )
    artifact = make(library, Artifact("A"))
    changes: list[tuple[Record[Any], dict[str, Any]]] = [
        (scope, {"slug": "money"}),
        (comment, {"thread": other.id}),
        (link, {"relation": "contradicts"}),
        (artifact, {"superseded_by": artifact.id}),
        (artifact, {"state": "superseded"}),
    ]
    for record, fields in changes:
        assert (
            refused(lambda record=record, fields=fields: edit(library, record, **fields)).code
            == "RECORD_INVALID"
        ), fields


def test_changed_comment_changes_the_summary(library: Library) -> None:
    thread = make(library, Thread("How do we round?"))
    comment = make(library, Comment(thread.id, "We decided to round half to even."))
    edit(library, comment, body="We decided to round half up, because the law says so.")
    assert (
        "half up" in now(library, thread).body.summary
        and "even" not in now(library, thread).body.summary
    )


def test_all_comments_follow_their_thread_to_another_subcortex(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "_BATCH", 2)
    here, there = (make(library, Subcortex(slug, slug)).id for slug in ("here", "there"))
    thread = make(library, Thread("Lamps", subcortex=here))
    comments = [make(library, Comment(thread.id, f"Bulb {number} is dim.")) for number in range(5)]
    edit(library, thread, subcortex="there", title="Lanterns")
    assert {now(library, comment).body.subcortex for comment in comments} == {there}
    assert {comment.id for comment in comments} < set(found_by(library, "lanterns"))
    assert library.store.records.deeds(comments[0].id)[0].action == "move_comment"
    versions = [now(library, comment).version for comment in comments]
    edit(library, thread, title="Torches")
    assert {comment.id for comment in comments} < set(found_by(library, "torches"))
    assert [now(library, comment).version for comment in comments] == versions
    edit(library, thread, subcortex="")
    assert {now(library, comment).body.subcortex for comment in comments} == {""}


def test_summary_follows_the_text_and_sensitivity_of_its_thread(library: Library) -> None:
    thread = make(library, Thread("Lamps", "The lamps must be replaced because they flicker."))
    make(
        library,
        Comment(
            thread.id, "We decided to raise the salary of Bob to 90000 EUR.", sensitivity=SENSITIVE
        ),
    )
    make(library, Comment(thread.id, "We decided to buy 40 bulbs."))
    assert "flicker" in now(library, thread).body.summary
    edit(library, thread, body="The lamps must be replaced because they hum.")
    assert "hum" in now(library, thread).body.summary
    assert "flicker" not in now(library, thread).body.summary
    edit(library, thread, sensitivity=SENSITIVE)
    assert "salary" in now(library, thread).body.summary
    edit(library, thread, sensitivity="normal")
    assert "salary" not in now(library, thread).body.summary


def test_comment_is_found_by_the_new_title_of_its_thread(library: Library) -> None:
    thread = make(library, Thread("Lamps"))
    comment = make(library, Comment(thread.id, "They are blue."))
    edit(library, thread, title="Lanterns")
    assert (
        set(found_by(library, "lanterns")) == {thread.id, comment.id}
        and found_by(library, "lamps") == []
    )
    assert now(library, comment).version == 1


def test_dependent_records_become_and_stay_sensitive(library: Library) -> None:
    scope = make(library, Subcortex("salaries", "Salaries"))
    thread = make(library, Thread("Raises", subcortex="salaries"))
    comment, other = (
        make(library, Comment(thread.id, "In March")),
        make(library, Thread("Elsewhere")),
    )
    link = make(library, Link(thread.id, "supports", other.id, "because of March"))
    mention = make(library, Comment(thread.id, "@lena look"))
    edit(library, scope, sensitivity=SENSITIVE)
    notifications = library.store.records.pointing([mention.id], ["about"])
    assert [
        notification.body.sensitivity for notification in (now(library, link), *notifications)
    ] == [SENSITIVE] * 2
    assert (
        now(library, thread).body.sensitivity == now(library, comment).body.sensitivity == SENSITIVE
    )
    assert now(library, other).body.sensitivity == "normal"
    assert {source.name for source in library.store.records.sources(("comment",))} == {
        "comment",
        "comment!",
    }
    assert (
        refused(lambda: edit(library, thread, sensitivity="normal")).context["field"]
        == "sensitivity"
    )
    edit(library, scope, sensitivity="normal")
    assert edit(library, thread, sensitivity="normal").body.sensitivity == "normal"
