"""What has to hold of the changes of one action together, looked at when all of them are written,
and what follows from them.

A draft that is published became something in the same action; an artifact that is superseded is so
by one that says that itself; a summary is of all that was said. Inside a step; whatever is raised
here undoes it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cortex.base.record_model import SENSITIVE, Artifact, Draft, Link, Record, Thread
from cortex.engine.store import Guard, RecordTransaction
from cortex.families.team.validation import checked, refusal
from cortex.families.team.wire.codec import is_id
from cortex.families.team.writes.discussion import renew_summary
from cortex.families.team.writes.drafts import PUBLISHED
from cortex.families.team.writes.publish import body_of
from cortex.families.team.writes.supersession import check_supersedes, write_superseded
from cortex.interfaces.team_server.apply.visible_records import VisibleRecords

# Drafts, by type
BECOMES = {"comment": "comment", "thread": "thread", "artifact": "artifact", "task_update": "task"}


# What whoever approves a draft decides, or follows from that
_PLACE = ("subcortex", "thread", "task", "sensitivity")


def check_published(step: RecordTransaction, draft: Record[Draft], body: Any) -> None:
    """What is published in somebody's name is what they drafted, to the letter.

    Raises: InputError RECORD_INVALID.
    """
    told = draft.body
    same = told.type != "task_update" and BECOMES.get(told.type) == type(body).__name__.lower()
    if same:
        # What was there where it was approved
        cited = {one.ref for one in getattr(body, "evidence", ())}
        whole: Any = checked(
            body_of(told, None, lambda ref: step.get(ref) if ref in cited else None)
        )
        if isinstance(whole, Artifact):
            whole = replace(whole, owner=draft.author)
        place = {name: getattr(body, name) for name in _PLACE if hasattr(body, name)}
        hidden = told.sensitivity == SENSITIVE != body.sensitivity
        same = replace(whole, **place) == body and not hidden
    if not same:
        raise refusal("published", f"it isn't what {draft.author} drafted in {draft.id}")


def check_decided(
    step: RecordTransaction, before: Record[Draft] | None, after: Record[Draft]
) -> None:
    """A draft is published as something that was written with that.

    Raises: InputError RECORD_INVALID.
    """
    body = after.body
    if body.state != PUBLISHED:
        if body.published:
            raise refusal("published", f"{after.id} is {body.state}, and became nothing")
        return
    if before is not None and before.body.state == PUBLISHED:
        if before.body.published != body.published:
            raise refusal("published", f"{after.id} was published as {before.body.published}")
        return
    became = step.get(body.published) if body.published else None
    made = became is not None and (
        became.kind == "task" or step.written.get(became.id, (became,))[0] is None
    )
    if became is None or not made or became.kind != BECOMES.get(body.type):
        raise refusal("published", f"{after.id} is published as nothing that was written with that")


def check_became(step: RecordTransaction, draft: str, number: str) -> None:
    """What speaks in the name of who drafted it is what their draft became.

    Raises: InputError RECORD_INVALID.
    """
    now = step.get(draft)
    if now is None or (now.body.state, now.body.published) != (PUBLISHED, number):
        raise refusal("published", f"{draft} didn't become {number}")


def check_uploaded(step: RecordTransaction, record: Record[Any]) -> None:
    """What was there before says what could have become so; what it names may still come.

    Raises: InputError RECORD_INVALID.
    """
    match record.body:
        case Draft() as body:
            became = step.get(body.published) if body.published else None
            if bool(body.published) != (body.state == PUBLISHED) or not _may_be(
                body.published, BECOMES.get(body.type)
            ):
                raise refusal(
                    "published", f"{record.id} is {body.state}, and became {body.published[:80]!r}"
                )
            if became is not None and became.kind != "task" and became.author != record.author:
                raise refusal("published", f"{became.id} is by somebody else than {record.id}")
        case Artifact() as body:
            old, new = step.get(body.supersedes), step.get(body.superseded_by)
            takes = (
                body.state in ("accepted", "superseded")
                and old is not None
                and old.body.superseded_by
            )
            told = bool(body.superseded_by) == (body.state == "superseded") and _may_be(
                body.superseded_by, "artifact"
            )
            if not told or (new is not None and new.body.supersedes != record.id):
                raise refusal(
                    "superseded_by", f"{record.id} isn't superseded by {body.superseded_by[:80]!r}"
                )
            if takes and old is not None and old.body.superseded_by != record.id:
                raise refusal(
                    "supersedes", f"{old.id} is superseded already, by {old.body.superseded_by}"
                )
        case Thread() as body if body.summary_by:
            said = step.get(body.summary_sources[0])
            if not _may_be(body.summary_sources[0], "comment") or (
                said and said.body.thread != record.id
            ):
                raise refusal("summary_sources", "a summary comes with a comment of its thread")


def _may_be(number: str, kind: str | None) -> bool:
    """Whether a record of a kind may be called that; "" is none."""
    return not number or is_id(number, kind or "")


def settle_artifact(
    step: RecordTransaction,
    sight: VisibleRecords,
    guard: Guard,
    before: Record[Artifact] | None,
    after: Record[Artifact],
) -> None:
    """Who supersedes and who is superseded say so of each other.

    Raises: InputError RECORD_INVALID, RIGHTS_MISSING, TARGET_NOT_FOUND.
    """
    was, now = (before.body if before else None), step.get(after.id)
    assert now is not None  # it was written
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
    """A link that says that one artifact supersedes another is true.

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
            "relation",
            f"{source.id} doesn't supersede {target.id}: that is told in both of them, too",
        )


def settle_summary(step: RecordTransaction, number: str) -> list[str]:
    """Have the summary of a thread be of all that was said there; gives who has spoken."""
    thread = step.get(number)
    return (
        renew_summary(step, thread)
        if thread is not None and isinstance(thread.body, Thread)
        else []
    )
