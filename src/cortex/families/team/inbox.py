"""Inbox of a person or an agent: notifications, tasks and reviews, newest first.

Nothing is listed twice: a notification about a draft, a possible contradiction or a task is left
out if the record itself is listed, or is done. Knows neither commands nor tools: an entry names the
record to open next.
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
    OPEN_TASK_STATES,
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
from cortex.engine.store import RecordQueries, RecordTransaction
from cortex.families.team.caveats import absence_of, unsettled
from cortex.families.team.ids import fresh_key
from cortex.families.team.notifications import OPEN, resolve_name, title_of
from cortex.families.team.permissions import TIERS, may, need
from cortex.families.team.references import resolve_ref
from cortex.families.team.validation import refusal
from cortex.families.team.writes.drafts import PENDING, is_expired, now_ms, pages
from cortex.families.team.writes.publish import NAMES, destination
from cortex.families.team.writes.transactions import effective_actor, perform

NOTIFICATIONS, TASKS, REVIEWS = "notifications", "tasks", "reviews"
EVERYTHING = (NOTIFICATIONS, TASKS, REVIEWS)
# States of artifacts with a review date that still matters.
TO_REVIEW = ("draft", "proposed", "accepted")
# A link that was not judged yet.
CANDIDATE = "candidate"
LIMIT = 20
WHY_CHARACTERS = 300
# Agents can't close notifications, and an agent that started today didn't draft last month's
# decisions. So informational notifications leave their inbox after two weeks, a sprint. Requests (a
# mention, a task) stay.
NEWS = ("draft_approved", "draft_rejected", "thread_update")
NEWS_MS = 14 * 86_400_000


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """An item of an inbox."""

    # Of the notification, task, draft, artifact or link; also the cursor for `before`.
    id: str
    # Kind of that record.
    kind: str
    # Of a notification; else "task", "blocked", "draft", "review_overdue" or "contradiction".
    type: str
    # The record that it is about.
    about: str
    title: str
    why: str
    # Milliseconds since 1970.
    at: int
    # The record to open next: for a comment its thread.
    next: str
    # Must not be passed on.
    sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Inbox:
    """A page of an inbox; `more` is true if there is another one."""

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
    """Return the inbox of a recipient, or everything if it is None.

    `before` is the id of the last entry of the previous page. Without `decides` there are no
    reviews; by default the local person decides according to their tier at the Core.

    Raises: InputError RECORD_INVALID for an unknown section in `include`.
    """
    if unknown := set(include).difference(EVERYTHING):
        raise refusal(
            "include",
            f"include is any of {', '.join(EVERYTHING)}, not {sorted(unknown)[0][:40]!r}",
            EVERYTHING,
        )
    name = resolve_name(recipient, library.settings) if recipient else ""
    if decides is None:
        decides = name != PERSON or may(effective_actor(library, person()), "approve_draft")
    view = _Look(library.store.records, name, include, before, now or now_ms(), decides)
    absent = library.store.outbox.absent()
    streams = [
        stream
        for name, make in _STREAMS.items()
        if name in include
        for stream in make(view, limit + 1)
    ]
    entries: dict[str, InboxEntry] = {}
    for record in heapq.merge(*streams, key=lambda item: item.id[-26:], reverse=True):
        if len(entries) > limit:
            break
        if record.id not in entries and (entry := _make_entry(view, record)) is not None:
            marks = absence_of(entry.about, absent)
            entries[record.id] = (
                replace(entry, why="; ".join((entry.why, *marks))) if marks else entry
            )
    return Inbox(tuple(entries.values())[:limit], len(entries) > limit)


def acknowledge(
    library: Library, ids: Sequence[str], *, actor: Actor, key: str = ""
) -> tuple[str, ...]:
    """Close notifications; returns the ids of those that were open.

    An actor with the permission to edit may close those of others, too.

    Raises: InputError RECORD_UNKNOWN, RIGHTS_MISSING; then none is changed.
    """
    actor = effective_actor(library, actor)
    need(actor, "acknowledge")

    def work(step: RecordTransaction) -> str:
        open_notices: dict[str, Record[Notification]] = {}
        for ref in ids:
            record: Record[Notification] = resolve_ref(step, ref, "notification")
            _need_own(actor, record)
            if record.body.state in OPEN:
                open_notices[record.id] = record
        for record in open_notices.values():
            step.put(replace(record, body=replace(record.body, state="done")))
        return " ".join(open_notices)

    payload = repr(sorted(ids))
    done = perform(
        library, work, actor=actor, key=key or fresh_key(), action="acknowledge", payload=payload
    )
    return tuple(done.result.split())


def _need_own(actor: Actor, record: Record[Notification]) -> None:
    """Check that a notification is the actor's own. Raises: InputError RIGHTS_MISSING."""
    if record.body.recipient != actor.name and actor.tier < TIERS["edit"]:
        raise InputError(
            "RIGHTS_MISSING",
            f"{record.id} is for {record.body.recipient}, not for {actor.name}",
            context={"action": "acknowledge", "tier": actor.tier, "needed": TIERS["edit"]},
        )


# -- sources


@dataclass(frozen=True, slots=True)
class _Look:
    """One request for an inbox."""

    lookup: RecordQueries
    recipient: str
    include: Sequence[str]
    before: str
    now: int
    # The recipient may judge drafts, reviews and contradictions.
    decides: bool

    @property
    def today(self) -> str:
        """Date of the request, for review dates."""
        return datetime.fromtimestamp(self.now / 1000, UTC).strftime("%Y-%m-%d")

    def get(self, *wanted: RecordFilter, size: int) -> list[Iterator[Record[Any]]]:
        """Page through the records of each filter, after the cursor."""
        return [
            pages(self.lookup, replace(filter_, before=self.before), size) for filter_ in wanted
        ]

    def for_recipient(self, role: str) -> tuple[tuple[str, str], ...]:
        """Reference filter for the recipient; empty for everything."""
        return ((role, self.recipient),) if self.recipient else ()


def _notifications(view: _Look, size: int) -> list[Iterator[Record[Any]]]:
    return view.get(
        RecordFilter(kinds=("notification",), states=OPEN, refs=view.for_recipient("recipient")),
        size=size,
    )


def _tasks(view: _Look, size: int) -> list[Iterator[Record[Any]]]:
    return view.get(
        RecordFilter(kinds=("task",), states=OPEN_TASK_STATES, refs=view.for_recipient("assignee")),
        RecordFilter(kinds=("task",), states=("blocked",)),
        size=size,
    )


def _reviews(view: _Look, size: int) -> list[Iterator[Record[Any]]]:
    if not view.decides:
        return []
    return view.get(
        RecordFilter(kinds=("draft",), states=(PENDING,)),
        RecordFilter(kinds=("artifact",), states=TO_REVIEW, due=view.today),
        RecordFilter(kinds=("link",), states=(CANDIDATE,), refs=(("relation", "contradicts"),)),
        size=size,
    )


_STREAMS = {NOTIFICATIONS: _notifications, TASKS: _tasks, REVIEWS: _reviews}


# -- entries


def _make_entry(view: _Look, record: Record[Any]) -> InboxEntry | None:
    """Return the entry of a record; None if another entry covers it."""
    match record.body:
        case Notification() as body:
            old = (
                view.recipient == AGENT
                and body.type in NEWS
                and record.created < view.now - NEWS_MS
            )
            return None if old or _is_covered(view, body) else _notification_entry(view, record)
        case Task() as body:
            return _record_entry(
                record,
                "blocked" if body.state == "blocked" else "task",
                _describe_task(view, body),
                record.updated,
            )
        case Draft() as body:
            flags = f"; look at: {', '.join(body.risk_flags)}" if body.risk_flags else ""
            ask = (
                "approve or reject it"
                if view.recipient in ("", PERSON)
                else "it waits for a person"
            )
            why = (
                f"{record.author} drafted {NAMES[body.type]}{_describe_target(view, body)}: "
                f"{ask}{flags}"
            )
            return (
                None
                if is_expired(body, view.now)
                else _record_entry(record, "draft", why, record.created)
            )
        case Artifact() as body:
            return _record_entry(
                record, "review_overdue", f"its review was due on {body.review_by}", record.updated
            )
        case Link() as body:
            return (
                _contradiction_entry(view, record, body)
                if unsettled(view.lookup, [record])
                else None
            )
    return None


def _is_covered(view: _Look, body: Notification) -> bool:
    """True if the subject of a notification is listed itself, or was done since."""
    about = view.lookup.one(body.about)
    if body.type == "review_needed" and not view.decides:
        return True
    match (body.type, about.body if about else None):
        case ("review_needed", Draft() as draft):
            return REVIEWS in view.include or draft.state != PENDING or is_expired(draft, view.now)
        case ("review_needed", Link() as link):
            return (
                REVIEWS in view.include
                or link.state != CANDIDATE
                or not (about and unsettled(view.lookup, [about]))
            )
        case ("task_assigned", Task() as task):
            return task.state not in OPEN_TASK_STATES or (
                TASKS in view.include and body.recipient in task.assignees
            )
    return False


def _notification_entry(view: _Look, record: Record[Notification]) -> InboxEntry:
    """Return the entry of a notification, which opens the record that it is about."""
    body = record.body
    about = view.lookup.one(body.about)
    place = about.body.thread if about and isinstance(about.body, Comment) else body.about
    is_sensitive = SENSITIVE in (body.sensitivity, about.body.sensitivity if about else "")
    title = (
        title_of(about)
        if is_sensitive and about and not isinstance(about.body, Link)
        else body.title
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
        is_sensitive,
    )


def _record_entry(record: Record[Any], type: str, why: str, at: int) -> InboxEntry:
    """Return the entry of a record that is listed for itself."""
    is_sensitive = record.body.sensitivity == SENSITIVE
    return InboxEntry(
        record.id, record.kind, type, record.id, record.body.title, why, at, record.id, is_sensitive
    )


def _describe_target(view: _Look, draft: Draft) -> str:
    """Describe the destination of a draft by its title."""
    target = destination(view.lookup, draft)
    if target.record is None:
        return " that has no place yet" if target.missing else ""
    return (
        f"{',' if draft.type == 'task_update' else ' in'} {one_line(target.record.body.title, 80)}"
    )


def _describe_task(view: _Look, body: Task) -> str:
    """Describe the assignment and state of a task."""
    is_mine = view.recipient in body.assignees
    assignment = (
        "it is assigned to you"
        if is_mine
        else f"it is assigned to {', '.join(body.assignees) or 'nobody'}"
    )
    blocked = f": {body.blocked_reason or 'nobody says why'}" if body.state == "blocked" else ""
    return one_line(
        f"{assignment}, {body.priority} priority, {body.state}{blocked}", WHY_CHARACTERS
    )


def _contradiction_entry(view: _Look, record: Record[Link], body: Link) -> InboxEntry:
    """Return the entry of a possible contradiction, titled by both records."""
    ends = view.lookup.get((body.source, body.target))
    titles = [ends[end].body.title if end in ends else end for end in (body.source, body.target)]
    title = one_line(f"{titles[0]} may contradict {titles[1]}", WHY_CHARACTERS)
    return replace(
        _record_entry(
            record, "contradiction", body.note or "a possible contradiction", record.created
        ),
        title=title,
    )
