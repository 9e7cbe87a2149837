"""Query -> Hits: parse, find candidates, rank them, say how relevant each is, and show of each what
matters.

`search` answers from a store; `search_exact` from the files themselves.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from cortex.base.errors import Cancelled, InputError, LimitError, StoreError
from cortex.base.redaction import Redacted
from cortex.base.text import words_of
from cortex.base.types import Cancel, Hit, Mode, Page, Query, Source
from cortex.engine.search import diversity, features
from cortex.engine.search.calibration import relate
from cortex.engine.search.features import Candidate
from cortex.engine.search.grep import redaction_note, search_exact
from cortex.engine.search.query_classes import Corpus, weights_of
from cortex.engine.search.query_parser import Parsed, parse
from cortex.engine.search.rank_fusion import found_by_words, fuse
from cortex.engine.search.ranker import explain, rank, why
from cortex.engine.search.retrieval import (
    Meaning,
    Near,
    add_by_meaning,
    find_by_words,
    likeness_by_meaning,
    masses_of,
)
from cortex.engine.search.snippets import SnippetGroup, cut_snippet, merge, opening_of
from cortex.engine.store import ChunkLocation, LexicalIndex, Lookup, SearchFilter, Store, stem_of

__all__ = [
    "BELOW_THRESHOLD",
    "DAMAGED",
    "NO_EMBEDDER",
    "Meaning",
    "check_query",
    "parse",
    "search",
    "search_exact",
]

MAX_QUERY_CHARACTERS = 20_000

NO_EMBEDDER = "no embedder is configured"
BELOW_THRESHOLD = "nothing reaches the threshold"
DAMAGED = "the word index is damaged and is being built anew: names and meaning answer until then, ask again soon"
DAMAGED_VECTORS = "the vectors are damaged and are being made anew"
UNKNOWN_WORDS = "the model knows no word of the query"
FITTED = "local"  # whose nearness `relevance` was fitted by


def search(
    store: Store,
    sources: Sequence[Source],
    query: Query,
    *,
    meaning: Meaning | None,
    cancel: Cancel,
    deadline: float,
    why_words: str = NO_EMBEDDER,
    docs: frozenset[int] | None = None,
) -> Page:
    """Answer a query in mode hybrid, meaning or words; without `meaning` by words, and `why_words`
    is told; `docs` are all that may answer.

    Words that fail are done without, and the answer says so.

    Raises: InputError QUERY_EMPTY or QUERY_INVALID, LimitError SEARCH_TIMEOUT or MEMORY_SHORT,
    Cancelled.
    """
    try:
        return _search(store, sources, query, meaning, cancel, deadline, why_words, docs)
    except StoreError as error:
        if error.code != "INDEX_DAMAGED":
            raise
        store.indexes.doubt(error)
        if not store.indexes.damaged:
            meaning, why_words = None, DAMAGED_VECTORS
        return _search(store, sources, query, meaning, cancel, deadline, why_words, docs)


def _search(
    store: Store,
    sources: Sequence[Source],
    query: Query,
    meaning: Meaning | None,
    cancel: Cancel,
    deadline: float,
    why_words: str,
    docs: frozenset[int] | None,
) -> Page:
    check_query(query)
    parsed = parse(query.text, query.code, _corpus_of(sources))
    near = (
        None
        if meaning is None or query.mode is Mode.WORDS
        else (meaning[0], meaning[1](parsed.text))
    )
    if near is not None and not near[1].any():
        near, why_words = None, UNKNOWN_WORDS
    if query.mode is Mode.HYBRID and query.meaning_weight <= 0:
        near, query = None, replace(query, mode=Mode.WORDS)
    mode = Mode.WORDS if near is None else query.mode
    notes = [] if query.mode is mode else [f"answered by words: {why_words}"]
    # Before the view: which words count must not be read from a state that is over
    words = store.indexes.words()
    if words is None and store.indexes.damaged:
        notes.append(DAMAGED)
    with store.reading():
        numbers = tuple(source.id for source in sources)
        if query.path:
            below = frozenset(
                doc.id for number in numbers for doc in store.lookup.docs(number, query.path)
            )
            docs = below if docs is None else docs & below
        narrow = SearchFilter(
            numbers, query.extensions, query.languages, docs, store.lookup.are_all(numbers)
        )
        seen = None if store.viewer is None else (narrow, store.counts(*numbers).chunks)
        masses = masses_of(words, parsed, seen)
        by_ranks = query.fusion == "rrf" and mode is Mode.HYBRID
        weight = 0.0 if by_ranks else query.meaning_weight
        candidates = _candidates(store, words, narrow, parsed, masses, mode, near, weight)
        _check_time(cancel, deadline)
        texts, recency = _Texts(store.lookup), _recency(store.lookup, numbers)
        worded = (
            [candidate for candidate in candidates if found_by_words(candidate)]
            if by_ranks
            else candidates
        )
        told = {} if mode is Mode.MEANING else masses
        ranked = rank(worded, parsed, lambda place: words_of(texts.of(place)), recency, told)
        if by_ranks:
            ranked = fuse(ranked, candidates, query.meaning_weight, recency)
        _check_time(cancel, deadline)
        relate(ranked, parsed, _fit_of(mode, near))
        above = [one for one in ranked if one.relevance >= query.threshold]
        if query.diversity is not None:
            above = _diversify(store, above, query.diversity, near, texts)
        if ranked and not above:
            notes.append(_all_below(ranked, query, words, parsed, narrow))
        groups, total = merge(above, query.offset + query.limit)
        stems = {stem_of(word): mass for word, mass in masses.items()}
        hits = _show(groups[query.offset :], parsed, query, texts, stems)
        counts = store.counts(*numbers)
    notes += redaction_note(hits)
    return Page(tuple(hits), total, mode, tuple(notes), docs=counts.docs, chunks=counts.chunks)


def _corpus_of(sources: Sequence[Source]) -> Corpus:
    kinds = {source.kind for source in sources}
    lone = kinds.pop() if len(kinds) == 1 else ""
    return _CORPORA.get(lone, Corpus.CODE)


_CORPORA = {"documents": Corpus.DOCUMENTS, "memories": Corpus.MEMORIES, "records": Corpus.RECORDS}


def _recency(lookup: Lookup, sources: Sequence[int]) -> Mapping[str, int]:
    """What the history of a lone source changed lately; those of several can't be compared."""
    return lookup.recency(sources[0]) if len(sources) == 1 else {}


def _all_below(
    ranked: Sequence[Candidate],
    query: Query,
    words: LexicalIndex | None,
    parsed: Parsed,
    narrow: SearchFilter,
) -> str:
    """Why there is no hit although something matches, and what to do about it."""
    unknown = [
        word
        for word in parsed.weights
        if words is not None and not words.frequency(word, narrow=narrow)
    ][:5]
    missing = f"; no file says {', '.join(unknown)}" if unknown else ""
    best = f"the best of {len(ranked)} has {ranked[0].relevance:g}"
    return f"{BELOW_THRESHOLD} {query.threshold:g}, {best}{missing}: say it in other words, or ask with threshold 0"


def check_query(query: Query) -> None:
    """Refuse what can't be a question."""
    if not query.text.strip():
        raise InputError("QUERY_EMPTY", "the query is empty")
    if len(query.text) > MAX_QUERY_CHARACTERS:
        raise InputError(
            "QUERY_INVALID",
            f"the query has {len(query.text)} characters, at most {MAX_QUERY_CHARACTERS} are allowed",
        )


def _candidates(
    store: Store,
    words: LexicalIndex | None,
    narrow: SearchFilter,
    parsed: Parsed,
    masses: Mapping[str, float],
    mode: Mode,
    near: Near | None,
    factor: float,
) -> list[Candidate]:
    found = {} if mode is Mode.MEANING else find_by_words(store, words, narrow, parsed, masses)
    if near is not None:
        weight = 1.0 if mode is Mode.MEANING else factor * _weight_of(found.values(), parsed)
        add_by_meaning(store, narrow, *near, found, weight)
    return list(found.values())


def _weight_of(found: Collection[Candidate], parsed: Parsed) -> float:
    """What nearness weighs beside these that were found by words."""
    if features.is_found_by_name(found, parsed):
        return 0.0
    held = max((max(one.covers, one.told) for one in found), default=1.0)
    return features.turn_to_meaning(weights_of(parsed.classes, parsed.corpus).meaning, held)


def _diversify(
    store: Store, ranked: Sequence[Candidate], balance: float, near: Near | None, texts: _Texts
) -> list[Candidate]:
    """What says the same goes back: by the vectors that answer, else by words."""
    top = ranked[: diversity.DEPTH]
    if near is None:
        likeness = diversity.likeness_of_words(
            [frozenset(words_of(texts.of(one.place))) for one in top]
        )
        return diversity.diversify(ranked, balance, likeness, diversity.ALIKE_BY_WORDS)
    likeness = likeness_by_meaning(store, near[0], [one.place.chunk_id for one in top])
    return diversity.diversify(ranked, balance, likeness, diversity.ALIKE_BY_MEANING)


def _fit_of(mode: Mode, near: Near | None) -> Mode:
    """The mode whose relevance was fitted on what was looked at: beside words, another model's
    cosines say something else.
    """
    return (
        Mode.WORDS
        if mode is Mode.HYBRID and near is not None and near[0].provider != FITTED
        else mode
    )


def _show(
    groups: Sequence[SnippetGroup],
    parsed: Parsed,
    query: Query,
    texts: _Texts,
    masses: Mapping[str, float],
) -> list[Hit]:
    """The hits, with text until there are `query.characters` of it (0 is no limit)."""
    hits: list[Hit] = []
    left = query.characters or sys.maxsize
    for number, group in enumerate(groups):
        size = (
            query.snippets[min(number, len(query.snippets) - 1)] if query.snippets else sys.maxsize
        )
        # A definition is shown from its beginning
        wanted = {} if parsed.is_name and group.best.named else masses
        text, lines = _text_of(group, texts, size, wanted) if min(left, size) > 0 else ("", ())
        left -= len(text)
        redacted = texts.redacted(group, lines) if text else ()
        hit = replace(_hit(group, text, lines, why(group.best, parsed)), redacted=redacted)
        hits.append(replace(hit, evidence=explain(group.best, parsed)) if query.explain else hit)
    return hits


def _text_of(
    group: SnippetGroup, texts: _Texts, size: int, masses: Mapping[str, float]
) -> tuple[str, tuple[int, ...]]:
    """The group's text, or where it is longer than `size`, the lines that matter and their numbers."""
    first = min(one.place.chunk.start for one in group.chunks)
    last = max(one.place.chunk.end for one in group.chunks)
    text = texts.whole(group.best.place)[first:last]
    if len(text) <= size:
        return text, ()
    lines = text.split("\n")
    chunk = group.best.place.chunk
    opening = opening_of(lines, group.start_line, chunk.start_line, chunk.signature)
    return cut_snippet(lines, group.start_line, masses, opening, size)


class _Texts:
    """The texts of chunks, each blob unpacked once per answer."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._blobs: dict[int, str] = {}

    def whole(self, place: ChunkLocation) -> str:
        blob = place.doc.blob
        if blob not in self._blobs:
            self._blobs[blob] = self._lookup.text(blob)
        return self._blobs[blob]

    def redacted(self, group: SnippetGroup, lines: Collection[int]) -> tuple[Redacted, ...]:
        """What is redacted in the lines of a group that are shown: these, or all."""
        found = self._lookup.redacted(group.best.place.doc.blob)
        shown = lines or range(group.start_line, group.end_line + 1)
        return tuple(one for one in found if one[0] in shown)

    def of(self, place: ChunkLocation) -> str:
        return self.whole(place)[place.chunk.start : place.chunk.end]


def _hit(group: SnippetGroup, text: str, lines: tuple[int, ...], reason: str) -> Hit:
    place = group.best.place
    doc, chunk = place.doc, place.chunk
    return Hit(
        source=doc.source,
        doc=doc.id,
        chunk=place.chunk_id,
        path=doc.path,
        start_line=group.start_line,
        end_line=group.end_line,
        text=text,
        score=round(group.best.score, 4),
        relevance=group.best.relevance,
        language=doc.language,
        kind=chunk.kind,
        name=chunk.name,
        qualified=chunk.qualified,
        signature=chunk.signature,
        why=reason,
        lines=lines,
    )


def _check_time(cancel: Cancel, deadline: float) -> None:
    if cancel:
        raise Cancelled()
    if time.monotonic() > deadline:
        raise LimitError("SEARCH_TIMEOUT", "the search ran out of time")
