"""Rolling summary of a thread, renewed in the transaction of each comment.

A summary that a person or an agent supplied stays, and later sentences are appended to it.
Sentences of sensitive comments, and a summary that came with one, are kept out of the summary of a
thread that isn't sensitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from cortex.base.record_model import (
    SENSITIVE,
    SUMMARY_CHARACTERS,
    Comment,
    Record,
    RecordFilter,
    Thread,
)
from cortex.engine.store import RecordTransaction
from cortex.families.team.validation import checked
from cortex.families.team.writes.summarizer import Statement, summarize

# Newest comments of a thread that are read for its summary.
MOST_COMMENTS = 500
# Separates a supplied summary from the sentences of later comments.
SINCE = "\n\nSince then:\n"


def supply_summary(thread: Record[Thread], summary: str, by: str) -> Thread:
    """Return the thread's body with a supplied summary.

    Raises: InputError RECORD_INVALID, SENSITIVE_BLOCKED.
    """
    return checked(replace(thread.body, summary=summary, summary_by=by))


def comments_of(step: RecordTransaction, thread: str) -> list[Record[Comment]]:
    """Return the newest comments of a thread, oldest first."""
    return step.select(RecordFilter(kinds=("comment",), refs=(("thread", thread),)), MOST_COMMENTS)[
        ::-1
    ]


def renew_summary(
    step: RecordTransaction,
    thread: Record[Thread],
    comment: Record[Comment] | None = None,
    supplied: Thread | None = None,
) -> list[str]:
    """Update the summary of a thread after a comment or a change; returns the comments' authors."""
    comments = comments_of(step, thread.id)
    if supplied and comment:
        after = replace(supplied, summary_sources=(comment.id,))
    else:
        after = _summarized(thread, comments, _is_supplied(step, thread.body))
    if after != thread.body:
        step.put(replace(thread, body=after), "summarize")
    return list(dict.fromkeys(record.author for record in comments))


def _is_supplied(step: RecordTransaction, body: Thread) -> bool:
    """True for a supplied summary that every reader of the thread may see."""
    if not body.summary_by or not body.summary_sources:
        return False
    with step.unconfined():
        source = step.get(body.summary_sources[0])
    return body.sensitivity == SENSITIVE or source is None or source.body.sensitivity != SENSITIVE


def _summarized(thread: Record[Thread], comments: list[Record[Comment]], supplied: bool) -> Thread:
    """Return the thread's body with a summary of the comments that its readers may see."""
    body = thread.body
    is_sensitive = body.sensitivity == SENSITIVE
    visible = [
        comment for comment in comments if is_sensitive or comment.body.sensitivity != SENSITIVE
    ]
    if supplied:
        return _extend_supplied(body, visible)
    summary = summarize(body.title, _statements([*([thread] if body.body else []), *visible]))
    return replace(body, summary=summary.text, summary_sources=summary.sources, summary_by="")


def _extend_supplied(body: Thread, comments: list[Record[Comment]]) -> Thread:
    """Keep a supplied summary, and append later sentences in the space that it leaves."""
    base, first_source = body.summary.partition(SINCE)[0], body.summary_sources[0]
    summary = summarize(
        body.title,
        _statements([comment for comment in comments if comment.id[-26:] > first_source[-26:]]),
    )
    lines = summary.text.splitlines()
    while lines and len(base) + len(SINCE) + len("\n".join(lines)) > SUMMARY_CHARACTERS:
        lines.pop(0)
    kept = [source for source in summary.sources if any(f"[{source}]" in line for line in lines)]
    text = base + SINCE + "\n".join(lines) if lines else base
    return replace(body, summary=text, summary_sources=(first_source, *kept))


def _statements(records: Sequence[Record[Any]]) -> list[Statement]:
    """Convert records to statements with non-decreasing times.

    A clock that was set back doesn't move a comment before the one that it answers.
    """
    times = accumulate((record.created for record in records), max)
    return [
        Statement(record.id, record.author, time_ms, record.body.body)
        for record, time_ms in zip(records, times, strict=True)
    ]
