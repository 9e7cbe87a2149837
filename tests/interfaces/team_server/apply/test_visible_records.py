"""References in actions: a hidden record is answered as a missing one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cortex.base.actors import person
from cortex.base.record_model import (
    SENSITIVE,
    Artifact,
    Body,
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
from cortex.families.team.ids import new_id
from cortex.families.team.wire.codec import APPLIED
from cortex.families.team.writes import drafts
from cortex.families.team.writes.update import revise
from cortex.interfaces.team_server.apply.action import Accepted
from interfaces.team_server.apply.conftest import code_of, made, refused
from interfaces.team_server.team import acting, record_change


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
def test_reference_to_a_hidden_record_is_answered_as_to_a_missing_one(team, ada, number):
    scope = made(ada, Subcortex("hush", "Hush", visibility="private"))
    hidden = made(ada, Thread("hidden", subcortex=scope))
    private = made(ada, Thread("sensitive", sensitivity=SENSITIVE))
    zoe = team.home("zoe", 3, sensitive=False)
    answers = []
    for ref in (hidden, private, new_id(Thread)):
        body = pointing(ref)[number]
        accepted = team.accept(
            zoe.principal,
            acting(record_change(new_id(type(body)), body, author="zoe"), key=f"key-{ref}"),
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
def test_hidden_subcortex_is_answered_as_a_missing_one(team, ada, field):
    scope = made(ada, Subcortex("hush", "Hush", visibility="private"))
    zoe = team.home("zoe", 3)
    errors = []
    for ref in (scope, new_id(Subcortex)) if field == "subcortex" else ("hush", "nope"):
        accepted = team.accept(
            zoe.principal,
            acting(record_change(new_id(Thread), Thread("x", subcortex=ref), author="zoe")),
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


def test_record_hidden_since_cannot_be_changed(team, ada):
    scope = made(ada, Subcortex("api", "API"))
    thread = made(ada, Thread("x", subcortex=scope))
    bob = team.home("bob", 4, grants={scope: True})
    bob.pull()
    revise(
        bob.library, thread, lambda body: replace(body, title="y"), actor=person(), action="edit"
    )
    team.ledger.principals.change(bob.principal.id, grants={})
    assert [code_of(outcome) for outcome in bob.flush()] == ["TARGET_NOT_FOUND"]
    team.ledger.principals.change(bob.principal.id, grants={scope: False})
    assert [code_of(outcome) for outcome in bob.flush()] == ["RIGHTS_MISSING"]
    team.ledger.principals.change(bob.principal.id, grants={scope: True})
    assert [code_of(outcome) for outcome in bob.flush()] == [APPLIED]


def test_draft_for_a_hidden_target_is_kept_with_the_target_in_its_reason(team, ada):
    scope = made(ada, Subcortex("hush", "Hush", visibility="private"))
    zoe = team.home("zoe", 1)
    kept = []
    for slug in ("hush", "nope"):
        body = Draft("thread", "x", "y", target=slug, target_kind="subcortex", reason="so")
        accepted = team.accept(
            zoe.principal, acting(record_change(new_id(Draft), body, author="zoe"), key=slug)
        )
        assert accepted.status == APPLIED
        [kept_draft] = accepted.records
        assert (kept_draft.record.body.target, kept_draft.record.body.target_kind) == (
            "",
            "",
        ) and slug in kept_draft.record.body.reason
        kept.append(
            replace(kept_draft.record.body, reason=kept_draft.record.body.reason.replace(slug, "X"))
        )
    assert kept[0] == kept[1]
    team.ledger.principals.change(zoe.principal.id, grants={new_id(Subcortex): True})
    body = Draft("thread", "x", "y", target="hush")
    assert (
        refused(team, zoe, record_change(new_id(Draft), body, author="zoe"), key="other")
        == "TARGET_NOT_FOUND"
    )
    assert scope not in repr(kept)


def test_target_named_in_the_reason_of_a_draft_is_not_used(team, ada, bob):
    thread, draft = made(ada, Thread("hush", sensitivity=SENSITIVE)), new_id(Draft)
    team.ledger.principals.change(bob.principal.id, sensitive=False)
    body = Draft("comment", "c", "I agree", target=thread, target_kind="thread", reason="so")
    assert (
        team.accept(bob.principal, acting(record_change(draft, body, author="bob"))).status
        == APPLIED
    )
    ada.pull()
    lookup = ada.library.store.records
    kept = lookup.one(draft)
    assert thread in kept.body.reason and "names no thread" in drafts.next_step(lookup, kept)


@pytest.mark.parametrize("action", ["edit", "upload"])
def test_resent_draft_is_refused_until_its_target_exists(team, ada, bob, action):
    thread, hidden, draft = (
        new_id(Thread),
        made(ada, Thread("hush", sensitivity=SENSITIVE)),
        new_id(Draft),
    )
    team.ledger.principals.change(bob.principal.id, sensitive=False)

    def send(target: str, number: str = draft, key: str = "made-up") -> Accepted:
        body = Draft("comment", "c", "I agree", target=target, target_kind="thread")
        again = replace(
            acting(record_change(number, body, author="bob"), action=action, key=key), again=True
        )
        return team.accept(bob.principal, again)

    assert [code_of(send(target)) for target in (thread, hidden)] == ["TARGET_NOT_FOUND"] * 2
    assert (
        team.accept(ada.principal, acting(record_change(thread, Thread("Retries")))).status
        == APPLIED
    )
    assert send(thread).status == APPLIED and team.records()[draft].body.target == thread
    # Nothing is ever called that
    assert send("thread_nowhere", new_id(Draft), "other").status == APPLIED


def test_upload_may_refer_to_later_records_but_not_to_hidden_ones(team, ada):
    later = new_id(Thread)
    scope = record_change(
        new_id(Subcortex), Subcortex("api", "API", pinned_threads=(later,), state="archived")
    )
    task = record_change(new_id(Task), Task("x", thread=later, subcortex=scope.id))
    thread = record_change(later, Thread("t", subcortex=scope.id, state="archived"))
    said = record_change(new_id(Comment), Comment(later, "said", subcortex=scope.id))
    assert (
        team.accept(ada.principal, acting(scope, task, thread, said, action="upload")).status
        == APPLIED
    )
    hush = made(ada, Subcortex("hush", "Hush", visibility="private"))
    hidden = made(ada, Thread("hidden", subcortex=hush))
    zoe = team.home("zoe", 3)
    for ref in (hidden, "thread_nope", scope.id):
        pointing = record_change(new_id(Task), Task("x", thread=ref), author="zoe")
        assert refused(team, zoe, pointing, action="upload") == "TARGET_NOT_FOUND"
    lost = record_change(new_id(Comment), Comment(new_id(Thread), "x"), author="zoe")
    assert refused(team, zoe, lost, action="upload") == "TARGET_NOT_FOUND"
