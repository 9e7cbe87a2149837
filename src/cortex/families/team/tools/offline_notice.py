"""Warnings about synchronization: writes that the team doesn't see yet, or never will."""

from __future__ import annotations

from cortex.engine.library import Library
from cortex.families.team.sync.state import ERROR, URL


def sync_warnings(library: Library) -> list[str]:
    """Return warnings about writes that wait for the Core or were rejected; none without a Core."""
    get = library.store.content.get
    if not get(URL):
        return []
    waiting, refused = library.store.outbox.count()
    why = f" ({error})" if (error := get(ERROR)) else ""
    warnings = (
        [f"{_writes(waiting)} for the Core{why}: others don't see that yet"] if waiting else []
    )
    if refused:
        warnings.append(
            f"the Core refused {refused} write{_s(refused)}; a person sees why: `cortex inbox`"
        )
    return warnings


def _writes(count: int) -> str:
    """Format a number of waiting writes."""
    return f"{count} write{_s(count)} wait{'s' if count == 1 else ''}"


def _s(count: int) -> str:
    """Return the plural ending."""
    return "" if count == 1 else "s"
