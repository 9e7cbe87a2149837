"""Two changes of one record become one: field by field, by what each of them changed.

A field that only one side changed is that side's. What both changed alike is no matter; what both
changed differently is a conflict, which names the fields and decides nothing. Several values are a
set with an order: what one side added or took away, the other keeps. What is derived (a thread's
summary) is made anew by who has all of it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from cortex.base.errors import InputError
from cortex.base.record_model import (
    SUMMARY,
    Artifact,
    Attachment,
    Body,
    CodeLink,
    Draft,
    Evidence,
    Notification,
    Term,
    Thread,
)
from cortex.families.team.writes.discussion import SINCE

B = TypeVar("B", bound=Any)

_REVIEW = ("reviewed_by", "reviewed_at")  # what somebody wrote with it is theirs
SHOWN = 200  # characters of a value in a conflict
_FURTHER = {"new": 0, "seen": 1, "done": 2}  # states of a notification


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """A field that both sides changed, each in its own way."""

    field: str
    theirs: object  # what it is now
    ours: object  # what it was to be


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why two changes can't be one."""

    clashes: tuple[MergeConflict, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(clash.field for clash in self.clashes)


def merged(before: B, after: B, current: B) -> B | Conflict:
    """What a record says when it is changed from `before` to `after` while it says `current`.

    A thread keeps the summary that it has, unless a new one was supplied: the caller renews it.
    """
    if not type(before) is type(after) is type(current):
        raise TypeError("three bodies of one kind")
    changes: dict[str, object] = {}
    clashes: list[MergeConflict] = []
    special = _special(before, after, current)
    for field in fields(current):
        name = field.name
        if name in special:
            changes[name] = special[name]
            continue
        old, ours, theirs = (getattr(body, name) for body in (before, after, current))
        value = _merged(old, ours, theirs)
        if isinstance(value, _Both):
            clashes.append(MergeConflict(name, theirs, ours))
        else:
            changes[name] = value
    return Conflict(tuple(clashes)) if clashes else replace(current, **changes)


def differing(after: Any, current: Any) -> Any:
    """What is there already, unless what was told as new says something else: then nobody knows
    what was changed.
    """
    if isinstance(after, Notification):
        return current
    derived = SUMMARY if isinstance(after, Thread) else ()
    names = [field.name for field in fields(current) if field.name not in derived]
    pairs = [(name, getattr(current, name), getattr(after, name)) for name in names]
    clashes = [MergeConflict(name, theirs, ours) for name, theirs, ours in pairs if theirs != ours]
    return Conflict(tuple(clashes)) if clashes else current


def conflict_error(number: str, conflict: Conflict) -> InputError:
    """The error for changes of a record that can't be one, with both values of each field."""
    told = [
        {
            "id": number,
            "field": clash.field,
            "theirs": _shown(clash.theirs),
            "yours": _shown(clash.ours),
        }
        for clash in conflict.clashes
    ]
    say = "says" if len(conflict.fields) == 1 else "say"
    return InputError(
        "RECORD_CHANGED",
        f"{number} was changed meanwhile: {', '.join(conflict.fields)} {say} something else now",
        context={"id": number, "fields": list(conflict.fields), "conflicts": told},
    )


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def supplies(before: Thread | None, after: Thread) -> bool:
    """Whether a change of a thread comes with a summary that somebody wrote, not only with
    sentences of what was said since.
    """
    return bool(after.summary_by and after.summary_sources) and (
        before is None or _supplied(before) != _supplied(after)
    )


def supplied_only(body: Thread) -> Thread:
    """A thread with that part of its summary that somebody wrote."""
    base, by, sources = _supplied(body)
    return replace(body, summary=base, summary_sources=sources, summary_by=by)


def unsummarized(body: Thread) -> Thread:
    """A thread in which nobody has said anything yet."""
    return replace(body, summary="", summary_sources=(), summary_by="")


def _supplied(body: Thread) -> tuple[str, str, tuple[str, ...]]:
    """The part of a summary that somebody wrote, who, and the comment that it came with."""
    if not (body.summary_by and body.summary_sources):
        return "", "", ()
    return body.summary.partition(SINCE)[0], body.summary_by, body.summary_sources[:1]


def _special(before: Body, after: Body, current: Body) -> dict[str, object]:
    """The fields that follow rules of their own, with what they are then."""
    match before, after, current:
        case Thread(), Thread(), Thread():
            base, by, sources = _supplied(after)
            if supplies(before, after):
                return dict(zip(SUMMARY, (base, sources, by), strict=True))
            return {name: getattr(current, name) for name in SUMMARY}
        case Notification(), Notification(), Notification() if before.state not in (
            after.state,
            current.state,
        ):
            return {
                "state": max(after.state, current.state, key=lambda state: _FURTHER.get(state, 0))
            }
        case Draft(), Draft(), Draft() if (
            current.reviewed_by and before.state != after.state == current.state == "rejected"
        ):
            return {name: getattr(current, name) for name in _REVIEW}  # whoever rejected it first
        case Artifact(), Artifact(), Artifact() if before.last_reviewed not in (
            after.last_reviewed,
            current.last_reviewed,
        ):
            return {"last_reviewed": max(after.last_reviewed, current.last_reviewed)}
    return {}


class _Both:
    """Both sides changed a value, each in its own way."""


_BOTH = _Both()


def _merged(old: Any, ours: Any, theirs: Any) -> Any:
    """One value of the two that it became."""
    if ours in (old, theirs):
        return theirs
    if theirs == old:
        return ours
    return _several(old, ours, theirs) if isinstance(theirs, tuple) else _BOTH


def _several(old: tuple[Any, ...], ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> Any:
    """What both have of several values: in their order, then ours that are new."""
    key = _key_of(old, ours, theirs)
    was, is_ours, is_theirs = ({key(one): one for one in values} for values in (old, ours, theirs))
    kept: list[Any] = []
    for name in dict.fromkeys((*is_theirs, *is_ours)):
        value = _one(was.get(name), is_ours.get(name), is_theirs.get(name))
        if value is _BOTH:
            return _BOTH
        if value is not None:
            kept.append(value)
    return tuple(kept)


def _one(old: Any, ours: Any, theirs: Any) -> Any:
    """One of several values; None where it isn't there. What one side took away and the other one
    changed is kept.
    """
    if ours in (old, theirs):
        return theirs
    if theirs == old:
        return ours
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    return _BOTH


def _key_of(*sides: tuple[Any, ...]) -> Callable[[Any], Hashable]:
    """What two of several values have in common that are one: by a part of them, unless a side has
    that twice.
    """
    unique = all(len({_name(value) for value in values}) == len(values) for values in sides)
    return _name if unique else lambda one: one


def _name(value: Any) -> Hashable:
    match value:
        case Term():
            return value.term
        case CodeLink():
            return value.path, value.symbol
        case Evidence():
            return value.kind, value.ref
        case Attachment():
            return value.name, value.ref
        case (str() as field, str()):  # of a patch
            return field
    return value
