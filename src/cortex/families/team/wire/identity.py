"""Who is who at the border: at home the person is "person" and what comes over a protocol is
"agent", at a Core they are "ada" and "ada/agent".

Everybody else is called the same on both sides. Out and in again is where one was, with one
exception that is meant: whoever writes their own name of the Core at home means themselves. Only
fields that hold names are touched, and the sentences that were made with one; what somebody wrote
stays as they wrote it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cortex.base.actors import AGENT, PERSON
from cortex.base.record_model import Draft, Notification, Record
from cortex.engine.store import RecordChange
from cortex.families.team.notification_texts import renamed as renamed_reason

Rename = Callable[[str], str]

SEPARATOR = "/"  # between a principal and their agent
PLACE = "@"  # between somebody of another Core and where that is
_ONE = ("recipient", "owner", "reviewed_by", "summary_by")
_SEVERAL = ("stewards", "assignees", "watchers")


def agent_of(principal: str) -> str:
    """What a principal's agent is called at a Core."""
    return f"{principal}{SEPARATOR}{AGENT}"


def outward(principal: str) -> Rename:
    """How a name of this principal's home is told at the Core."""
    return _renaming({PERSON: principal, AGENT: agent_of(principal)})


def inward(principal: str) -> Rename:
    """How a name of the Core is told in this principal's home."""
    return _renaming({principal: PERSON, agent_of(principal): AGENT})


def from_elsewhere(place: str) -> Rename:
    """Mark the people of another Core with where they are from: "ada" is "ada@core.example.org" at
    a Core with an ada of its own.
    """

    def rename(name: str) -> str:
        who, agent, _ = name.partition(f"{SEPARATOR}{AGENT}")
        return (
            name if name in (PERSON, AGENT, "") or PLACE in name else f"{who}{PLACE}{place}{agent}"
        )

    return rename


def renamed(record: Record[Any], rename: Rename) -> Record[Any]:
    """A record as it is told on the other side."""
    return replace(record, author=rename(record.author), body=renamed_body(record.body, rename))


def renamed_changed(one: RecordChange, rename: Rename) -> RecordChange:
    """A change as it is told on the other side."""
    before = None if one.before is None else renamed_body(one.before, rename)
    return replace(
        one, author=rename(one.author), before=before, after=renamed_body(one.after, rename)
    )


def renamed_body(body: Any, rename: Rename) -> Any:
    """A body as it is told on the other side."""
    changes: dict[str, object] = {}
    for field in _ONE:
        if name := getattr(body, field, ""):
            changes[field] = rename(name)
    for field in _SEVERAL:
        if names := getattr(body, field, ()):
            changes[field] = tuple(dict.fromkeys(map(rename, names)))
    match body:
        case Notification():
            changes["reason"] = renamed_reason(body.type, body.reason, rename)
        case Draft(patch=(_, *_)):
            changes["patch"] = tuple(
                (field, _patched(field, value, rename)) for field, value in body.patch
            )
    return replace(body, **changes) if changes else body


def _renaming(names: dict[str, str]) -> Rename:
    return lambda name: names.get(name, name)


def _patched(field: str, value: str, rename: Rename) -> str:
    """What a draft changes of a task: its assignees are names with commas between, as somebody
    wrote them.
    """
    if field != "assignees":
        return value
    return ",".join(_patched_name(part, rename) for part in value.split(","))


def _patched_name(part: str, rename: Rename) -> str:
    bare = part.strip().removeprefix("@")
    head, _, tail = part.rpartition(bare) if bare else (part, "", "")
    return f"{head}{rename(bare)}{tail}"
