"""A record's body as JSON and back. What a body doesn't say stands nowhere, and what a newer Cortex says besides is left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from cortex.kinds import KINDS, Body


def to_json(body: Body) -> str:
    """A body as JSON, without what is as it is anyway."""
    usual = _usual(type(body))
    told = {name: value for name, value in asdict(body).items() if name not in usual or usual[name] != value}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def from_json(kind: str, text: str) -> Body:
    """The body that JSON of this kind tells. Raises: ValueError, where it tells none."""
    try:
        return _make(KINDS[kind], json.loads(text))
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no {kind}: {error}") from error


def _make(cls: type, told: Mapping[str, Any]) -> Any:
    if not isinstance(told, dict):
        raise ValueError(f"{type(told).__name__} where an object is expected")
    readers = _readers(cls)
    return cls(**{name: readers[name](value) for name, value in told.items() if name in readers})


@cache
def _usual(cls: type) -> dict[str, object]:
    return {one.name: one.default for one in fields(cls) if one.default is not MISSING}


@cache
def _readers(cls: type) -> dict[str, Callable[[Any], Any]]:
    hints = get_type_hints(cls)
    return {one.name: _reader(hints[one.name]) for one in fields(cls)}


def _reader(hint: Any) -> Callable[[Any], Any]:
    """How to read a value of this type: texts and numbers are themselves, tuples are lists, nouns are objects."""
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        if is_dataclass(inner):
            return lambda value: tuple(_make(inner, one) for one in value)  # type: ignore[arg-type]
        return lambda value: tuple(tuple(map(_text, one)) if isinstance(one, list) else _text(one) for one in value)
    return _text if hint is str else _number


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} where a text is expected")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{type(value).__name__} where a number is expected")
    return value
