"""Search memories by text or filters, or list the newest; for tools, commands and hooks.

Filters narrow the candidates; semantic and lexical search rank them. The age of a memory and its
project only decide between results that are nearly as good; nothing is left out because it is old.
While a large database is being copied, its newest rows are read in place, and the answer says so.
Only reads.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from cortex.base.text import words_of
from cortex.base.types import Cancel, MemoryState, Mode, Query, Source
from cortex.engine.library import Library
from cortex.engine.search import check_query
from cortex.engine.search.query_parser import STOP_WORDS
from cortex.engine.store import SHOWN, STAGED, MemoryFilter, MemoryRanking, Remembered, stem_of
from cortex.families.memory.adapters.claude_mem import ClaudeMemDatabase
from cortex.families.memory.databases import MemoryDatabase, databases, origins_of
from cortex.families.memory.ids import uncopied
from cortex.families.memory.index_text import text_of
from cortex.families.memory.mirror import SMALL, copied, is_due
from cortex.families.memory.states import is_forgotten, name_of
from cortex.families.memory.uncopied_rows import glimpse

STATUSES = {"approved": (SHOWN,), "staging": (STAGED,), "all": (SHOWN, STAGED)}
# Hits that are ranked, so that a boost can reach results that are nearly as good.
DEPTH = 150
# Age at which a memory counts half as new.
NEW_DAYS = 30.0
# Largest boost for being new, of this project, or approved.
NEW_SHARE, OWN_SHARE, APPROVED_SHARE = 0.03, 0.05, 0.05
# While fewer rows than this are copied, at most this many of the newest are also read in place.
GLANCE_ROWS, GLANCE_SECONDS = 5_000, 0.7
# Time that an answer waits for rows that were just written.
FRESH_SECONDS = 0.3
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class MemoryQuery:
    """Parameters of a memory search."""

    query: str = ""
    tags: tuple[str, ...] = ()
    project: str = ""
    scope: str = ""
    status: str = "approved"
    limit: int = 10
    offset: int = 0
    mode: Mode = Mode.HYBRID
    # Names of the caller's own project.
    near: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """Memory in the results of a search."""

    record: Remembered
    # 0 for a query without text.
    relevance: float
    # True if it counts as approved.
    shown: bool


@dataclass(frozen=True, slots=True)
class MemoryResults:
    """Page of results."""

    hits: tuple[MemoryHit, ...]
    total: int
    notes: tuple[str, ...] = ()
    # Mode that was used.
    mode: Mode | None = None
    present: tuple[MemoryDatabase, ...] = field(default=())


def find(library: Library, request: MemoryQuery, cancel: Cancel | None = None) -> MemoryResults:
    """Answer a query. Raises: InputError QUERY_INVALID, LimitError, Cancelled, StoreError."""
    await_fresh(library, FRESH_SECONDS)
    # Blank tags don't filter.
    request = replace(request, tags=tuple(tag for tag in request.tags if tag.strip()))
    present = databases(library.settings)
    sources = sources_of(library, present, request.status)
    filters = MemoryFilter(
        sources=tuple(source.id for source in sources),
        projects=(request.project,) if request.project else (),
        scope=request.scope,
        tags=request.tags,
        states=states_of(library, request.status),
    )
    if not request.query.strip():
        results = _newest(library, request, filters, sources)
    else:
        results = _search(library, request, filters, sources, cancel)
    return replace(_with_uncopied(library, request, results, present), present=present)


def sources_of(library: Library, present: Sequence[MemoryDatabase], status: str) -> list[Source]:
    """Look up the sources that belong to a status."""
    return library.store.memories.sources(origins_of(present), STATUSES[status])


def states_of(library: Library, status: str) -> tuple[str, ...]:
    """States that a status is limited to in addition, () for all.

    Copies made while unjudged rows still counted as approved may remain among the shown ones.
    """
    narrow = status == "approved" and library.settings.memory.uncurated == MemoryState.STAGING
    return (MemoryState.APPROVED.value, MemoryState.PROMOTED.value) if narrow else ()


def await_fresh(library: Library, seconds: float) -> bool:
    """Wait for the process that copies to catch up; return False if it needs longer.

    Doesn't wait while a large database is copied for the first time: that takes minutes, and every
    answer would wait in vain.
    """
    deadline = time.monotonic() + seconds
    while due := is_due(library):
        if time.monotonic() > deadline or copied(library).left > SMALL:
            break
        time.sleep(POLL_SECONDS)
    return not due


def _newest(
    library: Library, request: MemoryQuery, filters: MemoryFilter, sources: Sequence[Source]
) -> MemoryResults:
    with library.store.reading():
        rows = library.store.memories.select(filters, request.limit, request.offset)
        total = library.store.memories.count(filters)
    shown = {source.id for source in sources if source.name == SHOWN}
    return MemoryResults(tuple(MemoryHit(row, 0.0, row.source in shown) for row in rows), total)


def _search(
    library: Library,
    request: MemoryQuery,
    filters: MemoryFilter,
    sources: Sequence[Source],
    cancel: Cancel | None,
) -> MemoryResults:
    depth = max(DEPTH, request.offset + request.limit)
    query = Query(request.query, mode=request.mode, limit=depth, snippets=(0,))
    check_query(query)
    narrowed = bool(filters.projects or filters.scope or filters.tags or filters.states)
    docs = library.store.memories.docs(filters) if narrowed else None
    if not sources or docs == frozenset():
        return MemoryResults((), 0, mode=request.mode)
    page = library.search(query, sources=sources, docs=docs, cancel=cancel)
    best: dict[int, tuple[float, float]] = {}
    # A long memory has several chunks: the best one stands for it.
    for hit in page.hits:
        best.setdefault(hit.doc, (hit.score, hit.relevance))
    lookup = library.store.memories
    shown = {source.id for source in sources if source.name == SHOWN}
    ranked = [
        (
            -round(best[doc][0] * _boost(standing, request, shown), 4),
            -standing.created,
            -standing.number,
            standing.id,
            doc,
        )
        for doc, standing in lookup.standings(list(best)).items()
    ]
    chosen = [doc for *_, doc in sorted(ranked)[request.offset : request.offset + request.limit]]
    # Whole memories are loaded for this page only.
    known = lookup.by_docs(chosen)
    hits = [
        MemoryHit(known[doc], best[doc][1], known[doc].source in shown)
        for doc in chosen
        if doc in known
    ]
    total = len(ranked) if page.total <= depth else max(page.total, len(ranked))
    return MemoryResults(tuple(hits), total, page.notes, page.mode)


def _boost(standing: MemoryRanking, request: MemoryQuery, shown: set[int]) -> float:
    """Factor that decides between memories that are nearly equally relevant."""
    days = max(0.0, time.time() - standing.created / 1000) / 86_400
    names = {standing.project.casefold(), standing.other_project.casefold()}
    own = standing.state == MemoryState.PROMOTED.value or any(
        name.casefold() in names for name in request.near
    )
    approved = request.status == "all" and standing.source in shown
    return (
        1 + NEW_SHARE * NEW_DAYS / (NEW_DAYS + days) + OWN_SHARE * own + APPROVED_SHARE * approved
    )


# -- rows without a copy


def _with_uncopied(
    library: Library,
    request: MemoryQuery,
    results: MemoryResults,
    present: Sequence[MemoryDatabase],
) -> MemoryResults:
    state = copied(library)
    notes = (*results.notes, *state.problems)
    if not state.left or request.offset:
        return replace(results, notes=notes)
    done = f"{max(0, state.rows - state.left):,} of {state.rows:,}" if state.rows else "none"
    note = f"memories are being indexed, newest first ({done} so far): answered from those"
    if state.rows - state.left >= GLANCE_ROWS:
        return replace(results, notes=(*notes, note))
    have = {hit.record.ref for hit in results.hits}
    deadline = time.monotonic() + GLANCE_SECONDS
    looks = glimpse(
        present, partial(_search_rows_in_place, library, request, deadline), seconds=GLANCE_SECONDS
    )
    looked, more = 0, list[MemoryHit]()
    # Databases that can't be read are reported in the problems already.
    for rows, seen in looks:
        looked += seen
        more += [hit for hit in rows if hit.record.ref not in have]
    by_relevance = bool(request.query.strip())
    hits = sorted(
        (*results.hits, *more),
        key=lambda hit: -hit.relevance if by_relevance else -hit.record.memory.created,
    )[: request.limit]
    note = f"{note} and from the newest {looked:,} rows by plain words"
    return replace(
        results, hits=tuple(hits), total=max(results.total, len(hits)), notes=(*notes, note)
    )


def _search_rows_in_place(
    library: Library,
    request: MemoryQuery,
    deadline: float,
    database: MemoryDatabase,
    opened: ClaudeMemDatabase,
) -> tuple[list[MemoryHit], int]:
    """Newest rows of a database that match the query, and the number of rows read."""
    uncurated, lookup = library.settings.memory.uncurated, library.store.memories
    forgotten = lookup.forgotten(database.origin)
    stems = [
        stem_of(word) for word in dict.fromkeys(words_of(request.query)) if word not in STOP_WORDS
    ]
    hits: list[MemoryHit] = []
    seen, below = 0, None
    while seen < GLANCE_ROWS and time.monotonic() < deadline:
        rows = opened.rows(below=below, limit=500)
        if not rows:
            break
        seen, below = seen + len(rows), rows[-1].number
        judged = lookup.judgements(database.origin, [row.memory.key for row in rows])
        left = [row for row in rows if not is_forgotten(row.memory, forgotten)]
        records = [uncopied(row, database, judged.get(row.memory.key)) for row in left]
        hits += [hit for record in records if (hit := _hit_of(record, request, stems, uncurated))]
        if not request.query.strip() and len(hits) >= request.limit:
            break
    hits.sort(key=lambda hit: (-hit.relevance, -hit.record.memory.created))
    return hits[: request.limit], seen


def _hit_of(
    record: Remembered, request: MemoryQuery, stems: Sequence[str], uncurated: str
) -> MemoryHit | None:
    """Convert a row that matches to a hit; None if it doesn't match."""
    name = name_of(record.state, uncurated)
    if name not in STATUSES[request.status] or not _matches_filters(record, request):
        return None
    text = text_of(record.memory).casefold()
    share = sum(stem in text for stem in stems) / len(stems) if stems else 0.0
    return (
        MemoryHit(record, round(0.9 * share * share, 4), name == SHOWN)
        if share or not request.query.strip()
        else None
    )


def _matches_filters(record: Remembered, request: MemoryQuery) -> bool:
    def same(name: str, *others: str) -> bool:
        return name.casefold() in {other.casefold() for other in others}

    memory = record.memory
    # A promoted memory counts in every project.
    is_near = record.state is MemoryState.PROMOTED or (
        (not request.project or same(request.project, memory.project, record.other_project))
        and (not request.scope or same(request.scope, record.scope, memory.project))
    )
    return is_near and all(same(tag.strip(), *memory.concepts) for tag in request.tags)
