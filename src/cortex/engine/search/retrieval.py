"""Retrieval of candidates for a query: by words, coverage, definitions, named files and cosine.

The number of candidates doesn't depend on the number of hits asked for, so a short answer has the
same first hits as a long one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cortex.base.text import split_identifier
from cortex.base.types import Doc, Stamp
from cortex.engine.search import features
from cortex.engine.search.features import Candidate
from cortex.engine.search.neighbor_boost import boost_neighbors
from cortex.engine.search.query_classes import SHORT_TEXTS, Corpus
from cortex.engine.search.query_parser import Parsed
from cortex.engine.search.weights import weights_of
from cortex.engine.store import (
    ContentQueries,
    LexicalIndex,
    LexicalTerm,
    SearchFilter,
    Store,
    extension_of,
)

if TYPE_CHECKING:
    import numpy as np

    from cortex.engine.store.index.vector_index import VectorIndex

# Lexical candidates, or semantic ones in semantic mode. With 200, quality rises by .003 on one
# set and not at all on three, and a query takes a fifth longer.
DEPTH = 150
# Candidates by coverage alone.
COVER_DEPTH = 30
# Semantic candidates in addition to lexical ones; few, as a right hit mostly shares a word with
# the query.
NEAR_DEPTH = 50
# A filtered vector search may fetch at most this many times the depth and then apply the filter.
LONGER = 4
# Lengths to fetch, one after the other, relative to the length that is enough if the allowed chunks
# are spread evenly; the cost grows with the length.
SPARE = (1.25, 2.0)
# Lowest cosine of a purely semantic candidate: any two texts have a small cosine, and an unknown
# word is near no text at all.
LEAST_NEAR = 0.25
# Shortest name that is looked up as a prefix.
MIN_PREFIX = 3
# Short fields weigh less, because they score higher by themselves: a word makes up more of a name
# of two words than of a body of a hundred.
FIELD_WEIGHTS = (("name", 0.3), ("path", 0.3), ("doc_text", 0.5), ("body", 1.0))

# An embedding model with the function that embeds a query.
QueryModel = tuple[Stamp, Callable[[str], "np.ndarray"]]
# An embedding model with the query's vector.
QueryVector = tuple[Stamp, "np.ndarray"]
# Ids of doc and chunk.
Pair = tuple[int, int]
# Strength of the evidence for a chunk, with the name it is about.
Strengths = dict[Pair, tuple[float, str]]
NOTHING = (0.0, "")


def weigh_words(
    lexical: LexicalIndex | None, parsed: Parsed, seen: tuple[SearchFilter, int] | None = None
) -> dict[str, float]:
    """Weigh each word of the query by its rarity.

    `seen` is the filter for all that the viewer may see, and the number of chunks within it. Chunks
    outside must not be counted: the weight of a word would reveal that another principal uses it.
    """
    if lexical is None:
        return {}
    scope, rows = seen or (None, len(lexical))
    return {
        word: weight * math.log(1 + rows / (1 + lexical.frequency(word, scope=scope)))
        for word, weight in parsed.weights.items()
    }


def find_by_words(
    store: Store,
    lexical: LexicalIndex | None,
    scope: SearchFilter,
    parsed: Parsed,
    word_weights: Mapping[str, float],
) -> dict[Pair, Candidate]:
    """Find candidates by words, names and paths; without a lexical index by names and paths."""
    terms = _terms(parsed)
    matched, best = ({}, 1.0) if lexical is None else _by_words(lexical, scope, terms)
    covered, rest_coverage = (
        ({}, 0.0) if lexical is None else _by_coverage(lexical, scope, word_weights)
    )
    weights = weights_of(parsed.classes, parsed.corpus)
    defined = _by_definition(store.content, lexical, scope, parsed) if weights.definition else {}
    joined = _by_joined_words(store.content, scope, parsed) if weights.joined else {}
    # Memories and records are no files.
    located = {} if parsed.corpus in SHORT_TEXTS else _by_place(store.content, scope, parsed)
    pairs = list(
        dict.fromkeys([*matched, *list(covered)[:COVER_DEPTH], *defined, *joined, *located])
    )
    places = store.content.places(pairs)
    candidates: dict[Pair, Candidate] = {}
    is_unfiltered = not (scope.extensions or scope.languages or scope.docs is not None)
    for pair in pairs:
        place = places.get(pair)
        if place is None or not (is_unfiltered or allowed(place.doc, scope)):
            continue
        candidate = candidates[pair] = Candidate(place, matched.get(pair, 0.0))
        # A chunk that defines the queried name contains it.
        holds = pair in matched or (parsed.is_name and pair in defined)
        candidate.covers = covered.get(pair, rest_coverage if holds else 0.0)
        candidate.joins, candidate.named = joined.get(pair, NOTHING)
        if pair in defined:
            candidate.defines, candidate.named = defined[pair]
        elif parsed.is_name:
            candidate.defines = features.reexport(candidate)
        candidate.located = located.get(pair, NOTHING)[0]
    if parsed.corpus is Corpus.MEMORIES and lexical is not None:
        boost_neighbors(store, lexical, scope, terms, best, word_weights, candidates)
    if parsed.corpus is Corpus.MEMORIES:
        for candidate in candidates.values():
            candidate.speaks = features.speaker(candidate.place.chunk, parsed)
    return candidates


def add_by_meaning(
    store: Store,
    scope: SearchFilter,
    stamp: Stamp,
    query: np.ndarray,
    candidates: dict[Pair, Candidate],
    weight: float,
) -> None:
    """Add the candidates nearest to the query, and set the cosine and its score for all."""
    # Imported here because only searches with an embedder need it.
    import numpy as np

    from cortex.engine.store.index.vector_index import cosines

    vectors = store.indexes.vectors(stamp)
    near = _nearest(store, vectors, scope, query, NEAR_DEPTH if candidates else DEPTH)
    pairs = [
        pair
        for pair in store.content.places_of_chunks(scope.sources, list(near))
        if pair not in candidates
    ]
    others = np.array([chunk for _, chunk in candidates if chunk not in near], dtype=np.int64)
    near |= cosines(vectors, query, others)
    candidates |= {
        pair: Candidate(place, words=0.0) for pair, place in store.content.places(pairs).items()
    }
    ranges = store.content.ranges({candidate.place.doc.blob for candidate in candidates.values()})
    # A file of a single chunk has the chunk's own cosine.
    longer = {blob: ends for blob, ends in ranges.items() if ends[0] < ends[1]}
    means = store.indexes.sets.file_cosines(stamp, query, list(longer.values()))
    files = dict(zip(longer, means, strict=True))
    for (_, chunk), candidate in candidates.items():
        own = near.get(chunk, 0.0)
        candidate.near = features.nearness(own, files.get(candidate.place.doc.blob, own))
        candidate.meaning = weight * candidate.near
    for pair in pairs:
        if pair in candidates and candidates[pair].near < LEAST_NEAR:
            del candidates[pair]


def _nearest(
    store: Store, vectors: VectorIndex, scope: SearchFilter, query: np.ndarray, depth: int
) -> dict[int, float]:
    """Allowed chunks nearest to the query, nearest first.

    If many chunks are allowed, a longer list is fetched and filtered: collecting the ids of all
    allowed chunks is slow after each change, and a search restricted to them takes twice as long.
    """
    if scope.alone and not scope.extensions and not scope.languages and scope.docs is None:
        return dict(vectors.search(query, depth))
    lexical = store.indexes.words()
    whole = 0 if lexical is None else len(lexical)
    some = store.counts(*scope.sources).chunks if scope.docs is None else len(scope.docs)
    # With these filters fewer chunks are allowed than `some` counts.
    fewer = scope.extensions or scope.languages or scope.docs is not None
    for spare in SPARE[-1:] if fewer else SPARE:
        most = math.ceil(spare * depth * whole / max(1, some))
        if most > LONGER * depth:
            break
        longer = dict(vectors.search(query, most))
        kept = _within(store.content, scope, list(longer))
        # Enough chunks, or all that there are.
        if len(kept) >= depth or len(longer) < most:
            return {chunk: longer[chunk] for chunk in kept[:depth]}
    return dict(vectors.search(query, depth, store.indexes.sets.chunks_within(scope)))


def _within(lookup: ContentQueries, scope: SearchFilter, chunks: Sequence[int]) -> list[int]:
    """Allowed chunks among these."""
    pairs = lookup.places_of_chunks(scope.sources, chunks)
    if scope.extensions or scope.languages or scope.docs is not None:
        pairs = [pair for pair, place in lookup.places(pairs).items() if allowed(place.doc, scope)]
    return list(dict.fromkeys(chunk for _, chunk in pairs))


def likeness_by_meaning(
    store: Store, stamp: Stamp, chunks: Sequence[int]
) -> Callable[[int, int], float]:
    """Cosine of the chunks at two indexes of the list; 0 where one has no vector."""
    import numpy as np

    from cortex.engine.store.index.vector_scan import unit

    ids, rows = store.indexes.vectors(stamp).rows(np.array(chunks, dtype=np.int64))
    known = dict(zip(ids.tolist(), unit(rows.astype(np.float32)), strict=True))
    nothing = np.zeros(stamp.dimensions)
    table = np.array([known.get(chunk, nothing) for chunk in chunks], dtype=np.float64).reshape(
        -1, stamp.dimensions
    )
    likeness = np.round(table @ table.T, 4).tolist()
    return lambda first, second: likeness[first][second]


def allowed(doc: Doc, scope: SearchFilter) -> bool:
    """True if a doc passes the filter."""
    if scope.extensions and extension_of(doc.path) not in scope.extensions:
        return False
    if scope.languages and doc.language not in scope.languages:
        return False
    return scope.docs is None or doc.id in scope.docs


def _terms(parsed: Parsed) -> list[LexicalTerm]:
    return [
        LexicalTerm(
            word, tuple((field, weight * field_weight) for field, field_weight in FIELD_WEIGHTS)
        )
        for word, weight in parsed.weights.items()
    ]


def _by_words(
    lexical: LexicalIndex, scope: SearchFilter, terms: Sequence[LexicalTerm]
) -> tuple[dict[Pair, float], float]:
    """Best lexical matches, scored as shares of the best score, and that best score."""
    rows = lexical.search(terms, scope, DEPTH)
    # If nearly every one of thousands of rows has the word, even the best score is rounded to 0.
    best = (rows[0][2] if rows else 0.0) or 1.0
    return {(doc, chunk): score / best for doc, chunk, score in rows}, best


def _by_coverage(
    lexical: LexicalIndex, scope: SearchFilter, word_weights: Mapping[str, float]
) -> tuple[dict[Pair, float], float]:
    """Weighted share of the query's words that each chunk contains; 1 is all of them.

    The second value is the most that a chunk outside the result can contain.
    """
    rows = lexical.cover(word_weights, scope, DEPTH + COVER_DEPTH)
    rest = rows[-1][2] if len(rows) == DEPTH + COVER_DEPTH else 0.0
    return {(doc, chunk): min(1.0, share) for doc, chunk, share in rows}, min(1.0, rest)


def _by_definition(
    lookup: ContentQueries, lexical: LexicalIndex | None, scope: SearchFilter, parsed: Parsed
) -> Strengths:
    """Chunks that define a name of the query.

    For a query that is one unknown name, chunks that define a name with this prefix.
    """
    definitions = lookup.definitions(scope.sources, parsed.names)
    if definitions or not parsed.is_name:
        return _strongest(
            (
                (definition.doc, definition.chunk),
                features.definition_match(
                    definition.name, definition.qualified, parsed.names, parsed.qualified
                ),
                definition.name,
            )
            for definition in definitions
        )
    prefix = parsed.names[0]
    longer = (
        lookup.definitions_beginning(scope.sources, prefix) if len(prefix) >= MIN_PREFIX else []
    )
    references = {
        definition.name: 0
        if lexical is None
        else lexical.frequency("".join(split_identifier(definition.name)[:1]))
        for definition in longer
    }
    most = max(references.values(), default=0)
    return _strongest(
        (
            (definition.doc, definition.chunk),
            features.prefix_match(definition.name, prefix, references[definition.name], most),
            definition.name,
        )
        for definition in longer
    )


def _by_joined_words(lookup: ContentQueries, scope: SearchFilter, parsed: Parsed) -> Strengths:
    return _strongest(
        ((definition.doc, definition.chunk), 1.0, definition.name)
        for definition in lookup.definitions(scope.sources, parsed.joined)
    )


def _by_place(lookup: ContentQueries, scope: SearchFilter, parsed: Parsed) -> Strengths:
    """Chunks at the files and lines that the query names; without a line the first chunk."""
    strengths: list[tuple[Pair, float, str]] = []
    for path, line in parsed.places:
        for doc in lookup.docs_called(scope.sources, path):
            chunks = lookup.chunks(doc.blob)
            here = [
                chunk_id for chunk_id, chunk in chunks if chunk.start_line <= line <= chunk.end_line
            ]
            strengths.extend(((doc.id, chunk_id), 1.0, path) for chunk_id in here)
            if not here:
                strengths.extend(((doc.id, chunk_id), 0.8, path) for chunk_id, _ in chunks[:1])
    return _strongest(strengths)


def _strongest(strengths: Iterable[tuple[Pair, float, str]]) -> Strengths:
    strongest: Strengths = {}
    for pair, strength, name in strengths:
        if strength > strongest.get(pair, NOTHING)[0]:
            strongest[pair] = (strength, name)
    return strongest
