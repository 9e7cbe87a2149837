"""Candidates for a query: by words, coverage, definitions, named files and cosine.

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

# Lexical candidates, or semantic ones in semantic mode. 200 are worth .003 on one set, nothing on
# three, and cost a fifth of a query's time.
DEPTH = 150
# Candidates by coverage alone.
COVER_DEPTH = 30
# Semantic candidates beside lexical ones: a right hit mostly shares a word with the query.
NEAR_DEPTH = 50
# A filtered vector search may look at this many times the depth and drop what the filter excludes.
LONGER = 4
# Lengths to try, relative to what would do if the allowed chunks were spread evenly; the cost
# grows with the length.
SPARE = (1.25, 2.0)
# Lowest cosine of a purely semantic candidate: all texts are a little alike, and an unknown word is
# near to nothing.
LEAST_NEAR = 0.25
# Shortest name that is looked up as a prefix.
MIN_PREFIX = 3
# Short fields score high by themselves: a word in a name of two words counts for more than one in a
# body of a hundred.
FIELD_WEIGHTS = (("name", 0.3), ("path", 0.3), ("doc_text", 0.5), ("body", 1.0))

# An embedding model with the function that embeds a query.
Meaning = tuple[Stamp, Callable[[str], "np.ndarray"]]
# An embedding model with the query's vector.
Near = tuple[Stamp, "np.ndarray"]
# Ids of doc and chunk.
Pair = tuple[int, int]
# Strength of the evidence for a chunk, with the name it is about.
Strengths = dict[Pair, tuple[float, str]]
NOTHING = (0.0, "")


def weigh_words(
    words: LexicalIndex | None, parsed: Parsed, seen: tuple[SearchFilter, int] | None = None
) -> dict[str, float]:
    """Weigh each word of the query by its rarity.

    `seen` is the filter for all that the viewer may see, and the number of chunks within it. Chunks
    outside must not be counted: the weight of a word would reveal that another principal uses it.
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
    """Find candidates by words, names and paths; without a lexical index by names and paths."""
    terms = _terms(parsed)
    matched, best = ({}, 1.0) if words is None else _by_words(words, narrow, terms)
    covered, rest_coverage = ({}, 0.0) if words is None else _by_coverage(words, narrow, masses)
    weights = weights_of(parsed.classes, parsed.corpus)
    defined = _by_definition(store.content, words, narrow, parsed) if weights.definition else {}
    joined = _by_joined_words(store.content, narrow, parsed) if weights.joined else {}
    # Memories and records are no files.
    located = {} if parsed.corpus in SHORT_TEXTS else _by_place(store.content, narrow, parsed)
    pairs = list(
        dict.fromkeys([*matched, *list(covered)[:COVER_DEPTH], *defined, *joined, *located])
    )
    places = store.content.places(pairs)
    candidates: dict[Pair, Candidate] = {}
    is_unfiltered = not (narrow.extensions or narrow.languages or narrow.docs is not None)
    for pair in pairs:
        place = places.get(pair)
        if place is None or not (is_unfiltered or allowed(place.doc, narrow)):
            continue
        candidate = candidates[pair] = Candidate(place, matched.get(pair, 0.0))
        # A chunk that defines a name contains it.
        holds = pair in matched or (parsed.is_name and pair in defined)
        candidate.covers = covered.get(pair, rest_coverage if holds else 0.0)
        candidate.joins, candidate.named = joined.get(pair, NOTHING)
        if pair in defined:
            candidate.defines, candidate.named = defined[pair]
        elif parsed.is_name:
            candidate.defines = features.reexport(candidate)
        candidate.located = located.get(pair, NOTHING)[0]
    if parsed.corpus is Corpus.MEMORIES and words is not None:
        boost_neighbors(store, words, narrow, terms, best, masses, candidates)
    if parsed.corpus is Corpus.MEMORIES:
        for candidate in candidates.values():
            candidate.speaks = features.speaker(candidate.place.chunk, parsed)
    return candidates


def add_by_meaning(
    store: Store,
    narrow: SearchFilter,
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
    near = _nearest(store, vectors, narrow, query, NEAR_DEPTH if candidates else DEPTH)
    pairs = [
        pair
        for pair in store.content.places_of_chunks(narrow.sources, list(near))
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
    store: Store, vectors: VectorIndex, narrow: SearchFilter, query: np.ndarray, depth: int
) -> dict[int, float]:
    """Allowed chunks nearest to the query, nearest first.

    Where many are allowed, a longer list is fetched and filtered: to collect all allowed chunks
    takes long after each change, and a search among them twice as long.
    """
    if narrow.alone and not narrow.extensions and not narrow.languages and narrow.docs is None:
        return dict(vectors.search(query, depth))
    words = store.indexes.words()
    whole = 0 if words is None else len(words)
    some = store.counts(*narrow.sources).chunks if narrow.docs is None else len(narrow.docs)
    # With these filters fewer chunks are allowed than `some` counts.
    fewer = narrow.extensions or narrow.languages or narrow.docs is not None
    for spare in SPARE[-1:] if fewer else SPARE:
        most = math.ceil(spare * depth * whole / max(1, some))
        if most > LONGER * depth:
            break
        longer = dict(vectors.search(query, most))
        kept = _within(store.content, narrow, list(longer))
        # Enough of them, or all there are.
        if len(kept) >= depth or len(longer) < most:
            return {chunk: longer[chunk] for chunk in kept[:depth]}
    return dict(vectors.search(query, depth, store.indexes.sets.chunks_within(narrow)))


def _within(lookup: ContentQueries, narrow: SearchFilter, chunks: Sequence[int]) -> list[int]:
    """Allowed chunks among these."""
    pairs = lookup.places_of_chunks(narrow.sources, chunks)
    if narrow.extensions or narrow.languages or narrow.docs is not None:
        pairs = [pair for pair, place in lookup.places(pairs).items() if allowed(place.doc, narrow)]
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


def allowed(doc: Doc, narrow: SearchFilter) -> bool:
    """True where a doc passes the filter."""
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
    """Best lexical matches as shares of the best score, and that score."""
    rows = words.search(terms, narrow, DEPTH)
    # For a word in nearly every row of thousands even the best score is rounded to 0.
    best = (rows[0][2] if rows else 0.0) or 1.0
    return {(doc, chunk): score / best for doc, chunk, score in rows}, best


def _by_coverage(
    words: LexicalIndex, narrow: SearchFilter, masses: Mapping[str, float]
) -> tuple[dict[Pair, float], float]:
    """Share of the query's mass that each chunk contains; 1 is all of it.

    The second value is the most that a chunk outside the result can contain.
    """
    rows = words.cover(masses, narrow, DEPTH + COVER_DEPTH)
    rest = rows[-1][2] if len(rows) == DEPTH + COVER_DEPTH else 0.0
    return {(doc, chunk): min(1.0, share) for doc, chunk, share in rows}, min(1.0, rest)


def _by_definition(
    lookup: ContentQueries, words: LexicalIndex | None, narrow: SearchFilter, parsed: Parsed
) -> Strengths:
    """Chunks that define a name of the query.

    For a query that is one unknown name, chunks that define a name with this prefix.
    """
    definitions = lookup.definitions(narrow.sources, parsed.names)
    if definitions or not parsed.is_name:
        return _strongest(
            (
                (definition.doc, definition.chunk),
                features.definition(
                    definition.name, definition.qualified, parsed.names, parsed.qualified
                ),
                definition.name,
            )
            for definition in definitions
        )
    prefix = parsed.names[0]
    longer = (
        lookup.definitions_beginning(narrow.sources, prefix) if len(prefix) >= MIN_PREFIX else []
    )
    references = {
        definition.name: 0
        if words is None
        else words.frequency("".join(split_identifier(definition.name)[:1]))
        for definition in longer
    }
    most = max(references.values(), default=0)
    return _strongest(
        (
            (definition.doc, definition.chunk),
            features.beginning(definition.name, prefix, references[definition.name], most),
            definition.name,
        )
        for definition in longer
    )


def _by_joined_words(lookup: ContentQueries, narrow: SearchFilter, parsed: Parsed) -> Strengths:
    return _strongest(
        ((definition.doc, definition.chunk), 1.0, definition.name)
        for definition in lookup.definitions(narrow.sources, parsed.joined)
    )


def _by_place(lookup: ContentQueries, narrow: SearchFilter, parsed: Parsed) -> Strengths:
    """Chunks at the files and lines that the query names; without a line the first chunk."""
    strengths: list[tuple[Pair, float, str]] = []
    for path, line in parsed.places:
        for doc in lookup.docs_called(narrow.sources, path):
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
