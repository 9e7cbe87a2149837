"""Chunk files as a target of federated search."""

from __future__ import annotations

from cortex.base.errors import InputError
from cortex.base.types import Cancel, Entry, Hit, Mode, Page, Query
from cortex.engine.search.federated import SearchTarget
from cortex.families.chunkfiles.index import ChunkQuery
from cortex.families.chunkfiles.tools.definitions import ChunkSession, search_all

FAMILY = "chunks"


def place_of(context: ChunkSession) -> SearchTarget:
    """Search target over all chunk files of a client."""
    # File paths of the chunks that were found, by chunk id.
    files: dict[str, str] = {}

    def ask(query: Query, cancel: Cancel) -> Page:
        if query.mode in (Mode.EXACT, Mode.FULL):
            raise InputError(
                "ARGUMENT_INVALID", f"chunk files can't be searched in mode {query.mode.value}"
            )
        depth = query.offset + query.limit
        answer = search_all(context.indexes, ChunkQuery(query.text, depth, query.threshold), cancel)
        files.update(
            (entry.id, str((entry.metadata or {}).get("file_path") or ""))
            for entry, _ in answer.results
        )
        size = query.snippets[0] if query.snippets else 0
        hits = tuple(
            _hit(number, entry, score, size) for number, (entry, score) in enumerate(answer.results)
        )
        return Page(hits[query.offset :], len(hits), answer.mode, answer.notes)

    def read(chunk_id: str) -> tuple[str, str]:
        for index in context.indexes:
            if (entry := index.entry(chunk_id)) is not None:
                return entry.title or entry.id, entry.text
        raise InputError("DOCUMENT_UNKNOWN", f"there is no chunk {chunk_id[:100]!r}")

    return SearchTarget(
        FAMILY,
        "chunks",
        ask,
        cite=lambda hit: {"id": hit.path, "title": hit.name},
        read=read,
        copy_of=lambda hit: files.get(hit.path, ""),
    )


def _hit(position: int, entry: Entry, score: float, size: int) -> Hit:
    metadata = entry.metadata or {}
    lines = [
        value if isinstance(value := metadata.get(name), int) else 0
        for name in ("start_line", "end_line")
    ]
    return Hit(
        source=0,
        doc=position,
        chunk=0,
        path=entry.id,
        start_line=lines[0],
        end_line=lines[1],
        text=entry.text[:size] if size else entry.text,
        score=score,
        relevance=score,
        kind=entry.chunk_type or "",
        name=entry.title or entry.id,
    )
