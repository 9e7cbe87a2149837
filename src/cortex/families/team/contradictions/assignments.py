"""Assignments in prose and code: `POOL_SIZE=10`, "the default branch is `main`".

Names that differ in every text, such as ids and dates, are left out. Every regular expression is
bounded. Pure; knows nothing about records.
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
    r"(?<![\w.$/\\?&-])(?P<quoted>[\"'`]?)(?P<name>[A-Za-z_][\w.-]{1,60})[\"'`]?\s{0,3}"
    r"(?P<op>=(?![=>~])|:=|:(?![:/=]))\s{0,3}"
    r"(?:\"(?P<double>[^\"\n]{1,80})\"|'(?P<single>[^'\n]{1,80})'|`(?P<tick>[^`\n]{1,80})`"
    r"|(?P<plain>-?[\w.+/%][\w.+/%:@-]{0,60}))"
)
_COPULA = re.compile(
    r"(?P<name>[^.,;:!?()]{3,80}?\s(?:is|are|defaults?\sto|points?\sto|lives?\s(?:in|at|under))"
    r"(?:\s(?:called|named|set\sto|in|at|on|under|(?:stored|kept|hosted|deployed|served|mounted"
    r"|saved|published|written|located|defined)\s\w{2,5}))?)"
    r"\s(?:now\s|currently\s|always\s)?`(?P<value>[^`]{1,60})`"
)
_GENERIC_NAMES = frozenset(
    "name id title date author type description created updated status key value path url line "
    "lines commit sha hash seed timestamp owner note notes todo example see time at by from to "
    "http https file summary tags message msg ref text kind x y i j n a b e f k v self cls "
    "result return args kwargs version".split()
)
# Names with these endings have another value each time.
_PASSING_NAMES = frozenset(
    "id ids uuid guid hash sha timestamp date at token key cursor offset page index seed nonce "
    "checksum etag line lines column count total added changed unchanged deleted removed skipped "
    "failed passed elapsed took".split()
)
_MOMENT = re.compile(r"\d{1,2}:\d\d|\d{4}-\d\d")
_TRUE, _FALSE = (
    frozenset("true yes on enabled enable".split()),
    frozenset("false no off disabled disable".split()),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A name and its value."""

    # Stems of the name.
    key: Stems
    # Normalized.
    value: str
    name: str
    shown: str
    narrowed: frozenset[str]


def settings_of(text: str) -> Iterator[Setting]:
    """Find assignments in a text, line by line."""
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
            for match in _SETTING.finditer(line[: CLAUSE_CHARACTERS * 4]):
                setting = _parse_setting(match, line, section | beside)
                if setting:
                    yield setting


def _parse_setting(match: re.Match[str], line: str, narrowed: frozenset[str]) -> Setting | None:
    """Build a setting from a match, or None if it is no assignment."""
    name, plain = match["name"].rstrip(".-"), match["plain"]
    after = line[match.end() : match.end() + 1]
    parts = split_identifier(name.rpartition(".")[2])
    if name.lower() in _GENERIC_NAMES or (parts and parts[-1] in _PASSING_NAMES):
        return None
    if after == "(" or REJECTED.search(line[max(0, match.start() - 30) : match.start()]):
        return None
    shown = fold(match["double"] or match["single"] or match["tick"] or (plain or "").rstrip(".:"))
    unit_end = end_of_unit(line, match.end()) if plain and plain[-1].isdigit() else match.end()
    if unit_end > match.end():
        shown = fold(line[match.start("plain") : unit_end]).rstrip(".")
    if _MOMENT.match(shown):
        return None
    key = _key(name)
    if len(key) == 1 and not name.isupper() and not _is_scalar(shown):
        # Mode, language, color: every text has its own.
        return None
    is_identifier = (
        bool(match["quoted"])
        or "_" in name
        or bool(re.search(r"[a-z][A-Z]|\w[.-]\w|^[A-Z]{3,}$", name))
    )
    is_alone = not line[: match.start()].strip(" \t-*+{,`'\"") and not line[unit_end:].strip(
        " \t,;}`'\"."
    )
    if match["op"] == ":" and not (is_identifier or is_alone):
        return None
    if (
        match["op"] == ":"
        and plain
        and not is_alone
        and not _is_scalar(shown)
        and after not in ("", ",", ";", ")", "}", "`", ".")
    ):
        return None
    return Setting(key, normalized(shown), name, shown, narrowed) if shown else None


def _key(name: str) -> Stems:
    """Normalize the spelling of a name to its stems."""
    return tuple(
        word_stem for word in identifiers_of(name) for word_stem in stems_of_identifier(word)
    ) or (name.lower(),)


def _is_scalar(value: str) -> bool:
    """True for a number or a boolean."""
    return value[:1].isdigit() or value.lower() in _TRUE or value.lower() in _FALSE


def normalized(value: str) -> str:
    """Normalize a value: booleans, numbers with units, else the text itself."""
    lower = value.strip().strip("\"'`").lower()
    if lower in _TRUE or lower == "1":
        return "1"
    if lower in _FALSE or lower == "0":
        return "0"
    match = NUMBER.match(lower)
    if match and match["n"][0].isdigit():
        amount, end = amount_after(lower, match["n"], match.end(), (match["money"] or "").strip())
        if end == len(lower):
            return f"{amount.value:.9g} {amount.dimension}".strip()
    return lower


def copulas_of(clause: str, narrowed: frozenset[str]) -> Iterator[Setting]:
    """Find a sentence such as "The default branch is `main`" as an assignment."""
    match = _COPULA.match(clause)
    if match and not NEGATOR.search(clause[: match.start("value")]):
        about = circumstance_of(match["name"], narrowed, _NEUTRAL_OF_NAMES)
        if len(about.stems) > 1:
            shown = match["value"].strip()
            yield Setting(
                about.stems,
                normalized(shown),
                " ".join(dict.fromkeys(about.words)),
                shown,
                narrowed,
            )


def quantity_of(setting: Setting) -> Iterator[Quantity]:
    """Return the number of a setting, for comparison with sentences."""
    match = NUMBER.match(setting.shown)
    if match:
        amount, end = amount_after(setting.shown, match["n"], match.end(), "")
        if end == len(setting.shown):
            about = Circumstance(
                setting.key,
                frozenset(setting.key),
                (setting.name,) * len(setting.key),
                setting.narrowed,
            )
            yield Quantity(amount, "", False, "=", about)
