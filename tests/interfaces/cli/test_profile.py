"""Profiles: homes of their own, chosen for a whole command line."""

import json
import os
import sys
from contextlib import closing

import pytest

import forking
from cortex.__main__ import main
from cortex.base.runtime.home import split_profile
from cortex.engine.store import Store
from families.team.commands.command_answers import answer, refusal
from interfaces.team_server.commands.core_server import core_at


@pytest.fixture
def typed_line(isolated, monkeypatch, capsys):
    """`typed_line(*words)`: exit code and stdout of a whole command line."""

    def call(*words):
        monkeypatch.setenv("CORTEX_PROFILE", "")
        monkeypatch.setattr(sys, "argv", ["cortex", *words])
        capsys.readouterr()
        return main(), capsys.readouterr().out

    return call


@pytest.mark.parametrize("spelled", [["--profile", "work"], ["--profile=work"]])
def test_profile_option_selects_its_home_for_the_whole_command_line(isolated, typed_line, spelled):
    assert typed_line("profile", "create", "work")[0] == 0
    code, out = typed_line(
        *spelled, "team", "subcortex", "create", "payments", "--name", "Payments", "--json"
    )
    assert code == 0, out
    assert (isolated.cortex / "profiles" / "work" / "cortex.db").is_file()
    assert "payments" in typed_line(*spelled, "team", "subcortex", "list", "--json")[1]
    assert "payments" not in typed_line("team", "subcortex", "list", "--json")[1]


def test_profile_list_marks_the_current_one(isolated, typed_line):
    assert json.loads(typed_line("profile", "list", "--json")[1])["profiles"][0]["current"]
    work = isolated.cortex / "profiles" / "work"
    (isolated.cortex / "profiles" / ".trash").mkdir(parents=True)
    work.mkdir()
    with closing(Store(work)) as store:
        store.content.set({"core.url": "https://core.example"})
    own, other = json.loads(typed_line("--profile", "work", "profile", "list", "--json")[1])[
        "profiles"
    ]
    assert (own["name"], own["current"], own["server"]) == ("", False, None)
    assert other == {
        "name": "work",
        "current": True,
        "home": str(work),
        "server": "https://core.example",
        "running": False,
    }
    assert "* work: https://core.example" in typed_line("--profile", "work", "profile", "list")[1]


@pytest.mark.parametrize(
    "words",
    [
        ["--profile", "bleu", "team", "thread", "create", "typo"],
        ["--profile=bleu", "config", "show"],
        ["status", "--profile", "bleu"],
        ["mcp", "status", "--profile", "bleu"],
        ["--profile", "bleu", "sync"],
        ["--profile", "bleu", "disconnect"],
    ],
)
def test_unknown_profile_is_rejected_with_the_known_ones_and_creates_no_home(
    isolated, typed_line, words
):
    code, out = typed_line(*words, "--json")
    assert (code, json.loads(out)["error"]["message"]) == (2, "there is no profile 'bleu' yet")
    assert json.loads(typed_line("profile", "create", "blue", "--json")[1])["created"]
    code, out = typed_line(*words, "--json")
    error = json.loads(out)["error"]
    assert (code, error["message"]) == (2, "there is no profile 'bleu'; there are: blue")
    assert "cortex profile create bleu" in error["suggestions"][0]
    assert [path.name for path in (isolated.cortex / "profiles").iterdir()] == ["blue"]


def test_unknown_profile_in_the_environment_is_rejected(cortex, isolated, monkeypatch):
    monkeypatch.setenv("CORTEX_PROFILE", "bleu")
    code, _, err = cortex("memory", "list")
    assert code == 2 and "there is no profile 'bleu' yet" in err
    assert cortex("profile", "list")[0] == cortex("uninstall", "--all", "--dry-run")[0] == 0


def test_profile_option_of_a_command_wins_and_help_needs_no_profile(cortex, isolated, monkeypatch):
    assert cortex("profile", "create", "there")[0] == 0
    monkeypatch.setenv("CORTEX_PROFILE", "gone")
    assert cortex("sync", "--help")[0] == 0
    assert refusal(cortex, "sync", "--profile", "there")["code"] == "CORE_MISSING"
    assert "there is no profile 'gone'" in refusal(cortex, "sync")["message"]


def test_connect_creates_a_new_profile_with_a_note(cortex, isolated, monkeypatch, tmp_path):
    monkeypatch.setenv("CORTEX_INDEXING_EMBEDDING_PROVIDER", "none")
    with core_at(tmp_path / "core") as core:
        monkeypatch.setenv("CORTEX_CORE_TOKEN", core.let_in("ada"))
        code, _, err = cortex("connect", core.url, "--profile", "blue")
        assert code == 0 and "note: 'blue' is a new profile\n" in err
        code, _, err = cortex("connect", core.url, "--profile", "blue")
        assert code == 0 and "new profile" not in err
    assert cortex("status", "--profile", "blue")[0] == 0


def test_mcp_and_hook_create_a_new_profile_silently(isolated):
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n"
    for words, said in (
        (["mcp", "memory", "--no-sidecar"], line),
        (["hook", "session-start"], "{}"),
    ):
        done = forking.run(
            [sys.executable, "-m", "cortex", "--profile", "bleu", *words],
            input=said,
            capture_output=True,
            encoding="utf-8",
            env=os.environ | {"CORTEX_NO_SIDECAR": "1"},
            timeout=60,
            check=False,
        )
        assert done.returncode == 0 and "profile" not in done.stderr, done.stderr
        assert words[0] == "hook" or json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]


def test_profile_create_creates_a_private_home_once(cortex, isolated):
    code, out, _ = cortex("profile", "create", "work")
    assert code == 0 and str(isolated.cortex / "profiles" / "work") in out
    assert (
        sys.platform == "win32"
        or (isolated.cortex / "profiles" / "work").stat().st_mode & 0o077 == 0
    )
    assert answer(cortex, "profile", "create", "work")["created"] is False
    for name in ("", "../up", "Work"):
        assert refusal(cortex, "profile", "create", name)["code"] == "ARGUMENT_INVALID"
    answer(cortex, "team", "thread", "create", "Mine")
    assert cortex("uninstall", "--all", "--yes")[0] == 0 and not isolated.cortex.exists()


def test_invalid_profile_name_error_names_its_option(typed_line):
    error = json.loads(typed_line("--profile", "../x", "status", "--json")[1])["error"]
    assert (
        error["code"] == "CONFIG_INVALID"
        and "'../x' can't be a profile's name (--profile" in error["message"]
    )


def test_sync_without_a_core_names_the_profile(cortex, isolated):
    answer(cortex, "profile", "create", "blue")
    code, _, err = cortex("sync", "--profile", "blue")
    assert code == 2 and "profile blue: this home is connected to no Core [CORE_MISSING]" in err
    assert "`cortex --profile blue connect URL`" in err and "`cortex connect URL`" not in err


def test_profile_option_counts_only_before_the_command():
    assert split_profile(["search", "--profile", "x"]) == ("", ["search", "--profile", "x"])
    assert split_profile(["--profile"]) == ("", ["--profile"])
    assert split_profile(["--profile=x", "--profile=y"]) == ("x", ["--profile=y"])
