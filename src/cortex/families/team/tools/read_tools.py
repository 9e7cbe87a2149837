"""Read tools: thread, artifact and inbox.

Rows are defined in `row_views`, budgets in `render`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import FOUND_KINDS, Artifact, Comment, Record, RecordFilter, Thread
from cortex.base.text import TOKEN_CHARACTERS
from cortex.engine.library import Library
from cortex.engine.store import RecordQueries, kind_of_id
from cortex.families.team.caveats import absence_of, warnings_of
from cortex.families.team.inbox import EVERYTHING, InboxEntry, inbox
from cortex.families.team.references import resolve_ref
from cortex.families.team.tools import render
from cortex.families.team.tools.arguments import GetArtifact, GetInbox, GetThread
from cortex.families.team.tools.offline_notice import sync_warnings
from cortex.families.team.tools.render import (
    RenderedSlot,
    Row,
    call_text,
    chosen_budget,
    without_empty,
)
from cortex.families.team.tools.row_views import Slug, comment_row, record_row, short_row
from cortex.families.team.tools.session import TeamSession
from cortex.toolkit.pagination import make_cursor, read_cursor
from cortex.toolkit.tool import Answer, Call

BUDGET, MOST_BUDGET = 4_000, 32_000  # tokens
# Newest comments of a thread that are considered.
COMMENTS = 1_000
LINKED = 20
# Inbox entries after a page that are counted.
LOOK_AHEAD = 50
# Newest comments that are shown even if nothing refers to them.
NEWEST = 2
# No comment takes more than this fraction of the answer.
COMMENT_SHARE = 6


def get_thread(context: TeamSession, arguments: GetThread, call: Call) -> Answer:
    """Return a thread with its summary and its most important comments."""
    budget = chosen_budget(arguments.budget, arguments.max_chars, BUDGET, MOST_BUDGET)
    with context.open() as library:
        lookup = library.store.records
        thread = _resolve_thread(lookup, arguments.thread_id)
        key = repr((thread.id, arguments.comment_mode))
        offset = read_cursor(key, arguments.cursor)
        comments = lookup.select(
            RecordFilter(kinds=("comment",), refs=(("thread", thread.id),)), COMMENTS
        )
        chosen = chosen_comments(thread, comments, arguments.comment_mode)
        total = lookup.count(RecordFilter(kinds=("comment",), refs=(("thread", thread.id),)))
        head = record_row(thread, slug_of(library), warnings_of(library, thread, now()))
        linked = linked_rows(library, thread)
        absent = library.store.outbox.absent()
    if offset:
        head = {name: head[name] for name in ("id", "title", "state")}
    head["comment_count"] = total
    most = budget * TOKEN_CHARACTERS // COMMENT_SHARE
    shown = chosen[offset:]
    slots = [
        RenderedSlot(
            "comments",
            [comment_row(comment, most, absence_of(comment.id, absent)) for comment in shown],
            3,
        ),
        RenderedSlot("linked", [] if offset else linked, 1),
    ]

    def cursor(count: int) -> str:
        return make_cursor(key, offset + count)

    def more(after: str) -> str:
        return call_text(
            "get_thread", thread_id=thread.id, comment_mode=arguments.comment_mode, cursor=after
        )

    others = (
        call_text("get_thread", thread_id=thread.id, comment_mode="recent")
        if total > len(chosen)
        else ""
    )
    text = render.slots_text(
        without_empty(head), slots, budget, next_call=others, more_call=more, cursor=cursor
    )
    return Answer(text)


def _resolve_thread(lookup: RecordQueries, ref: str) -> Record[Thread]:
    """Return the thread with this id, or of the comment with this id.

    Raises: InputError RECORD_UNKNOWN.
    """
    if kind_of_id(ref) == "comment":
        ref = resolve_ref(lookup, ref, "comment").body.thread
    return resolve_ref(lookup, ref, "thread")


def chosen_comments(
    thread: Record[Thread], comments: Sequence[Record[Comment]], mode: str
) -> list[Record[Comment]]:
    """Select the comments to show, most important first.

    With `referenced` these are comments that something refers to, and the newest; otherwise all. A
    comment is referred to by the summary, by replies and by citations.
    """
    if mode == "recent":
        return list(comments)
    weights: Counter[str] = Counter(thread.body.summary_sources)
    for comment in comments:
        weights.update((comment.body.parent, *comment.body.citations))
    newest = {comment.id for comment in comments[:NEWEST]}
    if mode == "referenced":
        comments = [comment for comment in comments if weights[comment.id] or comment.id in newest]
    # Stable sort: newest first among equals.
    return sorted(comments, key=lambda comment: -weights[comment.id])


def linked_rows(library: Library, record: Record[Any]) -> list[Row]:
    """Return short rows of the records that link or refer to a record."""
    lookup = library.store.records
    rows: dict[str, Row] = {}
    absent = library.store.outbox.absent()
    links = [link.body for link in lookup.links([record.id]) if link.body.state == "confirmed"]
    ends = lookup.get([end for link in links for end in (link.source, link.target)])
    for link in links:
        other_id = link.target if link.source == record.id else link.source
        if other_id in ends:
            relation = link.relation if link.source == record.id else f"{link.relation} this"
            rows[other_id] = {
                **short_row(ends[other_id], absence_of(other_id, absent)),
                "relation": relation,
            }
    around = lookup.pointing([record.id], ("evidence", "citation", "supersedes"), LINKED)
    for kind in ("task", "observation"):
        around += lookup.select(
            RecordFilter(kinds=(kind,), refs=((record.kind, record.id),)), LINKED
        )
    for other in around:
        if other.kind in FOUND_KINDS and other.kind != "comment":
            rows.setdefault(other.id, short_row(other, absence_of(other.id, absent)))
    rows.pop(record.id, None)
    return list(rows.values())[:LINKED]


def get_artifact(context: TeamSession, arguments: GetArtifact, call: Call) -> Answer:
    """Return the current or an earlier version of an artifact."""
    budget = chosen_budget(arguments.budget, arguments.max_chars, BUDGET, MOST_BUDGET)
    with context.open() as library:
        current: Record[Artifact] = resolve_ref(
            library.store.records, arguments.artifact_id, "artifact"
        )
        shown = _version(library, current, arguments.version)
        key = repr((shown.id, shown.version))
        offset = read_cursor(key, arguments.cursor)
        head = record_row(shown, slug_of(library), warnings_of(library, current, now()))
        head.pop("text", None)
        if shown.version != current.version:
            head["current_version"] = current.version
        if linked := linked_rows(library, current):
            head["linked"] = linked
    if offset:
        head = {name: head[name] for name in ("id", "title", "version")}

    def more(after: str) -> str:
        return call_text(
            "get_artifact", artifact_id=shown.id, version=arguments.version, cursor=after
        )

    body = shown.body.body
    successor = (
        call_text("get_artifact", artifact_id=shown.body.superseded_by)
        if shown.body.superseded_by
        else ""
    )
    text = render.paged_text(
        head,
        "body",
        body,
        offset,
        budget,
        cursor=partial(make_cursor, key),
        more_call=more,
        next_call=successor,
    )
    return Answer(text)


def _version(library: Library, current: Record[Artifact], version: int | None) -> Record[Artifact]:
    """Return a version of an artifact. Raises: InputError RECORD_UNKNOWN."""
    if version is None or version == current.version:
        return current
    known = library.store.records.versions(current.id)
    if version not in known:
        raise InputError(
            "RECORD_UNKNOWN",
            f"{current.id} has no version {version}: it has 1 to {current.version}",
            context={"id": current.id, "version": current.version},
        )
    return known[version]


def get_inbox(context: TeamSession, arguments: GetInbox, call: Call) -> Answer:
    """Return the inbox of the agent and the person that it works for."""
    budget = chosen_budget(arguments.budget, arguments.max_chars, BUDGET, MOST_BUDGET)
    if arguments.cursor and not kind_of_id(arguments.cursor):
        raise InputError("CURSOR_INVALID", "this cursor does not belong to the inbox")
    with context.open() as library:
        waiting = _inbox_entries(library, context.actor.name, arguments)
        warnings = sync_warnings(library)
    entries = waiting[: arguments.limit]
    slot = RenderedSlot(
        "entries", [_entry_row(entry) for entry in entries], left=len(waiting) - len(entries)
    )
    following = open_call(entries[0].next) if entries else ""

    def more(after: str) -> str:
        return call_text("get_inbox", include=list(arguments.include or ()), cursor=after)

    head: Row = without_empty({"note": "" if entries else "nothing waits", "warnings": warnings})
    text = render.slots_text(
        head,
        [slot],
        budget,
        next_call=following,
        more_call=more,
        cursor=lambda count: entries[count - 1].id if count else "",
    )
    return Answer(text)


def _inbox_entries(library: Library, name: str, arguments: GetInbox) -> list[InboxEntry]:
    """Return a page of entries and some that follow: actionable ones, then reviews."""
    after, entries = arguments.cursor or "", list[InboxEntry]()
    is_review = kind_of_id(after) in ("draft", "artifact", "link")
    for part, is_past in ((("notifications", "tasks"), is_review), (("reviews",), False)):
        include = [section for section in part if section in (arguments.include or EVERYTHING)]
        if include and not is_past:
            before = after if is_review == (part == ("reviews",)) else ""
            entries += inbox(
                library, name, include=include, limit=arguments.limit + LOOK_AHEAD, before=before
            ).entries
    return entries


def _entry_row(entry: InboxEntry) -> Row:
    """Return the row of an inbox entry."""
    return without_empty(
        {
            "id": entry.id,
            "type": entry.type or entry.kind,
            "about": entry.about if entry.about != entry.id else "",
            "title": render.cut(entry.title, 160),
            "why": entry.why,
            "age": render.age_of(entry.at),
            "open": entry.next if entry.next not in (entry.about, entry.id) else "",
            "sensitive": entry.sensitive,
        }
    )


def open_call(record_id: str) -> str:
    """Return the call that opens a record."""
    match kind_of_id(record_id):
        case "thread":
            return call_text("get_thread", thread_id=record_id)
        case "artifact":
            return call_text("get_artifact", artifact_id=record_id)
        case "task":
            return call_text("get_context_pack", subject={"task_id": record_id})
    return call_text("get_context_pack", subject={"ref": record_id})


def slug_of(library: Library) -> Slug:
    """Return the function that maps the id of a subcortex to its slug."""

    def slug(record_id: str) -> str:
        record = library.store.records.one(record_id) if record_id else None
        return record.body.slug if record else record_id

    return slug


def now() -> int:
    """Return milliseconds since 1970."""
    return int(time.time() * 1000)
