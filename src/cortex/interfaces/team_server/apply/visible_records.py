"""What one viewer sees, inside a step or outside, and where what they send belongs: ids become
places, as far as they may know of them.

What isn't seen isn't there, and nothing near it is told. A record that is uploaded may point to one
that comes later: what was there before has been written in its own order, by others, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import (
    SENSITIVE,
    Artifact,
    Draft,
    Observation,
    Record,
    RecordFilter,
    Subcortex,
)
from cortex.base.visibility import Viewer, sees
from cortex.engine.store import RecordLookup, RecordTransaction
from cortex.families.team.references import (
    PINS,
    POINTS,
    RecordReader,
    by_slug,
    resolve_ref,
    scope_of,
)
from cortex.families.team.validation import LIMITS
from cortex.families.team.wire.codec import is_id
from cortex.interfaces.team_server.access_policy import not_found

_REASON = LIMITS[Draft]["reason"]


class VisibleRecords:
    """Records as one viewer sees them, in a step or outside."""

    def __init__(self, place: RecordLookup | RecordTransaction, viewer: Viewer) -> None:
        self._place = place
        self._viewer = viewer

    def get(self, number: str) -> Record[Any] | None:
        """The record of this id, where they see it."""
        found = self.raw(number)
        return found if found is not None and self.shows(found) else None

    def select(self, wanted: RecordFilter, limit: int = 100) -> list[Record[Any]]:
        """Those that they see of what points somewhere; nothing for who only wants to know what
        there is.
        """
        if not wanted.refs or not all(is_asked(target) for _, target in wanted.refs):
            return []
        return [one for one in self._place.select(wanted, limit) if self.shows(one)]

    def starting(self, prefix: str, limit: int = 10) -> list[Record[Any]]:
        """Those that they see whose id begins like this."""
        return [one for one in self._place.starting(prefix, limit) if self.shows(one)]

    def raw(self, ref: str) -> Record[Any] | None:
        """The record of this id or the subcortex of this slug, whoever may see it."""
        if not is_asked(ref):
            return None
        if "_" not in ref:
            return by_slug(self._place, ref)
        return (
            self._place.one(ref) if isinstance(self._place, RecordLookup) else self._place.get(ref)
        )

    def shows(self, record: Record[Any]) -> bool:
        """Whether they see a record."""
        return sees(self._viewer, record, self.raw)


def is_asked(ref: str) -> bool:
    """Whether something may be called like this: what isn't can't be asked of every database."""
    return ref.isascii() and ref.isprintable()


def aimed(draft: Draft, sight: RecordLookup | RecordReader) -> Draft:
    """A draft with the id of what it is for; what its author doesn't see is only told, and whoever
    approves it says where it belongs.

    So nobody learns by a draft what there is, and the draft isn't lost.
    """
    if not draft.target:
        return draft
    try:
        return replace(draft, target=resolve_ref(sight, draft.target, draft.target_kind).id)
    except InputError:
        told = f"It was meant for {draft.target}, which isn't there."
        reason = f"{draft.reason[: _REASON - len(told) - 2]}\n\n{told}".strip()
        return replace(
            draft,
            target="",
            target_kind="",
            reason=draft.reason if told in draft.reason else reason,
        )


def placed(body: Any, sight: VisibleRecords) -> Any:
    """The body of an uploaded record in its place: its subcortex is there, and all that it points
    to, or may still come.

    Raises: InputError SCOPE_NOT_FOUND, TARGET_NOT_FOUND.
    """
    above: list[Record[Any]] = []  # what it belongs to
    changes: dict[str, Any] = {}
    if scope := getattr(body, "subcortex", ""):
        above.append(scope_of(sight, scope))
        changes["subcortex"] = above[0].id
    owner = (
        (body.thread or body.task) if isinstance(body, Observation) and not body.subcortex else ""
    )
    for field, kind in POINTS:
        if ref := getattr(body, field, ""):
            found = _there(sight, ref, kind, field)
            if found is None and ref == owner:
                # Who may see it depends on that; its home sends it again when that has come.
                raise not_found(ref, field)
            above += [found] if found is not None and field != "supersedes" else []
    if isinstance(body, Subcortex):
        for field, kind in PINS:
            for ref in getattr(body, field):
                _there(sight, ref, kind, field)
    if isinstance(body, Artifact):
        for one in body.evidence:
            if one.kind != "url":
                _there(sight, one.ref, one.kind, "evidence")
    if any(one.body.sensitivity == SENSITIVE for one in above):
        changes["sensitivity"] = SENSITIVE
    return replace(body, **changes) if changes else body


def _there(sight: VisibleRecords, ref: str, kind: str, field: str) -> Record[Any] | None:
    """The record that a field points to, None where it may still come."""
    found = sight.get(ref)
    if found is not None and found.kind == kind:
        return found
    if found is None and sight.raw(ref) is None and is_id(ref, kind):
        return None
    raise not_found(ref, field)
