"""Relevance of a hit, 0 to 1, on one scale for every corpus and mode; 0.65 is the threshold.

The product of two probabilities, fitted by `bench/quality/relevance.py` on features that don't
depend on the size of a corpus: that the source has an answer at all, judged by the best hits
together, and that this hit is one, if it does. The second counts by its square root, because the
threshold is there to reject absent things: a right hit in ninth place must not fall below it. The
cosine is that of the bundled model; other models' cosines are taken as they come.

Road not taken: the share of the best score, which calls the first hit certain for any query.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

from cortex.base.types import Mode
from cortex.engine.search.features import Candidate
from cortex.engine.search.query_classes import Corpus
from cortex.engine.search.query_parser import Parsed
from cortex.engine.search.weights import CUT, CUT_AT, FITS, VERY_NEAR

PROSE = frozenset({"markdown", "text", "restructuredtext", "asciidoc", "latex", "html"})


def calibrate(ranked: Sequence[Candidate], parsed: Parsed, mode: Mode) -> None:
    """Set the relevance of each candidate; they come in their final order."""
    if not ranked:
        return
    fit = FITS[mode]
    features = known_features(ranked[:3], parsed)
    known = max(probability(fit.known, features), probability(VERY_NEAR, features))
    best = max(ranked[0].score, 1e-9)
    least = 0.0
    covers, defines, joins, stem, near, share, constant = fit.right
    # From the end, so that no candidate is less relevant than one ranked below it.
    for candidate in reversed(ranked):
        # `right_features` inlined: with two hundred candidates per answer that halves the time.
        total = (
            covers * (candidate.covers if candidate.covers > candidate.phrase else candidate.phrase)
            + joins * candidate.joins
            + stem * candidate.stem
        )
        total += (
            defines
            * (candidate.defines if candidate.defines > candidate.located else candidate.located)
            + near * candidate.near
        )
        right = 1 / (1 + math.exp(-(total + share * candidate.score / best + constant)))
        value = round(_curve(known * math.sqrt(right)), 4)
        candidate.relevance = least = value if value > least else least


def known_features(top: Sequence[Candidate], parsed: Parsed) -> tuple[float, ...]:
    """Features that say if the source has the answer at all.

    How much of the query stands together in one place, if it is defined, and how near it is.
    """
    return (
        math.log(0.02 + max(_covers(candidate) for candidate in top)),
        # Many words never stand all together.
        math.log(max(1, len(parsed.weights))),
        max(max(candidate.defines, candidate.joins, candidate.located) for candidate in top),
        _prose(top, parsed),
        max(candidate.near for candidate in top),
        1.0,
    )


def _prose(top: Sequence[Candidate], parsed: Parsed) -> float:
    """Share of prose among the top hits; a question's own words are rarer in prose.

    Memories are written in the words that people ask by, so they count as none. Records are not:
    with the prose feature 8 of 100 absent things come above the threshold among them, without it 1,
    while a right one stood behind documents that were wrong (bench/mixed/home.py).
    """
    prose = sum(candidate.place.doc.language in PROSE for candidate in top) / len(top)
    return 0.0 if parsed.corpus is Corpus.MEMORIES else prose


def right_features(candidate: Candidate, share: float) -> tuple[float, ...]:
    """Features that say if a hit is right, given that the source has the answer."""
    return (
        _covers(candidate),
        max(candidate.defines, candidate.located),
        candidate.joins,
        candidate.stem,
        candidate.near,
        share,
        1.0,
    )


def probability(weights: Sequence[float], features: Sequence[float]) -> float:
    """Output of a logistic model."""
    return 1 / (1 + math.exp(-sum(map(mul, weights, features))))


def _covers(candidate: Candidate) -> float:
    return max(candidate.covers, candidate.phrase)


def _curve(value: float) -> float:
    """Map the product to the relevance by two straight lines that meet at the threshold."""
    if value < CUT_AT:
        return CUT * value / CUT_AT
    return CUT + (1 - CUT) * (value - CUT_AT) / (1 - CUT_AT)
