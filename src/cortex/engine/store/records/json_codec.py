"""A record's body as JSON and back.

What a body doesn't say stands nowhere, and what a newer Cortex says besides is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from cortex.base.record_model import KINDS, Body


def told_of(body: Body) -> dict[str, object]:
    """A body as what JSON can tell, without what is as it is anyway."""
    return {
        name: _plain(value)
        for name, usual in _usual(type(body))
        if (value := getattr(body, name)) != usual
    }


def to_json(body: Body) -> str:
    """A body as JSON, without what is as it is anyway."""
    return json.dumps(told_of(body), ensure_ascii=False, separators=(",", ":"))


def from_json(kind: str, text: str) -> Body:
    """The body that JSON of this kind tells. Raises: ValueError, where it tells none."""
    try:
        return from_told(kind, json.loads(text))
    except RecursionError as error:
        raise ValueError(f"no {kind}: {error}") from error


def from_told(kind: str, told: Mapping[str, Any]) -> Body:
    """The body that is told like this. Raises: ValueError, where it tells none."""
    try:
        return _make(KINDS[kind], told)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no {kind}: {error}") from error


def _make(cls: type, told: Mapping[str, Any]) -> Any:
    if not isinstance(told, dict):
        raise ValueError(f"{type(told).__name__} where an object is expected")
    readers = _readers(cls)
    return cls(**{name: readers[name](value) for name, value in told.items() if name in readers})


def _plain(value: Any) -> object:
    """A value as JSON has it: lists for tuples, objects for nouns, with all that they say."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name, _ in _usual(type(value))}
    return value


@cache
def _usual(cls: type) -> tuple[tuple[str, object], ...]:
    """Its fields, each with what it usually is; MISSING equals nothing."""
    return tuple((field.name, field.default) for field in fields(cls))


@cache
def _readers(cls: type) -> dict[str, Callable[[Any], Any]]:
    hints = get_type_hints(cls)
    return {field.name: _reader(hints[field.name]) for field in fields(cls)}


def _reader(hint: Any) -> Callable[[Any], Any]:
    """How to read a value of this type: texts and numbers are themselves, tuples are lists, nouns
    are objects.
    """
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        if is_dataclass(inner):
            return lambda value: tuple(_make(inner, one) for one in value)  # type: ignore[arg-type]
        return lambda value: tuple(
            tuple(map(_text, one)) if isinstance(one, list) else _text(one) for one in value
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
