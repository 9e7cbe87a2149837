"""Comparison of two texts on the same subject: candidate contradictions.

A person judges each candidate. Prefers precision to recall, since a false alarm costs more
attention than a miss: two claims conflict only if they are about the same thing under the same
circumstances, and no other part of the texts agrees. Pure; knows nothing about records and links.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from cortex.base.text import identifiers_of
from cortex.families.team.contradictions.assignments import Setting
from cortex.families.team.contradictions.claim_context import Circumstance
from cortex.families.team.contradictions.claims import Claims, ClaimStatement, claims_of
from cortex.families.team.contradictions.quantities import Quantity, Release
from cortex.families.team.sentences import stem, stems_of_identifier

Kind = Literal["number", "version", "value", "negation"]
Claim = TypeVar("Claim")

MOST_DIFFERENCES = 20
TITLE_CHARACTERS = 300
SUBJECT_WORDS = 6
# Measured and approximate numbers differ only by a larger factor.
NOTABLE = 1.25
# Share of the longer title that the shorter one must cover.
CONTAINED = 0.6
# Jaccard overlap needed if each title has words of its own.
OVERLAP = 0.75

_DOCUMENT = re.compile(
    r"\s*(?:adr|rfc|spec|decision|note|runbook|report|postmortem|proposal)s?"
    r"[\s#-]*\d*\s*[:.–—-]\s*",
    re.IGNORECASE,
)
_ALIASES = {
    "db": "databas", "postgresql": "postgr", "pg": "postgr", "k8s": "kubernete",
    "repo": "repository", "auth": "authentication", "config": "configuration",
    "configure": "configuration", "configur": "configuration", "prod": "production",
    "env": "environment", "js": "javascript", "ts": "typescript", "deployment": "deploy",
    "doc": "documentation", "perf": "performance", "max": "maximum",
}  # fmt: skip
_GENERIC = frozenset(
    stem(word)
    for word in "use choose tune update change note notes guide overview decision plan value "
    "default setting set policy question about discussion proposal idea summary our new "
    "current".split()
)
_VALUE_BEFORE = frozenset("is are = : to at of be than least most".split())
_COUNTED = frozenset(
    "release version sprint week milestone phase part step quarter incident iteration cycle "
    "round".split()
)
_TITLE_TOKEN = re.compile(r"v?\d+(?:\.\d+)*|[^\W\d_]\w*|[=:]")
_MONEY_OR_UNIT = re.compile(
    r"\s?(?:%|ms|s|sec\w*|min\w*|h|hours?|days?|[kmgt]i?b)\b|\s?%", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A conflict between two texts: its subject, and the statement of each."""

    kind: Kind
    subject: str
    left: str
    right: str


def same_subject(title_a: str, title_b: str) -> bool:
    """True if two titles name the same thing, in any order and inflection."""
    words_a, numbers_a = _parse_title(title_a)
    words_b, numbers_b = _parse_title(title_b)
    if numbers_a and numbers_b and numbers_a != numbers_b:
        return False
    small, large = sorted((words_a | numbers_a, words_b | numbers_b), key=len)
    if not small:
        return False
    if small <= large:
        return len(small) == len(large) or (len(small) > 1 and len(small) >= CONTAINED * len(large))
    shared = len(small & large)
    return len(small) > 4 and shared >= OVERLAP * (len(small) + len(large) - shared)


def _parse_title(title: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the stems of a title, and the numbers that belong to a name rather than a value."""
    title = title[:TITLE_CHARACTERS]
    label = _DOCUMENT.match(title)
    title = title[label.end() :] if label and label.end() < len(title) else title
    numbers: set[str] = set()
    words: list[str] = []
    before = ""
    for match in _TITLE_TOKEN.finditer(title):
        token = match[0].lower()
        if token.lstrip("v")[:1].isdigit():
            is_value = before in _VALUE_BEFORE or bool(_MONEY_OR_UNIT.match(title, match.end()))
            if not is_value and (before in _COUNTED or "." not in token):
                numbers.add(token.lstrip("v"))
        else:
            words += (_ALIASES.get(word, word) for word in _stems(match[0]))
        before = token
    specific = frozenset(word for word in words if word not in _GENERIC)
    return specific if len(specific) > 1 else frozenset(words), frozenset(numbers)


def _stems(token: str) -> Iterable[str]:
    """Return the stems of a token; abbreviations as they are written."""
    lower = token.lower()
    if lower in _ALIASES:
        return (lower,)
    return (
        word_stem
        for word in identifiers_of(token)
        for word_stem in stems_of_identifier(word)
        if not word_stem.isdigit()
    )


def differences(a: str, b: str) -> tuple[Difference, ...]:
    """Find the conflicts of two texts on the same subject, the most certain kinds first."""
    left, right = claims_of(a), claims_of(b)
    conflicts = [*_settings(left, right), *_releases(left, right)]
    shown = {(conflict.left, conflict.right) for conflict in conflicts}
    for quantity in (*_quantities(left, right), *_statements(left, right)):
        if (quantity.left, quantity.right) not in shown:
            shown.add((quantity.left, quantity.right))
            conflicts.append(quantity)
    return tuple(dict.fromkeys(conflicts))[:MOST_DIFFERENCES]


def _settings(left: Claims, right: Claims) -> Iterator[Difference]:
    """Find names with different values."""
    values_left, values_right = _by_name(left.settings), _by_name(right.settings)
    for name, settings in values_left.items():
        others = values_right.get(name, [])
        if (
            len({item.value for item in settings}) == 1
            and len({item.value for item in others}) == 1
        ):
            setting, other = settings[0], others[0]
            if not _is_same_value(setting.value, other.value):
                yield Difference("value", setting.name, setting.shown, other.shown)


def _by_name(
    settings: Iterable[Setting],
) -> dict[tuple[tuple[str, ...], frozenset[str]], list[Setting]]:
    """Group settings by name and circumstances."""
    out: dict[tuple[tuple[str, ...], frozenset[str]], list[Setting]] = {}
    for setting in settings:
        out.setdefault((setting.key, setting.narrowed), []).append(setting)
    return out


def _is_same_value(value: str, other: str) -> bool:
    """True if two values may be equal.

    They are the same, a version and its patch, or numbers of which only one has a unit.
    """
    if value == other or value.startswith(f"{other}.") or other.startswith(f"{value}."):
        return True
    is_number, is_other_number = value[:1].isdigit(), other[:1].isdigit()
    return is_number and is_other_number and value.partition(" ")[2] != other.partition(" ")[2]


def _releases(left: Claims, right: Claims) -> Iterator[Difference]:
    """Find different versions of the same product."""
    pairs = [
        (release, other, _is_same_release(release.parts, other.parts))
        for release in left.releases
        for other in right.releases
        if release.product
        and release.product == other.product
        and release.bound == other.bound
        and _share_use(release, other)
    ]
    for release, other in _conflicts(pairs):
        yield Difference("version", release.product, release.shown, other.shown)


def _is_same_release(version: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """True if the versions are equal, or one is a patch of the other."""
    length = min(len(version), len(other))
    return version[:length] == other[:length]


def _share_use(release: Release, other: Release) -> bool:
    """True if two mentions of a version are about the same use of it."""
    ours, theirs = release.about.bag, other.about.bag
    return release.about.narrowed == other.about.narrowed and (
        not ours or not theirs or bool(ours & theirs) or min(len(ours), len(theirs)) < 2
    )


def _quantities(left: Claims, right: Claims) -> Iterator[Difference]:
    """Find different numbers of the same dimension and subject."""
    by_dimension: dict[str, list[Quantity]] = {}
    for other in right.quantities:
        by_dimension.setdefault(other.amount.dimension, []).append(other)
    pairs = [
        (quantity, other, _is_same_quantity(quantity, other))
        for quantity in left.quantities
        for other in by_dimension.get(quantity.amount.dimension, ())
        if quantity.bound == other.bound or "about" in (quantity.bound, other.bound)
        if quantity.frame == other.frame != "=" or _is_about_same(quantity.about, other.about)
        # These are compared as settings.
        if not quantity.frame == other.frame == "="
        if quantity.about.stems and quantity.about.narrowed == other.about.narrowed
    ]
    for quantity, other in _conflicts(pairs):
        yield Difference(
            "number",
            _subject(quantity.about, other.about),
            quantity.amount.shown,
            other.amount.shown,
        )


def _is_same_quantity(quantity: Quantity, other: Quantity) -> bool:
    """True if two numbers agree; approximately, if one is measured or approximate."""
    if quantity.amount.equals(other.amount):
        return True
    if not (
        quantity.measured or other.measured or quantity.bound == "about" or other.bound == "about"
    ):
        return False
    low, high = sorted((quantity.amount.value, other.amount.value))
    return low > 0 and high / low <= NOTABLE


def _is_about_same(circumstance: Circumstance, other: Circumstance) -> bool:
    """True for two claims about one thing.

    They share two words, and none stands in the place of a different one.
    """
    ours, theirs = circumstance.bag, other.bag
    shared = len(ours & theirs)
    if shared < 2:
        return False
    if ours <= theirs or theirs <= ours:
        return shared * 2 >= max(len(ours), len(theirs))
    return (
        shared >= 3
        and shared >= 0.6 * len(ours | theirs)
        and not _is_substituted(circumstance, other)
    )


def _is_substituted(circumstance: Circumstance, other: Circumstance) -> bool:
    """True if different words have the same neighbour: the read timeout, the write timeout."""
    return bool(
        _neighbours(circumstance.stems, circumstance.bag - other.bag)
        & _neighbours(other.stems, other.bag - circumstance.bag)
    )


def _neighbours(stems: tuple[str, ...], own: frozenset[str]) -> set[tuple[str, str]]:
    """Return the words beside the words in `own`, each with its side."""
    out: set[tuple[str, str]] = set()
    for place, word in enumerate(stems):
        if word in own:
            if place:
                out.add(("before", stems[place - 1]))
            if place + 1 < len(stems):
                out.add(("after", stems[place + 1]))
    return out


def _statements(left: Claims, right: Claims) -> Iterator[Difference]:
    """Find clauses that say the same, except that one denies it."""
    pairs = [
        (statement, other, statement.holds == other.holds)
        for statement in left.statements
        for other in right.statements
        if _is_same_statement(statement, other)
    ]
    for statement, other in _conflicts(pairs):
        yield Difference(
            "negation", _subject(statement.about, other.about), statement.shown, other.shown
        )


def _is_same_statement(statement: ClaimStatement, other: ClaimStatement) -> bool:
    """True if two clauses make the same statement, asserted or denied."""
    ours, theirs = statement.about.bag, other.about.bag
    if ours != theirs:
        small, large = (ours, theirs) if len(ours) < len(theirs) else (theirs, ours)
        if len(small) < 3 or len(small) < 0.75 * len(large) or not small < large:
            return False
    if statement.about.narrowed != other.about.narrowed or statement.conditions != other.conditions:
        return False
    if len(ours) < 3 or (statement.opposed and other.opposed):
        return True
    shared = ours & theirs
    return [word for word in statement.about.stems if word in shared] == [
        word for word in other.about.stems if word in shared
    ]


def _conflicts(pairs: list[tuple[Claim, Claim, bool]]) -> Iterator[tuple[Claim, Claim]]:
    """Yield the pairs that conflict, without claims that agree with any on the other side."""
    settled = {id(member) for claim, other, agree in pairs if agree for member in (claim, other)}
    reported: set[int] = set()
    for claim, other, _ in pairs:
        if (
            id(claim) not in settled
            and id(other) not in settled
            and id(claim) not in reported
            and id(other) not in reported
        ):
            reported |= {id(claim), id(other)}
            yield claim, other


def _subject(circumstance: Circumstance, other: Circumstance) -> str:
    """Return the common subject of two claims, in the words of the first."""
    words = dict.fromkeys(
        word
        for word, word_stem in zip(circumstance.words, circumstance.stems, strict=True)
        if word_stem in other.bag
    )
    return " ".join(list(words)[:SUBJECT_WORDS])
