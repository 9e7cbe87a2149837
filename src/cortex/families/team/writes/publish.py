"""What a draft becomes, and where: the record that it names, what is written there, and what of its
citations is evidence.

Inside a step, through the same functions as everything that is written directly. Who may approve is
not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cortex.base.record_model import (
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
from cortex.engine.store import RecordLookup, RecordTransaction, kind_of_id
from cortex.families.team.ids import new_id
from cortex.families.team.validation import EVIDENCE_KINDS, checked
from cortex.families.team.writes.actions import apply_task_patch, checked_patch
from cortex.families.team.writes.create import add_body
from cortex.families.team.writes.placement import find

TARGETS = {  # what a draft may name, the first one where a name doesn't say its kind
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
    """Where a draft would go: into that record, or nowhere in particular; `missing` says why it
    can't go anywhere.
    """

    record: Record[Any] | None = None
    missing: str = ""


def destination(records: RecordLookup | RecordTransaction, draft: Draft) -> Destination:
    """Where a draft would go as things are now."""
    allowed = TARGETS[draft.type]
    if not draft.target:
        alone = allowed[0] == "subcortex"  # threads and artifacts may stand by themselves
        return Destination(None, "" if alone else f"it names no {allowed[0]}")
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
    """Write what a draft is for, into the place that it has."""
    if draft.type != "task_update":
        body = body_of(draft, place, step.get)
        # A sensitive comment tells the summary of an open thread nothing; who approves it can't
        # take its summary out.
        told = draft.sensitivity != SENSITIVE or (
            place is not None and place.body.sensitivity == SENSITIVE
        )
        return add_body(step, body, draft.summary if told else "", settings)
    assert place is not None
    return apply_task_patch(step, place.id, patch_of(draft), settings)


def patch_of(draft: Draft) -> dict[str, str]:
    """What a draft changes of a task: its fields, and its text as notes."""
    patch = dict(draft.patch)
    if draft.body:
        patch.setdefault("notes", draft.body)
    return patch


def check_outcome(draft: Draft) -> None:
    """What a draft becomes could be written, wherever it goes.

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
    """The body that a draft becomes; what it cites as evidence and isn't there is only named, for
    else nobody could publish it.
    """
    subcortex = (
        "" if place is None else place.id if place.kind == "subcortex" else place.body.subcortex
    )
    match draft.type:
        case "comment":
            # Any, where there is none yet and it is only looked at
            thread = place.id if place else new_id(Thread)
            return Comment(
                thread, draft.body, citations=draft.citations, sensitivity=draft.sensitivity
            )
        case "thread":
            return Thread(
                draft.title,
                _citing(draft.body, draft.citations),
                draft.thread_type or "other",
                subcortex=subcortex,
                task=place.id if place and place.kind == "task" else "",
                sensitivity=draft.sensitivity,
                tags=draft.tags,
                code_links=draft.code_links,
            )
    evidence = evidence_of(draft, get)
    told = {one.ref for one in evidence}
    refs = dict.fromkeys((*(one.ref for one in draft.evidence), *draft.citations))
    return Artifact(
        draft.title,
        _citing(draft.body, [ref for ref in refs if ref not in told]),
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
    """What a draft rests on and is there: what it says, and what of its citations can be evidence."""
    found = {one.ref: one for one in draft.evidence}
    for cited in draft.citations:
        kind = "url" if _ADDRESS.fullmatch(cited) else kind_of_id(cited)
        if kind in EVIDENCE_KINDS:
            found.setdefault(cited, Evidence(kind, cited))
    return tuple(one for one in found.values() if one.kind == "url" or _is_there(one, get))


def _is_there(one: Evidence, get: Get) -> bool:
    record = get(one.ref)
    return record is not None and record.kind == one.kind


def _citing(body: str, citations: Sequence[str]) -> str:
    """A text with what it cites, where nothing else would keep that."""
    return f"{body.rstrip()}\n\nCites: {', '.join(citations)}" if citations else body
