"""Detect changes in the code that a memory cites, to mark it as possibly stale in answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.engine.citations import check, look
from cortex.engine.library import Library
from cortex.engine.store import Remembered

# Citations of one memory that are checked for an answer.
MAX_CHECKED = 5
# Time that an answer spends reading files; the first read of a file takes a third of it.
LOOK_SECONDS = 1.0


def changes_in(
    library: Library, seconds: float = LOOK_SECONDS
) -> Callable[[Remembered], tuple[str, ...]]:
    """Return a function that lists the changes in the files and symbols that a memory cites.

    It returns one line for each change, and nothing where the state is unknown. After `seconds`,
    files are only compared by their state: that they changed is reported, but not what changed in
    them.
    """
    deadline = time.monotonic() + seconds

    def changes_of(record: Remembered) -> tuple[str, ...]:
        changes = []
        for citation in library.store.memories.citations(record.id)[:MAX_CHECKED]:
            is_late = time.monotonic() >= deadline
            try:
                view = None if is_late else library.view_in(Path(citation.root))
                changes.append(check(citation, view) if view else look(citation))
            except CortexError:
                continue
        return tuple(filter(None, changes))

    return changes_of
