"""Changing a record, whichever it is: read and written in one step, by the states of its kind, and
without losing anybody else's change.

A change is a function from what a record says now to what it shall say; what follows from it
(summary, notifications, what belongs to it and becomes sensitive with it) is written in the same
step. Nothing is ever removed. Which changes have a name is told in `changing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from cortex.base.actors import need_person
from cortex.base.errors import InputError
from cortex.base.record_model import (
    NORMAL,
    SENSITIVE,
    Actor,
    Artifact,
    Comment,
    Link,
    Record,
    RecordFilter,
    Subcortex,
    Task,
    Thread,
)
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction
from cortex.families.team.contradictions.detect import clashes_of, write_clashes
from cortex.families.team.ids import fresh_key
from cortex.families.team.notifications import close_notices, notice_accepted, notice_task
from cortex.families.team.permissions import TIERS, need
from cortex.families.team.references import resolve_ref, resolved
from cortex.families.team.validation import OPEN_TASK_STATES, check_move, checked, refusal
from cortex.families.team.writes.create import Created, need_sensitive
from cortex.families.team.writes.discussion import renew_summary
from cortex.families.team.writes.supersession import check_supersedes, write_superseded
from cortex.families.team.writes.transactions import perform, written

Change = Callable[[Any], Any]

# In which notifications, links and drafts name what they are about
_TELLING = ("about", "source", "target")
_BATCH = 500  # records that follow what they belong to, read at once


def revise(
    library: Library,
    record_id: str,
    change: Change,
    *,
    actor: Actor,
    action: str,
    key: str = "",
    version: int | None = None,
    payload: str = "",
) -> Record[Any]:
    """Change a record; `version` is the one that the change was made for, None: whichever there is.

    `action` says what is done, and so who may do it; one that has no right of its own is an edit.
    With a key of the caller's, `payload` says what the change is, which is made twice: first to
    look for what it contradicts; but not again for a key that is known, since what it takes away is
    gone by then. Raises: InputError RECORD_UNKNOWN, RECORD_CHANGED, RECORD_INVALID,
    SENSITIVE_BLOCKED, RIGHTS_MISSING, TARGET_NOT_FOUND, SCOPE_NOT_FOUND, IDEMPOTENCY_REPLAY.
    """
    asked = payload or repr((record_id, version))
    before = resolve_ref(library.store.recorded, record_id)
    known = key and library.store.records.known(actor, key, action, asked)
    clashes = () if known else clashes_of(library, change(before.body), before)

    def work(step: RecordTransaction) -> str:
        record = revise_in(step, before.id, change, action, version=version)
        write_clashes(step, record, clashes)
        return record.id

    return carry_out(library, work, actor=actor, key=key, action=action, payload=asked).record


def revise_in(
    step: RecordTransaction,
    record_id: str,
    change: Change,
    action: str,
    *,
    version: int | None = None,
    kind: str = "",
) -> Record[Any]:
    """Change a record inside a step; one that says the same as before stays as it is."""
    record = resolve_ref(step, record_id, kind)
    before = record.body
    right = action if action in TIERS else "edit"
    need(step.actor, "edit_subcortex" if isinstance(before, Subcortex) else right)
    if version is not None and version != record.version:
        raise InputError(
            "RECORD_CHANGED",
            f"{record.id} was changed meanwhile: it has version {record.version} now, not {version}",
            context={"id": record.id, "version": record.version},
        )
    after = change(before)
    if type(after) is not type(before):
        raise TypeError(f"a {type(before).__name__} stays one")
    after = resolved(step, checked(after), before)
    if after == before:
        return record
    check_move(before, after)
    check_kept(before, after)
    need_sensitive(step, after)
    if isinstance(after, Artifact):
        _need_decision(step, before, after)
    if isinstance(after, Artifact) and after.state == "accepted" != before.state:
        written = _accept(step, replace(record, body=replace(after, last_reviewed=step.now)))
    else:
        written = step.put(replace(record, body=after))
    follow(step, before, written)
    return written


def _need_decision(step: RecordTransaction, before: Any, after: Artifact) -> None:
    """Have a person decide what changes an accepted artifact, or puts one out of use."""
    if after.state == "deprecated" != before.state:
        need_person(step.actor, "deprecate_artifact")
    elif before.state == "accepted":
        need_person(step.actor, "edit_accepted")


def _accept(step: RecordTransaction, record: Record[Artifact]) -> Record[Artifact]:
    """Write an artifact that is accepted now; what it says that it supersedes is superseded with
    that.
    """
    need(step.actor, "accept_artifact")
    old = step.get(record.body.supersedes) if record.body.supersedes else None
    if old is not None and old.body.superseded_by != record.id:
        check_supersedes(step, old, record)
    written = step.put(record)
    if old is not None and old.body.superseded_by != record.id:
        write_superseded(step, old, written)
    notice_accepted(step, written)
    return written


def check_kept(before: Any, after: Any) -> None:
    """What a change may not touch. Raises: InputError RECORD_INVALID."""
    match after:
        case Subcortex() if after.slug != before.slug:
            raise refusal("slug", "the slug of a subcortex stays: others name it by that")
        case Comment() if after.thread != before.thread or after.parent != before.parent:
            raise refusal("thread", "a comment stays in its thread")
        case Link() if (after.source, after.relation, after.target) != (
            before.source,
            before.relation,
            before.target,
        ):
            raise refusal(
                "target", "a link stays between what it links; dismiss it, and make another one"
            )
        case Artifact() if (
            after.superseded_by != before.superseded_by
            or after.state == "superseded" != before.state
        ):
            raise refusal("state", "an artifact is superseded by another one: say which")
        case Artifact() if before.state == "accepted" and after.supersedes != before.supersedes:
            raise refusal(
                "supersedes",
                "an artifact that is accepted has superseded what it does: supersede another one",
            )


def follow(
    step: RecordTransaction, before: Any, record: Record[Any], *, besides: Iterable[str] = ()
) -> None:
    """What follows from a change, in the same step; `besides` have been told of it elsewhere."""
    after = record.body
    if after.sensitivity == SENSITIVE and before.sensitivity != SENSITIVE:
        with step.unconfined():
            _make_sensitive(step, record)
    match after:
        case Comment() if after.body != before.body or after.sensitivity != before.sensitivity:
            thread = step.get(after.thread)
            if thread is not None:
                renew_summary(step, thread, record)
        case Thread():
            with step.unconfined():
                _follow_thread(step, before, record)
        case Task():
            if after.state not in OPEN_TASK_STATES:
                close_notices(step, record.id, "task_assigned")
            notice_task(step, record, before, _what_changed(before, after), besides=besides)
        case Link() if after.state != before.state:
            close_notices(step, record.id)


def _follow_thread(step: RecordTransaction, before: Thread, record: Record[Thread]) -> None:
    """Comments belong where their thread does and are found by its title, however many they are;
    its summary is of what it says now.
    """
    after, last = record.body, ""
    if (after.title, after.subcortex) != (before.title, before.subcortex):
        while some := step.select(
            RecordFilter(kinds=("comment",), refs=(("thread", record.id),), before=last), _BATCH
        ):
            for one in some:
                if one.body.subcortex != after.subcortex:
                    step.put(
                        replace(one, body=replace(one.body, subcortex=after.subcortex)),
                        "move_comment",
                    )
                else:
                    step.reword(one)
            last = some[-1].id
    told = (after.title, after.body, after.sensitivity) != (
        before.title,
        before.body,
        before.sensitivity,
    )
    if told and after.summary and after.summary == before.summary:
        renew_summary(step, record)


def _make_sensitive(step: RecordTransaction, record: Record[Any]) -> None:
    """What belongs to a record, or tells of it, becomes sensitive with it: comments with their
    thread, everything with its subcortex.
    """
    # And no recursion: a task of a thread of a task may go on like that for long
    waiting = [record]
    while waiting:
        above = waiting.pop()
        names = (above.id, *((above.body.slug,) if isinstance(above.body, Subcortex) else ()))
        for ref in [(role, name) for role in (above.kind, *_TELLING) for name in names]:
            while some := step.select(RecordFilter(refs=(ref,), sensitivity=NORMAL), _BATCH):
                for one in some:
                    private = replace(one, body=replace(one.body, sensitivity=SENSITIVE))
                    waiting.append(step.put(private, "make_sensitive"))


def _what_changed(before: Task, after: Task) -> str:
    parts = [f"it is {after.state.replace('_', ' ')} now"] if after.state != before.state else []
    parts += [f"priority {after.priority}"] if after.priority != before.priority else []
    if after.blocked_reason and after.blocked_reason != before.blocked_reason:
        parts.append(f"blocked: {after.blocked_reason}")
    parts += ["new notes"] if after.notes != before.notes else []
    if not parts and after != before:
        parts.append("it says something else now")
    return "; ".join(parts)


def carry_out(
    library: Library,
    work: Callable[[RecordTransaction], str],
    *,
    actor: Actor,
    key: str,
    action: str,
    payload: str,
) -> Created:
    """Do a step that gives the id of what it changed; the record as it is then, and whether that
    had been done before under the same key.
    """
    done = perform(
        library, work, actor=actor, key=key or fresh_key(), action=action, payload=payload
    )
    return Created(written(library, done.result), done.replayed)
