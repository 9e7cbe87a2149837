"""`cortex config show|get|set`: settings, their values and origins, and changes in a file.

Knows arguments, tables and exit codes; `cortex.base.settings` defines the settings. A change keeps
the comments of the file and is logged in the operations log. There is no `unset`: removing a line
is an editor's work. Changes by a tool are in no file: `end-override` ends those.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cortex.base.errors import ConfigError
from cortex.base.settings import FAMILY_KEYS, KEYS, Key, Settings, known_key, read_override
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, printable, say
from cortex.toolkit.terminal.settings_file import (
    change,
    load_settings,
    open_settings_store,
    say_change,
)

if TYPE_CHECKING:
    pass

app = typer.Typer(name="config", help="Show and change settings.", no_args_is_help=True)

PathOption = Annotated[
    Path | None,
    typer.Option(
        "--path",
        metavar="PATH",
        help="The project to use the settings of; default: the one around here.",
    ),
]


@app.command()
def show(
    origin: Annotated[
        bool, typer.Option("--origin/--no-origin", help="Say where each value came from.")
    ] = True,
    path: PathOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show every setting with its value and where it came from."""
    settings = load_settings(path)
    if as_json:
        shown = {
            name: {"value": value, "origin": settings.origin(name)}
            for name, value, _ in _rows(settings)
        }
        print_json({"settings": shown, "warnings": list(settings.warnings)})
        return
    rows = [(name, text, settings.origin(name)) for name, _, text in _rows(settings)]
    _print_rows([row if origin else row[:2] for row in rows])
    _print_warnings(settings)


@app.command()
def get(
    key: Annotated[str, typer.Argument(help="A setting's name, such as workspace.maxFiles.")],
    path: PathOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show one setting."""
    settings = load_settings(path)
    known, value = known_key(key), settings.value(key)
    revealed = known.reveal(value) if isinstance(known, Key) else value
    if as_json:
        print_json({"key": known.name, "value": revealed, "origin": settings.origin(key)})
    else:
        say(known.show(value) if isinstance(known, Key) else json.dumps(value, default=str))
        _print_warnings(settings)


@app.command("set")
def set_value(
    key: Annotated[str, typer.Argument(help="A setting's name, such as workspace.maxFiles.")],
    value: Annotated[str, typer.Argument(help="Its new value; a list as a,b or as JSON.")],
    project: Annotated[
        bool,
        typer.Option(
            "--project", help="Write the project's .cortex/config.yml, not your own file."
        ),
    ] = False,
    path: PathOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Set one setting in your own file, or in the project's."""
    (done,) = change({key: value}, project=project, path=path)
    known = done.key
    if as_json:
        print_json(
            {
                "key": known.name,
                "old": known.reveal(done.old),
                "new": known.reveal(done.new),
                "file": str(done.file),
                "origin": done.origin,
                "changedKeys": list(done.changed_keys),
            }
        )
        return
    say_change(done)


@app.command("end-override")
def end_override(path: PathOption = None, as_json: JsonFlag = False) -> None:
    """End what the tool update_config changed for a project: from then on its files count again."""
    from cortex.engine.index_settings import OVERRIDE

    settings = load_settings(path)
    if settings.root is None:
        raise ConfigError("WORKSPACE_MISSING", "there is no project here; name one with --path")
    with open_settings_store(settings.home, settings.root) as store:
        ended = read_override(store.content.get(OVERRIDE))
        if ended is not None:
            store.content.set({OVERRIDE: ""})
            store.log.record("config", {"ended": dict(ended.settings)})
    if as_json:
        print_json({"project": str(settings.root), "ended": asdict(ended) if ended else None})
    elif ended is None:
        say(f"{settings.root}: no tool changed any setting")
    else:
        say(f"{settings.root}: no longer counts: {ended.in_words()}")


def _rows(settings: Settings) -> list[tuple[str, object, str]]:
    """Return name, JSON value and display value; of other families only the keys that are set."""
    rows = [
        (key.name, key.reveal(settings.value(key.name)), key.show(settings.value(key.name)))
        for key in KEYS
    ]
    for key in FAMILY_KEYS:
        value = settings.value(key.name)
        if value is not None:
            rows.append((key.name, value, json.dumps(value, ensure_ascii=True, default=str)))
    return rows


def _print_rows(rows: list[tuple[str, ...]]) -> None:
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(map(printable, row)))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        "key",
        "value",
        *(["origin"] if len(rows[0]) > 2 else []),
        box=None,
        header_style="bold",
        pad_edge=False,
    )
    for row in rows:
        table.add_row(
            *(
                Text(printable(cell), style="dim" if row[-1] == "default" else "", overflow="fold")
                for cell in row
            )
        )
    Console().print(table)


def _print_warnings(settings: Settings) -> None:
    for warning in settings.warnings:
        say(f"warning: {warning}", error=True)
