"""Search over records: by text, by filters, or the most recently changed.

Shared by tools and commands. Lexical and semantic scores rank; status (accepted, pinned;
superseded, archived) and age only decide between nearly equal hits. Nothing is excluded for its
age. A filter that matches few records narrows the search; one that matches many is applied to the
hits, since thousands of documents in a query cost more than the search. Read-only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import FOUND_KINDS, KINDS, Body, Record, RecordFilter
from cortex.base.record_spec import fields_of
from cortex.base.text import words_of
from cortex.base.types import Cancel, Mode, Page, Query, Source
from cortex.base.types import Hit as Found
from cortex.engine.library import Library
from cortex.engine.search import check_query
from cortex.engine.search.query_parser import STOP_WORDS
from cortex.engine.store import RecordHeader, stem_of
from cortex.families.team.index_text import about_of
from cortex.families.team.references import scope_of
from cortex.families.team.sentences import cut, fold, sentences_of

# Hits that are considered, so that a boost can reach nearly equal ones.
DEPTH = 150
# The same for a search over several stores, where each hit costs its text.
WINDOW = 20
# Hits that get their text at once; lexical and semantic search together find about 600.
MOST_CUT = 1_000
# Most documents that narrow a search.
MOST_DOCS = 4_000
SNIPPET_CHARACTERS = 280
MOST_TAGS = max(
    spec.limit for cls in KINDS.values() for spec in fields_of(cls).values() if spec.name == "tags"
)
# Query words that are named as matches.
MAX_WORDS = 6
# Largest boost for a new record, and the days after which half of it is left.
NEW_SHARE, NEW_DAYS = 0.03, 30.0
PINNED_SHARE = 0.05
SHARES = {
    ("artifact", "accepted"): 0.06,
    ("artifact", "superseded"): -0.15,
    ("artifact", "deprecated"): -0.15,
    ("thread", "archived"): -0.1,
    ("task", "cancelled"): -0.1,
    # A comment carries its thread's title: a short one would rank above the thread.
    ("comment", "published"): -0.05,
}
# Factor for each further hit of the same thread.
SAME_THREAD = 0.94
LEAST_SAME = 0.6
# A comment with a score of so many times its thread's has content of its own.
SAYS_MORE = 1.5
# Factor for the score of a comment that has none.
ONLY_TITLE = 0.6


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """A query over records; empty fields don't filter."""

    query: str = ""
    # Kinds of records.
    types: tuple[str, ...] = ()
    # Id or slug.
    subcortex: str = ""
    state: str | tuple[str, ...] = ""
    sensitivity: str = ""
    # Changed at or after, in milliseconds.
    since: int = 0
    # Changed before, in milliseconds.
    until: int = 0
    # Records must have all of them.
    tags: tuple[str, ...] = ()
    limit: int = 10
    offset: int = 0
    mode: Mode = Mode.HYBRID
    # Include records that count as the team's but are missing at its Core.
    withheld: bool = False


@dataclass(frozen=True, slots=True)
class RecordHit:
    """A record that matches a query."""

    record: Record[Any]
    # 0 if there was no query text.
    relevance: float
    snippet: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class RecordResults:
    """Results of a query."""

    hits: tuple[RecordHit, ...]
    total: int
    notes: tuple[str, ...] = ()
    # The mode that was used.
    mode: Mode | None = None


def find(library: Library, request: RecordQuery, cancel: Cancel | None = None) -> RecordResults:
    """Answer a query.

    Raises: InputError QUERY_INVALID, ARGUMENT_INVALID or SCOPE_NOT_FOUND; LimitError, Cancelled,
    StoreError.
    """
    wanted = wanted_of(library, request)
    if not request.query.strip():
        with library.store.reading():
            newest = library.store.records.select(
                replace(wanted, by_change=True), request.limit, request.offset
            )
            hidden = _withheld(library, request)
            shown = tuple(RecordHit(record, 0.0) for record in newest if record.id not in hidden)
            return RecordResults(shown, library.store.records.count(wanted))
    query = Query(
        request.query,
        mode=request.mode,
        limit=max(DEPTH, request.offset + request.limit),
        snippets=(0,),
    )
    ranked, page = _search_and_rank(
        library,
        wanted,
        query,
        request.offset + request.limit,
        cancel,
        hidden=_withheld(library, request),
    )
    chosen = ranked[request.offset : request.offset + request.limit]
    known = library.store.records.get(brief.id for _, brief in chosen)
    texts = _texts_of(library, [hit for hit, _ in chosen])
    stems = _stems_of(request.query)
    hits = [
        RecordHit(
            known[brief.id],
            hit.relevance,
            *_excerpt(known[brief.id].body, texts.get(hit.chunk, ""), stems, hit.why),
        )
        for hit, brief in chosen
        if brief.id in known
    ]
    return RecordResults(tuple(hits), page.total, page.notes, page.mode)


def page_of(library: Library, request: RecordQuery, query: Query, cancel: Cancel) -> Page:
    """Search the records as one of several stores.

    `query` has the text and the sizes of the answer, `request` the filters.
    """
    most = query.offset + query.limit
    wanted = wanted_of(library, request)
    window = DEPTH if is_narrowed(wanted) else WINDOW
    limit = window * math.ceil(2 * most / window)
    deep = replace(query, offset=0, limit=limit, characters=0, snippets=sizes_of(query, most))
    ranked, page = _search_and_rank(
        library, wanted, deep, most, cancel, window, _withheld(library, request)
    )
    return replace(page, hits=_with_text(library, query, ranked[query.offset : most]))


def sizes_of(query: Query, most: int) -> tuple[int, ...]:
    """Return the snippet sizes for the hits of a search, of which the first `most` may be shown.

    Only hits that are likely to be shown get their text at once; doing it for all would take a
    third of a search. The number is capped for any offset, since a client can put any number into a
    cursor: 20,000,000 took 6.8 s and 600 MB.
    """
    return (
        (*(_size_at(query, place) for place in range(min(2 * most, MOST_CUT))), 0)
        if query.snippets
        else ()
    )


def _size_at(query: Query, place: int) -> int:
    """Return the snippet size of the hit at this position."""
    return query.snippets[min(place, len(query.snippets) - 1)]


def _with_text(
    library: Library, query: Query, chosen: Sequence[tuple[Found, RecordHeader]]
) -> tuple[Found, ...]:
    """Return the hits; those without text get the sentences that match the query best."""
    bare = [hit for hit, _ in chosen if not hit.text]
    if not bare or not any(query.snippets):
        return tuple(hit for hit, _ in chosen)
    texts, known = (
        _texts_of(library, bare),
        library.store.records.get(brief.id for _, brief in chosen),
    )
    stems = _stems_of(query.text)
    hits: list[Found] = []
    for place, (hit, brief) in enumerate(chosen, query.offset):
        if not hit.text and hit.chunk in texts and brief.id in known:
            text, _ = _excerpt(known[brief.id].body, texts[hit.chunk], stems, hit.why)
            hit = replace(hit, text=cut(text, size) if (size := _size_at(query, place)) else "")
        hits.append(hit)
    return tuple(hits)


def wanted_of(library: Library, request: RecordQuery) -> RecordFilter:
    """Build the filter of a query. Raises: InputError ARGUMENT_INVALID or SCOPE_NOT_FOUND."""
    unknown = [type_ for type_ in request.types if type_ not in FOUND_KINDS]
    if unknown:
        raise InputError(
            "ARGUMENT_INVALID",
            f"there are no records of type {unknown[0]!r}: there are {', '.join(FOUND_KINDS)}",
        )
    tags = dict.fromkeys(tag.strip().casefold() for tag in request.tags if tag.strip())
    # The database has a limit, too.
    if len(tags) > MOST_TAGS:
        raise InputError(
            "ARGUMENT_INVALID",
            f"no record has more than {MOST_TAGS} tags",
            context={"filter": "tags"},
        )
    refs = [("tag", tag) for tag in tags]
    if request.subcortex:
        refs.append(("subcortex", scope_of(library.store.records, request.subcortex.strip()).id))
    return RecordFilter(
        kinds=request.types or FOUND_KINDS,
        states=(request.state,)
        if isinstance(request.state, str) and request.state
        else tuple(request.state),
        refs=tuple(refs),
        sensitivity=request.sensitivity,
        since=request.since,
        until=request.until,
    )


def _withheld(library: Library, request: RecordQuery) -> frozenset[str]:
    """Return the ids of records that are hidden because the team's Core doesn't have them."""
    return frozenset() if request.withheld else library.store.outbox.withheld()


def is_narrowed(wanted: RecordFilter) -> bool:
    """True for a filter on more than kinds."""
    return bool(wanted.states or wanted.refs or wanted.sensitivity or wanted.since or wanted.until)


# -- ranking


def _search_and_rank(
    library: Library,
    wanted: RecordFilter,
    query: Query,
    most: int,
    cancel: Cancel | None,
    window: int = DEPTH,
    hidden: frozenset[str] = frozenset(),
) -> tuple[list[tuple[Found, RecordHeader]], Page]:
    """Return the hits, best first and one per record, and the page with their total.

    Boosts reorder hits only within a `window`: otherwise the next page, which considers more hits,
    could repeat records of the previous one.
    """
    check_query(query)
    lookup, narrowed = library.store.records, is_narrowed(wanted)
    sources, docs = (
        lookup.narrow(wanted, MOST_DOCS) if narrowed else (lookup.sources(wanted.kinds), None)
    )
    if not sources or docs == frozenset():
        return [], Page((), 0, query.mode)
    hits, page = _search(library, query, sources, docs, wanted, cancel, hidden)
    if docs is None and narrowed and len(hits) < most and page.total >= DEPTH:
        # Most of the first hits don't match the filter: search again, narrowed to the documents
        # that do.
        docs = lookup.docs(wanted, [source.id for source in sources])
        hits, page = _search(library, query, sources, docs, wanted, cancel, hidden)
    # The total is then known only for the hits that were considered.
    is_filtered = docs is None and narrowed
    total = len(hits) if is_filtered or page.total <= len(page.hits) else max(page.total, len(hits))
    windows = {hit.doc: place // window for place, hit in reversed(list(enumerate(page.hits)))}
    return _rank(hits, lookup.targets("pin"), windows), replace(page, total=total)


def _search(
    library: Library,
    query: Query,
    sources: Sequence[Source],
    docs: frozenset[int] | None,
    wanted: RecordFilter,
    cancel: Cancel | None,
    hidden: frozenset[str],
) -> tuple[list[tuple[Found, RecordHeader]], Page]:
    """Run one search and keep the best hit of each record that passes the filter."""
    page = library.search(query, sources=sources, docs=docs, cancel=cancel)
    best: dict[int, Found] = {}
    # A long record has several chunks: the best one represents it.
    for hit in page.hits:
        best.setdefault(hit.doc, hit)
    briefs = library.store.records.briefs(list(best), wanted)
    return [
        (best[doc], briefs[doc]) for doc in best if doc in briefs and briefs[doc].id not in hidden
    ], page


def _rank(
    hits: Sequence[tuple[Found, RecordHeader]], pinned: frozenset[str], windows: Mapping[int, int]
) -> list[tuple[Found, RecordHeader]]:
    """Sort by boosted score within each window; further hits of a thread lose a little."""
    now = time.time()

    def order(entry: tuple[float, Found, RecordHeader]) -> tuple[int, float, int, str]:
        score, hit, brief = entry
        return windows[hit.doc], -round(score, 4), -brief.updated, brief.id

    scored = [
        (score * _boost(brief, brief.id in pinned, now), hit, brief)
        for score, hit, brief in _discount_title_matches(hits)
    ]
    scored.sort(key=order)
    seen: dict[str, int] = {}
    again: list[tuple[float, Found, RecordHeader]] = []
    for score, hit, brief in scored:
        thread = brief.thread if brief.kind == "comment" else brief.id
        before = seen.get(thread, 0)
        seen[thread] = before + 1
        again.append((score * max(LEAST_SAME, SAME_THREAD**before), hit, brief))
    again.sort(key=order)
    return [(replace(hit, relevance=_relevance(hit, score)), brief) for score, hit, brief in again]


def _discount_title_matches(
    hits: Sequence[tuple[Found, RecordHeader]],
) -> list[tuple[float, Found, RecordHeader]]:
    """Lower the score of comments that match only by their thread's title, such as "+1".

    A comment that scores hardly more than its thread is one of these. The thread takes over its
    score; otherwise the shortest comments would rank above it.
    """
    threads = {brief.id: hit for hit, brief in hits if brief.kind == "thread"}
    titles = {
        brief.id
        for hit, brief in hits
        if brief.kind == "comment"
        and brief.thread in threads
        and hit.score <= threads[brief.thread].score * SAYS_MORE
    }
    for hit, brief in hits:
        if brief.id in titles and hit.score > threads[brief.thread].score:
            thread_hit = threads[brief.thread]
            threads[brief.thread] = replace(
                thread_hit, score=hit.score, relevance=max(thread_hit.relevance, hit.relevance)
            )
    own: list[tuple[float, Found, RecordHeader]] = []
    for hit, brief in hits:
        stands = threads.get(brief.id, hit)
        own.append((stands.score * (ONLY_TITLE if brief.id in titles else 1.0), stands, brief))
    return own


def _boost(brief: RecordHeader, pinned: bool, now: float) -> float:
    """Return the factor that decides between nearly equal records."""
    days = max(0.0, now - brief.updated / 1000) / 86_400
    share = SHARES.get((brief.kind, brief.state), 0.0)
    return 1 + share + PINNED_SHARE * pinned + NEW_SHARE * NEW_DAYS / (NEW_DAYS + days)


def _relevance(hit: Found, score: float) -> float:
    """Scale the relevance by the lost score: other stores compare only relevance."""
    return round(hit.relevance * min(1.0, score / hit.score), 4) if hit.score > 0 else hit.relevance


# -- excerpts


def _stems_of(text: str) -> dict[str, str]:
    """Map the stems of a query's content words to the words."""
    return {stem_of(word): word for word in words_of(text) if word not in STOP_WORDS}


def _texts_of(library: Library, hits: Sequence[Found]) -> dict[int, str]:
    """Return the texts of the hits' chunks."""
    lookup = library.store.content
    places = lookup.places([(hit.doc, hit.chunk) for hit in hits])
    return {
        chunk: lookup.text(place.doc.blob)[place.chunk.start : place.chunk.end]
        for (_, chunk), place in places.items()
    }


def _excerpt(body: Body, text: str, stems: Mapping[str, str], why: str) -> tuple[str, str]:
    """Return the sentences that match the query best, and the query words in the text."""
    # Tags and paths are not sentences, line by line or as a whole.
    filed = about_of(body)
    about = {fold(filed), *map(fold, filed.split("\n"))}
    sentences = [
        sentence.text for sentence in sentences_of(text) if sentence.text not in about
    ] or [fold(text)]
    held = [stems.keys() & {stem_of(word) for word in words_of(sentence)} for sentence in sentences]
    start = max(range(len(sentences)), key=lambda place: len(held[place]))
    end, length = start + 1, len(sentences[start])
    while end < len(sentences) and length + len(sentences[end]) < SNIPPET_CHARACTERS:
        length += len(sentences[end]) + 1
        end += 1
    here = stems.keys() & {stem_of(word) for word in words_of(text)}
    words = [word for stem, word in stems.items() if stem in here][:MAX_WORDS]
    reason = f"words: {', '.join(words)}" if words else why
    explanation = f"{why}; {reason}" if words and why != "words" else reason
    return cut(" ".join(sentences[start:end]), SNIPPET_CHARACTERS), explanation
