"""What was refused for something that may no longer be seen: one's own words stay, and nobody
else's.
"""

from __future__ import annotations

import json

import pytest

from cortex.base.errors import StoreError
from cortex.base.record_model import Comment, Subcortex, Thread
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.sync import cycle, rejections, state
from cortex.interfaces.team_server import principals
from families.team.sync.homes import alerts
from families.team.sync.members import Shaky, at_core

LONG = "a long argument. " * 100 + "THE END"


@pytest.mark.parametrize("read", [False, True], ids=["hidden", "refused, then hidden"])
def test_of_what_may_no_longer_be_seen_only_ones_own_words_stay_until_it_is_seen_again(
    member, team, read
):
    ada, bob = member("ada"), member("bob", tier=3)
    private = ada.write(Subcortex("payroll", "Payroll", visibility="private"))
    thread = ada.write(Thread("Salaries", body="the falcon lands", subcortex=private))
    ada.write(Comment(thread, "the falcon eats"))
    ada.sync()
    principals.grant(team.ledger, principals.find(team.ledger, "bob"), private, writes=True)
    bob.sync()
    bob.change(thread, tags=("money",))
    bob.write(Comment(thread, LONG))
    assert bob.all_of("notification")  # for ada, who opened the thread
    assert find(bob.library, RecordQuery("salaries")).hits
    if read:
        principals.change(team.ledger, principals.find(team.ledger, "bob"), tier=0)
        assert bob.sync().refused == 2 and bob.get(thread).body.tags == ()
    principals.ungrant(team.ledger, principals.find(team.ledger, "bob"), private)
    assert bob.sync().refused == 2 * (not read) and bob.get(thread) is None
    home = bob.library.settings.home
    kept = b"".join(one.read_bytes() for one in home.rglob("*") if one.is_file())
    assert b"falcon" not in kept and b"alaries" not in kept
    assert (
        not find(bob.library, RecordQuery("salaries")).hits
        and find(bob.library, RecordQuery("long argument", withheld=True)).hits
    )
    told = json.dumps(
        [
            rejections.encode_rejection(bob.library, one)
            for one in bob.library.store.outbox.refused()
        ]
    )
    assert LONG in told and "money" in told and "falcon" not in told and "Salaries" not in told
    principals.grant(team.ledger, principals.find(team.ledger, "bob"), private, writes=True)
    principals.change(team.ledger, principals.find(team.ledger, "bob"), tier=3)
    bob.library.store.outbox.retry()
    assert (
        bob.sync().status == "ok"
        and bob.library.store.outbox.count() == (0, 0)
        and not alerts(bob.library)
    )
    body = at_core(team)[thread][-1]
    assert (body.title, body.body, body.tags) == ("Salaries", "the falcon lands", ("money",))
    assert (
        "falcon eats" in body.summary
        and "long argument" in body.summary
        and bob.get(thread).body == body
    )


def test_an_alert_says_what_became_of_what_was_changed(member, team):
    ada, bob = member("ada"), member("bob", tier=3)
    private = ada.write(Subcortex("payroll", "Payroll", visibility="private"))
    thread = ada.write(Thread("Salaries", subcortex=private))
    ada.sync()
    principals.grant(team.ledger, principals.find(team.ledger, "bob"), private, writes=True)
    bob.sync()
    bob.write(Comment(thread, LONG))
    (entry,) = bob.library.store.outbox.waiting()
    # A summary is made
    assert [
        list(rejections.typed(change)) for change in entry.changes if change.kind == "thread"
    ] == [[]]
    bob.change(thread, tags=("money",))
    principals.ungrant(team.ledger, principals.find(team.ledger, "bob"), private)
    bob.sync()
    assert any("money. It is not here any more" in alert for alert in alerts(bob.library))


def test_who_was_put_out_keeps_only_what_was_never_sent(member, team):
    ada, bob = member("ada"), member("bob", tier=3)
    ada.write(Thread("Salaries", body="the falcon lands"))
    ada.sync()
    bob.sync()
    mine = bob.write(Thread("Never sent"))
    principals.change(team.ledger, principals.find(team.ledger, "bob"), state="revoked")
    outcome = bob.sync()
    assert (outcome.status, outcome.code, outcome.erased) == ("failed", "CORE_DENIED", 1)
    assert (
        "your access was revoked" in outcome.error
        and "1 of the Core's records were erased" in outcome.error
    )
    assert any("cortex backup list" in line for line in outcome.advice)
    kept = b"".join(
        one.read_bytes() for one in bob.library.settings.home.rglob("*") if one.is_file()
    )
    assert b"falcon" not in kept and bob.get(mine) and bob.library.store.outbox.count() == (1, 0)
    assert bob.sync().erased == 0
    principals.change(team.ledger, principals.find(team.ledger, "bob"), state="active")
    assert (
        bob.sync().status == "ok"
        and find(bob.library, RecordQuery("falcon")).hits
        and mine in at_core(team)
    )


@pytest.mark.parametrize("reason", ["token", "epoch", "another person", "http"])
def test_a_token_that_counts_no_more_and_another_server_erase_nothing(member, team, reason):
    ada, bob = member("ada"), member("bob", tier=3)
    thread = ada.write(Thread("Salaries"))
    ada.sync()
    bob.sync()
    if reason == "token":
        number = next(one.id for one in team.ledger.principals.tokens() if one.id in bob.token)
        team.ledger.principals.revoke(number)
    elif reason == "another person":
        token = team.let_in("eve", 3)
        principals.change(team.ledger, principals.find(team.ledger, "eve"), state="revoked")
        bob.remote.close()
        bob.remote = Shaky(team.url, token)
    elif reason == "http":
        bob.remote.url = "http://core.example.org"
        bob.library.store.content.set({state.URL: bob.remote.url})
        principals.change(team.ledger, principals.find(team.ledger, "bob"), state="revoked")
    else:
        bob.library.store.content.set({state.EPOCH: "of another Core"})
        principals.change(team.ledger, principals.find(team.ledger, "bob"), state="revoked")
    outcome = bob.sync()
    assert (outcome.code, outcome.erased) == ("CORE_DENIED", 0) and bob.get(thread)


def test_a_removal_that_stops_halfway_is_counted_and_nothing_finds_what_went(
    member, team, monkeypatch
):
    ada, bob = member("ada"), member("bob", tier=3)
    threads = [ada.write(Thread(f"Salaries {number}")) for number in range(2)]
    ada.sync()
    bob.sync()
    principals.change(team.ledger, principals.find(team.ledger, "bob"), state="revoked")
    monkeypatch.setattr(cycle, "ERASED_AT_ONCE", 1)
    apply = bob.library.store.records.apply

    def failing(records, erased, **more):
        if erased == [max(threads)]:
            raise StoreError("STORE_IO", "the disk answers with errors")
        return apply(records, erased, **more)

    monkeypatch.setattr(bob.library.store.records, "apply", failing)
    outcome = bob.sync()
    assert (outcome.code, outcome.erased) == ("STORE_IO", 1)
    assert [hit.record.id for hit in find(bob.library, RecordQuery("salaries")).hits] == [
        max(threads)
    ]
