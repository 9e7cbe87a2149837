"""Changes of records: ids, versions, states, permissions and consequences."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cortex.base.errors import InputError
from cortex.base.record_model import (
    Actor,
    Artifact,
    Body,
    Comment,
    Evidence,
    Link,
    Observation,
    RecordFilter,
    Subcortex,
    Task,
    Thread,
)
from cortex.base.record_spec import spec_of
from cortex.engine.library import Library
from cortex.families.team.ids import new_id
from cortex.families.team.writes.actions import (
    accept_artifact,
    archive,
    deprecate_artifact,
    judge_link,
    pin,
    reopen_thread,
    resolve_thread,
    unpin,
    update_task,
)
from cortex.families.team.writes.update import revise
from families.team.writes.record_writes import (
    AGENT,
    PERSON,
    WRITER,
    edit,
    found_by,
    make,
    now,
    refused,
)

EVIDENCE = (Evidence("url", "https://example.com/"),)


# -- states
# ------------------------------------------------------------------------------------------------------------


def test_acceptance_needs_evidence_and_permission(library: Library) -> None:
    bare, sound = (
        make(library, Artifact("A")),
        make(library, Artifact("B", state="proposed", evidence=EVIDENCE), WRITER),
    )
    assert (
        refused(lambda: accept_artifact(library, bare.id, actor=PERSON)).context["field"]
        == "evidence"
    )
    assert (
        refused(lambda: accept_artifact(library, sound.id, actor=WRITER)).code == "RIGHTS_MISSING"
    )
    accepted = accept_artifact(library, sound.id, actor=PERSON)
    assert accepted.body.state == "accepted" and accepted.body.last_reviewed == accepted.updated
    assert accept_artifact(library, sound.id, actor=PERSON) == accepted
    assert refused(lambda: edit(library, accepted, evidence=())).context["field"] == "evidence"
    notifications = library.store.records.select(
        RecordFilter(kinds=("notification",), refs=(("recipient", "agent"),))
    )
    assert [notification.body.type for notification in notifications] == ["artifact_accepted"]


def test_edit_to_accepted_is_an_acceptance(library: Library) -> None:
    old = make(library, Artifact("Old"))
    new = make(library, Artifact("New", supersedes=old.id), WRITER)
    after = edit(library, new, state="accepted", evidence=EVIDENCE)
    assert after.body.last_reviewed and now(library, old).body.superseded_by == new.id


def test_contradiction_by_an_edit_is_one_candidate(library: Library) -> None:
    make(library, Observation("Cache timeout", "The cache timeout is 30 seconds."))
    artifact = make(library, Artifact("Cache timeout", "The cache timeout is 30 seconds."))
    edit(library, artifact, tags=("cache",))
    wanted = RecordFilter(kinds=("link",), states=("candidate",))
    assert library.store.records.count(wanted) == 0
    edit(library, artifact, body="The cache timeout is 60 seconds.")
    edit(library, artifact, body="The cache timeout is 90 seconds.")
    assert library.store.records.count(wanted) == 1


def test_artifact_is_deprecated(library: Library) -> None:
    artifact = make(library, Artifact("A", "Port 80."))
    after = deprecate_artifact(library, artifact.id, actor=PERSON, note="It is 443.")
    assert (after.body.state, after.body.body) == (
        "deprecated",
        "**Deprecated:** It is 443.\n\nPort 80.",
    )
    assert deprecate_artifact(library, artifact.id, actor=PERSON, note="Again.") == after
    assert library.store.records.deeds(artifact.id)[0].action == "deprecate_artifact"


def test_thread_is_resolved_reopened_and_archived(library: Library) -> None:
    thread = make(library, Thread("T"))
    resolved = resolve_thread(library, thread.id, "We round half to even.", actor=PERSON)
    assert (resolved.body.state, resolved.body.resolution) == ("resolved", "We round half to even.")
    assert found_by(library, "half even") == [thread.id]
    assert (
        refused(lambda: resolve_thread(library, thread.id, actor=WRITER)).code == "RIGHTS_MISSING"
    )
    assert reopen_thread(library, thread.id, actor=PERSON).body.state == "open"
    assert archive(library, thread.id, actor=PERSON).body.state == "archived"


def test_state_of_another_kind_is_refused(library: Library) -> None:
    for record in (
        make(library, Task("T")),
        make(library, Artifact("A")),
        make(library, Observation("O")),
    ):
        error = refused(lambda record=record: archive(library, record.id, actor=PERSON))
        assert (error.code, error.context["field"]) == ("RECORD_INVALID", "state")


def test_archived_subcortex_is_not_found_and_can_be_restored(library: Library) -> None:
    scope = make(library, Subcortex("billing", "Billing"))
    assert archive(library, "billing", actor=PERSON, kind="subcortex").body.state == "archived"
    assert edit(library, scope, state="active").body.state == "active"


def test_pins_keep_their_order(library: Library) -> None:
    scope = make(library, Subcortex("billing", "Billing"))
    thread, task, artifact = (
        make(library, Thread("T")),
        make(library, Task("T")),
        make(library, Artifact("T")),
    )
    other = make(library, Thread("U"))
    for record in (thread, task, artifact, other, thread):
        pin(library, "billing", record.id, actor=PERSON)
    body = now(library, scope).body
    assert (body.pinned_threads, body.pinned_tasks, body.pinned_artifacts) == (
        (other.id, thread.id),
        (task.id,),
        (artifact.id,),
    )
    assert unpin(library, scope.id, thread.id, actor=PERSON).body.pinned_threads == (other.id,)
    comment = make(library, Comment(thread.id, "B"))
    assert (
        refused(lambda: pin(library, "billing", comment.id, actor=PERSON)).code == "RECORD_INVALID"
    )
    assert (
        refused(lambda: pin(library, "nowhere", thread.id, actor=PERSON)).code == "RECORD_UNKNOWN"
    )
    assert (
        refused(lambda: pin(library, "billing", other.id, actor=Actor("lead", 3))).code
        == "RIGHTS_MISSING"
    )


def test_judging_a_link_needs_permission(library: Library) -> None:
    one, two = make(library, Thread("One")), make(library, Thread("Two"))
    link = make(library, Link(one.id, "contradicts", two.id, state="candidate"))
    assert (
        refused(lambda: judge_link(library, link.id, True, actor=WRITER)).code == "RIGHTS_MISSING"
    )
    assert judge_link(library, link.id, True, actor=PERSON).body.state == "confirmed"
    assert judge_link(library, link.id, False, actor=PERSON).body.state == "dismissed"
    assert make(library, Link(one.id, "contradicts", two.id)).id != link.id  # it may be said again


# -- tasks
# -------------------------------------------------------------------------------------------------------------


def test_task_is_changed_field_by_field(library: Library) -> None:
    task = make(library, Task("T"))
    after = update_task(
        library,
        task.id,
        {"status": "blocked", "blocked_reason": "no key", "priority": "high"},
        actor=WRITER,
    )
    assert (after.body.state, after.body.blocked_reason, after.body.priority) == (
        "blocked",
        "no key",
        "high",
    )
    after = update_task(
        library, task.id, {"state": "in_progress", "notes": "got one"}, actor=WRITER
    )
    assert (after.body.state, after.body.blocked_reason, after.body.notes) == (
        "in_progress",
        "",
        "got one",
    )
    after = update_task(library, task.id, {"assignees": "me, @lena, lena"}, actor=WRITER)
    assert (after.body.assignees, after.body.state) == (("agent", "lena"), "in_progress")


def test_task_taken_from_the_inbox_is_assigned(library: Library) -> None:
    task = make(library, Task("T"))
    assert (
        update_task(library, task.id, {"assignees": "Ada"}, actor=PERSON).body.state == "assigned"
    )


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({}, "patch"),
        ({"mood": "good"}, "patch.mood"),
        ({"title": "U"}, "patch.title"),
        ({"state": "finished"}, "state"),
        ({"priority": "soon"}, "priority"),
        ({"blocked_reason": "x" * 501}, "blocked_reason"),
    ],
)
def test_task_patch_describes_the_task(library: Library, patch: dict[str, str], field: str) -> None:
    task = make(library, Task("T"))
    error = refused(lambda: update_task(library, task.id, patch, actor=PERSON))
    assert (error.code, error.context["field"]) == ("RECORD_INVALID", field) and now(
        library, task
    ) == task


def test_task_patch_needs_permission_key_and_current_version(library: Library) -> None:
    task = make(library, Task("T"))
    assert (
        refused(lambda: update_task(library, task.id, {"state": "done"}, actor=AGENT)).code
        == "RIGHTS_MISSING"
    )
    first = update_task(library, task.id, {"state": "done"}, actor=WRITER, key="s:1")
    edit(library, task, state="inbox")
    assert (
        update_task(library, task.id, {"state": "done"}, actor=WRITER, key="s:1").body.state
        == "inbox"
    )
    assert (
        refused(
            lambda: update_task(library, task.id, {"state": "review"}, actor=WRITER, key="s:1")
        ).code
        == "IDEMPOTENCY_REPLAY"
    )
    assert (
        refused(
            lambda: update_task(
                library, task.id, {"state": "done"}, actor=PERSON, version=first.version
            )
        ).code
        == "RECORD_CHANGED"
    )
    assert (
        refused(lambda: update_task(library, new_id(Task), {"state": "done"}, actor=PERSON)).code
        == "RECORD_UNKNOWN"
    )


# -- properties
# -------------------------------------------------------------------------------------------------


@given(st.sampled_from([Thread("T"), Task("T"), Artifact("T", evidence=EVIDENCE)]), st.data())
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_record_never_leaves_the_states_of_its_kind(
    library: Library, body: Body, data: st.DataObject
) -> None:
    states = (*spec_of(type(body)).states, "nonsense")
    record = make(library, body)
    for state in data.draw(st.lists(st.sampled_from(states), max_size=5)):
        before = now(library, record).body.state
        with suppress(InputError):
            edit(library, record, state=state)
        after = now(library, record).body.state
        assert after == before or after in spec_of(type(body)).moves[before]
    versions = library.store.records.versions(record.id)
    assert list(versions) == list(range(1, len(versions) + 1))


def test_retried_removal_is_harmless(library: Library) -> None:
    artifact = make(library, Artifact("A", "B", tags=("old",)))

    def untag(body: Artifact) -> Artifact:
        if "old" not in body.tags:
            raise InputError("ARGUMENT_INVALID", "there is no such tag")
        return replace(body, tags=())

    for _ in range(2):
        after = revise(
            library,
            artifact.id,
            untag,
            actor=PERSON,
            action="edit",
            key="job-1",
            payload="untag old",
        )
        assert (after.version, after.body.tags) == (2, ())


def test_evidence_of_an_acceptance_is_written_with_it_or_not_at_all(library: Library) -> None:
    artifact = make(library, Artifact("A", "B"))
    assert (
        accept_artifact(library, artifact.id, actor=PERSON, evidence=EVIDENCE).body.evidence
        == EVIDENCE
    )
    old = make(library, Artifact("C", "D"))
    deprecate_artifact(library, old.id, actor=PERSON)
    more = (Evidence("url", "https://example.com/more"),)
    assert (
        refused(lambda: accept_artifact(library, old.id, actor=PERSON, evidence=more)).code
        == "RECORD_INVALID"
    )
    found = library.store.records.one(old.id)
    assert found is not None and found.body.evidence == ()


def test_task_patch_can_be_computed_from_the_current_task(library: Library) -> None:
    task = make(library, Task("T", notes="One."))

    def add(word: str) -> None:
        update_task(library, task.id, lambda body: {"notes": f"{body.notes} {word}"}, actor=PERSON)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, ("Two.", "Three.", "Four.", "Five.")))
    found = library.store.records.one(task.id)
    assert found is not None and set(found.body.notes.split()) == {
        "One.",
        "Two.",
        "Three.",
        "Four.",
        "Five.",
    }
