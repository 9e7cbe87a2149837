"""What somebody typed is never lost by a refusal, and what isn't true never stays."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace

import pytest

from cortex.base.actors import agent, person
from cortex.base.errors import ConfigError, LimitError
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
from cortex.base.runtime.file_lock import exclusive_lock
from cortex.base.types import Cancel
from cortex.engine.store import RecordTransaction
from cortex.engine.store.records import outbox_rows
from cortex.families.team.references import by_slug
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.sync import cycle, discard, rejections
from cortex.families.team.sync.client import Remote, ServerRejected
from cortex.families.team.sync.connection import connect, disconnect
from cortex.families.team.sync.cycle import LOCK, sync
from cortex.families.team.sync.pull import FeedPull
from cortex.families.team.sync.run_context import SyncSession
from cortex.families.team.writes.actions import accept_artifact, supersede_artifact
from cortex.families.team.writes.create import create
from cortex.families.team.writes.drafts import approve, create_draft
from cortex.interfaces.team_server import principals
from cortex.interfaces.team_server.apply import batch
from families.team.sync.homes import alerts, do, edit
from families.team.sync.members import Member, at_core

LONG = "a long argument. " * 100 + "THE END"


def test_a_sync_of_a_connection_that_is_over_writes_nothing(member, team):
    ada, bob = member("ada"), member("bob")
    thread = bob.write(Thread("Of Bob"))
    bob.sync()
    disconnect(ada.library)
    outcome = ada.sync()
    assert (
        outcome.status == "failed" and "not connected" in outcome.error and ada.get(thread) is None
    )
    assert ada.library.store.outbox.known() == {}


def test_a_page_of_another_connection_is_not_taken(member, team):
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
def test_the_token_of_somebody_else_changes_nothing(member, team, first):
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
    """A Core that can't read what it is sent, but for ids."""

    def flush(self, actions):
        if "at" in actions[0]["payload"]:
            raise ServerRejected("CORE_REFUSED", "no", status=422, said="RECORD_INVALID")
        return super().flush(actions)


def test_what_the_core_cannot_read_is_taken_over_as_it_is_there(member, team):
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


def test_of_more_than_the_core_tells_at_once_the_rest_is_taken_over_too(member, team, monkeypatch):
    monkeypatch.setattr(batch, "MOST_IDS", 1)
    ada = member("ada")
    threads = [ada.write(Thread(title)) for title in ("First", "Second")]
    ada.sync()

    def work(step: RecordTransaction) -> str:
        for one in map(step.get, threads):
            step.put(replace(one, body=replace(one.body, body="of Ada")))
        return ""

    do(ada.library, work, person())
    with closing(Unreadable(team.url, ada.token)) as remote:
        assert sync(ada.library, remote).refused == 1
    assert [ada.get(thread).body for thread in threads] == [
        at_core(team)[one][-1] for one in threads
    ]


def test_all_that_was_typed_is_kept_until_it_is_given_up_and_then_in_a_file(member, team):
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
    told = rejections.encode_rejection(ada.library, entry)
    assert told["typed"] == [
        {"record": thread, "kind": "thread", "new": False, "fields": {"body": LONG}}
    ]
    assert (told["code"], told["became"]) == ("RECORD_CHANGED", rejections.REPLACED)
    disconnect(ada.library, force=True)
    (file,) = (ada.library.settings.home / rejections.FOLDER).iterdir()
    assert json.loads(file.read_text(encoding="utf-8"))[0]["changes"][0]["after"]["body"] == LONG
    assert os.name == "nt" or stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_was_written_while_away_is_kept_when_the_core_says_something_else(member, team):
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
    told = rejections.encode_rejection(ada.library, entry)
    assert told["became"] == rejections.REPLACED and LONG in repr(told["typed"])


def test_a_draft_that_two_approved_is_published_once_everywhere(member, team):
    ada, bob, eve = member("ada"), member("bob"), member("eve")
    draft, *_ = create_draft(
        eve.library, Draft("thread", "A draft", "its text"), actor=agent(eve.library.settings)
    )
    for one in (eve, ada, bob):
        one.sync()
    for one in (ada, bob):
        approve(one.library, draft.id, actor=person())
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
    assert "somebody else decided first" in why and "write it again" not in why
    (entry,) = bob.library.store.outbox.refused()
    typed = [
        one["fields"]
        for one in rejections.encode_rejection(bob.library, entry)["typed"]
        if one["record"] == draft.id
    ]
    assert [set(one) for one in typed] == [{"state", "published"}]


def test_an_approval_that_came_too_late_is_about_the_draft_and_not_about_the_thread_that_it_was_for(
    member, team
):
    ada, bob = member("ada"), member("bob")
    thread = ada.write(Thread("How long?"))
    wanted = Draft("comment", "An hour", "No longer.", target_kind="thread", target=thread)
    draft, *_ = create_draft(ada.library, wanted, actor=agent(ada.library.settings))
    ada.sync()
    bob.sync()
    for one in (ada, bob):
        approve(one.library, draft.id, actor=person())
        one.sync()
    (entry,) = bob.library.store.outbox.refused()
    assert rejections.main_of(entry).id == draft.id and rejections.title_of(entry) == "An hour"
    (why,) = alerts(bob.library)
    assert "You wrote: state: published" in why and "somebody else decided first" in why


def test_an_approval_that_meets_a_later_change_of_its_task_can_be_done_again(member, team):
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


def test_what_a_refused_write_said_of_others_does_not_stay(member, team):
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


def test_a_comment_that_is_refused_stays_where_it_was_written(member, team):
    ada, eve = member("ada"), member("eve", tier=1)
    thread = ada.write(Thread("Title"))
    ada.sync()
    eve.sync()
    eve.forget_tier()
    comment = eve.write(Comment(thread, LONG))
    assert eve.sync().refused == 1 and eve.get(comment).body.body == LONG
    assert "stays on this machine" in alerts(eve.library)[0]


@pytest.mark.parametrize("joined", [True, False])
def test_a_slug_that_the_core_has_already_holds_up_nothing(member, team, homes, joined):
    bob = member("bob")
    theirs = bob.write(Subcortex("backend", "Of Bob"))
    library = homes("ada")
    ada = Member(team, "ada", library) if joined else None
    mine = create(library, Subcortex("backend", "Of Ada"), actor=person()).id
    ids = [
        create(library, Thread(f"Topic {place}", subcortex="backend"), actor=person()).id
        for place in range(3)
    ]
    draft, *_ = create_draft(
        library, Draft("thread", "A draft", "text", target="backend"), actor=person()
    )
    bob.sync()
    ada = ada or Member(team, "ada", library)
    outcome = ada.sync()
    assert outcome.status == "ok", alerts(library)
    assert [one.id for one in [by_slug(library.store.records, "backend")] if one] == [
        theirs
    ] and ada.get(mine).body.slug == "backend-2"
    assert {at_core(team)[number][-1].subcortex for number in ids} == {mine}
    assert ada.get(draft.id).body.target == mine and ada.has().items() <= at_core(team).items()
    (why,) = alerts(library)
    assert "backend-2" in why
    later = ada.write(Thread("Later", subcortex="backend"))
    assert ada.sync().status == "ok" and at_core(team)[later][-1].subcortex == theirs
    ada.remote.close()


def test_a_slug_after_the_next_one_is_taken_too(member, team):
    ada, bob = member("ada"), member("bob")
    for slug in ("backend", "backend-2"):
        bob.write(Subcortex(slug, "Of Bob"))
    mine = ada.write(Subcortex("backend", "Of Ada"))
    bob.sync()
    assert ada.sync().status == "ok" and at_core(team)[mine][-1].slug == "backend-3"


def test_only_the_subcortex_that_clashes_gets_another_slug(member, team, homes):
    bob, library = member("bob"), homes("ada")
    bob.write(Subcortex("api", "Of Bob"))
    bob.sync()
    mine = [
        create(library, Subcortex(slug, slug), actor=person()).id
        for slug in ("alpha", "api", "web")
    ]
    ids = [
        create(library, Thread(f"Topic {place}", subcortex="web"), actor=person()).id
        for place in range(8)
    ]
    ada = Member(team, "ada", library)
    assert ada.sync().status == "ok" and [ada.get(one).body.slug for one in mine] == [
        "alpha",
        "api-2",
        "web",
    ]
    assert at_core(team).keys() >= {*mine, *ids} and len(alerts(library)) == 1
    assert ada.remote.flushes <= 6  # all of it, each subcortex, the one again, the rest
    ada.remote.close()


def test_nothing_is_given_up_while_another_sync_may_refuse_more(member, monkeypatch):
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


def test_what_was_given_up_is_gone_with_what_was_written_to_it_since(member, team):
    bob = member("bob", tier=3)
    thread = bob.write(Thread("Mine"))
    principals.change(team.ledger, principals.find(team.ledger, "bob"), tier=1)
    assert bob.sync().refused == 1
    edit(bob.library, thread, body="waits")
    _, file = discard.give_up(bob.library)
    assert bob.library.store.outbox.count() == (0, 0) and bob.get(thread) is None
    assert "waits" in file.read_text("utf-8") and find(bob.library, RecordQuery("Mine")).hits == ()
    assert bob.sync().status == "ok" and not at_core(team)


def test_what_was_there_before_the_core_stays_when_its_copy_is_given_up(member, team, homes):
    library = homes("bob")
    thread = create(library, Thread("Mine"), actor=person()).id
    bob = member("bob", tier=1)
    assert bob.sync().refused == 1
    discard.give_up(bob.library)
    assert bob.library.store.outbox.count() == (0, 0) and bob.get(thread)
    assert bob.sync().status == "ok" and not at_core(team)


def test_a_copy_of_a_home_has_keys_of_its_own(member, team, homes, memory):
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
