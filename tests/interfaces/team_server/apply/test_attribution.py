"""In whose name something is said inside of a record: nobody has others speak, however a record
comes to the Core.
"""

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
from interfaces.team_server.team import Home, Team, acting, open_team, told

PLAIN: dict[str, Body] = {
    "summary_by": Thread(
        "Salaries", summary="I approve the raise.", summary_sources=(new_id(Comment),)
    ),
    "reviewed_by": Draft(
        "thread", "It", "is so", state="rejected", reviewed_at=5, review_notes="I hate this"
    ),
}
# Those that are named say nothing by that: they are to do something, to hear of it, or asked to
# stand for it.
CONCERNED = {"owner", "recipient", "stewards", "assignees", "watchers"}


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with open_team(tmp_path) as team:
        yield team


@pytest.fixture
def ada(team: Team) -> Home:
    return team.home("ada")


def names_of(cls: type) -> set[str]:
    """The fields of a kind that hold a name: those that are told otherwise at the border, and all
    that are called like one.
    """
    kept = {field.name: field for field in fields(cls) if field.name != "patch"}
    needed = {name: "x" for name, one in kept.items() if one.default is MISSING}
    held = {
        name for name in kept if name.endswith("_by") and name not in ("review_by", "superseded_by")
    }
    for name, one in kept.items():
        body = cls(**{**needed, name: ("person",) if one.default == () else "person"})
        if getattr(renamed_body(body, lambda who: f"not {who}"), name) != getattr(body, name):
            held.add(name)
    return held


def test_every_field_that_holds_a_name_says_whether_they_speak():
    for cls in KINDS.values():
        assert names_of(cls) - CONCERNED == set(BYLINES.get(cls, {})), cls
    assert {name for byline in BYLINES.values() for name in byline} == set(PLAIN)


@pytest.mark.parametrize("who", ["mallory", "mallory/agent", "ada", "ada/agent", "zoe"])
@pytest.mark.parametrize("how", ["upload", "change"])
@pytest.mark.parametrize("field", PLAIN)
def test_nothing_is_said_in_the_name_of_others_by_what_comes_as_it_was(team, ada, field, how, who):
    mallory = team.home("mallory", 3)
    body = replace(PLAIN[field], **{field: who})
    number = new_id(type(body))
    change = told(
        number, body, None if how == "upload" else replace(body, title="was"), author="mallory"
    )
    action = acting(change, action="upload" if how == "upload" else "edit")
    assert team.accept(mallory.principal, action).status == APPLIED
    kept = team.records()[number].body
    # Nobody here is called that
    if who.startswith("mallory") or (who == "zoe" and how == "upload"):
        assert kept == body
    else:
        said = {name: type(getattr(body, name))() for name in (field, *BYLINES[type(body)][field])}
        assert kept == replace(body, **said)


def test_whoever_may_do_everything_brings_back_what_others_said(team, ada):
    team.home("bob", 1)
    for body in (
        replace(PLAIN["summary_by"], summary_by="bob"),
        replace(PLAIN["reviewed_by"], reviewed_by="bob"),
    ):
        number = new_id(type(body))
        lost = replace(acting(told(number, body), key=number, action="upload"), again=True)
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
def test_whoever_changes_what_a_review_says_is_who_reviewed(team, ada, change):
    mallory = team.home("mallory", 3)
    draft, *_ = drafts.create_draft(mallory.library, Draft("thread", "It", "is so"), actor=person())
    mallory.flush()
    before = team.records()[draft.id].body
    action = acting(told(draft.id, replace(before, **change), before, author="mallory"))
    assert team.accept(mallory.principal, action).status == APPLIED
    assert team.records()[draft.id].body.reviewed_by == "mallory"


def test_what_is_added_to_a_review_of_somebody_else_is_by_who_added_it(team, ada):
    bob = team.home("bob", 3)
    draft, *_ = drafts.create_draft(ada.library, Draft("thread", "It", "is so"), actor=person())
    ada.flush()
    bob.pull()
    drafts.reject(ada.library, draft.id, actor=person())
    drafts.reject(bob.library, draft.id, actor=person(), notes="No.")
    assert [one.status for home in (ada, bob) for one in home.flush()] == [APPLIED] * 2
    kept = team.records()[draft.id].body
    assert (kept.reviewed_by, kept.review_notes) == ("bob", "No.")
    stolen = acting(
        told(draft.id, replace(kept, reviewed_by="ada"), kept, author="ada"), key="other"
    )
    assert team.accept(bob.principal, stolen).status == APPLIED
    assert team.records()[draft.id].body == kept


def test_a_review_that_was_left_out_is_said_again_by_who_said_it(team, ada):
    bob = team.home("bob", 3)
    pending = Draft("thread", "It", "is so")
    rejected = replace(pending, state="rejected", reviewed_by="ada", reviewed_at=5)
    number = new_id(Draft)
    upload = acting(told(number, rejected, author="bob"), action="upload")
    assert team.accept(bob.principal, upload).status == APPLIED
    assert (
        team.accept(ada.principal, acting(told(number, rejected, pending, author="bob"))).status
        == APPLIED
    )
    kept = team.records()[number].body
    assert (kept.state, kept.reviewed_by) == ("rejected", "ada")
