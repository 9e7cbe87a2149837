"""Where memories are looked for, in which order, and which project and scope somebody is in."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from cortex.base.types import Memory
from cortex.engine.sources.project import project_at
from cortex.families.memory.databases import current_scope, databases, has_memories, searched_places
from cortex.families.memory.writer import add
from families.memory.desk import open_library, settings_of


@pytest.fixture
def user(isolated) -> Path:
    return isolated.user


def file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def found(isolated, **variables: str) -> list[tuple[str, str]]:
    """Each database, relative to the person's home, with its scope."""
    ones = databases(settings_of(isolated.cortex, **variables))
    return [
        (one.path.relative_to(os.path.realpath(isolated.user)).as_posix(), one.scope)
        for one in ones
    ]


@pytest.fixture
def everywhere(user: Path) -> None:
    for name in (
        ".ack-mem/claude-mem.db",
        ".ack-mem/scopes/dev/memory.db",
        ".ack-mem/scopes/dev/claude-mem.db",
        ".ack-mem/scopes/ack/claude-mem.db",
        ".ack-mem/scopes/empty/notes.txt",
        ".claude-mem/claude-mem.db",
        "given/claude-mem.db",
        "given/scopes/own/memory.db",
        "other/claude-mem.db",
        "one.db",
    ):
        file(user / name)


SCOPES = [(".ack-mem/scopes/ack/claude-mem.db", "ack"), (".ack-mem/scopes/dev/memory.db", "dev")]
ACK, CLAUDE = (".ack-mem/claude-mem.db", ""), (".claude-mem/claude-mem.db", "")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, [ACK, *SCOPES, CLAUDE]),
        ({"ACK_MEM_DB": "~/one.db"}, [("one.db", "")]),
        (
            {"ACK_MEM_PATH": "~/given"},
            [("given/claude-mem.db", ""), ("given/scopes/own/memory.db", "own")],
        ),
        (
            {"ACK_MEM_PATH": "~/given", "ACK_MEM_DB": "~/one.db"},
            [("one.db", ""), ("given/scopes/own/memory.db", "own")],
        ),
        ({"CLAUDE_MEM_DATA_DIR": "~/other"}, [ACK, *SCOPES, ("other/claude-mem.db", "")]),
        (
            {"ACK_MEM_DB": "~/one.db", "CLAUDE_MEM_DATA_DIR": "~/other"},
            [("one.db", ""), ("other/claude-mem.db", "")],
        ),
        ({"ACK_MEM_DB": "~/nowhere.db"}, []),
        ({"ACK_MEM_PATH": "~nobody-at-all/x"}, []),
    ],
)
def test_a_path_that_somebody_gave_takes_the_place_of_the_defaults_after_it(
    isolated, everywhere, variables, expected
):
    assert found(isolated, **variables) == expected


def test_a_database_that_two_names_lead_to_is_read_once(isolated, user):
    file(user / "real" / "claude-mem.db")
    (user / ".ack-mem").symlink_to(user / "real")
    (user / ".claude-mem").symlink_to(user / "real")
    assert found(isolated) == [("real/claude-mem.db", "")]


def test_every_place_where_a_database_is_looked_for_is_known_the_likeliest_first(isolated, user):
    assert databases(settings_of(isolated.cortex)) == ()
    (user / ".ack-mem" / "scopes" / "dev").mkdir(parents=True)
    default = [
        user / ".claude-mem" / "claude-mem.db",
        user / ".ack-mem" / "scopes" / "dev" / "memory.db",
        user / ".ack-mem" / "claude-mem.db",
    ]
    assert searched_places(settings_of(isolated.cortex)) == tuple(default)
    assert searched_places(settings_of(isolated.cortex, ACK_MEM_PATH="~/x")) == (
        user / "x" / "claude-mem.db",
    )
    assert searched_places(settings_of(isolated.cortex, ACK_MEM_DB="~/x.db")) == (user / "x.db",)


@pytest.mark.parametrize(
    "said", [{"CLAUDE_MEM_DATA_DIR": "~/moved"}, {"env": {"CLAUDE_MEM_DATA_DIR": " ~/moved "}}]
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_the_folder_that_claude_mems_own_settings_name_is_followed(isolated, user, said, encoding):
    file(user / "moved" / "claude-mem.db")
    (user / ".claude-mem").mkdir()
    (user / ".claude-mem" / "settings.json").write_text(json.dumps(said), encoding=encoding)
    assert found(isolated) == [("moved/claude-mem.db", "")]


@pytest.mark.parametrize(
    "said",
    [
        "{",
        "[]",
        '{"env": 3}',
        '{"CLAUDE_MEM_DATA_DIR": ""}',
        "[" * 100_000,
        "\0",
        '{"CLAUDE_MEM_DATA_DIR": 7}',
    ],
)
def test_settings_that_say_nothing_leave_the_default(isolated, user, said):
    file(user / ".claude-mem" / "claude-mem.db")
    (user / ".claude-mem" / "settings.json").write_text(said, encoding="utf-8")
    assert found(isolated) == [(".claude-mem/claude-mem.db", "")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_in_the_place_of_settings_or_of_a_database_holds_nobody_up(isolated, user):
    file(user / ".claude-mem" / "claude-mem.db")
    os.mkfifo(user / ".claude-mem" / "settings.json")
    (user / ".ack-mem").mkdir()
    os.mkfifo(user / ".ack-mem" / "claude-mem.db")
    assert found(isolated) == [(".claude-mem/claude-mem.db", "")]


def test_there_are_memories_where_there_is_a_database_or_one_of_our_own(isolated, user):
    settings = settings_of(isolated.cortex)
    assert not has_memories(settings)
    with open_library(settings) as library:
        assert not has_memories(settings)
        add(library, Memory("", "Lamps are blue"))
    assert has_memories(settings)
    assert not has_memories(settings_of(isolated.user / "other"))
    file(user / ".claude-mem" / "claude-mem.db")
    assert has_memories(settings_of(isolated.user / "other"))


# -- projects
# ----------------------------------------------------------------------------------------------------------


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


def test_the_scope_is_the_one_that_was_named_else_the_first_of_the_projects_names_that_is_one(
    isolated, tmp_path
):
    project = project_at(repository(tmp_path / "checkout", "git@example.com:team/Shop.git"))
    assert current_scope("dev", project, ["shop"]) == "dev"
    assert current_scope("", project, ["lamps", "SHOP"]) == "SHOP"
    assert current_scope("", project, ["shop", "checkout"]) == "checkout"
    assert current_scope("", project, []) == "checkout"


def test_the_variable_for_the_scope_is_read(isolated):
    assert settings_of(isolated.cortex, ACK_MEM_SCOPE="dev").memory.scope == "dev"
