"""`cortex hook`: the command as the command line knows it; what it does is in daemon/hook.py, which
is reached without all this.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from cortex.toolkit.terminal.options import ProfileOption


class Event(StrEnum):
    """When a client calls."""

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
