"""A home connects to one Core at a time, uploads once, and disconnects with all its records."""

from __future__ import annotations

import stat
import sys
from contextlib import closing

import pytest

from cortex.base.errors import ConfigError, CortexError
from cortex.base.record_model import Observation, Thread
from cortex.engine.store import Store
from cortex.families.team.ids import new_id
from cortex.families.team.sync import state
from cortex.families.team.sync.connection import (
    TOKEN_FILE,
    connect,
    disconnect,
    preview,
    remote_of,
    token_of,
)
from cortex.families.team.sync.cycle import sync
from cortex.interfaces.assembly.pool import engine_pool
from cortex.interfaces.cli import run
from cortex.interfaces.daemon.sync_worker import Syncing
from engine.embedders.stub import Reply
from families.team.sync.fake_core import TOKEN
from families.team.sync.homes import edit, here, make, once


def code_of(ask) -> str:
    with pytest.raises(CortexError) as caught:
        ask()
    assert TOKEN not in f"{caught.value.message} {caught.value.context} {caught.value.suggestions}"
    return caught.value.code


def test_second_core_is_refused_until_the_home_disconnects(library, core, other):
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


def test_records_that_the_core_replaces_are_saved_to_a_file(library, core):
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


def test_reconnected_home_has_every_record_once(library, core):
    thread = make(library, Thread("Mine"))
    connect(library, core.url, TOKEN)
    once(library, core)
    disconnect(library)
    new = make(library, Thread("Between"))
    connect(library, core.url, TOKEN)
    assert once(library, core).status == "ok" and list(core.kept) == [thread, new]


def test_connect_under_another_name_is_refused(library, core):
    connect(library, core.url, TOKEN)
    core.name = "bob"
    assert code_of(lambda: connect(library, core.url, TOKEN)) == "CORE_CONNECTED"


def test_core_at_a_new_url_is_recognized(library, core, other):
    make(library, Thread("Mine"))
    connect(library, core.url, TOKEN)
    other.epoch = core.epoch
    assert connect(library, other.url, TOKEN).again and state.of(library).server == other.url


def test_disconnect_with_waiting_writes_needs_force(library, core):
    connect(library, core.url, TOKEN)
    thread = make(library, Thread("Waits"))
    assert code_of(lambda: disconnect(library)) == "CORE_CONNECTED"
    assert state.of(library).waiting == 1
    assert disconnect(library, force=True) == core.url
    assert library.store.outbox.count() == (0, 0) and library.store.records.one(thread)


def test_disconnect_without_a_core_does_nothing(library):
    assert disconnect(library) == ""


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply({}, 503), "CORE_UNAVAILABLE"),
        (Reply({}, 401), "CORE_DENIED"),
        (Reply(raw=b"<html>"), "CORE_ANSWER"),
    ],
)
def test_failed_connect_changes_nothing(library, core, reply, code):
    make(library, Thread("Mine"))
    core.faults.append(reply)
    assert code_of(lambda: connect(library, core.url, TOKEN)) == code
    assert state.of(library).server == "" and library.store.outbox.count() == (0, 0)
    assert not (library.settings.home / TOKEN_FILE).exists()


@pytest.mark.parametrize("token", ["", "  ", "two words", "tökén", "a\nb", "x" * 2_000])
def test_malformed_token_is_not_sent(library, core, token):
    assert code_of(lambda: connect(library, core.url, token)) == "ARGUMENT_INVALID"
    assert core.stub.asked == []


def test_token_file_is_readable_by_its_owner_only(library, core, monkeypatch):
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


def test_status_of_a_home_without_a_core(library):
    with pytest.raises(ConfigError) as caught:
        remote_of(library)
    assert caught.value.code == "CORE_MISSING" and "cortex connect" in " ".join(
        caught.value.suggestions
    )
    assert state.of(library) == state.SyncState("", "", 0, "", "", 0, 0, 0, 0, "")


def test_connect_to_another_machine_is_refused_with_local_only(homes, core):
    library = homes("strict", **{"server.localOnly": True})
    assert code_of(lambda: connect(library, "https://core.example", TOKEN)) == "ADDRESS_REFUSED"
    assert connect(library, core.url, TOKEN).name == "ada"


def test_status_says_why_cortexd_sends_nothing(memory, until):
    (memory / "config.yml").write_text("server:\n  localOnly: true\n", encoding="utf-8")
    (memory / TOKEN_FILE).write_text(TOKEN, encoding="utf-8")
    with closing(Store(memory)) as store, closing(engine_pool(keep=True, linger=60)) as engines:
        store.content.set({state.URL: "https://core.example.org", state.NAME: "ada"})
        with closing(Syncing(engines, memory)) as syncing:
            syncing.start()
            until(lambda: "server.localOnly" in store.content.get(state.ERROR))


def test_sync_is_offline_when_the_configured_core_is_away(memory, core, monkeypatch):
    expected = {
        "HOME": str(memory),
        "TEAM_SERVER": core.url,
        "CORE_TOKEN": TOKEN,
        "INDEXING_EMBEDDING_PROVIDER": "none",
    }
    for name, value in expected.items():
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


def test_plugin_judges_older_records_before_they_are_uploaded(homes, core, censor):
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
