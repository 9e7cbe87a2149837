"""`cortex connect` and `cortex disconnect` against a real Core."""

import io
import json
import sys

import pytest

from families.team.commands.command_answers import answer, exits, refusal
from interfaces.team_server.commands.core_server import core_at

pytestmark = pytest.mark.usefixtures("isolated")


def test_connect_uploads_the_records_of_the_home_once(cortex, core, joined):
    answer(cortex, "team", "subcortex", "create", "payments", "--name", "Payments")
    answer(cortex, "team", "thread", "create", "Which currency?", "--subcortex", "payments")
    first = joined("ada", 4, "--upload", "mine")
    assert (first["name"], first["tier"], first["again"], first["queued"]) == ("ada", 4, False, 2)
    assert first["sync"]["status"] == "ok" and first["sync"]["waiting"] == 0
    assert core.titles() == {"Payments", "Which currency?"}
    again = joined()
    assert (again["again"], again["queued"], again["sync"]["flushed"]) == (True, 0, 0)


def test_connect_without_a_terminal_uploads_nothing_unasked(cortex, core, joined):
    answer(cortex, "team", "thread", "create", "Private diary")
    done = joined("ada", 4, "--dry-run")
    assert (done["dryRun"], done["upload"]["mine"]["kinds"], core.titles()) == (
        True,
        {"thread": 1},
        set(),
    )
    assert answer(cortex, "status")["server"] is None
    done = joined()
    assert (done["queued"], done["upload"]["choice"], core.titles()) == (0, "none", set())
    answer(
        cortex,
        "team",
        "thread",
        "edit",
        answer(cortex, "team", "thread", "list")["threads"][0]["id"],
        "--title",
        "Still private",
    )
    assert answer(cortex, "sync")["flushed"] == 0 and core.titles() == set()
    assert joined("ada", 4, "--upload", "mine")["queued"] == 1 and core.titles() == {
        "Still private"
    }


def test_records_from_another_core_are_shown_and_not_uploaded(
    cortex, core, joined, tmp_path, monkeypatch
):
    joined()
    answer(cortex, "team", "thread", "create", "Of the first team")
    answer(cortex, "sync")
    answer(cortex, "disconnect")
    answer(cortex, "team", "thread", "create", "Mine", "--sensitive")
    with core_at(tmp_path / "second") as second:
        monkeypatch.setenv("CORTEX_CORE_TOKEN", second.let_in("ada"))
        code, out, err = cortex("connect", second.url, "--upload", "mine")
        assert code == 0 and f"{second.url} doesn't have 2 records of this home:" in out
        assert (
            "mine: 1 record (1 thread, 1 of them private), written here, never sent elsewhere"
            in out
        )
        assert (
            f"all adds: 1 record (1 thread), by you (1), once at {core.url} (1)\n" in out
            and ": 1 sent, " in out
        )
        assert "note: not sent, only kept here: 1 record;" in err and second.titles() == {"Mine"}
        assert (
            refusal(cortex, "connect", second.url, "--upload", "some")["code"] == "ARGUMENT_INVALID"
        )
        monkeypatch.setenv("CORTEX_CORE_TOKEN", core.let_in("ada"))
        elsewhere, planned = (
            {**refusal(cortex, "connect", core.url, *options), "timestamp": ""}
            for options in ((), ("--dry-run",))
        )
        assert elsewhere["code"] == "CORE_CONNECTED" and planned == elsewhere


def test_connect_at_a_terminal_asks_for_the_upload(cortex, core, typed):
    for title in ("One", "Two"):
        answer(cortex, "team", "thread", "create", title)
    token = core.let_in("ada")
    code, out, err = typed("none\n", "connect", core.url, CORTEX_CORE_TOKEN=token)
    assert (
        code == 0
        and "2 records of this home" in out
        and "Send which? mine (2), all (2) or none [mine]: " in err
    )
    assert core.titles() == set()
    assert "`cortex connect --upload mine`" in err
    code, _, err = typed("", "connect", "--upload", "mine")  # the address and the token are known
    assert code == 0, err
    assert core.titles() == {"One", "Two"}
    answer(cortex, "disconnect")
    assert typed("\n", "connect", core.url, CORTEX_CORE_TOKEN=token)[0] == 0


def test_token_is_kept_for_its_owner_and_never_printed(cortex, core, isolated, monkeypatch):
    token = core.let_in("ada")
    file = isolated.user / "token"
    file.write_text(token + "\n", encoding="utf-8")
    code, out, err = cortex("connect", core.url, "--token-file", file)
    assert code == 0, err
    kept = isolated.cortex / "core-token"
    assert kept.read_text(encoding="utf-8").strip() == token
    assert sys.platform == "win32" or kept.stat().st_mode & 0o077 == 0
    shown = out + err + "".join(map(str, cortex("status")))
    assert token not in shown and token.split("_", 2)[2] not in shown


def test_connect_with_an_invalid_token_is_refused(cortex, core, monkeypatch):
    monkeypatch.setenv("CORTEX_CORE_TOKEN", "ctx_0000_wrong")
    assert refusal(cortex, "connect", core.url)["code"] == "CORE_DENIED"
    assert answer(cortex, "status")["server"] is None


def test_connect_without_a_terminal_needs_a_token(cortex, core, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert "terminal" in refusal(cortex, "connect", core.url)["message"]
    assert "which Core" in refusal(cortex, "connect")["message"]


def test_moved_core_with_another_history_needs_the_moved_option(cortex, core, monkeypatch):
    monkeypatch.setenv("CORTEX_CORE_TOKEN", core.let_in("ada"))
    answer(cortex, "connect", core.url)
    there = core.url.replace("127.0.0.1", "localhost")
    # With the same history nothing has to be said
    assert answer(cortex, "connect", there)["movedFrom"] == core.url
    core.ledger.renew_epoch()
    assert "--moved" in refusal(cortex, "connect", core.url)["suggestions"][0]
    code, out, err = cortex("connect", core.url, "--moved")
    assert code == 0 and f"✓ Moved from {there} to {core.url} as ada" in out, err
    assert "✓ Still connected to" in cortex("connect", core.url)[1]


def test_connect_under_another_name_is_refused_with_both_ways_out(
    cortex, core, joined, monkeypatch
):
    joined()
    monkeypatch.setenv("CORTEX_CORE_TOKEN", core.let_in("bob"))
    (advice,) = refusal(cortex, "connect", core.url)["suggestions"]
    assert "`cortex disconnect`" in advice and "`cortex --profile NAME connect URL`" in advice


def test_missing_token_file_is_refused_with_its_option(cortex, core, isolated):
    error = refusal(cortex, "connect", core.url, "--token-file", isolated.user / "nope")
    assert (error["code"], error["suggestions"]) == (
        "FILE_NOT_FOUND",
        ["Check the name after --token-file."],
    )


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        (("", "/api/v2"), "without /api/v2"),
        (("http://", "https://"), "does it speak http://?"),
        (("127.0.0.1", "core.example.org"), "--plain-http"),
    ],
    ids=["with a path", "with TLS", "in the open"],
)
def test_malformed_address_is_refused_with_its_mistake(cortex, core, monkeypatch, change, advice):
    monkeypatch.setenv("CORTEX_CORE_TOKEN", core.let_in("ada"))
    url = core.url.replace(*change) if change[0] else core.url + change[1]
    error = refusal(cortex, "connect", url)
    assert (
        advice in error["message"] + "".join(error["suggestions"])
        and len(error["suggestions"]) == 1
    )


def test_disconnect_keeps_all_records_and_waits_for_the_queue(cortex, core, joined, isolated):
    joined()
    answer(cortex, "team", "thread", "create", "Mine")
    error = refusal(cortex, "disconnect")
    assert (
        error["code"] == "CORE_CONNECTED"
        and "--refused" in error["suggestions"][0]
        and len(error["suggestions"]) == 2
    )
    answer(cortex, "sync")
    assert answer(cortex, "disconnect")["server"] == core.url
    assert not (isolated.cortex / "core-token").exists()
    assert len(answer(cortex, "team", "thread", "list")["threads"]) == 1
    assert answer(cortex, "disconnect")["server"] is None
    assert exits(cortex, "sync")[0] == 2


@pytest.mark.parametrize("as_json", [True, False])
def test_forced_disconnect_names_the_file_of_refused_writes(
    cortex, core, lowered, isolated, as_json
):
    lowered("Only mine")
    assert exits(cortex, "sync")[0] == 1 and exits(cortex, "disconnect")[0] == 1
    code, out, err = cortex("disconnect", "--force", *(["--json"] if as_json else ()))
    (file,) = (isolated.cortex / "refused").iterdir()
    assert code == 0
    if as_json:
        assert json.loads(out) == {"server": core.url, "givenUp": {"writes": 1, "file": str(file)}}
    else:
        assert out == f"✓ Left {core.url}; all records stay here\n" and str(file) in err
    assert answer(cortex, "disconnect", "--force") == {"server": None, "givenUp": None}
