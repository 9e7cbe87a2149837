"""A Core restored from a backup: homes send back what it lost and undo no later write."""

from __future__ import annotations

import json

import pytest

from cortex.base.actors import person
from cortex.base.errors import ConfigError
from cortex.base.record_model import Comment, Link, Observation, Subcortex, Task, Thread
from cortex.engine.store.records import outbox_rows
from cortex.engine.store.records.backup import dump
from cortex.families.team.sync import overwritten, push, state
from cortex.families.team.sync.connection import connect
from cortex.families.team.sync.run_context import now
from cortex.families.team.writes.actions import update_task
from cortex.interfaces.team_server import principals
from families.team.sync.homes import alerts
from families.team.sync.members import at_core


def test_writes_of_others_after_the_restore_are_not_undone(member, team, memory, restored):
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
        assert (
            (body.title, body.body) == ("Of Bob", "v4")
            and ada.get(thread).body == body
            and not alerts(ada.library)
        )


def test_write_of_another_in_a_lost_version_hides_no_loss(member, team, memory, restored):
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
        assert (at_core(core)[thread][-1].title, at_core(core)[thread][-1].body) == (
            "Of Bob",
            "of Ada",
        )


def test_write_on_a_record_of_another_home_is_retried_until_that_returns(
    member, team, memory, restored
):
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
        assert ada.sync_at(core).refused == 0 and len(alerts(ada.library)) == 1
        assert bob.sync_at(core).status == "ok"
        assert ada.sync_at(core).status == "ok" and not alerts(ada.library)
        assert set(said) <= at_core(core).keys() and ada.library.store.outbox.count() == (0, 0)


def test_dependent_write_returns_with_the_record_of_another_home(member, team, memory, restored):
    ada, bob = member("ada"), member("bob")
    dump(team.ledger, memory / "backup")
    thread = bob.write(Thread("Of Bob"))
    bob.sync()
    ada.sync()
    said = ada.write(Comment(thread, "a comment"))
    ada.change(thread, body="of Ada")
    link = ada.write(Link(said, "supports", ada.write(Observation("Seen"))))  # names no thread
    ada.sync()
    with restored() as core:
        assert ada.sync_at(core).refused == 3 and ada.sync_at(core).refused == 0
        bob.sync_at(core)
        assert ada.sync_at(core).status == "ok" and not alerts(ada.library)
        assert {said, link} <= at_core(core).keys() and at_core(core)[thread][-1].body == "of Ada"
        assert ada.library.store.outbox.count() == (0, 0)


def test_every_restore_is_reported(member, team, memory, restored):
    ada, bob = member("ada"), member("bob")
    dump(team.ledger, memory / "backup")
    thread = bob.write(Thread("Of Bob"))
    bob.sync()
    ada.sync()
    ada.write(Comment(thread, "said"))
    ada.sync()
    with restored("first") as core:
        ada.sync_at(core)
        assert len(alerts(ada.library)) == 1
        bob.sync_at(core)
        ada.sync_at(core)
        assert not alerts(ada.library)
    with restored("second") as core:
        assert ada.sync_at(core).refused == 1 and len(alerts(ada.library)) == 1


def test_record_trimmed_from_the_journal_is_sent_as_new(
    member, team, memory, restored, monkeypatch
):
    monkeypatch.setattr(outbox_rows, "TRIM_EVERY", 1)
    monkeypatch.setattr(outbox_rows, "MOST_KEPT", 1)
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


def test_new_epoch_without_a_loss_repeats_no_write(member, team):
    ada = member("ada")
    thread = ada.write(Thread("Title"))
    for place in range(3):
        ada.change(thread, body=f"b{place}")
    ada.sync()
    before = at_core(team)
    team.ledger.renew_epoch()
    assert ada.sync().status == "ok" and at_core(team) == before == ada.has()
    assert ada.library.store.content.get(state.RESENT) and ada.library.store.outbox.count() == (
        0,
        0,
    )


@pytest.mark.parametrize(
    ("name", "value"), [("MOST_KEPT", 2), ("MOST_KEPT_BYTES", 350), ("KEPT_MS", -1)]
)
def test_journal_is_trimmed(member, monkeypatch, name, value):
    monkeypatch.setattr(outbox_rows, "TRIM_EVERY", 1)
    monkeypatch.setattr(outbox_rows, name, value)
    ada = member("ada")
    for place in range(5):
        ada.write(Observation(f"Seen {place}"))
    ada.sync()
    kept = ada.library.store.outbox._entries("state = ?", ("sent",))
    assert len(kept) <= 2 and all("Seen 4" in repr(row) or "Seen 3" in repr(row) for row in kept)


def test_hidden_record_leaves_the_journal(member, team):
    ada, bob = member("ada"), member("bob", tier=3)
    private = ada.write(Subcortex("payroll", "Payroll", visibility="private"))
    thread = ada.write(Thread("Salaries", subcortex=private))
    ada.sync()
    principals.grant(team.ledger, principals.find(team.ledger, "bob"), private, writes=True)
    bob.sync()
    bob.write(Comment(thread, "the falcon lands"))
    other = bob.write(Thread("Lunch"))
    bob.sync()
    principals.ungrant(team.ledger, principals.find(team.ledger, "bob"), private)
    bob.sync()
    (kept,) = bob.library.store.outbox._entries("state = ?", ("sent",))
    assert kept.changes[0].id == other
    everything = b"".join(
        path.read_bytes() for path in bob.library.settings.home.iterdir() if path.is_file()
    )
    assert b"falcon" not in everything


def test_removed_notification_keeps_edits_in_the_journal(member, team, memory, restored):
    ada, bob = member("ada"), member("bob")
    task = ada.write(Task("Do it", assignees=("bob",)))
    ada.sync()
    bob.sync()
    dump(team.ledger, memory / "backup")
    bob.change(task, assignees=())
    bob.sync()
    # The second closes the notification of the first
    for change in ({"priority": "high"}, {"state": "in_progress"}):
        update_task(ada.library, task, change, actor=person())
    ada.sync()
    with restored() as core:
        ada.sync_at(core)
        assert at_core(core)[task][-1].priority == "high" == ada.get(task).body.priority


def test_lost_write_that_conflicts_is_one_alert_and_not_retried(member, team, memory, restored):
    ada, bob = member("ada"), member("bob")
    thread = ada.write(Thread("A"))
    ada.sync()
    bob.sync()
    dump(team.ledger, memory / "backup")
    ada.change(thread, title="B")
    ada.sync()
    with restored() as core:
        bob.sync_at(core)
        bob.change(thread, title="C")
        bob.sync_at(core)
        assert (outcome := ada.sync_at(core)).status == "partial" and outcome.refused == 1
        bob.change(thread, body="more")
        bob.sync_at(core)
        assert (
            ada.sync_at(core).status == "ok"
            and sum("did not take" in why for why in alerts(ada.library)) == 1
        )
        ada.library.store.content.set({state.RESENT: str(now() - push.RESENT_MS)})
        bob.change(thread, title="A")
        bob.sync_at(core)
        assert ada.sync_at(core).status == "ok" and at_core(core)[thread][-1].title == "A"
        assert ada.library.store.outbox.count() == (0, 1)


def test_merged_or_refused_write_is_not_taken_for_a_loss(member, team):
    ada, bob = member("ada"), member("bob", tier=2)
    one, two = (ada.write(Subcortex(slug, slug)) for slug in ("one", "two"))
    thread = ada.write(Thread("Title", subcortex=one))
    ada.sync()
    bob.sync()
    ada.change(thread, subcortex=two)
    ada.sync()
    bob.forget_tier()
    comment = bob.write(Comment(thread, "hello"))  # is taken, with the other subcortex
    bob.change(comment, body="hello world")  # is refused: it would move it
    outcome = bob.sync()
    assert outcome.flushed == outcome.refused == 1
    assert not (bob.library.settings.home / overwritten.FOLDER).exists()
    assert not [why for why in alerts(bob.library) if "put back" in why]


@pytest.mark.parametrize("writes", [1, 2])
def test_writes_of_another_in_place_of_lost_ones_hide_no_loss(
    member, team, memory, restored, writes
):
    ada, bob, eve = member("ada"), member("bob"), member("eve")
    thread = ada.write(Thread("Title", body="old"))
    for home in (ada, bob, eve):
        home.sync()
    dump(team.ledger, memory / "backup")
    ada.change(thread, body="of Ada")
    ada.sync()
    bob.sync()
    with restored() as core:
        eve.sync_at(core)
        for place in range(writes):
            eve.change(thread, title=f"Of Eve {place + 1}")
        eve.sync_at(core)
        bob.sync_at(core)
        assert bob.get(thread).body.title == f"Of Eve {writes}" and len(alerts(bob.library)) == (
            writes == 1
        )
        files = (bob.library.settings.home / overwritten.FOLDER).glob("*")
        earlier = bob.library.store.records.versions(thread).values()
        assert "of Ada" in [
            *(json.loads(file.read_text("utf-8"))["body"]["body"] for file in files)
        ] + [version.body.body for version in earlier]


def test_moved_core_with_another_history_is_accepted_on_request(member, team, memory, restored):
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
