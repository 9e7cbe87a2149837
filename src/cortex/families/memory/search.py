"""Questions to the memories: by text, by what they are about, or simply the newest; the same for
tools, commands and hooks.

The filters narrow what may answer; meaning and words rank it; how new a memory is, and whether it
is of the asker's own project, only decides between what is nearly as good. Nothing is left out
because it is old. While a large database is being copied, its newest rows are looked at where they
are, and the answer says so. Only reads.
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
from cortex.engine.store import OWN, SHOWN, STAGED, MemoryFilter, MemoryRanking, Remembered, stem_of
from cortex.families.memory.adapters.claude_mem import ClaudeMemDatabase as Opened
from cortex.families.memory.databases import MemoryDatabase, databases
from cortex.families.memory.ids import uncopied
from cortex.families.memory.index_text import text_of
from cortex.families.memory.mirror import SMALL, copied, is_due
from cortex.families.memory.states import is_forgotten, name_of
from cortex.families.memory.uncopied_rows import glimpse

STATUSES = {"approved": (SHOWN,), "staging": (STAGED,), "all": (SHOWN, STAGED)}
DEPTH = 150  # hits that are looked at, so that a boost can reach what is nearly as good
NEW_DAYS = 30.0  # after which a memory counts half as new
# What being new, of this project, or approved adds at most
NEW_SHARE, OWN_SHARE, APPROVED_SHARE = 0.03, 0.05, 0.05
# Of a database of which fewer rows than that are copied yet
GLANCE_ROWS, GLANCE_SECONDS = 5_000, 0.7
FRESH_SECONDS = 0.3  # that an answer waits for rows which were just written
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class MemoryQuery:
    """What somebody wants to know."""

    query: str = ""
    tags: tuple[str, ...] = ()
    project: str = ""
    scope: str = ""
    status: str = "approved"
    limit: int = 10
    offset: int = 0
    mode: Mode = Mode.HYBRID
    near: tuple[str, ...] = ()  # the names of the asker's own project


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """A memory that answers."""

    one: Remembered
    relevance: float  # 0 where nothing was asked but for the newest
    shown: bool  # counts as approved


@dataclass(frozen=True, slots=True)
class MemoryResults:
    """The answer to a question."""

    hits: tuple[MemoryHit, ...]
    total: int
    notes: tuple[str, ...] = ()
    mode: Mode | None = None  # that ran
    present: tuple[MemoryDatabase, ...] = field(default=())


def find(library: Library, asked: MemoryQuery, cancel: Cancel | None = None) -> MemoryResults:
    """Answer a question. Raises: InputError QUERY_INVALID, LimitError, Cancelled, StoreError."""
    await_fresh(library, FRESH_SECONDS)
    # A blank one asks for nothing
    asked = replace(asked, tags=tuple(tag for tag in asked.tags if tag.strip()))
    present = databases(library.settings)
    sources = sources_of(library, present, asked.status)
    wanted = MemoryFilter(
        sources=tuple(source.id for source in sources),
        projects=(asked.project,) if asked.project else (),
        scope=asked.scope,
        tags=asked.tags,
        states=states_of(library, asked.status),
    )
    if not asked.query.strip():
        found = _newest(library, asked, wanted, sources)
    else:
        found = _search(library, asked, wanted, sources, cancel)
    return replace(_with_uncopied(library, asked, found, present), present=present)


def sources_of(library: Library, present: Sequence[MemoryDatabase], status: str) -> list[Source]:
    """The sources that a status means."""
    return library.store.remembered.sources(
        {OWN, *(one.origin for one in present)}, STATUSES[status]
    )


def states_of(library: Library, status: str) -> tuple[str, ...]:
    """The states that a status is narrowed to besides, () for all: copies made while unjudged rows
    counted may still lie among the shown.
    """
    narrow = status == "approved" and library.settings.memory.uncurated == MemoryState.STAGING
    return (MemoryState.APPROVED.value, MemoryState.PROMOTED.value) if narrow else ()


def await_fresh(library: Library, seconds: float) -> bool:
    """Give the process that copies a moment for what has just been written elsewhere; false where
    it needs longer.

    Not while a large database is copied for the first time: that takes minutes, and each answer
    would wait in vain.
    """
    deadline = time.monotonic() + seconds
    while due := is_due(library):
        if time.monotonic() > deadline or copied(library).left > SMALL:
            break
        time.sleep(POLL_SECONDS)
    return not due


def _newest(
    library: Library, asked: MemoryQuery, wanted: MemoryFilter, sources: Sequence[Source]
) -> MemoryResults:
    with library.store.reading():
        rows = library.store.remembered.select(wanted, asked.limit, asked.offset)
        total = library.store.remembered.count(wanted)
    shown = {source.id for source in sources if source.name == SHOWN}
    return MemoryResults(tuple(MemoryHit(row, 0.0, row.source in shown) for row in rows), total)


def _search(
    library: Library,
    asked: MemoryQuery,
    wanted: MemoryFilter,
    sources: Sequence[Source],
    cancel: Cancel | None,
) -> MemoryResults:
    depth = max(DEPTH, asked.offset + asked.limit)
    query = Query(asked.query, mode=asked.mode, limit=depth, snippets=(0,))
    check_query(query)
    narrowed = bool(wanted.projects or wanted.scope or wanted.tags or wanted.states)
    docs = library.store.remembered.docs(wanted) if narrowed else None
    if not sources or docs == frozenset():
        return MemoryResults((), 0, mode=asked.mode)
    page = library.search(query, sources=sources, docs=docs, cancel=cancel)
    best: dict[int, tuple[float, float]] = {}
    for hit in page.hits:  # a long memory has several chunks: the best one stands for it
        best.setdefault(hit.doc, (hit.score, hit.relevance))
    lookup = library.store.remembered
    shown = {source.id for source in sources if source.name == SHOWN}
    ranked = [
        (
            -round(best[doc][0] * _boost(one, asked, shown), 4),
            -one.created,
            -one.number,
            one.id,
            doc,
        )
        for doc, one in lookup.standings(list(best)).items()
    ]
    chosen = [doc for *_, doc in sorted(ranked)[asked.offset : asked.offset + asked.limit]]
    known = lookup.by_docs(chosen)  # all of a memory only of those that are told
    hits = [
        MemoryHit(known[doc], best[doc][1], known[doc].source in shown)
        for doc in chosen
        if doc in known
    ]
    total = len(ranked) if page.total <= depth else max(page.total, len(ranked))
    return MemoryResults(tuple(hits), total, page.notes, page.mode)


def _boost(one: MemoryRanking, asked: MemoryQuery, shown: set[int]) -> float:
    """What decides between memories that answer nearly as well."""
    days = max(0.0, time.time() - one.created / 1000) / 86_400
    names = {one.project.casefold(), one.other_project.casefold()}
    own = one.state == MemoryState.PROMOTED.value or any(
        name.casefold() in names for name in asked.near
    )
    approved = asked.status == "all" and one.source in shown
    return (
        1 + NEW_SHARE * NEW_DAYS / (NEW_DAYS + days) + OWN_SHARE * own + APPROVED_SHARE * approved
    )


# -- rows that aren't copied yet
# ---------------------------------------------------------------------------------------


def _with_uncopied(
    library: Library, asked: MemoryQuery, found: MemoryResults, present: Sequence[MemoryDatabase]
) -> MemoryResults:
    state = copied(library)
    notes = (*found.notes, *state.problems)
    if not state.left or asked.offset:
        return replace(found, notes=notes)
    done = f"{max(0, state.rows - state.left):,} of {state.rows:,}" if state.rows else "none"
    note = f"memories are being indexed, newest first ({done} so far): answered from those"
    if state.rows - state.left >= GLANCE_ROWS:
        return replace(found, notes=(*notes, note))
    have = {hit.one.ref for hit in found.hits}
    until = time.monotonic() + GLANCE_SECONDS
    looks = glimpse(present, partial(_glance, library, asked, until), seconds=GLANCE_SECONDS)
    looked, more = 0, list[MemoryHit]()
    for rows, seen in looks:  # what can't be looked at is among the problems that are told
        looked += seen
        more += [hit for hit in rows if hit.one.ref not in have]
    key = (
        (lambda hit: -hit.one.memory.created)
        if not asked.query.strip()
        else (lambda hit: -hit.relevance)
    )
    hits = sorted((*found.hits, *more), key=key)[: asked.limit]
    note = f"{note} and from the newest {looked:,} rows by plain words"
    return replace(found, hits=tuple(hits), total=max(found.total, len(hits)), notes=(*notes, note))


def _glance(
    library: Library, asked: MemoryQuery, until: float, database: MemoryDatabase, opened: Opened
) -> tuple[list[MemoryHit], int]:
    """The newest rows of a database that hold the words, and how many were looked at."""
    uncurated, lookup = library.settings.memory.uncurated, library.store.remembered
    forgotten = lookup.forgotten(database.origin)
    stems = [
        stem_of(word) for word in dict.fromkeys(words_of(asked.query)) if word not in STOP_WORDS
    ]
    found: list[MemoryHit] = []
    seen, below = 0, None
    while seen < GLANCE_ROWS and time.monotonic() < until:
        rows = opened.rows(below=below, limit=500)
        if not rows:
            break
        seen, below = seen + len(rows), rows[-1].number
        judged = lookup.judgements(database.origin, [row.memory.key for row in rows])
        left = [row for row in rows if not is_forgotten(row.memory, forgotten)]
        ones = [uncopied(row, database, judged.get(row.memory.key)) for row in left]
        found += [hit for one in ones if (hit := _says(one, asked, stems, uncurated))]
        if not asked.query.strip() and len(found) >= asked.limit:
            break
    found.sort(key=lambda hit: (-hit.relevance, -hit.one.memory.created))
    return found[: asked.limit], seen


def _says(
    one: Remembered, asked: MemoryQuery, stems: Sequence[str], uncurated: str
) -> MemoryHit | None:
    """A row as an answer, None where it is none."""
    name = name_of(one.state, uncurated)
    if name not in STATUSES[asked.status] or not _fits(one, asked):
        return None
    text = text_of(one.memory).casefold()
    share = sum(stem in text for stem in stems) / len(stems) if stems else 0.0
    return (
        MemoryHit(one, round(0.9 * share * share, 4), name == SHOWN)
        if share or not asked.query.strip()
        else None
    )


def _fits(one: Remembered, asked: MemoryQuery) -> bool:
    def same(left: str, *right: str) -> bool:
        return left.casefold() in {each.casefold() for each in right}

    promoted = one.state is MemoryState.PROMOTED
    if (
        asked.project
        and not promoted
        and not same(asked.project, one.memory.project, one.other_project)
    ):
        return False
    if asked.scope and not promoted and not same(asked.scope, one.scope, one.memory.project):
        return False
    return all(same(tag.strip(), *one.memory.concepts) for tag in asked.tags)
