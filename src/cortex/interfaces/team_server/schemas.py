"""Records over HTTP: field names, timestamps as text, and the models of request bodies.

Names, lengths and allowed values are those of the record kinds, so that the OpenAPI document states
what is checked. Fields that only hold on one
machine (the path of a checkout) are neither sent nor accepted. Knows no route.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal, get_origin

from pydantic import Field, create_model

from cortex.base.record_model import Draft, Record
from cortex.base.record_spec import FieldSpec, fields_of, spec_of
from cortex.families.team.writes.drafts import state_of
from cortex.toolkit.tool import Arguments, Whole

Row = dict[str, object]


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
    return {
        spec.http_name: _encode_value(spec, getattr(body, spec.name))
        for spec in _sent_fields(type(body))
    }


def _encode_value(spec: FieldSpec, value: Any) -> object:
    if spec.moment:
        return moment(value) if value else None
    if get_origin(spec.part) is tuple:
        return dict(value)
    if spec.part is not None:
        return [_encode_fields(part) if is_dataclass(part) else part for part in value]
    return value


@cache
def _sent_fields(cls: type) -> tuple[FieldSpec, ...]:
    """Return the fields that are sent and accepted."""
    return tuple(spec for spec in fields_of(cls).values() if not spec.local)


def record_schema(cls: type) -> dict[str, object]:
    """Return the JSON schema of an encoded record."""
    text, moment_text = {"type": "string"}, {"type": "string", "format": "date-time"}
    head = {
        "id": text,
        "kind": {"type": "string", "const": spec_of(cls).name},
        "version": {"type": "integer"},
        "author_id": text,
        "created_at": moment_text,
        "updated_at": moment_text,
    }
    return _object({**head, **_properties(cls)})


def _properties(cls: type) -> dict[str, object]:
    return {spec.http_name: _schema(spec) for spec in _sent_fields(cls)}


def _schema(spec: FieldSpec) -> dict[str, object]:
    if spec.moment:
        return {"type": ["string", "null"], "format": "date-time"}
    if get_origin(spec.part) is tuple:
        return {"type": "object", "additionalProperties": {"type": "string"}}
    if spec.part is not None:
        is_part = is_dataclass(spec.part)
        part = _object(_properties(spec.part)) if is_part else {"type": "string"}
        return {"type": "array", "items": part}
    return {"type": "string" if spec.hint is str else "integer"}


def _object(properties: Mapping[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


# -- models of request bodies


def sent(cls: type, model: Arguments) -> dict[str, Any]:
    """Return the fields that a request body sets, by their internal names.

    Null and missing fields are left out.
    """
    names = {spec.http_name: name for name, spec in fields_of(cls).items()}
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
    specs = [spec for spec in fields_of(cls).values() if spec.sent in ("always", "new")]
    return _model(f"New{cls.__name__}", cls, specs, spec_of(cls).first, is_new=True)


@cache
def patch_body(cls: type) -> type[Arguments]:
    """Build the model of a change."""
    names = [
        name
        for sent in ("always", "change")
        for name, spec in fields_of(cls).items()
        if spec.sent == sent
    ]
    return changes_body(f"Change{cls.__name__}", cls, names)


def changes_body(name: str, cls: type, names: Sequence[str]) -> type[Arguments]:
    """Build the model of a change of these fields; `version` is the expected version."""
    more = {
        "version": (
            Annotated[Whole | None, Field(ge=1, description="Refused where it is another one now")],
            None,
        )
    }
    specs = [fields_of(cls)[field] for field in names]
    return _model(name, cls, specs, spec_of(cls).states, more)


@cache
def _part(cls: type) -> type[Arguments]:
    model = _model(cls.__name__, cls, _sent_fields(cls), (), is_new=True)
    _PARTS[model] = cls
    return model


_PARTS: dict[type, type] = {}


def _model(
    name: str,
    cls: type,
    specs: Sequence[FieldSpec],
    states: Sequence[str],
    more: Mapping[str, Any] | None = None,
    *,
    is_new: bool = False,
) -> type[Arguments]:
    """Build a model; `is_new` for one that requires the fields that must not be empty."""
    model_fields: dict[str, Any] = {}
    for spec in specs:
        needed = is_new and spec.needed
        kind = _field_type(spec, states if spec.name == "state" else spec.choices, needed)
        extra = {} if spec.default in (..., "", (), 0) else {"default": spec.default}
        model_fields[spec.http_name] = (
            (kind, ...)
            if needed
            else (Annotated[kind | None, Field(json_schema_extra=extra)], None)
        )
    return create_model(name, __base__=Arguments, **model_fields, **(more or {}))


def _field_type(spec: FieldSpec, choices: Sequence[str], needed: bool) -> Any:
    element = Annotated[str, Field(max_length=spec.element)]
    if get_origin(spec.part) is tuple:
        return Annotated[dict[str, element], Field(max_length=spec.limit)]
    if spec.part is not None:
        part = _part(spec.part) if is_dataclass(spec.part) else element
        return Annotated[tuple[part, ...], Field(max_length=spec.limit, fail_fast=True)]
    if spec.hint is int:
        return Annotated[Whole, Field(ge=0, le=2**53)]
    if choices := [choice for choice in choices if choice]:
        return Literal[tuple(choices)]  # type: ignore[valid-type]
    return Annotated[str, Field(max_length=spec.limit, min_length=1 if needed else 0)]
