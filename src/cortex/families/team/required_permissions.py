"""Which rights a change of a record needs, whoever makes it and however: the same that the deeds of
`records` ask for.

A deed says what it is; a change that comes from elsewhere only says what a record was and shall be.
What it is follows from the fields that differ. Pure; a test holds it against every deed.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from cortex.base.record_model import (
    SENSITIVE,
    SUMMARY,
    Artifact,
    Body,
    Comment,
    Draft,
    Link,
    Notification,
    Observation,
    Subcortex,
    Task,
    Thread,
)
from cortex.families.team.writes.actions import PATCH_FIELDS

_DECIDED = {"approved": "approve_draft", "published": "approve_draft", "rejected": "reject_draft"}


def rights_of(before: Body | None, after: Body, *, alone: bool = False) -> tuple[str, ...]:
    """The rights that it takes to make a record what it is after; None before is a new one.

    `alone` is a change that comes with no other: a link that somebody should judge comes with what
    it was found for. Notifications have rules of their own and need none here.
    """
    if before == after:
        return ()
    rights = _to_make(after, alone) if before is None else _to_change(before, after)
    derived = isinstance(before, Thread) and changed_fields(before, after) <= set(SUMMARY)
    told = isinstance(after, Thread | Comment | Observation | Artifact | Task) and not derived
    return (*rights, "sensitive") if told and after.sensitivity == SENSITIVE else rights


def changed_fields(before: Any, after: Any) -> frozenset[str]:
    """The fields that say something else after than before."""
    return frozenset(
        field.name
        for field in fields(after)
        if getattr(before, field.name) != getattr(after, field.name)
    )


def _to_make(body: Body, alone: bool) -> tuple[str, ...]:
    match body:
        case Subcortex():
            return ("create_subcortex",)
        case Thread():
            more = {"resolved": ("resolve_thread",), "archived": ("edit",)}
            return ("create_thread", *more.get(body.state, ()))
        case Comment():
            return ("comment",)
        case Observation():
            return ("observe",)
        case Artifact():
            made = {
                "accepted": "accept_artifact",
                "superseded": "supersede_artifact",
                "deprecated": "edit",
            }
            judged = body.state in ("draft", "proposed") and (
                body.verification != "unverified" or body.last_reviewed
            )
            return (made.get(body.state, "propose_artifact"), *(("edit",) if judged else ()))
        case Task():
            return ("create_task",)
        case Draft():
            return ("draft", *((_DECIDED[body.state],) if body.state in _DECIDED else ()))
        case Link():
            made = {"candidate": "link" if alone else "observe", "dismissed": "judge_link"}
            return (made.get(body.state, "link"),)
        case Notification():
            return ()


def _to_change(before: Body, after: Body) -> tuple[str, ...]:
    changed = changed_fields(before, after)
    match after:
        case Subcortex():
            return ("edit_subcortex",)
        case Thread() if changed <= set(SUMMARY):
            return ("comment",)
        case Thread() if after.state == "resolved" and changed <= {"state", "resolution", *SUMMARY}:
            return ("resolve_thread",)
        case Task() if changed <= set(PATCH_FIELDS):
            return ("update_task",)
        case Artifact() if after.state == "accepted" and "state" in changed:
            return ("accept_artifact",)
        case Artifact() if (
            changed <= {"state", "superseded_by", "supersedes"} and after.state != "deprecated"
        ):
            return ("supersede_artifact",)
        case Draft() if "state" in changed and after.state in _DECIDED:
            return (_DECIDED[after.state],)
        case Link() if "state" in changed:
            return ("judge_link",)
        case Notification():
            return ()
    return ("edit",)
