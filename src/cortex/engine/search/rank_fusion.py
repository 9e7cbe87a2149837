"""Two orders become one by their ranks alone: reciprocal rank fusion, for whoever asks for it.

The usual way is `rank`, which adds up how good the matches are; here only the places in both orders
count, so a weak second order pulls down a strong first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cortex.engine.search.features import Candidate
from cortex.engine.search.ranker import tie
from cortex.engine.search.retrieval import LEAST_NEAR

K = 60  # of the formula: how little the very first places stand out


def found_by_words(one: Candidate) -> bool:
    """Whether anything but nearness speaks for a candidate."""
    return bool(one.words or one.beside or one.covers or one.defines or one.joins or one.located)


def fuse(
    by_words: Sequence[Candidate],
    candidates: Sequence[Candidate],
    weight: float,
    recency: Mapping[str, int],
) -> list[Candidate]:
    """The candidates by their places among `by_words`, which is in its order, and by nearness,
    which counts `weight` times.

    A score of 1 is the first place in both.
    """
    tied = sorted(candidates, key=lambda one: tie(one, recency))
    near = sorted(
        (one for one in tied if one.near >= LEAST_NEAR), key=lambda one: -round(one.near, 4)
    )
    first = (K + 1) / (1 + weight)
    shares = {id(one): first / (K + place) for place, one in enumerate(by_words, 1)}
    shares_near = {id(one): weight * first / (K + place) for place, one in enumerate(near, 1)}
    for one in tied:
        one.role = one.repeat = 1.0  # they made the order by words
        one.ranks = shares.get(id(one), 0.0), shares_near.get(id(one), 0.0)
        one.score = sum(one.ranks)
    return sorted(tied, key=lambda one: -round(one.score, 4))
