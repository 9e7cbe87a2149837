"""A person's store, as commands open it: with the settings that are the person's, whatever project they are in."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from cortex.cli.show import printable, say
from cortex.errors import InputError
from cortex.library import Library
from cortex.settings import Settings, environment, load


def person_settings(profile: str | None = None) -> Settings:
    """The settings without any project's; what is wrong with them is said on stderr."""
    settings = load(None, environment=environment() | ({"CORTEX_PROFILE": profile} if profile else {}))
    for warning in settings.warnings:
        say(f"warning: {warning}", error=True)
    logging.getLogger().setLevel(settings.server.log_level.upper())
    return settings


@contextmanager
def open_library(profile: str | None = None) -> Iterator[Library]:
    """The library, for as long as a command runs."""
    library = Library(person_settings(profile))
    try:
        yield library
    finally:
        library.close()


def confirm(question: str, why: str) -> None:
    """Ask whether to go on. Raises: InputError where nobody can be asked; typer.Abort where the answer is no."""
    if not sys.stdin.isatty():
        message = f"{why}, and there is no terminal to ask on; nothing was changed"
        raise InputError("ARGUMENT_INVALID", message, suggestions=("Repeat it with --yes.",))
    print(f"{printable(question)} [y/N]: ", end="", file=sys.stderr, flush=True)  # stdout is for the answer
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Abort
