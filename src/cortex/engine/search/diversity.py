"""The first hits say different things: what says again what a better one says goes back (maximal
marginal relevance).

Only what is nearly the same counts as a repetition. Documents about one thing are all a little
alike, and a likeness that counts from the beginning, as the formula has it, pushes right answers
back because others are right, too: it loses .008 of nDCG@10 on the mean of six sets of documents,
and this way nothing (.004 to .005 on two that are full of pages made after one pattern, +.006 on
one with copies).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from cortex.engine.search.features import Candidate

DEPTH = 50  # candidates that may change their places
ALIKE_BY_MEANING = 0.95  # cosine from which on two texts begin to say the same
ALIKE_BY_WORDS = 0.6  # share of the words that they have in common

Likeness = Callable[[int, int], float]  # of the candidates in two places, 0 to 1


def diversify(
    ranked: Sequence[Candidate], balance: float, likeness: Likeness, least: float
) -> list[Candidate]:
    """The candidates, greedily by `balance` * score - (1 - `balance`) * likeness to what comes
    before, which counts above `least`.
    """
    top = min(DEPTH, len(ranked))
    if top < 2 or balance >= 1:
        return list(ranked)
    best = max(ranked[0].score, 1e-9)
    left, order = list(range(top)), list[int]()
    repeated = [0.0] * top
    while left:
        chosen = max(
            left,
            key=lambda at: (
                round(balance * ranked[at].score / best - (1 - balance) * repeated[at], 4),
                -at,
            ),
        )
        left.remove(chosen)
        order.append(chosen)
        for at in left:
            repeated[at] = max(repeated[at], (likeness(chosen, at) - least) / (1 - least))
    return _fall([*(ranked[at] for at in order), *ranked[top:]])


def likeness_of_words(words: Sequence[frozenset[str]]) -> Likeness:
    """Texts by the share of their words that both have."""

    def likeness(one: int, other: int) -> float:
        first, second = words[one], words[other]
        return len(first & second) / max(1, len(first | second))

    return likeness


def _fall(ordered: list[Candidate]) -> list[Candidate]:
    """What went back counts no more than what now stands before it."""
    for before, one in pairwise(ordered):
        if one.score > before.score:
            one.fresh = before.score / one.score
            one.score = before.score
        one.relevance = min(one.relevance, before.relevance)
    return ordered
