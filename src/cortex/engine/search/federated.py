"""One search over several stores: each place is asked the same, and the hits are merged by their
relevance, which is one scale for all.

Knows no engine, family or tool: whoever has something that can be searched hands over how to ask
it. Scores are never compared: they are shares of the best match of one place. A file that is found
both as it is and as a copy in a chunk file is shown once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from cortex.base.types import Cancel, Hit, Mode, Page, Query

FILES = "code"  # the family whose hits are files of a project, by their paths

Ask = Callable[[Query, Cancel], Page]


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """Something that can be searched: a workspace, or the folders of a library."""

    family: str  # that it is of
    name: str
    ask: Ask
    # The names of its sources by id, where there are several
    sources: Mapping[int, str] = field(default_factory=dict)
    # What else a hit is known by: an id, a page
    cite: Callable[[Hit], Mapping[str, object]] = lambda hit: {}
    opener: str = ""  # the tool that opens a hit, and by which of its facts: "get_memory id"
    read: Callable[[str], tuple[str, str]] | None = None  # title and text of what a hit is cited by
    written: Callable[[str], float] | None = (
        None  # when it was written, in seconds since 1970, by what a hit is cited by
    )
    # The path of the file that a hit's text was taken from, "" for none
    copy_of: Callable[[Hit], str] | None = None


@dataclass(frozen=True, slots=True)
class FederatedHit:
    """A hit and where it is from."""

    source: str  # the name of the workspace, or of the folder
    hit: Hit
    family: str = FILES
    cited: Mapping[str, object] = field(default_factory=dict)
    opener: str = ""
    copy_of: str = ""  # the path of the file that its text was taken from


def federated_search(
    places: Sequence[SearchTarget], query: Query, cancel: Cancel, *, spread: float = 0.0
) -> tuple[list[FederatedHit], Page]:
    """Ask every place and merge by relevance; the page sums up what was searched.

    With `spread` each further hit of a family counts so much less than the one before it: whether a
    family knows the answer at all is said of all its hits at once, and where it doesn't, all of
    them would stand before one that another family is nearly as sure of.
    """
    if len(places) == 1:
        page = places[0].ask(query, cancel)
        return [_locate(places[0], hit) for hit in page.hits], page
    # All of them with text: which hits are shown, and so need it, is known only after merging.
    copies = _has_copies(places)
    # What is shown once may have taken two places
    depth = (query.offset + query.limit) * (1 + copies)
    deep = replace(query, offset=0, limit=depth, characters=0)
    pages = [(place, place.ask(deep, cancel)) for place in places]
    merged = _merge(pages)
    shown = _spread(merged, spread) if spread else [one for _, one in merged]
    once = _without_copies(shown) if copies else shown
    whole = Page(
        hits=(),
        total=sum(page.total for _, page in pages) - (len(shown) - len(once)),
        mode=pages[0][1].mode if pages else Mode.WORDS,
        notes=tuple(
            dict.fromkeys(f"{place.name}: {note}" for place, page in pages for note in page.notes)
        ),
        docs=sum(page.docs for _, page in pages),
        chunks=sum(page.chunks for _, page in pages),
        cached=all(page.cached for _, page in pages),
        is_partial=any(page.is_partial for _, page in pages),
    )
    return _trim(once[query.offset : query.offset + query.limit], query.characters), whole


def _merge(pages: Sequence[tuple[SearchTarget, Page]]) -> list[tuple[float, FederatedHit]]:
    """The hits of all pages, each with what it counts: no more than any before it in its place.

    A place answers in its own order. A hit further down that counted more would come up between
    others as soon as somebody looks that deep, on a page that has been turned already.
    """
    merged: list[tuple[tuple[float, str, str, int, int], FederatedHit]] = []
    for number, (place, page) in enumerate(pages):
        counts = accumulate((hit.relevance for hit in page.hits), min)
        for rank, (hit, count) in enumerate(zip(page.hits, counts, strict=True)):
            merged.append(((-count, place.family, place.name, number, rank), _locate(place, hit)))
    merged.sort(key=lambda one: one[0])
    return [(-key[0], one) for key, one in merged]


def _spread(merged: Sequence[tuple[float, FederatedHit]], spread: float) -> list[FederatedHit]:
    """The hits in the order of what each is worth behind those of its family; of equal ones the
    more relevant first.
    """
    seen: dict[str, int] = {}
    worth: list[tuple[float, int]] = []
    for place, (count, one) in enumerate(merged):
        before = seen.get(one.family, 0)
        seen[one.family] = before + 1
        worth.append((round(spread * before - count, 4), place))
    return [merged[place][1] for _, place in sorted(worth)]


def _has_copies(places: Sequence[SearchTarget]) -> bool:
    """Whether hits may be copies of others: of the files of one project, since a copy doesn't say
    of which it is.
    """
    return [place.family for place in places].count(FILES) == 1 and any(
        place.copy_of for place in places
    )


def _without_copies(located: Sequence[FederatedHit]) -> list[FederatedHit]:
    """The hits without copies of files that are hits, too; the better of both places is the file's."""
    files: dict[str, list[FederatedHit]] = {}
    for one in located:
        if one.family == FILES:
            files.setdefault(one.hit.path, []).append(one)
    shown: dict[int, FederatedHit] = {}
    for one in located:
        originals = (
            [file for file in files.get(one.copy_of, ()) if _overlap(file.hit, one.hit)]
            if one.copy_of
            else ()
        )
        best = originals[0] if originals else one
        shown.setdefault(id(best), best)
    return list(shown.values())


def _overlap(file: Hit, copy: Hit) -> bool:
    """Whether a copy is of these lines; without lines of its own it is of the whole file."""
    return not copy.end_line or (
        copy.start_line <= file.end_line and file.start_line <= copy.end_line
    )


def _locate(place: SearchTarget, hit: Hit) -> FederatedHit:
    source = place.sources.get(hit.source, place.name)
    copy_of = place.copy_of(hit) if place.copy_of else ""
    return FederatedHit(source, hit, place.family, place.cite(hit), place.opener, copy_of)


def _trim(located: Sequence[FederatedHit], characters: int) -> list[FederatedHit]:
    """The hits, with text until there are `characters` of it (0 is no limit), as one engine gives
    it out.
    """
    trimmed: list[FederatedHit] = []
    left = characters or sys.maxsize
    for one in located:
        trimmed.append(one if left > 0 else replace(one, hit=replace(one.hit, text="")))
        left -= len(one.hit.text)
    return trimmed
