"""One search over several targets, merged by relevance, which has one scale for all.

Knows no engine, family or tool: each target brings its own function to ask. Scores are never
compared, because a score is a share of the best match within one target. A file found both directly
and as a copy in a chunk file is shown once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from cortex.base.errors import InputError
from cortex.base.types import Cancel, Hit, Mode, Page, Query

# The family with files of a project as hits, cited by path.
FILES = "code"

Ask = Callable[[Query, Cancel], Page]


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """Something that can be searched: a workspace, or the folders of a library."""

    family: str
    name: str
    ask: Ask
    # Names of its sources by id, where there are several.
    sources: Mapping[int, str] = field(default_factory=dict)
    # Further keys of a hit: an id, a page.
    cite: Callable[[Hit], Mapping[str, object]] = lambda hit: {}
    # The tool that opens a hit, and the key it takes: "get_memory id".
    opener: str = ""
    # Title and text of a cited item.
    read: Callable[[str], tuple[str, str]] | None = None
    # Time of writing of a cited item, in seconds since 1970.
    written: Callable[[str], float] | None = None
    # Path of the file that a hit copies, "" for none.
    copy_of: Callable[[Hit], str] | None = None


@dataclass(frozen=True, slots=True)
class FederatedHit:
    """A hit with the target it came from."""

    # Name of the workspace or folder.
    source: str
    hit: Hit
    family: str = FILES
    cited: Mapping[str, object] = field(default_factory=dict)
    opener: str = ""
    # Path of the file it copies.
    copy_of: str = ""


def reject_exact(query: Query, items: str) -> None:
    """Refuse a mode that only code can be searched in. Raises: InputError ARGUMENT_INVALID."""
    if query.mode in (Mode.EXACT, Mode.FULL):
        raise InputError(
            "ARGUMENT_INVALID",
            f"{items} can't be searched in mode {query.mode.value}: ask code alone",
        )


def federated_search(
    places: Sequence[SearchTarget], query: Query, cancel: Cancel, *, spread: float = 0.0
) -> tuple[list[FederatedHit], Page]:
    """Ask every target and merge the hits by relevance; the page sums up what was searched.

    With `spread`, each further hit of a family counts that much less than the one before it.
    Relevance judges all hits of a family at once, so without a spread a family that doesn't have
    the answer could put all of its hits before one that another family is nearly as sure of.
    """
    if len(places) == 1:
        page = places[0].ask(query, cancel)
        return [_locate(places[0], hit) for hit in page.hits], page
    copies = _has_copies(places)
    # An original and its copy are shown once, but take two places.
    depth = (query.offset + query.limit) * (1 + copies)
    # All hits with text: the shown ones are known only after merging.
    deep = replace(query, offset=0, limit=depth, characters=0)
    pages = [(place, place.ask(deep, cancel)) for place in places]
    merged = _merge(pages)
    shown = _spread(merged, spread) if spread else [hit for _, hit in merged]
    unique = _without_copies(shown) if copies else shown
    summary = Page(
        hits=(),
        total=sum(page.total for _, page in pages) - (len(shown) - len(unique)),
        mode=pages[0][1].mode if pages else Mode.WORDS,
        notes=tuple(
            dict.fromkeys(f"{place.name}: {note}" for place, page in pages for note in page.notes)
        ),
        docs=sum(page.docs for _, page in pages),
        chunks=sum(page.chunks for _, page in pages),
        cached=all(page.cached for _, page in pages),
        is_partial=any(page.is_partial for _, page in pages),
    )
    return _trim(unique[query.offset : query.offset + query.limit], query.characters), summary


def _merge(pages: Sequence[tuple[SearchTarget, Page]]) -> list[tuple[float, FederatedHit]]:
    """Merge the hits of all pages by relevance, keeping the order within each target.

    A hit counts at most as much as the hits before it in its target. Otherwise one further down
    would move up between others on a deeper request, into a page that was already shown.
    """
    merged: list[tuple[tuple[float, str, str, int, int], FederatedHit]] = []
    for index, (place, page) in enumerate(pages):
        counts = accumulate((hit.relevance for hit in page.hits), min)
        for rank, (hit, count) in enumerate(zip(page.hits, counts, strict=True)):
            merged.append(((-count, place.family, place.name, index, rank), _locate(place, hit)))
    merged.sort(key=lambda entry: entry[0])
    return [(-key[0], hit) for key, hit in merged]


def _spread(merged: Sequence[tuple[float, FederatedHit]], spread: float) -> list[FederatedHit]:
    """Order hits by relevance minus `spread` for each earlier hit of the same family."""
    seen: dict[str, int] = {}
    worth: list[tuple[float, int]] = []
    for index, (count, hit) in enumerate(merged):
        before = seen.get(hit.family, 0)
        seen[hit.family] = before + 1
        worth.append((round(spread * before - count, 4), index))
    return [merged[index][1] for _, index in sorted(worth)]


def _has_copies(places: Sequence[SearchTarget]) -> bool:
    """True if hits may be copies of other hits.

    Only with files of a single project, because a copy doesn't name its project.
    """
    return [place.family for place in places].count(FILES) == 1 and any(
        place.copy_of for place in places
    )


def _without_copies(located: Sequence[FederatedHit]) -> list[FederatedHit]:
    """Drop copies of files that are hits, too; the file takes the better place of both."""
    files: dict[str, list[FederatedHit]] = {}
    for hit in located:
        if hit.family == FILES:
            files.setdefault(hit.hit.path, []).append(hit)
    shown: dict[int, FederatedHit] = {}
    for hit in located:
        originals = (
            [file for file in files.get(hit.copy_of, ()) if _overlap(file.hit, hit.hit)]
            if hit.copy_of
            else ()
        )
        best = originals[0] if originals else hit
        shown.setdefault(id(best), best)
    return list(shown.values())


def _overlap(file: Hit, copy: Hit) -> bool:
    """True if a copy covers these lines; without lines it covers the whole file."""
    return not copy.end_line or (
        copy.start_line <= file.end_line and file.start_line <= copy.end_line
    )


def _locate(place: SearchTarget, hit: Hit) -> FederatedHit:
    source = place.sources.get(hit.source, place.name)
    copy_of = place.copy_of(hit) if place.copy_of else ""
    return FederatedHit(source, hit, place.family, place.cite(hit), place.opener, copy_of)


def _trim(located: Sequence[FederatedHit], characters: int) -> list[FederatedHit]:
    """Drop the text of hits once `characters` are used up (0: no limit), as an engine does."""
    trimmed: list[FederatedHit] = []
    left = characters or sys.maxsize
    for located_hit in located:
        trimmed.append(
            located_hit if left > 0 else replace(located_hit, hit=replace(located_hit.hit, text=""))
        )
        left -= len(located_hit.hit.text)
    return trimmed
