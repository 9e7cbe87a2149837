"""`cortex config`: settings shown, and settings written to files."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cortex.base.errors import ConfigError, CortexError, FileError
from cortex.base.settings import FAMILY_KEYS, KEYS, environment, load
from cortex.engine.engine import Engine
from cortex.interfaces.cli.config import app

COMMENTED = """\
# my settings
workspace:
    max_files: 100   # enough
    excludePatterns:
      - 'a'  # first
      - "b"

search:
    # seconds
    timeout: 5s
"""


@pytest.fixture
def here(isolated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def home_file() -> Path:
    return Path(os.environ["CORTEX_HOME"]) / "config.yml"


def test_show_lists_every_setting_with_its_origin(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEINDEX_MAX_FILES", "7")
    (here / "codeindex.config.json").write_text(
        '{"workspace": {"maxFils": 1}, "default_task_id": "t"}', encoding="utf-8"
    )
    answer = run_json("show")
    assert list(answer["settings"])[: len(KEYS)] == [key.name for key in KEYS]
    assert answer["settings"]["workspace.maxFiles"] == {
        "value": 7,
        "origin": "environment CODEINDEX_MAX_FILES",
    }
    assert answer["settings"]["default_task_id"]["value"] == "t"
    assert "did you mean 'workspace.maxFiles'" in answer["warnings"][0]
    lines = run("show").splitlines()
    assert "workspace.maxFiles\t7\tenvironment CODEINDEX_MAX_FILES" in lines
    assert "workspace.maxFiles\t7" in run("show", "--no-origin").splitlines()


def test_secrets_are_never_shown(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEX_HTTP_TOKEN", "tok-hush")
    output = run("set", "providers.openai.apiKey", "sk-hush") + run(
        "set", "providers.openai.apiKey", "sk-hush2", "--json"
    )
    output += (
        run("show")
        + run("show", "--json")
        + run("get", "providers.openai.apiKey")
        + run("get", "server.httpToken", "--json")
    )
    assert "hush" not in output
    assert output.count("***") >= 6


def test_get_answers_in_any_spelling(here: Path) -> None:
    assert run("get", "workspace.max_file_size") == "1.5MB\n"
    assert run_json("get", "workspace.maxFileSize") == {
        "key": "workspace.maxFileSize",
        "value": 1_500_000,
        "origin": "default",
    }
    assert run_json("get", "agent_tier")["value"] is None
    with pytest.raises(ConfigError, match=r"did you mean 'workspace.maxFileSize'"):
        run("get", "workspace.maxFileSiez")


def test_set_writes_the_users_own_file_readable_by_them_only(here: Path) -> None:
    answer = run_json("set", "workspace.maxFiles", "30000")
    assert answer == {
        "key": "workspace.maxFiles",
        "old": None,
        "new": 30000,
        "file": str(home_file()),
        "origin": str(home_file()),
        "changedKeys": ["workspace.maxFiles"],
    }
    assert run_json("get", "workspace.maxFiles")["value"] == 30000
    assert run_json("set", "workspace.maxFiles", "30000")["changedKeys"] == []
    if os.name != "nt":
        assert stat.S_IMODE(home_file().stat().st_mode) == 0o600
    assert {path.name for path in home_file().parent.iterdir()} == {
        "config.yml",
        "cortex.db",
        "last-settings",
    }


def test_set_with_project_writes_the_projects_file(here: Path) -> None:
    run("set", "search.timeout", "500ms", "--project")
    assert (here / ".cortex" / "config.yml").read_text(
        encoding="utf-8"
    ) == "search:\n  timeout: 0.5s\n"
    assert run_json("get", "search.timeout") == {
        "key": "search.timeout",
        "value": 0.5,
        "origin": str(here / ".cortex" / "config.yml"),
    }


def test_path_chooses_the_project(here: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    run("set", "search.budget", "500", "--project", "--path", str(tmp_path / "other"))
    assert run_json("get", "search.budget", "--path", str(tmp_path / "other"))["value"] == 500
    assert run_json("get", "search.budget")["value"] == 4000
    with pytest.raises(ConfigError, match="is not a folder"):
        run("get", "search.budget", "--path", str(tmp_path / "gone"))


def test_set_keeps_comments_spelling_and_layout(here: Path) -> None:
    home_file().parent.mkdir()
    home_file().write_text(COMMENTED, encoding="utf-8")
    run("set", "workspace.maxFiles", "200")
    run("set", "search.timeout", "7s")
    expected = COMMENTED.replace("max_files: 100", "max_files: 200").replace("5s", "7s")
    assert home_file().read_text(encoding="utf-8") == expected


def test_set_keeps_a_file_that_is_only_comments(here: Path) -> None:
    home_file().parent.mkdir()
    home_file().write_text("# workspace:\n#   maxFiles: 3\n", encoding="utf-8")
    run("set", "workspace.maxFiles", "4")
    assert (
        home_file().read_text(encoding="utf-8")
        == "# workspace:\n#   maxFiles: 3\nworkspace:\n  maxFiles: 4\n"
    )


def test_set_warns_about_a_value_that_takes_precedence(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEINDEX_MAX_FILES", "7")
    assert run_json("set", "workspace.maxFiles", "8")["origin"] == "environment CODEINDEX_MAX_FILES"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("workspace.maxFils", "3"), "did you mean 'workspace.maxFiles'"),
        (("indexing.chunkSize", "3"), "from 50 to 1000"),
        (("providers.openai.apiKey", "sk", "--project"), "counts only from your own"),
        (("limits.memory.heap", "2GB", "--project"), "not raise it"),
        (
            ("workspace.maxFiles", "200000"),
            "limits.processing.max_files allows; the most is 100000",
        ),
        (
            ("workspace.maxFileSize", "6MB", "--project"),
            "limits.processing.max_file_size allows; the most is 5MB",
        ),
        (("indexing.chunkOverlap", "126"), "half of indexing.chunkSize allows; the most is 125"),
        (("server.httpToken", "t"), "CORTEX_HTTP_TOKEN"),
        (("agent_tier", "T1"), "can't be set by this command"),
    ],
)
def test_set_rejects_a_value_without_effect_and_writes_nothing(
    here: Path, arguments: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        run("set", *arguments)
    assert not home_file().exists()
    assert not (here / ".cortex").exists()


def test_project_limit_can_be_set_again_below_the_users(here: Path) -> None:
    for size in ("100MB", "200MB"):
        run("set", "limits.memory.heap", size, "--project")
        assert run("get", "limits.memory.heap") == f"{size}\n"


@pytest.mark.parametrize("text", ["workspace: [", "- a\n", "workspace: 3\n"])
def test_set_does_not_overwrite_a_file_it_cannot_understand(here: Path, text: str) -> None:
    home_file().parent.mkdir()
    home_file().write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        run("set", "workspace.maxFiles", "3")
    assert caught.value.suggestions == ("Correct that file first.",)
    assert home_file().read_text(encoding="utf-8") == text


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_set_follows_the_users_link_and_rejects_a_projects_link_that_leaves(
    here: Path, tmp_path: Path
) -> None:
    target = tmp_path / "dotfiles.yml"
    target.write_text("# mine\n", encoding="utf-8")
    home_file().parent.mkdir()
    home_file().symlink_to(target)
    run("set", "workspace.maxFiles", "3")
    assert home_file().is_symlink()
    assert "maxFiles: 3" in target.read_text(encoding="utf-8")
    (here / ".cortex").mkdir()
    (here / ".cortex" / "config.yml").symlink_to(target)
    with pytest.raises(ConfigError, match="leaves the project"):
        run("set", "workspace.maxFiles", "2", "--project")


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() == 0, reason="needs a person without all rights"
)
def test_set_says_when_the_file_cannot_be_written(here: Path) -> None:
    home_file().parent.mkdir(mode=0o500)
    with pytest.raises(FileError, match="can't be written"):
        run("set", "workspace.maxFiles", "3")


def test_show_outside_a_project_shows_the_users_own_settings(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path.home())
    assert run_json("get", "workspace.maxFiles")["value"] == 25_000
    with pytest.raises(CortexError) as caught:
        run("set", "workspace.maxFiles", "3", "--project")
    assert caught.value.code == "WORKSPACE_MISSING"


def test_every_family_key_is_readable(here: Path) -> None:
    for key in FAMILY_KEYS:
        assert run_json("get", key.name)["origin"] == "default"


def test_set_writes_a_line_to_the_operations_log(tmp_path, monkeypatch):
    from cortex.engine.store import Store
    from cortex.toolkit.terminal.settings_file import change

    monkeypatch.setenv("CORTEX_HOME", str(tmp_path / "own"))
    (tmp_path / "project" / ".git").mkdir(parents=True)
    change({"workspace.maxFiles": "500"}, project=True, path=tmp_path / "project")
    change({"providers.openai.apiKey": "sk-very-secret"}, project=False, path=tmp_path / "project")
    change({"providers.openai.apiKey": "sk-very-secret"}, project=False, path=tmp_path / "project")
    for folder, key in (
        (tmp_path / "project" / ".cortex", "workspace.maxFiles"),
        (tmp_path / "own", "providers.openai.apiKey"),
    ):
        store = Store(folder)
        (line,) = store.log.recent()
        store.close()
        assert line.what == "config"
        assert line.detail["changed"]["key"] == key  # type: ignore[index]
        assert "very-secret" not in str(line.detail)


def test_setting_changed_by_a_tool_is_shown_and_reset_by_one_command(
    isolated: Any, cortex: Any, tmp_path: Path
) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    for number in range(3):
        (root / f"a{number}.py").write_text("x = 1\n", encoding="utf-8")
    settings = load(root, environment=environment())
    with Engine(root, settings) as engine:
        engine.state.change({"workspace.maxFiles": 2}, "editor 1.2")
        engine.index()
    code, out, _ = cortex("status", "--path", root)
    assert code == 0
    for line in (
        f"project      {root}: 2 files, 2 chunks, indexed 20",
        "left out     1 over maxFiles\n",
        "made with    workspace.maxFiles = 2\n",
        "override     workspace.maxFiles = 2, set by editor 1.2 at 20",
        "note         1 file is not indexed, because workspace.maxFiles is 2 (set by the tool update_config): "
        "raise it to 3 with that tool, or exclude some files\n",
    ):
        assert line in out
    found = json.loads(cortex("doctor", root, "--json")[1])["findings"]
    assert [one["fix"] for one in found if "update_config changed them" in one["text"]] == [
        "cortex config end-override"
    ]
    code, out, _ = cortex("config", "end-override", "--path", root)
    assert (code, "no longer counts: workspace.maxFiles = 2, set by editor 1.2" in out) == (0, True)
    assert (
        json.loads(cortex("config", "end-override", "--path", root, "--json")[1])["ended"] is None
    )
    code, out, err = cortex("index", root, "--json")
    assert (code, json.loads(out)["files"], json.loads(out)["over_max_files"], err) == (0, 3, 0, "")
    project = json.loads(cortex("status", "--path", root, "--json")[1])["project"]
    assert (project["leftOut"], project["settings"], project["notes"]) == ({}, {}, [])
