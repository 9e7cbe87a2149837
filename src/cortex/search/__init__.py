"""Query -> Hits. Candidates come from the words (and, with an embedder, from the vectors), definitions from the symbol table;
`rank` orders them, and only those that are shown get their text.

`search` answers from a store; `search_exact` from the files themselves.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from cortex.errors import Cancelled, InputError, LimitError
from cortex.search.exact import MAX_HITS, search_exact
from cortex.search.parse import Parsed, parse
from cortex.search.rank import Candidate, rank
from cortex.store import Lookup, Narrow, Place, Store, Term, Words, extension_of
from cortex.types import Cancel, Doc, Hit, Mode, Page, Query, Source, Stamp

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MAX_HITS", "NO_EMBEDDER", "Meaning", "check_query", "search", "search_exact"]

DEPTH = 200  # candidates, however many hits are asked for
COVER_DEPTH = 50  # candidates that only hold many of the words
# Short fields score high by themselves: a word in a name of two words counts for more than one in a body of a hundred.
FIELD_WEIGHTS = (("name", 0.2), ("path", 0.4), ("signature", 0.2), ("doc_text", 0.3), ("body", 1.0))
MAX_QUERY_CHARACTERS = 20_000
MEANING_WEIGHT = 0.5  # of a cosine beside a word score of 0..1

NO_EMBEDDER = "no embedder is configured"

Meaning = tuple[Stamp, Callable[[str], "np.ndarray"]]


def search(
    store: Store,
    source: Source,
    query: Query,
    *,
    meaning: Meaning | None,
    cancel: Cancel,
    deadline: float,
    why_words: str = NO_EMBEDDER,
) -> Page:
    """Answer a query in mode hybrid, meaning or words; without `meaning` by words, and `why_words` is told.

    Raises: InputError QUERY_EMPTY or QUERY_INVALID, LimitError SEARCH_TIMEOUT, Cancelled.
    """
    check_query(query)
    parsed = parse(query.text, query.code)
    notes: list[str] = []
    mode = query.mode
    if mode is not Mode.WORDS and meaning is None:
        mode = Mode.WORDS
        notes.append(f"answered by words: {why_words}")
    words = store.indexes.words()  # before the view: which words count must not be read from a state that is over
    with store.reading():
        docs = frozenset(doc.id for doc in store.lookup.docs(source.id, query.path)) if query.path else None
        narrow = Narrow(source.id, query.extensions, query.languages, docs)
        candidates = _candidates(store, words, narrow, parsed, mode, meaning)
        _check_time(cancel, deadline)
        ranked = rank(candidates, parsed)
        _check_time(cancel, deadline)
        texts = _Texts(store.lookup)
        relevances = _relevances(ranked, _meaning_weight(mode))
        above = [pair for pair in zip(ranked, relevances, strict=True) if pair[1] >= query.threshold]
        hits = _hits(above[query.offset : query.offset + query.limit], texts, query.characters)
        counts = store.counts(source.id)
    return Page(hits, len(above), mode, tuple(notes), docs=counts.docs, chunks=counts.chunks)


def check_query(query: Query) -> None:
    """Refuse what can't be a question."""
    if not query.text.strip():
        raise InputError("QUERY_EMPTY", "the query is empty")
    if len(query.text) > MAX_QUERY_CHARACTERS:
        raise InputError(
            "QUERY_INVALID", f"the query has {len(query.text)} characters, at most {MAX_QUERY_CHARACTERS} are allowed"
        )


def _candidates(
    store: Store, words: Words | None, narrow: Narrow, parsed: Parsed, mode: Mode, meaning: Meaning | None
) -> list[Candidate]:
    by_words = _by_words(words, narrow, parsed) if mode is not Mode.MEANING else {}
    covered = _by_coverage(words, narrow, parsed) if mode is not Mode.MEANING else {}
    by_meaning = _by_meaning(store, narrow, parsed, meaning) if meaning and mode is not Mode.WORDS else {}
    defined = _by_definition(store.lookup, narrow, parsed) if mode is not Mode.MEANING else {}
    pairs = list(dict.fromkeys([*by_words, *list(covered)[:COVER_DEPTH], *by_meaning, *defined]))
    places = store.lookup.places(pairs)
    weight = _meaning_weight(mode)
    return [
        Candidate(
            place,
            words=by_words.get(pair, 0.0),
            covers=covered.get(pair, 0.0),
            meaning=by_meaning.get(pair, 0.0) * weight,
            defines=defined.get(pair, 0.0),
        )
        for pair in pairs
        if (place := places.get(pair)) is not None and _allowed(place.doc, narrow)
    ]


def _by_words(words: Words | None, narrow: Narrow, parsed: Parsed) -> dict[tuple[int, int], float]:
    if words is None:
        return {}
    terms = [
        Term(word, tuple((field, weight * field_weight) for field, field_weight in FIELD_WEIGHTS))
        for word, weight in parsed.weights.items()
    ]
    rows = words.search(terms, narrow, DEPTH)
    best = rows[0][2] if rows else 1.0
    return {(doc, chunk): score / best for doc, chunk, score in rows}


def _by_coverage(words: Words | None, narrow: Narrow, parsed: Parsed) -> dict[tuple[int, int], float]:
    """How much of the query a chunk holds, rare words counting more: 1 is all of it."""
    if words is None:
        return {}
    masses = _masses(words.frequency, len(words), parsed.weights)
    return {(doc, chunk): share for doc, chunk, share in words.cover(masses, narrow, DEPTH + COVER_DEPTH)}


def _by_meaning(store: Store, narrow: Narrow, parsed: Parsed, meaning: Meaning) -> dict[tuple[int, int], float]:
    import numpy as np  # here, because without an embedder nobody needs it

    stamp, embed = meaning
    allowed = None
    if narrow.extensions or narrow.languages or narrow.docs is not None:
        docs = [doc for doc in store.lookup.docs(narrow.source) if _allowed(doc, narrow)]
        allowed = np.array([chunk for doc in docs for chunk, _ in store.lookup.chunks(doc.blob)], dtype=np.int64)
    found = dict(store.indexes.vectors(stamp).search(embed(parsed.text), DEPTH, allowed))
    pairs = store.lookup.places_of_chunks(narrow.source, list(found))
    return {(doc, chunk): max(0.0, found[chunk]) for doc, chunk in pairs}


def _by_definition(lookup: Lookup, narrow: Narrow, parsed: Parsed) -> dict[tuple[int, int], float]:
    """Chunks that define a name of the query: 1 where the case and the qualified name agree, less where they don't."""
    found: dict[tuple[int, int], float] = {}
    for definition in lookup.definitions(narrow.source, parsed.names):
        exact = 1.0 if definition.name in parsed.names else 0.6
        if parsed.qualified:
            exact *= 1.0 if any(_ends(definition.qualified, name) for name in parsed.qualified) else 0.5
        pair = (definition.doc, definition.chunk)
        found[pair] = max(exact, found.get(pair, 0.0))
    return found


def _ends(qualified: str, wanted: str) -> bool:
    return ("." + qualified.lower()).endswith("." + wanted.lower())


def _allowed(doc: Doc, narrow: Narrow) -> bool:
    if narrow.extensions and extension_of(doc.path) not in narrow.extensions:
        return False
    if narrow.languages and doc.language not in narrow.languages:
        return False
    return narrow.docs is None or doc.id in narrow.docs


def _meaning_weight(mode: Mode) -> float:
    return 1.0 if mode is Mode.MEANING else MEANING_WEIGHT


def _relevances(ranked: Sequence[Candidate], meaning_weight: float) -> list[float]:
    """The part of the query that the best hits cover, times a hit's share of the best score: falls with the rank."""
    if not ranked:
        return []
    best = max(ranked[0].score, 1e-9)
    covered = max(max(one.covers, one.defines, one.meaning / meaning_weight) for one in ranked[:3])
    return [round(min(1.0, covered * max(0.0, candidate.score) / best), 4) for candidate in ranked]


def _masses(frequency: Callable[[str], int], rows: int, weights: Mapping[str, float]) -> dict[str, float]:
    return {word: weight * math.log(1 + rows / (1 + frequency(word))) for word, weight in weights.items()}


def _hits(shown: Sequence[tuple[Candidate, float]], texts: _Texts, characters: int) -> tuple[Hit, ...]:
    """The hits, with text until there are `characters` of it (0 is no limit)."""
    hits: list[Hit] = []
    left = characters or sys.maxsize
    for candidate, relevance in shown:
        text = texts.of(candidate.place) if left > 0 else ""
        left -= len(text)
        hits.append(_hit(candidate, relevance, text))
    return tuple(hits)


class _Texts:
    """The texts of chunks, each blob unpacked once per answer."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._blobs: dict[int, str] = {}

    def of(self, place: Place) -> str:
        blob = place.doc.blob
        if blob not in self._blobs:
            self._blobs[blob] = self._lookup.text(blob)
        return self._blobs[blob][place.chunk.start : place.chunk.end]


def _hit(candidate: Candidate, relevance: float, text: str) -> Hit:
    doc, chunk = candidate.place.doc, candidate.place.chunk
    return Hit(
        source=doc.source,
        doc=doc.id,
        chunk=candidate.place.chunk_id,
        path=doc.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        text=text,
        score=round(candidate.score, 4),
        relevance=relevance,
        language=doc.language,
        kind=chunk.kind,
        name=chunk.name,
        qualified=chunk.qualified,
        signature=chunk.signature,
        why=candidate.why,
    )


def _check_time(cancel: Cancel, deadline: float) -> None:
    if cancel:
        raise Cancelled()
    if time.monotonic() > deadline:
        raise LimitError("SEARCH_TIMEOUT", "the search ran out of time")
