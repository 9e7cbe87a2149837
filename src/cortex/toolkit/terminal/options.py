"""Options that several commands share, and the check of a profile's name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import InputError
from cortex.base.runtime.home import profile_names
from cortex.base.settings import environment, find_home
from cortex.toolkit.terminal.output import say

# Commands that create a profile.
BEGIN = ("connect", "install", "start")
# Commands that programs call must not fail because of a missing profile; `core` and `profile`
# report it themselves.
UNCHECKED = ("core", "hook", "mcp", "models serve", "profile", "uninstall")


def check_profile(context: typer.Context, name: str | None) -> str | None:
    """Return the named profile, if it exists or the command creates it.

    A misspelt name must not become an empty home.

    Raises: InputError, where it doesn't exist; ConfigError for an invalid name.
    """
    root = context.find_root()
    command = root.invoked_subcommand
    if not name or command is None or {command, _two_words(root.obj, command)} & set(UNCHECKED):
        return name
    variables = environment()
    if find_home({**variables, "CORTEX_PROFILE": name}, Path.home()).is_dir():
        return name
    if command in BEGIN:
        say(f"note: {name!r} is a new profile", error=True)
        return name
    known = profile_names(str(find_home({**variables, "CORTEX_PROFILE": ""}, Path.home())))
    raise InputError(
        "ARGUMENT_INVALID",
        f"there is no profile {name!r}" + (f"; there are: {', '.join(known)}" if known else " yet"),
        instead=(
            f"Begin it with `cortex profile create {name}`, or with `cortex --profile {name} "
            "connect URL`.",
        ),
    )


def _two_words(arguments: Sequence[str] | None, command: str) -> str:
    """Return the command with the argument after it, such as "models serve"."""
    given = list(arguments or ())
    following = given[given.index(command) + 1 :] if command in given else []
    return " ".join([command, *following[:1]])


ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="A home of its own with this name, and its own cortexd.",
        callback=check_profile,
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Answer as JSON.")]


def read_text(typed: str) -> str:
    """Return a typed text, or the content of stdin where it is "-".

    Raises: InputError ARGUMENT_INVALID.
    """
    if typed != "-":
        return typed
    stream = typer.get_text_stream("stdin", encoding="utf-8", errors="strict")
    try:
        return stream.read().strip()
    except UnicodeDecodeError:
        raise InputError("ARGUMENT_INVALID", "stdin is not UTF-8 text") from None
