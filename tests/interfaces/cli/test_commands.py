"""The command line as a whole: help, usage, errors, and how it is started."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import cortex as cortex_package
from cortex.interfaces.cli import app
from interfaces.cli.command_process import process
from protocol.code_server import check_envelope
from protocol.golden import check_golden

COMMANDS = [
    "",
    "index",
    "search",
    "mcp",
    "mcp status",
    "mcp logs",
    "start",
    "stop",
    "restart",
    "status",
    "doctor",
    "hook",
]


@pytest.mark.parametrize(
    "command",
    [
        *COMMANDS,
        *("chunks", "chunks export", "chunks reembed"),
        *(
            "kb",
            "kb add",
            "kb remove",
            "kb list",
            "kb sync",
            "kb search",
            "kb stats",
            "kb import conduit",
        ),
        *(
            "config",
            "config show",
            "config get",
            "config set",
            "models",
            "models list",
            "models use",
        ),
    ],
)
def test_help_matches_its_golden_file(command):
    seen = CliRunner().invoke(
        app,
        [*command.split(), "--help"],
        env={"COLUMNS": "100", "TERM": "dumb"},
        terminal_width=100,
    )
    assert seen.exit_code == 0
    check_golden(
        f"help-{command.replace(' ', '-') or 'cortex'}",
        {"help": [line.rstrip() for line in seen.output.splitlines()]},
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["index", "--nonsense"],
        ["search"],
        ["search", "a", "--limit", "0"],
        ["search", "a", "--limit", "many"],
        ["search", "a", "--threshold", "2"],
        ["doctor", "a", "b"],
        ["nonsense"],
        ["mcp", "--workspaces", "."],
    ],
)
def test_wrong_usage_exits_with_2_and_explains(cortex, arguments):
    code, out, err = cortex(*arguments)
    assert code == 2
    assert out == ""
    assert "Usage" in err or "Error" in err


def test_no_command_shows_the_help_and_version_says_the_version(cortex):
    assert "search" in process().stdout + process().stderr
    code, out, _ = cortex("--version")
    assert code == 0
    assert out == f"cortex {cortex_package.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["index", "{}"], ["search", "a", "--path", "{}"], ["mcp", "--workspace", "{}"]]
)
def test_missing_path_is_an_error_that_names_it(cortex, tmp_path, arguments):
    missing = str(tmp_path / "missing")
    code, out, err = cortex(*(argument.format(missing) for argument in arguments))
    assert code == 1
    assert out == ""
    assert missing in err
    assert "WORKSPACE_UNKNOWN" in err
    assert "command line" in err


def test_json_errors_have_the_error_envelope(cortex, tmp_path):
    for expected, arguments in (
        (1, ["index", tmp_path / "missing", "--json"]),
        (1, ["search", " ", "--path", tmp_path, "--json"]),
        (1, ["doctor", tmp_path / "missing", "--json"]),
        (2, ["search", "a", "--mode", "magic", "--json"]),
        (2, ["search", "a", "--lang", "klingon", "--json"]),
    ):
        code, out, _ = cortex(*arguments)
        assert (arguments, code) == (arguments, expected)
        check_envelope(json.loads(out))


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ValueError("nothing expected this"), "INTERNAL_ERROR"),
        (OSError(5, "Input/output error"), "STORE_IO"),
        (PermissionError(13, "Permission denied"), "PERMISSION_DENIED"),
        (OSError(28, "No space left on device"), "DISK_FULL"),
    ],
)
def test_unexpected_error_is_one_message_with_a_code(cortex, monkeypatch, failure, code):
    def fail(*_, **__):
        raise failure

    monkeypatch.setattr("cortex.toolkit.terminal.workspace.find", fail)
    done, out, err = cortex("index")
    assert (done, out) == (1, "")
    assert f"[{code}]" in err
    assert "Traceback" not in err
    assert check_envelope(json.loads(cortex("index", "--json")[1]))["code"] == code


def test_traceback_of_an_unexpected_error_is_shown_at_debug_level_only(tmp_path, isolated):
    broken = "import cortex.toolkit.terminal.workspace as w, sys; w.find = None; from cortex.interfaces.cli import run; sys.exit(run(['index']))"
    for level, shown in (("debug", True), ("info", False)):
        done = subprocess.run(
            [sys.executable, "-c", broken],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            env=isolated.environment(CORTEX_LOG_LEVEL=level),
        )
        assert done.returncode == 1
        assert "INTERNAL_ERROR" in done.stderr
        assert ("Traceback" in done.stderr) is shown


def test_unknown_family_is_a_usage_error_that_lists_known_ones(cortex):
    code, _, err = cortex("mcp", "cooking")
    assert code == 2
    assert "known: code" in err


def test_installed_script_runs_commands(indexed):
    script = shutil.which("cortex", path=os.path.dirname(sys.executable))
    if script is None:
        pytest.skip("the command isn't installed beside this Python")
    done = subprocess.run(
        [script, "search", "basket", "--json"],
        cwd=indexed / "shop",
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["results"][0]["file"].startswith("shop/")
