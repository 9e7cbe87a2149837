"""Newer versions of others, saved before those of a restored Core replace them."""

from __future__ import annotations

import json

from cortex.base.record_model import Comment, Thread
from cortex.engine.store.records.backup import dump
from cortex.families.team.sync import overwritten
from families.team.sync.homes import alerts


def test_lost_version_of_others_is_saved_before_the_older_one_is_taken(
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
        assert [bob.get(number).body.body for number in threads] == ["old"] * 3
        (file,) = (bob.library.settings.home / overwritten.FOLDER).iterdir()
        kept = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        assert {row["id"]: row["body"]["body"] for row in kept} == {
            thread: f"three pages of Ada {place}" for place, thread in enumerate(threads)
        }
        (why,) = alerts(bob.library)
        assert "3 records" in why and file.name in why
        assert bob.sync_at(core).status == "ok" and len(alerts(bob.library)) == 1


def test_unchanged_older_version_is_not_reported(member, team, memory, restored):
    ada, bob = member("ada"), member("bob")
    thread = ada.write(Thread("Title", body="old"))
    ada.sync()
    bob.sync()
    dump(team.ledger, memory / "backup")
    # The summary cites it.
    ada.write(Comment(thread, "Tokens live for five minutes. That was decided."))
    for text in ("new", "old"):
        ada.change(thread, body=text)
    ada.sync()
    bob.sync()
    with restored() as core:
        assert bob.sync_at(core).status == "ok" and not alerts(bob.library)
        assert not (bob.library.settings.home / overwritten.FOLDER).exists()
