"""How surely a hit is right, 0 to 1, on one scale for every corpus, kind of source and mode: .65 is
the cut.

Two probabilities, fitted by `bench/relevance.py` on features that don't depend on the size of a
corpus: that the source knows the answer at all, from the best hits together, and that this hit is
one, if it does. The second counts by its square root, because the cut is for what isn't there: a
right hit in the ninth place of a good answer must not fall below it. Nearness by meaning is that of
the model in the package; other models' cosines are taken as they come. Road not taken: a share of
the best score, which calls the first hit certain whatever was asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import mul

from cortex.base.types import Mode
from cortex.engine.search.features import Candidate
from cortex.engine.search.query_classes import Corpus
from cortex.engine.search.query_parser import Parsed

CUT = 0.65  # of relevance: what is below is left out unless somebody asks for it
_CUT_AT = (
    # Of the product of both probabilities: 98.5 % of the right hits are above, nine in ten absent
    # things below
    0.05
)
PROSE = frozenset({"markdown", "text", "restructuredtext", "asciidoc", "latex", "html"})


@dataclass(frozen=True, slots=True)
class Fit:
    """What each feature weighs; the last weight of both is a constant."""

    known: tuple[float, ...]
    right: tuple[float, ...]


KNOWN = ("log(.02 + covers)", "log words", "defines", "prose", "near", "constant")
RIGHT = ("covers", "defines", "joins", "stem", "near", "share of the best score", "constant")
FITS: Mapping[Mode, Fit] = {
    Mode.WORDS: Fit((6.7, 3.3, 3.4, 2.1, 0.0, -1.0), (1.8, 0.9, 0.5, 2.2, 0.0, 3.7, -5.7)),
    Mode.HYBRID: Fit((5.7, 2.4, 2.8, 1.9, 9.1, -3.0), (1.6, 1.0, 0.3, 2.0, 2.0, 4.0, -6.5)),
    # No words are looked at; the constant of `known` is below the fitted -5.7, or every third
    # absent thing came above the cut.
    Mode.MEANING: Fit((0.0, 0.0, 0.0, 0.0, 18.5, -7.0), (0.0, 0.0, 0.0, 2.3, 3.8, 2.2, -5.5)),
}
# What is very near is known although it shares no word with the query; one step less here, and
# absent things come above the cut.
_VERY_NEAR = (0.0, 0.0, 0.0, 0.0, 18.5, -10.0)


def relate(ranked: Sequence[Candidate], parsed: Parsed, mode: Mode) -> None:
    """Give each of the candidates, which are in their order, its relevance."""
    if not ranked:
        return
    fit = FITS[mode]
    features = known_features(ranked[:3], parsed)
    known = max(probability(fit.known, features), probability(_VERY_NEAR, features))
    best = max(ranked[0].score, 1e-9)
    least = 0.0
    covers, defines, joins, stem, near, share, constant = fit.right
    for one in reversed(ranked):  # what stands before another is at least as relevant
        # `right_features` written out: for two hundred candidates in each answer that is half of
        # the time.
        total = (
            covers * (one.covers if one.covers > one.phrase else one.phrase)
            + joins * one.joins
            + stem * one.stem
        )
        total += (
            defines * (one.defines if one.defines > one.located else one.located) + near * one.near
        )
        right = 1 / (1 + math.exp(-(total + share * one.score / best + constant)))
        value = round(_curve(known * math.sqrt(right)), 4)
        one.relevance = least = value if value > least else least


def known_features(top: Sequence[Candidate], parsed: Parsed) -> tuple[float, ...]:
    """What tells whether the source has the answer: how much of the query stands together
    somewhere, is it defined, is it near.
    """
    return (
        math.log(0.02 + max(_covers(one) for one in top)),
        math.log(max(1, len(parsed.weights))),  # many words never stand together all
        max(max(one.defines, one.joins, one.located) for one in top),
        _prose(top, parsed),
        max(one.near for one in top),
        1.0,
    )


def _prose(top: Sequence[Candidate], parsed: Parsed) -> float:
    """How much of it is prose, in which a question's own words are rarer; memories are written in
    the words that people ask by.

    Records are not: with what prose adds, 8 of 100 absent things come above the cut among them, and
    without it 1, while a right one stood behind documents that were wrong (bench/mixed.py).
    """
    prose = sum(one.place.doc.language in PROSE for one in top) / len(top)
    return 0.0 if parsed.corpus is Corpus.MEMORIES else prose


def right_features(one: Candidate, share: float) -> tuple[float, ...]:
    """What tells whether a hit is right where the source has the answer."""
    return (_covers(one), max(one.defines, one.located), one.joins, one.stem, one.near, share, 1.0)


def probability(weights: Sequence[float], features: Sequence[float]) -> float:
    """A logistic model's answer."""
    return 1 / (1 + math.exp(-sum(map(mul, weights, features))))


def _covers(one: Candidate) -> float:
    return max(one.covers, one.phrase)


def _curve(value: float) -> float:
    """Two straight lines that meet at the cut."""
    if value < _CUT_AT:
        return CUT * value / _CUT_AT
    return CUT + (1 - CUT) * (value - _CUT_AT) / (1 - _CUT_AT)
