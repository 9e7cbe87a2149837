"""Questions to the records: by text, by what they belong to, or simply the last changed; the same
for tools and commands.

Words and meaning rank; what a record counts for (accepted, pinned; superseded, archived) and how
new it is only decides between what is nearly as good. Nothing is left out because it is old. A
filter that few records meet narrows the search; one that many meet is looked at in what was found,
since thousands of docs in a search cost more than the search. Only reads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import FOUND_KINDS, Body, Record, RecordFilter
from cortex.base.text import words_of
from cortex.base.types import Cancel, Mode, Page, Query, Source
from cortex.base.types import Hit as Found
from cortex.engine.library import Library
from cortex.engine.search import check_query
from cortex.engine.search.query_parser import STOP_WORDS
from cortex.engine.store import RecordHeader, stem_of
from cortex.families.team.field_rules import LIMITS
from cortex.families.team.index_text import about_of
from cortex.families.team.references import scope_of
from cortex.families.team.sentences import cut, fold, sentences_of

DEPTH = 150  # hits that are looked at, so that a boost can reach what is nearly as good
WINDOW = 20  # among several stores, where each hit costs its text
# Hits that get their text at once; words, names and meaning together find some 600
MOST_CUT = 1_000
MOST_DOCS = 4_000  # that narrow a search
SNIPPET_CHARACTERS = 280
MOST_TAGS = max(limits.get("tags", 0) for limits in LIMITS.values())
MAX_WORDS = 6  # that are named as what matched
# What being new adds at most, and after how many days half of that
NEW_SHARE, NEW_DAYS = 0.03, 30.0
PINNED_SHARE = 0.05
SHARES = {
    ("artifact", "accepted"): 0.06,
    ("artifact", "superseded"): -0.15,
    ("artifact", "deprecated"): -0.15,
    ("thread", "archived"): -0.1,
    ("task", "cancelled"): -0.1,
    # It carries its thread's title: a short one would stand before the thread
    ("comment", "published"): -0.05,
}
SAME_THREAD = 0.94  # of each further hit of one thread
LEAST_SAME = 0.6
SAYS_MORE = 1.5  # how much better than its thread a comment answers that says something of its own
ONLY_TITLE = 0.6  # of the score of one that does not


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """What somebody wants to know; what is empty doesn't narrow."""

    query: str = ""
    types: tuple[str, ...] = ()  # kinds of records
    subcortex: str = ""  # id or slug
    state: str | tuple[str, ...] = ""
    sensitivity: str = ""
    since: int = 0  # changed at or after, in milliseconds
    until: int = 0  # changed before
    tags: tuple[str, ...] = ()  # all of them
    limit: int = 10
    offset: int = 0
    mode: Mode = Mode.HYBRID
    withheld: bool = False  # also what speaks for the team, and its Core doesn't have


@dataclass(frozen=True, slots=True)
class RecordHit:
    """A record that answers."""

    record: Record[Any]
    relevance: float  # 0 where nothing was asked but for the last changed
    snippet: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class RecordResults:
    """The answer to a question."""

    hits: tuple[RecordHit, ...]
    total: int
    notes: tuple[str, ...] = ()
    mode: Mode | None = None  # that ran


def find(library: Library, asked: RecordQuery, cancel: Cancel | None = None) -> RecordResults:
    """Answer a question.

    Raises: InputError QUERY_INVALID, ARGUMENT_INVALID or SCOPE_NOT_FOUND; LimitError, Cancelled,
    StoreError.
    """
    wanted = wanted_of(library, asked)
    if not asked.query.strip():
        with library.store.reading():
            newest = library.store.recorded.select(
                replace(wanted, by_change=True), asked.limit, asked.offset
            )
            hidden = _hidden(library, asked)
            shown = tuple(RecordHit(one, 0.0) for one in newest if one.id not in hidden)
            return RecordResults(shown, library.store.recorded.count(wanted))
    query = Query(
        asked.query, mode=asked.mode, limit=max(DEPTH, asked.offset + asked.limit), snippets=(0,)
    )
    ranked, page = _ranked(
        library, wanted, query, asked.offset + asked.limit, cancel, hidden=_hidden(library, asked)
    )
    chosen = ranked[asked.offset : asked.offset + asked.limit]
    known = library.store.recorded.get(brief.id for _, brief in chosen)
    texts = _texts_of(library, [hit for hit, _ in chosen])
    stems = _stems_of(asked.query)
    hits = [
        RecordHit(
            known[brief.id],
            hit.relevance,
            *_told(known[brief.id].body, texts.get(hit.chunk, ""), stems, hit.why),
        )
        for hit, brief in chosen
        if brief.id in known
    ]
    return RecordResults(tuple(hits), page.total, page.notes, page.mode)


def page_of(library: Library, asked: RecordQuery, query: Query, cancel: Cancel) -> Page:
    """The records as one place of a search over several: `query` says what is asked and how much is
    told, `asked` what may answer.
    """
    most = query.offset + query.limit
    wanted = wanted_of(library, asked)
    window = DEPTH if is_narrowed(wanted) else WINDOW
    limit = window * math.ceil(2 * most / window)
    deep = replace(query, offset=0, limit=limit, characters=0, snippets=sizes_of(query, most))
    ranked, page = _ranked(library, wanted, deep, most, cancel, window, _hidden(library, asked))
    return replace(page, hits=_with_text(library, query, ranked[query.offset : most]))


def sizes_of(query: Query, most: int) -> tuple[int, ...]:
    """The characters of text that each hit of a search gets, of which the first `most` may be told.

    Text is cut for those that are likely to be told, and for others once they are: of all it would
    be a third of a search. However far down is asked for, it is for so many: where a cursor stands
    is a number that anybody can write, and 20,000,000 took 6.8 s and 600 MB.
    """
    return (
        (*(_size_at(query, place) for place in range(min(2 * most, MOST_CUT))), 0)
        if query.snippets
        else ()
    )


def _size_at(query: Query, place: int) -> int:
    """The characters of text that a hit in this place may have."""
    return query.snippets[min(place, len(query.snippets) - 1)]


def _with_text(
    library: Library, query: Query, chosen: Sequence[tuple[Found, RecordHeader]]
) -> tuple[Found, ...]:
    """The hits; those that have no text yet get the sentences that say most of the query."""
    bare = [hit for hit, _ in chosen if not hit.text]
    if not bare or not any(query.snippets):
        return tuple(hit for hit, _ in chosen)
    texts, known = (
        _texts_of(library, bare),
        library.store.recorded.get(brief.id for _, brief in chosen),
    )
    stems = _stems_of(query.text)
    hits: list[Found] = []
    for place, (hit, brief) in enumerate(chosen, query.offset):
        if not hit.text and hit.chunk in texts and brief.id in known:
            text, _ = _told(known[brief.id].body, texts[hit.chunk], stems, hit.why)
            hit = replace(hit, text=cut(text, size) if (size := _size_at(query, place)) else "")
        hits.append(hit)
    return tuple(hits)


def wanted_of(library: Library, asked: RecordQuery) -> RecordFilter:
    """Which records may answer. Raises: InputError ARGUMENT_INVALID or SCOPE_NOT_FOUND."""
    unknown = [type_ for type_ in asked.types if type_ not in FOUND_KINDS]
    if unknown:
        raise InputError(
            "ARGUMENT_INVALID",
            f"there are no records of type {unknown[0]!r}: there are {', '.join(FOUND_KINDS)}",
        )
    tags = dict.fromkeys(tag.strip().casefold() for tag in asked.tags if tag.strip())
    if len(tags) > MOST_TAGS:  # the database has a limit, too
        raise InputError(
            "ARGUMENT_INVALID",
            f"no record has more than {MOST_TAGS} tags",
            context={"filter": "tags"},
        )
    refs = [("tag", tag) for tag in tags]
    if asked.subcortex:
        refs.append(("subcortex", scope_of(library.store.recorded, asked.subcortex.strip()).id))
    return RecordFilter(
        kinds=asked.types or FOUND_KINDS,
        states=(asked.state,)
        if isinstance(asked.state, str) and asked.state
        else tuple(asked.state),
        refs=tuple(refs),
        sensitivity=asked.sensitivity,
        since=asked.since,
        until=asked.until,
    )


def _hidden(library: Library, asked: RecordQuery) -> frozenset[str]:
    """The records that don't answer because the team's Core doesn't have them."""
    return frozenset() if asked.withheld else library.store.outbox.withheld()


def is_narrowed(wanted: RecordFilter) -> bool:
    """Whether more than a choice of kinds is asked for."""
    return bool(wanted.states or wanted.refs or wanted.sensitivity or wanted.since or wanted.until)


# -- ranking
# -----------------------------------------------------------------------------------------------------------


def _ranked(
    library: Library,
    wanted: RecordFilter,
    query: Query,
    most: int,
    cancel: Cancel | None,
    window: int = DEPTH,
    hidden: frozenset[str] = frozenset(),
) -> tuple[list[tuple[Found, RecordHeader]], Page]:
    """What answers, best first, each record once; and the page that it is from, with how many there
    are.

    Boosts reach as far as a `window` of hits: else whoever turns the page would meet what they have
    seen, since more is looked at then.
    """
    check_query(query)
    lookup, narrowed = library.store.recorded, is_narrowed(wanted)
    sources, docs = (
        lookup.narrow(wanted, MOST_DOCS) if narrowed else (lookup.sources(wanted.kinds), None)
    )
    if not sources or docs == frozenset():
        return [], Page((), 0, query.mode)
    found, page = _look(library, query, sources, docs, wanted, cancel, hidden)
    if docs is None and narrowed and len(found) < most and page.total >= DEPTH:
        # What was found first is mostly something else: then it takes longer.
        docs = lookup.docs(wanted, [source.id for source in sources])
        found, page = _look(library, query, sources, docs, wanted, cancel, hidden)
    # Then it is only known how many of those are right that were looked at
    sifted = docs is None and narrowed
    total = len(found) if sifted or page.total <= len(page.hits) else max(page.total, len(found))
    windows = {hit.doc: place // window for place, hit in reversed(list(enumerate(page.hits)))}
    return _ordered(found, lookup.targets("pin"), windows), replace(page, total=total)


def _look(
    library: Library,
    query: Query,
    sources: Sequence[Source],
    docs: frozenset[int] | None,
    wanted: RecordFilter,
    cancel: Cancel | None,
    hidden: frozenset[str],
) -> tuple[list[tuple[Found, RecordHeader]], Page]:
    page = library.search(query, sources=sources, docs=docs, cancel=cancel)
    best: dict[int, Found] = {}
    for hit in page.hits:  # a long record has several chunks: the best one stands for it
        best.setdefault(hit.doc, hit)
    briefs = library.store.recorded.briefs(list(best), wanted)
    return [
        (best[doc], briefs[doc]) for doc in best if doc in briefs and briefs[doc].id not in hidden
    ], page


def _ordered(
    found: Sequence[tuple[Found, RecordHeader]], pinned: frozenset[str], windows: Mapping[int, int]
) -> list[tuple[Found, RecordHeader]]:
    """By score and what a record counts for, window by window; what says more of one thread goes
    back a little.
    """
    now = time.time()

    def order(one: tuple[float, Found, RecordHeader]) -> tuple[int, float, int, str]:
        score, hit, brief = one
        return windows[hit.doc], -round(score, 4), -brief.updated, brief.id

    scored = [
        (score * _boost(brief, brief.id in pinned, now), hit, brief)
        for score, hit, brief in _by_their_own(found)
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


def _by_their_own(
    found: Sequence[tuple[Found, RecordHeader]],
) -> list[tuple[float, Found, RecordHeader]]:
    """The hits with what they score of their own: a comment that is hardly better than its thread,
    such as "+1", is found by the title.

    Then the thread stands for it, with what the comment scored; else the shortest comments would
    stand before it.
    """
    threads = {brief.id: hit for hit, brief in found if brief.kind == "thread"}
    titles = {
        brief.id
        for hit, brief in found
        if brief.kind == "comment"
        and brief.thread in threads
        and hit.score <= threads[brief.thread].score * SAYS_MORE
    }
    for hit, brief in found:
        if brief.id in titles and hit.score > threads[brief.thread].score:
            above = threads[brief.thread]
            threads[brief.thread] = replace(
                above, score=hit.score, relevance=max(above.relevance, hit.relevance)
            )
    own: list[tuple[float, Found, RecordHeader]] = []
    for hit, brief in found:
        stands = threads.get(brief.id, hit)
        own.append((stands.score * (ONLY_TITLE if brief.id in titles else 1.0), stands, brief))
    return own


def _boost(brief: RecordHeader, pinned: bool, now: float) -> float:
    """What decides between records that answer nearly as well."""
    days = max(0.0, now - brief.updated / 1000) / 86_400
    share = SHARES.get((brief.kind, brief.state), 0.0)
    return 1 + share + PINNED_SHARE * pinned + NEW_SHARE * NEW_DAYS / (NEW_DAYS + days)


def _relevance(hit: Found, score: float) -> float:
    """How sure a hit is, with what it lost: among other stores that is all that is compared."""
    return round(hit.relevance * min(1.0, score / hit.score), 4) if hit.score > 0 else hit.relevance


# -- what is told
# ------------------------------------------------------------------------------------------------------


def _stems_of(text: str) -> dict[str, str]:
    """The words of a query that say something, by their stems."""
    return {stem_of(word): word for word in words_of(text) if word not in STOP_WORDS}


def _texts_of(library: Library, hits: Sequence[Found]) -> dict[int, str]:
    """The texts of the chunks that answer."""
    lookup = library.store.lookup
    places = lookup.places([(hit.doc, hit.chunk) for hit in hits])
    return {
        chunk: lookup.text(place.doc.blob)[place.chunk.start : place.chunk.end]
        for (_, chunk), place in places.items()
    }


def _told(body: Body, text: str, stems: Mapping[str, str], why: str) -> tuple[str, str]:
    """The sentences of a text that say most of the query, and which of its words stand anywhere in
    it.
    """
    filed = about_of(body)  # which is no sentence, line by line or as one
    about = {fold(filed), *map(fold, filed.split("\n"))}
    said = [one.text for one in sentences_of(text) if one.text not in about] or [fold(text)]
    held = [stems.keys() & {stem_of(word) for word in words_of(sentence)} for sentence in said]
    start = max(range(len(said)), key=lambda place: len(held[place]))
    end, length = start + 1, len(said[start])
    while end < len(said) and length + len(said[end]) < SNIPPET_CHARACTERS:
        length += len(said[end]) + 1
        end += 1
    here = stems.keys() & {stem_of(word) for word in words_of(text)}
    words = [word for stem, word in stems.items() if stem in here][:MAX_WORDS]
    reason = f"words: {', '.join(words)}" if words else why
    told = f"{why}; {reason}" if words and why != "words" else reason
    return cut(" ".join(said[start:end]), SNIPPET_CHARACTERS), told
