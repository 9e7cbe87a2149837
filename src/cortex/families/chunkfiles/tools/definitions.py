"""The chunk search as a tool: its request, its answer to the letter, and its errors.

The answer's JSON holds what its contract has and nothing else: whoever reads it may be another
program. What else there is to say goes beside it, into `meta` and notes.
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
from cortex.families.chunkfiles.index import ChunkHit, ChunkIndex, ChunkQuery
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.families.chunkfiles.pool import PooledIndex as Lent
from cortex.toolkit.tool import Answer, Arguments, Call, Fault, Tool, Whole, nearest_within

NAME = "cortex_search"
DEFAULT_LIMIT, MOST = 15, 100
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
META = "cortex/notes"
MODE = "cortex/mode"
ENVELOPE = estimate_tokens('{"results":[],"total":100}')


def _or_default(value: object) -> object:
    """The number of results where none is meant."""
    return DEFAULT_LIMIT if value is None else value


class ChunkSearchArguments(Arguments):
    query: str = Field(description="Natural language search query, a name, or a piece of code")
    limit: Annotated[
        int,
        nearest_within(1, MOST),
        BeforeValidator(_or_default),
        Field(
            description="Maximum number of results; numbers outside 1-100 count as the nearest of these",
            json_schema_extra={"type": "number", "minimum": 1, "maximum": MOST},
        ),
    ] = DEFAULT_LIMIT
    chunk_types: list[str] | None = Field(
        default=None,
        description="Only chunks of any of these types: documentation, symbols, definitions, data; all if left out",
        examples=[["documentation"], ["symbols", "definitions"]],
    )
    tags: list[str] | None = Field(
        default=None,
        description="Only chunks that have all of these tags",
        examples=[["code", "go"]],
    )
    budget: Whole | None = Field(
        default=None,
        description="Most tokens that the answer may cost (characters / 4); chunks that don't fit are left off from the end",
        ge=1,
    )


class ChunkSession:
    """The shelves of one connection."""

    def __init__(self, lender: ChunkIndexPool) -> None:
        self._lender = lender
        self._lent: list[Lent] = []

    @property
    def shelves(self) -> list[ChunkIndex]:
        return [one.shelf for one in self._lent if one.shelf is not None]

    def add(self, one: Lent) -> None:
        self._lent.append(one)

    def close(self) -> None:
        """Give every shelf back."""
        lent, self._lent = self._lent, []
        for one in lent:
            self._lender.give_back(one)


def search(context: ChunkSession, arguments: ChunkSearchArguments, call: Call) -> Answer:
    """Find chunks."""
    wanted = ChunkQuery(
        arguments.query,
        limit=arguments.limit,
        tags=tuple(dict.fromkeys(arguments.tags or ())),
        chunk_types=tuple(dict.fromkeys(arguments.chunk_types or ())),
    )
    found = search_all(context.shelves, wanted, call.cancel)
    results, notes = (
        [result_text(entry, score) for entry, score in found.results],
        list(found.notes),
    )
    if arguments.budget is not None:
        results, left_off = _fit(results, arguments.budget)
        if left_off:
            notes.append(
                f"{left_off} more chunks were left off: they don't fit into {arguments.budget} tokens"
            )
    meta = {META: notes, MODE: found.mode.value} if notes else None
    return Answer(answer_text(results), notes=tuple(notes), meta=meta, hits=len(results))


def search_all(shelves: Sequence[ChunkIndex], wanted: ChunkQuery, cancel: Cancel) -> ChunkHit:
    """What all shelves find, merged by relevance."""
    found = [shelf.search(wanted, cancel=cancel) for shelf in shelves]
    if len(found) == 1:
        return found[0]
    merged = sorted((result for each in found for result in each.results), key=lambda one: -one[1])
    notes = tuple(dict.fromkeys(note for each in found for note in each.notes))
    return ChunkHit(tuple(merged[: wanted.limit]), found[0].mode if found else Mode.WORDS, notes)


def fault_of(error: CortexError) -> Fault:
    """The error of the request that an error is: wrong parameters, or a failure inside."""
    return Fault(INVALID_PARAMS if isinstance(error, InputError) else INTERNAL_ERROR, error.message)


def result_text(entry: Entry, score: float) -> str:
    """One result as JSON: the chunk's keys in their order, with the values that its file has."""
    return json.dumps(
        {"chunk": asdict(entry), "combined_score": score}, ensure_ascii=False, separators=(",", ":")
    )


def answer_text(results: Sequence[str]) -> str:
    """The whole answer as JSON."""
    return f'{{"results":[{",".join(results)}],"total":{len(results)}}}'


def _fit(results: Sequence[str], budget: int) -> tuple[list[str], int]:
    """The first results that fit into so many tokens, and how many are left off."""
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
        description="Search for relevant context in the project codebase and documentation. Use it to find out how something works, "
        "where it is defined or why it was decided, before opening files: it answers with whole chunks, their files and lines.",
        arguments=ChunkSearchArguments,
        run=search,
        writes=False,
        idempotent=True,
    ),
)
