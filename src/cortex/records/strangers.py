"""People whom a record names and nobody here knows: a typo in an assignee or a mention is a person who never hears of it.

Known are the person and their agents, whoever wrote something that is here, and stewards. A name that somebody else was only assigned by
is not known for that: it may be the same typo. Only reads.
"""

from __future__ import annotations

import difflib
from typing import Any

from cortex.kinds import Body
from cortex.library import Library
from cortex.records.noticing import mentioned, own_names, person_of
from cortex.records.rights import AGENT, PERSON

LEAST_ALIKE = 0.5
MOST_TOLD = 5


def strangers_in(library: Library, body: Body) -> list[str]:
    """What to say of each name in a body that nobody here has, with the nearest that somebody has."""
    told: Any = body
    names = [getattr(told, "owner", ""), *getattr(told, "assignees", ()), *getattr(told, "watchers", ())]
    names += mentioned(getattr(told, "body", ""), library.settings)
    asked = [name for name in dict.fromkeys(names) if name]
    if not asked:
        return []
    lookup = library.store.recorded
    known = {person_of(name) for name in lookup.authors() | lookup.targets("steward")}
    known |= {PERSON, AGENT} | own_names(library.settings)
    folded = {name.casefold(): name for name in known}
    strange = [name for name in asked if person_of(name).casefold() not in folded]
    return [_sentence(name, folded) for name in strange[:MOST_TOLD]]


def _sentence(name: str, folded: dict[str, str]) -> str:
    near = difflib.get_close_matches(name.casefold(), folded, 1, LEAST_ALIKE)
    hint = f"; did you mean {folded[near[0]]}?" if near else ""
    return f"nobody called {name} has written anything here, so maybe nobody hears of this{hint}"
