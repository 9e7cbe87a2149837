"""Invariants over all changes of one action, checked after all of them are written.

A published draft became a record in the same action; an artifact is superseded by one that says so
itself; a thread summary covers all comments. Runs inside the write transaction: an error raised
here rolls it back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cortex.base.record_model import SENSITIVE, Artifact, Comment, Draft, Link, Record, Thread
from cortex.engine.store import Guard, RecordTransaction
from cortex.families.team.validation import checked, refusal
from cortex.families.team.wire.codec import is_id
from cortex.families.team.writes.discussion import renew_summary
from cortex.families.team.writes.drafts import PUBLISHED
from cortex.families.team.writes.publish import body_of
from cortex.families.team.writes.supersession import check_supersedes, write_superseded
from cortex.interfaces.team_server.apply.action_context import ActionContext
from cortex.interfaces.team_server.apply.visible_records import VisibleRecords

# Kind of record that a draft is published as, by draft type.
BECOMES = {"comment": "comment", "thread": "thread", "artifact": "artifact", "task_update": "task"}


# Fields that the approver of a draft decides, or that follow from that decision.
_APPROVER_FIELDS = ("subcortex", "thread", "task", "sensitivity")


def check_published(step: RecordTransaction, draft: Record[Draft], body: Any) -> None:
    """Check that a record published in the name of an author is exactly their draft.

    Raises: InputError RECORD_INVALID.
    """
    drafted = draft.body
    same = (
        drafted.type != "task_update" and BECOMES.get(drafted.type) == type(body).__name__.lower()
    )
    if same:
        # The evidence that was present where the draft was approved.
        cited = {evidence.ref for evidence in getattr(body, "evidence", ())}
        expected: Any = checked(
            body_of(drafted, None, lambda ref: step.get(ref) if ref in cited else None)
        )
        if isinstance(expected, Artifact):
            expected = replace(expected, owner=draft.author)
        decided = {name: getattr(body, name) for name in _APPROVER_FIELDS if hasattr(body, name)}
        hidden = drafted.sensitivity == SENSITIVE != body.sensitivity
        same = replace(expected, **decided) == body and not hidden
    if not same:
        raise refusal("published", f"it differs from what {draft.author} drafted in {draft.id}")


def check_decided(
    step: RecordTransaction, before: Record[Draft] | None, after: Record[Draft]
) -> None:
    """Check that a published draft became a record in the same action.

    Raises: InputError RECORD_INVALID.
    """
    body = after.body
    if body.state != PUBLISHED:
        if body.published:
            raise refusal("published", f"{after.id} is {body.state}, so it can't name a record")
        return
    if before is not None and before.body.state == PUBLISHED:
        if before.body.published != body.published:
            raise refusal(
                "published", f"{after.id} was published as {before.body.published} before"
            )
        return
    became = step.get(body.published) if body.published else None
    made = became is not None and (
        became.kind == "task" or step.written.get(became.id, (became,))[0] is None
    )
    if became is None or not made or became.kind != BECOMES.get(body.type):
        raise refusal(
            "published", f"the record that {after.id} was published as isn't in the same action"
        )


def check_became(step: RecordTransaction, draft: str, record_id: str) -> None:
    """Check that a draft was published as the record that names its author.

    Raises: InputError RECORD_INVALID.
    """
    now = step.get(draft)
    if now is None or (now.body.state, now.body.published) != (PUBLISHED, record_id):
        raise refusal("published", f"{draft} wasn't published as {record_id}")


def check_uploaded(step: RecordTransaction, record: Record[Any]) -> None:
    """Check that an uploaded record is in a reachable state; its references may come later.

    Raises: InputError RECORD_INVALID.
    """
    match record.body:
        case Draft() as body:
            became = step.get(body.published) if body.published else None
            if bool(body.published) != (body.state == PUBLISHED) or not _is_optional_id(
                body.published, BECOMES.get(body.type)
            ):
                raise refusal(
                    "published", f"{record.id} is {body.state}, and became {body.published[:80]!r}"
                )
            if became is not None and became.kind != "task" and became.author != record.author:
                raise refusal("published", f"{became.id} is by another author than {record.id}")
        case Artifact() as body:
            old, new = step.get(body.supersedes), step.get(body.superseded_by)
            takes = (
                body.state in ("accepted", "superseded")
                and old is not None
                and old.body.superseded_by
            )
            consistent = bool(body.superseded_by) == (
                body.state == "superseded"
            ) and _is_optional_id(body.superseded_by, "artifact")
            if not consistent or (new is not None and new.body.supersedes != record.id):
                raise refusal(
                    "superseded_by", f"{record.id} isn't superseded by {body.superseded_by[:80]!r}"
                )
            if takes and old is not None and old.body.superseded_by != record.id:
                raise refusal(
                    "supersedes", f"{old.id} is superseded already, by {old.body.superseded_by}"
                )
        case Thread() as body if body.summary_by:
            comment = step.get(body.summary_sources[0])
            if not _is_optional_id(body.summary_sources[0], "comment") or (
                comment and comment.body.thread != record.id
            ):
                raise refusal("summary_sources", "a summary comes with a comment of its thread")


def check_summary(context: ActionContext, thread: str, body: Thread) -> None:
    """Check that a supplied summary cites a comment of its thread and has an allowed author.

    Raises: InputError RECORD_INVALID.
    """
    comment = context.visible.get(body.summary_sources[0])
    if comment is None or not isinstance(comment.body, Comment) or comment.body.thread != thread:
        raise refusal("summary_sources", "a summary comes with a comment of its thread")
    if comment.body.sensitivity == SENSITIVE != body.sensitivity:
        raise refusal(
            "summary", f"{thread} isn't sensitive: its summary can't come with a sensitive comment"
        )
    author = body.summary_by
    if author not in context.speakers():
        raise refusal("summary_by", f"only {author[:80]!r} may supply a summary in their name")
    drafted = {draft.body.summary for draft in context.published.values() if draft.author == author}
    if author != context.step.actor.name and body.summary not in drafted:
        raise refusal("summary", f"it differs from the summary that {author} drafted")


def _is_optional_id(record_id: str, kind: str | None) -> bool:
    """True if an id is empty or valid for a record of this kind."""
    return not record_id or is_id(record_id, kind or "")


def settle_artifact(
    step: RecordTransaction,
    sight: VisibleRecords,
    guard: Guard,
    before: Record[Artifact] | None,
    after: Record[Artifact],
) -> None:
    """Keep the superseding and the superseded artifact consistent with each other.

    Raises: InputError RECORD_INVALID, RIGHTS_MISSING, TARGET_NOT_FOUND.
    """
    was, now = (before.body if before else None), step.get(after.id)
    assert now is not None
    body: Artifact = now.body
    if body.superseded_by and (was is None or was.superseded_by != body.superseded_by):
        _check_superseded(step, sight, now)
    elif body.state == "superseded" and not body.superseded_by:
        raise refusal("state", "an artifact is superseded by another one: say which")
    takes = was is None or was.state != "accepted" or was.supersedes != body.supersedes
    old = (
        step.get(body.supersedes)
        if body.state == "accepted" and body.supersedes and takes
        else None
    )
    if old is not None and old.body.superseded_by != now.id:
        guard(old, old, sight.raw)
        check_supersedes(step, old, now)
        write_superseded(step, old, now)


def _check_superseded(
    step: RecordTransaction, sight: VisibleRecords, old: Record[Artifact]
) -> None:
    new = sight.get(old.body.superseded_by)
    if new is None or not isinstance(new.body, Artifact):
        raise refusal("superseded_by", f"there is no artifact {old.body.superseded_by[:80]!r}")
    if (
        new.body.state not in ("accepted", "superseded")
        or new.body.supersedes != old.id
        or old.body.state != "superseded"
    ):
        raise refusal("superseded_by", f"{new.id} doesn't supersede {old.id}, or isn't accepted")
    seen, now = {old.id}, new
    while now is not None:
        if now.id in seen:
            raise refusal(
                "superseded_by",
                f"{old.id} can't be superseded by what it supersedes itself, or by itself",
            )
        seen.add(now.id)
        now = step.get(now.body.superseded_by) if now.body.superseded_by else None


def settle_link(step: RecordTransaction, link: Record[Link]) -> None:
    """Check that a "supersedes" link agrees with the artifacts that it connects.

    Raises: InputError RECORD_INVALID.
    """
    source, target = step.get(link.body.source), step.get(link.body.target)
    if source is None or target is None or link.body.relation != "supersedes":
        return
    if (
        isinstance(target.body, Artifact)
        and isinstance(source.body, Artifact)
        and target.body.superseded_by != source.id
    ):
        raise refusal(
            "relation", f"{source.id} doesn't supersede {target.id}: both of them must say so"
        )


def settle_summary(step: RecordTransaction, thread_id: str) -> list[str]:
    """Renew the summary of a thread and return the authors of its comments."""
    thread = step.get(thread_id)
    return (
        renew_summary(step, thread)
        if thread is not None and isinstance(thread.body, Thread)
        else []
    )
