"""Change existing records by optimistic concurrency, in one transaction.

A change is a function from the current body to the new one. Its effects (summary, notifications,
sensitivity that records inherit) are written in the same transaction. Nothing is ever deleted. The
named changes are in `actions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from cortex.base.actors import need_person
from cortex.base.errors import InputError
from cortex.base.record_model import (
    NORMAL,
    OPEN_TASK_STATES,
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
from cortex.families.team.notifications import close_notices, notice_accepted, notice_task
from cortex.families.team.permissions import TIERS, need
from cortex.families.team.references import resolve_ref, resolved
from cortex.families.team.validation import check_move, checked, refusal
from cortex.families.team.writes.create import need_sensitive
from cortex.families.team.writes.discussion import renew_summary
from cortex.families.team.writes.supersession import check_supersedes, write_superseded
from cortex.families.team.writes.transactions import carry_out

Change = Callable[[Any], Any]

# Fields in which notifications, links and drafts refer to their subject.
_SUBJECT_FIELDS = ("about", "source", "target")
# Dependent records read at once.
_BATCH = 500


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
    """Change a record; `version` is the one that the caller read, None for any.

    `action` selects the required permission; an action without one of its own counts as an edit.
    With a caller's key, `payload` identifies the change. `change` is called twice: first to find
    contradictions, then to write. For a known key the first call is skipped, since the record has
    been changed already.

    Raises: InputError RECORD_UNKNOWN, RECORD_CHANGED, RECORD_INVALID, SENSITIVE_BLOCKED,
    RIGHTS_MISSING, TARGET_NOT_FOUND, SCOPE_NOT_FOUND, IDEMPOTENCY_REPLAY.
    """
    request = payload or repr((record_id, version))
    before = resolve_ref(library.store.records, record_id)
    known = key and library.store.records.known(actor, key, action, request)
    clashes = () if known else clashes_of(library, change(before.body), before)

    def work(step: RecordTransaction) -> str:
        record = revise_in(step, before.id, change, action, version=version)
        write_clashes(step, record, clashes)
        return record.id

    return carry_out(library, work, actor=actor, key=key, action=action, payload=request).record


def revise_in(
    step: RecordTransaction,
    record_id: str,
    change: Change,
    action: str,
    *,
    version: int | None = None,
    kind: str = "",
) -> Record[Any]:
    """Change a record inside a transaction; without a difference nothing is written."""
    record = resolve_ref(step, record_id, kind)
    before = record.body
    right = action if action in TIERS else "edit"
    need(step.actor, "edit_subcortex" if isinstance(before, Subcortex) else right)
    if version is not None and version != record.version:
        raise InputError(
            "RECORD_CHANGED",
            f"{record.id} was changed meanwhile: its version is {record.version} now, not "
            f"{version}",
            context={"id": record.id, "version": record.version},
        )
    after = change(before)
    if type(after) is not type(before):
        raise TypeError(f"a {type(before).__name__} can't become a {type(after).__name__}")
    after = resolved(step, checked(after), before)
    if after == before:
        return record
    check_move(before, after)
    check_kept(before, after)
    need_sensitive(step, after)
    if isinstance(after, Artifact):
        _need_decision(step, before, after)
    if isinstance(after, Artifact) and after.state == "accepted" != before.state:
        written = _write_accepted(
            step, replace(record, body=replace(after, last_reviewed=step.now))
        )
    else:
        written = step.put(replace(record, body=after))
    follow(step, before, written)
    return written


def _need_decision(step: RecordTransaction, before: Any, after: Artifact) -> None:
    """Require a person for deprecating an artifact, and for editing an accepted one."""
    if after.state == "deprecated" != before.state:
        need_person(step.actor, "deprecate_artifact")
    elif before.state == "accepted":
        need_person(step.actor, "edit_accepted")


def _write_accepted(step: RecordTransaction, record: Record[Artifact]) -> Record[Artifact]:
    """Write an artifact that becomes accepted, and mark the one it supersedes."""
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
    """Check the fields that no change may touch. Raises: InputError RECORD_INVALID."""
    match after:
        case Subcortex() if after.slug != before.slug:
            raise refusal("slug", "the slug of a subcortex can't be changed: others refer to it")
        case Comment() if after.thread != before.thread or after.parent != before.parent:
            raise refusal("thread", "a comment can't be moved to another thread")
        case Link() if (after.source, after.relation, after.target) != (
            before.source,
            before.relation,
            before.target,
        ):
            raise refusal(
                "target", "the ends of a link can't be changed; dismiss it and create another one"
            )
        case Artifact() if (
            after.superseded_by != before.superseded_by
            or after.state == "superseded" != before.state
        ):
            raise refusal(
                "state", "only another artifact can supersede this one: name it with `supersede`"
            )
        case Artifact() if before.state == "accepted" and after.supersedes != before.supersedes:
            raise refusal(
                "supersedes", "an accepted artifact can't supersede another artifact instead"
            )


def follow(
    step: RecordTransaction, before: Any, record: Record[Any], *, besides: Iterable[str] = ()
) -> None:
    """Write the effects of a change; `besides` are people who are notified elsewhere."""
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
                _update_comments(step, before, record)
        case Task():
            if after.state not in OPEN_TASK_STATES:
                close_notices(step, record.id, "task_assigned")
            notice_task(step, record, before, _describe_changes(before, after), besides=besides)
        case Link() if after.state != before.state:
            close_notices(step, record.id)


def _update_comments(step: RecordTransaction, before: Thread, record: Record[Thread]) -> None:
    """Move and reindex all comments of a changed thread, and renew its summary."""
    after, last = record.body, ""
    if (after.title, after.subcortex) != (before.title, before.subcortex):
        while batch := step.select(
            RecordFilter(kinds=("comment",), refs=(("thread", record.id),), before=last), _BATCH
        ):
            for comment in batch:
                if comment.body.subcortex != after.subcortex:
                    step.put(
                        replace(comment, body=replace(comment.body, subcortex=after.subcortex)),
                        "move_comment",
                    )
                else:
                    step.reword(comment)
            last = batch[-1].id
    is_changed = (after.title, after.body, after.sensitivity) != (
        before.title,
        before.body,
        before.sensitivity,
    )
    if is_changed and after.summary and after.summary == before.summary:
        renew_summary(step, record)


def _make_sensitive(step: RecordTransaction, record: Record[Any]) -> None:
    """Make everything that belongs or refers to a sensitive record sensitive, too.

    Comments follow their thread, all records their subcortex.
    """
    # A loop, not recursion: tasks of threads of tasks may nest deeply.
    queue = [record]
    while queue:
        parent = queue.pop()
        names = (parent.id, *((parent.body.slug,) if isinstance(parent.body, Subcortex) else ()))
        for ref in [(role, name) for role in (parent.kind, *_SUBJECT_FIELDS) for name in names]:
            while batch := step.select(RecordFilter(refs=(ref,), sensitivity=NORMAL), _BATCH):
                for dependent in batch:
                    private = replace(
                        dependent, body=replace(dependent.body, sensitivity=SENSITIVE)
                    )
                    queue.append(step.put(private, "make_sensitive"))


def _describe_changes(before: Task, after: Task) -> str:
    """Describe the changes of a task for a notification."""
    parts = [f"now {after.state.replace('_', ' ')}"] if after.state != before.state else []
    parts += [f"priority {after.priority}"] if after.priority != before.priority else []
    if after.blocked_reason and after.blocked_reason != before.blocked_reason:
        parts.append(f"blocked: {after.blocked_reason}")
    parts += ["new notes"] if after.notes != before.notes else []
    if not parts and after != before:
        parts.append("edited")
    return "; ".join(parts)
