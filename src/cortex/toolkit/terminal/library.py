"""The user's library as commands open it, with the user's settings and no project's."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cortex.base.errors import CortexError, InputError
from cortex.base.settings import Settings, environment, load
from cortex.engine.library import Library
from cortex.plugins.policy import plugin_warnings
from cortex.toolkit.terminal.output import ask, decline, say

# Time between two checks for writes of other processes.
LOOK_SECONDS = 0.25
# Pause after catching up, as a multiple of its time, so that the command isn't slowed down.
REST = 10
# Time until the next attempt after the indexes could not be updated.
RETRY_SECONDS = 5.0
# Time limit of the daily snapshot; one that takes longer is tried again after an hour.
BACK_UP_SECONDS = 60.0
# Time that a catch-up under way has when a command ends.
END_SECONDS = 5.0


def person_settings(profile: str | None = None) -> Settings:
    """Load the settings without any project's, print their warnings and set the log level."""
    settings = settings_of(profile)
    for warning in settings.warnings:
        say(f"warning: {warning}", error=True)
    logging.getLogger().setLevel(settings.server.log_level.upper())
    return settings


def settings_of(profile: str | None) -> Settings:
    """Load the user's settings, or those of a profile."""
    return load(None, environment=environment() | ({"CORTEX_PROFILE": profile} if profile else {}))


@contextmanager
def open_library(profile: str | None = None) -> Iterator[Library]:
    """Open the library for the duration of a command."""
    library, ended = Library(person_settings(profile)), threading.Event()
    follower = threading.Thread(
        target=_follow_others, args=(library, ended), name="follow others", daemon=True
    )
    follower.start()
    try:
        with plugin_warnings() as warnings:
            yield library
        for warning in warnings:
            say(f"note: {warning}", error=True)
    finally:
        ended.set()
        follower.join(END_SECONDS)
        library.back_up(BACK_UP_SECONDS)
        library.close()


def _follow_others(library: Library, ended: threading.Event) -> None:
    """Index writes of other processes while this command holds the lease: they wait for that."""
    pause = LOOK_SECONDS
    while not ended.wait(pause):
        started = time.monotonic()
        try:
            # An indexing run catches up by itself.
            if library.store.lease.held and not library.running:
                library.catch_up()
            pause = max(LOOK_SECONDS, REST * (time.monotonic() - started))
        # The writing process gets the error.
        except CortexError:
            pause = RETRY_SECONDS


def confirm(question: str, why: str) -> None:
    """Ask for confirmation.

    Raises: InputError where there is no terminal to ask on; typer.Exit where the answer is no.
    """
    if not sys.stdin.isatty():
        message = f"{why}, and there is no terminal to ask on; nothing was changed"
        raise InputError("ARGUMENT_INVALID", message, suggestions=("Repeat it with --yes.",))
    if not ask(question):
        decline()
