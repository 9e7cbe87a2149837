"""A Core that was put back from a backup: it gets what it lost from the homes, and nobody's later writes are undone by that."""

from __future__ import annotations

import pytest

from cli.core_server import core_at
from cortex.core import people
from cortex.errors import ConfigError
from cortex.kinds import Comment, Observation, Subcortex, Thread
from cortex.store import outbox
from cortex.store.backup import dump
from cortex.sync import running, state
from cortex.sync.connecting import connect
from sync.homes import alerts
from sync.members import at_core, put_back


@pytest.fixture
def restored(team, memory):
    """`with restored() as core`: the Core as it was when the backup was made."""
    return lambda name="restored": core_at(put_back(team, memory / "backup", memory / name))


def test_what_others_wrote_after_the_restore_is_not_undone(member, team, memory, restored):
    ada, bob = member("ada"), member("bob")
    thread = ada.write(Thread("Title", body="b0"))
    ada.sync()
    bob.sync()
    dump(team.ledger, memory / "backup")
    for text in ("v2", "v3", "v4"):
        ada.change(thread, body=text)
        ada.sync()
    with restored() as core:
        bob.sync_at(core)
        bob.change(thread, title="Of Bob")
        bob.sync_at(core)
        assert ada.sync_at(core).status == "ok"
        body = at_core(core)[thread][-1]
        assert (body.title, body.body) == ("Of Bob", "v4") and ada.get(thread).body == body and not alerts(ada.library)


def test_a_write_of_another_that_takes_the_lost_version_hides_nothing(member, team, memory, restored):
    ada, bob = member("ada"), member("bob")
    thread = ada.write(Thread("Title", body="b0"))
    ada.sync()
    bob.sync()
    dump(team.ledger, memory / "backup")
    ada.change(thread, body="of Ada")
    ada.sync()
    with restored() as core:
        bob.sync_at(core)
        bob.change(thread, title="Of Bob")
        bob.sync_at(core)
        ada.sync_at(core)
        assert (at_core(core)[thread][-1].title, at_core(core)[thread][-1].body) == ("Of Bob", "of Ada")


def test_what_builds_on_what_another_home_still_has_is_tried_until_that_came(member, team, memory, restored):
    ada, bob = member("ada"), member("bob")
    dump(team.ledger, memory / "backup")
    threads = [bob.write(Thread(f"Of Bob {place}")) for place in range(3)]
    bob.sync()
    ada.sync()
    said = [ada.write(Comment(thread, "a long comment")) for thread in threads]
    ada.sync()
    with restored() as core:
        assert ada.sync_at(core).refused == 3
        assert all(ada.get(number) for number in (*threads, *said))
        assert ada.sync_at(core).refused == 3 and len(alerts(ada.library)) == 1
        assert bob.sync_at(core).status == "ok"
        assert ada.sync_at(core).status == "ok" and not alerts(ada.library)
        assert set(said) <= at_core(core).keys() and ada.library.store.outbox.count() == (0, 0)


def test_after_some_days_nothing_is_tried_by_itself_any_more(member, team, memory, restored, monkeypatch):
    ada, bob = member("ada"), member("bob")
    dump(team.ledger, memory / "backup")
    thread = bob.write(Thread("Of Bob"))
    bob.sync()
    ada.sync()
    ada.write(Comment(thread, "said"))
    ada.sync()
    with restored() as core:
        ada.sync_at(core)
        monkeypatch.setattr(running, "RESENT_MS", 0)
        assert ada.sync_at(core).refused == 0 and ada.library.store.outbox.count() == (0, 1)


def test_what_the_journal_has_no_more_is_sent_as_new(member, team, memory, restored, monkeypatch):
    monkeypatch.setattr(outbox, "TRIM_EVERY", 1)
    monkeypatch.setattr(outbox, "MOST_KEPT", 1)
    ada = member("ada")
    dump(team.ledger, memory / "backup")
    thread = ada.write(Thread("Old"))
    ada.change(thread, body="b1")
    ada.sync()
    ada.change(thread, body="b2")
    seen = ada.write(Observation("Seen"))
    ada.sync()
    assert len(ada.library.store.outbox._entries("state = ?", ("sent",))) == 1
    with restored() as core:
        assert ada.sync_at(core).status == "ok"
        assert at_core(core)[thread][-1].body == "b2" and seen in at_core(core)


def test_a_ledger_that_only_begins_another_history_does_nothing_twice(member, team):
    ada = member("ada")
    thread = ada.write(Thread("Title"))
    for place in range(3):
        ada.change(thread, body=f"b{place}")
    ada.sync()
    before = at_core(team)
    team.ledger.renew_epoch()
    assert ada.sync().status == "ok" and at_core(team) == before == ada.has()
    assert ada.library.store.truth.get(state.RESENT) and ada.library.store.outbox.count() == (0, 0)


@pytest.mark.parametrize(("name", "value"), [("MOST_KEPT", 2), ("MOST_KEPT_BYTES", 350), ("KEPT_MS", -1)])
def test_the_journal_stays_small(member, monkeypatch, name, value):
    monkeypatch.setattr(outbox, "TRIM_EVERY", 1)
    monkeypatch.setattr(outbox, name, value)
    ada = member("ada")
    for place in range(5):
        ada.write(Observation(f"Seen {place}"))
    ada.sync()
    kept = ada.library.store.outbox._entries("state = ?", ("sent",))
    assert len(kept) <= 2 and all("Seen 4" in repr(one) or "Seen 3" in repr(one) for one in kept)


def test_what_may_no_longer_be_seen_is_in_no_journal(member, team):
    ada, bob = member("ada"), member("bob", tier=3)
    private = ada.write(Subcortex("payroll", "Payroll", visibility="private"))
    thread = ada.write(Thread("Salaries", subcortex=private))
    ada.sync()
    people.grant(team.ledger, people.find(team.ledger, "bob"), private, writes=True)
    bob.sync()
    bob.write(Comment(thread, "the falcon lands"))
    other = bob.write(Thread("Lunch"))
    bob.sync()
    people.ungrant(team.ledger, people.find(team.ledger, "bob"), private)
    bob.sync()
    (kept,) = bob.library.store.outbox._entries("state = ?", ("sent",))
    assert kept.changes[0].id == other
    everything = b"".join(one.read_bytes() for one in bob.library.settings.home.iterdir() if one.is_file())
    assert b"falcon" not in everything


def test_a_core_that_moved_with_another_history_is_the_same_one_where_somebody_says_so(member, team, memory, restored):
    ada = member("ada")
    dump(team.ledger, memory / "backup")
    thread = ada.write(Thread("Since the backup"))
    ada.sync()
    with restored() as core:
        with pytest.raises(ConfigError) as caught:
            connect(ada.library, core.url, ada.token)
        assert caught.value.code == "CORE_CONNECTED" and "--moved" in caught.value.suggestions[0]
        assert connect(ada.library, core.url, ada.token, moved=True).again
        assert ada.sync_at(core).status == "ok" and thread in at_core(core)
