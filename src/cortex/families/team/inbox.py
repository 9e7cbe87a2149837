"""What waits for somebody: what they should hear of, what they have to do, and what a person has to
judge; the newest first.

Nothing stands here twice: a notification about a draft, a possible contradiction or a task isn't
told beside the thing itself, nor after it is done. Knows neither command nor tool: an entry names
the record to look at next.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from cortex.base.actors import AGENT, PERSON, person
from cortex.base.errors import InputError
from cortex.base.record_model import (
    SENSITIVE,
    Actor,
    Artifact,
    Comment,
    Draft,
    Link,
    Notification,
    Record,
    RecordFilter,
    Task,
)
from cortex.base.text import one_line
from cortex.engine.library import Library
from cortex.engine.store import RecordLookup, RecordTransaction
from cortex.families.team.caveats import absence_of, unsettled
from cortex.families.team.ids import fresh_key
from cortex.families.team.notifications import OPEN, title_of, who
from cortex.families.team.permissions import TIERS, may, need
from cortex.families.team.references import resolve_ref
from cortex.families.team.validation import OPEN_TASK_STATES, refusal
from cortex.families.team.writes.drafts import PENDING, is_expired, now_ms, pages
from cortex.families.team.writes.publish import NAMES, destination
from cortex.families.team.writes.transactions import acting, perform

NOTIFICATIONS, TASKS, REVIEWS = "notifications", "tasks", "reviews"
EVERYTHING = (NOTIFICATIONS, TASKS, REVIEWS)
TO_REVIEW = ("draft", "proposed", "accepted")  # artifacts that a date of review still matters for
CANDIDATE = "candidate"  # a link that nobody has judged
LIMIT = 20
WHY_CHARACTERS = 300
# Agents can't be done with a notification, and one that began today didn't draft what was decided
# last month: what only tells them of something leaves their inbox after two weeks, a sprint. What
# asks for something (a mention, a task) stays.
NEWS = ("draft_approved", "draft_rejected", "thread_update")
NEWS_MS = 14 * 86_400_000


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """Something that waits."""

    id: str  # of the notification, task, draft, artifact or link; the id to go on `before`
    kind: str  # of that record
    # Of a notification; else "task", "blocked", "draft", "review_overdue" or "contradiction"
    type: str
    about: str  # the record that it is about
    title: str
    why: str
    at: int  # milliseconds since 1970
    next: str  # the record to look at next: of a comment its thread
    sensitive: bool = False  # not to be passed on


@dataclass(frozen=True, slots=True)
class Inbox:
    """A page of what waits, and whether there is more."""

    entries: tuple[InboxEntry, ...]
    more: bool


def inbox(
    library: Library,
    recipient: str | None = PERSON,
    include: Sequence[str] = EVERYTHING,
    limit: int = LIMIT,
    before: str = "",
    *,
    now: int = 0,
    decides: bool | None = None,
) -> Inbox:
    """What waits for somebody, or with None for anybody; `before` is the id of the last entry of
    the page before.

    Who doesn't `decide` isn't asked to judge anything: unless it is said, the person at home by
    their tier at the Core.

    Raises: InputError RECORD_INVALID for something to include that isn't known.
    """
    if strange := set(include).difference(EVERYTHING):
        raise refusal(
            "include",
            f"include is any of {', '.join(EVERYTHING)}, not {sorted(strange)[0][:40]!r}",
            EVERYTHING,
        )
    name = who(recipient, library.settings) if recipient else ""
    if decides is None:
        decides = name != PERSON or may(acting(library, person()), "approve_draft")
    look = _Look(library.store.recorded, name, include, before, now or now_ms(), decides)
    absent = library.store.outbox.absent()
    streams = [
        stream
        for name, make in _STREAMS.items()
        if name in include
        for stream in make(look, limit + 1)
    ]
    found: dict[str, InboxEntry] = {}
    for record in heapq.merge(*streams, key=lambda one: one.id[-26:], reverse=True):
        if len(found) > limit:
            break
        if record.id not in found and (entry := _entry(look, record)) is not None:
            marks = absence_of(entry.about, absent)
            found[record.id] = (
                replace(entry, why="; ".join((entry.why, *marks))) if marks else entry
            )
    return Inbox(tuple(found.values())[:limit], len(found) > limit)


def acknowledge(
    library: Library, ids: Sequence[str], *, actor: Actor, key: str = ""
) -> tuple[str, ...]:
    """Be done with notifications; returns those that were open.

    Whoever may edit may do so for others.

    Raises: InputError RECORD_UNKNOWN, RIGHTS_MISSING; then none is changed.
    """
    actor = acting(library, actor)
    need(actor, "acknowledge")

    def work(step: RecordTransaction) -> str:
        found: dict[str, Record[Notification]] = {}
        for ref in ids:
            one: Record[Notification] = resolve_ref(step, ref, "notification")
            _need_own(actor, one)
            if one.body.state in OPEN:
                found[one.id] = one
        for one in found.values():
            step.put(replace(one, body=replace(one.body, state="done")))
        return " ".join(found)

    payload = repr(sorted(ids))
    done = perform(
        library, work, actor=actor, key=key or fresh_key(), action="acknowledge", payload=payload
    )
    return tuple(done.result.split())


def _need_own(actor: Actor, one: Record[Notification]) -> None:
    if one.body.recipient != actor.name and actor.tier < TIERS["edit"]:
        raise InputError(
            "RIGHTS_MISSING",
            f"{one.id} is for {one.body.recipient}, not for {actor.name}",
            context={"action": "acknowledge", "tier": actor.tier, "needed": TIERS["edit"]},
        )


# -- what there is
# -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Look:
    """One look into an inbox."""

    lookup: RecordLookup
    recipient: str
    include: Sequence[str]
    before: str
    now: int
    decides: bool  # whether whoever looks may judge drafts, reviews and contradictions

    @property
    def today(self) -> str:
        return datetime.fromtimestamp(self.now / 1000, UTC).strftime("%Y-%m-%d")

    def get(self, *wanted: RecordFilter, size: int) -> list[Iterator[Record[Any]]]:
        return [pages(self.lookup, replace(one, before=self.before), size) for one in wanted]

    def for_recipient(self, role: str) -> tuple[tuple[str, str], ...]:
        return ((role, self.recipient),) if self.recipient else ()


def _notifications(look: _Look, size: int) -> list[Iterator[Record[Any]]]:
    return look.get(
        RecordFilter(kinds=("notification",), states=OPEN, refs=look.for_recipient("recipient")),
        size=size,
    )


def _tasks(look: _Look, size: int) -> list[Iterator[Record[Any]]]:
    return look.get(
        RecordFilter(kinds=("task",), states=OPEN_TASK_STATES, refs=look.for_recipient("assignee")),
        RecordFilter(kinds=("task",), states=("blocked",)),
        size=size,
    )


def _reviews(look: _Look, size: int) -> list[Iterator[Record[Any]]]:
    if not look.decides:
        return []
    return look.get(
        RecordFilter(kinds=("draft",), states=(PENDING,)),
        RecordFilter(kinds=("artifact",), states=TO_REVIEW, due=look.today),
        RecordFilter(kinds=("link",), states=(CANDIDATE,), refs=(("relation", "contradicts"),)),
        size=size,
    )


_STREAMS = {NOTIFICATIONS: _notifications, TASKS: _tasks, REVIEWS: _reviews}


# -- what it says
# ------------------------------------------------------------------------------------------------------


def _entry(look: _Look, record: Record[Any]) -> InboxEntry | None:
    """What a record says in an inbox; None where another entry says it."""
    match record.body:
        case Notification() as body:
            old = (
                look.recipient == AGENT
                and body.type in NEWS
                and record.created < look.now - NEWS_MS
            )
            return None if old or _is_told(look, body) else _notification_entry(look, record)
        case Task() as body:
            return _own(
                record,
                "blocked" if body.state == "blocked" else "task",
                _why_task(look, body),
                record.updated,
            )
        case Draft() as body:
            flags = f"; look at: {', '.join(body.risk_flags)}" if body.risk_flags else ""
            ask = (
                "approve or reject it"
                if look.recipient in ("", PERSON)
                else "it waits for a person"
            )
            why = f"{record.author} drafted {NAMES[body.type]}{_place_of(look, body)}: {ask}{flags}"
            return (
                None if is_expired(body, look.now) else _own(record, "draft", why, record.created)
            )
        case Artifact() as body:
            return _own(
                record, "review_overdue", f"its review was due on {body.review_by}", record.updated
            )
        case Link() as body:
            return _contradiction(look, record, body) if unsettled(look.lookup, [record]) else None
    return None


def _is_told(look: _Look, body: Notification) -> bool:
    """Whether what a notification asks for stands in the inbox itself, or was done since."""
    about = look.lookup.one(body.about)
    if body.type == "review_needed" and not look.decides:
        return True
    match (body.type, about.body if about else None):
        case ("review_needed", Draft() as draft):
            return REVIEWS in look.include or draft.state != PENDING or is_expired(draft, look.now)
        case ("review_needed", Link() as link):
            return (
                REVIEWS in look.include
                or link.state != CANDIDATE
                or not (about and unsettled(look.lookup, [about]))
            )
        case ("task_assigned", Task() as task):
            return task.state not in OPEN_TASK_STATES or (
                TASKS in look.include and body.recipient in task.assignees
            )
    return False


def _notification_entry(look: _Look, record: Record[Notification]) -> InboxEntry:
    body = record.body
    about = look.lookup.one(body.about)
    place = about.body.thread if about and isinstance(about.body, Comment) else body.about
    private = SENSITIVE in (body.sensitivity, about.body.sensitivity if about else "")
    title = (
        title_of(about) if private and about and not isinstance(about.body, Link) else body.title
    )
    return InboxEntry(
        record.id,
        record.kind,
        body.type,
        body.about,
        title,
        body.reason,
        record.created,
        place,
        private,
    )


def _own(record: Record[Any], type: str, why: str, at: int) -> InboxEntry:
    private = record.body.sensitivity == SENSITIVE
    return InboxEntry(
        record.id, record.kind, type, record.id, record.body.title, why, at, record.id, private
    )


def _place_of(look: _Look, draft: Draft) -> str:
    """Where a draft would go, in the words of that place."""
    there = destination(look.lookup, draft)
    if there.record is None:
        return " that has no place yet" if there.missing else ""
    return (
        f"{',' if draft.type == 'task_update' else ' in'} {one_line(there.record.body.title, 80)}"
    )


def _why_task(look: _Look, body: Task) -> str:
    mine = look.recipient in body.assignees
    whose = (
        "it is assigned to you"
        if mine
        else f"it is assigned to {', '.join(body.assignees) or 'nobody'}"
    )
    blocked = f": {body.blocked_reason or 'nobody says why'}" if body.state == "blocked" else ""
    return one_line(f"{whose}, {body.priority} priority, {body.state}{blocked}", WHY_CHARACTERS)


def _contradiction(look: _Look, record: Record[Link], body: Link) -> InboxEntry:
    ends = look.lookup.get((body.source, body.target))
    titles = [ends[end].body.title if end in ends else end for end in (body.source, body.target)]
    title = one_line(f"{titles[0]} may contradict {titles[1]}", WHY_CHARACTERS)
    return replace(
        _own(record, "contradiction", body.note or "a possible contradiction", record.created),
        title=title,
    )
