"""What a document has to say to a question, in one piece where it stands in one: hits and their
neighbours, merged.

A neighbour belongs to a hit where it is of the same section and on the same page; what touches is
one passage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cortex.base.redaction import Redacted
from cortex.base.types import Chunk, Hit
from cortex.engine.store import Lookup
from cortex.families.documents.search import DocumentResult, page_of


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a document, with where it is."""

    start_line: int
    end_line: int
    section: str
    page: int
    text: str
    redacted: tuple[Redacted, ...] = ()


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A document and its passages, the best first."""

    result: DocumentResult  # the best of the document
    passages: tuple[Passage, ...]


def excerpts_of(lookup: Lookup, results: Sequence[DocumentResult], most: int) -> list[Excerpt]:
    """The first `most` documents of the results, each once."""
    by_document: dict[str, list[DocumentResult]] = {}
    for result in results:
        if result.document_id in by_document or len(by_document) < most:
            by_document.setdefault(result.document_id, []).append(result)
    excerpts = [
        Excerpt(found[0], _passages(lookup, [one.hit for one in found]))
        for found in by_document.values()
    ]
    return [excerpt for excerpt in excerpts if excerpt.passages]


def _passages(lookup: Lookup, hits: Sequence[Hit]) -> tuple[Passage, ...]:
    first = hits[0]
    place = lookup.places([(first.doc, first.chunk)]).get((first.doc, first.chunk))
    if place is None:  # removed meanwhile
        return ()
    text, chunks = (
        lookup.text(place.doc.blob),
        [chunk for _, chunk in lookup.chunks(place.doc.blob)],
    )
    spans: list[tuple[int, int]] = []
    for hit in hits:
        inside = [
            number
            for number, chunk in enumerate(chunks)
            if hit.start_line <= chunk.start_line and chunk.end_line <= hit.end_line
        ]
        if inside:
            spans = _join(spans, _widen(text, chunks, inside[0], inside[-1]))
    redacted = lookup.redacted(place.doc.blob)
    return tuple(_passage(text, chunks, redacted, *span) for span in spans)


def _widen(text: str, chunks: Sequence[Chunk], first: int, last: int) -> tuple[int, int]:
    """The span with the neighbour on either side, where that goes with it."""
    if first > 0 and _go_together(text, chunks[first - 1], chunks[first]):
        first -= 1
    if last + 1 < len(chunks) and _go_together(text, chunks[last + 1], chunks[last]):
        last += 1
    return first, last


def _go_together(text: str, one: Chunk, other: Chunk) -> bool:
    return one.qualified == other.qualified and page_of(text, one) == page_of(text, other)


def _join(spans: Sequence[tuple[int, int]], new: tuple[int, int]) -> list[tuple[int, int]]:
    """The spans with a new one; what touches it becomes one, in the place of the best."""
    touching = [span for span in spans if span[0] <= new[1] + 1 and new[0] <= span[1] + 1]
    whole = (min(first for first, _ in (*touching, new)), max(last for _, last in (*touching, new)))
    if not touching:
        return [*spans, new]
    return [
        whole if span == touching[0] else span
        for span in spans
        if span == touching[0] or span not in touching
    ]


def _passage(
    text: str, chunks: Sequence[Chunk], redacted: Sequence[Redacted], first: int, last: int
) -> Passage:
    start, end = chunks[first], chunks[last]
    return Passage(
        start.start_line,
        end.end_line,
        start.qualified,
        page_of(text, start),
        text[start.start : end.end],
        tuple(one for one in redacted if start.start_line <= one[0] <= end.end_line),
    )
