"""Drafts: contributions that wait for a person to approve or reject them.

A draft is kept even if its target doesn't exist; the person who approves it then names another.
Approval publishes in the same transaction, with the drafter as author, so it takes effect once
however often it is repeated. Expiry is computed from the clock and never stored: a person may still
approve an expired draft.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import SENSITIVE, Actor, Draft, Record, RecordFilter
from cortex.base.text import one_line
from cortex.engine.library import Library
from cortex.engine.store import RecordQueries, RecordTransaction, kind_of_id
from cortex.families.team import notification_texts
from cortex.families.team.contradictions.detect import Contradiction, clashes_of, write_clashes
from cortex.families.team.ids import new_id
from cortex.families.team.notifications import close_notices, notice, person_of
from cortex.families.team.permissions import need
from cortex.families.team.references import resolve_ref
from cortex.families.team.validation import checked
from cortex.families.team.writes.placement import Placement
from cortex.families.team.writes.publish import (
    NAMES,
    TARGETS,
    Get,
    body_of,
    check_outcome,
    destination,
    evidence_of,
    patch_of,
    publish,
)
from cortex.families.team.writes.transactions import carry_out, effective_actor, written

PENDING, PUBLISHED, REJECTED, EXPIRED = "pending_review", "published", "rejected", "expired"
EXPIRES_MS = 90 * 24 * 3600 * 1000
LARGE_CHARACTERS = 10_000
TITLE_CHARACTERS = 120
PAGE = 100
DRAFTS = RecordFilter(kinds=("draft",))
_WAITS = "It waits in the Cortex inbox"
_EXTERNAL_LINK = re.compile(r"https?://(?!localhost\b|127\.)", re.IGNORECASE)
_CONFIDENTIAL = re.compile(
    r"\b(?:confidential|internal only|do not (?:share|distribute))\b"
    r"|(?<![\w.+-])(?!git@)[\w.+-]{1,64}@[\w-]{1,63}\.[a-z]{2,}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Published:
    """An approved draft and the record that it became.

    `replayed` is true if the same key had been used before.
    """

    draft: Record[Draft]
    record: Record[Any]
    replayed: bool = False


def create_draft(
    library: Library,
    draft: Draft,
    *,
    actor: Actor,
    key: str = "",
    payload: str = "",
    where: Placement | None = None,
) -> tuple[Record[Draft], bool, str]:
    """Store a draft; returns it, true for a replayed key, and a sentence on the next step.

    `where` applies to a draft that names no target; one that names an unknown target is kept as it
    is.

    Raises: InputError RECORD_INVALID, SENSITIVE_BLOCKED, RIGHTS_MISSING, IDEMPOTENCY_REPLAY.
    """
    need(effective_actor(library, actor), "draft")
    new = _prepare(draft, where or Placement())

    def work(step: RecordTransaction) -> str:
        kept = _inherit_sensitivity(step, new)
        flags = dict.fromkeys((*risks_of(kept, step.get), *kept.risk_flags))
        record = step.make(
            new_id(Draft), replace(kept, risk_flags=tuple(flags), expires=step.now + EXPIRES_MS)
        )
        if actor.name != person_of(actor.name):
            reason = notification_texts.DRAFTED(name=actor.name, what=NAMES[new.type])
            notice(step, person_of(step.actor.name), record, reason)
        return record.id

    payload = payload or repr(draft)
    done = carry_out(library, work, actor=actor, key=key, action="create_draft", payload=payload)
    return done.record, done.replayed, next_step(library.store.records, done.record)


def approve(
    library: Library,
    draft_id: str,
    *,
    actor: Actor,
    key: str = "",
    target: str = "",
    notes: str = "",
) -> Published:
    """Publish a draft to its own target, or to `target`.

    Raises: InputError RECORD_UNKNOWN, RECORD_CHANGED if it was decided already, TARGET_NOT_FOUND,
    RIGHTS_MISSING, and every error of creating the record that it becomes.
    """
    need(effective_actor(library, actor), "approve_draft")
    clashes = _find_clashes(library, draft_id, target)

    def work(step: RecordTransaction) -> str:
        pending = _resolve_pending(step, draft_id)
        draft = _retarget(pending.body, target)
        place = destination(step, draft)
        if place.missing:
            raise _target_missing(pending.id, draft, place.missing)
        step.author = pending.author
        record = publish(step, draft, place.record, library.settings)
        step.author = actor.name
        write_clashes(step, record, clashes)
        _decide(step, pending, replace(draft, state=PUBLISHED, published=record.id), notes)
        return pending.id

    payload = repr((draft_id, target, notes))
    done = carry_out(library, work, actor=actor, key=key, action="approve_draft", payload=payload)
    kept: Record[Draft] = done.record
    # cortexd may have sent the approval already, and the Core rejected it: then its draft is
    # current again.
    if kept.body.state != PUBLISHED:
        raise InputError(
            "RECORD_CHANGED",
            f"the team server did not accept this approval: {kept.id} is {kept.body.state} again",
            context={"id": kept.id},
            instead=("`cortex sync --refused` shows why.",),
        )
    return Published(kept, written(library, kept.body.published), done.replayed)


def reject(
    library: Library, draft_id: str, *, actor: Actor, notes: str = "", key: str = ""
) -> Record[Draft]:
    """Reject a draft, so that it isn't published.

    Raises: InputError RECORD_UNKNOWN, RECORD_CHANGED, RIGHTS_MISSING.
    """
    need(effective_actor(library, actor), "reject_draft")

    def work(step: RecordTransaction) -> str:
        pending = _resolve_pending(step, draft_id)
        return _decide(step, pending, replace(pending.body, state=REJECTED), notes).id

    payload = repr((draft_id, notes))
    return carry_out(
        library, work, actor=actor, key=key, action="reject_draft", payload=payload
    ).record


def is_expired(draft: Draft, now: int) -> bool:
    """True for a draft that was not decided in time; `now` is in milliseconds."""
    return draft.state == EXPIRED or (draft.state == PENDING and 0 < draft.expires <= now)


def state_of(draft: Draft, now: int) -> str:
    """Return the state of a draft at the time `now`."""
    return EXPIRED if is_expired(draft, now) else draft.state


def listed(
    library: Library,
    states: Sequence[str] = (PENDING,),
    limit: int = 50,
    *,
    before: str = "",
    now: int = 0,
    wanted: RecordFilter = DRAFTS,
) -> list[Record[Draft]]:
    """List drafts in the given states (any, if there are none), newest first.

    `before` is the last draft of the previous page, `wanted` an additional filter.
    """
    now = now or now_ms()
    stored_states = {*states, PENDING} if EXPIRED in states else {*states}
    drafts: list[Record[Draft]] = []
    for record in pages(
        library.store.records, replace(wanted, states=tuple(stored_states), before=before)
    ):
        if len(drafts) == limit:
            break
        if not states or state_of(record.body, now) in states:
            drafts.append(record)
    return drafts


def next_step(records: RecordQueries, record: Record[Draft], now: int = 0) -> str:
    """Describe the next step for a draft: a person decides, and where it would be published.

    Never names a command.
    """
    draft = record.body
    match state_of(draft, now or now_ms()):
        case "published":
            return f"It was published as {draft.published}."
        case "rejected":
            return "It was rejected" + (
                f": {one_line(draft.review_notes, 300)}" if draft.review_notes else "."
            )
    place = destination(records, draft)
    if place.missing:
        return (
            f"{_WAITS}, but can't be published yet: {place.missing}. The person who decides "
            f"says where it belongs."
        )
    if place.record is None:
        return (
            f"{_WAITS}: a person decides whether it is published as {NAMES[draft.type]} of no "
            f"subcortex."
        )
    where = f"{place.record.id} ({one_line(place.record.body.title, 80)})"
    what = (
        f"{where} is changed so"
        if draft.type == "task_update"
        else f"it is published as {NAMES[draft.type]} in {where}"
    )
    return f"{_WAITS}: a person decides whether {what}."


def risks_of(draft: Draft, get: Get) -> tuple[str, ...]:
    """Return the risk flags that a reviewer should look at."""
    text = "\n".join((draft.title, draft.body, draft.summary, *(value for _, value in draft.patch)))
    refs = (*(item.ref for item in draft.evidence), *draft.citations)
    flags = {
        "sensitive_content": draft.sensitivity == SENSITIVE or _CONFIDENTIAL.search(text),
        "external_link": _EXTERNAL_LINK.search("\n".join((text, *refs))),
        "large_content": len(draft.body) > LARGE_CHARACTERS,
        "missing_evidence": draft.type == "artifact" and not evidence_of(draft, get),
    }
    return tuple(flag for flag, holds in flags.items() if holds)


# -- creation


def _prepare(draft: Draft, where: Placement) -> Draft:
    """Return a draft as it is stored: undecided, and valid as the record that it would become."""
    draft = replace(
        draft,
        title=draft.title.strip() or _make_title(draft),
        state=PENDING,
        reviewed_by="",
        reviewed_at=0,
        review_notes="",
        published="",
    )
    if draft.type == "task_update":
        draft = replace(draft, patch=tuple(patch_of(draft).items()))
    draft = checked(draft)
    check_outcome(draft)
    return draft if draft.target else _route(draft, where)


def _make_title(draft: Draft) -> str:
    """Return the first non-empty line without heading marks, or a description of the patch."""
    lines = (line.lstrip("#>*- \t").strip() for line in draft.body.splitlines())
    changes = ", ".join(f"{field}: {value}" for field, value in draft.patch)
    return one_line(changes or next((line for line in lines if line), ""), TITLE_CHARACTERS)


def _route(draft: Draft, where: Placement) -> Draft:
    """Set the target to the place that `where` has for this type of draft."""
    kind = TARGETS[draft.type][0]
    place = {"thread": where.thread, "task": where.task, "subcortex": where.subcortex}[kind]
    return replace(draft, target_kind=kind, target=place) if place else draft


def _inherit_sensitivity(step: RecordTransaction, draft: Draft) -> Draft:
    """Mark the draft as sensitive if its target is."""
    place = destination(step, draft).record
    private = place is not None and place.body.sensitivity == SENSITIVE
    return replace(draft, sensitivity=SENSITIVE) if private else draft


# -- decision


def _resolve_pending(step: RecordTransaction, draft_id: str) -> Record[Draft]:
    """Return a draft that still waits for a decision. Raises: InputError RECORD_CHANGED."""
    record: Record[Draft] = resolve_ref(step, draft_id, "draft")
    if record.body.state in (PENDING, EXPIRED):
        return record
    became = f" as {record.body.published}" if record.body.published else ""
    raise InputError(
        "RECORD_CHANGED",
        f"the draft {record.id} is {record.body.state}{became} already",
        context={"id": record.id, "state": record.body.state, "published": record.body.published},
        suggestions=("Nothing is left to decide about it.",),
    )


def _retarget(draft: Draft, target: str) -> Draft:
    """Return the draft with another target, if one is given."""
    if not (target := target.strip()):
        return draft
    return replace(draft, target=target, target_kind=kind_of_id(target) or TARGETS[draft.type][0])


def _find_clashes(library: Library, draft_id: str, target: str) -> tuple[Contradiction, ...]:
    """Find what the published record may contradict.

    Runs before the transaction, since it reads the index.
    """
    lookup = library.store.records
    record: Record[Draft] = resolve_ref(lookup, draft_id, "draft")
    if record.body.type == "task_update" or record.body.state not in (PENDING, EXPIRED):
        return ()
    draft = _retarget(record.body, target)
    return clashes_of(library, body_of(draft, destination(lookup, draft).record, lookup.one))


def _target_missing(draft_id: str, draft: Draft, missing: str) -> InputError:
    return InputError(
        "TARGET_NOT_FOUND",
        f"the draft {draft_id} can't be published: {missing}",
        context={"id": draft_id, "target": draft.target},
        suggestions=(f"Say where it belongs: {_approve_command(draft_id, draft)}.",),
    )


def _approve_command(draft_id: str, draft: Draft) -> str:
    return f"`cortex team drafts approve {draft_id} --target {TARGETS[draft.type][0].upper()}`"


def _decide(
    step: RecordTransaction, record: Record[Draft], body: Draft, notes: str
) -> Record[Draft]:
    """Write the decision, notify the drafter and close the reviewers' notifications."""
    body = checked(
        replace(body, reviewed_by=step.actor.name, reviewed_at=step.now, review_notes=notes)
    )
    kept = step.put(replace(record, body=body))
    close_notices(step, kept.id)
    if kept.author != step.actor.name:
        is_published = body.state == PUBLISHED
        template = notification_texts.PUBLISHED if is_published else notification_texts.REJECTED
        # Plugins may have changed the text.
        body = kept.body
        reason = template(name=step.actor.name, what=body.published, notes=body.review_notes)
        notice(step, kept.author, kept, reason)
    return kept


# -- lookup


def pages(lookup: RecordQueries, wanted: RecordFilter, size: int = PAGE) -> Iterator[Record[Any]]:
    """Iterate over all matching records, newest first, fetched page by page."""
    while page := lookup.select(wanted, size):
        yield from page
        if len(page) < size:
            return
        wanted = replace(wanted, before=page[-1].id)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)
