"""What installing does to files: modes, links, broken files, entries of others."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from cortex.base.errors import ConfigError, FileError, InputError
from cortex.interfaces.install.clients import CLIENTS, entry_file, find_client, hooks_file
from cortex.interfaces.install.config_entries import ServerEntry
from cortex.interfaces.install.plans import (
    InstallOptions,
    install,
    plan_install,
    plan_uninstall,
    uninstall,
)

SERVER = ServerEntry("/opt/cortex", ("mcp",))
WISH = InstallOptions(SERVER)
posix = pytest.mark.skipif(os.name == "nt", reason="modes and links of POSIX")


def written(place, name: str, text: str) -> Path:
    file = entry_file(find_client(name), place.machine, None)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return file


def connect(place, name: str, wish: InstallOptions = WISH) -> None:
    for edit in plan_install([find_client(name)], place.machine, None, wish):
        install(edit, place.home)


def disconnect(place, name: str) -> None:
    uninstall(plan_uninstall([find_client(name)], place.machine, None, place.home, []), place.home)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.name)
def test_a_broken_file_is_told_with_its_place_and_nothing_is_written(client, place):
    text = "a = 1\nb = ]\n" if client.format == "toml" else '{\n  "a": ]\n}'
    file = written(place, client.name, text)
    with pytest.raises(ConfigError) as told:
        plan_install([*CLIENTS[:3], client], place.machine, None, WISH)
    assert told.value.code == "CLIENT_FILE_INVALID"
    assert f"{file}, line 2, column " in told.value.message
    assert told.value.context["line"] == 2
    assert file.read_text("utf-8") == text
    assert not place.home.exists()


def test_a_file_in_another_encoding_is_told(place):
    file = written(place, "cursor", "")
    file.write_bytes('{"a": 1}'.encode("utf-16"))
    with pytest.raises(ConfigError, match="line 1, column 1: not UTF-8"):
        plan_install([find_client("cursor")], place.machine, None, WISH)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.name)
def test_an_entry_of_somebody_else_is_overwritten_only_where_that_was_asked_for(client, place):
    if client.format == "toml":
        text = '[mcp_servers.cortex]\ncommand = "npx"\nargs = ["other"]\n'
    else:
        text = f'{{"{client.key}": {{"cortex": {{"command": "npx", "args": ["other"]}}}}}}'
    file = written(place, client.name, text)
    with pytest.raises(ConfigError) as told:
        plan_install([client], place.machine, None, WISH)
    assert told.value.code == "ENTRY_FOREIGN"
    assert "npx" in told.value.message and "--replace" in " ".join(told.value.suggestions)
    assert plan_uninstall([client], place.machine, None, place.home, []) == []
    connect(place, client.name, InstallOptions(SERVER, replace=True))
    assert "npx" not in file.read_text("utf-8")
    disconnect(place, client.name)
    assert file.read_text("utf-8") == text


def test_what_a_person_added_to_our_entry_stays(place):
    file = written(
        place,
        "claude-code",
        '{"mcpServers": {"cortex": {"command": "/old/cortex", "args": ["mcp"], "env": {"A": "b"}}}}',
    )
    connect(place, "claude-code")
    assert file.read_text("utf-8") == (
        '{"mcpServers": {"cortex": {"command": "/opt/cortex", "args": ["mcp"], "env": {"A": "b"}, "type": "stdio"}}}'
    )


def test_an_old_hook_of_ours_is_replaced_and_one_of_others_stays(place):
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


@posix
def test_mode_and_link_of_a_file_stay(place, tmp_path):
    real = tmp_path / "dotfiles" / "config.toml"
    real.parent.mkdir()
    real.write_text('model = "x"\n', encoding="utf-8")
    real.chmod(0o640)
    link = entry_file(find_client("codex"), place.machine, None)
    link.parent.mkdir()
    link.symlink_to(real)
    connect(place, "codex")
    assert link.is_symlink() and "mcp_servers" in real.read_text("utf-8")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert [one.name for one in real.parent.iterdir()] == ["config.toml"]
    disconnect(place, "codex")
    assert link.is_symlink() and real.read_text("utf-8") == 'model = "x"\n'
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@posix
def test_the_copy_is_for_its_owner_only(place):
    written(place, "claude-code", '{"secret": "token"}')
    (edit,) = plan_install([find_client("claude-code")], place.machine, None, WISH)
    backup = install(edit, place.home)
    assert backup.read_bytes() == b'{"secret": "token"}'
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(backup.parent.stat().st_mode) == 0o700


@posix
def test_a_link_out_of_the_project_is_not_followed(place, tmp_path):
    outside = tmp_path / "outside.json"
    outside.write_text("{}", encoding="utf-8")
    (place.root / ".mcp.json").symlink_to(outside)
    (place.root / ".vscode").symlink_to(tmp_path / "elsewhere")
    for name in ("claude-code", "vscode"):
        with pytest.raises(FileError) as told:
            plan_install([find_client(name)], place.machine, place.root, WISH)
        assert told.value.code == "PATH_OUTSIDE"
    assert outside.read_text("utf-8") == "{}"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cant_be_written_is_told(place):
    file = written(place, "cursor", "{}")
    file.parent.chmod(0o500)
    try:
        with pytest.raises(FileError) as told:
            connect(place, "cursor")
        assert told.value.code == "PERMISSION_DENIED"
        assert file.read_text("utf-8") == "{}"
    finally:
        file.parent.chmod(0o700)


def test_a_folder_in_the_place_of_a_file_is_told(place):
    entry_file(find_client("cursor"), place.machine, None).mkdir(parents=True)
    with pytest.raises(FileError, match="is not a file"):
        connect(place, "cursor")


def test_a_client_without_files_in_projects_is_told(place):
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


def test_a_file_that_is_gone_is_nothing_to_undo(place):
    connect(place, "cursor")
    entry_file(find_client("cursor"), place.machine, None).unlink()
    assert plan_uninstall([find_client("cursor")], place.machine, None, place.home, []) == []
    connect(place, "cursor")
    disconnect(place, "cursor")
    assert not (place.machine.home / ".cursor").exists()


def test_what_a_client_wrote_after_an_installation_was_planned_stays(place):
    file = written(place, "claude-code", '{"history": 1}')
    (edit,) = plan_install([find_client("claude-code")], place.machine, None, WISH)
    file.write_text('{"history": 2}', encoding="utf-8")
    install(edit, place.home)
    assert json.loads(file.read_text("utf-8"))["history"] == 2
    assert "cortex" in json.loads(file.read_text("utf-8"))["mcpServers"]
    disconnect(place, "claude-code")
    assert file.read_text("utf-8") == '{"history": 2}'


def test_a_client_that_wrote_its_first_file_meanwhile_keeps_it(place):
    (edit,) = plan_install([find_client("claude-code")], place.machine, None, WISH)
    file = written(place, "claude-code", '{"history": 1}')
    install(edit, place.home)
    disconnect(place, "claude-code")
    assert file.read_text("utf-8") == '{"history": 1}'


def test_what_a_client_wrote_after_a_removal_was_planned_stays(place):
    file = written(place, "claude-code", '{"history": 1}')
    connect(place, "claude-code")
    edits = plan_uninstall([find_client("claude-code")], place.machine, None, place.home, [])
    file.write_text(
        file.read_text("utf-8").replace('"history": 1', '"history": 2'), encoding="utf-8"
    )
    uninstall(edits, place.home)
    assert file.read_text("utf-8") == '{"history": 2}'


def test_a_file_of_ours_that_a_client_wrote_to_meanwhile_is_not_deleted(place):
    connect(place, "claude-code")
    edits = plan_uninstall([find_client("claude-code")], place.machine, None, place.home, [])
    file = edits[0].file
    file.write_text(file.read_text("utf-8").replace("{", '{"history": 2,', 1), encoding="utf-8")
    uninstall(edits, place.home)
    assert json.loads(file.read_text("utf-8")) == {"history": 2}


def test_a_file_that_broke_after_it_was_planned_is_told_and_left_alone(place):
    file = written(place, "claude-code", "{}")
    (edit,) = plan_install([find_client("claude-code")], place.machine, None, WISH)
    file.write_text("{]", encoding="utf-8")
    with pytest.raises(ConfigError) as told:
        install(edit, place.home)
    assert told.value.code == "CLIENT_FILE_INVALID"
    assert file.read_text("utf-8") == "{]"
    assert not place.home.exists()


def test_two_clients_that_share_a_file_are_both_planned_again(place):
    clients = [find_client(name) for name in ("vscode", "copilot")]
    shared = hooks_file(clients[0], place.machine, None)
    edits = plan_install(clients, place.machine, None, InstallOptions(SERVER, hooks=True))
    (edit,) = [one for one in edits if one.file == shared]
    shared.parent.mkdir(parents=True)
    shared.write_text('{"theirs": 1}', encoding="utf-8")
    install(edit, place.home)
    assert json.loads(shared.read_text("utf-8"))["theirs"] == 1
    after = [
        one
        for one in plan_install(clients, place.machine, None, InstallOptions(SERVER, hooks=True))
        if one.file == shared
    ]
    assert [(one.action, one.clients) for one in after] == [("unchanged", tuple(clients))]
