"""A person's store, as commands open it: with the settings that are the person's, whatever project
they are in.
"""

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

LOOK_SECONDS = 0.25  # between two looks at what others wrote
REST = 10  # times as long as following took: the command is to get on
RETRY_SECONDS = 5.0  # after the indexes could not follow
# For the snapshot of a day; one that takes longer is tried again after an hour
BACK_UP_SECONDS = 60.0
END_SECONDS = 5.0  # for following that is under way when a command ends


def person_settings(profile: str | None = None) -> Settings:
    """The settings without any project's; what is wrong with them is said on stderr."""
    settings = settings_of(profile)
    for warning in settings.warnings:
        say(f"warning: {warning}", error=True)
    logging.getLogger().setLevel(settings.server.log_level.upper())
    return settings


def settings_of(profile: str | None) -> Settings:
    """Load the person's settings, or those of a profile."""
    return load(None, environment=environment() | ({"CORTEX_PROFILE": profile} if profile else {}))


@contextmanager
def open_library(profile: str | None = None) -> Iterator[Library]:
    """The library, for as long as a command runs."""
    library, ended = Library(person_settings(profile)), threading.Event()
    following = threading.Thread(
        target=_follow_others, args=(library, ended), name="follow others", daemon=True
    )
    following.start()
    try:
        with plugin_warnings() as warnings:
            yield library
        for warning in warnings:
            say(f"note: {warning}", error=True)
    finally:
        ended.set()
        following.join(END_SECONDS)
        library.back_up(BACK_UP_SECONDS)
        library.close()


def _follow_others(library: Library, ended: threading.Event) -> None:
    """Where a command holds the lease, however long, have found what other processes write
    meanwhile: they wait for that.
    """
    pause = LOOK_SECONDS
    while not ended.wait(pause):
        started = time.monotonic()
        try:
            if library.store.lease.held and not library.running:  # a run follows by itself
                library.catch_up()
            pause = max(LOOK_SECONDS, REST * (time.monotonic() - started))
        except CortexError:  # whoever wrote is told
            pause = RETRY_SECONDS


def confirm(question: str, why: str) -> None:
    """Ask whether to go on.

    Raises: InputError where nobody can be asked; typer.Exit where the answer is no.
    """
    if not sys.stdin.isatty():
        message = f"{why}, and there is no terminal to ask on; nothing was changed"
        raise InputError("ARGUMENT_INVALID", message, suggestions=("Repeat it with --yes.",))
    if not ask(question):
        decline()
