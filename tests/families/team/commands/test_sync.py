"""`cortex sync` against a real Core: sent, refused, retried and given up writes."""

import json
import re

import pytest

from families.team.commands.command_answers import answer, exits, opened

pytestmark = pytest.mark.usefixtures("isolated")


def test_sync_without_a_core_exits_with_2_and_says_what_to_do(cortex):
    code, body, _ = exits(cortex, "sync")
    assert (code, body["error"]["code"]) == (2, "CORE_MISSING")
    assert "cortex connect URL" in cortex("sync")[2]


def test_first_sync_joins_the_configured_core(cortex, core, monkeypatch):
    monkeypatch.setenv("CORTEX_TEAM_SERVER", core.url)
    monkeypatch.setenv("CORTEX_CORE_TOKEN", core.let_in("ada"))
    code, body, err = exits(cortex, "sync")
    assert (code, body["status"], body["server"]) == (0, "ok", core.url)
    assert "connected to" in err


def test_two_homes_are_equal_after_a_sync_each(cortex, core, joined, monkeypatch):
    joined()
    answer(cortex, "team", "subcortex", "create", "payments", "--name", "Payments")
    answer(cortex, "sync")
    monkeypatch.setenv("CORTEX_PROFILE", "bob")
    assert joined("bob")["sync"]["pulled"] == 1
    assert [
        subcortex["slug"]
        for subcortex in answer(cortex, "team", "subcortex", "list")["subcortexes"]
    ] == ["payments"]


def test_sync_with_a_revoked_token_says_how_to_reconnect(cortex, core, joined, monkeypatch):
    joined()
    monkeypatch.setenv("CORTEX_CORE_TOKEN", "ctx_0000_wrong")
    code, _, err = cortex("sync")
    assert code == 2 and "doesn't accept the token" in err and "`cortex connect URL`" in err


def test_offline_write_waits_until_the_core_is_back(cortex, core, joined):
    joined()
    core.stop()
    answer(cortex, "team", "thread", "create", "Written offline")
    code, body, _ = exits(cortex, "sync")
    assert (code, body["status"], body["waiting"]) == (3, "offline", 1)
    status = answer(cortex, "status")
    assert (status["queue"], status["server"], status["name"]) == (1, core.url, "ada")
    assert (
        "can't be reached" in status["syncError"] and status["syncErrorCode"] == "CORE_UNAVAILABLE"
    )
    text = cortex("status")[1]
    assert (
        "queue        1 waiting; CORTEX_NO_SIDECAR is set here: they are sent by `cortex sync`"
        in text
    )
    core.start()
    code, out, _ = cortex("sync")
    assert (code, out) == (0, f"✓ Synced with {core.url}: 1 sent, 0 records came\n")
    assert core.titles() == {"Written offline"}
    status = answer(cortex, "status")
    assert (status["queue"], status["syncError"], status["replica"]["records"]) == (0, None, 1)
    assert re.search(
        r"^replica      1 record of the Core, 0\.\d kB$", cortex("status")[1], re.MULTILINE
    )
    assert status["lastSync"]


def test_refused_write_exits_with_1_and_is_in_the_inbox_until_resent(cortex, core, lowered):
    lowered("Not for tier one")
    code, body, _ = exits(cortex, "sync")
    assert (code, body["status"], body["waiting"]) == (1, "partial", 0)
    (refused,) = body["refused"]
    assert refused["title"] == "Not for tier one" and refused["code"] and refused["reason"]
    code, out, err = cortex("sync")
    assert code == 1 and f"Synced in part with {core.url}: 0 sent, 1 refused, " in out
    assert "refused: Not for tier one" in err and "cortex sync --refused" in err
    (entry,) = answer(cortex, "inbox")["entries"]
    assert entry["type"] == "system_alert" and entry["title"] == "Not for tier one"
    assert "did not take" in entry["why"] and "You wrote" in entry["why"]
    assert "refused      1" in cortex("status")[1]
    assert exits(cortex, "sync", "--retry", "--give-up")[0] == 2
    core.ledger.principals.change(core.ledger.principals.named("ada").id, tier=4)
    code, body, _ = exits(cortex, "sync", "--retry")
    assert (code, body["flushed"], body["refused"]) == (0, 1, [])
    assert core.titles() == {"Not for tier one"}


def test_refused_write_is_shown_whole_and_can_be_given_up(cortex, core, lowered, isolated):
    lowered("Only mine", "--body", "Why not")
    assert exits(cortex, "sync")[0] == 1
    text = cortex("sync", "--refused")[1]
    assert (
        "Only mine" in text
        and "RIGHTS_MISSING" in text
        and "body: Why not" in text
        and "--retry" in text
    )
    (refused,) = answer(cortex, "sync", "--refused")["refused"]
    assert (
        refused["typed"][0]["fields"]["body"] == "Why not"
        and refused["became"] == "It stays on this machine"
    )
    code, body, err = exits(cortex, "sync", "--give-up")
    (file,) = (isolated.cortex / "refused").iterdir()
    assert f"given up: 1 refused write; all that you wrote is in {file}" in err
    assert (
        body["givenUp"] == {"writes": 1, "file": str(file)}
        and answer(cortex, "sync")["givenUp"] is None
    )
    assert json.loads(file.read_text(encoding="utf-8"))[0]["title"] == "Only mine"
    assert (code, body["refused"], answer(cortex, "status")["refused"]) == (0, [], 0)
    assert (
        answer(cortex, "inbox")["entries"] == []
        and "refused nothing" in cortex("sync", "--refused")[1]
    )
    assert answer(cortex, "team", "thread", "list")["threads"] == []
    assert answer(cortex, "disconnect")["server"] == core.url


def test_write_without_a_core_is_not_queued(cortex):
    answer(cortex, "team", "thread", "create", "Mine")
    with opened() as library:
        assert library.store.outbox.count() == (0, 0)
