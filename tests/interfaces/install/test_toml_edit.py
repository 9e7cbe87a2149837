"""Splicing one table into TOML."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from cortex.interfaces.install import toml_edit
from cortex.interfaces.install.jsonc_edit import Broken
from interfaces.install.documents import toml_documents

PATH = ("mcp_servers", "cortex")
VALUES = {"command": 'C:\\tools\\"x"\\cortex.exe', "args": ["mcp", "é\n"]}


def meaning(text: str) -> dict[str, object]:
    return tomllib.loads(text.removeprefix("\ufeff"))


def with_line_end(text: str) -> str:
    """The text as an install and an uninstall leave it: its last line is ended."""
    if text.removeprefix("\ufeff") and not text.endswith("\n"):
        return text + ("\r\n" if "\r\n" in text else "\n")
    return text


@given(toml_documents())
def test_put_and_cut_restores_the_toml_document(text: str):
    before = meaning(text)
    changed = toml_edit.put_table(text, PATH, VALUES)
    assert meaning(changed)["mcp_servers"]["cortex"] == VALUES
    assert changed.startswith(text)
    gone = toml_edit.remove_table(changed, PATH)
    assert meaning(gone) == before
    assert gone == with_line_end(text)


@example("", "", "\n")
@given(toml_documents(), toml_documents(), st.sampled_from(["", "# above\n", "\n", "above = 1\n"]))
def test_later_edits_around_our_table_stay_byte_for_byte(text: str, other: str, above: str):
    """Edited after the install: lines at the top, tables and comments directly below ours."""
    end = "\r\n" if "\r\n" in text else "\n"
    _, heading, tables = (
        other.removeprefix("\ufeff").replace("\r\n", "\n").partition("[[profiles]]")
    )
    below = f"[below]\nweb_search = true\n{heading.replace('profiles', 'added')}{tables}".replace(
        "\n", end
    )
    above = above.replace("\n", end)
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    edited = mark + above + toml_edit.put_table(text, PATH, VALUES).removeprefix(mark) + below
    try:
        meaning(edited)
    except tomllib.TOMLDecodeError:
        assume(False)
    assert (
        toml_edit.remove_table(edited, PATH)
        == mark + above + with_line_end(text).removeprefix(mark) + below
    )


def test_the_heading_below_the_table_stays_on_a_line_of_its_own():
    ours = '[mcp_servers.cortex]\ncommand = "c"\n'
    for line in ("# --- servers ---", "x = 1"):
        text = f"{line}\n\n{ours}[tools]\nweb_search = true\n"
        assert toml_edit.remove_table(text, PATH) == f"{line}\n[tools]\nweb_search = true\n"


@given(toml_documents())
def test_table_in_the_middle_is_removed_with_its_subtables(text: str):
    ours = (
        '\n[mcp_servers.cortex]\ncommand = "c"\n# about it\n\n[mcp_servers.cortex.env]\nA = "b"\n'
    )
    later = "\n[later]\nx = 1\n"
    both = text + ours + later
    assert meaning(toml_edit.remove_table(both, PATH)) == meaning(text + later)


def test_values_of_an_existing_table_are_changed_in_place():
    text = (
        '[mcp_servers.cortex]\nargs = [\n  "mcp", # why\n] # end\nstartup_timeout_sec = 5\n\n[x]\n'
    )
    changed = toml_edit.put_table(text, PATH, {"command": "c", "args": ["mcp", "code"]})
    assert changed == (
        '[mcp_servers.cortex]\ncommand = "c"\nargs = ["mcp", "code"] # end\nstartup_timeout_sec = 5\n\n[x]\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = {}\n",
        'mcp_servers = { a = { command = "x" } }\n',
        "[[mcp_servers]]\n",
        "mcp_servers = 1\n",
    ],
)
def test_toml_form_without_room_for_a_table_is_an_error(text: str):
    with pytest.raises(Broken, match="can't be"):
        toml_edit.put_table(text, PATH, VALUES)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a = \n", 1, 5),
        ("a = 1\nb = [1\n", 3, 1),
        ("x = 1\n\n[t\ny = 1\n", 3, 3),
        ("a = 1 2", 1, 7),
    ],
)
def test_broken_document_error_names_line_and_column(text: str, line: int, column: int):
    with pytest.raises(Broken) as raised:
        toml_edit.put_table(text, PATH, VALUES)
    assert (raised.value.line, raised.value.column) == (line, column)


@pytest.mark.parametrize(
    "text",
    [
        '[mcp_servers]\ncortex = { command = "c", args = ["mcp"] }\nb = { command = "d" }\n',
        '[mcp_servers]\ncortex.command = "c"\ncortex.args = ["mcp"]\nb = { command = "d" }\n',
        'mcp_servers.cortex.command = "c"\n[mcp_servers.b]\ncommand = "d"\n',
    ],
)
def test_an_entry_in_another_form_is_removed_too(text: str):
    assert meaning(toml_edit.remove_table(text, PATH)) == {"mcp_servers": {"b": {"command": "d"}}}
