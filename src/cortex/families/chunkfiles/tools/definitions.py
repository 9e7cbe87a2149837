"""Chunk search tool: its arguments, its exact answer, and its errors.

The JSON of the answer holds the fields of its contract and nothing else, because other programs
read it. Additional information goes into `meta` and notes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from pydantic import BeforeValidator, Field

from cortex.base.errors import CortexError, InputError
from cortex.base.text import estimate_tokens
from cortex.base.types import Cancel, Entry, Mode
from cortex.families.chunkfiles.index import ChunkIndex, ChunkQuery, ChunkSearchResult
from cortex.families.chunkfiles.pool import ChunkIndexHandle, ChunkIndexPool
from cortex.toolkit.tool import Answer, Arguments, Call, Fault, Tool, Whole, nearest_within

NAME = "cortex_search"
DEFAULT_LIMIT, MOST = 15, 100
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
META = "cortex/notes"
MODE = "cortex/mode"
ENVELOPE = estimate_tokens('{"results":[],"total":100}')


def _or_default(value: object) -> object:
    """Replace a null limit by the default."""
    return DEFAULT_LIMIT if value is None else value


class ChunkSearchArguments(Arguments):
    query: str = Field(description="Natural language search query, a name, or a piece of code")
    limit: Annotated[
        int,
        nearest_within(1, MOST),
        BeforeValidator(_or_default),
        Field(
            description="Maximum number of results; numbers outside 1-100 count as the nearest "
            "of these",
            json_schema_extra={"type": "number", "minimum": 1, "maximum": MOST},
        ),
    ] = DEFAULT_LIMIT
    chunk_types: list[str] | None = Field(
        default=None,
        description="Only chunks of any of these types: documentation, symbols, definitions, "
        "data; all if left out",
        examples=[["documentation"], ["symbols", "definitions"]],
    )
    tags: list[str] | None = Field(
        default=None,
        description="Only chunks that have all of these tags",
        examples=[["code", "go"]],
    )
    budget: Whole | None = Field(
        default=None,
        description="Most tokens that the answer may cost (characters / 4); chunks that don't "
        "fit are left off from the end",
        ge=1,
    )


class ChunkSession:
    """Chunk indexes of one connection."""

    def __init__(self, pool: ChunkIndexPool) -> None:
        self._pool = pool
        self._handles: list[ChunkIndexHandle] = []

    @property
    def indexes(self) -> list[ChunkIndex]:
        return [handle.resource for handle in self._handles if handle.resource is not None]

    def add(self, handle: ChunkIndexHandle) -> None:
        self._handles.append(handle)

    def close(self) -> None:
        """Return every index to the pool."""
        handles, self._handles = self._handles, []
        for handle in handles:
            self._pool.give_back(handle)


def search(context: ChunkSession, arguments: ChunkSearchArguments, call: Call) -> Answer:
    """Find chunks."""
    query = ChunkQuery(
        arguments.query,
        limit=arguments.limit,
        tags=tuple(dict.fromkeys(arguments.tags or ())),
        chunk_types=tuple(dict.fromkeys(arguments.chunk_types or ())),
    )
    hits = search_all(context.indexes, query, call.cancel)
    results, notes = (
        [result_text(entry, score) for entry, score in hits.results],
        list(hits.notes),
    )
    if arguments.budget is not None:
        results, left_off = _fit(results, arguments.budget)
        if left_off:
            notes.append(
                f"{left_off} more chunks were left off: they don't fit into {arguments.budget} "
                f"tokens"
            )
    meta = {META: notes, MODE: hits.mode.value} if notes else None
    return Answer(answer_text(results), notes=tuple(notes), meta=meta, hits=len(results))


def search_all(
    indexes: Sequence[ChunkIndex], query: ChunkQuery, cancel: Cancel
) -> ChunkSearchResult:
    """Search all indexes and merge the results by relevance."""
    answers = [index.search(query, cancel=cancel) for index in indexes]
    if len(answers) == 1:
        return answers[0]
    merged = sorted(
        (result for answer in answers for result in answer.results), key=lambda result: -result[1]
    )
    notes = tuple(dict.fromkeys(note for answer in answers for note in answer.notes))
    return ChunkSearchResult(
        tuple(merged[: query.limit]), answers[0].mode if answers else Mode.WORDS, notes
    )


def fault_of(error: CortexError) -> Fault:
    """Map an error to a protocol error: invalid parameters or an internal failure."""
    return Fault(INVALID_PARAMS if isinstance(error, InputError) else INTERNAL_ERROR, error.message)


def result_text(entry: Entry, score: float) -> str:
    """Encode one result as JSON: the chunk's keys in their order, with the values of its file."""
    return json.dumps(
        {"chunk": asdict(entry), "combined_score": score}, ensure_ascii=False, separators=(",", ":")
    )


def answer_text(results: Sequence[str]) -> str:
    """Encode the whole answer as JSON."""
    return f'{{"results":[{",".join(results)}],"total":{len(results)}}}'


def _fit(results: Sequence[str], budget: int) -> tuple[list[str], int]:
    """Take the first results that fit into the budget; also returns how many are left off."""
    kept: list[str] = []
    left = budget - ENVELOPE
    for result in results:
        left -= estimate_tokens(result + ",")
        if left < 0:
            break
        kept.append(result)
    return kept, len(results) - len(kept)


TOOLS = (
    Tool(
        family="chunks",
        name=NAME,
        title="Search the project's context",
        description="Search for relevant context in the project codebase and documentation. "
        "Use it to find out how something works, "
        "where it is defined or why it was decided, before opening files: it answers with "
        "whole chunks, their files and lines.",
        arguments=ChunkSearchArguments,
        run=search,
        writes=False,
        idempotent=True,
    ),
)
