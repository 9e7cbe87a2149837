"""Where cortexd and its clients meet: a private folder, a name for each home, and what is left of
those that died.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from cortex.base.runtime import rendezvous
from cortex.base.runtime.rendezvous import MAX_SOCKET_BYTES, Rendezvous, _make_private

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")


def folder_of(home: object, **variables: str) -> Path:
    return Path(Rendezvous(str(home), variables).socket).parent


def test_the_folder_is_private_and_in_the_runtime_directory(run_folder, tmp_path):
    folder = folder_of(tmp_path, XDG_RUNTIME_DIR=str(run_folder))
    assert folder == run_folder / "cortex"
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("given", ["", "relative/path", "/tmp/" + "long/" * 20, "/nowhere/at/all"])
def test_without_a_runtime_directory_that_can_be_used_it_is_a_short_folder_of_the_user(
    given, tmp_path
):
    meeting = Rendezvous(str(tmp_path), {"XDG_RUNTIME_DIR": given})
    assert Path(meeting.socket).parent == Path(f"/tmp/cortex-{os.getuid()}")
    assert len(os.fsencode(meeting.socket)) < MAX_SOCKET_BYTES


def test_the_longest_runtime_directory_still_gives_a_name_that_can_be_bound(run_folder, tmp_path):
    place = run_folder
    while len(str(place)) < 60:
        place = place / "sub"
        place.mkdir()
    meeting = Rendezvous(str(tmp_path), {"XDG_RUNTIME_DIR": str(place)})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(meeting.socket)


def test_a_folder_that_others_could_have_made_or_enter_is_not_used(tmp_path):
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
def test_a_folder_of_another_owner_is_not_used(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 65_534, 65_534)
    with pytest.raises(PermissionError):
        _make_private(str(theirs))


def test_where_another_took_the_temporary_folder_the_home_has_one(
    tmp_path, run_folder, monkeypatch
):
    (tmp_path / f"cortex-{os.getuid()}").symlink_to(tmp_path)  # as somebody else could
    monkeypatch.setattr(rendezvous, "TEMPORARY", str(tmp_path))
    home = run_folder / "home"
    folder = folder_of(home, XDG_RUNTIME_DIR="relative")
    assert folder == home / "run"
    assert (home.stat().st_mode | folder.stat().st_mode) & 0o777 == 0o700


@pytest.mark.parametrize("temporary", ["missing", "file"])
def test_where_no_temporary_folder_can_be_made_the_home_has_one(
    tmp_path, run_folder, monkeypatch, temporary
):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setattr(rendezvous, "TEMPORARY", str(tmp_path / temporary))
    home = run_folder / "home"
    assert folder_of(home, XDG_RUNTIME_DIR="relative") == home / "run"


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() == 0, reason="root may write everywhere"
)
def test_where_the_temporary_folder_cant_be_written_the_home_has_one(
    tmp_path, run_folder, monkeypatch
):
    (tmp_path / "closed").mkdir(mode=0o500)
    monkeypatch.setattr(rendezvous, "TEMPORARY", str(tmp_path / "closed"))
    home = run_folder / "home"
    assert folder_of(home, XDG_RUNTIME_DIR="relative") == home / "run"


def test_an_own_temporary_folder_that_is_open_to_others_is_told(tmp_path, monkeypatch):
    (tmp_path / f"cortex-{os.getuid()}").mkdir(mode=0o755)
    monkeypatch.setattr(rendezvous, "TEMPORARY", str(tmp_path))
    with pytest.raises(PermissionError, match="only this user can enter"):
        folder_of(tmp_path / "home", XDG_RUNTIME_DIR="relative")


def test_who_is_at_the_other_end_of_a_socket_is_known(monkeypatch):
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert rendezvous.is_own(one)
        if sys.platform in ("linux", "darwin"):
            monkeypatch.setattr(os, "getuid", lambda: 12_345)
            assert not rendezvous.is_own(one)


def test_a_home_has_one_meeting_place_by_whatever_name_it_is_reached(tmp_path, run_folder):
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


def test_nobody_listens_at_a_stale_socket(place):
    meeting = place.meeting
    assert meeting.connect() is None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(meeting.socket)
    assert os.path.exists(meeting.socket)
    assert meeting.connect() is None
    assert meeting.ask({"control": "ping"}) is None


@pytest.mark.parametrize("note", ["", "{", "[]", '{"pid": "x"}'])
def test_a_note_that_makes_no_sense_says_nothing(place, note):
    Path(place.meeting.note).write_text(note, encoding="utf-8")
    assert place.meeting.read_note() in ({}, {"pid": "x"})
