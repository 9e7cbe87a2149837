"""Unknown names in a record: a typo means that a person is never notified.

Known are the local person and their agents, the authors of all local records, and stewards. Being
an assignee is not enough: it may be the same typo. Read-only.
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


def unknown_names(library: Library, body: Body) -> list[str]:
    """Return a sentence for each unknown name in a body, with the closest known one."""
    fields: Any = body
    names = [
        getattr(fields, "owner", ""),
        *getattr(fields, "assignees", ()),
        *getattr(fields, "watchers", ()),
    ]
    names += mentioned(getattr(fields, "body", ""), library.settings)
    mentioned_names = [name for name in dict.fromkeys(names) if name]
    if not mentioned_names:
        return []
    lookup = library.store.records
    known = {person_of(name) for name in lookup.authors() | lookup.targets("steward")}
    known |= {PERSON, AGENT} | own_names(library.settings)
    folded = {name.casefold(): name for name in known}
    unknown = [name for name in mentioned_names if person_of(name).casefold() not in folded]
    return [_warning(name, folded) for name in unknown[:MOST_TOLD]]


def _warning(name: str, folded: dict[str, str]) -> str:
    """Format the warning for one unknown name."""
    near = difflib.get_close_matches(name.casefold(), folded, 1, LEAST_ALIKE)
    hint = f"; did you mean {folded[near[0]]}?" if near else ""
    return f"no one called {name} has written anything here, so maybe no one hears of this{hint}"
