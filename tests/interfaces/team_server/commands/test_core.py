"""`cortex core …`: init, backup, restore, renew, serve; the records in SQLite."""

import logging
import os
import signal
import socket
import subprocess
import sys

import pytest

from cortex.engine.store.records.ledger import open_ledger
from cortex.interfaces.team_server.commands.options import database
from interfaces.team_server.commands.conftest import owner_of

pytestmark = pytest.mark.usefixtures("isolated")


def test_core_init_creates_a_core_once_with_an_admin(core, isolated):
    assert owner_of(core.made["token"]) == core.made["principal"] == "root"
    assert core.made["database"] == f"sqlite:///{isolated.cortex}/core"
    (root,) = core("principal", "list")["principals"]
    assert (root["tier"], root["sensitive"], root["state"]) == (4, True, "active")
    assert root["grants"] == [{"subcortex": "*", "slug": "*", "writes": True}]
    assert "already" in core.refused("init")["message"]
    assert os.stat(isolated.cortex / "core").st_mode & 0o077 == 0


def test_core_init_prints_only_the_token_on_stdout(cortex):
    code, out, err = cortex("core", "init", "--name", "root")
    assert code == 0 and out.startswith("ctx_") and out.count("\n") == 1
    assert out.strip() not in err
    token = cortex("core", "token", "create", "root")[1]
    assert owner_of(token.strip()) == "root"
    assert token.strip().split("_", 2)[2] not in cortex("core", "token", "list", "--json")[1]


def test_core_renew_begins_another_history(core):
    with open_ledger(database("")) as opened:
        epoch = opened.epoch()
    assert core("renew")["principals"] == 1
    with open_ledger(database("")) as opened:
        assert opened.epoch() != epoch


def test_commands_without_a_core_suggest_core_init(cortex):
    for words in (["principal", "list"], ["token", "list"], ["migrate"], ["serve"]):
        code, _, err = cortex("core", *words)
        assert (
            code == 1 and "cortex core init" in err and "CORTEX_HOME and CORTEX_CORE_DB" in err
        ), words
        assert "config show" not in err


def test_backup_is_restored_only_into_an_empty_database(core, tmp_path):
    file = tmp_path / "core.backup"
    core("principal", "add", "ada")
    assert core("backup", file)["bytes"] == file.stat().st_size
    assert sys.platform == "win32" or file.stat().st_mode & 0o077 == 0
    assert "already" in core.refused("backup", file)["message"]
    empty = f"sqlite:///{tmp_path / 'other'}"
    assert core("restore", file, "--db", empty)["principals"] == 2
    assert [
        principal["name"] for principal in core("principal", "list", "--db", empty)["principals"]
    ] == ["ada", "root"]
    assert core.refused("restore", file, "--db", empty)["code"] == "ARGUMENT_INVALID"
    error = core.refused("restore", file)
    assert (
        error["code"] == "ARGUMENT_INVALID"
        and "--db" in str(error["suggestions"])
        and len(error["suggestions"]) == 1
    )
    assert core.refused("restore", tmp_path / "nothing")["code"] == "FILE_NOT_FOUND"
    (tmp_path / "no.backup").write_text("no", encoding="utf-8")
    assert core.refused(
        "restore", tmp_path / "no.backup", "--db", f"sqlite:///{tmp_path / 'third'}"
    )["code"] == ("IMPORT_UNREADABLE")
    assert not (tmp_path / "third").exists()
    code = core.refused("backup", tmp_path / "nowhere" / "core.backup")["code"]
    assert code == "FILE_NOT_FOUND" and [path.name for path in tmp_path.glob(".*")] == []


@pytest.fixture
def own_log(monkeypatch):
    """A server logs in its own way; here it is one of many."""
    log = logging.getLogger("cortex")
    for name in ("handlers", "propagate", "level"):
        monkeypatch.setattr(log, name, getattr(log, name))


@pytest.mark.usefixtures("own_log")
def test_serve_is_refused_without_tls_or_on_a_taken_port(core, cortex, tmp_path):
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
def test_core_is_served_until_a_signal(core, cortex, monkeypatch):
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
