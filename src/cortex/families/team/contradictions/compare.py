"""Whether two texts are on the same subject, and what they say differently: candidates for a person
to judge.

Precise rather than complete, for a false alarm costs more attention than a miss: two claims are at
odds only if they are about the same thing under the same circumstances, and no other place of the
texts agrees. Pure; knows no records and no links.
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
NOTABLE = 1.25  # measured and rough numbers differ only by more than this
CONTAINED = 0.6  # the share of a longer title that a shorter one has to cover
OVERLAP = 0.75  # of titles that each have words of their own

_DOCUMENT = re.compile(
    r"\s*(?:adr|rfc|spec|decision|note|runbook|report|postmortem|proposal)s?[\s#-]*\d*\s*[:.–—-]\s*",
    re.IGNORECASE,
)
_ALIASES = {
    "db": "databas", "postgresql": "postgr", "pg": "postgr", "k8s": "kubernete", "repo": "repository", "auth": "authentication",
    "config": "configuration", "configure": "configuration", "configur": "configuration", "prod": "production", "env": "environment",
    "js": "javascript", "ts": "typescript", "deployment": "deploy", "doc": "documentation", "perf": "performance", "max": "maximum",
}  # fmt: skip
_GENERIC = frozenset(
    stem(word)
    for word in "use choose tune update change note notes guide overview decision plan value default setting set policy question about "
    "discussion proposal idea summary our new current".split()
)
_VALUE_BEFORE = frozenset("is are = : to at of be than least most".split())
_COUNTED = frozenset(
    "release version sprint week milestone phase part step quarter incident iteration cycle round".split()
)
_TITLE_TOKEN = re.compile(r"v?\d+(?:\.\d+)*|[^\W\d_]\w*|[=:]")
_MONEY_OR_UNIT = re.compile(
    r"\s?(?:%|ms|s|sec\w*|min\w*|h|hours?|days?|[kmgt]i?b)\b|\s?%", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Something on which two texts don't agree: what it is about, and what each says."""

    kind: Kind
    subject: str
    left: str
    right: str


def same_subject(title_a: str, title_b: str) -> bool:
    """Whether two titles name the same thing, in whatever order and inflection."""
    words_a, numbers_a = _title(title_a)
    words_b, numbers_b = _title(title_b)
    if numbers_a and numbers_b and numbers_a != numbers_b:
        return False
    small, large = sorted((words_a | numbers_a, words_b | numbers_b), key=len)
    if not small:
        return False
    if small <= large:
        return len(small) == len(large) or (len(small) > 1 and len(small) >= CONTAINED * len(large))
    shared = len(small & large)
    return len(small) > 4 and shared >= OVERLAP * (len(small) + len(large) - shared)


def _title(title: str) -> tuple[frozenset[str], frozenset[str]]:
    """The stems of a title, and the numbers that are part of a name rather than a value."""
    title = title[:TITLE_CHARACTERS]
    label = _DOCUMENT.match(title)
    title = title[label.end() :] if label and label.end() < len(title) else title
    numbers: set[str] = set()
    words: list[str] = []
    before = ""
    for found in _TITLE_TOKEN.finditer(title):
        token = found[0].lower()
        if token.lstrip("v")[:1].isdigit():
            is_value = before in _VALUE_BEFORE or bool(_MONEY_OR_UNIT.match(title, found.end()))
            if not is_value and (before in _COUNTED or "." not in token):
                numbers.add(token.lstrip("v"))
        else:
            words += (_ALIASES.get(one, one) for one in _stems(found[0]))
        before = token
    telling = frozenset(word for word in words if word not in _GENERIC)
    return telling if len(telling) > 1 else frozenset(words), frozenset(numbers)


def _stems(token: str) -> Iterable[str]:
    """The stems of a token, short forms as they are written."""
    lower = token.lower()
    if lower in _ALIASES:
        return (lower,)
    return (
        one
        for word in identifiers_of(token)
        for one in stems_of_identifier(word)
        if not one.isdigit()
    )


def differences(a: str, b: str) -> tuple[Difference, ...]:
    """What two texts on the same subject say differently, each once, the surest kinds first."""
    left, right = claims_of(a), claims_of(b)
    found = [*_settings(left, right), *_releases(left, right)]
    shown = {(one.left, one.right) for one in found}
    for quantity in (*_quantities(left, right), *_statements(left, right)):
        if (quantity.left, quantity.right) not in shown:
            shown.add((quantity.left, quantity.right))
            found.append(quantity)
    return tuple(dict.fromkeys(found))[:MOST_DIFFERENCES]


def _settings(left: Claims, right: Claims) -> Iterator[Difference]:
    """Names that have one value here and another one there."""
    values_left, values_right = _by_name(left.settings), _by_name(right.settings)
    for name, ours in values_left.items():
        theirs = values_right.get(name, [])
        if len({our.value for our in ours}) == 1 and len({their.value for their in theirs}) == 1:
            one, other = ours[0], theirs[0]
            if not _is_same_value(one.value, other.value):
                yield Difference("value", one.name, one.shown, other.shown)


def _by_name(
    settings: Iterable[Setting],
) -> dict[tuple[tuple[str, ...], frozenset[str]], list[Setting]]:
    """Settings by their names and circumstances."""
    out: dict[tuple[tuple[str, ...], frozenset[str]], list[Setting]] = {}
    for setting in settings:
        out.setdefault((setting.key, setting.narrowed), []).append(setting)
    return out


def _is_same_value(one: str, other: str) -> bool:
    """Whether two values may be one: equal, a version and its patch, or numbers of which only one
    has a unit.
    """
    if one == other or one.startswith(f"{other}.") or other.startswith(f"{one}."):
        return True
    number_one, number_other = one[:1].isdigit(), other[:1].isdigit()
    return number_one and number_other and one.partition(" ")[2] != other.partition(" ")[2]


def _releases(left: Claims, right: Claims) -> Iterator[Difference]:
    """Versions of one thing that differ."""
    pairs = [
        (release, other, _is_same_release(release.parts, other.parts))
        for release in left.releases
        for other in right.releases
        if release.product
        and release.product == other.product
        and release.bound == other.bound
        and _share_use(release, other)
    ]
    for one, other in _unsettled(pairs):
        yield Difference("version", one.product, one.shown, other.shown)


def _is_same_release(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether one version is the other, or one of its patches."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _share_use(one: Release, other: Release) -> bool:
    """Whether two mentions of a version are about the same use of it."""
    ours, theirs = one.about.bag, other.about.bag
    return one.about.narrowed == other.about.narrowed and (
        not ours or not theirs or bool(ours & theirs) or min(len(ours), len(theirs)) < 2
    )


def _quantities(left: Claims, right: Claims) -> Iterator[Difference]:
    """Numbers of one unit and about one thing that differ."""
    by_dimension: dict[str, list[Quantity]] = {}
    for other in right.quantities:
        by_dimension.setdefault(other.amount.dimension, []).append(other)
    pairs = [
        (quantity, other, _is_same_quantity(quantity, other))
        for quantity in left.quantities
        for other in by_dimension.get(quantity.amount.dimension, ())
        if quantity.bound == other.bound or "about" in (quantity.bound, other.bound)
        if quantity.frame == other.frame != "=" or _is_about_same(quantity.about, other.about)
        if not quantity.frame == other.frame == "="  # those are compared as settings
        if quantity.about.stems and quantity.about.narrowed == other.about.narrowed
    ]
    for one, other in _unsettled(pairs):
        yield Difference(
            "number", _subject(one.about, other.about), one.amount.shown, other.amount.shown
        )


def _is_same_quantity(one: Quantity, other: Quantity) -> bool:
    """Whether two numbers agree, roughly where they are rough."""
    if one.amount.equals(other.amount):
        return True
    if not (one.measured or other.measured or one.bound == "about" or other.bound == "about"):
        return False
    low, high = sorted((one.amount.value, other.amount.value))
    return low > 0 and high / low <= NOTABLE


def _is_about_same(one: Circumstance, other: Circumstance) -> bool:
    """Whether two claims are about one thing: two words in common, and none that stands where the
    other has a different one.
    """
    ours, theirs = one.bag, other.bag
    shared = len(ours & theirs)
    if shared < 2:
        return False
    if ours <= theirs or theirs <= ours:
        return shared * 2 >= max(len(ours), len(theirs))
    return shared >= 3 and shared >= 0.6 * len(ours | theirs) and not _is_substituted(one, other)


def _is_substituted(one: Circumstance, other: Circumstance) -> bool:
    """Whether a word of the one stands beside the same neighbour as another word of the other: the
    read timeout, the write timeout.
    """
    return bool(
        _neighbours(one.stems, one.bag - other.bag) & _neighbours(other.stems, other.bag - one.bag)
    )


def _neighbours(stems: tuple[str, ...], own: frozenset[str]) -> set[tuple[str, str]]:
    """The words beside a text's own words, with their side."""
    out: set[tuple[str, str]] = set()
    for place, one in enumerate(stems):
        if one in own:
            if place:
                out.add(("before", stems[place - 1]))
            if place + 1 < len(stems):
                out.add(("after", stems[place + 1]))
    return out


def _statements(left: Claims, right: Claims) -> Iterator[Difference]:
    """Clauses that say the same, but that one denies it."""
    pairs = [
        (statement, other, statement.holds == other.holds)
        for statement in left.statements
        for other in right.statements
        if _say_same(statement, other)
    ]
    for one, other in _unsettled(pairs):
        yield Difference("negation", _subject(one.about, other.about), one.shown, other.shown)


def _say_same(one: ClaimStatement, other: ClaimStatement) -> bool:
    """Whether two clauses say the same of the same, be it that one denies it."""
    ours, theirs = one.about.bag, other.about.bag
    if ours != theirs:
        small, large = (ours, theirs) if len(ours) < len(theirs) else (theirs, ours)
        if len(small) < 3 or len(small) < 0.75 * len(large) or not small < large:
            return False
    if one.about.narrowed != other.about.narrowed or one.conditions != other.conditions:
        return False
    if len(ours) < 3 or (one.opposed and other.opposed):
        return True
    shared = ours & theirs
    return [word for word in one.about.stems if word in shared] == [
        word for word in other.about.stems if word in shared
    ]


def _unsettled(pairs: list[tuple[Claim, Claim, bool]]) -> Iterator[tuple[Claim, Claim]]:
    """The pairs that disagree, of claims that agree with nothing on the other side."""
    settled = {id(claim) for one, other, agree in pairs if agree for claim in (one, other)}
    met: set[int] = set()
    for one, other, _ in pairs:
        if (
            id(one) not in settled
            and id(other) not in settled
            and id(one) not in met
            and id(other) not in met
        ):
            met |= {id(one), id(other)}
            yield one, other


def _subject(one: Circumstance, other: Circumstance) -> str:
    """What two claims are about, in the words of the first."""
    words = dict.fromkeys(
        word for word, its_stem in zip(one.words, one.stems, strict=True) if its_stem in other.bag
    )
    return " ".join(list(words)[:SUBJECT_WORDS])
