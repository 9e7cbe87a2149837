"""Publication of a draft: its destination, the record it becomes, and its evidence.

Runs inside a transaction, through the same functions as direct writes. Doesn't know who may approve
a draft.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cortex.base.record_model import (
    EVIDENCE_KINDS,
    SENSITIVE,
    Artifact,
    Comment,
    Draft,
    Evidence,
    Record,
    Task,
    Thread,
)
from cortex.base.settings import Settings
from cortex.engine.store import RecordQueries, RecordTransaction, kind_of_id
from cortex.families.team.ids import new_id
from cortex.families.team.validation import checked
from cortex.families.team.writes.actions import apply_task_patch, checked_patch
from cortex.families.team.writes.create import add_body
from cortex.families.team.writes.placement import find

# Kinds that a draft may target; the first is assumed if neither the draft nor the target's id
# names a kind.
TARGETS = {
    "comment": ("thread", "task"),
    "thread": ("subcortex", "task", "thread"),
    "artifact": ("subcortex", "thread", "task"),
    "task_update": ("task",),
}
NAMES = {
    "comment": "a comment",
    "thread": "a thread",
    "artifact": "an artifact",
    "task_update": "a change of a task",
}
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)

Get = Callable[[str], Record[Any] | None]


@dataclass(frozen=True, slots=True)
class Destination:
    """Record that a draft would be published to, or none; `missing` says why it can't be."""

    record: Record[Any] | None = None
    missing: str = ""


def destination(records: RecordQueries | RecordTransaction, draft: Draft) -> Destination:
    """Find the current destination of a draft."""
    allowed = TARGETS[draft.type]
    if not draft.target:
        # Threads and artifacts may belong to no subcortex.
        is_optional = allowed[0] == "subcortex"
        return Destination(None, "" if is_optional else f"the draft names no {allowed[0]}")
    kind = draft.target_kind or kind_of_id(draft.target) or allowed[0]
    if kind not in allowed:
        return Destination(
            None,
            f"{NAMES[draft.type]} belongs to a {' or a '.join(allowed)}, not to {draft.target}",
        )
    record, why = find(records, draft.target, kind)
    if record is not None and draft.type == "comment" and kind == "task":
        if not record.body.thread:
            return Destination(None, f"the task {record.id} has no thread")
        record, why = find(records, record.body.thread, "thread")
    return Destination(record, why)


def publish(
    step: RecordTransaction, draft: Draft, place: Record[Any] | None, settings: Settings
) -> Record[Any]:
    """Write the record of a draft to its destination."""
    if draft.type != "task_update":
        body = body_of(draft, place, step.get)
        # The summary of a sensitive comment may not appear in an open thread, and the person who
        # approves the draft can't remove it.
        may_summarize = draft.sensitivity != SENSITIVE or (
            place is not None and place.body.sensitivity == SENSITIVE
        )
        return add_body(step, body, draft.summary if may_summarize else "", settings)
    assert place is not None
    return apply_task_patch(step, place.id, patch_of(draft), settings)


def patch_of(draft: Draft) -> dict[str, str]:
    """Return the task fields that a draft changes; its body counts as notes."""
    patch = dict(draft.patch)
    if draft.body:
        patch.setdefault("notes", draft.body)
    return patch


def check_outcome(draft: Draft) -> None:
    """Check that the record of a draft would be valid at any destination.

    Raises: InputError RECORD_INVALID, SENSITIVE_BLOCKED.
    """
    if draft.type == "task_update":
        fields = checked_patch(patch_of(draft))
        checked(
            replace(
                Task("any"),
                **{name: value for name, value in fields.items() if name != "assignees"},
            )
        )
        return
    checked(body_of(draft, None, lambda _: None))
    if draft.type == "comment":
        checked(Thread("any", summary=draft.summary))


def body_of(draft: Draft, place: Record[Any] | None, get: Get) -> Comment | Thread | Artifact:
    """Build the body that a draft becomes.

    Cited evidence that doesn't exist is only mentioned in the text, as it would block publication.
    """
    subcortex = (
        "" if place is None else place.id if place.kind == "subcortex" else place.body.subcortex
    )
    match draft.type:
        case "comment":
            # A placeholder id, when the body is only validated.
            thread = place.id if place else new_id(Thread)
            return Comment(
                thread, draft.body, citations=draft.citations, sensitivity=draft.sensitivity
            )
        case "thread":
            return Thread(
                draft.title,
                _append_citations(draft.body, draft.citations),
                draft.thread_type or "other",
                subcortex=subcortex,
                task=place.id if place and place.kind == "task" else "",
                sensitivity=draft.sensitivity,
                tags=draft.tags,
                code_links=draft.code_links,
            )
    evidence = evidence_of(draft, get)
    evidence_refs = {item.ref for item in evidence}
    refs = dict.fromkeys((*(item.ref for item in draft.evidence), *draft.citations))
    return Artifact(
        draft.title,
        _append_citations(draft.body, [ref for ref in refs if ref not in evidence_refs]),
        draft.summary,
        draft.artifact_type or "other",
        state="proposed",
        evidence=evidence,
        subcortex=subcortex,
        sensitivity=draft.sensitivity,
        tags=draft.tags,
        code_links=draft.code_links,
    )


def evidence_of(draft: Draft, get: Get) -> tuple[Evidence, ...]:
    """Return the existing evidence of a draft: its own, and citations that can be evidence."""
    evidence = {item.ref: item for item in draft.evidence}
    for cited in draft.citations:
        kind = "url" if _ADDRESS.fullmatch(cited) else kind_of_id(cited)
        if kind in EVIDENCE_KINDS:
            evidence.setdefault(cited, Evidence(kind, cited))
    return tuple(item for item in evidence.values() if item.kind == "url" or _exists(item, get))


def _exists(evidence: Evidence, get: Get) -> bool:
    """True for evidence that refers to an existing record of its kind."""
    record = get(evidence.ref)
    return record is not None and record.kind == evidence.kind


def _append_citations(body: str, citations: Sequence[str]) -> str:
    """Append citations to a text that has no field for them."""
    return f"{body.rstrip()}\n\nCites: {', '.join(citations)}" if citations else body
