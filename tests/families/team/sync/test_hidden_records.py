"""Writes refused for a record that is hidden now: own texts are kept, those of others removed."""

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
def test_only_own_words_about_a_hidden_record_are_kept(member, team, read):
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
    kept = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert b"falcon" not in kept and b"alaries" not in kept
    assert (
        not find(bob.library, RecordQuery("salaries")).hits
        and find(bob.library, RecordQuery("long argument", withheld=True)).hits
    )
    refused = json.dumps(
        [
            rejections.encode_rejection(bob.library, entry)
            for entry in bob.library.store.outbox.refused()
        ]
    )
    assert (
        LONG in refused
        and "money" in refused
        and "falcon" not in refused
        and "Salaries" not in refused
    )
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


def test_alert_says_what_became_of_the_refused_change(member, team):
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


def test_home_of_a_removed_principal_keeps_unsent_writes_only(member, team):
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
        path.read_bytes() for path in bob.library.settings.home.rglob("*") if path.is_file()
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
def test_revoked_token_or_another_server_erases_nothing(member, team, reason):
    ada, bob = member("ada"), member("bob", tier=3)
    thread = ada.write(Thread("Salaries"))
    ada.sync()
    bob.sync()
    if reason == "token":
        number = next(
            token.id for token in team.ledger.principals.tokens() if token.id in bob.token
        )
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


def test_interrupted_removal_is_counted_and_removed_records_are_not_found(
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
