"""Help of a group from its table, without an import, and commands of two words."""

from __future__ import annotations

from typing import ClassVar

import typer
from typer.testing import CliRunner

from cortex.toolkit.terminal.lazy_group import CommandRow, LazyGroup, Sections


def greet(name: str) -> None:
    print(f"hello {name}")


def part() -> None:
    print("goodbye")


class Group(LazyGroup):
    sections: ClassVar[Sections] = {
        "Words": {
            "greet": CommandRow(f"{__name__}:greet", "Greet a person."),
            "greet again": CommandRow(f"{__name__}:part", "Greet, and go."),
        },
        "Broken": {"lost": CommandRow("no_such_module:command", "Not importable.")},
    }


app = typer.Typer(cls=Group, rich_markup_mode=None)


@app.callback()
def options() -> None:
    """A program."""


def run(*arguments: str) -> str:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False).output


def test_help_lists_commands_in_their_sections_and_imports_none():
    lines = [line.split() for line in run("--help").splitlines()]
    words, broken = lines.index(["Words:"]), lines.index(["Broken:"])
    assert lines[words + 1 : words + 3] == [
        ["greet", "Greet", "a", "person."],
        ["greet", "again", "Greet,", "and", "go."],
    ]
    assert lines[broken + 1] == ["lost", "Not", "importable."]


def test_command_of_two_words_wins_over_an_argument_of_the_first():
    assert run("greet", "again") == "goodbye\n"
    assert run("greet", "Ada") == "hello Ada\n"
