"""JSON codec of record bodies.

Default values are omitted, and unknown fields of a newer Cortex are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from cortex.base.record_model import KINDS, Body


def to_fields(body: Body) -> dict[str, object]:
    """Body as a JSON object without default values."""
    return {
        name: _to_plain(value)
        for name, default in _defaults(type(body))
        if (value := getattr(body, name)) != default
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
    readers = _readers(cls)
    return cls(
        **{name: readers[name](value) for name, value in fields_by_name.items() if name in readers}
    )


def _to_plain(value: Any) -> object:
    """Value as JSON: lists for tuples, objects for dataclasses, with all their fields."""
    if isinstance(value, tuple):
        return [_to_plain(item) for item in value]
    if is_dataclass(value):
        return {name: _to_plain(getattr(value, name)) for name, _ in _defaults(type(value))}
    return value


@cache
def _defaults(cls: type) -> tuple[tuple[str, object], ...]:
    """Fields of a class with their defaults; MISSING equals nothing."""
    return tuple((field.name, field.default) for field in fields(cls))


@cache
def _readers(cls: type) -> dict[str, Callable[[Any], Any]]:
    hints = get_type_hints(cls)
    return {field.name: _reader(hints[field.name]) for field in fields(cls)}


def _reader(hint: Any) -> Callable[[Any], Any]:
    """Decoder for a type: text and numbers as they are, lists as tuples, objects as dataclasses."""
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        if is_dataclass(inner):
            return lambda value: tuple(_build(inner, item) for item in value)  # type: ignore[arg-type]
        return lambda value: tuple(
            tuple(map(_text, item)) if isinstance(item, list) else _text(item) for item in value
        )
    return _text if hint is str else _number


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} where a text is expected")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{type(value).__name__} where a number is expected")
    return value
