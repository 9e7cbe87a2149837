"""`cortex hook`: the command line of hooks; daemon/hook.py implements it and starts faster."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from cortex.toolkit.terminal.options import ProfileOption


class Event(StrEnum):
    """Event of a client's session."""

    SESSION_START = "session-start"
    STOP = "stop"
    PRE_COMPACT = "pre-compact"


def hook(
    event: Annotated[
        Event, typer.Argument(metavar="EVENT", help="session-start, stop or pre-compact.")
    ],
    profile: ProfileOption = None,
) -> int:
    """What clients run at the events of a session; reads JSON, never fails."""
    from cortex.interfaces.daemon.hook import main

    return main([event, *(("--profile", profile) if profile else ())])
