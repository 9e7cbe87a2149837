"""Reciprocal rank fusion of the lexical and the semantic order, on request.

The default is `rank`, which adds up how good the matches are. Here only the two ranks count, so a
weak second order pulls down a strong first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cortex.engine.search.features import Candidate
from cortex.engine.search.ranker import tie_key
from cortex.engine.search.retrieval import LEAST_NEAR

# Constant of the formula: the higher, the less the first ranks stand out.
K = 60


def found_by_words(candidate: Candidate) -> bool:
    """True if any evidence besides the cosine speaks for a candidate."""
    return bool(
        candidate.words
        or candidate.beside
        or candidate.covers
        or candidate.defines
        or candidate.joins
        or candidate.located
    )


def fuse(
    by_words: Sequence[Candidate],
    candidates: Sequence[Candidate],
    weight: float,
    recency: Mapping[str, int],
) -> list[Candidate]:
    """Fuse the ranks in `by_words`, which is ordered, with the ranks by cosine.

    The rank by cosine counts `weight` times. A score of 1 is the first place in both.
    """
    tied = sorted(candidates, key=lambda candidate: tie_key(candidate, recency))
    near = sorted(
        (candidate for candidate in tied if candidate.near >= LEAST_NEAR),
        key=lambda candidate: -round(candidate.near, 4),
    )
    first = (K + 1) / (1 + weight)
    shares = {
        id(candidate): first / (K + position) for position, candidate in enumerate(by_words, 1)
    }
    shares_near = {
        id(candidate): weight * first / (K + position) for position, candidate in enumerate(near, 1)
    }
    for candidate in tied:
        # These factors are already in the lexical order.
        candidate.role = candidate.repeat = 1.0
        candidate.ranks = shares.get(id(candidate), 0.0), shares_near.get(id(candidate), 0.0)
        candidate.score = sum(candidate.ranks)
    return sorted(tied, key=lambda candidate: -round(candidate.score, 4))
