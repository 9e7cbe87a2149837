"""Permissions that a change of a record needs, derived from the changed fields.

The functions of `writes` know their action; a change from another home only has the record before
and after. Both need the same permissions, and a test compares them for every action. Pure.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from cortex.base.record_model import (
    SENSITIVE,
    SUMMARY,
    Artifact,
    Body,
    Draft,
    Link,
    Notification,
    Subcortex,
    Task,
    Thread,
)
from cortex.base.record_spec import spec_of
from cortex.families.team.writes.actions import PATCH_FIELDS

_DECIDED = {"approved": "approve_draft", "published": "approve_draft", "rejected": "reject_draft"}


def rights_of(before: Body | None, after: Body, *, alone: bool = False) -> tuple[str, ...]:
    """Return the permissions needed to turn `before` (None for a new record) into `after`.

    `alone` is a change without others in its action: a candidate link comes with the record that it
    was found for. Notifications have their own rules and need none here.
    """
    if before == after:
        return ()
    rights = _to_create(after, alone) if before is None else _to_change(before, after)
    is_derived = isinstance(before, Thread) and changed_fields(before, after) <= set(SUMMARY)
    is_written = not isinstance(after, Subcortex | Draft | Notification | Link) and not is_derived
    return (*rights, "sensitive") if is_written and after.sensitivity == SENSITIVE else rights


def changed_fields(before: Any, after: Any) -> frozenset[str]:
    """Return the names of the fields that differ."""
    return frozenset(
        field.name
        for field in fields(after)
        if getattr(before, field.name) != getattr(after, field.name)
    )


def _to_create(body: Body, alone: bool) -> tuple[str, ...]:
    """Return the permissions for creating a record."""
    right = spec_of(type(body)).right
    match body:
        case Thread():
            more = {"resolved": ("resolve_thread",), "archived": ("edit",)}
            return (right, *more.get(body.state, ()))
        case Artifact():
            by_state = {
                "accepted": "accept_artifact",
                "superseded": "supersede_artifact",
                "deprecated": "edit",
            }
            is_judged = body.state in ("draft", "proposed") and (
                body.verification != "unverified" or body.last_reviewed
            )
            return (by_state.get(body.state, right), *(("edit",) if is_judged else ()))
        case Draft():
            return (right, *((_DECIDED[body.state],) if body.state in _DECIDED else ()))
        case Link():
            by_state = {"candidate": right if alone else "observe", "dismissed": "judge_link"}
            return (by_state.get(body.state, right),)
        case Notification():
            return ()
    return (right,)


def _to_change(before: Body, after: Body) -> tuple[str, ...]:
    """Return the permissions for changing a record."""
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
