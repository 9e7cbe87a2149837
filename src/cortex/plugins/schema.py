"""Whether settings fit a JSON schema, by the keywords that settings need.

type, enum, properties, required, additionalProperties, items, minimum and maximum are checked; any other keyword is for the people who
read it. Not taken: a validator library; a plugin's settings are a handful of values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

_TYPES: Mapping[str, Callable[[object], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list | tuple),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "null": lambda value: value is None,
}


def complaint(value: object, schema: object, place: str = "") -> str:
    """What is wrong with the first value that doesn't fit; "" where all do."""
    if not isinstance(schema, Mapping):
        return f"{place or 'the settings'}: nothing is allowed there" if schema is False else ""
    rules = cast(Mapping[str, object], schema)
    where = place or "the settings"
    kinds = rules.get("type")
    wanted = [kinds] if isinstance(kinds, str) else list(kinds) if isinstance(kinds, list) else []
    if wanted and not any(_TYPES.get(str(kind), lambda _: False)(value) for kind in wanted):
        return f"{where}: {_shown(value)} is no {' or '.join(map(str, wanted))}"
    enum = rules.get("enum")
    if isinstance(enum, list) and value not in enum:
        return f"{where}: {_shown(value)} is none of {', '.join(map(repr, enum))}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _out_of_range(value, rules, where)
    if isinstance(value, Mapping):
        return _of_object(cast(Mapping[str, object], value), rules, place)
    if isinstance(value, list | tuple) and "items" in rules:
        found = (complaint(one, rules["items"], f"{place}[{number}]") for number, one in enumerate(value))
        return next(filter(None, found), "")
    return ""


def _out_of_range(value: float, rules: Mapping[str, object], where: str) -> str:
    low, high = rules.get("minimum"), rules.get("maximum")
    if isinstance(low, int | float) and value < low:
        return f"{where}: {value} is less than {low}"
    if isinstance(high, int | float) and value > high:
        return f"{where}: {value} is more than {high}"
    return ""


def _of_object(value: Mapping[str, object], rules: Mapping[str, object], place: str) -> str:
    properties = rules.get("properties")
    known = cast(Mapping[str, object], properties) if isinstance(properties, Mapping) else {}
    required = rules.get("required")
    for name in required if isinstance(required, list) else []:
        if name not in value:
            return f"{place or 'the settings'}: {name!r} is missing"
    for name, part in value.items():
        inner = f"{place}.{name}" if place else name
        if name not in known and rules.get("additionalProperties") is False:
            return f"{inner}: unknown; known: {', '.join(known) or 'none'}"
        found = complaint(part, known.get(name, rules.get("additionalProperties")), inner)
        if found:
            return found
    return ""


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:59] + "…"
