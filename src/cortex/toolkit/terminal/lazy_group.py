"""Command group that imports a command's module only when the command is named.

Importing every command takes longer than most commands. Help and completion of a group therefore
come from its table: names, one-line descriptions and sections.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True, slots=True)
class CommandRow:
    """Command or group of a table: its place as "module:attribute", and its line in the help."""

    place: str
    summary: str


Sections = Mapping[str, Mapping[str, CommandRow]]


@dataclass(frozen=True, slots=True)
class _Completion:
    """Candidate for a shell, with the fields that shells' formats read."""

    value: str
    help: str
    type: str = "plain"


class LazyGroup(TyperGroup):
    """Group with a table of commands in sections; a name may be two words.

    `mcp` takes names of families, so `mcp status` can't be a command within it.
    """

    sections: ClassVar[Sections] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.rows = {name: row for rows in self.sections.values() for name, row in rows.items()}
        self.commands = _LazyCommands(self.rows)  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = " ".join(args[:2])
        if len(args) > 1 and name in self.rows:
            return name, self.commands[name], args[2:]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.rows))
        for title, rows in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), row.summary) for name, row in rows.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        options = super().shell_complete(ctx, incomplete) if incomplete.startswith("-") else []
        return [*_completions(self.rows, incomplete), *options]


class _LazyCommands(Mapping[str, Any]):
    """Commands of a table by name, each built when it is looked up."""

    def __init__(self, rows: Mapping[str, CommandRow]) -> None:
        self._rows = rows

    def __getitem__(self, name: str) -> Any:
        start = f"{name} "
        below = {
            other.removeprefix(start): row
            for other, row in self._rows.items()
            if other.startswith(start)
        }
        return _build(name, self._rows[name].place, tuple(below.items()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


@cache
def _build(name: str, place: str, below: tuple[tuple[str, CommandRow], ...]) -> Any:
    """Import and build a command, or a group if the attribute is a Typer app.

    `below` are commands of two words that begin with this one.
    """
    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    holder = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.callback()(_no_options)
        cls = _with_second_words(below) if below else TyperCommand
        holder.command(name, cls=cls)(found)
    return typer.main.get_command(holder).commands[name]  # type: ignore[attr-defined]


def _no_options() -> None:
    """Turn a holder of a single command into a group."""


def _with_second_words(below: tuple[tuple[str, CommandRow], ...]) -> type[TyperCommand]:
    """Return a class of command that completes the second words, too."""

    class Command(TyperCommand):
        def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
            return [
                *_completions(dict(below), incomplete),
                *super().shell_complete(ctx, incomplete),
            ]

    return Command


def _completions(rows: Mapping[str, CommandRow], incomplete: str) -> list[_Completion]:
    return [
        _Completion(name, row.summary)
        for name, row in rows.items()
        if " " not in name and name.startswith(incomplete)
    ]
