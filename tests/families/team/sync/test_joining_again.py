"""Who left a Core and joins it again: only what was written here meanwhile is sent, and what others
wrote is simply taken over.
"""

from __future__ import annotations

from cortex.base.actors import PERSON
from cortex.base.record_model import Comment, Subcortex, Thread
from cortex.families.team.sync import rejections
from cortex.families.team.sync.connection import connect, disconnect
from cortex.interfaces.team_server import principals
from families.team.sync.homes import alerts, once
from families.team.sync.members import at_core


def test_what_others_changed_meanwhile_is_taken_over_and_no_write_of_ones_own(member, team):
    ada, bob = member("ada"), member("bob", tier=2)
    threads = [ada.write(Thread(f"Of Ada {place}", body="old")) for place in range(5)]
    threads += [bob.write(Thread(f"Of Bob {place}", body="old")) for place in range(3)]
    for one in (ada, bob, ada):
        one.sync()
    disconnect(bob.library)
    for thread in threads:
        ada.change(thread, body="new")
    ada.sync()
    assert connect(bob.library, team.url, bob.token).queued == 0
    outcome = bob.sync()
    assert (outcome.status, outcome.flushed, outcome.refused) == ("ok", 0, 0) and not alerts(
        bob.library
    )
    assert [bob.get(one).body.body for one in threads] == [
        "new"
    ] * 8 and bob.has().items() <= at_core(team).items()


def test_what_was_written_here_meanwhile_is_sent_beside_what_others_changed(member, team):
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


def test_what_both_changed_meanwhile_is_refused_and_seen(member, team):
    ada, bob = member("ada"), member("bob", tier=3)
    thread, other = (ada.write(Thread(f"Title {place}", body="old")) for place in range(2))
    ada.sync()
    bob.sync()
    disconnect(bob.library)
    for one in (thread, other):
        bob.change(one, body="of Bob")
    ada.change(thread, body="of Ada")
    ada.sync()
    connect(bob.library, team.url, bob.token)
    outcome = bob.sync()
    assert (outcome.status, outcome.refused) == ("partial", 1) and len(alerts(bob.library)) == 1
    assert bob.get(thread).body.body == "of Ada" and at_core(team)[other][-1].body == "of Bob"
    (entry,) = bob.library.store.outbox.refused()
    assert getattr(entry.changes[0].after, "body", "") == "of Bob"


def test_what_may_not_be_changed_is_refused_and_no_core_was_put_back(member, team):
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


def test_what_waited_when_somebody_left_by_force_is_sent(member, team):
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


def test_what_was_hidden_meanwhile_leaves(member, team):
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


def test_a_core_with_another_history_is_another_core(member, team):
    ada, bob = member("ada"), member("bob", tier=4)
    thread = bob.write(Thread("Of Bob"))
    bob.sync()
    ada.sync()
    disconnect(bob.library)
    team.ledger.renew_epoch()
    assert connect(bob.library, team.url, bob.token).queued == 0
    assert connect(bob.library, team.url, bob.token, choice="all").queued == 1
    assert bob.get(thread).author == PERSON


def test_who_joins_the_same_core_under_another_name_goes_on_from_what_it_has(member, team):
    bob = member("bob", tier=4)
    thread = bob.write(Thread("Of Bob"))
    bob.sync()
    disconnect(bob.library)
    eve = team.let_in("eve")
    assert connect(bob.library, team.url, eve).queued == 0
    assert once(bob.library, bob.core, token=eve).status == "ok" and bob.get(thread).author == "bob"


def test_who_leaves_again_before_a_sync_has_still_written_nothing(member, team):
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


def test_who_leaves_is_no_longer_told_how_to_send_what_was_refused(member, team):
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
