"""Sets of options: Typer sees each option, the command gets the set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from cortex.toolkit.terminal.option_sets import option, with_option_sets


@dataclass(frozen=True, slots=True)
class Where:
    """Options that say where."""

    place: Annotated[str, option("--place NAME", "The place.")] = "here"
    floors: Annotated[list[int] | None, option("--floor -f N", "The floors.", min=1)] = None


app = typer.Typer()


@app.command()
@with_option_sets
def go(
    *,
    who: Annotated[str, typer.Argument(metavar="WHO")],
    where: Where,
    fast: Annotated[bool, typer.Option("--fast")] = False,
) -> int:
    """Go there."""
    print(who, where, fast)
    return 0


def test_a_command_gets_the_options_of_a_set_as_one_value():
    done = CliRunner().invoke(app, ["ada", "--place", "home", "-f", "1", "--floor", "2", "--fast"])
    assert done.output.strip() == f"ada {Where('home', [1, 2])} True"


def test_omitted_options_have_the_defaults_of_the_set():
    assert CliRunner().invoke(app, ["ada"]).output.strip() == f"ada {Where()} False"


def test_limits_of_an_option_are_checked():
    assert CliRunner().invoke(app, ["ada", "--floor", "0"]).exit_code == 2


def test_help_lists_the_options_where_the_set_stands_among_the_parameters():
    text = CliRunner().invoke(app, ["--help"]).output
    assert "Go there." in text and "NAME" in text
    assert text.index("--place") < text.index("--floor") < text.index("--fast")
