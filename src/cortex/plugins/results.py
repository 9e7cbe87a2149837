"""Parsing of plugin answers into the types of the API; errors name the wrong place.

Texts of a plugin may appear in a pack or a log line, so single lines are kept to one line of
bounded length.
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
# Characters of a line or title that are kept for redaction, before the rest is cut.
READ_CHARACTERS = 5_000
TITLE_CHARACTERS = 300
SUMMARY_CHARACTERS = 10_000
TAGS = 20
# Sections of one answer, and lines of one section: a pack has room for fewer.
SECTIONS, LINES = 20, 50
# Observations of one answer, so that one plugin can't flood the list that people read.
OBSERVATIONS = 50
Fields = Mapping[str, object]
Clean = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Declared:
    """Declaration of a plugin: its category, permissions, hooks and settings schema."""

    category: str
    permissions: frozenset[str]
    hooks: frozenset[str]
    schema: Mapping[str, object]


def declared_of(value: object, name: str) -> Declared:
    """Parse the declaration of the plugin called `name`.

    Raises:
        ValueError: it isn't valid.
    """
    fields = _object(value, "the declaration")
    if fields.get("name") != name:
        raise ValueError(
            f"it calls itself {fields.get('name')!r}; `name` must be the name of its entry point"
        )
    category = _text(fields, "category", "the declaration")
    if category not in CATEGORIES:
        raise ValueError(f"category {category!r} is none of {', '.join(CATEGORIES)}")
    permissions = _texts(fields, "permissions", "the declaration")
    if unknown := sorted(set(permissions) - set(PERMISSIONS)):
        raise ValueError(f"permission {unknown[0]!r} is none of {', '.join(PERMISSIONS)}")
    schema = _object(fields.get("schema"), "config_schema")
    return Declared(
        category,
        frozenset(permissions),
        frozenset(_texts(fields, "hooks", "the declaration")),
        dict(schema),
    )


def sections_of(value: object, plugin: str, clean: Clean = str) -> list[Section]:
    """Parse the sections of a plugin, up to what a pack can show; empty ones are left out.

    `clean` removes secrets from titles and lines before they are cut: half a secret might not be
    recognised.

    Raises:
        ValueError: they aren't valid.
    """
    sections = []
    for index, item in enumerate(_list(value, "the answer")[:SECTIONS]):
        place = f"section {index + 1}"
        fields = _object(item, place)
        given_lines = _list(fields.get("lines"), f"`lines` of {place}")[:LINES]
        lines = tuple(_line(line, place, clean) for line in given_lines)
        if lines:
            title = clean(_text(fields, "title", place)[:READ_CHARACTERS])
            sections.append(Section(one_line(title, TITLE_CHARACTERS), lines, plugin))
    return sections


def verdict_of(value: object, text: str) -> Verdict:
    """Parse a plugin's verdict on a text.

    Raises:
        ValueError: it isn't a verdict, or not on this text.
    """
    fields = _object(value, "the verdict")
    if not isinstance(fields.get("allowed"), bool):
        raise ValueError("`allowed` of the verdict is neither true nor false")
    redactions = tuple(
        _redaction(redaction, len(text))
        for redaction in _list(fields.get("redactions", []), "`redactions`")
    )
    warnings = tuple(
        one_line(warning, LINE_CHARACTERS) for warning in _texts(fields, "warnings", "the verdict")
    )
    reason = one_line(_text(fields, "reason", "the verdict", ""), LINE_CHARACTERS)
    return Verdict(cast(bool, fields["allowed"]), redactions, warnings, reason)


def observations_of(value: object, plugin: str) -> list[Observation]:
    """Parse the observations of a plugin; surplus ones are dropped.

    Raises:
        ValueError: they aren't valid, or one is too long to be stored.
    """
    observations = []
    for index, item in enumerate(_list(value, "the answer")[:OBSERVATIONS]):
        place = f"observation {index + 1}"
        fields = _object(item, place)
        title, summary = _text(fields, "title", place).strip(), _text(fields, "summary", place)
        tags = tuple(dict.fromkeys(_texts(fields, "tags", place)))
        if (
            not title
            or len(title) > TITLE_CHARACTERS
            or len(summary) > SUMMARY_CHARACTERS
            or len(tags) > TAGS
        ):
            raise ValueError(
                f"{place} needs a title of at most {TITLE_CHARACTERS} characters, a summary of "
                "at most"
                f" {SUMMARY_CHARACTERS:,} and at most {TAGS} tags"
            )
        observations.append(Observation(title, summary, tags, plugin))
    return observations


def _line(value: object, place: str, clean: Clean) -> Line:
    if isinstance(value, str):
        value = {"text": value}
    fields = _object(value, f"a line of {place}")
    text, id = (
        _text(fields, "text", f"a line of {place}"),
        _text(fields, "id", f"a line of {place}", ""),
    )
    return Line(one_line(clean(text[:READ_CHARACTERS]), LINE_CHARACTERS), one_line(id))


def _redaction(value: object, length: int) -> Redaction:
    fields = _object(value, "a redaction")
    start, end = fields.get("start"), fields.get("end")
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= length:
        raise ValueError(f"a redaction from {start!r} to {end!r} in a text of {length} characters")
    return Redaction(start, end, one_line(_text(fields, "name", "a redaction")))


def _object(value: object, place: str) -> Fields:
    if not isinstance(value, Mapping):
        raise ValueError(f"{place} is {_kind(value)} where an object is expected")
    return cast(Fields, value)


def _list(value: object, place: str) -> list[object]:
    # A hook that returns nothing.
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{place} is {_kind(value)} where a list is expected")
    return value


def _text(fields: Fields, key: str, place: str, missing: str | None = None) -> str:
    value = fields.get(key, missing)
    if not isinstance(value, str):
        raise ValueError(f"`{key}` of {place} is {_kind(value)} where a text is expected")
    return value


def _texts(fields: Fields, key: str, place: str) -> list[str]:
    values = _list(fields.get(key), f"`{key}` of {place}")
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"`{key}` of {place} isn't a list of texts")
    return cast(list[str], values)


def _kind(value: object) -> str:
    return "nothing" if value is None else f"of type {type(value).__name__}"
