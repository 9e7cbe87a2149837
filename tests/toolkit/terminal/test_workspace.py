"""Folders that a command works on."""

from pathlib import Path

import pytest

from cortex.toolkit.terminal.workspace import find_for, nearest
from protocol.code_server import make_repository


def test_nearest_folder_is_found_past_unusable_paths_and_missing_drives(tmp_path, monkeypatch):
    # Which an operating system refuses to look at
    assert nearest(tmp_path / ("x" * 300) / "y") == tmp_path
    monkeypatch.setattr(Path, "exists", lambda self: False)  # a drive that isn't there
    assert nearest(tmp_path) == Path(tmp_path.anchor)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return make_repository(tmp_path_factory.mktemp("shop"))


def test_unfilled_client_variable_names_no_folder(repository):
    found, warnings = find_for([Path("${workspaceFolder}")], {}, repository)
    assert ([workspace.root for workspace in found], warnings) == ([repository.resolve()], [])
