"""A sync loses and repeats nothing wherever it is interrupted; refused writes are reported."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from cortex.base.actors import agent, person
from cortex.base.errors import Cancelled
from cortex.base.record_model import CodeLink, Comment, Observation, Task, Thread
from cortex.base.types import Cancel
from cortex.engine.store import RecordTransaction
from cortex.families.team.ids import new_id
from cortex.families.team.inbox import acknowledge, inbox
from cortex.families.team.sync import pull, push, state
from cortex.families.team.sync.client import Remote
from cortex.families.team.sync.connection import connect
from cortex.families.team.sync.cycle import SyncOutcome, sync
from engine.embedders.stub import Asked as Question
from engine.embedders.stub import Reply
from families.team.sync.fake_core import CUT, LOST, TOKEN
from families.team.sync.homes import alerts, do, edit, here, make, once

# -- flushing
# ----------------------------------------------------------------------------------------------------------


def test_writes_are_sent_in_order_and_once(joined, core):
    thread = make(joined, Thread("Cache or not"))
    for place in range(5):
        make(joined, Comment(thread, f"point {place}"))
    edit(joined, thread, body="decided")
    outcome = once(joined, core)
    assert outcome == SyncOutcome("ok", flushed=7)
    assert [
        kept.record.body.body for kept in core.kept.values() if kept.record.kind == "comment"
    ] == [f"point {place}" for place in range(5)]
    assert core.kept[thread].record.body.body == "decided" and core.kept[thread].record.version == 2
    assert here(joined) == core.bodies()
    assert once(joined, core) == SyncOutcome("ok") and len(core.flushed) == 1


def test_entries_are_sent_in_batches_of_fifty(joined, core):
    for place in range(70):
        make(joined, Observation(f"seen {place}"))
    assert once(joined, core).flushed == 70
    assert [len(batch) for batch in core.flushed] == [50, 20]


def test_large_entries_are_sent_in_smaller_batches(joined, core, monkeypatch):
    monkeypatch.setattr(push, "BATCH_BYTES", 3_000)
    for place in range(6):
        make(joined, Observation(f"seen {place}", summary="x" * 1_000))
    assert once(joined, core).flushed == 6
    assert max(len(batch) for batch in core.flushed) == 2


def test_names_are_translated_on_the_wire(joined, core):
    task = make(joined, Task("Ship it", assignees=("person", "bob")), agent(joined.settings))
    once(joined, core)
    at_core = core.kept[task].record
    assert at_core.author == "ada/agent" and at_core.body.assignees == ("ada", "bob")
    core.edit(task, assignees=("ada", "bob", "eve"))
    once(joined, core)
    found = joined.store.records.one(task)
    assert found.author == "agent" and found.body.assignees == ("person", "bob", "eve")


def test_path_of_a_checkout_is_never_sent(homes, joined, core):
    link = CodeLink(
        "src/cache.py", repo="shop", symbol="get", root="/home/ada/shop", file_hash="00ff"
    )
    thread = make(joined, Thread("Cache", code_links=(link,)))
    once(joined, core)
    assert [link.root for link in core.bodies()[thread].code_links] == [""]
    stranger = replace(link, path="etc/passwd", root="/")
    core.edit(
        thread, title="Cache or not", code_links=(replace(link, root="/home/bob/shop"), stranger)
    )
    once(joined, core)
    assert [link.root for link in joined.store.records.one(thread).body.code_links] == [
        "/home/ada/shop",
        "",
    ]
    edit(joined, thread, body="of Ada")
    assert once(joined, core).status == "ok" and core.bodies()[thread].body == "of Ada"
    other = homes("laptop")
    connect(other, core.url, TOKEN)
    once(other, core)
    assert [link.root for link in other.store.records.one(thread).body.code_links] == ["", ""]


@pytest.mark.parametrize("fault", [LOST, CUT, Reply({}, 503)])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_no_write_is_lost_when_the_connection_breaks(joined, core, fault, place):
    ids = [make(joined, Observation(f"seen {number}")) for number in range(3)]
    core.write(other := new_id(Thread), Thread("Of Bob"))
    core.faults.extend([""] * place + [fault])
    first = once(joined, core)
    # A question, a flush, a page
    assert first.status == ("offline" if place == 0 else "partial") and first.error
    assert state.of(joined).error == first.error
    core.faults.clear()
    second = once(joined, core)
    assert second.status == "ok" and second.waiting == 0
    assert len(core.done) == 3 and set(core.bodies()) == {*ids, other}
    assert here(joined) == core.bodies() and state.of(joined).error == ""


def test_answer_for_half_of_a_batch_settles_that_half(joined, core):
    first, second = make(joined, Observation("one")), make(joined, Observation("two"))
    core.later.add(second)
    outcome = once(joined, core)
    assert (outcome.status, outcome.flushed, outcome.waiting) == ("partial", 1, 1)
    (waiting,) = joined.store.outbox.waiting()
    assert waiting.attempts == 1 and waiting.reason
    third = make(joined, Observation("three"))
    assert once(joined, core).flushed == 0 and third not in core.kept  # nothing overtakes
    core.later.clear()
    assert once(joined, core).flushed == 2
    assert list(core.kept) == [first, second, third]


def test_write_during_a_flush_is_not_overwritten_by_its_answer(joined, core):
    thread = make(joined, Thread("First title"))
    titles = ["Second title"]

    class SlowRemote(Remote):
        """A Core that is so slow that the person writes before its first answer."""

        def flush(self, actions: Any) -> Any:
            results = super().flush(actions)
            while titles:
                edit(joined, thread, title=titles.pop())
            return results

    with closing(SlowRemote(core.url, TOKEN)) as remote:
        assert sync(joined, remote).status == "ok"
    assert joined.store.records.one(thread).body.title == "Second title"
    assert core.bodies()[thread].title == "Second title"


def test_same_write_in_two_homes_of_one_person_is_two_writes(homes, core):
    for name in ("desk", "laptop"):
        library = homes(name)
        connect(library, core.url, TOKEN)

        def work(step: RecordTransaction) -> str:
            return step.make(new_id(Observation), Observation("seen")).id

        do(library, work, person(), "the-same-key")
        once(library, core)
    assert len(core.kept) == 2


# -- refusals
# ----------------------------------------------------------------------------------------------------------


def test_conflict_is_in_the_inbox_and_the_record_is_the_cores(joined, core):
    thread = make(joined, Thread("Cache or not", body="first"))
    once(joined, core)
    core.edit(thread, body="of Bob")
    edit(joined, thread, body="of Ada")
    outcome = once(joined, core)
    assert (outcome.status, outcome.refused, outcome.waiting) == ("partial", 1, 0)
    assert joined.store.records.one(thread).body.body == "of Bob"
    (why,) = alerts(joined)
    assert "RECORD_CHANGED" in why and "of Ada" in why and "cortex sync --keep mine" in why
    (entry,) = joined.store.outbox.refused()
    assert (entry.code, entry.changes[0].after.body) == ("RECORD_CHANGED", "of Ada")
    assert once(joined, core).status == "ok" and len(alerts(joined)) == 1
    assert all(kept.record.kind != "notification" for kept in core.kept.values())  # never sent


def test_acknowledged_alert_is_removed_and_not_sent(joined, core):
    thread = make(joined, Thread("Cache or not"))
    core.refuses.add(thread)
    once(joined, core)
    (entry,) = [entry for entry in inbox(joined).entries if entry.type == "system_alert"]
    acknowledge(joined, [entry.id], actor=person())
    assert alerts(joined) == [] and once(joined, core).status == "ok" and not core.kept


def test_fields_changed_on_one_side_only_are_merged(joined, core):
    thread = make(joined, Thread("Cache or not"))
    once(joined, core)
    core.edit(thread, type="decision")
    edit(joined, thread, body="of Ada")
    assert once(joined, core).status == "ok"
    assert (core.bodies()[thread].type, core.bodies()[thread].body) == ("decision", "of Ada")
    assert here(joined) == core.bodies()


def test_refused_new_record_is_kept_and_can_be_sent_again(joined, core):
    thread = make(joined, Thread("Cache or not"))
    core.refuses.add(thread)
    assert once(joined, core).refused == 1
    assert (
        joined.store.records.one(thread).body.title == "Cache or not"
        and "RIGHTS_MISSING" in alerts(joined)[0]
    )
    joined.store.outbox.retry()
    assert once(joined, core).refused == 1 and len(alerts(joined)) == 1
    core.refuses.clear()
    joined.store.outbox.retry()
    assert once(joined, core).flushed == 1 and thread in core.kept and alerts(joined) == []


def test_two_refused_changes_of_one_record_are_two_alerts(joined, core):
    thread = make(joined, Thread("Cache or not"))
    once(joined, core)
    core.edit(thread, title="Of Bob", body="of Bob")
    edit(joined, thread, title="Of Ada")
    edit(joined, thread, body="of Ada")
    assert once(joined, core).refused == 2
    assert len(alerts(joined)) == 2 and here(joined) == core.bodies()


def test_refused_write_holds_up_no_later_write(joined, core):
    thread, other = make(joined, Thread("Mine")), make(joined, Thread("Other"))
    core.refuses.add(thread)
    outcome = once(joined, core)
    assert (outcome.flushed, outcome.refused) == (1, 1) and list(core.kept) == [other]


def test_unreadable_entry_is_refused_alone(joined, core):
    ids = [make(joined, Observation(f"seen {number}")) for number in range(3)]
    bad = {"error": {"code": "VALIDATION_ERROR", "message": "actions[1] is wrong", "details": []}}
    # Three at once; the first; the next one alone
    core.faults.extend(["", Reply(bad, 400), "", Reply(bad, 422)])
    outcome = once(joined, core)
    assert (outcome.flushed, outcome.refused, outcome.waiting) == (2, 1, 0)
    assert list(core.kept) == [ids[0], ids[2]] and "VALIDATION_ERROR" in alerts(joined)[0]


def test_address_without_a_core_refuses_nothing(joined, core):
    make(joined, Observation("seen"))
    for reply in (
        Reply(raw=b"<html>Welcome to the hotel</html>"),
        Reply({}, 404),
        Reply({"data": []}),
        Reply({}, 302),
    ):
        core.faults.extend(["", reply])
        outcome = once(joined, core)
        assert outcome.status == "failed" and TOKEN not in outcome.error
        assert joined.store.outbox.count() == (1, 0)
    assert once(joined, core).flushed == 1


def test_resync_demanded_by_a_flush_is_a_failure(joined, core):
    make(joined, Observation("seen"))
    error = {"code": "RESYNC_NEEDED", "message": "no", "details": [{"reason": "epoch"}]}
    core.faults.extend(("", Reply({"error": error}, 410)))
    outcome = once(joined, core)
    assert (outcome.status, outcome.waiting) == ("failed", 1) and "compared" in outcome.error
    assert once(joined, core) == SyncOutcome("ok", flushed=1)


def test_revoked_token_leaves_all_writes_waiting(joined, core):
    make(joined, Observation("seen"))
    remote = Remote(core.url, "ctx_gone_token")
    outcome = sync(joined, remote)
    remote.close()
    assert (
        outcome.status == "failed"
        and "ctx_gone_token" not in outcome.error
        and outcome.waiting == 1
    )
    assert "ctx_gone_token" not in repr(state.of(joined))


def test_retry_after_of_a_core_is_kept(joined, core):
    core.faults.append(Reply({}, 429, {"Retry-After": "90"}))
    outcome = once(joined, core)
    assert outcome.status == "offline" and outcome.retry_after == 90


# -- full comparison
# ----------------------------------------------------------------------------------------------------


def test_changed_view_causes_a_full_comparison(joined, core):
    mine = make(joined, Thread("Mine"))
    core.write(theirs := new_id(Thread), Thread("Theirs"))
    once(joined, core)
    core.hidden.add(theirs)  # without being news
    core.view = "v2"
    core.write(new := new_id(Thread), Thread("New"))
    outcome = once(joined, core)
    assert (outcome.status, outcome.pulled, outcome.erased) == ("ok", 1, 1)
    assert set(here(joined)) == {mine, new} and joined.store.records.one(theirs) is None
    assert joined.store.content.get(state.RESYNC) == "" and once(joined, core) == SyncOutcome("ok")


def test_full_comparison_finishes_under_a_rate_limit(joined, core, monkeypatch):
    monkeypatch.setattr(pull, "MOST_IDS", 1)
    theirs = [core.write(new_id(Thread), Thread(f"Theirs {place}")).id for place in range(9)]
    once(joined, core)
    core.hidden.add(theirs[4])  # without being news
    core.view = "v2"
    for _ in range(3):
        core.faults.clear()
        core.faults.extend([""] * 5 + [Reply({}, 429)] * 20)
        once(joined, core)
    assert joined.store.content.get(state.RESYNC) == "" and set(here(joined)) == {*theirs} - {
        theirs[4]
    }


def test_restored_core_gets_the_records_that_it_lost(joined, core):
    kept = make(joined, Thread("Kept"))
    core.write(theirs := new_id(Thread), Thread("Theirs"))
    once(joined, core)
    lost = make(joined, Thread("Lost", body="first"))
    comment = make(joined, Comment(lost, "said"))
    core.write(gone := new_id(Thread), Thread("Of Bob, lost"))
    once(joined, core)
    edit(joined, lost, body="written offline")
    later = make(joined, Comment(lost, "said offline"))
    core.put_back([kept, theirs], "e2")
    outcome = once(joined, core)
    assert (outcome.status, outcome.refused, outcome.waiting) == ("ok", 0, 0), alerts(joined)
    assert (
        set(core.kept) == {kept, theirs, lost, comment, later}
        and core.bodies()[lost].body == "written offline"
    )
    # Bob's machine may be lost, too
    assert here(joined) == {**core.bodies(), gone: Thread("Of Bob, lost")}


def test_full_comparison_counts_pulled_records(joined, core):
    mine = [make(joined, Thread(f"Mine {number}")) for number in range(3)]
    once(joined, core)
    core.put_back(mine, "e2")
    core.write(new_id(Thread), Thread("New"))
    assert once(joined, core).pulled == 1


def test_restored_core_gets_the_changes_that_it_lost(joined, core):
    mine = make(joined, Thread("Mine"))
    core.write(theirs := new_id(Thread), Thread("Theirs"))
    core.write(shared := new_id(Thread), Thread("Shared"))
    once(joined, core)
    backup = dict(core.kept)
    edit(joined, mine, body="since the backup")
    edit(joined, shared, body="since the backup")
    once(joined, core)
    core.edit(theirs, body="of Bob, since the backup")
    once(joined, core)
    edit(joined, mine, title="Offline")
    core.put_back(backup, "e2", backup)
    outcome = once(joined, core)
    assert (outcome.status, outcome.waiting) == ("ok", 0), alerts(joined)
    assert core.bodies()[mine] == Thread("Offline", body="since the backup")
    assert core.bodies()[shared].body == "since the backup" and core.bodies()[theirs].body == ""
    assert here(joined) == core.bodies() and once(joined, core) == SyncOutcome("ok")


@pytest.mark.parametrize("place", [0, 3, 6])
def test_interrupted_resync_continues(joined, core, place, monkeypatch):
    monkeypatch.setattr(pull, "PAGE", 20)
    monkeypatch.setattr(pull, "MOST_IDS", 20)
    mine = make(joined, Thread("Mine"))
    for number in range(50):
        core.write(new_id(Thread), Thread(f"Topic {number}"))
    once(joined, core)
    core.put_back([number for number in core.kept if number != mine][:30], "e2")
    waiting = make(joined, Thread("Waits"))
    core.faults.extend([""] * place + [CUT])
    once(joined, core)
    core.faults.clear()
    assert once(joined, core).status == "ok"
    assert len(core.kept) == 32 and {mine, waiting} <= set(core.kept)
    assert core.bodies().items() <= here(joined).items() and len(here(joined)) == 52
    assert joined.store.content.get(state.RESYNC) == ""


# -- concurrency
# -----------------------------------------------------------------------------------------------------------


def test_concurrent_syncs_take_turns(joined, core):
    for place in range(60):
        make(joined, Observation(f"seen {place}"))
    outcomes: list[SyncOutcome] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(once(joined, core))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcome.flushed for outcome in outcomes) == [0, 60]
    assert {outcome.status for outcome in outcomes} == {"ok"} and len(core.done) == 60


def test_cancelled_sync_stops(joined, core):
    make(joined, Observation("seen"))
    cancel = Cancel()
    cancel.cancel()
    with pytest.raises(Cancelled):
        once(joined, core, cancel=cancel)
    assert joined.store.outbox.count() == (1, 0)


def test_sync_closed_with_its_connections_is_no_failure_of_the_core(joined, core):
    make(joined, Observation("seen"))
    cancel, remote = Cancel(), Remote(core.url, TOKEN)

    def end(asked: Question) -> Reply:
        cancel.cancel()
        remote.close()
        return Reply({}, 503)

    core.stub.answer = end
    with pytest.raises(Cancelled):
        sync(joined, remote, cancel=cancel)
    assert joined.store.outbox.count() == (1, 0) and not joined.store.content.get(state.ERROR)
