"""Installation into files: modes, links, broken files, foreign entries."""

from __future__ import annotations

import json
import os

import pytest

from cortex.base.errors import ConfigError, InputError
from cortex.interfaces.install.clients import CLIENTS, entry_file, find_client, hooks_file
from cortex.interfaces.install.config_entries import ServerEntry
from cortex.interfaces.install.plans import (
    InstallOptions,
    install,
    plan_install,
    plan_uninstall,
    uninstall,
)
from interfaces.install.installation import SERVER, WISH, connect, disconnect, written

posix = pytest.mark.skipif(os.name == "nt", reason="modes and links of POSIX")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_broken_file_error_names_its_position_and_nothing_is_written(client, place):
    text = "a = 1\nb = ]\n" if client.format == "toml" else '{\n  "a": ]\n}'
    file = written(place, client.name, text)
    with pytest.raises(ConfigError) as raised:
        plan_install([*CLIENTS[:3], client], place.machine, None, WISH)
    assert raised.value.code == "CLIENT_FILE_INVALID"
    assert f"{file}, line 2, column " in raised.value.message
    assert raised.value.context["line"] == 2
    assert file.read_text("utf-8") == text
    assert not place.home.exists()


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_foreign_entry_is_overwritten_only_with_replace(client, place):
    if client.format == "toml":
        text = '[mcp_servers.cortex]\ncommand = "npx"\nargs = ["other"]\n'
    else:
        text = f'{{"{client.key}": {{"cortex": {{"command": "npx", "args": ["other"]}}}}}}'
    file = written(place, client.name, text)
    with pytest.raises(ConfigError) as raised:
        plan_install([client], place.machine, None, WISH)
    assert raised.value.code == "ENTRY_FOREIGN"
    assert "npx" in raised.value.message and "--replace" in " ".join(raised.value.suggestions)
    assert plan_uninstall([client], place.machine, None, place.home, []) == []
    connect(place, client.name, InstallOptions(SERVER, replace=True))
    assert "npx" not in file.read_text("utf-8")
    disconnect(place, client.name)
    assert file.read_text("utf-8") == text


def test_fields_added_to_our_entry_are_kept(place):
    file = written(
        place,
        "claude-code",
        '{"mcpServers": {"cortex": {"command": "/old/cortex", "args": ["mcp"], "env": {"A": "b"}}}}',
    )
    connect(place, "claude-code")
    assert file.read_text("utf-8") == (
        '{"mcpServers": {"cortex": {"command": "/opt/cortex", "args": ["mcp"], "env": {"A": "b"}, "type": "stdio"}}}'
    )


def test_old_hook_of_ours_is_replaced_and_a_foreign_hook_is_kept(place):
    client = find_client("claude-code")
    connect(place, "claude-code", InstallOptions(ServerEntry("/old/cortex", ("mcp",)), hooks=True))
    file = hooks_file(client, place.machine, None)
    theirs = '{"hooks": [{"type": "command", "command": "say cortex hook stop it"}]}'
    file.write_text(
        file.read_text("utf-8").replace('"Stop": [', f'"Stop": [{theirs},'), encoding="utf-8"
    )
    connect(place, "claude-code", InstallOptions(SERVER, hooks=True))
    text = file.read_text("utf-8")
    assert "/old/cortex" not in text
    assert text.count("/opt/cortex hook stop") == 1
    disconnect(place, "claude-code")
    assert "say cortex hook stop it" in file.read_text("utf-8")
    assert "/opt/cortex" not in file.read_text("utf-8")


def test_client_without_project_files_is_an_error_in_project_scope(place):
    with pytest.raises(InputError, match="--scope user"):
        plan_install([find_client("windsurf")], place.machine, place.root, WISH)


def test_a_projects_entry_of_cursor_names_the_folder_by_cursors_own_variable(place):
    (edit,) = plan_install(
        [find_client("cursor")],
        place.machine,
        place.root,
        InstallOptions(ServerEntry("cortex", ("mcp",))),
    )
    assert b'"command": "cortex"' in edit.after
    assert b'"args": ["mcp", "--workspace", "${workspaceFolder}"]' in edit.after


def test_a_diff_names_the_file_and_shows_missing_line_ends(place):
    file = written(place, "cursor", '{"a": 1}')
    (edit,) = plan_install([find_client("cursor")], place.machine, None, WISH)
    assert edit.diff().startswith(f"--- {file}\n+++ {file}\n")
    assert "\\ No newline at end of file" in edit.diff()
    assert file.read_text("utf-8") == '{"a": 1}'


def test_deleted_file_leaves_nothing_to_uninstall(place):
    connect(place, "cursor")
    entry_file(find_client("cursor"), place.machine, None).unlink()
    assert plan_uninstall([find_client("cursor")], place.machine, None, place.home, []) == []
    connect(place, "cursor")
    disconnect(place, "cursor")
    assert not (place.machine.home / ".cursor").exists()


def test_client_write_after_the_install_plan_is_kept(place):
    file = written(place, "claude-code", '{"history": 1}')
    (edit,) = plan_install([find_client("claude-code")], place.machine, None, WISH)
    file.write_text('{"history": 2}', encoding="utf-8")
    install(edit, place.home)
    assert json.loads(file.read_text("utf-8"))["history"] == 2
    assert "cortex" in json.loads(file.read_text("utf-8"))["mcpServers"]
    disconnect(place, "claude-code")
    assert file.read_text("utf-8") == '{"history": 2}'


def test_first_client_write_after_the_install_plan_is_kept(place):
    (edit,) = plan_install([find_client("claude-code")], place.machine, None, WISH)
    file = written(place, "claude-code", '{"history": 1}')
    install(edit, place.home)
    disconnect(place, "claude-code")
    assert file.read_text("utf-8") == '{"history": 1}'


def test_client_write_after_the_uninstall_plan_is_kept(place):
    file = written(place, "claude-code", '{"history": 1}')
    connect(place, "claude-code")
    edits = plan_uninstall([find_client("claude-code")], place.machine, None, place.home, [])
    file.write_text(
        file.read_text("utf-8").replace('"history": 1', '"history": 2'), encoding="utf-8"
    )
    uninstall(edits, place.home)
    assert file.read_text("utf-8") == '{"history": 2}'


def test_our_file_with_a_later_client_write_is_not_deleted(place):
    connect(place, "claude-code")
    edits = plan_uninstall([find_client("claude-code")], place.machine, None, place.home, [])
    file = edits[0].file
    file.write_text(file.read_text("utf-8").replace("{", '{"history": 2,', 1), encoding="utf-8")
    uninstall(edits, place.home)
    assert json.loads(file.read_text("utf-8")) == {"history": 2}


def test_file_broken_after_the_plan_is_an_error_and_left_alone(place):
    file = written(place, "claude-code", "{}")
    (edit,) = plan_install([find_client("claude-code")], place.machine, None, WISH)
    file.write_text("{]", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        install(edit, place.home)
    assert raised.value.code == "CLIENT_FILE_INVALID"
    assert file.read_text("utf-8") == "{]"
    assert not place.home.exists()


def test_clients_that_share_a_file_are_planned_again_together(place):
    clients = [find_client(name) for name in ("vscode", "copilot")]
    shared = hooks_file(clients[0], place.machine, None)
    edits = plan_install(clients, place.machine, None, InstallOptions(SERVER, hooks=True))
    (edit,) = [edit for edit in edits if edit.file == shared]
    shared.parent.mkdir(parents=True)
    shared.write_text('{"theirs": 1}', encoding="utf-8")
    install(edit, place.home)
    assert json.loads(shared.read_text("utf-8"))["theirs"] == 1
    after = [
        edit
        for edit in plan_install(clients, place.machine, None, InstallOptions(SERVER, hooks=True))
        if edit.file == shared
    ]
    assert [(edit.action, edit.clients) for edit in after] == [("unchanged", tuple(clients))]
