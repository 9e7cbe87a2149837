"""Notifications among changes: delivered with their change only, closed by their recipient."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cortex.base.actors import person
from cortex.base.record_model import (
    SENSITIVE,
    Artifact,
    Comment,
    Notification,
    Observation,
    RecordFilter,
    Task,
    Thread,
)
from cortex.families.team.ids import new_id
from cortex.families.team.inbox import acknowledge
from cortex.families.team.notification_texts import ACCEPTED, ASSIGNED, CHANGED, MENTIONED, SPOKE
from cortex.families.team.wire.codec import APPLIED, REFUSED
from cortex.families.team.writes.create import create
from interfaces.team_server.apply.conftest import code_of, made, refused
from interfaces.team_server.team import Home, Team, acting, record_change


def test_notification_without_its_change_is_refused(team, ada):
    thread = made(ada, Thread("x"))
    tell = record_change(
        new_id(Notification),
        Notification("mention", "bob", thread, "x", "ada mentioned you in a thread"),
    )
    assert refused(team, ada, tell) == "RECORD_INVALID"
    elsewhere = record_change(new_id(Observation), Observation("y"))
    assert refused(team, ada, elsewhere, tell) == "RECORD_INVALID"
    alert = replace(tell, after=replace(tell.after, type="system_alert"))
    comment = record_change(new_id(Comment), Comment(thread, "said"))
    assert refused(team, ada, comment, alert) == "RECORD_INVALID"
    assert team.accept(ada.principal, acting(comment, tell)).status == APPLIED
    reader = team.home("rae", 0)
    same = team.records()[thread].body
    late = replace(tell, id=new_id(Notification), author="rae")
    assert refused(team, reader, record_change(thread, same, same), late) == "RIGHTS_MISSING"


def test_notification_with_a_made_up_text_is_dropped(team, ada, bob):
    task, artifact = (
        made(ada, Task("x", assignees=("bob",))),
        made(ada, Artifact("a", state="draft")),
    )
    edit = record_change(task, Task("y", assignees=("bob",)), team.records()[task].body)
    due = [
        ("mention", "zoe", MENTIONED(name="ada", what="a task").text),
        ("task_assigned", "bob", ASSIGNED(name="ada").text),
        ("task_update", "bob", CHANGED(role="assigned to you", changes="new notes").text),
    ]
    strange = [
        ("mention", "zoe", "Your token expires: run this command"),
        ("mention", "zoe", MENTIONED(name="ada", what="a task. Call me").text),
        ("mention", "zoe", MENTIONED(name="carol", what="a task").text),
        ("task_assigned", "zoe", ASSIGNED(name="ada").text),
        ("task_update", "zoe", CHANGED(role="that you follow", changes="call me").text),
        ("artifact_accepted", "zoe", ACCEPTED(name="ada").text),
        ("review_needed", "zoe", "a possible contradiction waits for your judgement: call me"),
    ]
    notices = [
        record_change(new_id(Notification), Notification(type, name, task, "Call me", reason))
        for type, name, reason in (*due, *strange)
    ]
    assert team.accept(ada.principal, acting(edit, *notices)).status == APPLIED
    heard = [
        record.body
        for record in team.records().values()
        if record.id in {notice.id for notice in notices}
    ]
    assert sorted(
        (notification.type, notification.recipient, notification.reason) for notification in heard
    ) == sorted(due)
    assert {notification.title for notification in heard} == {"y"}
    alert = Notification("system_alert", "ada", artifact, "a", "b")
    low = team.home("low", 1)
    sent = record_change(new_id(Notification), alert, author="low")
    assert refused(team, low, sent, action="upload") == "RECORD_INVALID"
    dropped = team.accept(
        low.principal, acting(replace(sent, after=replace(alert, type="mention")), action="upload")
    )
    assert dropped.status == APPLIED and sent.id not in team.records()


def test_notification_about_an_unchanged_record_is_dropped(team: Team, ada: Home):
    artifact, task, thread = (
        create(ada.library, body, actor=person()).id
        for body in (Artifact("a", state="proposed"), Task("t", assignees=("bob",)), Thread("x"))
    )
    ada.flush()
    low = team.home("low", 1)
    there = team.records()
    same = [
        record_change(ref, there[ref].body, there[ref].body, author="low")
        for ref in (artifact, task, thread)
    ]
    notices = [
        record_change(
            new_id(Notification), Notification(type, name, about, "x", reason), author="low"
        )
        for type, name, about, reason in (
            ("artifact_accepted", "ada", artifact, ACCEPTED(name="low").text),
            ("task_assigned", "bob", task, ASSIGNED(name="low").text),
            ("task_update", "bob", task, CHANGED(role="assigned to you", changes="call me").text),
            ("mention", "bob", thread, MENTIONED(name="ada", what="a thread").text),
            ("thread_update", "ada", thread, SPOKE(name="low").text),
        )
    ]
    assert team.accept(low.principal, acting(*same, *notices)).status == APPLIED
    assert not team.records().keys() & {notice.id for notice in notices}


def test_acceptance_notification_of_a_proposed_artifact_is_dropped(team: Team):
    two = team.home("two", 3)
    proposed = record_change(
        new_id(Artifact), Artifact("a", state="proposed", owner="zoe"), author="two"
    )
    body = Notification("artifact_accepted", "zoe", proposed.id, "a", ACCEPTED(name="two").text)
    notice = record_change(new_id(Notification), body, author="two")
    assert team.accept(two.principal, acting(proposed, notice)).status == APPLIED
    assert notice.id not in team.records() and proposed.id in team.records()


def test_notification_is_closed_only_by_its_recipient(team, ada, bob):
    thread = made(ada, Thread("x", "@bob look, @zoe too"))
    zoe = team.home("zoe", 2)
    for home in (bob, zoe):
        home.pull()
    [mine] = zoe.library.store.records.select(RecordFilter(kinds=("notification",)))
    assert mine.body.recipient == "person" and mine.body.reason == "ada mentioned you in a thread"
    acknowledge(zoe.library, [mine.id], actor=person())
    assert [code_of(outcome) for outcome in zoe.flush()] == [APPLIED]
    [others] = [
        record
        for record in team.records().values()
        if getattr(record.body, "recipient", "") == "bob"
    ]
    done = replace(others.body, state="done")
    zoes = team.accept(zoe.principal, acting(record_change(others.id, done, others.body)))
    assert zoes.status == APPLIED and team.records()[others.id].body.state == "new", (
        "it isn't there for her"
    )
    edited = replace(others.body, reason="something else")
    assert refused(team, bob, record_change(others.id, edited, others.body)) == "RECORD_INVALID"
    assert (
        team.accept(bob.principal, acting(record_change(others.id, done, others.body))).status
        == APPLIED
    )
    assert team.records()[others.id].body.state == "done" and thread in team.records()


def notice_for(team: Team, home: Home, **more: str) -> str:
    """The id of the notification that bob has because a new thread mentions him."""
    create(home.library, Thread("Look", body="@bob", **more), actor=person())
    home.flush()
    (notice,) = [record.id for record in team.records().values() if record.kind == "notification"]
    return notice


def test_notification_can_be_closed_and_made_sensitive_in_one_change(team: Team, ada: Home):
    bob = team.home("bob", 2)
    number = notice_for(team, ada)
    before = team.records()[number].body
    after = replace(before, state="done", sensitivity=SENSITIVE)
    changed = record_change(number, after, before, author="ada")
    assert team.accept(bob.principal, acting(changed, tier=2)).status == APPLIED
    assert team.records()[number].body == after


@pytest.mark.parametrize(
    "more", [{"reason": "other"}, {"title": "other"}, {"recipient": "ada"}, {"type": "inbox"}]
)
def test_notification_changes_nothing_but_its_state(team: Team, ada: Home, more):
    bob = team.home("bob", 4)
    number = notice_for(team, ada)
    before = team.records()[number].body
    changed = record_change(number, replace(before, state="done", **more), before, author="ada")
    assert team.accept(bob.principal, acting(changed)).status == REFUSED
    assert team.records()[number].body == before


@pytest.mark.parametrize("tier", [2, 3, 4])
def test_notification_of_another_is_not_closed_by_a_home_that_cannot_see_it(
    team: Team, ada: Home, tier: int
):
    team.home("bob", 2)
    number = notice_for(team, ada)
    before = team.records()[number].body
    done = record_change(number, replace(before, state="done"), before, author="ada")
    eve = team.home("eve", tier)
    assert team.accept(eve.principal, acting(done, tier=tier)).status == APPLIED
    assert team.records()[number].body.state == "new"


def test_notification_is_as_sensitive_as_its_subject(team, ada):
    thread = made(ada, Thread("x", sensitivity=SENSITIVE))
    comment = record_change(new_id(Comment), Comment(thread, "said"))
    tell = record_change(
        new_id(Notification),
        Notification("thread_update", "bob", thread, "x", SPOKE(name="ada").text),
    )
    assert team.accept(ada.principal, acting(comment, tell)).status == APPLIED
    assert {team.records()[change.id].body.sensitivity for change in (comment, tell)} == {SENSITIVE}
