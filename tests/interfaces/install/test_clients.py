"""The table of clients: the place and shape of their files on every system."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex.base.errors import InputError
from cortex.interfaces.install.clients import (
    CLIENTS,
    EVENTS,
    Machine,
    Places,
    System,
    entry_file,
    find_client,
    hooks_file,
    is_installed,
)
from cortex.interfaces.install.config_entries import ServerEntry, is_ours, write_entry

HOME = Path("/home/me")
# client, system, the person's file below the home, the key, the project's file
EXPECTED = [
    ("claude-code", System.LINUX, ".claude.json", "mcpServers", ".mcp.json"),
    (
        "claude-desktop",
        System.LINUX,
        ".config/Claude/claude_desktop_config.json",
        "mcpServers",
        None,
    ),
    (
        "claude-desktop",
        System.MACOS,
        "Library/Application Support/Claude/claude_desktop_config.json",
        "mcpServers",
        None,
    ),
    (
        "claude-desktop",
        System.WINDOWS,
        "AppData/Roaming/Claude/claude_desktop_config.json",
        "mcpServers",
        None,
    ),
    ("cursor", System.WINDOWS, ".cursor/mcp.json", "mcpServers", ".cursor/mcp.json"),
    ("vscode", System.LINUX, ".config/Code/User/mcp.json", "servers", ".vscode/mcp.json"),
    (
        "vscode",
        System.MACOS,
        "Library/Application Support/Code/User/mcp.json",
        "servers",
        ".vscode/mcp.json",
    ),
    ("vscode", System.WINDOWS, "AppData/Roaming/Code/User/mcp.json", "servers", ".vscode/mcp.json"),
    ("codex", System.MACOS, ".codex/config.toml", "mcp_servers", ".codex/config.toml"),
    ("gemini", System.LINUX, ".gemini/settings.json", "mcpServers", ".gemini/settings.json"),
    ("copilot", System.LINUX, ".copilot/mcp-config.json", "mcpServers", None),
    ("windsurf", System.LINUX, ".codeium/windsurf/mcp_config.json", "mcpServers", None),
    ("zed", System.LINUX, ".config/zed/settings.json", "context_servers", ".zed/settings.json"),
    ("zed", System.MACOS, ".config/zed/settings.json", "context_servers", ".zed/settings.json"),
    (
        "zed",
        System.WINDOWS,
        "AppData/Roaming/Zed/settings.json",
        "context_servers",
        ".zed/settings.json",
    ),
    ("opencode", System.LINUX, ".config/opencode/opencode.json", "mcp", "opencode.json"),
    ("cline", System.LINUX, ".cline/data/settings/cline_mcp_settings.json", "mcpServers", None),
    ("kiro", System.LINUX, ".kiro/settings/mcp.json", "mcpServers", ".kiro/settings/mcp.json"),
]


@pytest.mark.parametrize(("name", "system", "user", "key", "project"), EXPECTED)
def test_client_file_is_in_the_place_where_the_client_looks(name, system, user, key, project):
    client, machine = find_client(name), Machine(HOME, system)
    assert entry_file(client, machine, None) == HOME / user
    assert client.key == key
    assert entry_file(client, machine, Path("/p")) == (Path("/p") / project if project else None)


def test_every_client_of_the_table_is_expected():
    assert {row[0] for row in EXPECTED} == {client.name for client in CLIENTS}


@pytest.mark.parametrize("system", System)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_client_row_is_complete(client, system):
    machine = Machine(HOME, system)
    file = entry_file(client, machine, None)
    assert file is not None and file.is_relative_to(HOME)
    assert (file.suffix == ".toml") == (client.format == "toml")
    assert is_ours(write_entry(client, ServerEntry("/opt/cortex", ("mcp",))))
    assert client.title and client.commands + client.folders + client.user.on(system)
    assert isinstance(client.user, Places)
    if client.hooks:
        beside = hooks_file(client, machine, None)
        assert beside is not None and beside.suffix == ".json"
        assert len(set(client.hooks.events)) == len(EVENTS)


def test_environment_variables_move_client_files():
    variables = {
        "XDG_CONFIG_HOME": "/x",
        "CODEX_HOME": "/c",
        "CLAUDE_CONFIG_DIR": "/k",
        "COPILOT_HOME": "/g",
    }
    machine = Machine(HOME, System.LINUX, variables)
    assert entry_file(find_client("vscode"), machine, None) == Path("/x/Code/User/mcp.json")
    assert entry_file(find_client("codex"), machine, None) == Path("/c/config.toml")
    assert hooks_file(find_client("codex"), machine, None) == Path("/c/hooks.json")
    assert entry_file(find_client("claude-code"), machine, None) == Path("/k/.claude.json")
    assert hooks_file(find_client("claude-code"), machine, None) == Path("/k/settings.json")
    assert hooks_file(find_client("vscode"), machine, None) == Path("/g/hooks/cortex.json")
    windows = Machine(HOME, System.WINDOWS, {"APPDATA": "/roaming"})
    assert entry_file(find_client("claude-desktop"), windows, None) == Path(
        "/roaming/Claude/claude_desktop_config.json"
    )


def test_existing_file_is_chosen_of_two_candidates(tmp_path):
    machine = Machine(tmp_path, System.LINUX)
    commented = tmp_path / ".config" / "opencode" / "opencode.jsonc"
    commented.parent.mkdir(parents=True)
    commented.write_text("{}", encoding="utf-8")
    assert entry_file(find_client("opencode"), machine, None) == commented


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_is_found_by_its_folder_or_its_command(client, tmp_path):
    machine = Machine(tmp_path, System.MACOS)
    assert not is_installed(client, machine, lambda _: None)
    if client.commands:
        assert is_installed(client, machine, lambda name: name == client.commands[-1])
    folder = (
        machine.path(client.folders[0])
        if client.folders
        else machine.path(client.user.macos[0]).parent
    )
    folder.mkdir(parents=True)
    assert is_installed(client, machine, lambda _: None)


def test_client_aliases_are_known_and_unknown_names_are_rejected():
    assert find_client("Claude").name == "claude-code"
    assert find_client("code").name == "vscode"
    with pytest.raises(InputError, match="known: claude-code, claude-desktop"):
        find_client("emacs")
