"""What a plugin answered, made into nouns; whatever isn't exactly that is an error with its place.

A text of a plugin may stand in a pack or a log line: it is kept to one line of bounded length where
it is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from cortex.base.text import one_line
from cortex.plugins.api import (
    CATEGORIES,
    PERMISSIONS,
    Line,
    Observation,
    Redaction,
    Section,
    Verdict,
)

LINE_CHARACTERS = 500
READ_CHARACTERS = 5_000  # of a line or title, before secrets are taken out and the rest is cut
TITLE_CHARACTERS = 300
SUMMARY_CHARACTERS = 10_000
TAGS = 20
SECTIONS, LINES = 20, 50  # of one answer, and of one section: a pack has room for fewer
# Of one answer: else the first that has nothing better to do fills what people read
OBSERVATIONS = 50
Fields = Mapping[str, object]
Clean = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Declared:
    """What a plugin says of itself before anything is asked of it."""

    category: str
    permissions: frozenset[str]
    hooks: frozenset[str]
    schema: Mapping[str, object]


def declared_of(value: object, name: str) -> Declared:
    """What the plugin called `name` declares.

    Raises:
        ValueError: it can't be used as it is.
    """
    told = _object(value, "the declaration")
    if told.get("name") != name:
        raise ValueError(
            f"it calls itself {told.get('name')!r}; `name` must be the name of its entry point"
        )
    category = _text(told, "category", "the declaration")
    if category not in CATEGORIES:
        raise ValueError(f"category {category!r} is none of {', '.join(CATEGORIES)}")
    permissions = _texts(told, "permissions", "the declaration")
    if unknown := sorted(set(permissions) - set(PERMISSIONS)):
        raise ValueError(f"permission {unknown[0]!r} is none of {', '.join(PERMISSIONS)}")
    schema = _object(told.get("schema"), "config_schema")
    return Declared(
        category,
        frozenset(permissions),
        frozenset(_texts(told, "hooks", "the declaration")),
        dict(schema),
    )


def sections_of(value: object, plugin: str, clean: Clean = str) -> list[Section]:
    """The sections that a plugin brought, as many as a pack may ever show; those without a line are
    left out.

    `clean` takes secrets out of titles and lines, before they are cut: half a secret may not be
    seen as one.

    Raises:
        ValueError: these are none.
    """
    found = []
    for number, one in enumerate(_list(value, "the answer")[:SECTIONS]):
        place = f"section {number + 1}"
        told = _object(one, place)
        given = _list(told.get("lines"), f"`lines` of {place}")[:LINES]
        lines = tuple(_line(line, place, clean) for line in given)
        if lines:
            title = clean(_text(told, "title", place)[:READ_CHARACTERS])
            found.append(Section(one_line(title, TITLE_CHARACTERS), lines, plugin))
    return found


def verdict_of(value: object, text: str) -> Verdict:
    """What a plugin says of a text.

    Raises:
        ValueError: this is no verdict, or not on this text.
    """
    told = _object(value, "the verdict")
    if not isinstance(told.get("allowed"), bool):
        raise ValueError("`allowed` of the verdict is neither true nor false")
    redactions = tuple(
        _redaction(one, len(text)) for one in _list(told.get("redactions", []), "`redactions`")
    )
    warnings = tuple(
        one_line(one, LINE_CHARACTERS) for one in _texts(told, "warnings", "the verdict")
    )
    reason = one_line(_text(told, "reason", "the verdict", ""), LINE_CHARACTERS)
    return Verdict(cast(bool, told["allowed"]), redactions, warnings, reason)


def observations_of(value: object, plugin: str) -> list[Observation]:
    """The observations that a plugin brought, the first ones where they are too many.

    Raises:
        ValueError: these are none, or one is too long to be kept.
    """
    found = []
    for number, one in enumerate(_list(value, "the answer")[:OBSERVATIONS]):
        place = f"observation {number + 1}"
        told = _object(one, place)
        title, summary = _text(told, "title", place).strip(), _text(told, "summary", place)
        tags = tuple(dict.fromkeys(_texts(told, "tags", place)))
        if (
            not title
            or len(title) > TITLE_CHARACTERS
            or len(summary) > SUMMARY_CHARACTERS
            or len(tags) > TAGS
        ):
            raise ValueError(
                f"{place} needs a title of at most {TITLE_CHARACTERS} characters, a summary of at most"
                f" {SUMMARY_CHARACTERS:,} and at most {TAGS} tags"
            )
        found.append(Observation(title, summary, tags, plugin))
    return found


def _line(value: object, place: str, clean: Clean) -> Line:
    if isinstance(value, str):
        value = {"text": value}
    told = _object(value, f"a line of {place}")
    text, id = (
        _text(told, "text", f"a line of {place}"),
        _text(told, "id", f"a line of {place}", ""),
    )
    return Line(one_line(clean(text[:READ_CHARACTERS]), LINE_CHARACTERS), one_line(id))


def _redaction(value: object, length: int) -> Redaction:
    told = _object(value, "a redaction")
    start, end = told.get("start"), told.get("end")
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= length:
        raise ValueError(f"a redaction from {start!r} to {end!r} in a text of {length} characters")
    return Redaction(start, end, one_line(_text(told, "name", "a redaction")))


def _object(value: object, place: str) -> Fields:
    if not isinstance(value, Mapping):
        raise ValueError(f"{place} is {_kind(value)} where an object is expected")
    return cast(Fields, value)


def _list(value: object, place: str) -> list[object]:
    if value is None:  # a hook that returns nothing
        return []
    if not isinstance(value, list):
        raise ValueError(f"{place} is {_kind(value)} where a list is expected")
    return value


def _text(told: Fields, key: str, place: str, missing: str | None = None) -> str:
    value = told.get(key, missing)
    if not isinstance(value, str):
        raise ValueError(f"`{key}` of {place} is {_kind(value)} where a text is expected")
    return value


def _texts(told: Fields, key: str, place: str) -> list[str]:
    values = _list(told.get(key), f"`{key}` of {place}")
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"`{key}` of {place} isn't a list of texts")
    return cast(list[str], values)


def _kind(value: object) -> str:
    return "nothing" if value is None else f"of type {type(value).__name__}"
