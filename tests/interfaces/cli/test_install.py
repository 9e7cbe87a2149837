"""`cortex install` and `cortex uninstall` as a person or a script runs them."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cortex.interfaces.cli import app
from cortex.interfaces.cli.install import own_program
from cortex.interfaces.daemon import control
from cortex.interfaces.install.clients import CLIENTS
from protocol.code_server import CORTEX, make_repository
from protocol.golden import check_golden

pytestmark = pytest.mark.usefixtures("person")


@pytest.fixture
def person(isolated, monkeypatch, tmp_path):
    """A user with two clients, a project and no terminal."""
    monkeypatch.setenv("PATH", os.path.dirname(shutil.which("git")))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    root = make_repository(tmp_path / "shop", {"a.py": "x = 1\n"})
    monkeypatch.chdir(root)
    (isolated.user / ".cursor").mkdir()
    (isolated.user / ".gemini").mkdir()
    return isolated


def files_in(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_present_clients_are_connected_and_disconnected(cortex, person):
    before = files_in(person.user)
    code, out, err = cortex("install", "--yes")
    assert code == 0, err
    assert "Cursor: " in out and "Gemini CLI: " in out and out.count(": made") == 2
    entry = json.loads((person.user / ".cursor" / "mcp.json").read_text("utf-8"))["mcpServers"][
        "cortex"
    ]
    assert os.path.isabs(entry["command"]) and os.path.exists(entry["command"])
    assert os.path.dirname(entry["command"]) == os.path.abspath(sysconfig.get_path("scripts"))
    assert entry["args"] == ["mcp", "--workspace", "${workspaceFolder}"]
    assert "as it was" in cortex("install", "--yes")[1]
    code, out, _ = cortex("uninstall", "--yes")
    assert (code, out.count(": removed")) == (0, 2)
    assert files_in(person.user) == before
    assert "nothing to remove" in cortex("uninstall", "--yes")[1]


def test_nothing_is_changed_without_a_terminal_or_yes(cortex, person):
    before = files_in(person.user)
    code, _, err = cortex("install")
    assert code == 2
    assert "--yes" in err and "Cursor" in err
    assert files_in(person.user) == before
    cortex("install", "--yes")
    code, _, err = cortex("uninstall")
    assert code == 2 and "--yes" in err
    code, _, err = cortex("uninstall", "--all")
    assert code == 2 and "--yes" in err
    assert (person.user / ".cursor" / "mcp.json").exists()


class Terminal(io.StringIO):
    """A stdin with typed lines."""

    def __init__(self, *lines, before=lambda: None):
        super().__init__("".join(f"{line}\n" for line in lines))
        self.before = before

    def isatty(self):
        return True

    def readline(self, *arguments):
        self.before()
        return super().readline(*arguments)


def test_each_client_is_shown_as_a_diff_and_confirmed_separately(cortex, person, monkeypatch):
    cursor, gemini = person.user / ".cursor" / "mcp.json", person.user / ".gemini" / "settings.json"
    monkeypatch.setattr(sys, "stdin", Terminal("n", "n"))
    assert cortex("install")[0] == 1
    assert not cursor.exists() and not gemini.exists()
    monkeypatch.setattr(sys, "stdin", Terminal("n", "y"))
    code, out, err = cortex("install")
    assert code == 0
    for client, file in (("Cursor", cursor), ("Gemini CLI", gemini)):
        assert f"+++ {file}" in err and f"Change {file} for {client}?" in err
    assert '"mcpServers"' in err
    assert [file.exists() for file in (cursor, gemini)] == [False, True]
    assert "Gemini CLI: " in out and "Cursor" not in out
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert cortex("install", "gemini")[0] == 0  # as it is already: there is nothing to ask


def test_client_with_no_folder_to_serve_is_skipped_with_a_note(cortex, person, tmp_path):
    (person.user / ".codeium" / "windsurf").mkdir(parents=True)
    before = files_in(person.user)
    code, out, err = cortex("install", "windsurf", "cursor", "--yes")
    assert code == 0 and "Cursor: " in out and "Windsurf" not in out
    assert "cortex install windsurf --workspace FOLDER" in err
    cortex("uninstall", "--yes")
    code, out, err = cortex("install", "windsurf", "cline", "claude-desktop", "--yes")
    assert code == 1 and "WORKSPACE_MISSING" in err
    assert "cortex install windsurf cline claude-desktop --workspace FOLDER" in err
    assert files_in(person.user) == before
    # What is the person's own is served without a project.
    assert cortex("install", "windsurf", "--families", "kb,memory", "--yes")[0] == 0


def test_a_dry_run_shows_a_diff_and_changes_nothing(cortex, person):
    before = files_in(person.user)
    code, out, _ = cortex("install", "codex", "gemini", "--hooks", "--dry-run")
    assert code == 0
    assert (
        "+[mcp_servers.cortex]" in out
        and '+        "AfterAgent"' not in out
        and '"AfterAgent"' in out
    )
    assert files_in(person.user) == before
    cortex("install", "codex", "--yes")
    after = files_in(person.user)
    code, out, _ = cortex("uninstall", "codex", "--dry-run")
    assert code == 0 and "-[mcp_servers.cortex]" in out
    assert files_in(person.user) == after


def test_install_json_lists_every_edit(cortex, person):
    code, out, _ = cortex("install", "cursor", "--families", "code", "--json", "--yes")
    body = json.loads(out)
    assert code == 0
    assert (body["scope"], body["dryRun"]) == ("user", False)
    (change,) = body["changes"]
    assert (change["clients"], change["action"], change["backup"]) == (["cursor"], "created", None)
    assert "diff" not in change  # the lines around ours may hold other programs' keys
    (change,) = json.loads(cortex("install", "gemini", "--dry-run", "--json")[1])["changes"]
    assert '"args": ["mcp"]' in change["diff"]
    code, out, _ = cortex("install", "cursor", "--families", "code", "--json")
    # Nothing to ask about
    assert code == 0 and json.loads(out)["changes"][0]["action"] == "unchanged"
    body = json.loads(cortex("uninstall", "cursor", "--json", "--yes")[1])
    assert body["changes"][0]["action"] == "removed"
    code, out, _ = cortex("install", "cursor", "--json")
    assert code == 2 and json.loads(out)["error"]["code"] == "ARGUMENT_INVALID"


def test_project_file_has_no_personal_path(cortex, person, tmp_path):
    code, _, err = cortex(
        "install", "claude-code", "vscode", "--scope", "project", "--hooks", "--yes"
    )
    assert code == 0, err
    for name in (
        ".mcp.json",
        ".vscode/mcp.json",
        ".claude/settings.json",
        ".github/hooks/cortex.json",
    ):
        text = (tmp_path / "shop" / name).read_text("utf-8")
        assert str(tmp_path) not in text and str(person.user) not in text and "cortex" in text
    assert cortex("uninstall", "--scope", "project", "--yes")[0] == 0
    assert not (tmp_path / "shop" / ".vscode").exists()
    assert not (tmp_path / "shop" / ".github").exists()


def test_project_entry_names_a_local_command_until_it_is_committed(cortex, person, tmp_path):
    file = tmp_path / "shop" / ".mcp.json"
    code, _, err = cortex("install", "claude-code", "--scope", "project", "--yes")
    assert code == 0 and "not on the PATH" in err and "Before you commit it" in err
    assert json.loads(file.read_text("utf-8"))["mcpServers"]["cortex"]["command"] == own_program()
    subprocess.run(["git", "add", ".mcp.json"], cwd=tmp_path / "shop", check=True, timeout=30)
    code, _, err = cortex("install", "claude-code", "--scope", "project", "--yes")
    assert code == 0 and "not on the PATH" in err
    assert json.loads(file.read_text("utf-8"))["mcpServers"]["cortex"]["command"] == "cortex"


def test_folders_can_be_named_for_a_client_without_projects(cortex, person, tmp_path):
    code, _, err = cortex("install", "claude-desktop", "--workspace", tmp_path / "shop", "--yes")
    assert code == 0 and "--workspace" not in err
    written = b"".join(
        content
        for name, content in files_in(person.user).items()
        if name.endswith("desktop_config.json")
    )
    assert json.loads(written)["mcpServers"]["cortex"]["args"] == [
        "mcp",
        "--workspace",
        str(tmp_path / "shop"),
    ]
    assert (
        cortex("install", "cursor", "--scope", "project", "--workspace", tmp_path, "--yes")[0] == 2
    )
    assert cortex("install", "cursor", "--workspace", tmp_path / "no", "--yes")[0] == 1


def test_broken_file_stops_install_but_not_uninstall(cortex, person):
    cortex("install", "cursor", "--yes")
    broken = person.user / ".gemini" / "settings.json"
    broken.write_text('{\n  "cortex": ]', encoding="utf-8")
    code, _, err = cortex("install", "--yes", "--hooks")
    assert code == 1 and f"{broken}, line 2, column 13" in err and "name the clients" in err
    assert not (person.user / ".cursor" / "hooks.json").exists()
    code, out, _ = cortex("uninstall", "--yes", "--json")
    body = json.loads(out)
    assert code == 1 and len(body["failed"]) == 1 and str(broken) in body["failed"][0]
    assert [change["clients"] for change in body["changes"]] == [["cursor"]]
    assert not (person.user / ".cursor" / "mcp.json").exists()
    assert cortex("uninstall", "--all", "--yes")[0] == 1
    broken.write_text("{", encoding="utf-8")  # broken, and nothing of ours in it
    assert cortex("uninstall", "--yes")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["install", "emacs", "--yes"], "unknown client"),
        (["install", "cursor", "--families", "nonsense", "--yes"], "unknown family"),
        (["install", "windsurf", "--scope", "project", "--yes"], "--scope user"),
        (["uninstall", "cursor", "--all", "--yes"], "leave the names"),
    ],
)
def test_impossible_installations_are_errors_with_a_reason(cortex, arguments, said):
    code, _, err = cortex(*arguments)
    assert code == 2 and said in err


def test_foreign_server_is_replaced_only_with_replace(cortex, person):
    file = person.user / ".cursor" / "mcp.json"
    text = '{"mcpServers": {"cortex": {"command": "npx", "args": ["x"]}}}'
    file.write_text(text, encoding="utf-8")
    code, _, err = cortex("install", "cursor", "--yes")
    assert code == 1 and "ENTRY_FOREIGN" in err and "--replace" in err
    assert file.read_text("utf-8") == text
    assert cortex("install", "cursor", "--yes", "--replace")[0] == 0
    assert "npx" not in file.read_text("utf-8")
    cortex("uninstall", "cursor", "--yes")
    assert file.read_text("utf-8") == text


def test_client_names_are_listed_when_no_client_is_found(cortex, person):
    for name in (".cursor", ".gemini"):
        (person.user / name).rmdir()
    code, _, err = cortex("install", "--yes")
    assert code == 2
    assert all(client.name in err for client in CLIENTS)


def test_project_scope_outside_a_project_is_an_error(cortex, person, monkeypatch):
    monkeypatch.chdir(person.user)
    code, _, err = cortex("install", "cursor", "--scope", "project", "--yes")
    assert code == 1 and "WORKSPACE_MISSING" in err


def test_uninstall_all_shows_everything_and_removes_it(cortex, person, tmp_path):
    before = files_in(person.user)
    cortex("install", "--yes", "--hooks")
    cortex("install", "claude-code", "--scope", "project", "--yes")
    assert cortex("index", tmp_path / "shop")[0] == 0
    assert (tmp_path / "shop" / ".cortex" / "cortex.db").exists()
    code, out, _ = cortex("uninstall", "--all", "--dry-run")
    assert code == 0 and str(person.user / ".cursor" / "mcp.json") in out and ".cortex" in out
    code, out, _ = cortex("uninstall", "--all", "--yes", "--json")
    body = json.loads(out)
    assert code == 0 and body["failed"] == []
    assert {entry["kind"] for entry in body["removed"]} >= {"store"}
    assert files_in(person.user) == before
    assert not person.cortex.exists()
    assert not (tmp_path / "shop" / ".cortex").exists()
    assert not (tmp_path / "shop" / ".mcp.json").exists()
    assert "nothing of Cortex is here" in cortex("uninstall", "--all", "--yes")[1]


def test_uninstall_all_warns_that_memories_are_deleted(cortex, person):
    assert "memories" not in cortex("uninstall", "--all", "--dry-run")[2]
    assert cortex("memory", "add", "Lamps burn")[0] == 0
    assert "cortex memory export --state any -o FILE" in cortex("uninstall", "--all", "--yes")[2]
    assert not person.cortex.exists()  # nor what looking for memories leaves


def test_uninstall_all_removes_stores_known_only_to_a_profile(
    cortex, person, tmp_path, monkeypatch
):
    other = make_repository(tmp_path / "other", {"b.py": "y = 1\n"})
    assert cortex("profile", "create", "work")[0] == 0
    monkeypatch.setenv("CORTEX_PROFILE", "work")
    assert cortex("index", other)[0] == 0
    monkeypatch.delenv("CORTEX_PROFILE")
    assert (other / ".cortex" / "cortex.db").exists()
    assert cortex("uninstall", "--all", "--yes")[0] == 0
    assert not (other / ".cortex").exists()
    assert not person.cortex.exists()


def test_file_written_during_the_question_is_kept(cortex, person, monkeypatch):
    file = person.user / ".cursor" / "mcp.json"

    def write() -> None:
        theirs = json.loads(file.read_text("utf-8")) if file.exists() else {}
        file.write_text(
            json.dumps({**theirs, "theirs": theirs.get("theirs", 0) + 1}), encoding="utf-8"
        )

    monkeypatch.setattr(sys, "stdin", Terminal("y", "y", before=write))
    code, out, _ = cortex("install", "cursor")
    assert code == 0 and ": changed" in out  # it was planned as a new file
    written = json.loads(file.read_text("utf-8"))
    assert written["theirs"] == 1 and "cortex" in written["mcpServers"]
    assert cortex("uninstall", "cursor")[0] == 0
    assert json.loads(file.read_text("utf-8")) == {"theirs": 2}


def test_program_in_a_cache_folder_is_rejected(cortex, monkeypatch, tmp_path):
    scripts = tmp_path / "uv" / "archive-v0" / "x" / "bin"
    scripts.mkdir(parents=True)
    (scripts / ("cortex.exe" if os.name == "nt" else "cortex")).write_text("", encoding="utf-8")
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(scripts))
    code, _, err = cortex("install", "cursor", "--yes")
    assert code == 1 and "uv tool install cortex-context" in err


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_help_matches_its_golden_file(command):
    seen = CliRunner().invoke(
        app, [command, "--help"], env={"COLUMNS": "100", "TERM": "dumb"}, terminal_width=100
    )
    assert seen.exit_code == 0
    check_golden(f"help-{command}", {"help": [line.rstrip() for line in seen.output.splitlines()]})


def shape(value, place=""):
    """Every key of a JSON value by its place; members of a list count as one."""
    if isinstance(value, list):
        return {key for part in value for key in shape(part, place + "[]")}
    if not isinstance(value, dict):
        return set()
    return {f"{place}.{key}" for key in value} | {
        key for name, part in value.items() for key in shape(part, f"{place}.{name}")
    }


def test_handbook_examples_have_the_shape_of_real_answers(cortex):
    page = (Path(__file__).parents[3] / "docs" / "commands.md").read_text(encoding="utf-8")
    real = {
        "cortex install": cortex("install", "cursor", "--yes", "--json")[1],
        "cortex uninstall --all": cortex("uninstall", "--all", "--yes", "--json")[1],
    }
    for name, answer in real.items():
        (example,) = re.findall(rf"<!-- answer of {name} -->\n```json\n(.*?)```", page, re.DOTALL)
        assert shape(json.loads(answer)) == shape(json.loads(example))


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals of POSIX")
@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_install_on_a_terminal_shows_the_files_and_asks(person, answer, code):
    import pty

    master, slave = pty.openpty()
    running = subprocess.Popen(
        [*CORTEX, "install", "cursor"], stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    shown = b""
    with open(master, "r+b", buffering=0) as terminal:
        while b"[y/N]" not in shown:
            shown += terminal.read(4096)
        terminal.write(answer.encode() + b"\n")
        try:
            while part := terminal.read(4096):
                shown += part
        except OSError:  # Linux: the other end is closed
            pass
    assert running.wait(60) == code
    file = person.user / ".cursor" / "mcp.json"
    assert str(file).encode() in shown
    assert file.exists() is (answer == "y")


def test_written_entry_starts_the_server(cortex, person, tmp_path):
    cortex("install", "cursor", "--yes")
    entry = json.loads((person.user / ".cursor" / "mcp.json").read_text("utf-8"))["mcpServers"][
        "cortex"
    ]
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    done = subprocess.run(
        [entry["command"], *entry["args"]],
        cwd=tmp_path / "shop",
        env=person.environment(CORTEX_NO_SIDECAR="1"),
        input=json.dumps(hello) + "\n",
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "cortex"


def test_uninstall_all_ends_cortexd_first(person, tmp_path, until):
    environment = person.environment()
    environment.pop("CORTEX_NO_SIDECAR", None)

    def call(*arguments, given=""):
        command = [*CORTEX, *arguments]
        return subprocess.run(
            command,
            cwd=tmp_path / "shop",
            env=environment,
            input=given,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )

    before = {name for name in files_in(tmp_path / "shop") if not name.startswith(".git/")}
    try:
        started = json.loads(call("start", "--json").stdout)
        ask = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "search_code", "arguments": {"query": "x"}},
        }
        assert call("mcp", given=json.dumps(ask) + "\n").returncode == 0
        done = call("uninstall", "--all", "--yes", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        body = json.loads(done.stdout)
        assert {entry["kind"] for entry in body["removed"]} >= {"other"}
        # An ended process stays in the list until it is reaped
        until(lambda: not control.is_cortexd(started["pid"]))
        assert not any(os.path.lexists(entry["path"]) for entry in body["removed"])
        assert not person.cortex.exists()
        assert {
            name for name in files_in(tmp_path / "shop") if not name.startswith(".git/")
        } == before
    finally:
        control.stop_all(str(person.cortex))


def test_profile_is_written_to_entry_and_hooks_and_kept(cortex, person):
    code, _, err = cortex("install", "claude-code", "--hooks", "--profile", "work", "--yes")
    assert code == 0, err
    entry = json.loads((person.user / ".claude.json").read_text(encoding="utf-8"))["mcpServers"][
        "cortex"
    ]
    assert entry["args"] == ["mcp", "--profile", "work"]
    hooks = (person.user / ".claude" / "settings.json").read_text(encoding="utf-8")
    assert hooks.count("--profile work") == 3
    assert "'work' is a new profile" in err and cortex("status", "--profile", "work")[0] == 0
    assert cortex("install", "claude-code", "--hooks", "--profile", "work", "--yes")[0] == 0
    assert (person.user / ".claude" / "settings.json").read_text(encoding="utf-8") == hooks
    assert cortex("uninstall", "claude-code", "--yes")[0] == 0
    assert not (person.user / ".claude" / "settings.json").exists()


def test_invalid_profile_name_is_rejected_before_anything_is_written(cortex, person):
    code, _, err = cortex("install", "claude-code", "--profile", "../up", "--yes")
    assert code == 1 and "--profile" in err
    assert not (person.user / ".claude.json").exists()
