"""Whether the code that a memory speaks of has changed since: what an answer says beside it."""

from __future__ import annotations

from pathlib import Path

from cortex.errors import CortexError
from cortex.library import Library
from cortex.memories.citing import check, look
from cortex.store import Remembered

MAX_CHECKED = 5  # citations of one memory in an answer


def changes_of(library: Library, one: Remembered, *, parse: bool = True) -> tuple[str, ...]:
    """What changed in the files and symbols that a memory cites, one line each; nothing where that can't be known.

    Without `parse` only whether the files did: the first look into one takes a third of a second.
    """
    found = []
    for citation in library.store.remembered.citations(one.id)[:MAX_CHECKED]:
        try:
            found.append(check(citation, library.view_in(Path(citation.root))) if parse else look(citation))
        except CortexError:
            continue
    return tuple(filter(None, found))
