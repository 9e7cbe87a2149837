"""What stands beside a memory counts for it, too: an answer seldom repeats the words of the
question before it.

Where a strong candidate says words of the query, those who stand near it in the same session have a
share of them, as far as they don't say them themselves; who isn't a candidate yet becomes one.
Looked up while asking, and only among what may be found: nothing of a memory is kept with another
one, so what is deleted is gone. Worth .093 on turns of conversations, 0 on whole conversations,
.004 on messages of commits (recall@10 by words); of that the second places are .019 and what comes
after .013. Roads not taken: adding up the neighbours' scores, which counts a name that all of them
say several times (-.010); lending between the pieces of one long memory (0).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from cortex.engine.search.features import Candidate
from cortex.engine.store import LexicalIndex, LexicalTerm, Neighbour, SearchFilter, Store

BEFORE = (0.7, 0.4)  # of what was said one and two places before
AFTER = (0.4, 0.2)
SHORT = 300  # bytes: a longer memory says much, and the less of it to its neighbours
STRONG = 40  # candidates whose neighbours are looked at; 60 are worth .001 and a tenth of the time

Pair = tuple[int, int]  # doc, chunk
Held = Mapping[Pair, Collection[str]]  # the words of the query that stand in a chunk
Lent = dict[Pair, dict[str, float]]  # to a chunk: for each word, what a unit of its mass is worth


def add_beside(
    store: Store,
    words: LexicalIndex,
    narrow: SearchFilter,
    terms: Sequence[LexicalTerm],
    best: float,
    masses: Mapping[str, float],
    found: dict[Pair, Candidate],
) -> None:
    """Give candidates their share of what their neighbours say, and add neighbours that have one;
    `best` is the best word score.
    """
    strong = sorted(found, key=lambda pair: -round(found[pair].words + found[pair].covers ** 2, 4))[
        :STRONG
    ]
    docs = list(dict.fromkeys(doc for doc, _ in strong))
    near = store.remembered.neighbours(docs, narrow.sources, len(BEFORE))
    near = [one for one in near if narrow.docs is None or one.doc in narrow.docs]
    if not near:
        return
    _add(store, words, narrow, terms, best, near, found)
    within = frozenset(docs).union(one.doc for one in near)
    held = words.held(list(masses), replace(narrow, docs=within), 4 * len(within))
    rates = {
        pair: found[pair].words / mass
        for pair, said in held.items()
        if pair in found and (mass := sum(masses[word] for word in said))
    }
    _count(_lend(strong, near, found, held, rates), found, held, rates, masses)


def _add(
    store: Store,
    words: LexicalIndex,
    narrow: SearchFilter,
    terms: Sequence[LexicalTerm],
    best: float,
    near: Sequence[Neighbour],
    found: dict[Pair, Candidate],
) -> None:
    """Make the short ones candidates that aren't yet, with what they say themselves."""
    known = {doc for doc, _ in found}
    short = (one for one in near if one.doc not in known and one.first_chunk == one.last_chunk)
    new = sorted({(one.doc, one.first_chunk) for one in short})
    if not new:
        return
    within = replace(narrow, docs=frozenset(doc for doc, _ in new))
    scores = {
        (doc, chunk): score / best for doc, chunk, score in words.search(terms, within, len(new))
    }
    for pair, place in store.lookup.places(new).items():
        found[pair] = Candidate(place, scores.get(pair, 0.0))


def _lend(
    strong: Sequence[Pair],
    near: Sequence[Neighbour],
    found: Mapping[Pair, Candidate],
    held: Held,
    rates: Mapping[Pair, float],
) -> Lent:
    """What the strong ones say, to those beside them: a word that several say counts once, as the
    nearest says it.
    """
    beside: dict[int, list[Neighbour]] = {}
    for one in near:
        beside.setdefault(one.of, []).append(one)
    takers: dict[int, list[Pair]] = {}
    for pair in found:
        takers.setdefault(pair[0], []).append(pair)
    lent: Lent = {}
    for giver in strong:
        rate = rates.get(giver, 0.0) * min(1.0, SHORT / max(1, found[giver].place.doc.size))
        for one in beside.get(giver[0], ()):
            share = rate * (BEFORE[one.step - 1] if one.step > 0 else AFTER[-one.step - 1])
            for taker in takers.get(one.doc, ()):
                said = lent.setdefault(taker, {})
                for word in held.get(giver, ()):
                    said[word] = max(share, said.get(word, 0.0))
    return lent


def _count(
    lent: Lent,
    found: Mapping[Pair, Candidate],
    held: Held,
    rates: Mapping[Pair, float],
    masses: Mapping[str, float],
) -> None:
    """Write down what was lent beyond what a candidate says itself; the best of all together is 1."""
    whole = sum(masses.values()) or 1.0
    for pair, said in lent.items():
        one, own, rate = found[pair], held.get(pair, ()), rates.get(pair, 0.0)
        one.beside = sum(
            masses[word] * max(0.0, share - rate * (word in own)) for word, share in said.items()
        )
        one.told = min(1.0, sum(masses[word] for word in said.keys() | set(own)) / whole)
    top = max((one.words + one.beside for one in found.values()), default=1.0) or 1.0
    for one in found.values():
        one.words, one.beside = one.words / top, one.beside / top
