"""Access policy of team records: one rule for reading, writing and syncing; no I/O.

A record belongs to a scope, the subcortex that it is filed under or "" for none. A viewer reads and
writes in scopes; "*" covers all scopes that aren't private, and records without a scope. The store
implements the same rule in SQL (`engine/store/row_level_security.py`), and a test holds the two
together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cortex.base.record_model import (
    SENSITIVE,
    Draft,
    Link,
    Notification,
    Observation,
    Record,
    Subcortex,
)

EVERYWHERE = "*"
UNFILED = ""
# Lowest tier that sees drafts of others.
REVIEWER = 3
# Longest chain to a scope: a notification about a link from an observation of a thread. A cycle
# of references ends without a scope.
STEPS = 3

Get = Callable[[str], Record[Any] | None]  # by id; a subcortex by its slug, too


@dataclass(frozen=True, slots=True)
class Viewer:
    """A principal that reads a team's records, with the scopes it may read and write."""

    name: str
    tier: int
    sensitive: bool = False  # sees sensitive records
    reads: frozenset[str] = frozenset()  # scopes; "*" among them for all but the hidden ones
    writes: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()  # private scopes, which "*" doesn't cover

    def may_read(self, scope: str) -> bool:
        return self._covers(self.reads, scope)

    def may_write(self, scope: str) -> bool:
        return self._covers(self.writes, scope)

    def is_own(self, name: str) -> bool:
        """Return whether a name is the viewer's own, or its agent's."""
        return name == self.name or name.startswith(f"{self.name}/")

    def _covers(self, scopes: frozenset[str], scope: str) -> bool:
        return scope in scopes or (EVERYWHERE in scopes and scope not in self.hidden)


def scope_of(record: Record[Any], get: Get, steps: int = STEPS) -> str:
    """Return the scope of a record: its subcortex, or the scope of the record that it refers to.

    At most `steps` references are followed.
    """
    body = record.body
    match body:
        case Subcortex():
            return record.id
        case Draft():
            target = body.target
        case Notification():
            target = body.about
        case Link():
            target = body.source
        case Observation() if not body.subcortex:
            target = body.thread or body.task
        case _:
            return getattr(body, "subcortex", UNFILED)
    referenced = get(target) if target and steps else None
    return UNFILED if referenced is None else scope_of(referenced, get, steps - 1)


def sees(viewer: Viewer, record: Record[Any], get: Get) -> bool:
    """Return whether a viewer may see a record."""
    body = record.body
    if not viewer.may_read(scope_of(record, get)) or (
        body.sensitivity == SENSITIVE and not viewer.sensitive
    ):
        return False
    match body:
        case Draft():
            return viewer.is_own(record.author) or viewer.tier >= REVIEWER
        case Notification():
            return viewer.is_own(body.recipient) or viewer.is_own(record.author)
        case Link():
            ends = (get(body.source), get(body.target))
            return all(
                end is not None and not isinstance(end.body, Link) and sees(viewer, end, get)
                for end in ends
            )
    return True
