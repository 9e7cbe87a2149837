"""Which places of a store may answer a query at all: by words, coverage, definitions, named files
and meaning.

The number of candidates doesn't depend on how many hits are asked for, so the first hits of a short
answer are those of a long one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cortex.base.text import split_identifier
from cortex.base.types import Doc, Stamp
from cortex.engine.search import features
from cortex.engine.search.features import Candidate
from cortex.engine.search.neighbor_boost import add_beside
from cortex.engine.search.query_classes import TOLD, Corpus, weights_of
from cortex.engine.search.query_parser import Parsed
from cortex.engine.store import LexicalIndex, LexicalTerm, Lookup, SearchFilter, Store, extension_of

if TYPE_CHECKING:
    import numpy as np

    from cortex.engine.store.index.vector_index import VectorIndex

DEPTH = (
    # By words, or by meaning alone; 200 is worth .003 on one set, nothing on three, and a fifth of
    # a query's time
    150
)
COVER_DEPTH = 30  # of those that only hold many of the words
# By meaning beside those by words: what is right mostly shares a word with the query
NEAR_DEPTH = 50
LONGER = 4  # times as many, from which those are left out that may be no candidates
# Times as many as would do if those that may be were spread evenly; a list costs as much as it is
# long
SPARE = (
    1.25,
    2.0,
)
# Of what is found by meaning alone: everything is a little alike, and a word that nobody knows is
# near to nothing
LEAST_NEAR = 0.25
MIN_PREFIX = 3  # characters of a name that others may begin with
# Short fields score high by themselves: a word in a name of two words counts for more than one in a
# body of a hundred.
FIELD_WEIGHTS = (("name", 0.3), ("path", 0.3), ("doc_text", 0.5), ("body", 1.0))

Meaning = tuple[Stamp, Callable[[str], "np.ndarray"]]
Near = tuple[Stamp, "np.ndarray"]  # the query's vector
Pair = tuple[int, int]  # doc, chunk
Strengths = dict[Pair, tuple[float, str]]  # with the name that it is about
NOTHING = (0.0, "")


def masses_of(
    words: LexicalIndex | None, parsed: Parsed, seen: tuple[SearchFilter, int] | None = None
) -> dict[str, float]:
    """What each word of the query is worth: its weight, more for rare words.

    `seen` is all that may be looked at, and how many chunks that are, where the rest must not even
    be counted: what a word is worth would tell whether somebody else says it.
    """
    if words is None:
        return {}
    narrow, rows = seen or (None, len(words))
    return {
        word: weight * math.log(1 + rows / (1 + words.frequency(word, narrow=narrow)))
        for word, weight in parsed.weights.items()
    }


def find_by_words(
    store: Store,
    words: LexicalIndex | None,
    narrow: SearchFilter,
    parsed: Parsed,
    masses: Mapping[str, float],
) -> dict[Pair, Candidate]:
    """Candidates whose words, names or paths answer to the query's; names and paths alone, where
    there are no words.
    """
    terms = _terms(parsed)
    matched, best = ({}, 1.0) if words is None else _by_words(words, narrow, terms)
    covered, rest = ({}, 0.0) if words is None else _by_coverage(words, narrow, masses)
    weights = weights_of(parsed.classes, parsed.corpus)
    defined = _by_definition(store.lookup, words, narrow, parsed) if weights.definition else {}
    joined = _by_joined_words(store.lookup, narrow, parsed) if weights.joined else {}
    # They are no files
    located = {} if parsed.corpus in TOLD else _by_place(store.lookup, narrow, parsed)
    pairs = list(
        dict.fromkeys([*matched, *list(covered)[:COVER_DEPTH], *defined, *joined, *located])
    )
    places = store.lookup.places(pairs)
    found: dict[Pair, Candidate] = {}
    anything = not (narrow.extensions or narrow.languages or narrow.docs is not None)
    for pair in pairs:
        place = places.get(pair)
        if place is None or not (anything or allowed(place.doc, narrow)):
            continue
        one = found[pair] = Candidate(place, matched.get(pair, 0.0))
        # What defines a name holds it
        holds = pair in matched or (parsed.is_name and pair in defined)
        one.covers = covered.get(pair, rest if holds else 0.0)
        one.joins, one.named = joined.get(pair, NOTHING)
        if pair in defined:
            one.defines, one.named = defined[pair]
        elif parsed.is_name:
            one.defines = features.reexport(one)
        one.located = located.get(pair, NOTHING)[0]
    if parsed.corpus is Corpus.MEMORIES and words is not None:
        add_beside(store, words, narrow, terms, best, masses, found)
    if parsed.corpus is Corpus.MEMORIES:
        for one in found.values():
            one.speaks = features.speaker(one.place.chunk, parsed)
    return found


def add_by_meaning(
    store: Store,
    narrow: SearchFilter,
    stamp: Stamp,
    query: np.ndarray,
    found: dict[Pair, Candidate],
    weight: float,
) -> None:
    """Add those whose vectors are near the query's, and give every candidate the weight of its own
    nearness.
    """
    import numpy as np  # here, because without an embedder nobody needs it

    vectors = store.indexes.vectors(stamp)
    near = _nearest(store, vectors, narrow, query, NEAR_DEPTH if found else DEPTH)
    pairs = [
        pair
        for pair in store.lookup.places_of_chunks(narrow.sources, list(near))
        if pair not in found
    ]
    others = np.array([chunk for _, chunk in found if chunk not in near], dtype=np.int64)
    near |= vectors.cosines(query, others)
    found |= {
        pair: Candidate(place, words=0.0) for pair, place in store.lookup.places(pairs).items()
    }
    ranges = store.lookup.ranges({one.place.doc.blob for one in found.values()})
    # Else the chunk is all there is
    longer = {blob: ends for blob, ends in ranges.items() if ends[0] < ends[1]}
    files = dict(zip(longer, vectors.cosines_of_ranges(query, list(longer.values())), strict=True))
    for (_, chunk), one in found.items():
        own = near.get(chunk, 0.0)
        one.near = features.nearness(own, files.get(one.place.doc.blob, own))
        one.meaning = weight * one.near
    for pair in pairs:
        if pair in found and found[pair].near < LEAST_NEAR:
            del found[pair]


def _nearest(
    store: Store, vectors: VectorIndex, narrow: SearchFilter, query: np.ndarray, depth: int
) -> dict[int, float]:
    """The chunks nearest to the query that may be candidates, nearest first.

    Where those are many, by a longer list from which others are left out: to know all chunks that
    may be takes long after each change, and a search among them twice as long.
    """
    if narrow.alone and not narrow.extensions and not narrow.languages and narrow.docs is None:
        return dict(vectors.search(query, depth))
    words = store.indexes.words()
    whole = 0 if words is None else len(words)
    some = store.counts(*narrow.sources).chunks if narrow.docs is None else len(narrow.docs)
    fewer = narrow.extensions or narrow.languages or narrow.docs is not None  # than it counts
    for spare in SPARE[-1:] if fewer else SPARE:
        most = math.ceil(spare * depth * whole / max(1, some))
        if most > LONGER * depth:
            break
        longer = dict(vectors.search(query, most))
        kept = _within(store.lookup, narrow, list(longer))
        if len(kept) >= depth or len(longer) < most:  # enough, or all that there is
            return {chunk: longer[chunk] for chunk in kept[:depth]}
    return dict(vectors.search(query, depth, store.indexes.sets.chunks_within(narrow)))


def _within(lookup: Lookup, narrow: SearchFilter, chunks: Sequence[int]) -> list[int]:
    """Those of these chunks that may be candidates."""
    pairs = lookup.places_of_chunks(narrow.sources, chunks)
    if narrow.extensions or narrow.languages or narrow.docs is not None:
        pairs = [pair for pair, place in lookup.places(pairs).items() if allowed(place.doc, narrow)]
    return list(dict.fromkeys(chunk for _, chunk in pairs))


def likeness_by_meaning(
    store: Store, stamp: Stamp, chunks: Sequence[int]
) -> Callable[[int, int], float]:
    """How near the vectors of the chunks in two places of the list are to each other; 0 where one
    has none.
    """
    import numpy as np

    rows = store.indexes.vectors(stamp).rows(np.array(chunks, dtype=np.int64))
    nothing = np.zeros(stamp.dimensions)
    table = np.array([rows.get(chunk, nothing) for chunk in chunks], dtype=np.float64).reshape(
        -1, stamp.dimensions
    )
    cosines = np.round(table @ table.T, 4).tolist()
    return lambda one, other: cosines[one][other]


def allowed(doc: Doc, narrow: SearchFilter) -> bool:
    """Whether a doc is among those that were asked for."""
    if narrow.extensions and extension_of(doc.path) not in narrow.extensions:
        return False
    if narrow.languages and doc.language not in narrow.languages:
        return False
    return narrow.docs is None or doc.id in narrow.docs


def _terms(parsed: Parsed) -> list[LexicalTerm]:
    return [
        LexicalTerm(
            word, tuple((field, weight * field_weight) for field, field_weight in FIELD_WEIGHTS)
        )
        for word, weight in parsed.weights.items()
    ]


def _by_words(
    words: LexicalIndex, narrow: SearchFilter, terms: Sequence[LexicalTerm]
) -> tuple[dict[Pair, float], float]:
    """The best matches as shares of the very best, and what that one scored."""
    rows = words.search(terms, narrow, DEPTH)
    # Of a word that stands in nearly every row of thousands, even the best score is rounded to 0.
    best = (rows[0][2] if rows else 0.0) or 1.0
    return {(doc, chunk): score / best for doc, chunk, score in rows}, best


def _by_coverage(
    words: LexicalIndex, narrow: SearchFilter, masses: Mapping[str, float]
) -> tuple[dict[Pair, float], float]:
    """How much of the query a chunk holds, rare words counting more: 1 is all of it; and what those
    hold at most that aren't named.
    """
    rows = words.cover(masses, narrow, DEPTH + COVER_DEPTH)
    rest = rows[-1][2] if len(rows) == DEPTH + COVER_DEPTH else 0.0
    return {(doc, chunk): min(1.0, share) for doc, chunk, share in rows}, min(1.0, rest)


def _by_definition(
    lookup: Lookup, words: LexicalIndex | None, narrow: SearchFilter, parsed: Parsed
) -> Strengths:
    """Chunks that define a name of the query; for a query that is one unknown name, those whose
    name begins so.
    """
    found = lookup.definitions(narrow.sources, parsed.names)
    if found or not parsed.is_name:
        return _strongest(
            (
                (one.doc, one.chunk),
                features.definition(one.name, one.qualified, parsed.names, parsed.qualified),
                one.name,
            )
            for one in found
        )
    prefix = parsed.names[0]
    longer = (
        lookup.definitions_beginning(narrow.sources, prefix) if len(prefix) >= MIN_PREFIX else []
    )
    references = {
        one.name: 0 if words is None else words.frequency("".join(split_identifier(one.name)[:1]))
        for one in longer
    }
    most = max(references.values(), default=0)
    return _strongest(
        (
            (one.doc, one.chunk),
            features.beginning(one.name, prefix, references[one.name], most),
            one.name,
        )
        for one in longer
    )


def _by_joined_words(lookup: Lookup, narrow: SearchFilter, parsed: Parsed) -> Strengths:
    return _strongest(
        ((definition.doc, definition.chunk), 1.0, definition.name)
        for definition in lookup.definitions(narrow.sources, parsed.joined)
    )


def _by_place(lookup: Lookup, narrow: SearchFilter, parsed: Parsed) -> Strengths:
    """The chunks at the files and lines that the query names; the first chunk where it names no
    line.
    """
    found: list[tuple[Pair, float, str]] = []
    for path, line in parsed.places:
        for doc in lookup.docs_called(narrow.sources, path):
            chunks = lookup.chunks(doc.blob)
            here = [
                number for number, chunk in chunks if chunk.start_line <= line <= chunk.end_line
            ]
            found.extend(((doc.id, number), 1.0, path) for number in here)
            if not here:
                found.extend(((doc.id, number), 0.8, path) for number, _ in chunks[:1])
    return _strongest(found)


def _strongest(found: Iterable[tuple[Pair, float, str]]) -> Strengths:
    out: Strengths = {}
    for pair, strength, name in found:
        if strength > out.get(pair, NOTHING)[0]:
            out[pair] = (strength, name)
    return out
