"""Choice of the workspaces: flag, variable, settings, client and guess."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cortex.base.errors import ConfigError
from cortex.base.settings import Workspace, find_workspaces, load

PLUGIN = Path(__file__).parents[3] / "plugin"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    (tmp_path / "user").mkdir()
    return tmp_path / "user"


def make_repository(folder: Path) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / "src" / "deep").mkdir(parents=True)
    return folder


def find(user: Path, cwd: Path, *workspace: str, **variables: str) -> tuple[Workspace, ...]:
    flags = {"workspace.paths": list(workspace) or None}
    settings = load(None, environment=variables, flags=flags, user_home=user)
    return find_workspaces(settings, flags=flags, cwd=cwd, environment=variables, user_home=user)


def roots(user: Path, cwd: Path, *workspace: str, **variables: str) -> tuple[Path, ...]:
    return tuple(found.root for found in find(user, cwd, *workspace, **variables))


def write_own(user: Path, *paths: Path) -> None:
    (user / ".cortex").mkdir(exist_ok=True)
    content = {"workspace": {"paths": [str(path) for path in paths]}}
    (user / ".cortex" / "config.yml").write_text(json.dumps(content), encoding="utf-8")


def test_flag_variable_home_file_and_client_name_roots_in_this_order(user: Path) -> None:
    here = make_repository(user / "here")
    (user / "plain").mkdir()
    flag, variable, own, client = (
        make_repository(user / name) for name in ("flag", "variable", "own", "client")
    )
    assert roots(user, user / "plain") == (user / "plain",)
    assert roots(user, here / "src" / "deep") == (here,)
    variables = {"CLAUDE_PROJECT_DIR": str(client)}
    assert roots(user, here, **variables) == (client,)
    write_own(user, own)
    assert roots(user, here, **variables) == (own,)
    variables["CODEINDEX_WORKSPACE_PATH"] = str(variable)
    assert roots(user, here, **variables) == (variable,)
    assert roots(user, here, str(flag), **variables) == (flag,)


def test_named_path_inside_a_repository_is_the_root_itself(user: Path) -> None:
    here = make_repository(user / "here")
    assert roots(user, here, "src") == (here / "src",)
    assert roots(user, here, "~") == (user,)
    assert roots(user, here / "src", CODEINDEX_WORKSPACE_PATH=".") == (here / "src",)


def test_several_roots_keep_their_order_without_duplicates(user: Path) -> None:
    first, second = make_repository(user / "one"), make_repository(user / "two")
    assert roots(user, user, str(second), str(first), str(second)) == (second, first)


def test_each_named_root_has_the_settings_of_its_own_files(user: Path) -> None:
    first, second = make_repository(user / "one"), make_repository(user / "two")
    (first / "codeindex.config.json").write_text('{"workspace": {"maxFiles": 5}}', encoding="utf-8")
    found = find(user, user, str(first), str(second))
    assert [workspace.settings.workspace.max_files for workspace in found] == [5, 25_000]
    assert [workspace.settings.root for workspace in found] == [first, second]


def test_project_can_name_inner_folders_with_its_own_settings(user: Path) -> None:
    here = make_repository(user / "here")
    content = {"workspace": {"paths": ["src", "/etc"], "maxFiles": 5}}
    (here / "codeindex.config.json").write_text(json.dumps(content), encoding="utf-8")
    (found,) = find(user, here)
    assert found.root == here / "src"
    assert found.settings.workspace.max_files == 5
    assert "/etc" in found.settings.warnings[0]


@pytest.mark.parametrize("guess", ["home", "root"])
def test_home_and_disk_root_are_never_guessed_as_workspace(user: Path, guess: str) -> None:
    cwd = user if guess == "home" else Path(user.anchor)
    for variables in ({}, {"CLAUDE_PROJECT_DIR": str(cwd)}):
        with pytest.raises(ConfigError) as caught:
            roots(user, cwd, **variables)
        assert caught.value.code == "WORKSPACE_MISSING"
        assert "--workspace" in caught.value.suggestions[0]


@pytest.mark.parametrize(
    "files", [("plugin.json", "mcp.json"), (".claude-plugin/plugin.json", ".mcp.json")]
)
def test_plugin_folder_is_never_guessed_as_workspace(user: Path, files: tuple[str, str]) -> None:
    cache = make_repository(user / "clone") / "plugin"
    for name in files:
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PLUGIN / name, cache / name)
    with pytest.raises(ConfigError) as caught:
        roots(user, cache)
    assert caught.value.code == "WORKSPACE_MISSING"
    assert "plugin" in caught.value.message
    assert any(
        "CORTEX_WORKSPACE_PATHS" in suggestion and "--workspace" in suggestion
        for suggestion in caught.value.suggestions
    )
    here = make_repository(user / "here")
    assert roots(user, cache, CLAUDE_PROJECT_DIR=str(here)) == (here,)
    assert roots(user, cache, CORTEX_WORKSPACE_PATHS=str(here)) == (here,)
    (cache / files[0]).write_text('{"name": "another"}', encoding="utf-8")
    assert roots(user, cache) == (user / "clone",)


def test_home_that_is_a_repository_is_not_guessed_from_below(user: Path) -> None:
    (user / ".git").mkdir()
    (user / "notes").mkdir()
    assert roots(user, user / "notes") == (user / "notes",)


def test_missing_client_folder_is_skipped(user: Path) -> None:
    here = make_repository(user / "here")
    assert roots(user, here, CLAUDE_PROJECT_DIR=str(user / "gone")) == (here,)


@pytest.mark.parametrize("name", ["gone", "file", "nu\0ll"])
def test_named_root_that_is_no_folder_is_an_error_naming_its_origin(user: Path, name: str) -> None:
    (user / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        roots(user, user, name)
    assert caught.value.code == "WORKSPACE_UNKNOWN"
    assert "flag --workspace" in caught.value.message
