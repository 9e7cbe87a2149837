"""How surely a hit is right, 0 to 1, on one scale for every corpus and kind of source: .65 is the cut.

Two probabilities, fitted by `bench/relevance.py` on features that don't depend on the size of a corpus: that the source knows the
answer at all, from the best hits together, and that this hit is one, if it does. The second counts by its square root, because the
cut is for what isn't there: a right hit in the ninth place of a good answer must not fall below it. Road not taken: a share of the
best score, which calls the first hit certain whatever was asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cortex.search.evidence import Candidate
from cortex.search.parse import Parsed

CUT = 0.65  # of relevance: what is below is left out unless somebody asks for it
_CUT_AT = (
    0.05  # of the product of both probabilities: 98.5 % of the right hits are above, nine in ten absent things below
)
_ROOT = 0.5
PROSE = frozenset({"markdown", "text", "restructuredtext", "asciidoc", "latex", "html"})


def relate(ranked: Sequence[Candidate], parsed: Parsed) -> None:
    """Give each of the candidates, which are in their order, its relevance."""
    if not ranked:
        return
    known = _known(ranked[:3], parsed)
    best = max(ranked[0].score, 1e-9)
    least = 0.0
    for one in reversed(ranked):  # what stands before another is at least as relevant
        one.relevance = least = max(least, round(_curve(known * _right(one, one.score / best) ** _ROOT), 4))


def _known(top: Sequence[Candidate], parsed: Parsed) -> float:
    """The probability that the source has the answer: how much of the query stands together somewhere, and is it defined."""
    covers = max(_covers(one) for one in top)
    defines = max(max(one.defines, one.joins, one.located) for one in top)
    prose = sum(one.place.doc.language in PROSE for one in top) / len(top)  # in prose a question's own words are rarer
    words = math.log(max(1, len(parsed.weights)))  # many words never stand together all
    return _logistic(6.7 * math.log(0.02 + covers) + 3.3 * words + 3.4 * defines + 2.1 * prose - 1.0)


def _right(one: Candidate, share: float) -> float:
    """The probability that a hit is right where the source has the answer."""
    found = 1.8 * _covers(one) + 0.9 * max(one.defines, one.located) + 0.5 * one.joins + 2.2 * one.stem
    return _logistic(found + 3.7 * share - 5.7)


def _covers(one: Candidate) -> float:
    return max(one.covers, one.meaning, one.phrase)


def _curve(value: float) -> float:
    """Two straight lines that meet at the cut."""
    if value < _CUT_AT:
        return CUT * value / _CUT_AT
    return CUT + (1 - CUT) * (value - _CUT_AT) / (1 - _CUT_AT)


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))
