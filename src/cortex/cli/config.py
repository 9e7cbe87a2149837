"""`cortex config show|get|set`: every setting, its value and where it came from; and changing one in a file with comments kept.

Knows argv, tables and exit codes; what settings mean is in `cortex.settings`. Every change is a line in the operations log. There is no `unset`: removing a line from a file is an editor's work. What a tool changed is in no file: `end-override` ends that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cortex.cli.options import JsonFlag
from cortex.cli.show import print_json, printable, say
from cortex.errors import ConfigError, StoreError
from cortex.settings import (
    FAMILY_KEYS,
    KEYS,
    Key,
    Settings,
    environment,
    find_workspaces,
    known_key,
    load,
    read_override,
    read_setting,
    write_setting,
)

if TYPE_CHECKING:
    from cortex.store import Store

app = typer.Typer(name="config", help="Show and change settings.", no_args_is_help=True)

PathOption = Annotated[
    Path | None,
    typer.Option("--path", metavar="PATH", help="The project whose files count; default: the one around here."),
]


@dataclass(frozen=True, slots=True)
class Change:
    """What a `set` did."""

    key: Key
    file: Path
    old: object
    new: object
    origin: str  # where the value that counts now comes from

    @property
    def changed_keys(self) -> tuple[str, ...]:
        """The keys whose value in the file is new."""
        return (self.key.name,) if self.old != self.new else ()


@app.command()
def show(
    origin: Annotated[bool, typer.Option("--origin/--no-origin", help="Say where each value came from.")] = True,
    path: PathOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show every setting with its value and where it came from."""
    settings = load_settings(path)
    if as_json:
        shown = {name: {"value": value, "origin": settings.origin(name)} for name, value, _ in _rows(settings)}
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
        bool, typer.Option("--project", help="Write the project's .cortex/config.yml, not your own file.")
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
    from cortex.indexsettings import OVERRIDE

    settings = load_settings(path)
    if settings.root is None:
        raise ConfigError("WORKSPACE_MISSING", "there is no project here; name one with --path")
    with _open_store(settings.home, settings.root) as store:
        ended = read_override(store.truth.get(OVERRIDE))
        if ended is not None:
            store.truth.set({OVERRIDE: ""})
            store.log.record("config", {"ended": dict(ended.settings)})
    if as_json:
        print_json({"project": str(settings.root), "ended": asdict(ended) if ended else None})
    elif ended is None:
        say(f"{settings.root}: no tool changed any setting")
    else:
        say(f"{settings.root}: no longer counts: {ended.in_words()}")


def say_change(done: Change) -> None:
    """Say what was written, and what counts all the same."""
    say(f"{done.key.name} = {done.key.show(done.new)} in {done.file}")
    if done.origin != str(done.file):
        say(f"note: {done.origin} still counts before this file", error=True)


def change(values: Mapping[str, object], *, project: bool, path: Path | None) -> list[Change]:
    """Check settings, then write them: all or none.

    Raises: ConfigError, if a key is unknown, a value isn't allowed, or it would not count where it is written.
    """
    settings = load_settings(path)
    if project and settings.root is None:
        raise ConfigError("WORKSPACE_MISSING", "there is no project here; name one with --path")
    root = settings.root if project else None
    file = root / ".cortex" / "config.yml" if root else settings.home / "config.yml"
    own = load(None, environment=environment())
    keys = [(_settable(name, settings.home), value) for name, value in values.items()]
    checked = [(key, own.check(key, value, project=root)) for key, value in keys]
    changes = []
    for key, new in checked:
        old = read_setting(file, key)
        write_setting(file, key, new, private=not project, within=root)
        changes.append(done := Change(key, file, old, new, load_settings(path).origin(key.name)))
        if done.changed_keys:
            _record(done, settings.home, root)
    return changes


def _settable(name: str, home: Path) -> Key:
    key = known_key(name)
    if not isinstance(key, Key):
        file = home / "config.yml"
        raise ConfigError(
            "CONFIG_INVALID", f"{key.name} can't be set by this command", instead=(f"Write it into {file}.",)
        )
    return key


def _record(done: Change, home: Path, root: Path | None) -> None:
    """A line in the operations log: the project's, or the person's own."""
    # The setting counts; every command that needs the database says what is wrong with it.
    with suppress(StoreError), _open_store(home, root) as store:
        detail = {"key": done.key.name, "new": done.key.reveal(done.new), "file": str(done.file)}
        store.log.record("config", {"changed": detail})


@contextmanager
def _open_store(home: Path, root: Path | None) -> Iterator[Store]:
    """The store of a project, or the person's own."""
    from cortex.paths import ensure_store_dir
    from cortex.store import Store, check_present
    from cortex.storefolder import find_store

    folder = find_store(root, home) if root else home
    if root is None:
        check_present(folder)
    ensure_store_dir(folder)
    store = Store(folder)
    try:
        yield store
    finally:
        store.close()


def load_settings(path: Path | None) -> Settings:
    """The settings that count at `path` or here; where no project is, those that count without one."""
    variables = environment()
    if path is not None and not path.is_dir():
        raise ConfigError("WORKSPACE_UNKNOWN", f"{str(path)!r} is not a folder", suggestions=("Correct --path.",))
    if path is not None:
        return load(path.resolve(), environment=variables)
    bare = load(None, environment=variables)
    try:
        return find_workspaces(bare, cwd=Path.cwd(), environment=variables)[0].settings
    except ConfigError as error:
        if error.code not in ("WORKSPACE_MISSING", "WORKSPACE_UNKNOWN"):
            raise
        return bare


def _rows(settings: Settings) -> list[tuple[str, object, str]]:
    """Name, value for JSON and value for people; of other families only the keys that are set."""
    rows = [(key.name, key.reveal(settings.value(key.name)), key.show(settings.value(key.name))) for key in KEYS]
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
        "key", "value", *(["origin"] if len(rows[0]) > 2 else []), box=None, header_style="bold", pad_edge=False
    )
    for row in rows:
        table.add_row(
            *(Text(printable(cell), style="dim" if row[-1] == "default" else "", overflow="fold") for cell in row)
        )
    Console().print(table)


def _print_warnings(settings: Settings) -> None:
    for warning in settings.warnings:
        say(f"warning: {warning}", error=True)
