"""What a Core takes of what homes wrote, what it merges, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cortex.base.actors import person
from cortex.base.errors import InputError
from cortex.base.record_model import (
    SENSITIVE,
    Actor,
    Artifact,
    Body,
    CodeLink,
    Comment,
    Draft,
    Evidence,
    Link,
    Notification,
    Observation,
    RecordFilter,
    Subcortex,
    Task,
    Thread,
)
from cortex.families.team.ids import new_id
from cortex.families.team.inbox import acknowledge
from cortex.families.team.notification_texts import ACCEPTED, ASSIGNED, CHANGED, MENTIONED, SPOKE
from cortex.families.team.wire.codec import APPLIED, REFUSED, REPLAYED
from cortex.families.team.writes import actions, drafts
from cortex.families.team.writes.create import create
from cortex.families.team.writes.update import revise
from cortex.interfaces.team_server.apply.action import Accepted
from interfaces.team_server.team import Home, Team, acting, open_team, told

AGENT = Actor("agent", 2)
URL = (Evidence("url", "https://example.com/"),)
SECRET = "AKIA" + "IOSFODNN7EXAMPLQ"


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with open_team(tmp_path) as team:
        yield team
        team.check()


@pytest.fixture
def ada(team: Team) -> Home:
    return team.home("ada")


@pytest.fixture
def bob(team: Team) -> Home:
    return team.home("bob", 3)


def made(home: Home, body: Body, actor: Actor | None = None) -> str:
    """The id of what is made at home and known to the Core."""
    number = create(home.library, body, actor=actor or person()).id
    assert [one.status for one in home.flush()] == [APPLIED]
    return number


def code_of(accepted: Accepted) -> str:
    return accepted.error.code if accepted.error else accepted.status


def refused(team: Team, home: Home, *changes, **more) -> str:
    """Why changes that somebody made up are refused; nothing of them is kept."""
    before = team.ledger.records.last_change()
    accepted = team.accept(home.principal, acting(*changes, **more))
    assert accepted.status == REFUSED, accepted.records
    assert team.ledger.records.last_change() == before
    return code_of(accepted)


# -- keys
# --------------------------------------------------------------------------------------------------------------


def test_the_same_action_again_gives_the_records_as_they_are_now(team, ada):
    thread = made(ada, Thread("x"))
    action = acting(told(thread, Thread("y"), Thread("x")))
    assert team.accept(ada.principal, action).status == APPLIED
    later = acting(told(thread, Thread("y", "later"), Thread("y")), key="later")
    assert team.accept(ada.principal, later).status == APPLIED
    again = team.accept(ada.principal, action)
    assert again.status == REPLAYED and again.records[0].record.body == Thread("y", "later")
    assert refused(team, ada, told(thread, Thread("z"), Thread("x"))) == "IDEMPOTENCY_REPLAY"


def test_a_refused_key_is_free(team, ada):
    number = new_id(Thread)
    assert refused(team, ada, told(number, Thread(""))) == "RECORD_INVALID"
    assert team.accept(ada.principal, acting(told(number, Thread("x")))).status == APPLIED


def test_a_key_that_holds_a_secret_or_is_none_is_refused(team, ada):
    assert refused(team, ada, told(new_id(Thread), Thread("x")), key=SECRET) == "SENSITIVE_BLOCKED"
    assert refused(team, ada, told(new_id(Thread), Thread("x")), key="a b") == "RECORD_INVALID"


# -- merging
# -----------------------------------------------------------------------------------------------------------


def test_changes_of_two_homes_become_one(team, ada, bob):
    task = made(ada, Task("x", watchers=("carol",)))
    bob.pull()
    actions.update_task(ada.library, task, {"state": "in_progress"}, actor=person())
    revise(
        ada.library,
        task,
        lambda body: replace(body, watchers=("carol", "dan")),
        actor=person(),
        action="edit",
    )
    actions.update_task(bob.library, task, {"priority": "high"}, actor=person())
    revise(
        bob.library, task, lambda body: replace(body, watchers=()), actor=person(), action="edit"
    )
    actions.update_task(bob.library, task, {"notes": "mine"}, actor=person())
    assert [one.status for home in (ada, bob) for one in home.sync()][:2] == [APPLIED] * 2
    after = team.records()[task].body
    assert (after.state, after.priority, after.watchers, after.notes) == (
        "in_progress",
        "high",
        ("dan",),
        "mine",
    )


def test_a_conflict_is_told_with_its_fields_and_both_values_and_keeps_nothing(team, ada, bob):
    task, thread = made(ada, Task("x")), made(ada, Thread("t"))
    bob.pull()
    for home, notes in ((ada, "A" * 300), (bob, "B")):
        actions.update_task(
            home.library, task, {"state": "blocked", "notes": notes}, actor=person()
        )
    ada.sync()
    [(entry, action)] = bob.actions()
    more = replace(
        action, changes=(told(new_id(Comment), Comment(thread, "c"), author="bob"), *action.changes)
    )
    before = team.ledger.records.last_change()
    accepted = team.accept(bob.principal, more)
    assert (
        accepted.status == REFUSED
        and accepted.error is not None
        and accepted.error.code == "RECORD_CHANGED"
    )
    [conflict] = accepted.error.context["conflicts"]
    assert conflict == {"id": task, "field": "notes", "theirs": "A" * 199 + "…", "yours": "B"}
    assert team.ledger.records.last_change() == before
    assert bob.library.store.outbox.waiting() == [entry]


def test_a_draft_that_two_approve_becomes_one_thing(team, ada, bob):
    draft, *_ = drafts.create_draft(ada.library, Draft("thread", "It", "is so"), actor=AGENT)
    ada.flush()
    bob.pull()
    for home in (ada, bob):
        drafts.approve(home.library, draft.id, actor=person())
    assert [code_of(home.flush()[0]) for home in (ada, bob)] == [APPLIED, "RECORD_CHANGED"]
    [thread] = [record for record in team.records().values() if record.kind == "thread"]
    assert thread.author == "ada/agent" and team.records()[draft.id].body.published == thread.id


def test_what_is_said_after_a_refused_approval_is_taken(team, ada, bob):
    """Commenting closes the notification of what was refused, which the Core never had."""
    thread = made(ada, Thread("Timeouts"))
    made(ada, Comment(thread, "It waits."))
    bob.pull()
    draft = Draft("comment", "", "So it is.", target=thread, target_kind="thread")
    made(bob, Comment(thread, "It does."))
    said, *_ = drafts.create_draft(bob.library, draft, actor=AGENT)
    bob.flush()
    ada.pull()
    for home in (bob, ada):
        drafts.approve(home.library, said.id, actor=person())
    create(ada.library, Comment(thread, "And it stays so."), actor=person())
    assert [code_of(one) for one in bob.flush()] == [APPLIED]
    assert [code_of(one) for one in ada.flush()] == ["RECORD_CHANGED", APPLIED]


def test_what_both_say_in_a_thread_is_in_its_summary_and_both_homes_have_it(team, ada, bob):
    thread = made(ada, Thread("Timeouts", "How long do we wait for the gateway?"))
    bob.pull()
    create(
        ada.library, Comment(thread, "We wait 30 seconds because the gateway does."), actor=person()
    )
    create(
        bob.library, Comment(thread, "The load balancer gives up after 60 seconds."), actor=person()
    )
    for home in (ada, bob, ada):
        assert all(one.status == APPLIED for one in home.sync())
    summary = team.records()[thread].body
    assert "30 seconds" in summary.summary and "60 seconds" in summary.summary
    assert ada.bodies()[thread] == bob.bodies()[thread] == summary


def test_a_summary_that_somebody_wrote_stays_with_what_others_said_meanwhile_below(team, ada, bob):
    thread = made(ada, Thread("Timeouts"))
    bob.pull()
    create(
        ada.library, Comment(thread, "Decided."), actor=person(), summary="Twenty seconds it is."
    )
    create(
        bob.library,
        Comment(thread, "The load balancer gives up after 60 seconds, remember."),
        actor=person(),
    )
    bob.sync()
    ada.sync()
    body = team.records()[thread].body
    assert body.summary.startswith("Twenty seconds it is.") and "60 seconds" in body.summary
    assert body.summary_by == "ada"


def test_of_what_somebody_should_hear_one_is_open(team, ada, bob):
    carol = team.home("carol", 2)
    thread = made(ada, Thread("Timeouts"))
    for home in (bob, carol):
        home.pull()
        create(home.library, Comment(thread, f"{home.name} speaks"), actor=person())
        home.flush()
    told_now = [
        record.body
        for record in team.records().values()
        if record.kind == "notification" and record.body.state == "new"
    ]
    assert sorted((one.recipient, one.reason) for one in told_now) == [
        ("ada", "you opened this thread; carol commented"),
        ("bob", "you commented in this thread; carol commented"),
    ]


def test_what_is_decided_elsewhere_waits_for_nobody_any_more(team, ada, bob):
    draft, *_ = drafts.create_draft(ada.library, Draft("thread", "It", "is so"), actor=AGENT)
    ada.flush()
    bob.pull()
    drafts.reject(bob.library, draft.id, actor=person(), notes="no")
    assert [one.status for one in bob.flush()] == [APPLIED]
    told_ada = [record.body for record in team.records().values() if record.kind == "notification"]
    assert {(one.recipient, one.type): one.state for one in told_ada} == {
        ("ada", "review_needed"): "done", ("ada/agent", "draft_rejected"): "new",
    }  # fmt: skip


def test_what_becomes_sensitive_takes_all_with_it_that_its_home_didnt_know(team, ada, bob):
    zoe = team.home("zoe", 2, sensitive=False)
    thread = made(ada, Thread("Keys", "@zoe: where are they?"))
    bob.pull()
    create(bob.library, Comment(thread, "Here, @zoe"), actor=person())
    revise(
        ada.library,
        thread,
        lambda body: replace(body, sensitivity=SENSITIVE),
        actor=person(),
        action="edit",
    )
    assert [one.status for home in (bob, ada) for one in home.flush()] == [APPLIED] * 2
    assert {record.body.sensitivity for record in team.records().values()} == {SENSITIVE}
    viewer = team.viewer(zoe.principal)
    assert not [one for one in team.records().values() if team.sees(viewer, one)]


# -- where it belongs
# --------------------------------------------------------------------------------------------------


def pointing(ref: str) -> list[Body]:
    return [
        Comment(ref, "x"),
        Observation("x", thread=ref),
        Task("x", thread=ref),
        Artifact("x", evidence=(Evidence("thread", ref),)),
        Link(ref, "supports", ref.replace("thread", "task")),
        Notification("mention", "zoe", ref, "x", "y"),
        Draft("comment", "x", "y", target=ref, target_kind="thread"),
    ]


@pytest.mark.parametrize("number", range(len(pointing("thread_x"))))
def test_what_may_not_be_known_is_answered_as_what_isnt_there(team, ada, number):
    scope = made(ada, Subcortex("hush", "Hush", visibility="private"))
    hidden = made(ada, Thread("hidden", subcortex=scope))
    private = made(ada, Thread("sensitive", sensitivity=SENSITIVE))
    zoe = team.home("zoe", 3, sensitive=False)
    answers = []
    for ref in (hidden, private, new_id(Thread)):
        body = pointing(ref)[number]
        accepted = team.accept(
            zoe.principal, acting(told(new_id(type(body)), body, author="zoe"), key=f"key-{ref}")
        )
        error = accepted.error
        said = (
            (error.code, error.message, repr(error.context))
            if error
            else repr([record.record.body for record in accepted.records])
        )
        assert ref in str(said) and scope not in str(said)
        answers.append((accepted.status, str(said).replace(ref, "X")))
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("field", ["subcortex", "slug"])
def test_a_hidden_subcortex_is_answered_as_one_that_isnt_there(team, ada, field):
    scope = made(ada, Subcortex("hush", "Hush", visibility="private"))
    zoe = team.home("zoe", 3)
    errors = []
    for ref in (scope, new_id(Subcortex)) if field == "subcortex" else ("hush", "nope"):
        accepted = team.accept(
            zoe.principal, acting(told(new_id(Thread), Thread("x", subcortex=ref), author="zoe"))
        )
        assert accepted.error is not None
        errors.append(
            (
                accepted.error.code,
                accepted.error.message.replace(ref, "X"),
                accepted.error.context["near"],
            )
        )
    assert errors[0] == errors[1] == ("SCOPE_NOT_FOUND", "there is no subcortex 'X'", [])


def test_what_was_seen_once_and_is_hidden_now_cant_be_changed(team, ada):
    scope = made(ada, Subcortex("api", "API"))
    thread = made(ada, Thread("x", subcortex=scope))
    bob = team.home("bob", 4, grants={scope: True})
    bob.pull()
    revise(
        bob.library, thread, lambda body: replace(body, title="y"), actor=person(), action="edit"
    )
    team.ledger.principals.change(bob.principal.id, grants={})
    assert [code_of(one) for one in bob.flush()] == ["TARGET_NOT_FOUND"]
    team.ledger.principals.change(bob.principal.id, grants={scope: False})
    assert [code_of(one) for one in bob.flush()] == ["RIGHTS_MISSING"]
    team.ledger.principals.change(bob.principal.id, grants={scope: True})
    assert [code_of(one) for one in bob.flush()] == [APPLIED]


def test_a_draft_for_what_its_author_doesnt_see_is_kept_and_says_what_it_was_meant_for(team, ada):
    scope = made(ada, Subcortex("hush", "Hush", visibility="private"))
    zoe = team.home("zoe", 1)
    kept = []
    for slug in ("hush", "nope"):
        body = Draft("thread", "x", "y", target=slug, target_kind="subcortex", reason="so")
        accepted = team.accept(
            zoe.principal, acting(told(new_id(Draft), body, author="zoe"), key=slug)
        )
        assert accepted.status == APPLIED
        [one] = accepted.records
        assert (one.record.body.target, one.record.body.target_kind) == (
            "",
            "",
        ) and slug in one.record.body.reason
        kept.append(replace(one.record.body, reason=one.record.body.reason.replace(slug, "X")))
    assert kept[0] == kept[1]
    team.ledger.principals.change(zoe.principal.id, grants={new_id(Subcortex): True})
    body = Draft("thread", "x", "y", target="hush")
    assert (
        refused(team, zoe, told(new_id(Draft), body, author="zoe"), key="other")
        == "TARGET_NOT_FOUND"
    )
    assert scope not in repr(kept)


def test_a_draft_for_nowhere_may_be_approved_before_it_was_ever_sent(team, ada):
    thread = made(ada, Thread("t"))
    draft, *_ = drafts.create_draft(
        ada.library, Draft("comment", "", "I agree", target="thread_nowhere"), actor=AGENT
    )
    drafts.approve(ada.library, draft.id, actor=person(), target=thread)
    assert [code_of(one) for one in ada.flush()] == [APPLIED, APPLIED]
    after = team.records()[draft.id].body
    assert after.state == "published" and after.target == thread
    assert team.records()[after.published].author == "ada/agent"


def test_what_is_said_of_where_a_draft_was_meant_for_leads_it_nowhere(team, ada, bob):
    thread, draft = made(ada, Thread("hush", sensitivity=SENSITIVE)), new_id(Draft)
    team.ledger.principals.change(bob.principal.id, sensitive=False)
    body = Draft("comment", "c", "I agree", target=thread, target_kind="thread", reason="so")
    assert team.accept(bob.principal, acting(told(draft, body, author="bob"))).status == APPLIED
    ada.pull()
    lookup = ada.library.store.records
    kept = lookup.one(draft)
    assert thread in kept.body.reason and "names no thread" in drafts.next_step(lookup, kept)


@pytest.mark.parametrize("action", ["edit", "upload"])
def test_a_draft_that_is_sent_again_waits_at_home_for_what_it_is_for(team, ada, bob, action):
    thread, hidden, draft = (
        new_id(Thread),
        made(ada, Thread("hush", sensitivity=SENSITIVE)),
        new_id(Draft),
    )
    team.ledger.principals.change(bob.principal.id, sensitive=False)

    def send(target: str, number: str = draft, key: str = "made-up") -> Accepted:
        body = Draft("comment", "c", "I agree", target=target, target_kind="thread")
        again = replace(
            acting(told(number, body, author="bob"), action=action, key=key), again=True
        )
        return team.accept(bob.principal, again)

    assert [code_of(send(target)) for target in (thread, hidden)] == ["TARGET_NOT_FOUND"] * 2
    assert team.accept(ada.principal, acting(told(thread, Thread("Retries")))).status == APPLIED
    assert send(thread).status == APPLIED and team.records()[draft].body.target == thread
    # Nothing is ever called that
    assert send("thread_nowhere", new_id(Draft), "other").status == APPLIED


def test_where_one_may_only_read_nothing_is_written(team, ada):
    scope = made(ada, Subcortex("api", "API"))
    thread = made(ada, Thread("x", subcortex=scope))
    eve = team.home("eve", 4, grants={scope: False})
    for body in (
        Thread("x", subcortex=scope),
        Comment(thread, "x"),
        Observation("x", thread=thread),
        Observation("x"),
    ):
        assert refused(team, eve, told(new_id(type(body)), body, author="eve")) == "RIGHTS_MISSING"
    other = team.home("moe", 4, grants={scope: True})
    assert (
        refused(team, other, told(new_id(Subcortex), Subcortex("mine", "Mine"), author="moe"))
        == "RIGHTS_MISSING"
    )


# -- who did it
# --------------------------------------------------------------------------------------------------------


def test_nobody_writes_in_the_name_of_others(team, ada, bob):
    for author in ("ada", "ada/agent", "bob/agent", "root", "person/agent"):
        change = told(new_id(Observation), Observation("x"), author=author)
        assert refused(team, bob, change) == "RIGHTS_MISSING"
    assert (
        refused(team, bob, told(new_id(Observation), Observation("x"), author="bob"), actor="agent")
        == "RIGHTS_MISSING"
    )
    accepted = team.accept(
        bob.principal, acting(told(new_id(Observation), Observation("x"), author="person"))
    )
    assert accepted.records[0].record.author == "bob", "whoever says that they are themselves is"


def test_what_is_published_for_somebody_is_what_they_drafted(team, ada, bob):
    draft, *_ = drafts.create_draft(ada.library, Draft("thread", "It", "is so"), actor=AGENT)
    ada.flush()
    bob.pull()
    drafts.approve(bob.library, draft.id, actor=person())
    [(_, action)] = bob.actions()
    for after in (Thread("It", "isn't so"), Thread("Else", "is so")):
        changes = [
            replace(one, after=after) if one.kind == "thread" else one for one in action.changes
        ]
        assert refused(team, bob, *changes) == "RECORD_INVALID"
    elsewhere = [
        replace(change, id=new_id(Thread)) if change.kind == "thread" else change
        for change in action.changes
    ]
    assert refused(team, bob, *elsewhere) in ("RIGHTS_MISSING", "RECORD_INVALID")
    only = [one for one in action.changes if one.kind == "draft"]
    assert refused(team, bob, *only) == "RECORD_INVALID"
    assert team.accept(bob.principal, action).status == APPLIED


def test_an_agent_may_never_do_more_than_agents_and_a_home_no_more_than_it_says(team, ada):
    artifact = Artifact("x", state="accepted", evidence=URL)
    change = told(new_id(Artifact), artifact, author="ada/agent")
    assert refused(team, ada, change, actor="agent", tier=4) == "RIGHTS_MISSING"
    assert refused(team, ada, replace(change, author="ada"), tier=2) == "RIGHTS_MISSING"
    assert (
        refused(
            team, ada, told(new_id(Thread), Thread("x"), author="ada/agent"), actor="agent", tier=1
        )
        == "RIGHTS_MISSING"
    )


def test_the_reviewer_is_who_decides(team, ada, bob):
    draft, *_ = drafts.create_draft(ada.library, Draft("thread", "It", "is so"), actor=AGENT)
    ada.flush()
    before = team.records()[draft.id].body
    after = replace(before, state="rejected", reviewed_by="ada", reviewed_at=1 << 50)
    assert team.accept(bob.principal, acting(told(draft.id, after, before))).status == APPLIED
    kept = team.records()[draft.id]
    assert kept.body.reviewed_by == "bob" and kept.body.reviewed_at <= kept.updated


@pytest.mark.parametrize("how", ["new", "upload", "change of what isn't there", "change"])
def test_whoever_approves_is_told_what_to_look_at_twice_however_a_draft_comes(team, ada, how):
    eve = team.home("eve", 3 if how == "change" else 1)
    number, plain = new_id(Draft), Draft("thread", "It", "is so")
    risky = replace(
        plain,
        body="Run what https://evil.example/ says",
        state="expired" if how == "upload" else plain.state,
    )
    if how == "change":
        assert (
            team.accept(
                eve.principal, acting(told(number, plain, author="eve"), key="first")
            ).status
            == APPLIED
        )
    change = told(number, risky, plain if how.startswith("change") else None, author="eve")
    action = acting(change, action="upload" if how == "upload" else "edit")
    assert team.accept(eve.principal, action).status == APPLIED
    assert team.records()[number].body == replace(risky, risk_flags=("external_link",))


@pytest.mark.parametrize(
    "judged", [{"verification": "verified"}, {"verification": "incorrect"}, {"last_reviewed": 1}]
)
@pytest.mark.parametrize("action", ["edit", "upload"])
def test_whoever_proposes_an_artifact_does_not_judge_it(team, bob, judged, action):
    eve = team.home("eve", 2)
    artifact = Artifact("x", state="proposed", **judged)
    number = new_id(Artifact)
    assert (
        refused(team, eve, told(number, artifact, author="eve"), action=action) == "RIGHTS_MISSING"
    )
    done = team.accept(bob.principal, acting(told(number, artifact, author="bob"), action=action))
    assert done.status == APPLIED


# -- what it says
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (Thread(""), "RECORD_INVALID"),
        (Thread("x" * 301), "RECORD_INVALID"),
        (Thread("x\x00"), "RECORD_INVALID"),
        (Thread("x", "\ud800"), "RECORD_INVALID"),
        (Thread("x", f"the key is {SECRET}"), "SENSITIVE_BLOCKED"),
        (Thread("x", sensitivity="secret"), "SENSITIVE_BLOCKED"),
        (Thread("x", state="resolved"), "RECORD_INVALID"),
        (Thread("x", type="rant"), "RECORD_INVALID"),
        (Thread("x", subcortex="nope"), "SCOPE_NOT_FOUND"),
        (Thread("x", task="task_nope"), "TARGET_NOT_FOUND"),
        (Artifact("x", state="accepted"), "RECORD_INVALID"),
        (Artifact("x", state="superseded"), "RECORD_INVALID"),
        (Artifact("x", supersedes="artifact_nope"), "TARGET_NOT_FOUND"),
        (Artifact("x", evidence=(Evidence("thread", "thread_nope"),)), "TARGET_NOT_FOUND"),
        (Artifact("x", review_by="soon"), "RECORD_INVALID"),
        (Task("x", state="lost"), "RECORD_INVALID"),
        (Task("x", assignees=tuple(f"a{n}" for n in range(21))), "RECORD_INVALID"),
        (Draft("poem", "x", "y"), "RECORD_INVALID"),
        (Draft("thread", "x", "y", state="published", published="thread_1"), "RECORD_INVALID"),
        (Draft("task_update", "x", "y", patch=(("colour", "red"),)), "RECORD_INVALID"),
        (Draft("artifact", "x", "y", summary="s" * 2_001), "RECORD_INVALID"),
        (Subcortex("No Slug", "x"), "RECORD_INVALID"),
        (Subcortex("okay", "x", pinned_threads=("thread_nope",)), "TARGET_NOT_FOUND"),
        (Comment("thread_nope", "x"), "TARGET_NOT_FOUND"),
        (Link("thread_1", "likes", "thread_2"), "RECORD_INVALID"),
        (Notification("poem", "ada", "thread_1", "x", "y"), "RECORD_INVALID"),
    ],
)
def test_what_a_home_would_refuse_is_refused_with_the_same_code(team, ada, body, code):
    assert refused(team, ada, told(new_id(type(body)), body)) == code
    if not isinstance(body, Draft | Notification) and code != "RECORD_INVALID":
        with pytest.raises(InputError) as error:
            create(ada.library, body, actor=person())
        assert error.value.code == code


def test_what_a_change_may_not_touch(team, ada):
    scope, thread, other = (
        made(ada, Subcortex("api", "API")),
        made(ada, Thread("t")),
        made(ada, Thread("o")),
    )
    comment, link = made(ada, Comment(thread, "x")), made(ada, Link(thread, "supports", other))
    artifact = made(ada, Artifact("x", state="accepted", evidence=URL))
    for number, changes in (
        (scope, {"slug": "web"}),
        (comment, {"thread": other}),
        (link, {"target": scope}),
        (artifact, {"state": "superseded"}),
        (artifact, {"state": "superseded", "superseded_by": artifact}),
        (artifact, {"state": "superseded", "superseded_by": new_id(Artifact)}),
        (artifact, {"superseded_by": new_id(Artifact)}),
        (artifact, {"state": "draft"}),
        (artifact, {"evidence": ()}),
        (thread, {"title": ""}),
    ):
        before = team.records()[number].body
        assert (
            refused(team, ada, told(number, replace(before, **changes), before)) == "RECORD_INVALID"
        ), changes
    assert (
        refused(team, ada, told(new_id(Subcortex), Subcortex("api", "Twice"))) == "RECORD_INVALID"
    )
    reply = Comment(other, "x", parent=comment)
    assert refused(team, ada, told(new_id(Comment), reply)) == "TARGET_NOT_FOUND"


def test_nothing_is_added_to_what_was_archived_meanwhile(team, ada, bob):
    scope = made(ada, Subcortex("api", "API"))
    thread = made(ada, Thread("x", subcortex=scope))
    bob.pull()
    actions.archive(ada.library, thread, actor=person())
    actions.archive(ada.library, "api", actor=person())
    assert [one.status for one in ada.flush()] == [APPLIED] * 2
    create(bob.library, Comment(thread, "late"), actor=person())
    create(bob.library, Observation("late", subcortex="api"), actor=person())
    assert [code_of(one) for one in bob.flush()] == ["RECORD_INVALID"] * 2


@pytest.mark.parametrize(
    "number", ["thread_1", "task_" + "0" * 26, "thread_" + "7" + "Z" * 25, "thread_" + "u" * 26]
)
def test_an_id_that_is_none_is_refused(team, ada, number):
    assert refused(team, ada, told(number, Thread("x"))) == "RECORD_INVALID"


def test_a_clock_that_is_wrong_does_no_harm(team, ada):
    change = told(new_id(Thread), Thread("x"), created=1 << 52)
    [one] = team.accept(ada.principal, acting(change)).records
    assert one.record.created == one.record.updated
    [other] = team.accept(
        ada.principal, acting(told(new_id(Thread), Thread("x"), created=0), key="k")
    ).records
    assert other.record.created == other.record.updated


def test_a_change_of_what_the_core_lost_is_taken_as_new(team, ada):
    number = new_id(Thread)
    changed = told(
        number,
        Thread("y", state="resolved", summary="s", summary_sources=("comment_1",)),
        Thread("x"),
    )
    [one] = team.accept(ada.principal, acting(changed)).records
    assert one.record.body == Thread("y", state="resolved") and one.record.author == "ada"
    assert (
        refused(team, ada, replace(changed, id=new_id(Thread), author="bob"), key="k")
        == "TARGET_NOT_FOUND"
    )


def test_a_change_of_what_others_made_and_the_core_has_lost_is_answered_as_of_what_is_hidden(
    team, ada
):
    eve = team.home("eve", 3, sensitive=False)
    hidden = made(ada, Thread("x", sensitivity=SENSITIVE))
    for number in (hidden, new_id(Thread)):
        for body in (Thread("y"), Thread(""), Thread("y", subcortex="nope")):
            assert refused(team, eve, told(number, body, Thread("x"))) == "TARGET_NOT_FOUND"


def test_what_is_uploaded_and_is_there_already_is_the_same_or_a_conflict(team, ada):
    thread = made(ada, Thread("x"))
    made(ada, Comment(thread, "said, so that there is a summary"))
    version = team.records()[thread].version
    assert (
        team.accept(ada.principal, acting(told(thread, Thread("x")), action="upload")).status
        == APPLIED
    )
    assert team.records()[thread].version == version
    assert (
        refused(team, ada, told(thread, Thread("y")), key="k", action="upload") == "RECORD_CHANGED"
    )


@pytest.mark.parametrize("author", ["ada", "ada/agent"])
def test_what_another_home_of_the_same_person_has_brought_as_it_is_since_was_made_before(
    team, ada, author
):
    thread, comment = new_id(Thread), new_id(Comment)
    since = acting(told(thread, Thread("later", state="resolved"), author=author), action="upload")
    assert team.accept(ada.principal, since).status == APPLIED
    actor = "agent" if author == "ada/agent" else "person"
    making = acting(told(thread, Thread("first"), author=author), key="making", actor=actor)
    done = team.accept(ada.principal, making)
    assert done.status == APPLIED and [record.record.body.title for record in done.records] == [
        "later"
    ]
    change = acting(told(thread, Thread("later"), Thread("first"), author=author), key="change")
    assert team.accept(ada.principal, change).status == APPLIED
    said = acting(
        told(comment, Comment(thread, "and this"), author=author), key="said", actor=actor
    )
    assert team.accept(ada.principal, said).status == APPLIED
    kept = team.records()[thread]
    assert (kept.body.title, kept.body.state, kept.author) == ("later", "resolved", author)


def test_what_somebody_else_made_is_not_made_once_more(team, ada, bob):
    thread = made(ada, Thread("x"))
    secret = made(ada, Thread("hush", sensitivity=SENSITIVE))
    for author in ("ada", "bob"):
        assert refused(team, bob, told(thread, Thread("y"), author=author)) == "RECORD_CHANGED"
    eve = team.home("eve", 3, sensitive=False)
    for author in ("ada", "eve"):
        assert refused(team, eve, told(secret, Thread("hush"), author=author)) == "TARGET_NOT_FOUND"
    own = new_id(Thread)
    assert (
        team.accept(
            bob.principal, acting(told(own, Thread("o", sensitivity=SENSITIVE), author="bob"))
        ).status
        == APPLIED
    )
    # Who may see it no more isn't told that it is there
    team.ledger.principals.change(bob.principal.id, sensitive=False)
    assert (
        refused(team, bob, told(own, Thread("o"), author="bob"), key="again") == "TARGET_NOT_FOUND"
    )


# -- notifications
# -----------------------------------------------------------------------------------------------------


def test_a_notification_comes_with_what_it_is_about(team, ada):
    thread = made(ada, Thread("x"))
    tell = told(
        new_id(Notification),
        Notification("mention", "bob", thread, "x", "ada mentioned you in a thread"),
    )
    assert refused(team, ada, tell) == "RECORD_INVALID"
    elsewhere = told(new_id(Observation), Observation("y"))
    assert refused(team, ada, elsewhere, tell) == "RECORD_INVALID"
    alert = replace(tell, after=replace(tell.after, type="system_alert"))
    comment = told(new_id(Comment), Comment(thread, "said"))
    assert refused(team, ada, comment, alert) == "RECORD_INVALID"
    assert team.accept(ada.principal, acting(comment, tell)).status == APPLIED
    reader = team.home("rae", 0)
    same = team.records()[thread].body
    late = replace(tell, id=new_id(Notification), author="rae")
    assert refused(team, reader, told(thread, same, same), late) == "RIGHTS_MISSING"


def test_whoever_a_notification_is_for_is_done_with_it(team, ada, bob):
    thread = made(ada, Thread("x", "@bob look, @zoe too"))
    zoe = team.home("zoe", 2)
    for home in (bob, zoe):
        home.pull()
    [mine] = zoe.library.store.records.select(RecordFilter(kinds=("notification",)))
    assert mine.body.recipient == "person" and mine.body.reason == "ada mentioned you in a thread"
    acknowledge(zoe.library, [mine.id], actor=person())
    assert [code_of(one) for one in zoe.flush()] == [APPLIED]
    [others] = [
        record
        for record in team.records().values()
        if getattr(record.body, "recipient", "") == "bob"
    ]
    done = replace(others.body, state="done")
    zoes = team.accept(zoe.principal, acting(told(others.id, done, others.body)))
    assert zoes.status == APPLIED and team.records()[others.id].body.state == "new", (
        "it isn't there for her"
    )
    edited = replace(others.body, reason="something else")
    assert refused(team, bob, told(others.id, edited, others.body)) == "RECORD_INVALID"
    assert team.accept(bob.principal, acting(told(others.id, done, others.body))).status == APPLIED
    assert team.records()[others.id].body.state == "done" and thread in team.records()


def test_a_notification_is_as_sensitive_as_what_it_is_about(team, ada):
    thread = made(ada, Thread("x", sensitivity=SENSITIVE))
    comment = told(new_id(Comment), Comment(thread, "said"))
    tell = told(
        new_id(Notification),
        Notification("thread_update", "bob", thread, "x", SPOKE(name="ada").text),
    )
    assert team.accept(ada.principal, acting(comment, tell)).status == APPLIED
    assert {team.records()[one.id].body.sensitivity for one in (comment, tell)} == {SENSITIVE}


# -- superseding
# -------------------------------------------------------------------------------------------------------


def test_two_that_supersede_the_same_are_one_and_a_refusal(team, ada, bob):
    old = made(ada, Artifact("old", state="accepted", evidence=URL))
    bob.pull()
    for home in (ada, bob):
        body = Artifact(f"new of {home.name}", state="accepted", evidence=URL, supersedes=old)
        create(home.library, body, actor=person())
    assert [code_of(home.flush()[0]) for home in (ada, bob)] == [APPLIED, "RECORD_CHANGED"]
    by = team.records()[team.records()[old].body.superseded_by]
    assert (
        by.author == "ada"
        and len([record for record in team.records().values() if record.kind == "artifact"]) == 2
    )


def test_what_is_accepted_supersedes_even_where_its_home_didnt_say_so(team, ada):
    old = made(ada, Artifact("old", state="accepted", evidence=URL))
    new = told(new_id(Artifact), Artifact("new", state="accepted", evidence=URL, supersedes=old))
    assert team.accept(ada.principal, acting(new)).status == APPLIED
    assert team.records()[old].body.superseded_by == new.id
    link = told(new_id(Link), Link(old, "supersedes", new.id))
    assert refused(team, ada, link, key="k") == "RECORD_INVALID"


def test_what_is_published_in_the_name_of_its_author_is_what_they_drafted_to_the_letter(
    team, ada, bob
):
    task = made(ada, Task("x"))
    cited = ("https://example.com/a", task)
    made_of = {
        "thread": Draft("thread", "Cache", "We cache.", citations=cited, tags=("a",)),
        "artifact": Draft("artifact", "Cache", "We cache.", citations=cited),
        "comment": Draft(
            "comment", "", "We cache.", target=made(ada, Thread("t")), summary="All is said"
        ),
    }
    for kind, draft in made_of.items():
        kept, *_ = drafts.create_draft(ada.library, draft, actor=AGENT)
        ada.flush()
        bob.pull()
        drafts.approve(bob.library, kept.id, actor=person())
        [(entry, action)] = bob.actions()
        published = next(one for one in action.changes if one.kind == kind)
        others = [change for change in action.changes if change is not published]
        strange: list[Body] = [
            replace(published.after, body=published.after.body + "\n\nAnd I resign.")
        ]  # type: ignore
        strange += (
            [replace(published.after, citations=("https://example.com/b",))]
            if kind == "comment"
            else []
        )  # type: ignore
        strange += [replace(published.after, tags=("b",))] if kind != "comment" else []  # type: ignore
        for body in strange:
            assert refused(team, bob, replace(published, after=body), *others) == "RECORD_INVALID"
        for one in others:
            if isinstance(one.after, Thread):
                summary = replace(one, after=replace(one.after, summary="All is lost"))
                rest = [other for other in others if other is not one]
                assert refused(team, bob, published, summary, *rest) == "RECORD_INVALID"
        assert bob.send(entry, action, bob.principal).status == APPLIED
        assert team.records()[published.id].author == "ada/agent"


def test_nobody_hears_by_a_notification_what_somebody_wants_to_say(team, ada, bob):
    task, artifact = (
        made(ada, Task("x", assignees=("bob",))),
        made(ada, Artifact("a", state="draft")),
    )
    edit = told(task, Task("y", assignees=("bob",)), team.records()[task].body)
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
        told(new_id(Notification), Notification(type, name, task, "Call me", reason))
        for type, name, reason in (*due, *strange)
    ]
    assert team.accept(ada.principal, acting(edit, *notices)).status == APPLIED
    heard = [
        record.body
        for record in team.records().values()
        if record.id in {notice.id for notice in notices}
    ]
    assert sorted((one.type, one.recipient, one.reason) for one in heard) == sorted(due)
    assert {one.title for one in heard} == {"y"}
    alert = Notification("system_alert", "ada", artifact, "a", "b")
    low = team.home("low", 1)
    sent = told(new_id(Notification), alert, author="low")
    assert refused(team, low, sent, action="upload") == "RECORD_INVALID"
    dropped = team.accept(
        low.principal, acting(replace(sent, after=replace(alert, type="mention")), action="upload")
    )
    assert dropped.status == APPLIED and sent.id not in team.records()


# -- uploads
# -----------------------------------------------------------------------------------------------------------


def test_an_upload_keeps_authors_whom_nobody_here_is(team, ada, bob):
    change = told(new_id(Observation), Observation("x"), author="carl")
    assert refused(team, ada, change) == "RIGHTS_MISSING"
    known = replace(change, id=new_id(Observation), author="ada/agent")
    assert refused(team, bob, known, action="upload") == "RIGHTS_MISSING"
    [one] = team.accept(bob.principal, acting(change, action="upload")).records
    assert one.record.author == "carl"
    assert refused(team, ada, replace(known, author="bob"), action="upload") == "RIGHTS_MISSING"
    marked = replace(known, author="bob@core.example.org/agent")
    [one] = team.accept(bob.principal, acting(marked, key="marked", action="upload")).records
    assert one.record.author == "bob@core.example.org/agent"
    low = team.home("low", 2)
    assert (
        refused(team, low, replace(change, id=new_id(Observation)), action="upload")
        == "RIGHTS_MISSING"
    )


def test_an_upload_may_point_to_what_comes_later_but_not_to_what_is_hidden(team, ada):
    later = new_id(Thread)
    scope = told(
        new_id(Subcortex), Subcortex("api", "API", pinned_threads=(later,), state="archived")
    )
    task = told(new_id(Task), Task("x", thread=later, subcortex=scope.id))
    thread = told(later, Thread("t", subcortex=scope.id, state="archived"))
    said = told(new_id(Comment), Comment(later, "said", subcortex=scope.id))
    assert (
        team.accept(ada.principal, acting(scope, task, thread, said, action="upload")).status
        == APPLIED
    )
    hush = made(ada, Subcortex("hush", "Hush", visibility="private"))
    hidden = made(ada, Thread("hidden", subcortex=hush))
    zoe = team.home("zoe", 3)
    for ref in (hidden, "thread_nope", scope.id):
        pointing = told(new_id(Task), Task("x", thread=ref), author="zoe")
        assert refused(team, zoe, pointing, action="upload") == "TARGET_NOT_FOUND"
    lost = told(new_id(Comment), Comment(new_id(Thread), "x"), author="zoe")
    assert refused(team, zoe, lost, action="upload") == "TARGET_NOT_FOUND"


def test_whoever_joined_meanwhile_hears_of_it_too(team, ada, bob):
    carol = team.home("carol", 3)
    thread, task = made(ada, Thread("Timeouts")), made(ada, Task("x"))
    for home in (bob, carol):
        home.pull()
    create(bob.library, Comment(thread, "bob speaks"), actor=person())
    actions.update_task(bob.library, task, {"notes": "n"}, actor=person())
    create(carol.library, Comment(thread, "carol speaks"), actor=person())
    revise(
        carol.library,
        task,
        lambda body: replace(body, watchers=("person",)),
        actor=person(),
        action="edit",
    )
    assert all(one.status == APPLIED for home in (carol, bob) for one in home.flush())
    hers = [
        record.body.reason
        for record in team.records().values()
        if getattr(record.body, "recipient", "") == "carol"
    ]
    assert sorted(hers) == [
        "a task that you follow: new notes",
        "you commented in this thread; bob commented",
    ]


def test_where_code_lies_on_a_machine_is_kept_nowhere_else(team, ada):
    links = (CodeLink("src/a.py", root="/home/ada/secret-project"),)
    [one] = team.accept(
        ada.principal, acting(told(new_id(Observation), Observation("x", code_links=links)))
    ).records
    assert one.record.body.code_links == (CodeLink("src/a.py"),)
