"""Files of other programs: links, modes, encodings and folders in the way."""

from __future__ import annotations

import os
import stat

import pytest

from cortex.base.errors import ConfigError, FileError
from cortex.interfaces.install.clients import entry_file, find_client
from cortex.interfaces.install.plans import install, plan_install
from interfaces.install.installation import WISH, connect, disconnect, written

posix = pytest.mark.skipif(os.name == "nt", reason="modes and links of POSIX")


def test_file_in_another_encoding_is_an_error(place):
    file = written(place, "cursor", "")
    file.write_bytes('{"a": 1}'.encode("utf-16"))
    with pytest.raises(ConfigError, match="line 1, column 1: not UTF-8"):
        plan_install([find_client("cursor")], place.machine, None, WISH)


@posix
def test_file_mode_and_symlink_are_kept(place, tmp_path):
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
    assert [path.name for path in real.parent.iterdir()] == ["config.toml"]
    disconnect(place, "codex")
    assert link.is_symlink() and real.read_text("utf-8") == 'model = "x"\n'
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@posix
def test_backup_copy_is_readable_by_its_owner_only(place):
    written(place, "claude-code", '{"secret": "token"}')
    (edit,) = plan_install([find_client("claude-code")], place.machine, None, WISH)
    backup = install(edit, place.home)
    assert backup.read_bytes() == b'{"secret": "token"}'
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(backup.parent.stat().st_mode) == 0o700


@posix
def test_link_out_of_the_project_is_not_followed(place, tmp_path):
    outside = tmp_path / "outside.json"
    outside.write_text("{}", encoding="utf-8")
    (place.root / ".mcp.json").symlink_to(outside)
    (place.root / ".vscode").symlink_to(tmp_path / "elsewhere")
    for name in ("claude-code", "vscode"):
        with pytest.raises(FileError) as raised:
            plan_install([find_client(name)], place.machine, place.root, WISH)
        assert raised.value.code == "PATH_OUTSIDE"
    assert outside.read_text("utf-8") == "{}"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_is_an_error(place):
    file = written(place, "cursor", "{}")
    file.parent.chmod(0o500)
    try:
        with pytest.raises(FileError) as raised:
            connect(place, "cursor")
        assert raised.value.code == "PERMISSION_DENIED"
        assert file.read_text("utf-8") == "{}"
    finally:
        file.parent.chmod(0o700)


def test_folder_in_place_of_a_file_is_an_error(place):
    entry_file(find_client("cursor"), place.machine, None).mkdir(parents=True)
    with pytest.raises(FileError, match="is not a file"):
        connect(place, "cursor")
