"""Changing records: along the states of their kind, by who has seen the last version, with what
follows; and naming them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cortex.base.actors import person
from cortex.base.errors import CortexError, InputError
from cortex.base.record_model import (
    SENSITIVE,
    Actor,
    Artifact,
    Body,
    Comment,
    Evidence,
    Link,
    Observation,
    Record,
    RecordFilter,
    Subcortex,
    Task,
    Thread,
)
from cortex.base.record_spec import spec_of
from cortex.base.types import Mode, Query
from cortex.engine.library import Library
from cortex.families.team.ids import new_id
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes import update
from cortex.families.team.writes.actions import (
    accept_artifact,
    archive,
    deprecate_artifact,
    judge_link,
    pin,
    reopen_thread,
    resolve_thread,
    supersede_artifact,
    unpin,
    update_task,
)
from cortex.families.team.writes.create import create
from cortex.families.team.writes.update import revise

PERSON, AGENT, WRITER = person(), Actor("agent", 1), Actor("agent", 2)
EVIDENCE = (Evidence("url", "https://example.com/"),)


def refused(call: Callable[[], object]) -> CortexError:
    with pytest.raises(CortexError) as raised:
        call()
    return raised.value


def make(library: Library, body: Body, actor: Actor = PERSON) -> Record[Any]:
    return create(library, body, actor=actor)


def now(library: Library, record: Record[Any]) -> Record[Any]:
    found = library.store.records.one(record.id)
    assert found is not None
    return found


def edit(
    library: Library,
    record: Record[Any],
    actor: Actor = PERSON,
    version: int | None = None,
    **fields: object,
) -> Record[Any]:
    return revise(
        library,
        record.id,
        lambda body: replace(body, **fields),
        actor=actor,
        action="edit",
        version=version,
    )


def found_by(library: Library, text: str) -> list[str]:
    sources = library.store.records.sources(("thread", "comment"))
    return [hit.path for hit in library.search(Query(text, mode=Mode.WORDS), sources=sources).hits]


# -- naming
# ------------------------------------------------------------------------------------------------------------


def test_a_record_is_named_by_its_id_or_enough_of_it(library: Library) -> None:
    lookup = library.store.records
    scope, task = make(library, Subcortex("billing", "Billing")), make(library, Task("T"))
    for ref, kind in (
        (task.id, "task"),
        (task.id, ""),
        (task.id[:-3], ""),
        (task.id[5:-3].lower(), "task"),
        (f" {task.id} ", "task"),
    ):
        assert resolve_ref(lookup, ref, kind) == task, ref
    for ref, kind in (
        ("billing", ""),
        ("Billing", "subcortex"),
        (scope.id, ""),
        (scope.id[:-3], "subcortex"),
    ):
        assert resolve_ref(lookup, ref, kind) == scope, ref


def test_a_mistyped_id_is_told_with_the_one_that_is_spelled_like_it(library: Library) -> None:
    lookup = library.store.records
    meant, *_ = (make(library, Task(f"Task {number}")) for number in range(5))
    swapped = {"0": "1"}
    for place in (-1, -12, -20):
        typo = (
            meant.id[:place]
            + swapped.get(meant.id[place], "0")
            + (meant.id[place + 1 :] if place != -1 else "")
        )
        assert (
            refused(lambda typo=typo: resolve_ref(lookup, typo, "task"))
            .context["near"][0]
            .startswith(meant.id)
        )
    assert (
        "is no thread, its kind is task"
        in refused(lambda: resolve_ref(lookup, meant.id, "thread")).message
    )
    assert (
        "at least 8 characters" in refused(lambda: resolve_ref(lookup, "task_01", "task")).message
    )


def test_what_names_nothing_is_told_with_what_is_near(library: Library) -> None:
    lookup = library.store.records
    make(library, Subcortex("billing", "Billing"))
    task = make(library, Task("Paint it"))
    assert refused(lambda: resolve_ref(lookup, "biling", "subcortex")).context["near"] == [
        "billing"
    ]
    for ref, kind in (
        (task.id, "thread"),
        (task.id[:9], "task"),
        (new_id(Task), "task"),
        ("", "task"),
        ("%", ""),
        ("\ud800", ""),
        ("a\0b", "subcortex"),
    ):
        error = refused(lambda ref=ref, kind=kind: resolve_ref(lookup, ref, kind))
        assert error.code == "RECORD_UNKNOWN", ref
    assert "Paint it" in refused(lambda: resolve_ref(lookup, new_id(Task), "task")).message


def test_a_beginning_that_several_have_is_told_with_all(library: Library) -> None:
    several = [make(library, Task(f"T{number}")) for number in range(3)]
    shared = 0
    while len({one.id[: shared + 1] for one in several}) == 1:
        shared += 1
    if shared >= len("task_") + 8:
        error = refused(lambda: resolve_ref(library.store.records, several[0].id[:shared], "task"))
        assert error.code == "RECORD_UNKNOWN" and all(one.id in error.message for one in several)


# -- revising
# ----------------------------------------------------------------------------------------------------------


def test_a_change_is_a_new_version_and_the_old_one_stays(library: Library) -> None:
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


def test_a_change_that_changes_nothing_writes_nothing(library: Library) -> None:
    thread = make(library, Thread("T"))
    assert edit(library, thread, title=" T ") == thread


def test_a_change_for_another_version_is_refused(library: Library) -> None:
    thread = make(library, Thread("T"))
    edit(library, thread, title="U", version=1)
    error = refused(lambda: edit(library, thread, title="V", version=1))
    assert (error.code, error.context["version"], now(library, thread).body.title) == (
        "RECORD_CHANGED",
        2,
        "U",
    )


def test_changes_that_come_at_once_are_all_made(library: Library) -> None:
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


def test_the_same_key_changes_once(library: Library) -> None:
    task = make(library, Task("T"))

    def change(body: Task) -> Task:
        return replace(body, notes=body.notes + "x")

    for _ in range(2):
        revise(library, task.id, change, actor=PERSON, action="edit", key="s:1")
    assert now(library, task).body.notes == "x"


def test_only_who_may_edit_does(library: Library) -> None:
    thread, scope = make(library, Thread("T")), make(library, Subcortex("billing", "Billing"))
    assert refused(lambda: edit(library, thread, WRITER, title="U")).code == "RIGHTS_MISSING"
    assert (
        refused(lambda: edit(library, scope, Actor("lead", 3), name="U")).code == "RIGHTS_MISSING"
    )
    assert edit(library, thread, Actor("lead", 3), title="U").version == 2


def test_a_change_is_looked_at_like_something_new(library: Library) -> None:
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


def test_what_others_rely_on_stays(library: Library) -> None:
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


def test_a_comment_that_is_changed_changes_the_summary(library: Library) -> None:
    thread = make(library, Thread("How do we round?"))
    comment = make(library, Comment(thread.id, "We decided to round half to even."))
    edit(library, comment, body="We decided to round half up, because the law says so.")
    assert (
        "half up" in now(library, thread).body.summary
        and "even" not in now(library, thread).body.summary
    )


def test_comments_follow_their_thread_to_another_subcortex_however_many_they_are(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "_BATCH", 2)
    here, there = (make(library, Subcortex(slug, slug)).id for slug in ("here", "there"))
    thread = make(library, Thread("Lamps", subcortex=here))
    comments = [make(library, Comment(thread.id, f"Bulb {number} is dim.")) for number in range(5)]
    edit(library, thread, subcortex="there", title="Lanterns")
    assert {now(library, one).body.subcortex for one in comments} == {there}
    assert {one.id for one in comments} < set(found_by(library, "lanterns"))
    assert library.store.records.deeds(comments[0].id)[0].action == "move_comment"
    versions = [now(library, comment).version for comment in comments]
    edit(library, thread, title="Torches")
    assert {one.id for one in comments} < set(found_by(library, "torches"))
    assert [now(library, one).version for one in comments] == versions
    edit(library, thread, subcortex="")
    assert {now(library, one).body.subcortex for one in comments} == {""}


def test_a_summary_follows_what_its_thread_says_and_who_may_see_it(library: Library) -> None:
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


def test_comments_are_found_by_the_new_title_of_their_thread(library: Library) -> None:
    thread = make(library, Thread("Lamps"))
    comment = make(library, Comment(thread.id, "They are blue."))
    edit(library, thread, title="Lanterns")
    assert (
        set(found_by(library, "lanterns")) == {thread.id, comment.id}
        and found_by(library, "lamps") == []
    )
    assert now(library, comment).version == 1


def test_what_belongs_to_something_becomes_sensitive_with_it_and_stays_so(library: Library) -> None:
    scope = make(library, Subcortex("salaries", "Salaries"))
    thread = make(library, Thread("Raises", subcortex="salaries"))
    comment, other = (
        make(library, Comment(thread.id, "In March")),
        make(library, Thread("Elsewhere")),
    )
    told = make(library, Link(thread.id, "supports", other.id, "because of March"))
    mention = make(library, Comment(thread.id, "@lena look"))
    edit(library, scope, sensitivity=SENSITIVE)
    notifications = library.store.records.pointing([mention.id], ["about"])
    assert [
        notification.body.sensitivity for notification in (now(library, told), *notifications)
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


# -- states
# ------------------------------------------------------------------------------------------------------------


def test_an_artifact_is_accepted_with_evidence_by_who_may(library: Library) -> None:
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
    told = library.store.records.select(
        RecordFilter(kinds=("notification",), refs=(("recipient", "agent"),))
    )
    assert [one.body.type for one in told] == ["artifact_accepted"]


def test_accepting_supersedes_what_the_artifact_says(library: Library) -> None:
    old = make(library, Artifact("Old", state="accepted", evidence=EVIDENCE))
    new = make(library, Artifact("New", state="proposed", evidence=EVIDENCE, supersedes=old.id))
    accept_artifact(library, new.id, actor=PERSON)
    assert (now(library, old).body.state, now(library, old).body.superseded_by) == (
        "superseded",
        new.id,
    )


def test_superseding_is_told_in_both_and_never_goes_in_a_circle(library: Library) -> None:
    made = (
        Artifact(title, state="accepted", evidence=EVIDENCE) for title in ("One", "Two", "Three")
    )
    one, two, three = (make(library, body) for body in made)
    old = supersede_artifact(library, one.id, two.id, actor=PERSON, note="newer")
    assert (old.body.state, old.body.superseded_by, now(library, two).body.supersedes) == (
        "superseded",
        two.id,
        one.id,
    )
    (link,) = library.store.records.select(RecordFilter(kinds=("link",)))
    assert (link.body.source, link.body.target, link.body.note) == (two.id, one.id, "newer")
    supersede_artifact(library, two.id, three.id, actor=PERSON)
    for before, after in ((three, one), (three, three), (one, three)):
        error = refused(
            lambda before=before, after=after: supersede_artifact(
                library, before.id, after.id, actor=PERSON
            )
        )
        assert error.code == "RECORD_INVALID"
    assert (
        refused(lambda: supersede_artifact(library, three.id, two.id, actor=WRITER)).code
        == "RIGHTS_MISSING"
    )
    assert refused(lambda: edit(library, one, state="proposed")).code == "RECORD_INVALID"


def test_only_what_is_accepted_takes_the_place_of_another(library: Library) -> None:
    old, new = (
        make(library, Artifact("Old", state="accepted", evidence=EVIDENCE)),
        make(library, Artifact("New")),
    )
    for call in (
        lambda: supersede_artifact(library, old.id, new.id, actor=PERSON),
        lambda: make(library, Link(new.id, "supersedes", old.id)),
    ):
        error = refused(call)
        assert (error.code, error.context["accept"]) == ("RECORD_INVALID", new.id)
        assert "accept it first" in error.message
    assert (now(library, old), now(library, new)) == (old, new)
    accept_artifact(library, new.id, actor=PERSON, evidence=EVIDENCE)
    assert supersede_artifact(library, old.id, new.id, actor=PERSON).body.superseded_by == new.id


def test_an_artifact_that_is_superseded_may_still_be_put_in_order(library: Library) -> None:
    one, two = (
        make(library, Artifact("One")),
        make(library, Artifact("Two", state="accepted", evidence=EVIDENCE)),
    )
    supersede_artifact(library, one.id, two.id, actor=PERSON)
    assert edit(library, one, tags=("old",)).body.state == "superseded"
    assert refused(lambda: edit(library, two, supersedes="")).context["field"] == "supersedes"


def test_accepting_by_an_edit_is_accepting(library: Library) -> None:
    old = make(library, Artifact("Old"))
    new = make(library, Artifact("New", supersedes=old.id), WRITER)
    after = edit(library, new, state="accepted", evidence=EVIDENCE)
    assert after.body.last_reviewed and now(library, old).body.superseded_by == new.id


def test_what_an_edit_contradicts_is_kept_for_the_person_once(library: Library) -> None:
    make(library, Observation("Cache timeout", "The cache timeout is 30 seconds."))
    artifact = make(library, Artifact("Cache timeout", "The cache timeout is 30 seconds."))
    edit(library, artifact, tags=("cache",))
    wanted = RecordFilter(kinds=("link",), states=("candidate",))
    assert library.store.records.count(wanted) == 0
    edit(library, artifact, body="The cache timeout is 60 seconds.")
    edit(library, artifact, body="The cache timeout is 90 seconds.")
    assert library.store.records.count(wanted) == 1


def test_an_artifact_may_stop_to_hold(library: Library) -> None:
    artifact = make(library, Artifact("A", "Port 80."))
    after = deprecate_artifact(library, artifact.id, actor=PERSON, note="It is 443.")
    assert (after.body.state, after.body.body) == (
        "deprecated",
        "**Deprecated:** It is 443.\n\nPort 80.",
    )
    assert deprecate_artifact(library, artifact.id, actor=PERSON, note="Again.") == after
    assert library.store.records.deeds(artifact.id)[0].action == "deprecate_artifact"


def test_a_thread_is_resolved_reopened_and_archived(library: Library) -> None:
    thread = make(library, Thread("T"))
    resolved = resolve_thread(library, thread.id, "We round half to even.", actor=PERSON)
    assert (resolved.body.state, resolved.body.resolution) == ("resolved", "We round half to even.")
    assert found_by(library, "half even") == [thread.id]
    assert (
        refused(lambda: resolve_thread(library, thread.id, actor=WRITER)).code == "RIGHTS_MISSING"
    )
    assert reopen_thread(library, thread.id, actor=PERSON).body.state == "open"
    assert archive(library, thread.id, actor=PERSON).body.state == "archived"


def test_what_has_no_such_state_is_not_put_there(library: Library) -> None:
    for record in (
        make(library, Task("T")),
        make(library, Artifact("A")),
        make(library, Observation("O")),
    ):
        error = refused(lambda record=record: archive(library, record.id, actor=PERSON))
        assert (error.code, error.context["field"]) == ("RECORD_INVALID", "state")


def test_a_subcortex_that_is_archived_is_not_found_and_can_come_back(library: Library) -> None:
    scope = make(library, Subcortex("billing", "Billing"))
    assert archive(library, "billing", actor=PERSON, kind="subcortex").body.state == "archived"
    assert edit(library, scope, state="active").body.state == "active"


def test_pins_stand_in_the_order_they_were_made(library: Library) -> None:
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


def test_a_link_is_judged_by_who_may(library: Library) -> None:
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


def test_a_task_is_changed_field_by_field(library: Library) -> None:
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


def test_a_task_that_somebody_takes_from_the_inbox_is_assigned(library: Library) -> None:
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
def test_a_patch_says_what_a_task_has(library: Library, patch: dict[str, str], field: str) -> None:
    task = make(library, Task("T"))
    error = refused(lambda: update_task(library, task.id, patch, actor=PERSON))
    assert (error.code, error.context["field"]) == ("RECORD_INVALID", field) and now(
        library, task
    ) == task


def test_a_task_is_changed_by_who_may_once_for_a_key_and_for_the_version_it_was_made_for(
    library: Library,
) -> None:
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


# -- whatever is asked
# -------------------------------------------------------------------------------------------------


@given(st.sampled_from([Thread("T"), Task("T"), Artifact("T", evidence=EVIDENCE)]), st.data())
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_record_never_leaves_the_states_of_its_kind(
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


def test_a_retry_of_a_change_that_takes_something_away_is_harmless(library: Library) -> None:
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


def test_evidence_that_comes_with_an_acceptance_is_written_with_it_or_not_at_all(
    library: Library,
) -> None:
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


def test_a_patch_may_be_made_of_what_the_task_says_when_it_is_changed(library: Library) -> None:
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
