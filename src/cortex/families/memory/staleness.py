"""Whether the code that a memory speaks of has changed since: what an answer says beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.engine.citations import check, look
from cortex.engine.library import Library
from cortex.engine.store import Remembered

MAX_CHECKED = 5  # citations of one memory in an answer
# For which an answer looks into files: the first look into one takes a third of that
LOOK_SECONDS = 1.0


def changes_in(
    library: Library, seconds: float = LOOK_SECONDS
) -> Callable[[Remembered], tuple[str, ...]]:
    """How to tell what changed in the files and symbols that a memory cites, one line each; nothing
    where that can't be known.

    From so many seconds on files are only glanced at: that they changed is told, not what in them.
    """
    until = time.monotonic() + seconds

    def changes_of(one: Remembered) -> tuple[str, ...]:
        found = []
        for citation in library.store.remembered.citations(one.id)[:MAX_CHECKED]:
            late = time.monotonic() >= until
            try:
                found.append(
                    look(citation)
                    if late
                    else check(citation, library.view_in(Path(citation.root)))
                )
            except CortexError:
                continue
        return tuple(filter(None, found))

    return changes_of
