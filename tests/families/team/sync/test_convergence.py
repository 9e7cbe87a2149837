"""Several homes and a real Core converge, with every write once, whatever the network does."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from cortex.base.actors import person
from cortex.base.errors import CortexError
from cortex.base.record_model import SENSITIVE, Comment, Observation, Subcortex, Task, Thread
from cortex.engine.store.records import outbox
from cortex.engine.store.records.backup import dump, load
from cortex.engine.store.records.ledger import open_ledger
from cortex.families.team.ids import fresh_key, new_id
from cortex.families.team.inbox import inbox
from cortex.families.team.index_text import wording
from cortex.families.team.sync import discard, rejections, state
from cortex.families.team.sync.client import Remote
from cortex.families.team.sync.connection import connect
from cortex.families.team.sync.cycle import SyncOutcome, sync
from cortex.families.team.writes.actions import update_task
from cortex.families.team.writes.create import create
from cortex.families.team.writes.update import revise
from cortex.interfaces.team_server import principals
from families.team.sync.homes import alerts, edit, make
from families.team.sync.members import Member, Shaky, at_core, put_back
from interfaces.team_server.commands.core_server import CoreServer, core_at


def test_record_of_one_home_arrives_in_another_with_the_right_names(member, team):
    ada, bob = member("ada"), member("bob")
    thread = ada.write(Thread("Cache or not", body="@bob what do you think?"))
    task = ada.write(Task("Measure it", assignees=("bob", "person")))
    assert ada.sync() == SyncOutcome("ok", flushed=2)
    assert bob.sync().pulled >= 4
    assert bob.get(thread).author == "ada" and bob.get(task).body.assignees == ("person", "ada")
    assert {entry.about for entry in inbox(bob.library).entries} == {thread, task}
    comment = bob.write(Comment(thread, "I would measure first."))
    bob.sync()
    ada.sync()
    assert ada.get(comment).author == "bob" and "measure first" in ada.get(thread).body.summary
    assert ada.has() == at_core(team) and bob.has() == {
        number: record for number, record in at_core(team).items() if number in bob.has()
    }


def test_conflict_is_shown_to_the_second_writer(member, team):
    ada, bob = member("ada"), member("bob")
    thread = ada.write(Thread("Cache or not", body="first"))
    ada.sync()
    bob.sync()
    ada.change(thread, body="of Ada")
    bob.change(thread, body="of Bob")
    assert ada.sync().status == "ok"
    outcome = bob.sync()
    assert (outcome.status, outcome.refused) == ("partial", 1)
    assert bob.get(thread).body.body == "of Ada" and bob.has() == at_core(team)
    (alert,) = [entry for entry in inbox(bob.library).entries if entry.type == "system_alert"]
    assert alert.about == thread and "of Bob" in alert.why and "RECORD_CHANGED" in alert.why
    bob.change(thread, body="of both")
    assert (
        bob.sync().status == "ok"
        and ada.sync().pulled == 1
        and ada.get(thread).body.body == "of both"
    )


@pytest.mark.parametrize("keep", ["mine", "theirs"])
def test_conflict_affects_only_fields_changed_on_both_sides(member, team, keep):
    ada, bob = member("ada"), member("bob")
    thread, task = ada.write(Thread("Cache", body="first")), ada.write(Task("Measure"))
    ada.sync()
    bob.sync()
    ada.change(thread, body="of Ada", title="Caches")
    ada.change(task, state="in_progress", notes="begun")
    bob.change(thread, body="of Bob", tags=("cache",))
    bob.change(task, state="blocked", blocked_reason="no machine", priority="high")
    ada.sync()
    assert (
        bob.sync().refused == 2
        and bob.library.store.outbox.count() == (0, 2)
        and bob.has() == at_core(team)
    )
    body, work = at_core(team)[thread][-1], at_core(team)[task][-1]
    assert (body.title, body.body, body.tags) == ("Caches", "of Ada", ("cache",))
    assert (work.state, work.blocked_reason, work.notes, work.priority) == (
        "in_progress",
        "",
        "begun",
        "high",
    )
    about = [
        rejections.typed(rejections.main_of(entry)) for entry in bob.library.store.outbox.refused()
    ]
    assert about == [{"body": "of Bob"}, {"state": "blocked", "blocked_reason": "no machine"}]
    if keep == "mine":
        assert discard.keep_mine(bob.library, [thread]) == 1 and discard.keep_mine(bob.library) == 1
    else:
        count, file = discard.keep_theirs(bob.library)
        assert count == 2 and file and "no machine" in file.read_text(encoding="utf-8")
    assert bob.sync().status == "ok" and not [
        entry for entry in inbox(bob.library).entries if entry.type == "system_alert"
    ]
    body, work = at_core(team)[thread][-1], at_core(team)[task][-1]
    mine = ("of Bob", "blocked", "no machine") if keep == "mine" else ("of Ada", "in_progress", "")
    assert (body.body, work.state, work.blocked_reason) == mine and bob.has() == at_core(team)


def test_write_without_permission_stays_at_home(member, team):
    reader = member("eve", tier=1)
    with pytest.raises(
        CortexError, match=r"person \(tier 1\) may not create thread: that needs tier 2"
    ):
        reader.write(Thread("Only mine"))
    assert reader.library.store.outbox.count() == (0, 0)
    reader.forget_tier()
    thread = reader.write(Thread("Only mine"))
    seen = reader.write(Observation("Seen"))
    outcome = reader.sync()
    assert (outcome.status, outcome.flushed, outcome.refused) == ("partial", 1, 1)
    assert list(at_core(team)) == [seen] and reader.get(thread).body.title == "Only mine"
    assert "RIGHTS_MISSING" in inbox(reader.library).entries[0].why


def test_record_hidden_at_the_core_leaves_the_home(member, team):
    ada, bob = member("ada"), member("bob", tier=3)
    private = ada.write(Subcortex("payroll", "Payroll", visibility="private"))
    thread = ada.write(Thread("Salaries of the falcon", subcortex=private))
    open_one = ada.write(Thread("Lunch", sensitivity=SENSITIVE))
    ada.sync()
    principals.grant(team.ledger, principals.find(team.ledger, "bob"), private, writes=False)
    bob.sync()
    assert set(bob.has()) == {private, thread, open_one}
    principals.ungrant(team.ledger, principals.find(team.ledger, "bob"), private)
    assert bob.sync().erased == 2 and set(bob.has()) == {open_one} and bob.get(thread) is None
    principals.change(team.ledger, principals.find(team.ledger, "bob"), sensitive=False)
    bob.sync()
    assert bob.has() == {}
    everything = b"".join(
        path.read_bytes() for path in bob.library.settings.home.iterdir() if path.is_file()
    )
    assert b"falcon" not in everything


def test_revoked_token_stops_the_sync_and_loses_nothing(member, team):
    ada = member("ada")
    thread = ada.write(Thread("Mine"))
    for token in team.ledger.principals.tokens():
        team.ledger.principals.revoke(token.id)
    outcome = ada.sync()
    assert outcome.status == "failed" and outcome.waiting == 1 and ada.token not in outcome.error
    connect(ada.library, team.url, team.let_in("ada"))
    ada.remote.close()
    ada.remote = Shaky(team.url, team.let_in("ada"))
    assert ada.sync().flushed == 1 and thread in at_core(team)


def test_new_epoch_causes_a_full_comparison(member, team):
    ada = member("ada")
    threads = [ada.write(Thread(f"Topic {place}")) for place in range(5)]
    ada.sync()
    team.ledger.renew_epoch()
    ada.change(threads[0], body="written meanwhile")
    assert ada.sync().status == "ok"
    assert (
        ada.has() == at_core(team)
        and ada.library.store.content.get(state.EPOCH) == team.ledger.epoch()
    )


def test_restored_core_gets_lost_records_from_its_homes(member, team, memory):
    ada, bob = member("ada"), member("bob")
    old = ada.write(Thread("Cache or not"))
    ada.sync()
    bob.sync()
    dump(team.ledger, memory / "backup")
    ada.change(old, body="since the backup")
    new = ada.write(Thread("New"))
    ada.sync()
    bob.sync()
    comment = bob.write(Comment(new, "said since"))
    bob.sync()
    (memory / "restored").mkdir()
    with open_ledger(f"sqlite:///{memory / 'restored'}") as ledger:
        load(ledger, memory / "backup", wording=wording(team.settings))
    with core_at(memory / "restored") as restored:
        for home in (ada, bob, ada):
            # As a name that leads elsewhere now
            home.library.store.content.set({state.URL: restored.url})
            remote = Remote(restored.url, home.token)
            outcome = sync(home.library, remote)
            remote.close()
            assert (outcome.status, outcome.waiting) == ("ok", 0), outcome
        records = at_core(restored)
        assert {old, new, comment} <= records.keys() and "since the backup" in repr(records[old])
        assert (
            ada.has() == {number: records[number] for number in ada.has()}
            and {old, new, comment} <= ada.has().keys()
        )


def test_writes_continue_while_the_core_is_away(member, team):
    ada = member("ada")
    ada.write(Thread("Offline"))
    team.stop()
    outcome = ada.sync()
    assert (outcome.status, outcome.waiting) == (
        "offline",
        1,
    ) and "can't be reached" in outcome.error
    team.start()
    assert ada.sync() == SyncOutcome("ok", flushed=1)


@pytest.mark.soak
def test_homes_converge_over_a_network_that_loses_and_repeats(member, team, campaign, monkeypatch):
    members = [member(name) for name in ("ada", "bob", "eve")]
    chance = Shaky.chance = random.Random(7)
    subcortex = members[0].write(Subcortex("storage", "Storage"))
    members[0].sync()
    marks: dict[str, str] = {}
    for turn in range(campaign(12, 500)):
        monkeypatch.setattr(Shaky, "trouble", 0.25)
        home = chance.choice(members)
        for _ in range(chance.randrange(1, 4)):
            mark = f"mark{turn}x{len(marks)}"
            marks[mark] = _deed(home, chance, mark, subcortex)
        home.sync()
    monkeypatch.setattr(Shaky, "trouble", 0.0)
    for home in members * 2:
        outcome = home.sync()
    assert outcome.status == "ok" and outcome.waiting == 0
    core = at_core(team)
    for home in members:
        seen = {
            number: known
            for number, known in core.items()
            if not number.startswith("notif_") or number in home.has()
        }
        assert home.has() == seen
        assert home.library.store.outbox.count()[0] == 0
    _check_marks(marks, core, members)


def _deed(home: Member, chance: random.Random, mark: str, subcortex: str) -> str:
    """Do something with a mark in its text; the record's id, or "" if it failed."""
    known = list(home.library.store.records.get(list(home.library.store.outbox.known())).values())
    threads = [two.id for two in known if two.kind == "thread"]
    tasks = [two.id for two in known if two.kind == "task"]
    try:
        match chance.choice(("thread", "comment", "task", "observe", "edit", "tag", "move")):
            case "comment" if threads:
                return home.write(Comment(chance.choice(threads), f"I say {mark}."))
            case "edit" if threads:
                home.change(number := chance.choice(threads), body=f"it says {mark}")
                return number
            case "tag" if threads:
                number = chance.choice(threads)
                home.change(number, tags=(*home.get(number).body.tags, mark)[-9:])
                return number
            case "move" if tasks:
                number = chance.choice(tasks)
                update_task(home.library, number, {"notes": mark}, actor=person(), key=fresh_key())
                return number
            case "task":
                return home.write(Task(f"Do {mark}", subcortex=subcortex))
            case "observe":
                return home.write(Observation(f"Saw {mark}"), by="agent")
        return home.write(Thread(f"About {mark}"))
    except CortexError:
        return ""


def _check_marks(
    marks: Mapping[str, str], core: Mapping[str, Any], members: Sequence[Member]
) -> None:
    """Every write is at the Core once, or in its author's inbox."""
    made = {number: known[-1] for number, known in core.items()}
    alerts = " ".join(
        entry.why for member in members for entry in inbox(member.library, limit=1_000).entries
    )
    for mark, number in marks.items():
        if not number:
            continue
        said = [
            number
            for number, body in made.items()
            if f"{mark}'" in repr(body) or f"{mark}." in repr(body)
        ]
        refused = [
            entry
            for member in members
            for entry in member.library.store.outbox.refused()
            if any(mark in repr(changed.after) for changed in entry.changes)
        ]
        assert said or refused or _was_said(members[0].core, number, mark), mark
        assert not refused or alerts
        new = [text for text in said if text.startswith(("thread_", "comment_", "obs_", "task_"))]
        assert (
            len(
                {
                    record_id
                    for record_id in new
                    if mark in repr(getattr(made[record_id], "title", "")) and record_id != number
                }
            )
            == 0
        ), mark


def _was_said(core: CoreServer, number: str, mark: str) -> bool:
    """Whether an earlier version of a record has the mark."""
    return any(
        mark in repr(version.body) for version in core.ledger.records.versions(number).values()
    )


def test_records_attached_before_joining_stay_with_their_thread(homes, member, team):
    library = homes("ada")
    seen = create(library, Observation("Five thousand"), actor=person()).id
    private = create(
        library, Subcortex("payroll", "Payroll", visibility="private"), actor=person()
    ).id
    thread = create(library, Thread("Salaries", subcortex=private), actor=person()).id
    revise(library, seen, lambda body: replace(body, thread=thread), actor=person(), action="edit")
    bob, eve = member("bob", tier=3), member("eve", tier=3)
    ada = member("ada")
    (entry,) = library.store.outbox.waiting()
    assert [change.id for change in entry.changes] == [private, thread, seen]
    assert ada.sync().status == "ok"
    principals.grant(team.ledger, principals.find(team.ledger, "eve"), private, writes=False)
    bob.sync()
    eve.sync()
    assert (bob.get(thread), bob.get(seen)) == (None, None)
    assert eve.get(thread) and eve.get(seen)


def test_dependent_record_waits_for_its_parent(member, team):
    ada = member("ada")
    thread, seen = new_id(Thread), new_id(Observation)
    header = {"author": "person", "created": 1, "before": None}
    late = {
        **header,
        "id": seen,
        "kind": "observation",
        "after": {"title": "Five thousand", "thread": thread},
    }
    payload = {"actor": "person", "tier": 4, "at": 1, "changes": [late]}
    (result,) = ada.remote.flush(
        [{"idempotency_key": "a@b/person", "action": "upload", "payload": payload}]
    )
    assert (result.status, result.code) == ("refused", "TARGET_NOT_FOUND") and seen not in at_core(
        team
    )


def test_write_moved_into_a_later_subcortex_is_sent_after_it(homes, team, memory, monkeypatch):
    monkeypatch.setattr(outbox, "MOST_UPLOADED", 2)
    library = homes("ada")
    thread = make(library, Thread("Plan"))
    make(library, Observation("Seen"))
    edit(library, thread, subcortex=make(library, Subcortex("ops", "Operations")))
    dump(team.ledger, memory / "backup")
    ada = Member(team, "ada", library)
    with closing(ada.remote):
        assert (
            ada.sync() == SyncOutcome("ok", flushed=3)
            and thread in at_core(team)
            and not alerts(library)
        )
    with core_at(put_back(team, memory / "backup", memory / "restored")) as core:
        ada.token = core.let_in("ada")
        assert (ada.sync_at(core).status, library.store.outbox.count()) == ("ok", (0, 0))
        assert thread in at_core(core) and not alerts(library)
