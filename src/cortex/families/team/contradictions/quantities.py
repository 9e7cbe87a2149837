"""Quantities and versions that a clause claims.

Dates, numbers in names, ranges, past events and rejected values are not claims. Every regular
expression is bounded. Pure; knows nothing about records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cortex.base.text import identifiers_of
from cortex.families.team.contradictions.claim_context import (
    NAMED,
    NEUTRAL,
    REJECTED,
    Circumstance,
    circumstance_of,
)
from cortex.families.team.contradictions.units import NUMBER, Amount, amount_after, end_of_unit
from cortex.families.team.sentences import STOP_WORDS

_EVENT = re.compile(
    r"\b(?:took|ran|spent|saw|had|got|went|grew|rose|fell|handled|processed|lost)\b"
    r"|\b(?:we|i|they|he|she)\s(?!agreed|decided)\w{2,20}ed\b",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"\b(?:lines?|issues?|prs?|tickets?|steps?|phases?|sections?|chapters?|fig(?:ure)?s?|tables?"
    r"|pages?|runs?|builds?|jobs?|sprints?|weeks?|days?|items?|parts?"
    r"|options?|versions?|releases?|milestones?|adrs?|rfcs?|iso|https?|errors?|status|codes?|exit"
    r"|cases?|examples?|q|no|id|ids|commits?|rev|revisions?"
    r"|jan\w{0,6}|feb\w{0,6}|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep\w{0,7}"
    r"|oct\w{0,5}|nov\w{0,6}|dec\w{0,6})[.:]?\s{0,2}$",
    re.IGNORECASE,
)
_MONTH_AFTER = re.compile(
    r"\.?\s(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE
)
_YEAR = re.compile(r"(?:19|20)\d\d$")
_RANGE_AFTER = re.compile(r"\s?(?:-|–|to|and|or|,)\s?v?\d")
_BOUNDS = (
    (
        "least",
        re.compile(
            r"(?:at least|more than|no (?:less|fewer) than|over|above|>=?|≥)\s{0,2}$", re.IGNORECASE
        ),
    ),
    (
        "most",
        re.compile(
            r"(?:at most|up to|less than|fewer than|no more than|under|below|within|<=?|≤)"
            r"\s{0,2}$",
            re.IGNORECASE,
        ),
    ),
    (
        "about",
        re.compile(
            r"(?:about|around|roughly|approximately|approx\.?|nearly|almost|ca\.?|~|≈)\s{0,2}$",
            re.IGNORECASE,
        ),
    ),
)
_BOUND_AFTER = re.compile(
    r"\s{0,2}(?:or (?:more|newer|later|higher|above)|\+|and (?:newer|later|up))", re.IGNORECASE
)
_MEASURED = re.compile(
    r"\b(?:takes?|measured|observed|averag\w{1,3}|benchmark\w{0,4}|latency|throughput)\b",
    re.IGNORECASE,
)
_PRODUCTS = frozenset(
    "python pypy cpython node nodejs java jdk jvm go golang rust postgres postgresql mysql "
    "mariadb redis valkey sqlite mongodb kubernetes k8s docker podman ubuntu debian alpine "
    "fedora rhel django flask rails ruby php react vue angular svelte typescript npm pnpm yarn "
    "gcc clang llvm cmake openssl tls elasticsearch opensearch kafka rabbitmq nginx envoy "
    "terraform helm spring kotlin scala swift macos windows cuda pytorch tensorflow numpy pandas "
    "pydantic fastapi protobuf grpc bazel gradle maven dotnet electron chrome firefox".split()
)
_PRODUCT_NAMES = {
    "nodejs": "node",
    "golang": "go",
    "postgresql": "postgres",
    "k8s": "kubernetes",
    "jdk": "java",
}
_VERSION = re.compile(
    r"(?<![\w.+#-])(?P<name>[A-Za-z][\w+#-]{1,39}(?:\.js)?)[`\"']?"
    r"(?:\s{1,2}(?:version|release)?\s{0,2}|@|-|(?=[<>=~^]))"
    r"(?P<op>[<>=~^]{1,2}\s?)?(?P<v>v)?(?P<n>\d{1,4}(?:\.\d{1,6}){0,2})(?P<plus>\+)?"
    r"(?![\w%]|[.,:/-]\d)"
)
_FATE = re.compile(
    r"\b(?:drop\w{0,4}|remov\w{1,4}|deprecat\w{1,5}|no longer|instead of|too old|fail\w{0,4}"
    r"|broke\w{0,2}|break\w{0,3}|bugs?|fixed in|since|until"
    r"|added in|introduced in|before|after|not|never|n't|was|were|releas\w{1,4}|end of life|eol"
    r"|came|comes|test\w{0,3}|upgrad\w{1,3} from)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit."""

    amount: Amount
    # "", "about", "least", "most".
    bound: str
    measured: bool
    # The clause without the number; "=" for a setting.
    frame: str
    about: Circumstance


@dataclass(frozen=True, slots=True)
class Release:
    """A version of a product."""

    product: str
    parts: tuple[int, ...]
    bound: str
    shown: str
    about: Circumstance


def quantities_of(
    clause: str, narrowed: frozenset[str], taken: list[tuple[int, int]]
) -> Iterator[Quantity]:
    """Find the amounts in a clause; past events are none."""
    if _EVENT.search(clause):
        return
    taken += (match.span() for match in NAMED.finditer(clause))
    for match in NUMBER.finditer(clause):
        before, start, end = (
            clause[max(0, match.start() - 40) : match.start()],
            match.start(),
            match.end(),
        )
        if (
            any(low <= start < high for low, high in taken)
            or _MONTH_AFTER.match(clause, end)
            or before.endswith("=")
        ):
            continue
        if _LABEL.search(before) or REJECTED.search(before):
            continue
        amount, end = amount_after(clause, match["n"], end, (match["money"] or "").strip())
        if _is_no_amount(
            clause, match["n"], amount, before.rpartition(" ")[0].rpartition(" ")[2].lower(), end
        ):
            continue
        bound = next((name for name, pattern in _BOUNDS if pattern.search(before)), "")
        if _BOUND_AFTER.match(clause, end):
            bound = "least"
        about = circumstance_of(f"{clause[:start]} {amount.noun} {clause[end:]}", narrowed, NEUTRAL)
        frame = " ".join(identifiers_of(f"{clause[:start]} {clause[end:]}".lower()))
        yield Quantity(amount, bound, bool(_MEASURED.search(clause)), frame, about)


def _is_no_amount(clause: str, digits: str, amount: Amount, before: str, end: int) -> bool:
    """True for a year, one end of a range, a list number, or a number word."""
    if _RANGE_AFTER.match(clause, end):
        return True
    if not amount.dimension and (_YEAR.match(digits) or digits.isalpha()):
        return True
    # "Order 1234 failed": the number is a name.
    if amount.unit.endswith("ed") and before and before not in STOP_WORDS:
        return True
    following = clause[end : end + 1]
    return following == ")" and "(" not in clause[:end]


_UNCLAIMED = Release("", (), "", "", Circumstance((), frozenset(), (), frozenset()))


def releases_of(clause: str, narrowed: frozenset[str]) -> Iterator[tuple[Release, tuple[int, int]]]:
    """Find the versions in a clause, each with its product and position."""
    for match in _VERSION.finditer(clause):
        name, digits = match["name"], match["n"]
        if (
            not _is_product(name, digits, bool(match["v"]), match.start() == 0)
            or end_of_unit(clause, match.end()) > match.end()
        ):
            continue
        before = clause[max(0, match.start() - 30) : match.start()]
        operator = (match["op"] or "").strip()
        bound = operator if operator not in ("=", "==") else ""
        if (
            match["plus"]
            or _BOUND_AFTER.match(clause, match.end())
            or re.search(r"at least\s$", before)
        ):
            bound = ">="
        if _FATE.search(clause) or _RANGE_AFTER.match(clause, match.end()):
            yield _UNCLAIMED, match.span()
            continue
        product = name.lower().removesuffix(".js")
        rest = f"{clause[: match.start()]} {clause[match.end() :]}"
        parts = tuple(map(int, digits.split(".")))
        about = circumstance_of(rest, narrowed, NEUTRAL)
        yield (
            Release(_PRODUCT_NAMES.get(product, product), parts, bound, f"{name} {digits}", about),
            match.span(),
        )


def _is_product(name: str, digits: str, marked: bool, first: bool) -> bool:
    """True if the word before a number names a product with versions."""
    lower, dots = name.lower().removesuffix(".js"), digits.count(".")
    if lower in _PRODUCTS:
        return True
    if lower in STOP_WORDS or lower in ("version", "release", "section", "chapter"):
        return False
    if dots == 2 or (marked and dots):
        return True
    return dots == 1 and name[0].isupper() and not first
