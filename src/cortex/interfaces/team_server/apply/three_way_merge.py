"""Three-way merge of two changes of one record, field by field.

A field that only one side changed takes that side's value. Equal changes agree; different changes
are a conflict, which names the fields and decides nothing. Tuples merge like ordered sets:
additions and removals of one side survive the other. Derived fields (a thread's summary) are
renewed by the caller, who has all comments. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, TypeVar

from cortex.base.errors import InputError
from cortex.base.record_model import SUMMARY, Body, Draft, Notification, Thread
from cortex.base.record_spec import choices_of, fields_of
from cortex.families.team.writes.discussion import SINCE

B = TypeVar("B", bound=Any)

_REVIEW = ("reviewed_by", "reviewed_at")
# Characters of a value in a conflict.
SHOWN = 200


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """A field that both sides changed differently."""

    field: str
    # The current value.
    theirs: object
    # The value that the change asked for.
    ours: object


@dataclass(frozen=True, slots=True)
class Conflict:
    """The fields in which two changes contradict each other."""

    clashes: tuple[MergeConflict, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(clash.field for clash in self.clashes)


def merged(before: B, after: B, current: B) -> B | Conflict:
    """Merge the change from `before` to `after` into the `current` body.

    A thread keeps its summary unless a new one was supplied; the caller renews it.
    """
    if not type(before) is type(after) is type(current):
        raise TypeError("three bodies of one kind")
    changes: dict[str, object] = {}
    clashes: list[MergeConflict] = []
    special = _merge_special_fields(before, after, current)
    for name in fields_of(type(current)):
        if name in special:
            changes[name] = special[name]
            continue
        old, ours, theirs = (getattr(body, name) for body in (before, after, current))
        value = _merge_value(old, ours, theirs)
        if isinstance(value, _Both):
            clashes.append(MergeConflict(name, theirs, ours))
        else:
            changes[name] = value
    return Conflict(tuple(clashes)) if clashes else replace(current, **changes)


def merge_without_base(after: Any, current: Any) -> Any:
    """Return the current body where a record that is sent as new already exists.

    A difference is a conflict: without a base version, the changed fields are unknown.
    """
    if isinstance(after, Notification):
        return current
    names = [name for name, spec in fields_of(type(current)).items() if spec.merge != "derived"]
    pairs = [(name, getattr(current, name), getattr(after, name)) for name in names]
    clashes = [MergeConflict(name, theirs, ours) for name, theirs, ours in pairs if theirs != ours]
    return Conflict(tuple(clashes)) if clashes else current


def conflict_error(record_id: str, conflict: Conflict) -> InputError:
    """Build the error for a conflict, with both values of each field."""
    conflicts = [
        {
            "id": record_id,
            "field": clash.field,
            "theirs": _excerpt(clash.theirs),
            "yours": _excerpt(clash.ours),
        }
        for clash in conflict.clashes
    ]
    say = "says" if len(conflict.fields) == 1 else "say"
    return InputError(
        "RECORD_CHANGED",
        f"{record_id} was changed meanwhile: {', '.join(conflict.fields)} {say} something else now",
        context={"id": record_id, "fields": list(conflict.fields), "conflicts": conflicts},
    )


def _excerpt(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def supplies(before: Thread | None, after: Thread) -> bool:
    """True if a change of a thread brings a written summary.

    Sentences that were appended for later comments don't count.
    """
    return bool(after.summary_by and after.summary_sources) and (
        before is None or _supplied_summary(before) != _supplied_summary(after)
    )


def supplied_only(body: Thread) -> Thread:
    """Return a thread with only the written part of its summary."""
    base, by, sources = _supplied_summary(body)
    return replace(body, summary=base, summary_sources=sources, summary_by=by)


def unsummarized(body: Thread) -> Thread:
    """Return a thread without a summary."""
    return replace(body, summary="", summary_sources=(), summary_by="")


def _supplied_summary(body: Thread) -> tuple[str, str, tuple[str, ...]]:
    """Return the written part of a summary, its author and the comment that it came with."""
    if not (body.summary_by and body.summary_sources):
        return "", "", ()
    return body.summary.partition(SINCE)[0], body.summary_by, body.summary_sources[:1]


def _merge_special_fields(before: Body, after: Body, current: Body) -> dict[str, object]:
    """Merge the fields that have rules of their own; return their values by name."""
    special: dict[str, object] = {}
    for name, spec in fields_of(type(after)).items():
        old, *values = (getattr(body, name) for body in (before, after, current))
        if old in values:
            continue
        if spec.merge == "larger":
            special[name] = max(values)
        elif spec.merge == "later":
            places = {state: place for place, state in enumerate(choices_of(type(after), name))}
            special[name] = max(values, key=lambda state, places=places: places.get(state, 0))
    match before, after, current:
        case Thread(), Thread(), Thread():
            base, by, sources = _supplied_summary(after)
            kept = [getattr(current, name) for name in SUMMARY]
            supplied = [base, sources, by] if supplies(before, after) else kept
            special |= zip(SUMMARY, supplied, strict=True)
        case Draft(), Draft(), Draft() if (
            current.reviewed_by and before.state != after.state == current.state == "rejected"
        ):
            # The first rejection counts.
            special |= {name: getattr(current, name) for name in _REVIEW}
    return special


class _Both:
    """Type of the marker for a value that both sides changed differently."""


_BOTH = _Both()


def _merge_value(old: Any, ours: Any, theirs: Any) -> Any:
    """Merge one value; `_BOTH` where the sides contradict each other."""
    if ours in (old, theirs):
        return theirs
    if theirs == old:
        return ours
    return _merge_tuples(old, ours, theirs) if isinstance(theirs, tuple) else _BOTH


def _merge_tuples(old: tuple[Any, ...], ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> Any:
    """Merge tuples by item identity: their items in order, then our new ones."""
    key = _identity_function(old, ours, theirs)
    old_items, our_items, their_items = (
        {key(item): item for item in values} for values in (old, ours, theirs)
    )
    items: list[Any] = []
    for name in dict.fromkeys((*their_items, *our_items)):
        value = _merge_item(old_items.get(name), our_items.get(name), their_items.get(name))
        if value is _BOTH:
            return _BOTH
        if value is not None:
            items.append(value)
    return tuple(items)


def _merge_item(old: Any, ours: Any, theirs: Any) -> Any:
    """Merge one item of a tuple; None where it is absent.

    An item that one side removed and the other changed is kept.
    """
    if ours in (old, theirs):
        return theirs
    if theirs == old:
        return ours
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    return _BOTH


def _identity_function(*sides: tuple[Any, ...]) -> Callable[[Any], Hashable]:
    """Return the function that identifies an item across the three sides.

    A part of the item identifies it, unless one side has that part twice.
    """
    unique = all(len({_identity(value) for value in values}) == len(values) for values in sides)
    return _identity if unique else lambda value: value


def _identity(value: Any) -> Hashable:
    if is_dataclass(value):
        keys = [name for name, spec in fields_of(type(value)).items() if spec.key]
        return tuple(getattr(value, name) for name in keys)
    # Of a patch, the field.
    return value[0] if isinstance(value, tuple) else value
