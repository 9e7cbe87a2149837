"""Merge search hits and their neighbours into passages of a document.

A neighbour belongs to a hit if it is in the same section and on the same page; adjacent spans
become one passage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cortex.base.redaction import Redacted
from cortex.base.types import Chunk, Hit
from cortex.engine.store import ContentQueries
from cortex.families.documents.search import DocumentResult, page_of


@dataclass(frozen=True, slots=True)
class Passage:
    """Stretch of a document with its location."""

    start_line: int
    end_line: int
    section: str
    page: int
    text: str
    redacted: tuple[Redacted, ...] = ()


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Document with its passages, best first."""

    # Best result of the document.
    result: DocumentResult
    passages: tuple[Passage, ...]


def excerpts_of(
    lookup: ContentQueries, results: Sequence[DocumentResult], most: int
) -> list[Excerpt]:
    """Build the excerpts of the first `most` documents in the results."""
    by_document: dict[str, list[DocumentResult]] = {}
    for result in results:
        if result.document_id in by_document or len(by_document) < most:
            by_document.setdefault(result.document_id, []).append(result)
    excerpts = [
        Excerpt(group[0], _passages(lookup, [result.hit for result in group]))
        for group in by_document.values()
    ]
    return [excerpt for excerpt in excerpts if excerpt.passages]


def _passages(lookup: ContentQueries, hits: Sequence[Hit]) -> tuple[Passage, ...]:
    first = hits[0]
    place = lookup.places([(first.doc, first.chunk)]).get((first.doc, first.chunk))
    # The document was removed meanwhile.
    if place is None:
        return ()
    text = lookup.text(place.doc.blob)
    chunks = [chunk for _, chunk in lookup.chunks(place.doc.blob)]
    spans: list[tuple[int, int]] = []
    for hit in hits:
        covered = [
            index
            for index, chunk in enumerate(chunks)
            if hit.start_line <= chunk.start_line and chunk.end_line <= hit.end_line
        ]
        if covered:
            spans = _join(spans, _widen(text, chunks, covered[0], covered[-1]))
    redacted = lookup.redacted(place.doc.blob)
    return tuple(_passage(text, chunks, redacted, *span) for span in spans)


def _widen(text: str, chunks: Sequence[Chunk], first: int, last: int) -> tuple[int, int]:
    """Extend a span by the neighbours that belong to it."""
    if first > 0 and _belong_together(text, chunks[first - 1], chunks[first]):
        first -= 1
    if last + 1 < len(chunks) and _belong_together(text, chunks[last + 1], chunks[last]):
        last += 1
    return first, last


def _belong_together(text: str, left: Chunk, right: Chunk) -> bool:
    return left.qualified == right.qualified and page_of(text, left) == page_of(text, right)


def _join(spans: Sequence[tuple[int, int]], new: tuple[int, int]) -> list[tuple[int, int]]:
    """Add a span; the spans it touches become one, in the place of the best."""
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
        tuple(
            redaction for redaction in redacted if start.start_line <= redaction[0] <= end.end_line
        ),
    )
