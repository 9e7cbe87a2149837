"""A text -> the names that it gives a value, in prose as in code: `POOL_SIZE=10`, `"poolSize": 10`,
the default branch is `main`.

Names that have another value in every text, as ids and dates, are left out. Every expression is
bounded. Pure; knows no records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cortex.base.text import identifiers_of, split_identifier
from cortex.families.team.contradictions.claim_context import (
    CLAUSE_CHARACTERS,
    NEGATOR,
    REJECTED,
    SUPPOSED,
    Circumstance,
    Stems,
    circumstance_of,
    narrowed_by,
)
from cortex.families.team.contradictions.quantities import Quantity
from cortex.families.team.contradictions.units import NUMBER, amount_after, end_of_unit
from cortex.families.team.sentences import fold, stem, stems_of_identifier

_NEUTRAL_OF_NAMES = frozenset(map(stem, "set call named".split()))
_SETTING = re.compile(
    r"(?<![\w.$/\\?&-])(?P<quoted>[\"'`]?)(?P<name>[A-Za-z_][\w.-]{1,60})[\"'`]?\s{0,3}(?P<op>=(?![=>~])|:=|:(?![:/=]))\s{0,3}"
    r"(?:\"(?P<double>[^\"\n]{1,80})\"|'(?P<single>[^'\n]{1,80})'|`(?P<tick>[^`\n]{1,80})`|(?P<plain>-?[\w.+/%][\w.+/%:@-]{0,60}))"
)
_COPULA = re.compile(
    r"(?P<name>[^.,;:!?()]{3,80}?\s(?:is|are|defaults?\sto|points?\sto|lives?\s(?:in|at|under))"
    r"(?:\s(?:called|named|set\sto|in|at|on|under|(?:stored|kept|hosted|deployed|served|mounted|saved|published|written|located|defined)\s\w{2,5}))?)"
    r"\s(?:now\s|currently\s|always\s)?`(?P<value>[^`]{1,60})`"
)
_GENERIC_NAMES = frozenset(
    "name id title date author type description created updated status key value path url line lines commit sha hash seed timestamp owner "
    "note notes todo example see time at by from to http https file summary tags message msg ref text kind x y i j n a b e f k v self cls "
    "result return args kwargs version".split()
)  # fmt: skip
_PASSING_NAMES = frozenset(  # names that end so have another value each time
    "id ids uuid guid hash sha timestamp date at token key cursor offset page index seed nonce checksum etag line lines column count total "
    "added changed unchanged deleted removed skipped failed passed elapsed took".split()
)
_MOMENT = re.compile(r"\d{1,2}:\d\d|\d{4}-\d\d")
_TRUE, _FALSE = (
    frozenset("true yes on enabled enable".split()),
    frozenset("false no off disabled disable".split()),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A name and its value."""

    key: Stems  # the stems of the name
    value: str  # brought to one form
    name: str
    shown: str
    narrowed: frozenset[str]


def settings_of(text: str) -> Iterator[Setting]:
    """The names that are given a value, in prose as in code."""
    section: frozenset[str] = frozenset()
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] == ">":
            continue
        if stripped[0] in "#[" or stripped[-1] in ":{":
            section = narrowed_by(identifiers_of(stripped[:CLAUSE_CHARACTERS]))
        if ("=" in line or ":" in line) and not (
            SUPPOSED.search(line[:CLAUSE_CHARACTERS]) or stripped[-1] == "?"
        ):
            beside = narrowed_by(identifiers_of(_SETTING.sub(" ", line[:CLAUSE_CHARACTERS])))
            for found in _SETTING.finditer(line[: CLAUSE_CHARACTERS * 4]):
                setting = _setting(found, line, section | beside)
                if setting:
                    yield setting


def _setting(found: re.Match[str], line: str, narrowed: frozenset[str]) -> Setting | None:
    """A name and its value, if that is what they are."""
    name, plain = found["name"].rstrip(".-"), found["plain"]
    after = line[found.end() : found.end() + 1]
    parts = split_identifier(name.rpartition(".")[2])
    if name.lower() in _GENERIC_NAMES or (parts and parts[-1] in _PASSING_NAMES):
        return None
    if after == "(" or REJECTED.search(line[max(0, found.start() - 30) : found.start()]):
        return None
    shown = fold(found["double"] or found["single"] or found["tick"] or (plain or "").rstrip(".:"))
    unit_end = end_of_unit(line, found.end()) if plain and plain[-1].isdigit() else found.end()
    if unit_end > found.end():
        shown = fold(line[found.start("plain") : unit_end]).rstrip(".")
    if _MOMENT.match(shown):
        return None
    key = _key(name)
    if len(key) == 1 and not name.isupper() and not _is_scalar(shown):
        return None  # mode, language, color: every text has its own
    named = (
        bool(found["quoted"])
        or "_" in name
        or bool(re.search(r"[a-z][A-Z]|\w[.-]\w|^[A-Z]{3,}$", name))
    )
    alone = not line[: found.start()].strip(" \t-*+{,`'\"") and not line[unit_end:].strip(
        " \t,;}`'\"."
    )
    if found["op"] == ":" and not (named or alone):
        return None
    if (
        found["op"] == ":"
        and plain
        and not alone
        and not _is_scalar(shown)
        and after not in ("", ",", ";", ")", "}", "`", ".")
    ):
        return None
    return Setting(key, normalized(shown), name, shown, narrowed) if shown else None


def _key(name: str) -> Stems:
    """A name in any spelling."""
    return tuple(one for word in identifiers_of(name) for one in stems_of_identifier(word)) or (
        name.lower(),
    )


def _is_scalar(value: str) -> bool:
    """Whether a value is a number or a truth."""
    return value[:1].isdigit() or value.lower() in _TRUE or value.lower() in _FALSE


def normalized(value: str) -> str:
    """A value in one form: truths, numbers with their units, else the text itself."""
    lower = value.strip().strip("\"'`").lower()
    if lower in _TRUE or lower == "1":
        return "1"
    if lower in _FALSE or lower == "0":
        return "0"
    found = NUMBER.match(lower)
    if found and found["n"][0].isdigit():
        amount, end = amount_after(lower, found["n"], found.end(), (found["money"] or "").strip())
        if end == len(lower):
            return f"{amount.value:.9g} {amount.dimension}".strip()
    return lower


def copulas_of(clause: str, narrowed: frozenset[str]) -> Iterator[Setting]:
    """`The default branch is `main`` as a name and its value."""
    found = _COPULA.match(clause)
    if found and not NEGATOR.search(clause[: found.start("value")]):
        about = circumstance_of(found["name"], narrowed, _NEUTRAL_OF_NAMES)
        if len(about.stems) > 1:
            shown = found["value"].strip()
            yield Setting(
                about.stems,
                normalized(shown),
                " ".join(dict.fromkeys(about.words)),
                shown,
                narrowed,
            )


def quantity_of(setting: Setting) -> Iterator[Quantity]:
    """A setting's number, to be held against what a sentence says of it."""
    found = NUMBER.match(setting.shown)
    if found:
        amount, end = amount_after(setting.shown, found["n"], found.end(), "")
        if end == len(setting.shown):
            about = Circumstance(
                setting.key,
                frozenset(setting.key),
                (setting.name,) * len(setting.key),
                setting.narrowed,
            )
            yield Quantity(amount, "", False, "=", about)
