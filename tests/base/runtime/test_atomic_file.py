"""Atomic replacement of files, on a real disk."""

import os
import stat
import sys
from pathlib import Path

import pytest

from cortex.base.errors import FileError
from cortex.base.runtime.atomic_file import atomic_write, replace_file


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_replaced_file_has_the_new_content_and_no_leftover_beside_it(tmp_path):
    file = tmp_path / "note.json"
    file.write_bytes(b"old")
    replace_file(file, b"new\r\n")
    assert file.read_bytes() == b"new\r\n"
    assert os.listdir(tmp_path) == ["note.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
def test_new_file_has_the_requested_mode_under_any_umask(tmp_path):
    before = os.umask(0o077)
    try:
        replace_file(tmp_path / "private", b"")
        replace_file(tmp_path / "public", b"", mode=0o644)
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "private") == 0o600
    assert mode_of(tmp_path / "public") == 0o644


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
@pytest.mark.parametrize(("keep", "after"), [(True, 0o640), (False, 0o600)])
def test_existing_file_keeps_its_mode_only_on_request(tmp_path, keep, after):
    file = tmp_path / "settings.yml"
    file.touch()
    file.chmod(0o640)
    replace_file(file, b"x", keep_mode=keep)
    assert mode_of(file) == after


def test_failed_write_leaves_the_old_file_and_no_leftover(tmp_path):
    file = tmp_path / "pack.md"
    file.write_bytes(b"old")
    with pytest.raises(RuntimeError), atomic_write(file) as temporary:
        temporary.write_bytes(b"half")
        raise RuntimeError("stopped")
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["pack.md"]


def test_folder_at_the_path_is_refused_and_stays(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError):
        replace_file(tmp_path / "taken", b"x")
    assert os.listdir(tmp_path) == ["taken"]


def test_missing_folder_is_a_file_error(tmp_path):
    with pytest.raises(FileError) as refused, atomic_write(tmp_path / "missing" / "pack.md"):
        pass
    assert refused.value.code == "FILE_NOT_FOUND"
