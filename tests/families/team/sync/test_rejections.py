"""Refused writes: typed texts are never lost, and untrue records never stay."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from cortex.base.actors import agent, person
from cortex.base.errors import ConfigError
from cortex.base.record_model import (
    Artifact,
    Comment,
    Draft,
    Evidence,
    Observation,
    Subcortex,
    Task,
    Thread,
)
from cortex.base.types import Cancel
from cortex.engine.store import RecordTransaction
from cortex.engine.store.records import outbox_rows
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.sync import discard, rejections
from cortex.families.team.sync.client import Remote, ServerRejected
from cortex.families.team.sync.connection import connect, disconnect
from cortex.families.team.sync.cycle import sync
from cortex.families.team.sync.pull import FeedPull
from cortex.families.team.sync.run_context import SyncSession
from cortex.families.team.writes.actions import accept_artifact, supersede_artifact
from cortex.families.team.writes.create import create
from cortex.families.team.writes.drafts import approve, create_draft
from cortex.interfaces.team_server import principals
from cortex.interfaces.team_server.apply import batch
from families.team.sync.homes import alerts, do
from families.team.sync.members import at_core

LONG = "a long argument. " * 100 + "THE END"


def test_sync_of_an_ended_connection_writes_nothing(member, team):
    ada, bob = member("ada"), member("bob")
    thread = bob.write(Thread("Of Bob"))
    bob.sync()
    disconnect(ada.library)
    outcome = ada.sync()
    assert (
        outcome.status == "failed" and "not connected" in outcome.error and ada.get(thread) is None
    )
    assert ada.library.store.outbox.known() == {}


def test_page_of_another_connection_is_ignored(member, team):
    ada, bob = member("ada"), member("bob")
    bob.write(Thread("Of Bob"))
    bob.sync()
    pull = FeedPull(SyncSession(ada.library, ada.remote, Cancel()), lambda came: False)
    disconnect(ada.library)
    connect(ada.library, team.url, ada.token)
    with pytest.raises(ConfigError) as caught:
        pull.pull()
    assert caught.value.code == "CORE_MISSING" and ada.library.store.outbox.known() == {}


@pytest.mark.parametrize("first", [True, False])
def test_token_of_another_principal_changes_nothing(member, team, first):
    ada = member("ada")
    if not first:
        ada.write(Thread("Sent"))
        ada.sync()
    ada.write(Thread("Waits"))
    before = ada.has()
    remote = Remote(team.url, team.let_in("carl", 2))
    outcome = sync(ada.library, remote)
    remote.close()
    assert outcome.status == "failed" and "of carl" in outcome.error and outcome.waiting == 1
    assert (
        ada.has() == before
        and not alerts(ada.library)
        and len(at_core(team)) == (0 if first else 1)
    )
    assert ada.sync().status == "ok"


class Unreadable(Remote):
    """A Core that can read nothing but ids."""

    def flush(self, actions):
        if "at" in actions[0]["payload"]:
            raise ServerRejected("CORE_REFUSED", "no", status=422, said="RECORD_INVALID")
        return super().flush(actions)


def test_record_with_an_unreadable_write_is_reset_to_the_cores(member, team):
    ada, bob = member("ada"), member("bob")
    thread = ada.write(Thread("Title", body="b0"))
    ada.sync()
    bob.sync()
    bob.change(thread, title="Of Bob")
    bob.sync()
    ada.change(thread, body="of Ada")
    # A page comes while it waits
    FeedPull(SyncSession(ada.library, ada.remote, Cancel()), lambda came: False).pull()
    remote = Unreadable(team.url, ada.token)
    assert sync(ada.library, remote).refused == 1
    remote.close()
    assert ada.get(thread).body == at_core(team)[thread][-1] and "of Ada" in alerts(ada.library)[0]


def test_records_beyond_one_lookup_are_reset_too(member, team, monkeypatch):
    monkeypatch.setattr(batch, "MOST_IDS", 1)
    ada = member("ada")
    threads = [ada.write(Thread(title)) for title in ("First", "Second")]
    ada.sync()

    def work(step: RecordTransaction) -> str:
        for record in map(step.get, threads):
            step.put(replace(record, body=replace(record.body, body="of Ada")))
        return ""

    do(ada.library, work, person())
    with closing(Unreadable(team.url, ada.token)) as remote:
        assert sync(ada.library, remote).refused == 1
    assert [ada.get(thread).body for thread in threads] == [
        at_core(team)[number][-1] for number in threads
    ]


def test_offline_text_is_kept_when_the_core_disagrees(member, team):
    ada, bob = member("ada"), member("bob")
    thread = ada.write(Thread("Title", body="b0"))
    ada.sync()
    bob.sync()
    disconnect(ada.library)
    ada.change(thread, body=LONG)
    bob.change(thread, body="of Bob")
    bob.sync()
    connect(ada.library, team.url, ada.token)
    assert ada.sync().refused == 1
    (why,) = alerts(ada.library)
    assert "reads here as there" in why and "--refused" in why
    (entry,) = ada.library.store.outbox.refused()
    rejection = rejections.encode_rejection(ada.library, entry)
    assert rejection["became"] == rejections.REPLACED and LONG in repr(rejection["typed"])


def test_draft_approved_twice_is_published_once_everywhere(member, team):
    ada, bob, eve = member("ada"), member("bob"), member("eve")
    draft, *_ = create_draft(
        eve.library, Draft("thread", "A draft", "its text"), actor=agent(eve.library.settings)
    )
    for home in (eve, ada, bob):
        home.sync()
    for home in (ada, bob):
        approve(home.library, draft.id, actor=person())
    assert ada.sync().status == "ok"
    outcome = bob.sync()
    # Nothing of it is hidden: there is another in its place
    assert (outcome.refused, outcome.erased) == (1, 0)
    (thread,) = [number for number in at_core(team) if number.startswith("thread_")]
    bob.sync()
    assert bob.all_of("thread") == [thread] and bob.get(draft.id).body.published == thread
    assert [hit.record.id for hit in find(bob.library, RecordQuery("its text")).hits] == [thread]
    (why,) = alerts(bob.library)
    assert "reads here as at the Core" in why and "state: " in why and "reviewed_at: " not in why
    assert "another decision came first" in why and "write it again" not in why
    (entry,) = bob.library.store.outbox.refused()
    typed = [
        change["fields"]
        for change in rejections.encode_rejection(bob.library, entry)["typed"]
        if change["record"] == draft.id
    ]
    assert [set(change) for change in typed] == [{"state", "published"}]


def test_alert_of_a_late_approval_is_about_the_draft(member, team):
    ada, bob = member("ada"), member("bob")
    thread = ada.write(Thread("How long?"))
    wanted = Draft("comment", "An hour", "No longer.", target_kind="thread", target=thread)
    draft, *_ = create_draft(ada.library, wanted, actor=agent(ada.library.settings))
    ada.sync()
    bob.sync()
    for home in (ada, bob):
        approve(home.library, draft.id, actor=person())
        home.sync()
    (entry,) = bob.library.store.outbox.refused()
    assert rejections.main_of(entry).id == draft.id and rejections.title_of(entry) == "An hour"
    (why,) = alerts(bob.library)
    assert "You wrote: state: published" in why and "another decision came first" in why


def test_approval_refused_for_a_changed_task_can_be_repeated(member, team):
    ada, bob = member("ada"), member("bob")
    task = ada.write(Task("Measure it"))
    wanted = Draft(
        "task_update", "Hurry", "", target_kind="task", target=task, patch=(("priority", "high"),)
    )
    draft, *_ = create_draft(ada.library, wanted, actor=agent(ada.library.settings))
    ada.sync()
    bob.sync()
    ada.change(task, priority="urgent")
    ada.sync()
    approve(bob.library, draft.id, actor=person())
    assert bob.sync().refused == 1
    (why,) = alerts(bob.library)
    assert "decided first" not in why and "write it again" in why
    discard.give_up(bob.library)
    approve(bob.library, draft.id, actor=person())
    assert bob.sync().status == "ok" and at_core(team)[task][-1].priority == "high"


def test_effects_of_a_refused_write_on_other_records_are_undone(member, team):
    ada, bob = member("ada"), member("bob")
    evidence = (Evidence("thread", ada.write(Thread("Why"))),)
    old, one, two = (
        ada.write(Artifact(name, "text", evidence=evidence)) for name in ("Old", "One", "Two")
    )
    for number in (old, one, two):
        accept_artifact(ada.library, number, actor=person())
    ada.sync()
    bob.sync()
    supersede_artifact(ada.library, old, one, actor=person())
    supersede_artifact(bob.library, old, two, actor=person())
    ada.sync()
    assert bob.sync().refused == 1
    bob.sync()
    assert bob.all_of("link") == ada.all_of("link") and bob.has()[two] == at_core(team)[two]


def test_refused_comment_stays_in_its_thread(member, team):
    ada, eve = member("ada"), member("eve", tier=1)
    thread = ada.write(Thread("Title"))
    ada.sync()
    eve.sync()
    eve.forget_tier()
    comment = eve.write(Comment(thread, LONG))
    assert eve.sync().refused == 1 and eve.get(comment).body.body == LONG
    assert "stays on this machine" in alerts(eve.library)[0]


def test_copied_home_has_keys_of_its_own(member, team, homes, memory):
    ada = member("ada")
    ada.write(Thread("Sent"))
    ada.sync()
    waits = ada.write(Thread("Waits in both"))
    (memory / "copy").mkdir()
    name = "cortex.db"
    with (
        closing(sqlite3.connect(memory / "ada" / name)) as one,
        closing(sqlite3.connect(memory / "copy" / name)) as two,
    ):
        one.backup(two)
    copy = homes("copy")
    remote = Remote(team.url, ada.token)
    assert ada.sync().flushed == 1 and sync(copy, remote).status == "ok" and waits in at_core(team)
    for library in (ada.library, copy):
        create(library, Observation("Seen"), actor=person(), key="the-same-key")
    assert ada.sync().flushed == 1 and sync(copy, remote).flushed == 1
    remote.close()
    assert len([number for number in at_core(team) if number.startswith("obs_")]) == 2
    assert copy.store.content.get(outbox_rows.DEVICE) != ada.library.store.content.get(
        outbox_rows.DEVICE
    )


def test_write_refused_for_a_hidden_record_is_sent_when_it_appears(member, team):
    ada, bob = member("ada"), member("bob", tier=3)
    private = ada.write(Subcortex("payroll", "Payroll", visibility="private"))
    thread = ada.write(Thread("Plan", subcortex=private))
    ada.sync()

    def who():
        return principals.find(team.ledger, "bob")

    principals.grant(team.ledger, who(), private, writes=True)
    bob.sync()
    comment = bob.write(Comment(thread, "a long argument"))
    principals.ungrant(team.ledger, who(), private)
    assert bob.sync().refused == 1 and bob.get(thread) is None
    assert bob.sync().status == "ok" and bob.library.store.outbox.count() == (0, 1)
    principals.grant(team.ledger, who(), private, writes=True)
    assert bob.sync().status == "ok" and comment in at_core(team) and not alerts(bob.library)
