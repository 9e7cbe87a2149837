"""The private socket folder of cortexd, a socket name for each home, and stale sockets and notes."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.base.runtime import rendezvous
from cortex.base.runtime.rendezvous import MAX_SOCKET_BYTES, Rendezvous, _make_private

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")


@pytest.fixture
def run_folder() -> Iterator[Path]:
    """A folder whose name is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="cx"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def meeting(run_folder: Path, tmp_path: Path) -> Rendezvous:
    return Rendezvous(str(tmp_path / "home"), {"XDG_RUNTIME_DIR": str(run_folder)})


def folder_of(home: object, **variables: str) -> Path:
    return Path(Rendezvous(str(home), variables).socket).parent


def test_socket_folder_is_private_and_in_the_runtime_directory(run_folder, tmp_path):
    folder = folder_of(tmp_path, XDG_RUNTIME_DIR=str(run_folder))
    assert folder == run_folder / "cortex"
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("given", ["", "relative/path", "/tmp/" + "long/" * 20, "/nowhere/at/all"])
def test_unusable_runtime_directory_falls_back_to_a_short_folder_of_the_user(given, tmp_path):
    meeting = Rendezvous(str(tmp_path), {"XDG_RUNTIME_DIR": given})
    assert Path(meeting.socket).parent == Path(f"/tmp/cortex-{os.getuid()}")
    assert len(os.fsencode(meeting.socket)) < MAX_SOCKET_BYTES


def test_longest_runtime_directory_gives_a_socket_name_that_can_be_bound(run_folder, tmp_path):
    folder = run_folder
    while len(str(folder)) < 60:
        folder = folder / "sub"
        folder.mkdir()
    meeting = Rendezvous(str(tmp_path), {"XDG_RUNTIME_DIR": str(folder)})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(meeting.socket)


def test_socket_folder_that_others_could_make_or_enter_is_refused(tmp_path):
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "file").write_text("", encoding="utf-8")
    for name in ("link", "open", "file"):
        with pytest.raises(PermissionError, match="only this user can enter"):
            _make_private(str(tmp_path / name))


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a folder away"
)
def test_socket_folder_of_another_owner_is_refused(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 65_534, 65_534)
    with pytest.raises(PermissionError):
        _make_private(str(theirs))


def test_socket_folder_is_in_the_home_when_the_temporary_name_is_taken(
    tmp_path, run_folder, monkeypatch
):
    (tmp_path / f"cortex-{os.getuid()}").symlink_to(tmp_path)  # another user could do this
    monkeypatch.setattr(rendezvous, "TEMPORARY", str(tmp_path))
    home = run_folder / "home"
    folder = folder_of(home, XDG_RUNTIME_DIR="relative")
    assert folder == home / "run"
    assert (home.stat().st_mode | folder.stat().st_mode) & 0o777 == 0o700


@pytest.mark.parametrize("temporary", ["missing", "file"])
def test_socket_folder_is_in_the_home_when_no_temporary_folder_can_be_made(
    tmp_path, run_folder, monkeypatch, temporary
):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setattr(rendezvous, "TEMPORARY", str(tmp_path / temporary))
    home = run_folder / "home"
    assert folder_of(home, XDG_RUNTIME_DIR="relative") == home / "run"


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() == 0, reason="root may write everywhere"
)
def test_socket_folder_is_in_the_home_when_the_temporary_folder_is_read_only(
    tmp_path, run_folder, monkeypatch
):
    (tmp_path / "closed").mkdir(mode=0o500)
    monkeypatch.setattr(rendezvous, "TEMPORARY", str(tmp_path / "closed"))
    home = run_folder / "home"
    assert folder_of(home, XDG_RUNTIME_DIR="relative") == home / "run"


def test_temporary_folder_open_to_others_is_an_error(tmp_path, monkeypatch):
    (tmp_path / f"cortex-{os.getuid()}").mkdir(mode=0o755)
    monkeypatch.setattr(rendezvous, "TEMPORARY", str(tmp_path))
    with pytest.raises(PermissionError, match="only this user can enter"):
        folder_of(tmp_path / "home", XDG_RUNTIME_DIR="relative")


def test_peer_of_a_socket_is_own_only_for_the_same_user(monkeypatch):
    near, far = socket.socketpair(socket.AF_UNIX)
    with near, far:
        assert rendezvous.is_own(near)
        if sys.platform in ("linux", "darwin"):
            monkeypatch.setattr(os, "getuid", lambda: 12_345)
            assert not rendezvous.is_own(near)


def test_home_has_one_socket_under_each_of_its_path_names(tmp_path, run_folder):
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "alias").symlink_to(home)
    variables = {"XDG_RUNTIME_DIR": str(run_folder)}
    names = {
        Rendezvous(f"{tmp_path}/{name}", variables).socket
        for name in ("home", "alias", "home/", "x/../home")
    }
    assert len(names) == 1
    assert Rendezvous(str(tmp_path / "other"), variables).socket not in names


def test_stale_socket_cannot_be_connected(meeting):
    assert meeting.connect() is None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(meeting.socket)
    assert os.path.exists(meeting.socket)
    assert meeting.connect() is None
    assert meeting.ask({"control": "ping"}) is None


@pytest.mark.parametrize("note", ["", "{", "[]", '{"pid": "x"}'])
def test_malformed_note_reads_as_empty(meeting, note):
    Path(meeting.note).write_text(note, encoding="utf-8")
    assert meeting.read_note() in ({}, {"pid": "x"})
