"""A home joins one Core at a time and brings everything along once; it leaves with all that it has."""

from __future__ import annotations

import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from cortex.base.actors import person
from cortex.base.errors import ConfigError, CortexError
from cortex.base.record_model import SENSITIVE, Artifact, Comment, Observation, Subcortex, Thread
from cortex.engine.store import Store
from cortex.families.team.ids import new_id
from cortex.families.team.inbox import acknowledge, inbox
from cortex.families.team.sync import state
from cortex.families.team.sync.connection import (
    TOKEN_FILE,
    connect,
    disconnect,
    preview,
    remote_of,
    token_of,
)
from cortex.families.team.sync.cycle import SyncOutcome, sync
from cortex.interfaces.assembly.pool import engine_pool
from cortex.interfaces.cli import run
from cortex.interfaces.daemon.sync_worker import Syncing
from engine.embedders.stub import Reply
from families.team.sync.fake_core import TOKEN, FakeCore
from families.team.sync.homes import alerts, edit, here, make, once


@pytest.fixture
def other() -> Iterator[FakeCore]:
    core = FakeCore()
    core.epoch = "other"
    yield core
    core.close()


def code_of(ask) -> str:
    with pytest.raises(CortexError) as caught:
        ask()
    assert TOKEN not in f"{caught.value.message} {caught.value.context} {caught.value.suggestions}"
    return caught.value.code


def test_what_was_there_before_is_uploaded_once(library, core):
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


def test_one_bad_record_of_an_upload_holds_up_no_other(library, core):
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


def test_a_library_that_is_refused_as_a_whole_is_one_alert(library, core):
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


def test_what_is_written_while_it_joins_is_queued_behind(library, core):
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


def test_a_second_core_is_refused_until_one_leaves_the_first(library, core, other):
    thread = make(library, Thread("Mine"))
    connect(library, core.url, TOKEN)
    core.write(theirs := new_id(Thread), Thread("Theirs"))
    once(library, core)
    assert code_of(lambda: connect(library, other.url, TOKEN)) == "CORE_CONNECTED"
    assert state.of(library).server == core.url
    assert disconnect(library) == core.url
    assert state.of(library).server == "" and not (library.settings.home / TOKEN_FILE).exists()
    assert library.store.records.one(thread) and library.store.records.one(theirs)
    make(library, Thread("Between"))
    assert library.store.outbox.count() == (0, 0)
    assert connect(library, other.url, TOKEN).queued == 1
    assert once(library, other).status == "ok"
    assert len(other.kept) == 1 and here(library) == other.bodies() and len(core.kept) == 2


def test_what_others_wrote_at_another_core_goes_only_by_choice_and_is_marked(library, core, other):
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


def test_below_tier_3_nothing_of_others_is_sent(library, core, other):
    connect(library, core.url, TOKEN)
    core.write(new_id(Thread), Thread("Theirs"))
    once(library, core)
    disconnect(library)
    other.tier = 2
    assert preview(library, other.url, TOKEN).plan.kept == 1
    assert connect(library, other.url, TOKEN, choice="all").queued == 0


def test_who_sends_nothing_keeps_a_file_of_what_the_core_replaces(library, core):
    connect(library, core.url, TOKEN)
    thread = make(library, Thread("Mine"))
    once(library, core)
    disconnect(library)
    edit(library, thread, title="Changed meanwhile")
    new = make(library, Thread("New"))
    assert preview(library, core.url, TOKEN).plan.changes == 1
    joined = connect(library, core.url, TOKEN, choice="none")
    assert joined.kept_aside is not None
    assert joined.queued == 0 and "Changed meanwhile" in joined.kept_aside.read_text(
        encoding="utf-8"
    )
    assert (
        once(library, core).status == "ok"
        and library.store.records.one(thread).body.title == "Mine"
    )
    assert list(core.kept) == [thread] and library.store.records.one(new)


def test_who_left_and_joins_the_same_core_again_has_everything_once(library, core):
    thread = make(library, Thread("Mine"))
    connect(library, core.url, TOKEN)
    once(library, core)
    disconnect(library)
    new = make(library, Thread("Between"))
    connect(library, core.url, TOKEN)
    assert once(library, core).status == "ok" and list(core.kept) == [thread, new]


def test_another_name_at_the_same_core_is_refused(library, core):
    connect(library, core.url, TOKEN)
    core.name = "bob"
    assert code_of(lambda: connect(library, core.url, TOKEN)) == "CORE_CONNECTED"


def test_a_core_that_moved_is_the_same_one(library, core, other):
    make(library, Thread("Mine"))
    connect(library, core.url, TOKEN)
    other.epoch = core.epoch
    assert connect(library, other.url, TOKEN).again and state.of(library).server == other.url


def test_who_has_something_waiting_leaves_only_by_force(library, core):
    connect(library, core.url, TOKEN)
    thread = make(library, Thread("Waits"))
    assert code_of(lambda: disconnect(library)) == "CORE_CONNECTED"
    assert state.of(library).waiting == 1
    assert disconnect(library, force=True) == core.url
    assert library.store.outbox.count() == (0, 0) and library.store.records.one(thread)


def test_leaving_no_core_is_nothing(library):
    assert disconnect(library) == ""


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply({}, 503), "CORE_UNAVAILABLE"),
        (Reply({}, 401), "CORE_DENIED"),
        (Reply(raw=b"<html>"), "CORE_ANSWER"),
    ],
)
def test_a_core_that_does_not_greet_changes_nothing(library, core, reply, code):
    make(library, Thread("Mine"))
    core.faults.append(reply)
    assert code_of(lambda: connect(library, core.url, TOKEN)) == code
    assert state.of(library).server == "" and library.store.outbox.count() == (0, 0)
    assert not (library.settings.home / TOKEN_FILE).exists()


@pytest.mark.parametrize("token", ["", "  ", "two words", "tökén", "a\nb", "x" * 2_000])
def test_what_is_no_token_is_not_sent(library, core, token):
    assert code_of(lambda: connect(library, core.url, token)) == "ARGUMENT_INVALID"
    assert core.stub.asked == []


def test_the_token_is_in_a_file_of_the_person_alone(library, core, monkeypatch):
    connect(library, core.url, f" {TOKEN}\n")
    file = library.settings.home / TOKEN_FILE
    assert file.read_text(encoding="utf-8") == f"{TOKEN}\n"
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    monkeypatch.setenv("CORTEX_CORE_TOKEN", "of-the-environment")
    assert token_of(library.settings.home) == "of-the-environment"
    monkeypatch.delenv("CORTEX_CORE_TOKEN")
    remote = remote_of(library)
    assert sync(library, remote).status == "ok"
    remote.close()
    file.unlink()
    assert code_of(lambda: remote_of(library)) == "CORE_MISSING"
    everything = b"".join(
        path.read_bytes() for path in library.settings.home.rglob("*") if path.is_file()
    )
    assert TOKEN.encode() not in everything


def test_a_home_without_a_core_says_so(library):
    with pytest.raises(ConfigError) as caught:
        remote_of(library)
    assert caught.value.code == "CORE_MISSING" and "cortex connect" in " ".join(
        caught.value.suggestions
    )
    assert state.of(library) == state.SyncState("", "", 0, "", "", 0, 0, 0, 0, "")


def test_nothing_leaves_this_machine_where_that_was_forbidden(homes, core):
    library = homes("strict", **{"server.localOnly": True})
    assert code_of(lambda: connect(library, "https://core.example", TOKEN)) == "ADDRESS_REFUSED"
    assert connect(library, core.url, TOKEN).name == "ada"


def test_status_tells_why_cortexd_sends_nothing(memory, until):
    (memory / "config.yml").write_text("server:\n  localOnly: true\n", encoding="utf-8")
    (memory / TOKEN_FILE).write_text(TOKEN, encoding="utf-8")
    with closing(Store(memory)) as store, closing(engine_pool(keep=True, linger=60)) as engines:
        store.content.set({state.URL: "https://core.example.org", state.NAME: "ada"})
        with closing(Syncing(engines, memory)) as syncing:
            syncing.start()
            until(lambda: "server.localOnly" in store.content.get(state.ERROR))


def test_a_core_of_the_settings_that_is_away_makes_a_sync_offline(memory, core, monkeypatch):
    told = {
        "HOME": str(memory),
        "TEAM_SERVER": core.url,
        "CORE_TOKEN": TOKEN,
        "INDEXING_EMBEDDING_PROVIDER": "none",
    }
    for name, value in told.items():
        monkeypatch.setenv(f"CORTEX_{name}", value)
    core.faults.append(Reply({}, 503))
    assert run(["sync"]) == 3
    core.faults.append(Reply({}, 503))
    assert (
        run(["pack", "pull", "--output", str(memory / "pack.md")]) == 3
        and (memory / "pack.md").is_file()
    )
    core.faults.append(Reply({}, 404))
    assert run(["sync"]) == 2
    assert run(["sync"]) == 0


def test_the_state_tells_how_a_home_stands(library, core):
    connect(library, core.url, TOKEN)
    make(library, Subcortex("payments", "Payments"))
    before = state.of(library)
    assert (before.server, before.name, before.waiting, before.last_sync) == (core.url, "ada", 1, 0)
    once(library, core)
    after = state.of(library)
    assert (after.waiting, after.refused, after.records, after.error) == (
        0,
        0,
        1,
        "",
    ) and after.last_sync > 0
    assert after.bytes > 20 and after.cursor == "e1:1"


def test_what_was_written_before_a_plugin_judged_is_judged_before_it_is_sent(homes, core, censor):
    with homes() as before:
        ids = [
            make(before, Observation(title)) for title in ("Fine", "forbidden", "Of Zeus", "Good")
        ]
    library = homes(**{"team.plugins": [censor]})
    connect(library, core.url, TOKEN)
    outcome = once(library, core)
    assert (outcome.status, outcome.flushed, outcome.refused) == ("partial", 2, 2)
    assert list(core.kept) == [ids[0], ids[3]] and len(library.store.records.get(ids)) == 4
    reasons = sorted(entry.reason for entry in library.store.outbox.refused())
    assert "would leave something out of it" in "".join(reasons) and "a forbidden word" in "".join(
        reasons
    )
    assert {entry.code for entry in library.store.outbox.refused()} == {"SENSITIVE_BLOCKED"}
