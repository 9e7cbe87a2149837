"""What an agent should know of the team's Core: that others don't see yet what was written, or
never will.
"""

from __future__ import annotations

from cortex.engine.library import Library
from cortex.families.team.sync.state import ERROR, URL


def sync_warnings(library: Library) -> list[str]:
    """What waits for the Core, and what it refused; nothing where the home has none."""
    told = library.store.truth.get
    if not told(URL):
        return []
    waiting, refused = library.store.outbox.count()
    why = f" ({error})" if (error := told(ERROR)) else ""
    found = [f"{_writes(waiting)} for the Core{why}: others don't see that yet"] if waiting else []
    if refused:
        found.append(
            f"the Core refused {refused} write{_s(refused)}; a person sees why: `cortex inbox`"
        )
    return found


def _writes(count: int) -> str:
    return f"{count} write{_s(count)} wait{'s' if count == 1 else ''}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
