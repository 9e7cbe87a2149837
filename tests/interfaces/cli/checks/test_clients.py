"""Checks of the entries of clients: findings, fixes, and fixes undone by uninstalling."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from cortex.interfaces.cli.checks import Finding, Level
from cortex.interfaces.cli.checks.clients import VARIABLE, check_clients
from cortex.interfaces.install.clients import (
    CLIENTS,
    Client,
    ConfigFormat,
    Machine,
    entry_file,
    find_client,
    hooks_file,
    this_system,
)
from cortex.interfaces.install.config_entries import (
    ServerEntry,
    change_entry,
    read_entry,
    read_hook_programs,
    read_server,
    read_variables,
    write_entry,
)
from cortex.interfaces.install.plans import (
    InstallOptions,
    install,
    plan_install,
    plan_uninstall,
    uninstall,
)

PROGRAM = str(Path(sys.executable).with_name("cortex"))
GONE = "/nowhere/bin/cortex"
SCOPES = [
    (client, scope)
    for client in CLIENTS
    for scope in ("user", "project")
    if scope == "user" or client.project
]
every = pytest.mark.parametrize(
    ("client", "scope"), SCOPES, ids=lambda value: getattr(value, "name", value)
)


@dataclass(frozen=True, slots=True)
class Desk:
    """A person's machine with a project, and what the doctor finds there."""

    machine: Machine
    home: Path
    project: Path

    def root(self, scope: str) -> Path | None:
        return self.project if scope == "project" else None

    def file(self, client: Client, scope: str) -> Path:
        file = entry_file(client, self.machine, self.root(scope))
        assert file is not None
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def entry(self, client: Client, scope: str) -> object:
        return read_entry(self.file(client, scope).read_bytes().decode(), client)

    def connect(self, client: Client, scope: str, command: str, *arguments: str) -> None:
        wish = InstallOptions(ServerEntry(command, ("mcp", *arguments)))
        for edit in plan_install([client], self.machine, self.root(scope), wish):
            install(edit, self.home)

    def disconnect(self, client: Client, scope: str) -> None:
        uninstall(
            plan_uninstall([client], self.machine, self.root(scope), self.home, []), self.home
        )

    def findings(self) -> list[Finding]:
        return list(check_clients(self.machine, [self.project], self.home))

    def faults(self) -> list[Finding]:
        return [finding for finding in self.findings() if finding.level is not Level.OK]

    def fix(self) -> list[str]:
        return [finding.repair() for finding in self.findings() if finding.repair]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in ("person", "project"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", str(Path(PROGRAM).parent), prepend=os.pathsep)
    return Desk(
        Machine(tmp_path / "person", this_system()), tmp_path / "cortex", tmp_path / "project"
    )


def others(client: Client) -> bytes:
    """A file with a foreign server, a comment and a layout of its own."""
    if client.format is ConfigFormat.TOML:
        return b'model = "x"  # mine\n\n[mcp_servers.other]\ncommand = "other"\n'
    comment = "  // mine\n" if client.format is ConfigFormat.JSONC else ""
    return f'{{\n{comment}   "{client.key}": {{ "other": {{"command": "other"}} }}\n}}'.encode()


@every
def test_missing_program_is_replaced_and_uninstall_restores_the_bytes(desk, client, scope):
    file = desk.file(client, scope)
    file.write_bytes(others(client))
    desk.connect(client, scope, GONE, "code", "--workspace", str(desk.project))
    (fault,) = desk.faults()
    assert (fault.level, GONE in fault.text) == (Level.ERROR, True)
    desk.fix()
    assert desk.faults() == []
    server = read_server(desk.entry(client, scope))
    assert server == ServerEntry(
        PROGRAM if scope == "user" else "cortex", ("mcp", "code", "--workspace", str(desk.project))
    )
    assert b"other" in file.read_bytes()
    desk.disconnect(client, scope)
    assert file.read_bytes() == others(client)


@every
def test_missing_folder_is_dropped_and_uninstall_restores_the_bytes(desk, client, scope, tmp_path):
    file = desk.file(client, scope)
    file.write_bytes(others(client))
    lost = str(tmp_path / "lost")
    desk.connect(client, scope, PROGRAM, "--workspace", lost, "--read-only")
    (fault,) = desk.faults()
    assert (fault.level, lost in fault.text) == (Level.ERROR, True)
    desk.fix()
    assert desk.faults() == []
    entry = desk.entry(client, scope)
    if scope == "user" and client.homeless:  # it would have nothing to serve
        assert entry is None
    else:
        assert read_server(entry) == ServerEntry(PROGRAM, ("mcp", "--read-only", *client.arguments))
    desk.disconnect(client, scope)
    assert file.read_bytes() == others(client)


def test_existing_folders_of_an_entry_are_kept(desk, tmp_path):
    client, lost = find_client("claude-desktop"), str(tmp_path / "lost")
    folder = str(desk.project)
    desk.connect(
        client, "user", PROGRAM, "--workspace", lost, "--workspace", folder, f"--workspace={lost}"
    )
    desk.fix()
    assert read_server(desk.entry(client, "user")) == ServerEntry(
        PROGRAM, ("mcp", "--workspace", folder)
    )


@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.name)
def test_variable_naming_a_missing_folder_is_removed_and_others_are_kept(desk, client, tmp_path):
    lost, kept = (
        str(tmp_path / "lost"),
        {"command": PROGRAM, "args": ["mcp", "--workspace", str(desk.project)]},
    )
    name = {"opencode": "environment"}.get(client.name, "env")
    entry = write_entry(client, ServerEntry(PROGRAM, tuple(kept["args"])))
    inner = entry.get("transport", entry)
    assert isinstance(inner, dict)
    inner[name] = {VARIABLE: lost, "KEY": "1"}
    file = desk.file(client, "user")
    if client.format is ConfigFormat.TOML:
        file.write_text(
            f'[mcp_servers.cortex]\ncommand = "{PROGRAM}"\nargs = {json.dumps(kept["args"])}\n\n'
            f'[mcp_servers.cortex.env]\n{VARIABLE} = "{lost}"\nKEY = "1"\n',
            encoding="utf-8",
        )
    else:
        file.write_text(json.dumps({client.key: {"cortex": entry}}), encoding="utf-8")
    (fault,) = desk.faults()
    assert lost in fault.text
    desk.fix()
    assert desk.faults() == []
    after = desk.entry(client, "user")
    assert read_variables(after) == {"KEY": "1"}
    assert read_server(after) == ServerEntry(PROGRAM, tuple(kept["args"]))


def test_missing_program_and_missing_folder_are_two_faults_fixed_at_once(desk, tmp_path):
    client = find_client("vscode")
    desk.connect(client, "project", GONE, "--workspace", str(tmp_path / "lost"))
    assert [fault.level for fault in desk.faults()] == [Level.ERROR] * 2
    desk.fix()
    assert desk.faults() == []
    assert read_server(desk.entry(client, "project")) == ServerEntry("cortex", ("mcp",))


def test_fields_added_to_an_entry_are_kept(desk):
    client = find_client("opencode")
    file = desk.file(client, "user")
    entry = {
        "type": "local",
        "command": [GONE, "mcp", "code"],
        "enabled": False,
        "environment": {"A": "b"},
    }
    file.write_text(json.dumps({"mcp": {"cortex": entry}}), encoding="utf-8")
    desk.fix()
    assert desk.entry(client, "user") == {**entry, "command": [PROGRAM, "mcp", "code"]}


def test_missing_runner_is_replaced_by_this_program(desk):
    client = find_client("kiro")
    desk.file(client, "user").write_text(
        json.dumps(
            {
                "mcpServers": {
                    "cortex": {
                        "command": "/nowhere/uvx",
                        "args": ["cortex-context==1", "mcp", "code"],
                    }
                }
            }
        )
    )
    desk.fix()
    assert read_server(desk.entry(client, "user")) == ServerEntry(PROGRAM, ("mcp", "code"))


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "/nowhere/bin/other", "args": ["mcp"]},
        {"command": "/nowhere/bin/cortex", "args": ["serve", "--workspace", "/nowhere"]},
        {"url": "http://127.0.0.1:1/mcp"},
    ],
)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_foreign_entry_is_reported_and_never_changed(desk, entry, scope):
    client = find_client("cursor")
    file = desk.file(client, scope)
    file.write_text(json.dumps({"mcpServers": {"cortex": entry}}), encoding="utf-8")
    before = file.read_bytes()
    (fault,) = desk.faults()
    assert (fault.level, fault.repair) == (Level.WARNING, None)
    assert "another server called cortex" in fault.text
    assert desk.fix() == []
    assert file.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="a script as a program")
def test_another_working_installation_is_noted_and_left_alone(desk, tmp_path):
    program = tmp_path / "other" / "bin" / "cortex"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    desk.connect(find_client("claude-code"), "user", str(program))
    desk.connect(find_client("claude-code"), "project", str(program))
    notes = desk.findings()
    assert [(note.level, note.fix, note.repair) for note in notes] == [(Level.OK, "", None)] * 2
    assert all("another installation" in note.text for note in notes)


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize(
    "command",
    [
        "${workspaceFolder}/.venv/bin/cortex",
        "/${VENV}/bin/cortex",
        "~/.local/bin/cortex",
        "%LOCALAPPDATA%/cortex.exe",
    ],
)
def test_program_that_only_the_client_can_resolve_is_left_alone(desk, command, scope):
    client = find_client("vscode")
    desk.connect(client, scope, command)
    (note,) = desk.findings()
    assert (note.level, note.repair) == (Level.OK, None)
    assert note.text.endswith(f"starts {command}")


@pytest.mark.skipif(sys.platform == "win32", reason="a script as a program")
def test_relative_program_is_resolved_against_the_project(desk, monkeypatch, tmp_path):
    client, command = find_client("claude-code"), "./.venv/bin/cortex"
    program = desk.project / command
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    desk.connect(client, "project", command)
    desk.connect(client, "user", command)  # from wherever the client is
    assert desk.faults() == []
    program.unlink()
    (fault,) = desk.faults()
    assert command in fault.text
    desk.fix()
    assert read_server(desk.entry(client, "project")) == ServerEntry("cortex", ("mcp",))
    assert read_server(desk.entry(client, "user")) == ServerEntry(command, ("mcp",))


def test_hooks_with_a_program_that_only_the_client_can_resolve_are_left_alone(desk):
    client = find_client("claude-code")
    file = hooks_file(client, desk.machine, desk.project)
    assert file is not None
    file.parent.mkdir(parents=True)
    ours = {
        "hooks": [
            {"type": "command", "command": '"$CLAUDE_PROJECT_DIR/.venv/bin/cortex" hook stop'}
        ]
    }
    file.write_text(json.dumps({"hooks": {"Stop": [ours]}}), encoding="utf-8")
    assert client.hooks is not None
    assert read_hook_programs(file.read_text(encoding="utf-8"), client.hooks) == [
        "$CLAUDE_PROJECT_DIR/.venv/bin/cortex"
    ]
    assert desk.faults() == []


def test_project_entry_off_the_path_is_reported_and_gets_no_personal_path(desk, monkeypatch):
    desk.connect(find_client("claude-code"), "project", "cortex")
    monkeypatch.setenv("PATH", str(desk.home))
    (fault,) = desk.faults()
    assert (fault.level, fault.repair) == (Level.ERROR, None)
    assert "on the PATH" in fault.fix


def test_entry_without_a_folder_is_reported_for_a_client_without_projects(desk):
    desk.connect(find_client("windsurf"), "user", PROGRAM)
    (fault,) = desk.faults()
    assert (fault.level, fault.repair) == (Level.WARNING, None)
    assert fault.fix == "cortex install windsurf --workspace FOLDER"


def test_entry_without_a_folder_gets_the_clients_workspace_variable(desk):
    client = find_client("cursor")
    desk.file(client, "user").write_text(
        json.dumps({"mcpServers": {"cortex": {"command": PROGRAM, "args": ["mcp"]}}}),
        encoding="utf-8",
    )
    (fault,) = desk.faults()
    assert (fault.level, fault.fix) == (Level.WARNING, "cortex install cursor")
    desk.fix()
    assert desk.faults() == []
    assert read_server(desk.entry(client, "user")) == ServerEntry(
        PROGRAM, ("mcp", "--workspace", "${workspaceFolder}")
    )


def test_entry_that_cannot_be_changed_alone_is_reported_and_left(desk, tmp_path):
    client = find_client("codex")
    file = desk.file(client, "user")
    text = f'[mcp_servers.cortex]\ncommand = "{PROGRAM}"\nargs = ["mcp"]\nenv = {{ {VARIABLE} = "{tmp_path / "lost"}" }}\n'
    file.write_text(text, encoding="utf-8")
    with pytest.raises(Exception, match="can't be changed by itself"):
        desk.fix()
    assert file.read_text(encoding="utf-8") == text


def test_fix_of_a_foreign_entry_is_refused():
    with pytest.raises(Exception, match="isn't ours"):
        change_entry(
            '{"mcpServers": {"cortex": {"command": "x"}}}',
            find_client("cursor"),
            ServerEntry("cortex", ("mcp",)),
        )


HOOKED = [(client, scope) for client, scope in SCOPES if client.hooks]


@pytest.mark.parametrize(
    ("client", "scope"), HOOKED, ids=lambda value: getattr(value, "name", value)
)
def test_hooks_with_a_missing_program_are_replaced_and_uninstall_restores_the_bytes(
    desk, client, scope
):
    file = hooks_file(client, desk.machine, desk.root(scope))
    assert file is not None
    file.parent.mkdir(parents=True, exist_ok=True)
    before = b'{ "mine": {} }'
    file.write_bytes(before)
    gone = "/no where/bin/cortex" if scope == "user" else GONE
    wish = InstallOptions(ServerEntry(gone, ("mcp", "--workspace", str(desk.project))), hooks=True)
    for edit in plan_install([client], desk.machine, desk.root(scope), wish):
        install(edit, desk.home)
    assert [fault.check for fault in desk.faults()] == ["clients", "hooks"]
    assert gone in desk.faults()[1].text
    desk.fix()
    assert desk.faults() == []
    assert read_hook_programs(file.read_bytes().decode(), client.hooks) == [
        PROGRAM if scope == "user" else "cortex"
    ]
    desk.disconnect(client, scope)
    assert file.read_bytes() == before


def test_fix_changes_only_existing_hooks(desk):
    client = find_client("claude-code")
    file = hooks_file(client, desk.machine, None)
    assert file is not None and client.hooks is not None
    file.parent.mkdir(parents=True)
    other = {"hooks": [{"type": "command", "command": "say hello"}]}
    ours = {"hooks": [{"type": "command", "command": f"{GONE} hook stop", "timeout": 10}]}
    file.write_text(json.dumps({"hooks": {"Stop": [other, ours]}}), encoding="utf-8")
    desk.fix()
    hooks = json.loads(file.read_text(encoding="utf-8"))["hooks"]
    assert list(hooks) == ["Stop"]
    assert hooks["Stop"][0] == other
    assert hooks["Stop"][1]["hooks"][0]["command"] == f"{PROGRAM} hook stop"


def test_project_hooks_off_the_path_are_reported(desk, monkeypatch):
    client = find_client("cursor")
    wish = InstallOptions(ServerEntry("cortex", ("mcp",)), hooks=True)
    for edit in plan_install([client], desk.machine, desk.project, wish):
        install(edit, desk.home)
    assert desk.faults() == []
    monkeypatch.setenv("PATH", str(desk.home))
    assert [(fault.check, fault.repair) for fault in desk.faults()] == [
        ("clients", None),
        ("hooks", None),
    ]


@pytest.mark.parametrize(
    ("entry", "level", "word"),
    [
        ({"command": "/nowhere/bin/cortex", "args": ["mcp"]}, "error", "isn't there"),
        ({"command": "cortex", "args": ["mcp", "--workspace", "/nowhere"]}, "error", ""),
        ({"command": "npx", "args": ["cortex-of-somebody"]}, "warning", "another server"),
    ],
)
def test_client_entry_with_a_missing_target_is_found(doctor, isolated, entry, level, word):
    file = isolated.user / ".claude.json"
    file.write_text(json.dumps({"mcpServers": {"cortex": entry}}), encoding="utf-8")
    code, found, _ = doctor()
    assert (code, found["clients"]["level"]) == (1 if level == "error" else 0, level)
    assert word in found["clients"]["text"] and "Claude Code" in found["clients"]["text"]
    assert "cortex install claude-code" in found["clients"]["fix"]


def test_client_entry_with_a_missing_program_starts_this_one_after_fix(doctor, isolated):
    file = isolated.user / ".claude.json"
    entry = {"command": "/nowhere/bin/cortex", "args": ["mcp", "code"], "env": {"A": "b"}}
    file.write_text(
        json.dumps({"mcpServers": {"cortex": entry, "other": {"command": "x"}}}), encoding="utf-8"
    )
    doctor("--fix")
    servers = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]
    program = str(Path(sys.executable).with_name("cortex"))
    assert servers == {"cortex": {**entry, "command": program}, "other": {"command": "x"}}
    assert "clients" not in doctor()[1]


def test_client_entry_of_this_program_is_ok_and_a_broken_file_is_reported(doctor, root, isolated):
    program = Path(sys.executable).with_name("cortex")
    file = root / ".mcp.json"
    file.write_text(
        json.dumps({"mcpServers": {"cortex": {"command": str(program), "args": ["mcp"]}}}), "utf-8"
    )
    assert "clients" not in doctor("--fix")[1]
    file.write_text("{ nonsense", encoding="utf-8")
    assert "can't be read" in doctor()[1]["clients"]["text"]
