"""JSON codec of record bodies.

Default values are omitted, and unknown fields of a newer Cortex are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from cortex.base.record_model import KINDS, Body
from cortex.base.record_spec import FieldSpec, fields_of


def to_fields(body: Body) -> dict[str, object]:
    """Body as a JSON object without default values."""
    return {
        name: _to_plain(value)
        for name, spec in fields_of(type(body)).items()
        if (value := getattr(body, name)) != spec.default
    }


def to_json(body: Body) -> str:
    """Encode a body as JSON without default values."""
    return json.dumps(to_fields(body), ensure_ascii=False, separators=(",", ":"))


def from_json(kind: str, text: str) -> Body:
    """Decode a body of this kind from JSON.

    Raises: ValueError if it is invalid.
    """
    try:
        return from_fields(kind, json.loads(text))
    except RecursionError as error:
        raise ValueError(f"no {kind}: {error}") from error


def from_fields(kind: str, fields_by_name: Mapping[str, Any]) -> Body:
    """Build a body of this kind from a JSON object.

    Raises: ValueError if it is invalid.
    """
    try:
        return _build(KINDS[kind], fields_by_name)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no {kind}: {error}") from error


def _build(cls: type, fields_by_name: Mapping[str, Any]) -> Any:
    if not isinstance(fields_by_name, dict):
        raise ValueError(f"{type(fields_by_name).__name__} where an object is expected")
    specs = fields_of(cls)
    return cls(
        **{
            name: _read(specs[name], value)
            for name, value in fields_by_name.items()
            if name in specs
        }
    )


def _to_plain(value: Any) -> object:
    """Value as JSON: lists for tuples, objects for dataclasses, with all their fields."""
    if isinstance(value, tuple):
        return [_to_plain(item) for item in value]
    if is_dataclass(value):
        return {name: _to_plain(getattr(value, name)) for name in fields_of(type(value))}
    return value


def _read(spec: FieldSpec, value: Any) -> Any:
    """Decode a value: text and numbers as they are, lists as tuples, objects as dataclasses."""
    if spec.part is None:
        return _text(value) if spec.hint is str else _number(value)
    if is_dataclass(spec.part):
        return tuple(_build(spec.part, item) for item in value)  # type: ignore[arg-type]
    return tuple(
        tuple(map(_text, item)) if isinstance(item, list) else _text(item) for item in value
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} where a text is expected")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{type(value).__name__} where a number is expected")
    return value
