"""`cortex core …` as whoever runs a team's server types it; the records in SQLite."""

import logging
import os
import signal
import socket
import subprocess
import sys

import pytest

from cortex.engine.store.records.ledger import open_ledger
from cortex.interfaces.team_server.commands.options import database, folder_of, index_folder, shown
from interfaces.cli.team_answers import answer, refusal

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def core(cortex):
    """Commands of a Core that was made; gives the JSON of each."""
    made = answer(cortex, "core", "init", "--name", "root")

    def call(*arguments):
        return answer(cortex, "core", *arguments)

    call.made, call.refused = made, lambda *arguments: refusal(cortex, "core", *arguments)
    return call


def whose(token):
    with open_ledger(database("")) as opened:
        found = opened.principals.by_token(token)
        return found and found.name


def test_a_core_is_made_once_with_somebody_who_may_do_everything(core, isolated):
    assert whose(core.made["token"]) == core.made["principal"] == "root"
    assert core.made["database"] == f"sqlite:///{isolated.cortex}/core"
    (root,) = core("principal", "list")["principals"]
    assert (root["tier"], root["sensitive"], root["state"]) == (4, True, "active")
    assert root["grants"] == [{"subcortex": "*", "slug": "*", "writes": True}]
    assert "already" in core.refused("init")["message"]
    assert os.stat(isolated.cortex / "core").st_mode & 0o077 == 0


def test_the_token_is_the_only_line_on_stdout(cortex):
    code, out, err = cortex("core", "init", "--name", "root")
    assert code == 0 and out.startswith("ctx_") and out.count("\n") == 1
    assert out.strip() not in err
    token = cortex("core", "token", "create", "root")[1]
    assert whose(token.strip()) == "root"
    assert token.strip().split("_", 2)[2] not in cortex("core", "token", "list", "--json")[1]


def test_principals_are_added_changed_and_granted(core):
    ada = core("principal", "add", "ada", "--tier", "3", "--read", "*")
    assert (ada["tier"], ada["grants"]) == (3, [{"subcortex": "*", "slug": "*", "writes": False}])
    assert core("principal", "grant", "ada", "*", "--write")["grants"][0]["writes"]
    assert core("principal", "ungrant", "ada", "*")["grants"] == []
    changed = core("principal", "change", "ada", "--tier", "1", "--sensitive")
    assert (changed["tier"], changed["sensitive"]) == (1, True)
    assert core.refused("principal", "grant", "ada", "payments")["code"] == "SCOPE_NOT_FOUND"
    assert core.refused("principal", "ungrant", "ada", "*")["code"] == "RECORD_UNKNOWN"
    assert core.refused("principal", "change", "bob", "--tier", "1")["code"] == "RECORD_UNKNOWN"
    assert core.refused("principal", "change", "ada")["code"] == "ARGUMENT_INVALID"


def test_a_database_that_was_put_back_by_other_means_begins_another_history(core):
    with open_ledger(database("")) as opened:
        epoch = opened.epoch()
    assert core("renew")["principals"] == 1
    with open_ledger(database("")) as opened:
        assert opened.epoch() != epoch


@pytest.mark.parametrize(
    "name", ["Ada", "a", "me", "person", "agent", "ada/agent", "ada b", ".ada", "a" * 51]
)
def test_a_name_that_means_somebody_else_or_nobody_is_refused(core, name):
    assert core.refused("principal", "add", name)["code"] == "RECORD_INVALID"


def test_a_name_is_taken_once(core):
    told = core.refused("principal", "add", "root")
    assert told["code"] == "RECORD_INVALID" and len(told["suggestions"]) == 1
    assert "cortex core principal change root" in told["suggestions"][0]
    assert "cortex core token create root" in told["suggestions"][0]


def test_somebody_who_is_locked_out_has_no_token_that_counts_until_they_are_back(core):
    core("principal", "add", "ada")
    token = core("token", "create", "ada", "--label", "laptop")["token"]
    assert whose(token) == "ada"
    assert core("principal", "change", "ada", "--revoke")["state"] == "revoked"
    assert whose(token) is None
    core("principal", "change", "ada", "--restore")
    assert whose(token) == "ada"


@pytest.mark.parametrize("how", [["--tier", "3"], ["--revoke"]])
def test_the_last_who_may_do_everything_stays_that(core, how):
    assert core.refused("principal", "change", "root", *how)["code"] == "RECORD_INVALID"
    core("principal", "add", "ada", "--tier", "4")
    core("principal", "change", "root", *how)


def test_a_token_that_was_revoked_counts_no_more(core):
    made = core("token", "create", "root", "--days", "30")
    assert made["expires_at"] and whose(made["token"])
    core("token", "revoke", made["id"])
    assert whose(made["token"]) is None
    assert "before" in core.refused("token", "revoke", made["id"])["message"]
    assert "no token" in core.refused("token", "revoke", "nope")["message"]
    listed = {one["id"]: one for one in core("token", "list")["tokens"]}
    assert listed[made["id"]]["revoked_at"] and not listed[core.made["tokenId"]]["revoked_at"]


def test_without_a_core_every_command_says_how_to_make_one(cortex):
    for words in (["principal", "list"], ["token", "list"], ["migrate"], ["serve"]):
        code, _, err = cortex("core", *words)
        assert (
            code == 1 and "cortex core init" in err and "CORTEX_HOME and CORTEX_CORE_DB" in err
        ), words
        assert "config show" not in err


@pytest.mark.parametrize(
    "url",
    [
        "http://me:ge%21heim@x",
        "postgresql://me:ge%21heim@[x/db",
        "postgresql://me:ge%21heim@localhost:no/db",
        "me:ge%21heim@x",
    ],
)
def test_no_password_is_shown_whatever_is_wrong_with_the_address(cortex, monkeypatch, url):
    monkeypatch.setenv("CORTEX_CORE_DB", url)
    code, out, err = cortex("core", "migrate")
    assert code in (1, 2) and err
    assert "heim" not in out + err + shown(url)


def test_the_database_is_as_told_or_as_the_environment_says_or_in_the_home(
    isolated, monkeypatch, tmp_path
):
    assert folder_of(database("")) == isolated.cortex / "core"
    monkeypatch.setenv("CORTEX_CORE_DB", "postgresql://x/y")
    assert database("") == "postgresql://x/y" and folder_of(database("")) is None
    assert database("sqlite:///z") == "sqlite:///z"
    assert index_folder(database(""), tmp_path) == tmp_path
    assert index_folder(database(""), None) == isolated.cortex / "core-replica"


def test_records_in_sqlite_are_named_alike_in_every_command(cortex, tmp_path):
    where = ("--db", f"sqlite:///{tmp_path / 'team'}")
    answer(cortex, "core", "init", "--name", "root", *where)
    assert answer(cortex, "core", "principal", "list", *where)["principals"][0]["name"] == "root"
    assert answer(cortex, "core", "migrate", *where)["principals"] == 1
    code, _, err = cortex("core", "serve", *where, "--data", tmp_path)
    assert code == 2 and "--db sqlite:///" in err


def test_who_or_what_is_not_known_is_told_with_where_it_is_seen(core):
    assert core.refused("token", "create", "nobody")["suggestions"] == [
        "`cortex core principal list` shows all principals of the Core."
    ]
    core("principal", "ungrant", "root", "*")
    (advice,) = core.refused("principal", "ungrant", "root", "*")["suggestions"]
    assert "cortex core principal list" in advice
    assert core.refused("token", "revoke", "nope")["suggestions"] == [
        "`cortex core token list` shows them."
    ]


def test_a_backup_becomes_a_core_in_an_empty_database_and_nowhere_else(core, tmp_path):
    file = tmp_path / "core.backup"
    core("principal", "add", "ada")
    assert core("backup", file)["bytes"] == file.stat().st_size
    assert sys.platform == "win32" or file.stat().st_mode & 0o077 == 0
    assert "already" in core.refused("backup", file)["message"]
    empty = f"sqlite:///{tmp_path / 'other'}"
    assert core("restore", file, "--db", empty)["principals"] == 2
    assert [one["name"] for one in core("principal", "list", "--db", empty)["principals"]] == [
        "ada",
        "root",
    ]
    assert core.refused("restore", file, "--db", empty)["code"] == "ARGUMENT_INVALID"
    told = core.refused("restore", file)
    assert (
        told["code"] == "ARGUMENT_INVALID"
        and "--db" in str(told["suggestions"])
        and len(told["suggestions"]) == 1
    )
    assert core.refused("restore", tmp_path / "nothing")["code"] == "FILE_NOT_FOUND"
    (tmp_path / "no.backup").write_text("no", encoding="utf-8")
    assert core.refused(
        "restore", tmp_path / "no.backup", "--db", f"sqlite:///{tmp_path / 'third'}"
    )["code"] == ("IMPORT_UNREADABLE")
    assert not (tmp_path / "third").exists()
    code = core.refused("backup", tmp_path / "nowhere" / "core.backup")["code"]
    assert code == "FILE_NOT_FOUND" and [one.name for one in tmp_path.glob(".*")] == []


@pytest.fixture
def own_log(monkeypatch):
    """A server logs in its own way; here it is one of many."""
    log = logging.getLogger("cortex")
    for name in ("handlers", "propagate", "level"):
        monkeypatch.setattr(log, name, getattr(log, name))


@pytest.mark.usefixtures("own_log")
def test_serving_is_refused_where_tokens_would_travel_in_the_open_or_somebody_listens(
    core, cortex, tmp_path
):
    code, _, err = cortex("core", "serve", "--host", "0.0.0.0")
    assert code == 1 and "--tls-cert" in err and "--behind-proxy" in err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = cortex("core", "serve", "--port", taken.getsockname()[1])
    assert code == 1 and "can't listen" in err
    assert cortex("core", "serve", "--tls-cert", tmp_path / "no.pem")[0] == 2
    code, _, err = cortex(
        "core", "serve", "--tls-cert", tmp_path / "no.pem", "--tls-key", tmp_path / "no.key"
    )
    assert code == 1 and "certificate" in err


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_core_is_served_until_it_is_told_to_end(core, cortex, monkeypatch):
    command = [sys.executable, "-m", "cortex", "core", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as running:
        assert running.stderr is not None
        said = next(line for line in running.stderr if "serving " in line)
        url = said.split(" at ")[1].split(";")[0]
        monkeypatch.setenv("CORTEX_CORE_TOKEN", core("token", "create", "root")["token"])
        assert cortex("connect", url)[0] == 0
        running.send_signal(signal.SIGTERM)
        running.stderr.read()
        assert running.wait(20) == 0
