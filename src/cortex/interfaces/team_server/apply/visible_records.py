"""Records as one viewer sees them, and the placement of the records that they send.

Invisible records are treated as missing, and errors reveal nothing about them. An uploaded record
may refer to one that is uploaded later: existing records arrive in the order in which they were
written, by several authors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from cortex.base.errors import InputError
from cortex.base.record_model import SENSITIVE, Artifact, Draft, Observation, Record, RecordFilter
from cortex.base.record_spec import fields_of
from cortex.base.visibility import Viewer, sees
from cortex.engine.store import RecordQueries, RecordTransaction
from cortex.families.team.references import RecordReader, by_slug, named_refs, resolve_ref, scope_of
from cortex.families.team.wire.codec import is_id
from cortex.interfaces.team_server.access_policy import not_found

B = TypeVar("B", bound=Any)
_REASON = fields_of(Draft)["reason"].limit


class VisibleRecords:
    """Record lookup for one viewer, inside a transaction or outside."""

    def __init__(self, lookup: RecordQueries | RecordTransaction, viewer: Viewer) -> None:
        self._lookup = lookup
        self._viewer = viewer

    def get(self, record_id: str) -> Record[Any] | None:
        """Return the record with this id, if it is visible."""
        record = self.raw(record_id)
        return record if record is not None and self.shows(record) else None

    def select(self, wanted: RecordFilter, limit: int = 100) -> list[Record[Any]]:
        """Return the visible records that refer to given targets.

        Empty for a filter without references, so that it can't be used to enumerate records.
        """
        if not wanted.refs or not all(is_queryable(target) for _, target in wanted.refs):
            return []
        return [record for record in self._lookup.select(wanted, limit) if self.shows(record)]

    def starting(self, prefix: str, limit: int = 10) -> list[Record[Any]]:
        """Return the visible records with this id prefix."""
        return [record for record in self._lookup.starting(prefix, limit) if self.shows(record)]

    def raw(self, ref: str) -> Record[Any] | None:
        """Return the record with this id or subcortex slug, visible or not."""
        if not is_queryable(ref):
            return None
        if "_" not in ref:
            return by_slug(self._lookup, ref)
        return (
            self._lookup.one(ref)
            if isinstance(self._lookup, RecordQueries)
            else self._lookup.get(ref)
        )

    def shows(self, record: Record[Any]) -> bool:
        """True if the viewer may see a record."""
        return sees(self._viewer, record, self.raw)


def is_queryable(ref: str) -> bool:
    """True for a reference that every database can be queried for: printable ASCII."""
    return ref.isascii() and ref.isprintable()


def resolve_draft_target(draft: Draft, visible: RecordQueries | RecordReader) -> Draft:
    """Resolve the target of a draft to an id.

    A target that the author can't see is moved to the draft's reason, and the approver chooses
    where the draft belongs. So a draft reveals nothing about other records, and isn't lost.
    """
    if not draft.target:
        return draft
    try:
        return replace(draft, target=resolve_ref(visible, draft.target, draft.target_kind).id)
    except InputError:
        note = f"It was meant for {draft.target}, which isn't there."
        reason = f"{draft.reason[: _REASON - len(note) - 2]}\n\n{note}".strip()
        return replace(
            draft,
            target="",
            target_kind="",
            reason=draft.reason if note in draft.reason else reason,
        )


def placed(body: Any, visible: VisibleRecords) -> Any:
    """Resolve the subcortex and the references of an uploaded record.

    A reference may be missing if its record can still be uploaded.

    Raises: InputError SCOPE_NOT_FOUND, TARGET_NOT_FOUND.
    """
    parents: list[Record[Any]] = []
    changes: dict[str, Any] = {}
    owner = (
        (body.thread or body.task) if isinstance(body, Observation) and not body.subcortex else ""
    )
    for spec, ref in named_refs(body):
        if spec.kind == "subcortex":
            parents.append(scope_of(visible, ref))
            changes[spec.name] = parents[0].id
            continue
        target = _resolve_reference(visible, ref, spec.kind, spec.name)
        if target is None and ref == owner:
            # Access to it depends on that record; the client sends it again afterwards.
            raise not_found(ref, spec.name)
        parents += [target] if target is not None and spec.belongs else []
    if isinstance(body, Artifact):
        for evidence in body.evidence:
            if evidence.kind != "url":
                _resolve_reference(visible, evidence.ref, evidence.kind, "evidence")
    return inherit_sensitivity(replace(body, **changes) if changes else body, *parents)


def inherit_sensitivity(body: B, *parents: Record[Any] | None) -> B:
    """Mark a body as sensitive where any of its parents is."""
    private = any(parent is not None and parent.body.sensitivity == SENSITIVE for parent in parents)
    return replace(body, sensitivity=SENSITIVE) if private else body


def _resolve_reference(
    visible: VisibleRecords, ref: str, kind: str, field: str
) -> Record[Any] | None:
    """Return the record that a field refers to; None where it may still be uploaded.

    Raises: InputError TARGET_NOT_FOUND.
    """
    record = visible.get(ref)
    if record is not None and record.kind == kind:
        return record
    if record is None and visible.raw(ref) is None and is_id(ref, kind):
        return None
    raise not_found(ref, field)
