"""A home that reconnects to a Core sends its own changes since then and takes those of others."""

from __future__ import annotations

from cortex.base.actors import PERSON
from cortex.base.record_model import Comment, Subcortex, Thread
from cortex.families.team.sync import rejections
from cortex.families.team.sync.connection import connect, disconnect
from cortex.interfaces.team_server import principals
from families.team.sync.homes import alerts, once
from families.team.sync.members import at_core


def test_reconnect_takes_changes_of_others_and_sends_nothing(member, team):
    ada, bob = member("ada"), member("bob", tier=2)
    threads = [ada.write(Thread(f"Of Ada {place}", body="old")) for place in range(5)]
    threads += [bob.write(Thread(f"Of Bob {place}", body="old")) for place in range(3)]
    for home in (ada, bob, ada):
        home.sync()
    disconnect(bob.library)
    for thread in threads:
        ada.change(thread, body="new")
    ada.sync()
    assert connect(bob.library, team.url, bob.token).queued == 0
    outcome = bob.sync()
    assert (outcome.status, outcome.flushed, outcome.refused) == ("ok", 0, 0) and not alerts(
        bob.library
    )
    assert [bob.get(number).body.body for number in threads] == [
        "new"
    ] * 8 and bob.has().items() <= at_core(team).items()


def test_reconnect_sends_writes_made_while_disconnected(member, team):
    ada, bob = member("ada"), member("bob", tier=3)
    thread = ada.write(Thread("Title", body="old"))
    ada.sync()
    bob.sync()
    disconnect(bob.library)
    bob.change(thread, title="Of Bob")
    bob.change(thread, tags=("bob",))
    said = bob.write(Comment(thread, "said meanwhile"))
    ada.change(thread, body="of Ada")
    ada.sync()
    connect(bob.library, team.url, bob.token)
    assert bob.sync().status == "ok" and not alerts(bob.library)
    body = at_core(team)[thread][-1]
    assert (body.title, body.body, body.tags) == ("Of Bob", "of Ada", ("bob",)) and said in at_core(
        team
    )
    assert bob.get(thread).body == body and bob.library.store.outbox.count() == (0, 0)


def test_field_changed_on_both_sides_while_disconnected_is_a_conflict(member, team):
    ada, bob = member("ada"), member("bob", tier=3)
    thread, other = (ada.write(Thread(f"Title {place}", body="old")) for place in range(2))
    ada.sync()
    bob.sync()
    disconnect(bob.library)
    for number in (thread, other):
        bob.change(number, body="of Bob")
    ada.change(thread, body="of Ada")
    ada.sync()
    connect(bob.library, team.url, bob.token)
    outcome = bob.sync()
    assert (outcome.status, outcome.refused) == ("partial", 1) and len(alerts(bob.library)) == 1
    assert bob.get(thread).body.body == "of Ada" and at_core(team)[other][-1].body == "of Bob"
    (entry,) = bob.library.store.outbox.refused()
    assert getattr(entry.changes[0].after, "body", "") == "of Bob"


def test_refused_change_after_reconnect_is_not_taken_for_a_restore(member, team):
    ada, bob = member("ada"), member("bob", tier=2)
    thread = ada.write(Thread("Title", body="old"))
    ada.sync()
    bob.sync()
    disconnect(bob.library)
    bob.change(thread, body="of Bob")
    connect(bob.library, team.url, bob.token)
    assert bob.sync().refused == 1 and bob.get(thread).body.body == "old"
    (why,) = alerts(bob.library)
    assert "RIGHTS_MISSING" in why and not (bob.library.settings.home / "replaced").exists()


def test_reconnect_sends_writes_that_waited_at_a_forced_disconnect(member, team):
    ada, bob = member("ada"), member("bob", tier=3)
    thread = ada.write(Thread("Title", body="old"))
    ada.sync()
    bob.sync()
    bob.change(thread, body="of Bob")
    new = bob.write(Thread("New"))
    disconnect(bob.library, force=True)
    connect(bob.library, team.url, bob.token)
    assert (
        bob.sync().status == "ok"
        and at_core(team)[thread][-1].body == "of Bob"
        and new in at_core(team)
    )


def test_record_hidden_while_disconnected_is_removed(member, team):
    ada, bob = member("ada"), member("bob", tier=3)
    private = ada.write(Subcortex("payroll", "Payroll", visibility="private"))
    hidden = ada.write(Thread("Salaries", subcortex=private))
    ada.sync()
    principals.grant(team.ledger, principals.find(team.ledger, "bob"), private, writes=True)
    bob.sync()
    assert bob.get(hidden)
    disconnect(bob.library)
    principals.ungrant(team.ledger, principals.find(team.ledger, "bob"), private)
    connect(bob.library, team.url, bob.token)
    assert bob.sync().status == "ok" and bob.get(hidden) is None


def test_core_with_another_history_is_another_core(member, team):
    ada, bob = member("ada"), member("bob", tier=4)
    thread = bob.write(Thread("Of Bob"))
    bob.sync()
    ada.sync()
    disconnect(bob.library)
    team.ledger.renew_epoch()
    assert connect(bob.library, team.url, bob.token).queued == 0
    assert connect(bob.library, team.url, bob.token, choice="all").queued == 1
    assert bob.get(thread).author == PERSON


def test_reconnect_under_another_name_continues_from_the_core(member, team):
    bob = member("bob", tier=4)
    thread = bob.write(Thread("Of Bob"))
    bob.sync()
    disconnect(bob.library)
    eve = team.let_in("eve")
    assert connect(bob.library, team.url, eve).queued == 0
    assert once(bob.library, bob.core, token=eve).status == "ok" and bob.get(thread).author == "bob"


def test_second_disconnect_before_a_sync_invents_no_write(member, team):
    ada, bob = member("ada"), member("bob", tier=3)
    threads = [ada.write(Thread(f"Of Ada {place}", body="old")) for place in range(3)]
    ada.sync()
    bob.sync()
    disconnect(bob.library)
    connect(bob.library, team.url, bob.token)
    disconnect(bob.library, force=True)
    bob.change(threads[0], title="Of Bob")
    for thread in threads:
        ada.change(thread, body="new")
    ada.sync()
    assert connect(bob.library, team.url, bob.token).queued == 1
    outcome = bob.sync()
    assert (outcome.status, outcome.flushed, outcome.refused) == ("ok", 1, 0) and not alerts(
        bob.library
    )
    assert (
        at_core(team)[threads[0]][-1].title == "Of Bob" and bob.get(threads[2]).body.body == "new"
    )


def test_disconnect_removes_advice_to_resend_refused_writes(member, team):
    ada, bob = member("ada"), member("bob", tier=2)
    thread = ada.write(Thread("Title", body="old"))
    ada.sync()
    bob.sync()
    bob.forget_tier()
    bob.change(thread, body="of Bob")
    assert bob.sync().refused == 1 and alerts(bob.library)
    disconnect(bob.library, force=True)
    (file,) = (bob.library.settings.home / rejections.FOLDER).iterdir()
    assert not alerts(bob.library) and "of Bob" in file.read_text("utf-8")
