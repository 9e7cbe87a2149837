"""The handbook's page on clients says what the table says.

`python tests/interfaces/install/test_clients_page.py` renews its tables.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cortex.interfaces.install.clients import CLIENTS, Places

PAGE = Path(__file__).parents[3] / "docs" / "clients.md"


def plain(template: str) -> str:
    return re.sub(
        r"\$\{APPDATA:-[^}]*\}",
        "%APPDATA%",
        re.sub(r"\$\{(?!APPDATA)\w+:-([^}]*)\}", r"\1", template),
    )


def files(places: Places) -> str:
    """One cell: what is the same everywhere once, else by system."""
    named = {"Linux": places.linux, "macOS": places.macos, "Windows": places.windows}
    shown = {
        system: " or ".join(f"`{plain(template)}`" for template in templates)
        for system, templates in named.items()
    }
    if len(set(shown.values())) == 1:
        return shown["Linux"]
    groups: dict[str, list[str]] = {}
    for system, text in shown.items():
        groups.setdefault(text, []).append(system)
    return "; ".join(f"{', '.join(systems)} {text}" for text, systems in groups.items())


def client_rows() -> list[str]:
    rows = ["| name | client | your file | a project's file | key |", "|---|---|---|---|---|"]
    for client in CLIENTS:
        project = " or ".join(f"`{name}`" for name in client.project) or "none"
        rows.append(
            f"| `{client.name}` | {client.title} | {files(client.user)} | {project} | `{client.key}` |"
        )
    return rows


def hook_rows() -> list[str]:
    rows = ["| client | your file | a project's file | moments |", "|---|---|---|---|"]
    for client in CLIENTS:
        if client.hooks:
            moments = ", ".join(client.hooks.events)
            rows.append(
                f"| {client.title} | {files(client.hooks.user)} | `{client.hooks.project}` | {moments} |"
            )
    return rows


TABLES = {"clients": client_rows, "hooks": hook_rows}


@pytest.mark.parametrize("name", TABLES)
def test_clients_page_tables_match_the_code(name: str):
    text = PAGE.read_text(encoding="utf-8")
    present = text.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
    assert present.strip().splitlines() == TABLES[name]()


def write() -> None:
    """Put the tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, render in TABLES.items():
        head, mark, rest = text.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition(f"<!-- end of {name} -->")
        text = head + mark + "\n".join(render()) + "\n" + end + tail
    PAGE.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write()
