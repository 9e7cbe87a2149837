"""Changes of an action: creation times, sensitivity, lost, archived and repeated records."""

from __future__ import annotations

import time
from dataclasses import replace

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
    Link,
    Observation,
    Subcortex,
    Thread,
)
from cortex.engine.store.records.outbox import UPLOAD
from cortex.families.team.ids import new_id
from cortex.families.team.wire.codec import APPLIED, REFUSED
from cortex.families.team.writes.create import create
from cortex.families.team.writes.update import revise
from interfaces.team_server.team import Home, Team, acting, record_change


def test_record_about_a_sensitive_one_stays_sensitive(team: Team, ada: Home):
    bob = team.home("bob", 2)
    thread = create(
        ada.library, Thread("Pay", body="@bob", sensitivity=SENSITIVE), actor=person()
    ).id
    other = create(ada.library, Thread("Lunch"), actor=person()).id
    ada.flush()
    (notice,) = [record for record in team.records().values() if record.kind == "notification"]
    link = record_change(new_id(Link), Link(thread, "supports", other), author="bob")
    draft = record_change(
        new_id(Draft), Draft("comment", "a", "b", target_kind="thread", target=thread), author="bob"
    )
    assert {
        team.accept(bob.principal, acting(change, key=change.id)).status for change in (link, draft)
    } == {APPLIED}
    for number in (notice.id, link.id, draft.id):
        record = team.records()[number]
        assert record.body.sensitivity == SENSITIVE
        freed = record_change(
            number, replace(record.body, sensitivity=NORMAL), record.body, author=record.author
        )
        team.accept(bob.principal, acting(freed, key=f"free {number}"))
        assert team.records()[number].body.sensitivity == SENSITIVE


def test_artifact_proposed_for_a_foreign_owner_is_refused(team: Team, ada: Home):
    zoe = team.home("zoe", 2)
    made = record_change(new_id(Artifact), Artifact("Runbook", owner="ada"), author="zoe")
    assert team.accept(zoe.principal, acting(made)).status == REFUSED
    with pytest.raises(InputError, match="may not edit"):
        create(ada.library, Artifact("Runbook", owner="bob"), actor=Actor("zoe", 2))
    own = replace(made, after=Artifact("Runbook", owner="zoe"))
    assert team.accept(zoe.principal, acting(own, key="own")).status == APPLIED


def test_implausibly_old_creation_time_is_replaced(team: Team, ada: Home):
    made = replace(record_change(new_id(Observation), Observation("Seen")), created=1)
    (stored,) = team.accept(ada.principal, acting(made)).records
    assert stored.record.created > 1_700_000_000_000


def test_archived_record_accepts_uploaded_additions_only_from_its_author(team: Team, ada: Home):
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
    assert {outcome.status for outcome in ada.flush()} == {APPLIED}
    bodies = (Comment(thread, "late"), Thread("late", subcortex=scope))
    for home, expected in ((team.home("bob", 3), REFUSED), (ada, APPLIED)):
        for body in bodies:
            late = record_change(new_id(type(body)), body, author=home.name)
            status = team.accept(home.principal, acting(late, action=UPLOAD, key=late.id)).status
            assert status == expected, body


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
def test_id_may_be_ahead_of_the_clock_by_fifty_years(
    team: Team, ada: Home, years: int, status: str
):
    number = id_at(int(time.time() * 1000) + years * 365 * DAY_MS)
    assert (
        team.accept(ada.principal, acting(record_change(number, Observation("x")))).status == status
    )


@pytest.mark.parametrize(
    ("created", "kept"),
    [
        (946_684_800_000, True),  # 2000-01-01T00:00:00Z
        (946_684_799_999, False),
        (1_700_000_000_000, True),
        (99_999_999_999_999, False),
    ],
)
def test_creation_time_between_2000_and_now_is_kept(
    team: Team, ada: Home, created: int, kept: bool
):
    before = int(time.time() * 1000)
    change = record_change(new_id(Observation), Observation("x"), created=created)
    (stored,) = team.accept(ada.principal, acting(change)).records
    if kept:
        assert stored.record.created == created
    else:
        assert before <= stored.record.created <= int(time.time() * 1000)


def test_lost_record_is_restored_only_by_its_author(team: Team):
    ada, eve = team.home("ada", 2), team.home("eve", 4)
    number, before = new_id(Thread), Thread("x")
    for home, author, status in (
        (eve, "ada", REFUSED),
        (ada, "ada", APPLIED),
        (ada, "ada/agent", APPLIED),
    ):
        lost = record_change(number, replace(before, title="y"), before, author=author)
        assert team.accept(home.principal, acting(lost, key=f"{home.name}/{author}")).status == (
            status
        )
        number = new_id(Thread) if status == APPLIED else number


def test_record_created_again_is_accepted_only_from_its_author(team: Team, ada: Home):
    number = create(ada.library, Thread("x"), actor=person()).id
    ada.flush()
    other = record_change(number, Thread("y"))
    assert team.accept(ada.principal, acting(other, key="own")).status == APPLIED
    assert team.records()[number].body.title == "x"
    assert team.accept(ada.principal, acting(other, action=UPLOAD, key="up")).status == REFUSED
    bob = team.home("bob", 4)
    forged = replace(other, author="bob")
    assert team.accept(bob.principal, acting(forged, key="bobs")).status == REFUSED
    assert team.accept(bob.principal, acting(other, key="adas")).status == REFUSED
    assert team.records()[number].body.title == "x"
