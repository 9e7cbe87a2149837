"""Bylines inside of records: no change makes one principal speak for another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest

from cortex.base.actors import person
from cortex.base.record_model import KINDS, Body, Comment, Draft, Thread
from cortex.families.team.ids import new_id
from cortex.families.team.wire.codec import APPLIED
from cortex.families.team.wire.identity import renamed_body
from cortex.families.team.writes import drafts
from cortex.interfaces.team_server.apply.attribution import BYLINES
from interfaces.team_server.team import Team, acting, open_team, record_change

PLAIN: dict[str, Body] = {
    "summary_by": Thread(
        "Salaries", summary="I approve the raise.", summary_sources=(new_id(Comment),)
    ),
    "reviewed_by": Draft(
        "thread", "It", "is so", state="rejected", reviewed_at=5, review_notes="I hate this"
    ),
}
# A name in these fields says nothing: its bearer is to do something, to know of it, or to own it.
CONCERNED = {"owner", "recipient", "stewards", "assignees", "watchers"}


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """A team whose ledger isn't checked: some summaries here name comments that don't exist."""
    with open_team(tmp_path) as team:
        yield team


def names_of(cls: type) -> set[str]:
    """The fields of a kind that hold a name: renamed on the wire, or named like one."""
    kept = {field.name: field for field in fields(cls) if field.name != "patch"}
    needed = {name: "x" for name, spec in kept.items() if spec.default is MISSING}
    held = {
        name for name in kept if name.endswith("_by") and name not in ("review_by", "superseded_by")
    }
    for name, spec in kept.items():
        body = cls(**{**needed, name: ("person",) if spec.default == () else "person"})
        if getattr(renamed_body(body, lambda who: f"not {who}"), name) != getattr(body, name):
            held.add(name)
    return held


def test_every_field_with_a_name_is_either_a_byline_or_a_mention():
    for cls in KINDS.values():
        assert names_of(cls) - CONCERNED == set(BYLINES.get(cls, {})), cls
    assert {name for byline in BYLINES.values() for name in byline} == set(PLAIN)


@pytest.mark.parametrize("who", ["mallory", "mallory/agent", "ada", "ada/agent", "zoe"])
@pytest.mark.parametrize("how", ["upload", "change"])
@pytest.mark.parametrize("field", PLAIN)
def test_byline_of_another_principal_is_removed_with_its_text(team, ada, field, how, who):
    mallory = team.home("mallory", 3)
    body = replace(PLAIN[field], **{field: who})
    number = new_id(type(body))
    change = record_change(
        number, body, None if how == "upload" else replace(body, title="was"), author="mallory"
    )
    action = acting(change, action="upload" if how == "upload" else "edit")
    assert team.accept(mallory.principal, action).status == APPLIED
    kept = team.records()[number].body
    # No principal has that name
    if who.startswith("mallory") or (who == "zoe" and how == "upload"):
        assert kept == body
    else:
        said = {name: type(getattr(body, name))() for name in (field, *BYLINES[type(body)][field])}
        assert kept == replace(body, **said)


def test_admin_restores_lost_records_with_their_bylines(team, ada):
    team.home("bob", 1)
    for body in (
        replace(PLAIN["summary_by"], summary_by="bob"),
        replace(PLAIN["reviewed_by"], reviewed_by="bob"),
    ):
        number = new_id(type(body))
        lost = replace(acting(record_change(number, body), key=number, action="upload"), again=True)
        done = team.accept(ada.principal, lost)
        assert done.status == APPLIED and team.records()[number].body == body


@pytest.mark.parametrize(
    "change",
    [
        {"reviewed_by": "ada"},
        {"reviewed_by": "ada", "review_notes": "I hate this"},
        {"state": "approved", "reviewed_by": "ada"},
        {"state": "rejected", "reviewed_by": "ada"},
    ],
)
def test_reviewer_is_the_principal_that_changed_the_review(team, ada, change):
    mallory = team.home("mallory", 3)
    draft, *_ = drafts.create_draft(mallory.library, Draft("thread", "It", "is so"), actor=person())
    mallory.flush()
    before = team.records()[draft.id].body
    action = acting(record_change(draft.id, replace(before, **change), before, author="mallory"))
    assert team.accept(mallory.principal, action).status == APPLIED
    assert team.records()[draft.id].body.reviewed_by == "mallory"


def test_addition_to_a_review_is_attributed_to_its_author(team, ada):
    bob = team.home("bob", 3)
    draft, *_ = drafts.create_draft(ada.library, Draft("thread", "It", "is so"), actor=person())
    ada.flush()
    bob.pull()
    drafts.reject(ada.library, draft.id, actor=person())
    drafts.reject(bob.library, draft.id, actor=person(), notes="No.")
    assert [outcome.status for home in (ada, bob) for outcome in home.flush()] == [APPLIED] * 2
    kept = team.records()[draft.id].body
    assert (kept.reviewed_by, kept.review_notes) == ("bob", "No.")
    stolen = acting(
        record_change(draft.id, replace(kept, reviewed_by="ada"), kept, author="ada"), key="other"
    )
    assert team.accept(bob.principal, stolen).status == APPLIED
    assert team.records()[draft.id].body == kept


def test_omitted_review_is_restored_by_its_reviewer(team, ada):
    bob = team.home("bob", 3)
    pending = Draft("thread", "It", "is so")
    rejected = replace(pending, state="rejected", reviewed_by="ada", reviewed_at=5)
    number = new_id(Draft)
    upload = acting(record_change(number, rejected, author="bob"), action="upload")
    assert team.accept(bob.principal, upload).status == APPLIED
    assert (
        team.accept(
            ada.principal, acting(record_change(number, rejected, pending, author="bob"))
        ).status
        == APPLIED
    )
    kept = team.records()[number].body
    assert (kept.state, kept.reviewed_by) == ("rejected", "ada")
