"""The names of a project: its folder, its remote, its repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cortex.engine.sources.project import project_at


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def repository(folder: Path, remote: str = "") -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


@pytest.mark.parametrize(
    "remote",
    [
        "git@example.com:team/shop.git",
        "https://example.com/team/shop",
        "https://example.com/team/shop.git/",
        "/srv/git/shop.git",
    ],
)
def test_a_project_is_known_by_its_folder_and_its_remote(isolated, tmp_path, remote):
    root = repository(tmp_path / "checkout", remote)
    project = project_at(root)
    assert (project.path, project.name, project.names) == (root, "checkout", ("checkout", "shop"))


def test_a_worktree_is_known_by_its_repository_first(isolated, tmp_path):
    root = repository(tmp_path / "shop")
    git(root, "worktree", "add", "-q", str(tmp_path / "feature-x"))
    assert project_at(tmp_path / "feature-x").names == ("shop", "feature-x")


def test_a_folder_inside_a_project_is_known_by_the_project_first(isolated, tmp_path):
    root = repository(tmp_path / "shop")
    (root / "src" / "cart").mkdir(parents=True)
    assert project_at(root / "src" / "cart").names == ("shop", "cart")


def test_a_folder_without_a_project_is_known_by_its_own_name(isolated, tmp_path):
    (tmp_path / "letters").mkdir()
    assert project_at(tmp_path / "letters").names == ("letters",)
    assert project_at(tmp_path / "nowhere").names == ("nowhere",)
    assert project_at(Path("/")).names == ("/",)
