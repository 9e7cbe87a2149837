"""A thread and its comments: the rolling summary, renewed in the step of each comment.

A summary that somebody supplied stays, and what was said since stands below it. Sentences of
sensitive comments stay out of the summary of a thread that isn't sensitive, and so does a summary
that came with one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from cortex.base.record_model import SENSITIVE, Comment, Record, RecordFilter, Thread
from cortex.engine.store import RecordTransaction
from cortex.families.team.validation import SUMMARY, checked
from cortex.families.team.writes.summarizer import Said, summarize

MOST_COMMENTS = 500  # of a thread that are read for its summary, the newest
SINCE = "\n\nSince then:\n"  # between a supplied summary and the sentences of what was said later


def supply_summary(thread: Record[Thread], summary: str, by: str) -> Thread:
    """The thread with a summary that somebody wrote.

    Raises: InputError RECORD_INVALID, SENSITIVE_BLOCKED.
    """
    return checked(replace(thread.body, summary=summary, summary_by=by))


def comments_of(step: RecordTransaction, thread: str) -> list[Record[Comment]]:
    """The newest comments of a thread, in their order."""
    return step.select(RecordFilter(kinds=("comment",), refs=(("thread", thread),)), MOST_COMMENTS)[
        ::-1
    ]


def renew_summary(
    step: RecordTransaction,
    thread: Record[Thread],
    comment: Record[Comment] | None = None,
    supplied: Thread | None = None,
) -> list[str]:
    """Have the summary of a thread follow a comment, or what the thread says now; gives who has
    spoken there.
    """
    comments = comments_of(step, thread.id)
    if supplied and comment:
        after = replace(supplied, summary_sources=(comment.id,))
    else:
        after = _summarized(thread, comments, _is_supplied(step, thread.body))
    if after != thread.body:
        step.put(replace(thread, body=after), "summarize")
    return list(dict.fromkeys(one.author for one in comments))


def _is_supplied(step: RecordTransaction, body: Thread) -> bool:
    """Whether a thread has a summary that somebody wrote, and all who see the thread may read it."""
    if not body.summary_by or not body.summary_sources:
        return False
    with step.unconfined():
        said = step.get(body.summary_sources[0])
    return body.sensitivity == SENSITIVE or said is None or said.body.sensitivity != SENSITIVE


def _summarized(thread: Record[Thread], comments: list[Record[Comment]], supplied: bool) -> Thread:
    body = thread.body
    private = body.sensitivity == SENSITIVE
    heard = [comment for comment in comments if private or comment.body.sensitivity != SENSITIVE]
    if supplied:
        return _carried_on(body, heard)
    summary = summarize(body.title, _said([*([thread] if body.body else []), *heard]))
    return replace(body, summary=summary.text, summary_sources=summary.sources, summary_by="")


def _carried_on(body: Thread, comments: list[Record[Comment]]) -> Thread:
    """A supplied summary, and what was said since in as much room as it leaves."""
    base, first = body.summary.partition(SINCE)[0], body.summary_sources[0]
    summary = summarize(
        body.title, _said([comment for comment in comments if comment.id[-26:] > first[-26:]])
    )
    lines = summary.text.splitlines()
    while lines and len(base) + len(SINCE) + len("\n".join(lines)) > SUMMARY:
        lines.pop(0)
    kept = [number for number in summary.sources if any(f"[{number}]" in line for line in lines)]
    text = base + SINCE + "\n".join(lines) if lines else base
    return replace(body, summary=text, summary_sources=(first, *kept))


def _said(records: Sequence[Record[Any]]) -> list[Said]:
    """What was said, in the order it was written: a clock that was put back makes nothing earlier
    than what it answers.
    """
    moments = accumulate((record.created for record in records), max)
    return [
        Said(one.id, one.author, at, one.body.body)
        for one, at in zip(records, moments, strict=True)
    ]
