"""What a home can't bring about by changes that change nothing: it says of records what they never
were.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cortex.base.actors import person
from cortex.base.errors import InputError
from cortex.base.record_model import (
    NORMAL,
    SENSITIVE,
    Actor,
    Artifact,
    Comment,
    Draft,
    Evidence,
    Link,
    Notification,
    Observation,
    Subcortex,
    Task,
    Thread,
)
from cortex.engine.store.records.outbox import UPLOAD
from cortex.families.team.ids import new_id
from cortex.families.team.notification_texts import ACCEPTED, ASSIGNED, CHANGED, MENTIONED, SPOKE
from cortex.families.team.wire.codec import APPLIED, REFUSED
from cortex.families.team.writes import drafts
from cortex.families.team.writes.create import create
from cortex.families.team.writes.update import revise
from interfaces.team_server.team import Home, Team, acting, open_team, told


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with open_team(tmp_path) as team:
        yield team
        team.check()


@pytest.fixture
def ada(team: Team) -> Home:
    return team.home("ada")


def test_what_is_written_in_the_name_of_its_drafter_is_what_the_draft_became(team: Team, ada: Home):
    bob = team.home("bob", 3)
    draft, *_ = drafts.create_draft(
        ada.library, Draft("thread", "It", "is so"), actor=Actor("agent", 2)
    )
    ada.flush()
    bob.pull()
    drafts.approve(bob.library, draft.id, actor=person())
    [(_, action)] = bob.actions()
    decided = {
        change.id: replace(change, before=change.after) if change.kind == "draft" else change
        for change in action.changes
    }
    pretended = acting(*decided.values(), tier=2)
    assert team.accept(bob.principal, pretended).status == REFUSED, "nobody decided about it"
    assert set(team.records()) >= {draft.id} and not [
        record for record in team.records() if record.startswith("thread_")
    ]
    assert team.accept(bob.principal, action).status == APPLIED
    second = [
        replace(one, id=new_id(Thread)) if one.kind == "thread" else one for one in decided.values()
    ]
    claimed = [
        replace(
            one,
            before=replace(one.after, published=second[0].id),
            after=replace(one.after, published=second[0].id),
        )
        if isinstance(one.after, Draft)
        else one
        for one in second
    ]
    assert second[0].kind == "thread"
    assert team.accept(bob.principal, acting(*claimed, key="twice")).status == REFUSED, (
        "it became another one"
    )


def test_nobody_hears_of_what_was_not_done(team: Team, ada: Home):
    artifact, task, thread = (
        create(ada.library, body, actor=person()).id
        for body in (Artifact("a", state="proposed"), Task("t", assignees=("bob",)), Thread("x"))
    )
    ada.flush()
    low = team.home("low", 1)
    there = team.records()
    same = [
        told(one, there[one].body, there[one].body, author="low")
        for one in (artifact, task, thread)
    ]
    notices = [
        told(new_id(Notification), Notification(type, name, about, "x", reason), author="low")
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


def test_nobody_hears_that_something_is_accepted_that_is_not(team: Team):
    two = team.home("two", 3)
    proposed = told(new_id(Artifact), Artifact("a", state="proposed", owner="zoe"), author="two")
    body = Notification("artifact_accepted", "zoe", proposed.id, "a", ACCEPTED(name="two").text)
    notice = told(new_id(Notification), body, author="two")
    assert team.accept(two.principal, acting(proposed, notice)).status == APPLIED
    assert notice.id not in team.records() and proposed.id in team.records()


def test_what_is_hidden_since_is_not_told_of_by_what_would_supersede_it(team: Team, ada: Home):
    eve = team.home("eve", 3)
    evidence = (Evidence("url", "https://example.com/"),)
    hush = create(ada.library, Subcortex("hush", "Hush", visibility="private"), actor=person()).id
    old = create(
        ada.library, Artifact("old", state="accepted", evidence=evidence), actor=person()
    ).id
    ada.flush()
    proposed = Artifact("new", state="proposed", owner="eve", evidence=evidence, supersedes=old)
    new = told(new_id(Artifact), proposed, author="eve")
    assert team.accept(eve.principal, acting(new)).status == APPLIED
    revise(
        ada.library, old, lambda body: replace(body, subcortex=hush), actor=person(), action="edit"
    )
    body = Artifact("hidden", state="accepted", evidence=evidence, subcortex=hush, supersedes=old)
    hidden = create(ada.library, body, actor=person()).id
    assert {one.status for one in ada.flush()} == {APPLIED}
    late = told(new.id, replace(proposed, state="accepted"), proposed, author="eve")
    refused = team.accept(eve.principal, acting(late, key="late"))
    assert refused.error is not None and refused.error.code == "TARGET_NOT_FOUND"
    assert hidden not in refused.error.message + repr(refused.error.context)


def test_what_tells_of_something_sensitive_stays_so(team: Team, ada: Home):
    bob = team.home("bob", 2)
    thread = create(
        ada.library, Thread("Pay", body="@bob", sensitivity=SENSITIVE), actor=person()
    ).id
    other = create(ada.library, Thread("Lunch"), actor=person()).id
    ada.flush()
    (notice,) = [one for one in team.records().values() if one.kind == "notification"]
    link = told(new_id(Link), Link(thread, "supports", other), author="bob")
    draft = told(
        new_id(Draft), Draft("comment", "a", "b", target_kind="thread", target=thread), author="bob"
    )
    assert {
        team.accept(bob.principal, acting(one, key=one.id)).status for one in (link, draft)
    } == {APPLIED}
    for number in (notice.id, link.id, draft.id):
        record = team.records()[number]
        assert record.body.sensitivity == SENSITIVE
        freed = told(
            number, replace(record.body, sensitivity=NORMAL), record.body, author=record.author
        )
        team.accept(bob.principal, acting(freed, key=f"free {number}"))
        assert team.records()[number].body.sensitivity == SENSITIVE


def test_who_only_proposes_makes_nobody_else_stand_for_it(team: Team, ada: Home):
    zoe = team.home("zoe", 2)
    made = told(new_id(Artifact), Artifact("Runbook", owner="ada"), author="zoe")
    assert team.accept(zoe.principal, acting(made)).status == REFUSED
    with pytest.raises(InputError, match="may not edit"):
        create(ada.library, Artifact("Runbook", owner="bob"), actor=Actor("zoe", 2))
    own = replace(made, after=Artifact("Runbook", owner="zoe"))
    assert team.accept(zoe.principal, acting(own, key="own")).status == APPLIED


def test_nothing_is_older_than_any_clock_could_say(team: Team, ada: Home):
    made = replace(told(new_id(Observation), Observation("Seen")), created=1)
    (one,) = team.accept(ada.principal, acting(made)).records
    assert one.record.created > 1_700_000_000_000


@pytest.mark.parametrize(
    "name",
    ["ada\u200b", "\u2060ada", "\u0430da", "ADA", "console", "cortex", "eve/x", "zoe/x", "ada/"],
)
def test_nobody_writes_under_a_name_that_only_looks_like_anothers(team: Team, ada: Home, name: str):
    eve = team.home("eve", 3)
    seen = told(new_id(Observation), Observation("I said this"), author=name)
    assert team.accept(eve.principal, acting(seen, action=UPLOAD)).status == REFUSED
    seen = replace(seen, author="zoe/agent")  # of another Core, or of nobody here any more
    assert team.accept(eve.principal, acting(seen, action=UPLOAD, key="zoe")).status == APPLIED


def test_what_is_archived_takes_nothing_more_from_those_who_did_not_bring_it(team: Team, ada: Home):
    scope = create(ada.library, Subcortex("harbor", "Harbor"), actor=person()).id
    thread = create(ada.library, Thread("Over"), actor=person()).id
    for number in (scope, thread):
        revise(
            ada.library,
            number,
            lambda body: replace(body, state="archived"),
            actor=person(),
            action="edit",
        )
    assert {one.status for one in ada.flush()} == {APPLIED}
    bodies = (Comment(thread, "late"), Thread("late", subcortex=scope))
    for home, expected in ((team.home("bob", 3), REFUSED), (ada, APPLIED)):
        for body in bodies:
            late = told(new_id(type(body)), body, author=home.name)
            status = team.accept(home.principal, acting(late, action=UPLOAD, key=late.id)).status
            assert status == expected, body


def notice_for(team: Team, home: Home, **more: str) -> str:
    """The id of a notification that somebody has who is mentioned in a new thread."""
    create(home.library, Thread("Look", body="@bob", **more), actor=person())
    home.flush()
    (notice,) = [one.id for one in team.records().values() if one.kind == "notification"]
    return notice


def test_a_notification_may_be_done_and_as_sensitive_as_its_thread_in_one_change(
    team: Team, ada: Home
):
    bob = team.home("bob", 2)
    number = notice_for(team, ada)
    before = team.records()[number].body
    after = replace(before, state="done", sensitivity=SENSITIVE)
    changed = told(number, after, before, author="ada")
    assert team.accept(bob.principal, acting(changed, tier=2)).status == APPLIED
    assert team.records()[number].body == after


@pytest.mark.parametrize(
    "more", [{"reason": "other"}, {"title": "other"}, {"recipient": "ada"}, {"type": "inbox"}]
)
def test_of_a_notification_nothing_else_changes_with_its_state(team: Team, ada: Home, more):
    bob = team.home("bob", 4)
    number = notice_for(team, ada)
    before = team.records()[number].body
    changed = told(number, replace(before, state="done", **more), before, author="ada")
    assert team.accept(bob.principal, acting(changed)).status == REFUSED
    assert team.records()[number].body == before


@pytest.mark.parametrize("tier", [2, 3, 4])
def test_the_notification_of_another_is_closed_by_nobody_who_does_not_see_it(
    team: Team, ada: Home, tier: int
):
    team.home("bob", 2)
    number = notice_for(team, ada)
    before = team.records()[number].body
    done = told(number, replace(before, state="done"), before, author="ada")
    eve = team.home("eve", tier)
    assert team.accept(eve.principal, acting(done, tier=tier)).status == APPLIED
    assert team.records()[number].body.state == "new"


DAY_MS = 86_400_000
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def id_at(milliseconds: int) -> str:
    """The id of an observation that was made then."""
    digits = ""
    for _ in range(10):
        milliseconds, digit = divmod(milliseconds, 32)
        digits = CROCKFORD[digit] + digits
    return f"obs_{digits}{'0' * 15}1"


@pytest.mark.parametrize(("years", "status"), [(-20, APPLIED), (49, APPLIED), (51, REFUSED)])
def test_an_id_may_be_ahead_of_the_clock_by_fifty_years(
    team: Team, ada: Home, years: int, status: str
):
    number = id_at(int(time.time() * 1000) + years * 365 * DAY_MS)
    assert team.accept(ada.principal, acting(told(number, Observation("x")))).status == status


@pytest.mark.parametrize(
    ("created", "kept"),
    [
        (946_684_800_000, True),  # 2000-01-01T00:00:00Z
        (946_684_799_999, False),
        (1_700_000_000_000, True),
        (99_999_999_999_999, False),
    ],
)
def test_a_time_since_2000_and_not_after_now_is_believed(
    team: Team, ada: Home, created: int, kept: bool
):
    before = int(time.time() * 1000)
    change = told(new_id(Observation), Observation("x"), created=created)
    (one,) = team.accept(ada.principal, acting(change)).records
    if kept:
        assert one.record.created == created
    else:
        assert before <= one.record.created <= int(time.time() * 1000)


@pytest.mark.parametrize(
    ("tier", "action", "before", "status"),
    [
        (2, UPLOAD, False, REFUSED),
        (3, UPLOAD, False, APPLIED),
        (4, UPLOAD, False, APPLIED),
        (4, "edit", False, REFUSED),
        (4, "edit", True, REFUSED),
    ],
)
def test_others_are_named_by_an_upload_from_tier_3_on(
    team: Team, tier: int, action: str, before: bool, status: str
):
    home = team.home("bob", tier)
    body = Observation("Seen")
    seen = told(new_id(Observation), body, body if before else None, author="zoe")
    assert team.accept(home.principal, acting(seen, action=action, tier=tier)).status == status


def test_what_the_core_lost_is_made_again_by_its_author_and_by_nobody_else(team: Team):
    ada, eve = team.home("ada", 2), team.home("eve", 4)
    number, before = new_id(Thread), Thread("x")
    for home, author, status in (
        (eve, "ada", REFUSED),
        (ada, "ada", APPLIED),
        (ada, "ada/agent", APPLIED),
    ):
        lost = told(number, replace(before, title="y"), before, author=author)
        assert team.accept(home.principal, acting(lost, key=f"{home.name}/{author}")).status == (
            status
        )
        number = new_id(Thread) if status == APPLIED else number


def test_what_is_made_again_is_the_same_only_where_its_author_makes_it(team: Team, ada: Home):
    number = create(ada.library, Thread("x"), actor=person()).id
    ada.flush()
    other = told(number, Thread("y"))
    assert team.accept(ada.principal, acting(other, key="own")).status == APPLIED
    assert team.records()[number].body.title == "x"
    assert team.accept(ada.principal, acting(other, action=UPLOAD, key="up")).status == REFUSED
    bob = team.home("bob", 4)
    forged = replace(other, author="bob")
    assert team.accept(bob.principal, acting(forged, key="bobs")).status == REFUSED
    assert team.accept(bob.principal, acting(other, key="adas")).status == REFUSED
    assert team.records()[number].body.title == "x"
