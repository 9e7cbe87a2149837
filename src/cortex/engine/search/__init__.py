"""Search: from a query to ranked hits.

A query is parsed, candidates are retrieved from the lexical and the vector index, ranked,
calibrated to a relevance between 0 and 1, and cut to snippets. `search` answers from a store,
`search_exact` from the files themselves. Each step is a module of its own; this one calls them in
order. It knows no engine, tool or protocol.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from cortex.base.errors import Cancelled, InputError, LimitError, StoreError
from cortex.base.redaction import Redacted
from cortex.base.text import words_of
from cortex.base.types import Cancel, Hit, Mode, Page, Query, Source
from cortex.engine.search import diversity, features
from cortex.engine.search.calibration import calibrate
from cortex.engine.search.features import Candidate
from cortex.engine.search.grep import redaction_note, search_exact
from cortex.engine.search.query_classes import Corpus
from cortex.engine.search.query_parser import Parsed, parse
from cortex.engine.search.rank_fusion import found_by_words, fuse
from cortex.engine.search.ranker import explain, rank, why
from cortex.engine.search.retrieval import (
    QueryModel,
    QueryVector,
    add_by_meaning,
    find_by_words,
    likeness_by_meaning,
    weigh_words,
)
from cortex.engine.search.snippets import SnippetGroup, cut_snippet, merge, opening_of
from cortex.engine.search.weights import weights_of
from cortex.engine.store import (
    ChunkLocation,
    ContentQueries,
    LexicalIndex,
    SearchFilter,
    Store,
    stem_of,
)

__all__ = [
    "BELOW_THRESHOLD",
    "DAMAGED",
    "NO_EMBEDDER",
    "QueryModel",
    "check_query",
    "parse",
    "search",
    "search_exact",
]

MAX_QUERY_CHARACTERS = 20_000

NO_EMBEDDER = "no embedder is configured"
BELOW_THRESHOLD = "nothing reaches the threshold"
DAMAGED = (
    "the word index is damaged and is being built anew: names and meaning answer until then, "
    "ask again soon"
)
DAMAGED_VECTORS = "the vectors are damaged and are being made anew"
UNKNOWN_WORDS = "the model knows no word of the query"
# Provider of the model on whose cosines the calibration was fitted.
FITTED_PROVIDER = "local"


@dataclass(frozen=True, slots=True)
class _Plan:
    """A parsed query, the mode to answer it in, and its vector if the mode needs one."""

    query: Query
    parsed: Parsed
    mode: Mode
    vector: QueryVector | None

    @property
    def fuses_ranks(self) -> bool:
        """True if the lexical and the semantic order are fused by rank."""
        return self.query.fusion == "rrf" and self.mode is Mode.HYBRID


def search(
    store: Store,
    sources: Sequence[Source],
    query: Query,
    *,
    model: QueryModel | None,
    cancel: Cancel,
    deadline: float,
    lexical_reason: str = NO_EMBEDDER,
    docs: frozenset[int] | None = None,
) -> Page:
    """Answer a query from the index in hybrid, semantic or lexical mode.

    Without a `model` the answer is lexical, and a note gives `lexical_reason` as the reason. With
    `docs`, only these may be returned. A damaged index is left out, and a note says so.

    Raises: InputError QUERY_EMPTY or QUERY_INVALID, LimitError SEARCH_TIMEOUT or MEMORY_SHORT,
    Cancelled.
    """
    try:
        return _search(store, sources, query, model, cancel, deadline, lexical_reason, docs)
    except StoreError as error:
        if error.code != "INDEX_DAMAGED":
            raise
        store.indexes.mark_damaged(error)
        if not store.indexes.damaged:
            model, lexical_reason = None, DAMAGED_VECTORS
        return _search(store, sources, query, model, cancel, deadline, lexical_reason, docs)


def _search(
    store: Store,
    sources: Sequence[Source],
    query: Query,
    model: QueryModel | None,
    cancel: Cancel,
    deadline: float,
    lexical_reason: str,
    docs: frozenset[int] | None,
) -> Page:
    check_query(query)
    plan, notes = _make_plan(query, sources, model, lexical_reason)
    # Opened before the snapshot, so that word frequencies come from the current index.
    lexical = store.indexes.words()
    if lexical is None and store.indexes.damaged:
        notes.append(DAMAGED)
    with store.reading():
        scope = _resolve_scope(store, sources, query, docs)
        word_weights = _weigh_words(store, lexical, plan.parsed, scope)
        candidates = _retrieve(store, lexical, scope, plan, word_weights)
        _check_time(cancel, deadline)
        texts = _Texts(store.content)
        ranked = _rank(
            candidates, plan, texts, _recency(store.content, scope.sources), word_weights
        )
        _check_time(cancel, deadline)
        calibrate(ranked, plan.parsed, _calibrated_mode(plan))
        selected = _select(store, ranked, plan, texts)
        if ranked and not selected:
            notes.append(_explain_empty(ranked, plan, lexical, scope))
        groups, total = merge(selected, query.offset + query.limit)
        hits = _make_hits(groups[query.offset :], plan, texts, word_weights)
        counts = store.counts(*scope.sources)
    notes += redaction_note(hits)
    return Page(tuple(hits), total, plan.mode, tuple(notes), docs=counts.docs, chunks=counts.chunks)


def check_query(query: Query) -> None:
    """Reject an empty or over-long query. Raises: InputError QUERY_EMPTY or QUERY_INVALID."""
    if not query.text.strip():
        raise InputError("QUERY_EMPTY", "the query is empty")
    if len(query.text) > MAX_QUERY_CHARACTERS:
        raise InputError(
            "QUERY_INVALID",
            f"the query has {len(query.text)} characters, at most {MAX_QUERY_CHARACTERS} are "
            "allowed",
        )


def _make_plan(
    query: Query, sources: Sequence[Source], model: QueryModel | None, lexical_reason: str
) -> tuple[_Plan, list[str]]:
    """Parse and embed the query, choose the mode, and note a fallback to lexical search."""
    parsed = parse(query.text, query.code, _corpus_of(sources))
    wanted, vector = query.mode, None
    if model is not None and wanted is not Mode.WORDS:
        stamp, embed = model
        embedded = embed(parsed.text)
        if embedded.any():
            vector = stamp, embedded
        else:
            lexical_reason = UNKNOWN_WORDS
    if wanted is Mode.HYBRID and query.meaning_weight <= 0:
        wanted, vector = Mode.WORDS, None
    mode = Mode.WORDS if vector is None else wanted
    notes = [] if mode is wanted else [f"answered by words: {lexical_reason}"]
    return _Plan(query, parsed, mode, vector), notes


def _corpus_of(sources: Sequence[Source]) -> Corpus:
    kinds = {source.kind for source in sources}
    only_kind = kinds.pop() if len(kinds) == 1 else ""
    return _CORPORA.get(only_kind, Corpus.CODE)


_CORPORA = {"documents": Corpus.DOCUMENTS, "memories": Corpus.MEMORIES, "records": Corpus.RECORDS}


def _resolve_scope(
    store: Store, sources: Sequence[Source], query: Query, docs: frozenset[int] | None
) -> SearchFilter:
    """Combine sources, path, extensions, languages and `docs` into one filter."""
    source_ids = tuple(source.id for source in sources)
    if query.path:
        below = frozenset(
            doc.id for source_id in source_ids for doc in store.content.docs(source_id, query.path)
        )
        docs = below if docs is None else docs & below
    return SearchFilter(
        source_ids, query.extensions, query.languages, docs, store.content.are_all(source_ids)
    )


def _weigh_words(
    store: Store, lexical: LexicalIndex | None, parsed: Parsed, scope: SearchFilter
) -> Mapping[str, float]:
    """Weigh each word of the query by its rarity among the chunks that the viewer may see."""
    seen = None if store.viewer is None else (scope, store.counts(*scope.sources).chunks)
    return weigh_words(lexical, parsed, seen)


def _retrieve(
    store: Store,
    lexical: LexicalIndex | None,
    scope: SearchFilter,
    plan: _Plan,
    word_weights: Mapping[str, float],
) -> list[Candidate]:
    """Collect lexical and semantic candidates, as the mode requires."""
    semantic_only = plan.mode is Mode.MEANING
    candidates = (
        {} if semantic_only else find_by_words(store, lexical, scope, plan.parsed, word_weights)
    )
    if plan.vector is not None:
        # With rank fusion, cosines don't count for the score.
        factor = 0.0 if plan.fuses_ranks else plan.query.meaning_weight
        weight = 1.0 if semantic_only else factor * _cosine_weight(candidates.values(), plan.parsed)
        add_by_meaning(store, scope, *plan.vector, candidates, weight)
    return list(candidates.values())


def _cosine_weight(candidates: Collection[Candidate], parsed: Parsed) -> float:
    """Weight of the cosine beside these lexical candidates."""
    if features.is_found_by_name(candidates, parsed):
        return 0.0
    coverage = (max(candidate.covers, candidate.covers_jointly) for candidate in candidates)
    best = max(coverage, default=1.0)
    return features.semantic_weight(weights_of(parsed.classes, parsed.corpus).meaning, best)


def _recency(lookup: ContentQueries, source_ids: Sequence[int]) -> Mapping[str, int]:
    """Recently changed paths of a single source; histories of several can't be compared."""
    return lookup.recency(source_ids[0]) if len(source_ids) == 1 else {}


def _rank(
    candidates: Sequence[Candidate],
    plan: _Plan,
    texts: _Texts,
    recency: Mapping[str, int],
    word_weights: Mapping[str, float],
) -> list[Candidate]:
    """Order the candidates by their evidence, or by fused ranks if the query asks for it."""
    scored = candidates
    if plan.fuses_ranks:
        scored = [candidate for candidate in candidates if found_by_words(candidate)]
    ranked = rank(
        scored,
        plan.parsed,
        lambda place: words_of(texts.of(place)),
        recency,
        {} if plan.mode is Mode.MEANING else word_weights,
    )
    if plan.fuses_ranks:
        ranked = fuse(ranked, candidates, plan.query.meaning_weight, recency)
    return ranked


def _calibrated_mode(plan: _Plan) -> Mode:
    """Mode to calibrate the relevance by.

    In hybrid mode the cosines of a model that the calibration wasn't fitted on are left out.
    """
    foreign = plan.vector is not None and plan.vector[0].provider != FITTED_PROVIDER
    return Mode.WORDS if plan.mode is Mode.HYBRID and foreign else plan.mode


def _select(
    store: Store, ranked: Sequence[Candidate], plan: _Plan, texts: _Texts
) -> list[Candidate]:
    """Keep the candidates that reach the threshold; diversify them if the query asks for it."""
    query = plan.query
    selected = [candidate for candidate in ranked if candidate.relevance >= query.threshold]
    if query.diversity is not None:
        selected = _diversify(store, selected, query.diversity, plan.vector, texts)
    return selected


def _diversify(
    store: Store,
    ranked: Sequence[Candidate],
    balance: float,
    vector: QueryVector | None,
    texts: _Texts,
) -> list[Candidate]:
    """Move repetitions back; chunks are compared by vectors if there are any, else by words."""
    top = ranked[: diversity.DEPTH]
    if vector is None:
        likeness = diversity.likeness_of_words(
            [frozenset(words_of(texts.of(candidate.place))) for candidate in top]
        )
        return diversity.diversify(ranked, balance, likeness, diversity.ALIKE_BY_WORDS)
    likeness = likeness_by_meaning(
        store, vector[0], [candidate.place.chunk_id for candidate in top]
    )
    return diversity.diversify(ranked, balance, likeness, diversity.ALIKE_BY_MEANING)


def _explain_empty(
    ranked: Sequence[Candidate], plan: _Plan, lexical: LexicalIndex | None, scope: SearchFilter
) -> str:
    """Note for an answer without hits: the best relevance, unknown words, what to do next."""
    unknown = [
        word
        for word in plan.parsed.weights
        if lexical is not None and not lexical.frequency(word, scope=scope)
    ][:5]
    missing = f"; not in any file: {', '.join(unknown)}" if unknown else ""
    best = f"the best of {len(ranked)} has {ranked[0].relevance:g}"
    return (
        f"{BELOW_THRESHOLD} {plan.query.threshold:g} ({best}){missing}. "
        "Try other words, or threshold 0"
    )


def _make_hits(
    groups: Sequence[SnippetGroup], plan: _Plan, texts: _Texts, word_weights: Mapping[str, float]
) -> list[Hit]:
    """Build hits from groups; only the first `query.characters` of text are shown (0: all)."""
    query, parsed = plan.query, plan.parsed
    stems = {stem_of(word): mass for word, mass in word_weights.items()}
    hits: list[Hit] = []
    left = query.characters or sys.maxsize
    for index, group in enumerate(groups):
        size = (
            query.snippets[min(index, len(query.snippets) - 1)] if query.snippets else sys.maxsize
        )
        # A definition is shown from its beginning, not around the words of the query.
        wanted = {} if parsed.is_name and group.best.named else stems
        text, lines = _text_of(group, texts, size, wanted) if min(left, size) > 0 else ("", ())
        left -= len(text)
        redacted = texts.redacted(group, lines) if text else ()
        hit = replace(_hit(group, text, lines, why(group.best, parsed)), redacted=redacted)
        hits.append(replace(hit, evidence=explain(group.best, parsed)) if query.explain else hit)
    return hits


def _text_of(
    group: SnippetGroup, texts: _Texts, size: int, stems: Mapping[str, float]
) -> tuple[str, tuple[int, ...]]:
    """Text of a group; if longer than `size`, its best-matching lines and their numbers."""
    first = min(candidate.place.chunk.start for candidate in group.chunks)
    last = max(candidate.place.chunk.end for candidate in group.chunks)
    text = texts.whole(group.best.place)[first:last]
    if len(text) <= size:
        return text, ()
    lines = text.split("\n")
    chunk = group.best.place.chunk
    opening = opening_of(lines, group.start_line, chunk.start_line, chunk.signature)
    return cut_snippet(lines, group.start_line, stems, opening, size)


class _Texts:
    """Texts of chunks; each blob is unpacked once per answer."""

    def __init__(self, lookup: ContentQueries) -> None:
        self._lookup = lookup
        self._blobs: dict[int, str] = {}

    def whole(self, place: ChunkLocation) -> str:
        blob = place.doc.blob
        if blob not in self._blobs:
            self._blobs[blob] = self._lookup.text(blob)
        return self._blobs[blob]

    def redacted(self, group: SnippetGroup, lines: Collection[int]) -> tuple[Redacted, ...]:
        """Redactions within the shown lines of a group: `lines`, or all of them."""
        redactions = self._lookup.redacted(group.best.place.doc.blob)
        shown = lines or range(group.start_line, group.end_line + 1)
        return tuple(redaction for redaction in redactions if redaction[0] in shown)

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
