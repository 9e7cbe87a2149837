"""Invariants of records that an action must keep: publications, verdicts, superseding."""

from __future__ import annotations

from dataclasses import replace

from cortex.base.actors import person
from cortex.base.record_model import (
    Actor,
    Artifact,
    Body,
    Comment,
    Draft,
    Evidence,
    Link,
    Subcortex,
    Task,
    Thread,
)
from cortex.families.team.ids import new_id
from cortex.families.team.wire.codec import APPLIED, REFUSED
from cortex.families.team.writes import drafts
from cortex.families.team.writes.create import create
from cortex.families.team.writes.update import revise
from interfaces.team_server.apply.conftest import AGENT, URL, code_of, made, refused
from interfaces.team_server.team import Home, Team, acting, record_change


def test_approval_publishes_exactly_the_draft(team, ada, bob):
    draft, *_ = drafts.create_draft(ada.library, Draft("thread", "It", "is so"), actor=AGENT)
    ada.flush()
    bob.pull()
    drafts.approve(bob.library, draft.id, actor=person())
    [(_, action)] = bob.actions()
    for after in (Thread("It", "isn't so"), Thread("Else", "is so")):
        changes = [
            replace(change, after=after) if change.kind == "thread" else change
            for change in action.changes
        ]
        assert refused(team, bob, *changes) == "RECORD_INVALID"
    elsewhere = [
        replace(change, id=new_id(Thread)) if change.kind == "thread" else change
        for change in action.changes
    ]
    assert refused(team, bob, *elsewhere) in ("RIGHTS_MISSING", "RECORD_INVALID")
    only = [change for change in action.changes if change.kind == "draft"]
    assert refused(team, bob, *only) == "RECORD_INVALID"
    assert team.accept(bob.principal, action).status == APPLIED


def test_publication_that_differs_from_its_draft_is_refused(team, ada, bob):
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
        published = next(change for change in action.changes if change.kind == kind)
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
        for other_change in others:
            if isinstance(other_change.after, Thread):
                summary = replace(
                    other_change, after=replace(other_change.after, summary="All is lost")
                )
                rest = [other for other in others if other is not other_change]
                assert refused(team, bob, published, summary, *rest) == "RECORD_INVALID"
        assert bob.send(entry, action, bob.principal).status == APPLIED
        assert team.records()[published.id].author == "ada/agent"


def test_publication_under_the_name_of_its_drafter_needs_a_decided_draft(team: Team, ada: Home):
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
    assert team.accept(bob.principal, pretended).status == REFUSED, "the draft is undecided"
    assert set(team.records()) >= {draft.id} and not [
        record for record in team.records() if record.startswith("thread_")
    ]
    assert team.accept(bob.principal, action).status == APPLIED
    second = [
        replace(change, id=new_id(Thread)) if change.kind == "thread" else change
        for change in decided.values()
    ]
    claimed = [
        replace(
            change,
            before=replace(change.after, published=second[0].id),
            after=replace(change.after, published=second[0].id),
        )
        if isinstance(change.after, Draft)
        else change
        for change in second
    ]
    assert second[0].kind == "thread"
    assert team.accept(bob.principal, acting(*claimed, key="twice")).status == REFUSED, (
        "the draft became another thread"
    )


def test_second_artifact_that_supersedes_the_same_one_is_refused(team, ada, bob):
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


def test_accepted_artifact_supersedes_even_where_its_home_omitted_that(team, ada):
    old = made(ada, Artifact("old", state="accepted", evidence=URL))
    new = record_change(
        new_id(Artifact), Artifact("new", state="accepted", evidence=URL, supersedes=old)
    )
    assert team.accept(ada.principal, acting(new)).status == APPLIED
    assert team.records()[old].body.superseded_by == new.id
    link = record_change(new_id(Link), Link(old, "supersedes", new.id))
    assert refused(team, ada, link, key="k") == "RECORD_INVALID"


def test_artifact_hidden_since_is_not_revealed_by_its_successor(team: Team, ada: Home):
    eve = team.home("eve", 3)
    evidence = (Evidence("url", "https://example.com/"),)
    hush = create(ada.library, Subcortex("hush", "Hush", visibility="private"), actor=person()).id
    old = create(
        ada.library, Artifact("old", state="accepted", evidence=evidence), actor=person()
    ).id
    ada.flush()
    proposed = Artifact("new", state="proposed", owner="eve", evidence=evidence, supersedes=old)
    new = record_change(new_id(Artifact), proposed, author="eve")
    assert team.accept(eve.principal, acting(new)).status == APPLIED
    revise(
        ada.library, old, lambda body: replace(body, subcortex=hush), actor=person(), action="edit"
    )
    body = Artifact("hidden", state="accepted", evidence=evidence, subcortex=hush, supersedes=old)
    hidden = create(ada.library, body, actor=person()).id
    assert {outcome.status for outcome in ada.flush()} == {APPLIED}
    late = record_change(new.id, replace(proposed, state="accepted"), proposed, author="eve")
    refused = team.accept(eve.principal, acting(late, key="late"))
    assert refused.error is not None and refused.error.code == "TARGET_NOT_FOUND"
    assert hidden not in refused.error.message + repr(refused.error.context)


def test_change_of_a_fixed_field_is_refused(team, ada):
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
            refused(team, ada, record_change(number, replace(before, **changes), before))
            == "RECORD_INVALID"
        ), changes
    assert (
        refused(team, ada, record_change(new_id(Subcortex), Subcortex("api", "Twice")))
        == "RECORD_INVALID"
    )
    reply = Comment(other, "x", parent=comment)
    assert refused(team, ada, record_change(new_id(Comment), reply)) == "TARGET_NOT_FOUND"
