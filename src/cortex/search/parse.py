"""Query text -> what to look for: words with weights, names that may be defined somewhere, roles that were asked for.

Pure functions. Classes of queries and their own weights come from here; nothing here knows the store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cortex.text import split_identifier, words_of

MAX_TERMS = 64  # a pasted file as a query is cut to its first words; more terms cost time and add nothing
PART_WEIGHT = 0.5  # a part of an identifier says half of what the whole says

STOP_WORDS = frozenset(
    "a an and any are as at be been but by can could do does done for from had has have how i if in into is it its me my not of on "
    "or our should so some such than that the their them then there these they this those to us was we were what when where which "
    "who why will with would you your code find show get gets happen happens work works".split()
)
_TOKEN = re.compile(r"[^\W\d][\w$]*(?:(?:::|->|[.#\\])[^\W\d][\w$]*)*[!?]?", re.UNICODE)
_SEPARATOR = re.compile(r"::|->|[.#\\]")
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]|^[A-Z][a-z]+[A-Z0-9]")
_ROLE_WORDS: Mapping[str, str] = {
    "test": "test", "tests": "test", "testing": "test", "tested": "test", "spec": "test", "specs": "test", "unittest": "test",
    "fixture": "test", "fixtures": "test", "benchmark": "example", "example": "example", "examples": "example", "sample": "example",
    "demo": "example", "tutorial": "example", "docs": "docs", "documentation": "docs", "readme": "docs", "changelog": "docs",
    "guide": "docs", "vendored": "vendored", "vendor": "vendored", "generated": "generated", "translation": "locale",
    "translations": "locale", "locale": "locale",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parsed:
    """A query, understood."""

    text: str
    weights: Mapping[str, float]  # word -> weight
    names: tuple[str, ...]  # identifiers in the query, last parts of qualified ones
    qualified: tuple[str, ...]  # qualified names as they were written, separators made "."
    symbol: bool  # the whole query is one name
    roles: frozenset[str]  # roles of files that the query asks for
    keywords: tuple[str, ...]  # plain words worth matching against paths


def parse(text: str, code: bool = False) -> Parsed:
    """Understand a query; `code` says that it is a snippet of code, whose every identifier counts alike."""
    tokens = _TOKEN.findall(text)
    symbol = not code and len(text.split()) == 1 and len(tokens) == 1
    weights: dict[str, float] = {}
    names: list[str] = []
    qualified: list[str] = []
    for token in tokens:
        parts = [part for part in _SEPARATOR.split(token.rstrip("!?")) if part]
        for part in parts:
            _weigh(part, weights)
        if symbol or len(parts) > 1 or _CAMEL.search(token) or ("_" in token.strip("_")):
            names.extend(parts[-1:])
            if len(parts) > 1:
                qualified.append(".".join(parts))
                names.extend(parts[:-1])
    for word in words_of(text):  # digits, and letters of languages without spaces
        weights.setdefault(word, PART_WEIGHT if len(word) == 1 and word.isascii() else 1.0)
    kept = {word: weight for word, weight in weights.items() if word not in STOP_WORDS} or weights
    lowered = {word.lower() for word in tokens}
    return Parsed(
        text=text,
        weights=dict(list(kept.items())[:MAX_TERMS]),
        names=tuple(dict.fromkeys(names)) if not code else (),
        qualified=tuple(dict.fromkeys(qualified)),
        symbol=symbol,
        roles=frozenset(role for word, role in _ROLE_WORDS.items() if word in lowered),
        keywords=tuple(word for word in kept if len(word) > 2),
    )


def _weigh(identifier: str, weights: dict[str, float]) -> None:
    pieces = split_identifier(identifier)
    for number, piece in enumerate(pieces):
        weight = 1.0 if number == 0 else PART_WEIGHT
        weights[piece] = max(weight, weights.get(piece, 0.0))
