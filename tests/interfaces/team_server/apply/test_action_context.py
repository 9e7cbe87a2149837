"""Authors and tiers of an action: a principal writes in its own name, up to its tier."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cortex.base.record_model import Artifact, Observation, Thread
from cortex.engine.store.records.outbox import UPLOAD
from cortex.families.team.ids import new_id
from cortex.families.team.wire.codec import APPLIED, REFUSED
from interfaces.team_server.apply.conftest import URL, refused
from interfaces.team_server.team import Home, Team, acting, record_change


def test_write_in_the_name_of_another_author_is_refused(team, ada, bob):
    for author in ("ada", "ada/agent", "bob/agent", "root", "person/agent"):
        change = record_change(new_id(Observation), Observation("x"), author=author)
        assert refused(team, bob, change) == "RIGHTS_MISSING"
    assert (
        refused(
            team,
            bob,
            record_change(new_id(Observation), Observation("x"), author="bob"),
            actor="agent",
        )
        == "RIGHTS_MISSING"
    )
    accepted = team.accept(
        bob.principal, acting(record_change(new_id(Observation), Observation("x"), author="person"))
    )
    assert accepted.records[0].record.author == "bob", "`person` is the principal that sends"


def test_upload_keeps_authors_unknown_to_the_core(team, ada, bob):
    change = record_change(new_id(Observation), Observation("x"), author="carl")
    assert refused(team, ada, change) == "RIGHTS_MISSING"
    known = replace(change, id=new_id(Observation), author="ada/agent")
    assert refused(team, bob, known, action="upload") == "RIGHTS_MISSING"
    [uploaded] = team.accept(bob.principal, acting(change, action="upload")).records
    assert uploaded.record.author == "carl"
    assert refused(team, ada, replace(known, author="bob"), action="upload") == "RIGHTS_MISSING"
    marked = replace(known, author="bob@core.example.org/agent")
    [uploaded] = team.accept(bob.principal, acting(marked, key="marked", action="upload")).records
    assert uploaded.record.author == "bob@core.example.org/agent"
    low = team.home("low", 2)
    assert (
        refused(team, low, replace(change, id=new_id(Observation)), action="upload")
        == "RIGHTS_MISSING"
    )


def test_action_is_limited_by_the_agent_tier_and_the_declared_tier(team, ada):
    artifact = Artifact("x", state="accepted", evidence=URL)
    change = record_change(new_id(Artifact), artifact, author="ada/agent")
    assert refused(team, ada, change, actor="agent", tier=4) == "RIGHTS_MISSING"
    assert refused(team, ada, replace(change, author="ada"), tier=2) == "RIGHTS_MISSING"
    assert (
        refused(
            team,
            ada,
            record_change(new_id(Thread), Thread("x"), author="ada/agent"),
            actor="agent",
            tier=1,
        )
        == "RIGHTS_MISSING"
    )


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
def test_upload_may_name_other_authors_from_tier_3_on(
    team: Team, tier: int, action: str, before: bool, status: str
):
    home = team.home("bob", tier)
    body = Observation("Seen")
    seen = record_change(new_id(Observation), body, body if before else None, author="zoe")
    assert team.accept(home.principal, acting(seen, action=action, tier=tier)).status == status


@pytest.mark.parametrize(
    "name",
    ["ada\u200b", "\u2060ada", "\u0430da", "ADA", "console", "cortex", "eve/x", "zoe/x", "ada/"],
)
def test_lookalike_or_reserved_author_name_is_refused(team: Team, ada: Home, name: str):
    eve = team.home("eve", 3)
    seen = record_change(new_id(Observation), Observation("I said this"), author=name)
    assert team.accept(eve.principal, acting(seen, action=UPLOAD)).status == REFUSED
    seen = replace(seen, author="zoe/agent")  # of another Core, or a former principal
    assert team.accept(eve.principal, acting(seen, action=UPLOAD, key="zoe")).status == APPLIED
