"""Subcortexes with a slug that the Core already has."""

from __future__ import annotations

import pytest

from cortex.base.actors import person
from cortex.base.record_model import Draft, Subcortex, Thread
from cortex.families.team.references import by_slug
from cortex.families.team.writes.create import create
from cortex.families.team.writes.drafts import create_draft
from families.team.sync.homes import alerts
from families.team.sync.members import Member, at_core


@pytest.mark.parametrize("joined", [True, False])
def test_slug_taken_at_the_core_holds_up_no_write(member, team, homes, joined):
    bob = member("bob")
    theirs = bob.write(Subcortex("backend", "Of Bob"))
    library = homes("ada")
    ada = Member(team, "ada", library) if joined else None
    mine = create(library, Subcortex("backend", "Of Ada"), actor=person()).id
    ids = [
        create(library, Thread(f"Topic {place}", subcortex="backend"), actor=person()).id
        for place in range(3)
    ]
    draft, *_ = create_draft(
        library, Draft("thread", "A draft", "text", target="backend"), actor=person()
    )
    bob.sync()
    ada = ada or Member(team, "ada", library)
    outcome = ada.sync()
    assert outcome.status == "ok", alerts(library)
    assert [
        subcortex.id for subcortex in [by_slug(library.store.records, "backend")] if subcortex
    ] == [theirs] and ada.get(mine).body.slug == "backend-2"
    assert {at_core(team)[number][-1].subcortex for number in ids} == {mine}
    assert ada.get(draft.id).body.target == mine and ada.has().items() <= at_core(team).items()
    (why,) = alerts(library)
    assert "backend-2" in why
    later = ada.write(Thread("Later", subcortex="backend"))
    assert ada.sync().status == "ok" and at_core(team)[later][-1].subcortex == theirs
    ada.remote.close()


def test_next_free_slug_is_found_when_several_are_taken(member, team):
    ada, bob = member("ada"), member("bob")
    for slug in ("backend", "backend-2"):
        bob.write(Subcortex(slug, "Of Bob"))
    mine = ada.write(Subcortex("backend", "Of Ada"))
    bob.sync()
    assert ada.sync().status == "ok" and at_core(team)[mine][-1].slug == "backend-3"


def test_only_the_conflicting_subcortex_gets_another_slug(member, team, homes):
    bob, library = member("bob"), homes("ada")
    bob.write(Subcortex("api", "Of Bob"))
    bob.sync()
    mine = [
        create(library, Subcortex(slug, slug), actor=person()).id
        for slug in ("alpha", "api", "web")
    ]
    ids = [
        create(library, Thread(f"Topic {place}", subcortex="web"), actor=person()).id
        for place in range(8)
    ]
    ada = Member(team, "ada", library)
    assert ada.sync().status == "ok" and [ada.get(number).body.slug for number in mine] == [
        "alpha",
        "api-2",
        "web",
    ]
    assert at_core(team).keys() >= {*mine, *ids} and len(alerts(library)) == 1
    assert ada.remote.flushes <= 6  # all of it, each subcortex, the one again, the rest
    ada.remote.close()
