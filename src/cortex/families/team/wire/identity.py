"""Mapping of principal names between a home and its Core.

At home the person is "person" and a protocol client is "agent"; at the Core they are "ada" and
"ada/agent". All other names are the same on both sides. The mapping is reversible, with one
intended exception: a person's own Core name, written at home, means that person. Only fields with
names, and notification reasons made from templates, are changed; free text stays. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cortex.base.actors import AGENT, PERSON
from cortex.base.record_model import Draft, Notification, Record
from cortex.base.record_spec import fields_of
from cortex.engine.store import RecordChange
from cortex.families.team.notification_texts import renamed as renamed_reason

Rename = Callable[[str], str]

# Between a principal and their agent.
SEPARATOR = "/"
# Between a name and the other Core that it is from.
PLACE = "@"


def agent_of(principal: str) -> str:
    """Return the name of a principal's agent at a Core."""
    return f"{principal}{SEPARATOR}{AGENT}"


def outward(principal: str) -> Rename:
    """Map names from this principal's home to the Core."""
    return _renamer({PERSON: principal, AGENT: agent_of(principal)})


def inward(principal: str) -> Rename:
    """Map names from the Core to this principal's home."""
    return _renamer({principal: PERSON, agent_of(principal): AGENT})


def from_elsewhere(place: str) -> Rename:
    """Mark names of another Core with its host: "ada" becomes "ada@core.example.org"."""

    def rename(name: str) -> str:
        who, agent, _ = name.partition(f"{SEPARATOR}{AGENT}")
        return (
            name if name in (PERSON, AGENT, "") or PLACE in name else f"{who}{PLACE}{place}{agent}"
        )

    return rename


def renamed(record: Record[Any], rename: Rename) -> Record[Any]:
    """Return a record with the names of the other side."""
    return replace(record, author=rename(record.author), body=renamed_body(record.body, rename))


def renamed_changed(change: RecordChange, rename: Rename) -> RecordChange:
    """Return a change with the names of the other side."""
    before = None if change.before is None else renamed_body(change.before, rename)
    return replace(
        change,
        author=rename(change.author),
        before=before,
        after=renamed_body(change.after, rename),
    )


def renamed_body(body: Any, rename: Rename) -> Any:
    """Return a body with the names of the other side."""
    changes: dict[str, object] = {}
    for field, spec in fields_of(type(body)).items():
        if spec.principal and (value := getattr(body, field)):
            is_list = spec.part is not None
            changes[field] = tuple(dict.fromkeys(map(rename, value))) if is_list else rename(value)
    match body:
        case Notification():
            changes["reason"] = renamed_reason(body.type, body.reason, rename)
        case Draft(patch=(_, *_)):
            changes["patch"] = tuple(
                (field, _rename_in_patch(field, value, rename)) for field, value in body.patch
            )
    return replace(body, **changes) if changes else body


def _renamer(names: dict[str, str]) -> Rename:
    """Return a function that replaces the given names."""
    return lambda name: names.get(name, name)


def _rename_in_patch(field: str, value: str, rename: Rename) -> str:
    """Rename the assignees in a task patch, separated by commas as the author wrote them."""
    if field != "assignees":
        return value
    return ",".join(_rename_part(part, rename) for part in value.split(","))


def _rename_part(part: str, rename: Rename) -> str:
    """Rename one name, keeping the white space and @ around it."""
    bare = part.strip().removeprefix("@")
    head, _, tail = part.rpartition(bare) if bare else (part, "", "")
    return f"{head}{rename(bare)}{tail}"
