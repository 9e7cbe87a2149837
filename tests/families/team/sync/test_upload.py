"""The upload of existing records when a home connects."""

from __future__ import annotations

import threading

from cortex.base.actors import person
from cortex.base.record_model import SENSITIVE, Artifact, Comment, Observation, Thread
from cortex.families.team.ids import new_id
from cortex.families.team.inbox import acknowledge, inbox
from cortex.families.team.sync.connection import connect, disconnect, preview
from cortex.families.team.sync.cycle import SyncOutcome
from families.team.sync.fake_core import TOKEN
from families.team.sync.homes import alerts, edit, here, make, once


def test_existing_records_are_uploaded_once_on_connect(library, core):
    thread = make(library, Thread("Cache or not"))
    for place in range(105):
        make(library, Comment(thread, f"point {place}"))
    edit(library, thread, body="changed before")
    joined = connect(library, core.url, TOKEN)
    assert (joined.name, joined.tier, joined.queued, joined.again) == ("ada", 4, 106, False)
    assert once(library, core) == SyncOutcome("ok", flushed=106)
    assert len(core.kept) == 106 and core.bodies()[thread].body == "changed before"
    assert connect(library, core.url, TOKEN).again
    assert once(library, core) == SyncOutcome("ok") and len(core.done) == 2
    assert here(library) == core.bodies()


def test_refused_record_of_an_upload_holds_up_no_other(library, core):
    ids = [make(library, Observation(f"seen {place}")) for place in range(12)]
    connect(library, core.url, TOKEN)
    edit(library, ids[4], title="changed after")
    core.refuses.add(ids[3])
    outcome = once(library, core)
    assert (outcome.status, outcome.flushed, outcome.refused) == ("partial", 12, 1)
    assert (
        list(core.kept) == [id_ for id_ in ids if id_ != ids[3]]
        and core.bodies()[ids[4]].title == "changed after"
    )
    assert library.store.records.one(ids[3]) is not None
    (why,) = alerts(library)
    assert "a write from before" in why and "RIGHTS_MISSING" in why
    core.refuses.clear()
    library.store.outbox.retry()
    assert once(library, core).flushed == 1 and alerts(library) == []


def test_upload_refused_as_a_whole_is_one_alert(library, core):
    core.refuses |= {make(library, Observation(f"seen {place}")) for place in range(30)}
    connect(library, core.url, TOKEN)
    assert once(library, core).refused == 30
    (why,) = alerts(library)
    assert (
        "30 writes from before" in why
        and once(library, core).status == "ok"
        and len(alerts(library)) == 1
    )
    acknowledge(library, [inbox(library).entries[0].id], actor=person())
    assert once(library, core).status == "ok" and alerts(library) == []


def test_write_during_connect_is_queued_behind_the_upload(library, core):
    threads = [make(library, Thread(f"Topic {place}")) for place in range(20)]
    stop = threading.Event()

    def write() -> None:
        for place in range(200):
            edit(library, threads[place % 20], body=f"edit {place}")
            if stop.is_set() and place > 20:
                return

    writer = threading.Thread(target=write)
    writer.start()
    connect(library, core.url, TOKEN)
    stop.set()
    writer.join(30)
    assert once(library, core).status == "ok"
    assert here(library) == core.bodies() and len(core.kept) == 20


def test_records_of_others_from_another_core_are_uploaded_by_choice_and_marked(
    library, core, other
):
    connect(library, core.url, TOKEN)
    mine = make(library, Thread("Mine"))
    core.write(theirs := new_id(Thread), Thread("Theirs", code_links=()), author="ada2/agent")
    core.write(owned := new_id(Artifact), Artifact("Runbook", owner="ada2"), author="ada2")
    once(library, core)
    disconnect(library)
    diary = make(library, Observation("Diary", sensitivity=SENSITIVE))
    answer = make(library, Comment(mine, "to a thread of the other team"))
    found = preview(library, other.url, TOKEN).plan
    assert (found.mine.records, found.mine.private, found.mine.origins) == (1, 1, {})
    assert found.others.kinds == {"thread": 2, "artifact": 1, "comment": 1}
    assert found.others.authors == {
        "person": 2,
        "ada2/agent": 1,
        "ada2": 1,
    } and found.others.origins == {core.url: 3}
    assert connect(library, other.url, TOKEN).queued == 1 and once(library, other).status == "ok"
    assert list(other.kept) == [diary] and library.store.records.one(theirs)
    edit(library, mine, title="stays here")
    assert once(library, other).flushed == 0
    assert (
        connect(library, other.url, TOKEN, choice="all").queued == 4
        and once(library, other).flushed == 4
    )
    assert set(other.kept) == {mine, theirs, owned, diary, answer}
    place = core.url.partition("://")[2]
    assert (
        other.kept[theirs].record.author == f"ada2@{place}/agent"
        and other.kept[mine].record.author == "ada"
    )
    assert other.bodies()[owned].owner == f"ada2@{place}"
    disconnect(library)
    connect(library, core.url, TOKEN)
    assert once(library, core).status == "partial" and core.bodies()[mine].title == "Mine"
    assert any("stays here" in str(entry.changes) for entry in library.store.outbox.refused())


def test_records_of_others_are_not_sent_below_tier_3(library, core, other):
    connect(library, core.url, TOKEN)
    core.write(new_id(Thread), Thread("Theirs"))
    once(library, core)
    disconnect(library)
    other.tier = 2
    assert preview(library, other.url, TOKEN).plan.kept == 1
    assert connect(library, other.url, TOKEN, choice="all").queued == 0
