"""How a team's records are told over HTTP: names of fields, moments as text, and the models of what
is sent.

One table of names for both directions; lengths and allowed values come from `records.allowed`, so
that the document says what is checked. What is only true on somebody's own machine (where their
checkout lies) is neither told nor taken. Knows no route.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import Field, create_model

from cortex.base.record_model import (
    KINDS,
    Artifact,
    CodeLink,
    Comment,
    Draft,
    Evidence,
    Link,
    Observation,
    Record,
    Subcortex,
    Task,
    Thread,
)
from cortex.families.team.field_rules import (
    ALLOWED,
    ELEMENT,
    ELEMENTS,
    FIRST,
    LIMITS,
    LINE,
    NEEDED,
    SENSITIVITIES,
    STATES,
    TYPES,
)
from cortex.families.team.writes.drafts import state_of
from cortex.toolkit.tool import Arguments, Whole

Row = dict[str, object]

_NAMES: Mapping[str, str] = {
    "about": "about_id", "assignees": "assignee_ids", "body": "body_md", "charter": "charter_md", "commit": "commit_sha",
    "description": "description_md", "evidence": "evidence_links", "expires": "expires_at", "last_reviewed": "last_reviewed_at",
    "notes": "notes_md", "owner": "owner_id", "parent": "parent_comment_id", "published": "published_entity_id",
    "recipient": "recipient_id", "review_by": "review_by_date", "reviewed_by": "reviewed_by_id", "session": "session_id",
    "source": "source_id", "state": "status", "stewards": "steward_ids", "subcortex": "subcortex_id", "summary": "summary_md",
    "superseded_by": "superseded_by_id", "supersedes": "supersedes_id", "target": "target_id", "target_kind": "target_type",
    "task": "linked_task_id", "thread": "linked_thread_id", "watchers": "watcher_ids",
}  # fmt: skip
_OTHERS: Mapping[type, Mapping[str, str]] = {
    Thread: {
        "summary": "rolling_summary_md",
        "summary_sources": "rolling_summary_sources",
        "summary_by": "rolling_summary_by_id",
    },
    Comment: {"thread": "thread_id"},
    Observation: {"subcortex": "linked_subcortex_id"},
    Evidence: {"kind": "type"},
}
# Milliseconds since 1970, 0 for never
_MOMENTS = frozenset({"last_reviewed", "reviewed_at", "expires"})
_OF_A_MACHINE = {CodeLink: frozenset({"root", "file_hash", "body_hash"})}

# What may be said of a new record, and what may be said otherwise later.
CREATED: Mapping[type, tuple[str, ...]] = {
    Subcortex: (
        "slug", "name", "description", "charter", "state", "visibility", "sensitivity", "stewards", "pinned_threads",
        "pinned_artifacts", "pinned_tasks", "glossary", "naming",
    ),
    Thread: ("title", "body", "type", "subcortex", "sensitivity", "tags", "task", "code_links"),
    Comment: ("body", "parent", "sensitivity", "citations"),
    Observation: (
        "title", "summary", "type", "tags", "subcortex", "thread", "task", "sensitivity", "source_type", "session", "commit_id",
        "attachments", "code_links",
    ),
    Artifact: (
        "title", "body", "summary", "type", "state", "owner", "review_by", "evidence", "supersedes", "verification", "subcortex",
        "sensitivity", "tags", "code_links",
    ),
    Task: (
        "title", "body", "state", "priority", "assignees", "watchers", "thread", "subcortex", "blocked_reason", "notes",
        "sensitivity", "tags", "code_links",
    ),
    Draft: (
        "type", "title", "body", "target_kind", "target", "patch", "artifact_type", "thread_type", "citations", "tags", "reason",
        "summary", "sensitivity", "code_links", "evidence",
    ),
    Link: ("source", "relation", "target", "note", "state"),
}  # fmt: skip
PATCHED: Mapping[type, tuple[str, ...]] = {
    Subcortex: tuple(name for name in CREATED[Subcortex] if name != "slug"),
    Thread: (*CREATED[Thread], "state", "resolution"),
    Comment: ("body", "sensitivity", "citations"),
    Observation: CREATED[Observation],
    Artifact: CREATED[Artifact],
    Task: CREATED[Task],
    Link: ("note", "state"),
}


def name_of(cls: type, field: str) -> str:
    """How a field is called over HTTP."""
    return _OTHERS.get(cls, {}).get(field) or _NAMES.get(field, field)


def moment(milliseconds: int) -> str:
    """A moment as text in UTC, with its milliseconds; whatever a clock of long ago or far ahead
    said.
    """
    try:
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return "9999-12-31T23:59:59.999Z"
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


# -- records as they are told
# ------------------------------------------------------------------------------------------


def record_row(record: Record[Any], now: int = 0) -> Row:
    """A record, whole."""
    row: Row = {
        "id": record.id,
        "kind": record.kind,
        "version": record.version,
        "author_id": record.author,
        "created_at": moment(record.created),
        "updated_at": moment(record.updated),
        **_told(record.body),
    }
    if isinstance(record.body, Draft) and now:
        row["status"] = state_of(record.body, now)
    return row


def _told(noun: Any) -> Row:
    cls = type(noun)
    row: Row = {}
    for field in fields(noun):
        if field.name in _OF_A_MACHINE.get(cls, ()):
            continue
        value = getattr(noun, field.name)
        if field.name in _MOMENTS:
            value = moment(value) if value else None
        elif field.name == "patch":
            value = dict(value)
        elif isinstance(value, tuple):
            value = [_told(part) if is_dataclass(part) else part for part in value]
        row[name_of(cls, field.name)] = value
    return row


def record_schema(cls: type) -> dict[str, object]:
    """The JSON schema of a row."""
    text, moment_text = {"type": "string"}, {"type": "string", "format": "date-time"}
    head = {
        "id": text,
        "kind": {"type": "string", "const": cls.__name__.lower()},
        "version": {"type": "integer"},
        "author_id": text,
        "created_at": moment_text,
        "updated_at": moment_text,
    }
    return _object({**head, **_properties(cls)})


def _properties(cls: type) -> dict[str, object]:
    hints = get_type_hints(cls)
    found: dict[str, object] = {}
    for field in fields(cls):
        if field.name in _OF_A_MACHINE.get(cls, ()):
            continue
        hint = hints[field.name]
        if field.name in _MOMENTS:
            schema: dict[str, object] = {"type": ["string", "null"], "format": "date-time"}
        elif field.name == "patch":
            schema = {"type": "object", "additionalProperties": {"type": "string"}}
        elif get_origin(hint) is tuple:
            inner: Any = get_args(hint)[0]
            part = _object(_properties(inner)) if is_dataclass(inner) else {"type": "string"}  # pyright: ignore[reportArgumentType]
            schema = {"type": "array", "items": part}
        else:
            schema = {"type": "string" if hint is str else "integer"}
        found[name_of(cls, field.name)] = schema
    return found


def _object(properties: Mapping[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


# -- models of what is sent
# --------------------------------------------------------------------------------------------


def sent(cls: type, model: Arguments) -> dict[str, Any]:
    """What a model says of a body of this class, by its own names; what is null or left out isn't
    said.
    """
    names = {name_of(cls, field.name): field.name for field in fields(cls)}
    given = {name: getattr(model, name) for name in model.model_fields_set if name in names}
    return {names[name]: _taken(value) for name, value in given.items() if value is not None}


def _taken(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_taken(part) for part in value)
    if isinstance(value, dict):
        return tuple(value.items())
    if isinstance(value, Arguments):
        cls = _PARTS[type(value)]
        return cls(**sent(cls, value))
    return value


@cache
def create_body(cls: type) -> type[Arguments]:
    """The model of a new record."""
    needed = tuple(name for name in NEEDED.get(cls, ("type",)) if name in CREATED[cls])
    return _model(f"New{cls.__name__}", cls, CREATED[cls], needed, FIRST.get(cls, ()))


@cache
def patch_body(cls: type) -> type[Arguments]:
    """The model of a change."""
    return changes_body(f"Change{cls.__name__}", cls, PATCHED[cls])


def changes_body(name: str, cls: type, names: Sequence[str]) -> type[Arguments]:
    """The model of a change of these fields; `version` is the one that it is made for."""
    more = {
        "version": (
            Annotated[Whole | None, Field(ge=1, description="Refused where it is another one now")],
            None,
        )
    }
    return _model(name, cls, names, (), STATES[cls], more)


@cache
def _part(cls: type) -> type[Arguments]:
    names = [field.name for field in fields(cls) if field.name not in _OF_A_MACHINE.get(cls, ())]
    made = _model(cls.__name__, cls, names, NEEDED[cls], ())
    _PARTS[made] = cls
    return made


_PARTS: dict[type, type] = {}


def _model(
    name: str,
    cls: type,
    names: Sequence[str],
    needed: Sequence[str],
    states: Sequence[str],
    more: Mapping[str, Any] | None = None,
) -> type[Arguments]:
    hints = get_type_hints(cls)
    defaults = {one.name: one.default for one in fields(cls)}
    made: dict[str, Any] = {}
    for field in names:
        kind = _kind(cls, field, hints[field], states, field in needed)
        if field in needed:
            made[name_of(cls, field)] = (kind, ...)
        else:
            shown = defaults[field]
            extra = {} if shown in (MISSING, "", (), 0) else {"default": shown}
            made[name_of(cls, field)] = (
                Annotated[kind | None, Field(json_schema_extra=extra)],
                None,
            )
    return create_model(name, __base__=Arguments, **made, **(more or {}))


def _kind(cls: type, field: str, hint: Any, states: Sequence[str], needed: bool) -> Any:
    limits = LIMITS.get(cls, {})
    if field == "patch":
        return Annotated[
            dict[str, Annotated[str, Field(max_length=ELEMENTS["patch"])]], Field(max_length=20)
        ]
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        part = (
            _part(inner)
            if is_dataclass(inner)
            else Annotated[str, Field(max_length=_element(field))]
        )
        return Annotated[tuple[part, ...], Field(max_length=limits.get(field, 100), fail_fast=True)]
    if hint is int:
        return Annotated[Whole, Field(ge=0, le=2**53)]
    choices = _choices(cls, field, states)
    if choices:
        return Literal[tuple(choices)]  # type: ignore[valid-type]
    return Annotated[str, Field(max_length=limits.get(field, LINE), min_length=1 if needed else 0)]


def _element(field: str) -> int:
    return ELEMENTS.get(field, ELEMENT)


def _choices(cls: type, field: str, states: Sequence[str]) -> Sequence[str]:
    if field == "state":
        return states
    if field == "sensitivity":
        return SENSITIVITIES
    if field == "type" and cls in TYPES:
        return TYPES[cls]
    return [one for one in ALLOWED.get((cls, field), ()) if one]


PLURALS: Mapping[str, str] = {
    kind: f"{kind}es" if kind.endswith("x") else f"{kind}s" for kind in KINDS
}
