"""Records of others, pulled page by page."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

from cortex.base.record_model import Thread
from cortex.families.team.ids import new_id
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.sync import pull, run_context
from cortex.families.team.sync.client import Remote
from cortex.families.team.sync.cycle import sync
from families.team.sync.fake_core import LOST, TOKEN
from families.team.sync.homes import edit, here, make, once


def test_records_of_others_are_pulled_page_by_page_and_found(joined, core, monkeypatch):
    monkeypatch.setattr(pull, "PAGE", 50)
    ids = [new_id(Thread) for _ in range(110)]
    for place, number in enumerate(ids):
        core.write(number, Thread(f"Topic {place}"))
    core.write(ids[7], Thread("The heron nests"))
    outcome = once(joined, core)
    assert (outcome.status, outcome.pulled) == ("ok", 110)
    assert here(joined) == core.bodies()
    assert [hit.record.id for hit in find(joined, RecordQuery("heron")).hits] == [ids[7]]
    assert joined.store.records.one(ids[3]).author == "bob"


def test_interrupted_pull_continues_at_its_page(joined, core, monkeypatch):
    monkeypatch.setattr(pull, "PAGE", 50)
    for place in range(110):
        core.write(new_id(Thread), Thread(f"Topic {place}"))
    core.faults.extend(["", "", LOST])
    first = once(joined, core)
    assert (first.status, first.pulled) == ("partial", 50)
    second = once(joined, core)
    assert (second.status, second.pulled) == ("ok", 60) and here(joined) == core.bodies()


def test_hidden_record_is_erased(joined, core):
    core.write(secret := new_id(Thread), Thread("The falcon lands"))
    core.write(other := new_id(Thread), Thread("Other"))
    once(joined, core)
    core.hide(secret)
    outcome = once(joined, core)
    assert (outcome.status, outcome.erased) == ("ok", 1)
    assert joined.store.records.one(secret) is None and set(here(joined)) == {other}
    assert b"falcon" not in b"".join(
        path.read_bytes()
        for path in joined.settings.home.iterdir()
        if path.name.startswith("cortex.db")
    )


def test_late_older_page_changes_nothing(joined, core):
    thread = new_id(Thread)
    core.write(thread, Thread("Old"))
    once(joined, core)
    with closing(Remote(core.url, TOKEN)) as remote:
        late = remote.deltas("", "", 500)
    core.edit(thread, title="New")
    once(joined, core)

    class LateRemote(Remote):
        """A network that delivers the earlier page once more."""

        def deltas(self, *_: object) -> Any:
            return replace(late, cursor="e1:2")

    with closing(LateRemote(core.url, TOKEN)) as remote:
        sync(joined, remote)
    assert joined.store.records.one(thread).body.title == "New"


def test_record_with_a_waiting_write_is_not_overwritten_by_a_page(joined, core):
    thread = make(joined, Thread("Title"))
    once(joined, core)
    core.edit(thread, type="decision")
    edit(joined, thread, body="of Ada")
    core.later.add(thread)
    outcome = once(joined, core)
    assert outcome.status == "partial" and joined.store.records.one(thread).body.body == "of Ada"
    core.later.clear()
    assert once(joined, core).status == "ok"
    assert here(joined) == core.bodies() and core.bodies()[thread] == Thread(
        "Title", body="of Ada", type="decision"
    )


def test_clock_skew_of_days_changes_no_outcome(joined, core, monkeypatch):
    thread = make(joined, Thread("Title"))
    once(joined, core)
    week = 7 * 86_400_000
    core.write(thread, replace(core.bodies()[thread], body="a week ago"), "ada", updated=1)
    once(joined, core)
    assert joined.store.records.one(thread).body.body == "a week ago"
    edit(joined, thread, body="next")
    once(joined, core)
    record = core.kept[thread].record
    core.write(
        thread, replace(record.body, body="in a week"), "ada", updated=run_context.now() + week
    )
    once(joined, core)
    assert joined.store.records.one(thread).body.body == "in a week"
    edit(joined, thread, body="today")
    assert once(joined, core).status == "ok" and core.bodies()[thread].body == "today"
