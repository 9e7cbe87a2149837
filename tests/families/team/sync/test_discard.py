"""Refused writes that are given up: their texts go to a file."""

from __future__ import annotations

import json
import os
import stat

import pytest

from cortex.base.actors import person
from cortex.base.errors import LimitError
from cortex.base.record_model import Subcortex, Thread
from cortex.base.runtime.file_lock import exclusive_lock
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.sync import cycle, discard, rejections
from cortex.families.team.sync.connection import disconnect
from cortex.families.team.sync.cycle import LOCK
from cortex.families.team.writes.create import create
from cortex.interfaces.team_server import principals
from families.team.sync.homes import alerts, edit
from families.team.sync.members import at_core

LONG = "a long argument. " * 100 + "THE END"


def test_typed_text_is_kept_until_given_up_and_then_in_a_file(member, team):
    ada, bob = member("ada"), member("bob")
    thread = ada.write(Thread("Title", body="b0"))
    ada.sync()
    bob.sync()
    bob.change(thread, body="of Bob")
    bob.sync()
    ada.change(thread, body=LONG)
    ada.sync()
    (why,) = alerts(ada.library)
    assert "reads here as at the Core" in why and "--refused" in why
    assert "--keep mine" in why and "--retry" not in why and "body says something else" in why
    (entry,) = ada.library.store.outbox.refused()
    rejection = rejections.encode_rejection(ada.library, entry)
    assert rejection["typed"] == [
        {"record": thread, "kind": "thread", "new": False, "fields": {"body": LONG}}
    ]
    assert (rejection["code"], rejection["became"]) == ("RECORD_CHANGED", rejections.REPLACED)
    disconnect(ada.library, force=True)
    (file,) = (ada.library.settings.home / rejections.FOLDER).iterdir()
    assert json.loads(file.read_text(encoding="utf-8"))[0]["changes"][0]["after"]["body"] == LONG
    assert os.name == "nt" or stat.S_IMODE(file.stat().st_mode) == 0o600


def test_giving_up_waits_for_a_running_sync(member, monkeypatch):
    monkeypatch.setattr(cycle, "TURN_SECONDS", 0.1)
    bob = member("bob", tier=2)
    bob.forget_tier()
    for slug in ("one", "two"):
        bob.write(Subcortex(slug, f"Typed {slug}"))
    bob.sync()
    home, kept = bob.library.settings.home, bob.library.store.outbox
    with exclusive_lock(str(home / LOCK), 5, lambda: False), pytest.raises(LimitError):
        discard.give_up(bob.library)
    assert (
        kept.count() == (0, 2)
        and len(alerts(bob.library)) == 2
        and not (home / rejections.FOLDER).exists()
    )
    count, file = discard.give_up(bob.library)
    assert (
        count == 2
        and file
        and all(f"Typed {slug}" in file.read_text("utf-8") for slug in ("one", "two"))
    )
    assert (
        kept.count() == (0, 0)
        and not alerts(bob.library)
        and discard.give_up(bob.library) == (0, None)
    )


def test_giving_up_removes_later_writes_to_the_record_too(member, team):
    bob = member("bob", tier=3)
    thread = bob.write(Thread("Mine"))
    principals.change(team.ledger, principals.find(team.ledger, "bob"), tier=1)
    assert bob.sync().refused == 1
    edit(bob.library, thread, body="waits")
    _, file = discard.give_up(bob.library)
    assert bob.library.store.outbox.count() == (0, 0) and bob.get(thread) is None
    assert "waits" in file.read_text("utf-8") and find(bob.library, RecordQuery("Mine")).hits == ()
    assert bob.sync().status == "ok" and not at_core(team)


def test_record_older_than_the_connection_stays_when_given_up(member, team, homes):
    library = homes("bob")
    thread = create(library, Thread("Mine"), actor=person()).id
    bob = member("bob", tier=1)
    assert bob.sync().refused == 1
    discard.give_up(bob.library)
    assert bob.library.store.outbox.count() == (0, 0) and bob.get(thread)
    assert bob.sync().status == "ok" and not at_core(team)
