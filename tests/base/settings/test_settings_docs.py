"""The settings page has the keys, defaults, ranges, variables and trust of the code."""

from __future__ import annotations

import re
from pathlib import Path

from cortex.base.runtime.home import (
    COMMAND_VARIABLES,
    OTHER_VARIABLES,
    SETTING_VARIABLES,
    own_variables,
)
from cortex.base.settings import FAMILY_KEYS, KEYS, Key
from cortex.base.settings.load import PROJECT_FILES

SOURCE = Path(__file__).parents[3] / "src" / "cortex"
# Read in the settings package itself.
READ_BY_SETTINGS = {
    "workspace.paths",
    "limits.processing.max_files",
    "limits.processing.max_file_size",
    "server.enableTelemetry",
    "paths.ignore",
    "embedding.allowed_projects",
}
# No answer is cached on disk
WITHOUT_EFFECT = {"limits.disk.cache"}
PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_settings_page_has_the_row_of_every_setting() -> None:
    assert rows_between("settings") == render_settings(), (
        "put this into docs/settings.md:\n" + "\n".join(render_settings())
    )


def test_settings_page_has_the_row_of_every_family_key() -> None:
    assert rows_between("families") == render_families(), (
        "put this into docs/settings.md:\n" + "\n".join(render_families())
    )


def test_settings_page_names_the_settings_of_an_index() -> None:
    assert rows_between("index settings") == [
        ", ".join(f"`{key.name}`" for key in KEYS if key.index)
    ]


def test_settings_page_names_every_variable_and_file() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = (
        *SETTING_VARIABLES,
        *OTHER_VARIABLES,
        *COMMAND_VARIABLES,
        *PROJECT_FILES,
        "conduit.yaml",
    )
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_listed_variable_belongs_to_a_setting() -> None:
    assert set(SETTING_VARIABLES.values()) <= {key.name for key in KEYS}


def test_front_end_forwards_every_variable_of_a_setting_to_cortexd() -> None:
    names = [*(variable for key in KEYS for variable in key.variables), *OTHER_VARIABLES]
    assert own_variables(dict.fromkeys([*names, "PATH", *COMMAND_VARIABLES], "1")) == dict.fromkeys(
        names, "1"
    )


def test_setting_is_described_as_without_effect_exactly_if_unread() -> None:
    """A setting counts as read if a line outside of the settings has its group and name."""
    source = "\n".join(
        file.read_text(encoding="utf-8")
        for file in SOURCE.rglob("*.py")
        if file.parent.name != "settings"
    )
    named = set(re.findall(r"\b(\w+)\.(?=(\w+))", source))
    for key in KEYS:
        group, name = key.attribute[-2:]
        read = bool(named & {(group, name), ("sizes", name), ("limits", name)})
        elsewhere = key.name in READ_BY_SETTINGS | WITHOUT_EFFECT
        assert ("No effect yet" in key.description) is not (read or elsewhere), key.name


def render_settings() -> list[str]:
    lines = [
        "| key | default | allowed | variables | from a project's files | meaning |",
        "|---|---|---|---|---|---|",
    ]
    return lines + [render(key) for key in KEYS]


def render(key: Key) -> str:
    default = f"`{key.show(key.default)}`" if key.default != "" else "empty"
    variables = ", ".join(f"`{variable}`" for variable in key.variables)
    return f"| `{key.name}` | {default} | {key.allowed} | {variables} | {key.trust} | {key.description} |"


def render_families() -> list[str]:
    rows = [f"| `{key.name}` | {key.trust} | {key.description} |" for key in FAMILY_KEYS]
    return ["| key | from a project's files | meaning |", "|---|---|---|", *rows]


def rows_between(name: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    inside = text.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
    return inside.strip().splitlines()
