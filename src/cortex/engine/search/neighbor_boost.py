"""Boost for memories that stand beside a strong match in the same session.

An answer seldom repeats the words of the question before it. A strong candidate lends the query
words it contains to its neighbours, as far as they lack them; a neighbour that is no candidate yet
becomes one. Neighbours are looked up at query time, and only among what may be returned: no memory
is stored with another one, so a deleted memory leaves nothing behind.

Worth .093 on turns of conversations, 0 on whole conversations, .004 on messages of commits
(recall@10, lexical); of that the second neighbours are .019 and the following ones .013.

Roads not taken: adding up the neighbours' scores, which counts a name that all of them contain
several times (-.010); lending between the chunks of one long memory (0).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from cortex.engine.search.features import Candidate
from cortex.engine.store import LexicalIndex, LexicalTerm, Neighbour, SearchFilter, Store

# Share lent by the memory one and two places before.
BEFORE = (0.7, 0.4)
# Share lent by the memory one and two places after.
AFTER = (0.4, 0.2)
# Bytes; a longer memory lends less, because little of it concerns its neighbours.
SHORT = 300
# Candidates that lend to their neighbours; 60 are worth .001 more, for a tenth of the time.
STRONG = 40

# Ids of doc and chunk.
Pair = tuple[int, int]
# The words of the query that a chunk contains.
Held = Mapping[Pair, Collection[str]]
# The words lent to a chunk, with the worth of a unit of each word's mass.
Lent = dict[Pair, dict[str, float]]


def boost_neighbors(
    store: Store,
    words: LexicalIndex,
    scope: SearchFilter,
    terms: Sequence[LexicalTerm],
    best: float,
    word_weights: Mapping[str, float],
    candidates: dict[Pair, Candidate],
) -> None:
    """Boost candidates by their neighbours, and add neighbours that get a boost.

    `best` is the best lexical score.
    """
    strong = sorted(
        candidates,
        key=lambda pair: -round(candidates[pair].words + candidates[pair].covers ** 2, 4),
    )[:STRONG]
    docs = list(dict.fromkeys(doc for doc, _ in strong))
    neighbours = store.memories.neighbours(docs, scope.sources, len(BEFORE))
    neighbours = [
        neighbour for neighbour in neighbours if scope.docs is None or neighbour.doc in scope.docs
    ]
    if not neighbours:
        return
    _add_short_neighbours(store, words, scope, terms, best, neighbours, candidates)
    within = frozenset(docs).union(neighbour.doc for neighbour in neighbours)
    held = words.held(list(word_weights), replace(scope, docs=within), 4 * len(within))
    rates = {
        pair: candidates[pair].words / mass
        for pair, contained in held.items()
        if pair in candidates and (mass := sum(word_weights[word] for word in contained))
    }
    _apply_boosts(
        _lend(strong, neighbours, candidates, held, rates), candidates, held, rates, word_weights
    )


def _add_short_neighbours(
    store: Store,
    words: LexicalIndex,
    scope: SearchFilter,
    terms: Sequence[LexicalTerm],
    best: float,
    neighbours: Sequence[Neighbour],
    candidates: dict[Pair, Candidate],
) -> None:
    """Make neighbours of a single chunk candidates, with their own lexical score."""
    known = {doc for doc, _ in candidates}
    new = sorted(
        {
            (neighbour.doc, neighbour.first_chunk)
            for neighbour in neighbours
            if neighbour.doc not in known and neighbour.first_chunk == neighbour.last_chunk
        }
    )
    if not new:
        return
    within = replace(scope, docs=frozenset(doc for doc, _ in new))
    scores = {
        (doc, chunk): score / best for doc, chunk, score in words.search(terms, within, len(new))
    }
    for pair, place in store.content.places(new).items():
        candidates[pair] = Candidate(place, scores.get(pair, 0.0))


def _lend(
    strong: Sequence[Pair],
    neighbours: Sequence[Neighbour],
    candidates: Mapping[Pair, Candidate],
    held: Held,
    rates: Mapping[Pair, float],
) -> Lent:
    """Lend the words of strong candidates; a word lent several times counts as its best share."""
    beside: dict[int, list[Neighbour]] = {}
    for neighbour in neighbours:
        beside.setdefault(neighbour.of, []).append(neighbour)
    takers: dict[int, list[Pair]] = {}
    for pair in candidates:
        takers.setdefault(pair[0], []).append(pair)
    lent: Lent = {}
    for giver in strong:
        rate = rates.get(giver, 0.0) * min(1.0, SHORT / max(1, candidates[giver].place.doc.size))
        for neighbour in beside.get(giver[0], ()):
            share = rate * (
                BEFORE[neighbour.step - 1] if neighbour.step > 0 else AFTER[-neighbour.step - 1]
            )
            for taker in takers.get(neighbour.doc, ()):
                shares = lent.setdefault(taker, {})
                for word in held.get(giver, ()):
                    shares[word] = max(share, shares.get(word, 0.0))
    return lent


def _apply_boosts(
    lent: Lent,
    candidates: Mapping[Pair, Candidate],
    held: Held,
    rates: Mapping[Pair, float],
    word_weights: Mapping[str, float],
) -> None:
    """Set the boost beyond a candidate's own words, and rescale so that the best is 1."""
    whole = sum(word_weights.values()) or 1.0
    for pair, shares in lent.items():
        candidate, own, rate = candidates[pair], held.get(pair, ()), rates.get(pair, 0.0)
        candidate.beside = sum(
            word_weights[word] * max(0.0, share - rate * (word in own))
            for word, share in shares.items()
        )
        candidate.covers_jointly = min(
            1.0, sum(word_weights[word] for word in shares.keys() | set(own)) / whole
        )
    top = (
        max((candidate.words + candidate.beside for candidate in candidates.values()), default=1.0)
        or 1.0
    )
    for candidate in candidates.values():
        candidate.words, candidate.beside = candidate.words / top, candidate.beside / top
