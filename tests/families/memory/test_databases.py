"""The databases of memories in their order, and the current scope."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cortex.base.types import Memory
from cortex.engine.sources.project import Project
from cortex.families.memory.databases import current_scope, databases, has_memories, searched_places
from cortex.families.memory.writer import add
from families.memory.libraries import open_library, settings_of


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
        (found.path.relative_to(os.path.realpath(isolated.user)).as_posix(), found.scope)
        for found in ones
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
def test_configured_path_replaces_the_default_databases(isolated, everywhere, variables, expected):
    assert found(isolated, **variables) == expected


def test_database_linked_from_two_folders_is_listed_once(isolated, user):
    file(user / "real" / "claude-mem.db")
    (user / ".ack-mem").symlink_to(user / "real")
    (user / ".claude-mem").symlink_to(user / "real")
    assert found(isolated) == [("real/claude-mem.db", "")]


def test_searched_places_are_listed_likeliest_first(isolated, user):
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
def test_data_folder_of_claude_mems_settings_is_followed(isolated, user, said, encoding):
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
def test_invalid_claude_mem_settings_leave_the_default(isolated, user, said):
    file(user / ".claude-mem" / "claude-mem.db")
    (user / ".claude-mem" / "settings.json").write_text(said, encoding="utf-8")
    assert found(isolated) == [(".claude-mem/claude-mem.db", "")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_pipe_in_place_of_settings_or_database_is_skipped(isolated, user):
    file(user / ".claude-mem" / "claude-mem.db")
    os.mkfifo(user / ".claude-mem" / "settings.json")
    (user / ".ack-mem").mkdir()
    os.mkfifo(user / ".ack-mem" / "claude-mem.db")
    assert found(isolated) == [(".claude-mem/claude-mem.db", "")]


def test_library_has_memories_with_a_database_or_an_own_memory(isolated, user):
    settings = settings_of(isolated.cortex)
    assert not has_memories(settings)
    with open_library(settings) as library:
        assert not has_memories(settings)
        add(library, Memory("", "Lamps are blue"))
    assert has_memories(settings)
    assert not has_memories(settings_of(isolated.user / "other"))
    file(user / ".claude-mem" / "claude-mem.db")
    assert has_memories(settings_of(isolated.user / "other"))


# -- scopes
# ----------------------------------------------------------------------------------------------------------


def test_current_scope_is_the_named_one_or_the_first_matching_project_name():
    project = Project(Path("checkout"), ("checkout", "Shop"))
    assert current_scope("dev", project, ["shop"]) == "dev"
    assert current_scope("", project, ["lamps", "SHOP"]) == "SHOP"
    assert current_scope("", project, ["shop", "checkout"]) == "checkout"
    assert current_scope("", project, []) == "checkout"


def test_scope_variable_is_read(isolated):
    assert settings_of(isolated.cortex, ACK_MEM_SCOPE="dev").memory.scope == "dev"
