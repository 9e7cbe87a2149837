"""Records over HTTP: field names, timestamps as text, and the models of request bodies.

One table of names serves both directions; lengths and allowed values come from the team family's
validation, so that the OpenAPI document states what is checked. Fields that only hold on one
machine (the path of a checkout) are neither sent nor accepted. Knows no route.
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
    "about": "about_id", "assignees": "assignee_ids", "body": "body_md", "charter": "charter_md",
    "commit": "commit_sha", "description": "description_md", "evidence": "evidence_links",
    "expires": "expires_at", "last_reviewed": "last_reviewed_at", "notes": "notes_md",
    "owner": "owner_id", "parent": "parent_comment_id", "published": "published_entity_id",
    "recipient": "recipient_id", "review_by": "review_by_date", "reviewed_by": "reviewed_by_id",
    "session": "session_id", "source": "source_id", "state": "status", "stewards": "steward_ids",
    "subcortex": "subcortex_id", "summary": "summary_md", "superseded_by": "superseded_by_id",
    "supersedes": "supersedes_id", "target": "target_id", "target_kind": "target_type",
    "task": "linked_task_id", "thread": "linked_thread_id", "watchers": "watcher_ids",
}  # fmt: skip
_NAMES_BY_CLASS: Mapping[type, Mapping[str, str]] = {
    Thread: {
        "summary": "rolling_summary_md",
        "summary_sources": "rolling_summary_sources",
        "summary_by": "rolling_summary_by_id",
    },
    Comment: {"thread": "thread_id"},
    Observation: {"subcortex": "linked_subcortex_id"},
    Evidence: {"kind": "type"},
}
# Fields in milliseconds since 1970, 0 for never.
_TIMESTAMPS = frozenset({"last_reviewed", "reviewed_at", "expires"})
_LOCAL_FIELDS = {CodeLink: frozenset({"root", "file_hash", "body_hash"})}

# Fields that a new record may have, and fields that a change may have.
CREATED: Mapping[type, tuple[str, ...]] = {
    Subcortex: (
        "slug", "name", "description", "charter", "state", "visibility", "sensitivity", "stewards",
        "pinned_threads", "pinned_artifacts", "pinned_tasks", "glossary", "naming",
    ),
    Thread: ("title", "body", "type", "subcortex", "sensitivity", "tags", "task", "code_links"),
    Comment: ("body", "parent", "sensitivity", "citations"),
    Observation: (
        "title", "summary", "type", "tags", "subcortex", "thread", "task", "sensitivity",
        "source_type", "session", "commit_id", "attachments", "code_links",
    ),
    Artifact: (
        "title", "body", "summary", "type", "state", "owner", "review_by", "evidence", "supersedes",
        "verification", "subcortex", "sensitivity", "tags", "code_links",
    ),
    Task: (
        "title", "body", "state", "priority", "assignees", "watchers", "thread", "subcortex",
        "blocked_reason", "notes", "sensitivity", "tags", "code_links",
    ),
    Draft: (
        "type", "title", "body", "target_kind", "target", "patch", "artifact_type", "thread_type",
        "citations", "tags", "reason", "summary", "sensitivity", "code_links", "evidence",
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
    """Return the name of a field over HTTP."""
    return _NAMES_BY_CLASS.get(cls, {}).get(field) or _NAMES.get(field, field)


def moment(milliseconds: int) -> str:
    """Format a timestamp in UTC with milliseconds; out-of-range values become the year 9999."""
    try:
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return "9999-12-31T23:59:59.999Z"
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


# -- encoded records


def record_row(record: Record[Any], now: int = 0) -> Row:
    """Encode a whole record."""
    row: Row = {
        "id": record.id,
        "kind": record.kind,
        "version": record.version,
        "author_id": record.author,
        "created_at": moment(record.created),
        "updated_at": moment(record.updated),
        **_encode_fields(record.body),
    }
    if isinstance(record.body, Draft) and now:
        row["status"] = state_of(record.body, now)
    return row


def _encode_fields(body: Any) -> Row:
    cls = type(body)
    row: Row = {}
    for field in fields(body):
        if field.name in _LOCAL_FIELDS.get(cls, ()):
            continue
        value = getattr(body, field.name)
        if field.name in _TIMESTAMPS:
            value = moment(value) if value else None
        elif field.name == "patch":
            value = dict(value)
        elif isinstance(value, tuple):
            value = [_encode_fields(part) if is_dataclass(part) else part for part in value]
        row[name_of(cls, field.name)] = value
    return row


def record_schema(cls: type) -> dict[str, object]:
    """Return the JSON schema of an encoded record."""
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
    properties: dict[str, object] = {}
    for field in fields(cls):
        if field.name in _LOCAL_FIELDS.get(cls, ()):
            continue
        hint = hints[field.name]
        if field.name in _TIMESTAMPS:
            schema: dict[str, object] = {"type": ["string", "null"], "format": "date-time"}
        elif field.name == "patch":
            schema = {"type": "object", "additionalProperties": {"type": "string"}}
        elif get_origin(hint) is tuple:
            inner: Any = get_args(hint)[0]
            part = _object(_properties(inner)) if is_dataclass(inner) else {"type": "string"}  # pyright: ignore[reportArgumentType]
            schema = {"type": "array", "items": part}
        else:
            schema = {"type": "string" if hint is str else "integer"}
        properties[name_of(cls, field.name)] = schema
    return properties


def _object(properties: Mapping[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


# -- models of request bodies


def sent(cls: type, model: Arguments) -> dict[str, Any]:
    """Return the fields that a request body sets, by their internal names.

    Null and missing fields are left out.
    """
    names = {name_of(cls, field.name): field.name for field in fields(cls)}
    given = {name: getattr(model, name) for name in model.model_fields_set if name in names}
    return {names[name]: _decode_value(value) for name, value in given.items() if value is not None}


def _decode_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_decode_value(part) for part in value)
    if isinstance(value, dict):
        return tuple(value.items())
    if isinstance(value, Arguments):
        cls = _PARTS[type(value)]
        return cls(**sent(cls, value))
    return value


@cache
def create_body(cls: type) -> type[Arguments]:
    """Build the model of a new record."""
    needed = tuple(name for name in NEEDED.get(cls, ("type",)) if name in CREATED[cls])
    return _model(f"New{cls.__name__}", cls, CREATED[cls], needed, FIRST.get(cls, ()))


@cache
def patch_body(cls: type) -> type[Arguments]:
    """Build the model of a change."""
    return changes_body(f"Change{cls.__name__}", cls, PATCHED[cls])


def changes_body(name: str, cls: type, names: Sequence[str]) -> type[Arguments]:
    """Build the model of a change of these fields; `version` is the expected version."""
    more = {
        "version": (
            Annotated[Whole | None, Field(ge=1, description="Refused where it is another one now")],
            None,
        )
    }
    return _model(name, cls, names, (), STATES[cls], more)


@cache
def _part(cls: type) -> type[Arguments]:
    names = [field.name for field in fields(cls) if field.name not in _LOCAL_FIELDS.get(cls, ())]
    model = _model(cls.__name__, cls, names, NEEDED[cls], ())
    _PARTS[model] = cls
    return model


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
    defaults = {dataclass_field.name: dataclass_field.default for dataclass_field in fields(cls)}
    model_fields: dict[str, Any] = {}
    for field in names:
        kind = _field_type(cls, field, hints[field], states, field in needed)
        if field in needed:
            model_fields[name_of(cls, field)] = (kind, ...)
        else:
            default = defaults[field]
            extra = {} if default in (MISSING, "", (), 0) else {"default": default}
            model_fields[name_of(cls, field)] = (
                Annotated[kind | None, Field(json_schema_extra=extra)],
                None,
            )
    return create_model(name, __base__=Arguments, **model_fields, **(more or {}))


def _field_type(cls: type, field: str, hint: Any, states: Sequence[str], needed: bool) -> Any:
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
    return [choice for choice in ALLOWED.get((cls, field), ()) if choice]


PLURALS: Mapping[str, str] = {
    kind: f"{kind}es" if kind.endswith("x") else f"{kind}s" for kind in KINDS
}
