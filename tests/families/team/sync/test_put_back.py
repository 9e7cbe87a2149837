"""A Core that was put back from a backup: it gets what it lost from the homes, and nobody's later
writes are undone by that.
"""

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
from families.team.sync.members import at_core, put_back
from interfaces.team_server.commands.core_server import core_at


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
        assert (
            (body.title, body.body) == ("Of Bob", "v4")
            and ada.get(thread).body == body
            and not alerts(ada.library)
        )


def test_a_write_of_another_that_takes_the_lost_version_hides_nothing(
    member, team, memory, restored
):
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


def test_what_builds_on_what_another_home_still_has_is_tried_until_that_came(
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


def test_what_builds_on_something_that_waited_for_another_home_comes_with_it(
    member, team, memory, restored
):
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
        assert ada.sync_at(core).refused == 3 and ada.sync_at(core).refused == 0  # told once
        bob.sync_at(core)
        assert ada.sync_at(core).status == "ok" and not alerts(ada.library)
        assert {said, link} <= at_core(core).keys() and at_core(core)[thread][-1].body == "of Ada"
        assert ada.library.store.outbox.count() == (0, 0)


def test_each_time_that_a_core_is_put_back_is_told(member, team, memory, restored):
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


def test_what_the_journal_has_no_more_is_sent_as_new(member, team, memory, restored, monkeypatch):
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


def test_a_ledger_that_only_begins_another_history_does_nothing_twice(member, team):
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
def test_the_journal_stays_small(member, monkeypatch, name, value):
    monkeypatch.setattr(outbox_rows, "TRIM_EVERY", 1)
    monkeypatch.setattr(outbox_rows, name, value)
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
        one.read_bytes() for one in bob.library.settings.home.iterdir() if one.is_file()
    )
    assert b"falcon" not in everything


def test_a_notification_that_goes_takes_no_edit_out_of_the_journal(member, team, memory, restored):
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


def test_what_others_wrote_and_the_core_has_lost_is_kept_before_its_older_version_is_taken_over(
    member, team, memory, restored
):
    ada, bob = member("ada"), member("bob")
    threads = [ada.write(Thread(f"Title {place}", body="old")) for place in range(3)]
    ada.sync()
    bob.sync()
    dump(team.ledger, memory / "backup")
    for place, thread in enumerate(threads):
        ada.change(thread, body=f"three pages of Ada {place}")
    ada.sync()
    bob.sync()
    bob.change(threads[1], title="Of Bob")  # is sent again, on top of what is old
    bob.sync()
    bob.change(threads[2], title="Also of Bob")  # waits
    with restored() as core:
        assert bob.sync_at(core).status == "ok"
        assert [bob.get(one).body.body for one in threads] == ["old"] * 3
        (file,) = (bob.library.settings.home / overwritten.FOLDER).iterdir()
        kept = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        assert {one["id"]: one["body"]["body"] for one in kept} == {
            thread: f"three pages of Ada {place}" for place, thread in enumerate(threads)
        }
        (why,) = alerts(bob.library)
        assert "3 records" in why and file.name in why
        assert bob.sync_at(core).status == "ok" and len(alerts(bob.library)) == 1


def test_what_clashes_with_what_others_wrote_since_is_told_once_and_not_tried_for_ever(
    member, team, memory, restored
):
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
        assert ada.library.store.outbox.count() == (0, 1)  # until somebody decides


def test_what_the_core_took_otherwise_and_a_refusal_look_like_no_loss(member, team):
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


def test_what_is_the_same_in_an_older_version_is_not_told(member, team, memory, restored):
    ada, bob = member("ada"), member("bob")
    thread = ada.write(Thread("Title", body="old"))
    ada.sync()
    bob.sync()
    dump(team.ledger, memory / "backup")
    # The summary tells of it
    ada.write(Comment(thread, "Tokens live for five minutes. That was decided."))
    for text in ("new", "old"):
        ada.change(thread, body=text)
    ada.sync()
    bob.sync()
    with restored() as core:
        assert bob.sync_at(core).status == "ok" and not alerts(bob.library)
        assert not (bob.library.settings.home / overwritten.FOLDER).exists()


@pytest.mark.parametrize("writes", [1, 2])
def test_writes_of_another_in_place_of_what_was_lost_hide_nothing(
    member, team, memory, restored, writes
):
    ada, bob, eve = member("ada"), member("bob"), member("eve")
    thread = ada.write(Thread("Title", body="old"))
    for one in (ada, bob, eve):
        one.sync()
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
        ] + [one.body.body for one in earlier]


def test_a_core_that_moved_with_another_history_is_the_same_one_where_somebody_says_so(
    member, team, memory, restored
):
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
