"""The page on plugins is true: its example is a plugin that works, and its table has the
permissions that there are.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from cortex.base.settings import load
from cortex.plugins import Plugins, ProcessLimits, Subject, enabled_by
from cortex.plugins.api import CATEGORIES, HOOKS, PERMISSIONS

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
PATIENT = ProcessLimits(answer_seconds=30, event_seconds=30, start_seconds=30)


def block(name: str) -> str:
    (found,) = re.findall(rf"<!-- {name} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    return found


def test_example_of_the_page_is_a_working_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads(block("plugin entry point"))["project"]
    ((name, target),) = project["entry-points"]["cortex.plugins"].items()
    (tmp_path / f"{target.partition(':')[0]}.py").write_text(
        block("plugin example"), encoding="utf-8"
    )
    about = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Name: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    (about / "entry_points.txt").write_text(
        f"[cortex.plugins]\n{name} = {target}\n", encoding="utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "config.yml").write_text(block("plugin settings"), encoding="utf-8")
    settings = load(tmp_path, environment={"CORTEX_HOME": str(tmp_path)})
    assert settings.warnings == ()
    enabled = enabled_by(settings.team.plugins, settings.families.get("plugins"))
    assert enabled["git"] == {"commits": 10}
    with Plugins(enabled, tmp_path, PATIENT) as plugins:
        assert plugins.names() == ("git", "tickets")
        ((section,), warnings) = plugins.enrich(Subject("code", path="lamp.py"))
        assert (section.plugin, section.lines[0].text, warnings) == (
            "tickets",
            "lamp.py belongs to SHOP-7",
            [],
        )
        screening = plugins.preflight("ask build.corp")
        assert screening.text == "ask [redacted: internal host]"
        assert screening.warnings == ("plugin tickets: an internal host was left out",)
        assert (
            plugins.preflight("TOP SECRET").reason
            == "the plugin tickets refuses it: it is marked as top secret"
        )
        assert [observation.tags for observation in plugins.start()[0]] == [("sprint",)]


def test_page_names_every_permission_category_and_hook() -> None:
    table = PAGE.partition("<!-- plugin permissions -->")[2].partition(
        "<!-- end of plugin permissions -->"
    )[0]
    rows = [f"| `{name}` | {meaning} |" for name, meaning in PERMISSIONS.items()]
    assert table.strip().splitlines()[2:] == rows
    assert [name for name in (*CATEGORIES, *HOOKS) if f"`{name}`" not in PAGE] == []


def test_page_names_the_real_time_limits() -> None:
    limits = ProcessLimits()
    assert (
        f"have {limits.answer_seconds:g} seconds, the other hooks {limits.event_seconds:g}, loading {limits.start_seconds:g}"
        in PAGE
    )
