"""Drafts: contributions that wait for a person, who has them published or not.

A draft is kept wherever it was meant for, even where that is nowhere: then whoever approves it says
where. Approving publishes in the same step, in the name of who drafted it; so an approval counts
once, however often and from wherever it is given. That a draft is too old is a matter of the clock
and written nowhere: a person may still approve it.
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
from cortex.engine.store import RecordLookup, RecordTransaction, kind_of_id
from cortex.families.team import notification_texts
from cortex.families.team.contradictions.detect import Contradiction, clashes_of, write_clashes
from cortex.families.team.ids import fresh_key, new_id
from cortex.families.team.notifications import close_notices, notice, notice_review, person_of
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
from cortex.families.team.writes.transactions import acting, perform, written

PENDING, PUBLISHED, REJECTED, EXPIRED = "pending_review", "published", "rejected", "expired"
EXPIRES_MS = 90 * 24 * 3600 * 1000
LARGE_CHARACTERS = 10_000
TITLE_CHARACTERS = 120
PAGE = 100
DRAFTS = RecordFilter(kinds=("draft",))
_KEPT = "It waits in the Cortex inbox"
_OUTSIDE = re.compile(r"https?://(?!localhost\b|127\.)", re.IGNORECASE)
_PRIVATE = re.compile(
    r"\b(?:confidential|internal only|do not (?:share|distribute))\b|(?<![\w.+-])(?!git@)[\w.+-]{1,64}@[\w-]{1,63}\.[a-z]{2,}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Published:
    """An approved draft, and what it became; `replayed` where that had been done before under the
    same key.
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
    """Keep a draft; returns it, whether the key had been used for it before, and what comes next.

    `where` is for a draft that names no target; one that names what isn't there is kept as it is.
    Raises: InputError RECORD_INVALID, SENSITIVE_BLOCKED, RIGHTS_MISSING, IDEMPOTENCY_REPLAY.
    """
    need(acting(library, actor), "draft")
    new = _fresh(draft, where or Placement())

    def work(step: RecordTransaction) -> str:
        kept = _as_its_place(step, new)
        flags = dict.fromkeys((*risks_of(kept, step.get), *kept.risk_flags))
        record = step.make(
            new_id(Draft), replace(kept, risk_flags=tuple(flags), expires=step.now + EXPIRES_MS)
        )
        if actor.name != person_of(actor.name):
            notice_review(
                step,
                record,
                record.body.title,
                notification_texts.DRAFTED.format(name=actor.name, what=NAMES[new.type]),
            )
        return record.id

    done = perform(
        library,
        work,
        actor=actor,
        key=key or fresh_key(),
        action="create_draft",
        payload=payload or repr(draft),
    )
    record = written(library, done.result)
    return record, done.replayed, next_step(library.store.recorded, record)


def approve(
    library: Library,
    draft_id: str,
    *,
    actor: Actor,
    key: str = "",
    target: str = "",
    notes: str = "",
) -> Published:
    """Publish a draft, where it was meant for or into `target`.

    Raises: InputError RECORD_UNKNOWN, RECORD_CHANGED for one that somebody decided about already,
    TARGET_NOT_FOUND, RIGHTS_MISSING, and whatever the record that it becomes is refused for.
    """
    need(acting(library, actor), "approve_draft")
    clashes = _clashes(library, draft_id, target)

    def work(step: RecordTransaction) -> str:
        found = _undecided(step, draft_id)
        draft = _aimed(found.body, target)
        place = destination(step, draft)
        if place.missing:
            raise _nowhere(found.id, draft, place.missing)
        step.author = found.author
        record = publish(step, draft, place.record, library.settings)
        step.author = actor.name
        write_clashes(step, record, clashes)
        _decide(step, found, replace(draft, state=PUBLISHED, published=record.id), notes)
        return found.id

    payload = repr((draft_id, target, notes))
    done = perform(
        library, work, actor=actor, key=key or fresh_key(), action="approve_draft", payload=payload
    )
    kept = written(library, done.result)
    # Sent at once by cortexd, and not taken: the Core's draft stands again
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
    """Decide that a draft isn't published.

    Raises: InputError RECORD_UNKNOWN, RECORD_CHANGED, RIGHTS_MISSING.
    """
    need(acting(library, actor), "reject_draft")

    def work(step: RecordTransaction) -> str:
        found = _undecided(step, draft_id)
        return _decide(step, found, replace(found.body, state=REJECTED), notes).id

    payload = repr((draft_id, notes))
    done = perform(
        library, work, actor=actor, key=key or fresh_key(), action="reject_draft", payload=payload
    )
    return written(library, done.result)


def is_expired(draft: Draft, now: int) -> bool:
    """Whether nobody decided about a draft in time; `now` in milliseconds."""
    return draft.state == EXPIRED or (draft.state == PENDING and 0 < draft.expires <= now)


def state_of(draft: Draft, now: int) -> str:
    """The state of a draft at a moment."""
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
    """The drafts that are in these states (none: in any) now, the newest first; `before` is the
    last one of the page before.

    `wanted` says what else holds for them.
    """
    now = now or now_ms()
    kept = {*states, PENDING} if EXPIRED in states else {*states}
    found: list[Record[Draft]] = []
    for record in pages(library.store.recorded, replace(wanted, states=tuple(kept), before=before)):
        if len(found) == limit:
            break
        if not states or state_of(record.body, now) in states:
            found.append(record)
    return found


def next_step(records: RecordLookup, record: Record[Draft], now: int = 0) -> str:
    """What comes next for a draft, in a sentence or two: that a person decides and where, never by
    which command.
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
        return f"{_KEPT}, but can't be published yet: {place.missing}. The person who decides says where it belongs."
    if place.record is None:
        return f"{_KEPT}: a person decides whether it is published as {NAMES[draft.type]} of no subcortex."
    where = f"{place.record.id} ({one_line(place.record.body.title, 80)})"
    what = (
        f"{where} is changed so"
        if draft.type == "task_update"
        else f"it is published as {NAMES[draft.type]} in {where}"
    )
    return f"{_KEPT}: a person decides whether {what}."


def risks_of(draft: Draft, get: Get) -> tuple[str, ...]:
    """What whoever approves should look at twice."""
    text = "\n".join((draft.title, draft.body, draft.summary, *(value for _, value in draft.patch)))
    refs = (*(one.ref for one in draft.evidence), *draft.citations)
    found = {
        "sensitive_content": draft.sensitivity == SENSITIVE or _PRIVATE.search(text),
        "external_link": _OUTSIDE.search("\n".join((text, *refs))),
        "large_content": len(draft.body) > LARGE_CHARACTERS,
        "missing_evidence": draft.type == "artifact" and not evidence_of(draft, get),
    }
    return tuple(flag for flag, holds in found.items() if holds)


# -- making one
# --------------------------------------------------------------------------------------------------------


def _fresh(draft: Draft, where: Placement) -> Draft:
    """A draft as it is kept: decided about by nobody, and checked as what it would become, too."""
    draft = replace(
        draft,
        title=draft.title.strip() or _title_of(draft),
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
    return draft if draft.target else _routed(draft, where)


def _title_of(draft: Draft) -> str:
    """The first line that says something, without the marks of a heading; of a change what it
    changes.
    """
    lines = (line.lstrip("#>*- \t").strip() for line in draft.body.splitlines())
    changes = ", ".join(f"{field}: {value}" for field, value in draft.patch)
    return one_line(changes or next((line for line in lines if line), ""), TITLE_CHARACTERS)


def _routed(draft: Draft, where: Placement) -> Draft:
    kind = TARGETS[draft.type][0]
    place = {"thread": where.thread, "task": where.task, "subcortex": where.subcortex}[kind]
    return replace(draft, target_kind=kind, target=place) if place else draft


def _as_its_place(step: RecordTransaction, draft: Draft) -> Draft:
    """The draft, sensitive where what it is for is."""
    place = destination(step, draft).record
    private = place is not None and place.body.sensitivity == SENSITIVE
    return replace(draft, sensitivity=SENSITIVE) if private else draft


# -- deciding about one
# ------------------------------------------------------------------------------------------------


def _undecided(step: RecordTransaction, draft_id: str) -> Record[Draft]:
    found: Record[Draft] = resolve_ref(step, draft_id, "draft")
    if found.body.state in (PENDING, EXPIRED):
        return found
    became = f" as {found.body.published}" if found.body.published else ""
    raise InputError(
        "RECORD_CHANGED",
        f"the draft {found.id} is {found.body.state}{became} already",
        context={"id": found.id, "state": found.body.state, "published": found.body.published},
        suggestions=("Nothing is left to decide about it.",),
    )


def _aimed(draft: Draft, target: str) -> Draft:
    """A draft with another target, where one is given."""
    if not (target := target.strip()):
        return draft
    return replace(draft, target=target, target_kind=kind_of_id(target) or TARGETS[draft.type][0])


def _clashes(library: Library, draft_id: str, target: str) -> tuple[Contradiction, ...]:
    """What the record that a draft becomes may contradict; looked for before the step, since it
    asks the index.
    """
    lookup = library.store.recorded
    found: Record[Draft] = resolve_ref(lookup, draft_id, "draft")
    if found.body.type == "task_update" or found.body.state not in (PENDING, EXPIRED):
        return ()
    draft = _aimed(found.body, target)
    return clashes_of(library, body_of(draft, destination(lookup, draft).record, lookup.one))


def _nowhere(draft_id: str, draft: Draft, missing: str) -> InputError:
    return InputError(
        "TARGET_NOT_FOUND",
        f"the draft {draft_id} can't be published: {missing}",
        context={"id": draft_id, "target": draft.target},
        suggestions=(f"Say where it belongs: {_with_target(draft_id, draft)}.",),
    )


def _with_target(draft_id: str, draft: Draft) -> str:
    return f"`cortex drafts approve {draft_id} --target {TARGETS[draft.type][0].upper()}`"


def _decide(
    step: RecordTransaction, found: Record[Draft], body: Draft, notes: str
) -> Record[Draft]:
    """Write what was decided, and tell who drafted it; whoever was to decide needs no reminder any
    more.
    """
    body = checked(
        replace(body, reviewed_by=step.actor.name, reviewed_at=step.now, review_notes=notes)
    )
    kept = step.put(replace(found, body=body))
    close_notices(step, kept.id)
    if kept.author != step.actor.name:
        approved = body.state == PUBLISHED
        body = kept.body  # as plugins let it be written
        why = (notification_texts.PUBLISHED if approved else notification_texts.REJECTED).format(
            name=step.actor.name, what=body.published
        )
        reason = why + (f": {body.review_notes}" if body.review_notes else "")
        type = "draft_approved" if approved else "draft_rejected"
        notice(step, type, kept.author, kept.id, body.title, reason, sensitivity=body.sensitivity)
    return kept


# -- looking at them
# ---------------------------------------------------------------------------------------------------


def pages(lookup: RecordLookup, wanted: RecordFilter, size: int = PAGE) -> Iterator[Record[Any]]:
    """All that are wanted, the newest first, fetched page by page."""
    while page := lookup.select(wanted, size):
        yield from page
        if len(page) < size:
            return
        wanted = replace(wanted, before=page[-1].id)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)
