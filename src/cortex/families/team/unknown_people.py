"""Names in a record that nobody here has: a typo is a person who never hears of it.

Known are the person and their agents, the authors of all records that are here, and stewards. An
assignee is not known by being one: it may be the same typo. Only reads.
"""

from __future__ import annotations

import difflib
from typing import Any

from cortex.base.actors import AGENT, PERSON
from cortex.base.record_model import Body
from cortex.engine.library import Library
from cortex.families.team.notifications import mentioned, own_names, person_of

LEAST_ALIKE = 0.5
MOST_TOLD = 5


def strangers_in(library: Library, body: Body) -> list[str]:
    """A sentence for each name in a body that nobody here has, with the nearest known one."""
    told: Any = body
    names = [
        getattr(told, "owner", ""),
        *getattr(told, "assignees", ()),
        *getattr(told, "watchers", ()),
    ]
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
