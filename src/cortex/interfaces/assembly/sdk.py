"""Cortex inside another program: its chunk search and its tools, for whoever has an MCP server of
their own.

Knows no MCP library: a tool is told as the JSON of `tools/list` and answers with text, which every
library can carry. What `cortex mcp` does besides (a process that is shared, an address) stays
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cortex.base.errors import CortexError, InputError
from cortex.base.settings import Settings, Workspace, environment, load
from cortex.base.types import Entry
from cortex.engine.pool import EnginePool
from cortex.families import FAMILIES
from cortex.families.chunkfiles import tools as chunks
from cortex.families.chunkfiles.index import ChunkHit, ChunkIndex, ChunkQuery
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.families.chunkfiles.tools.definitions import answer_text, result_text
from cortex.families.code import tools as code
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.tool import (
    Call,
    Family,
    bind,
    find_tool,
    input_schema,
    list_once,
    perform,
    spell,
)

MOST = 100  # results of one chunk search


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """A chunk, and how relevant it is, from 0 to 1."""

    chunk: Entry
    combined_score: float


class Chunks:
    """The chunk files of a folder, open to be searched; changed files are seen while it is open.

    Threads may share it.
    """

    def __init__(self, shelf: ChunkIndex) -> None:
        self._shelf = shelf

    def search(
        self,
        query: str,
        *,
        limit: int = 15,
        min_score: float = 0.0,
        tags: Iterable[str] = (),
        chunk_types: Iterable[str] = (),
    ) -> list[ChunkResult]:
        """Chunks of any of `chunk_types` that have all `tags` and at least `min_score`, best first.

        Raises: InputError for an empty query; LimitError; NetworkError, where an embedder is
        required and fails.
        """
        found = self._find(query, limit, min_score, tags, chunk_types)
        return [ChunkResult(entry, score) for entry, score in found.results]

    def answer(
        self,
        query: str,
        *,
        limit: int = 15,
        min_score: float = 0.0,
        tags: Iterable[str] = (),
        chunk_types: Iterable[str] = (),
    ) -> str:
        """The same as the JSON text that `cortex_search` answers with."""
        found = self._find(query, limit, min_score, tags, chunk_types)
        return answer_text([result_text(entry, score) for entry, score in found.results])

    def _find(
        self,
        query: str,
        limit: int,
        min_score: float,
        tags: Iterable[str],
        chunk_types: Iterable[str],
    ) -> ChunkHit:
        return self._shelf.search(
            ChunkQuery(
                query,
                max(1, min(MOST, limit)),
                min_score,
                tuple(dict.fromkeys(tags)),
                tuple(dict.fromkeys(chunk_types)),
            )
        )

    def close(self) -> None:
        """End what follows the files."""
        self._shelf.close()

    def __enter__(self) -> Chunks:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_chunks(directory: str | Path, *, watch: bool = True) -> Chunks:
    """The chunk files in `directory`, with the settings that count in its project.

    Raises: FileError and ConfigError, where there is nothing to search; NetworkError, where an
    embedder is required and can't be asked.
    """
    folder = Path(directory).resolve()
    shelf = ChunkIndex(
        folder,
        _settings_of(folder.parent.parent if folder.parent.name == ".cortex" else None),
        watch=watch,
    )
    try:
        shelf.start()
    except BaseException:
        shelf.close()
        raise
    return Chunks(shelf)


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool says; with `is_error` it is an explanation of what went wrong.

    `notes` belong into a second text.
    """

    text: str
    is_error: bool = False
    notes: tuple[str, ...] = ()


class Tools:
    """Tools of Cortex, open to be listed and called.

    Calls may block, and threads may make them at once.
    """

    def __init__(
        self, families: Sequence[Family], engines: EnginePool, shelves: ChunkIndexPool
    ) -> None:
        self._families = tuple(families)
        self._engines, self._shelves = engines, shelves

    def definitions(self) -> list[dict[str, object]]:
        """Every tool as MCP's `tools/list` has it."""
        return [
            {
                "name": spell(tool.name),
                "title": tool.title,
                "description": tool.description,
                "inputSchema": dict(input_schema(tool)),
                "annotations": {
                    "readOnlyHint": not tool.writes,
                    "destructiveHint": tool.destructive,
                    "idempotentHint": tool.idempotent,
                    "openWorldHint": tool.open_world,
                },
            }
            for family in self._families
            for tool in family.tools
        ]

    def call(self, name: str, arguments: Mapping[str, object] | None = None) -> ToolAnswer:
        """Call a tool.

        Raises: InputError for an unknown tool or arguments that don't fit; CortexError, where the
        tool's contract has an error of the request for it instead of an answer.
        """
        family, tool = find_tool(self._families, name)
        answer = perform(family, tool, bind(tool, arguments), Call())
        if answer.error is not None and answer.fault is not None:
            raise answer.error
        return ToolAnswer(answer.text, answer.failed, answer.notes)

    def close(self) -> None:
        """Close everything that the tools work on."""
        for family in self._families:
            family.close()
        self._shelves.close()
        self._engines.close()

    def __enter__(self) -> Tools:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_tools(*names: str, root: str | Path = ".", writes: bool = False) -> Tools:
    """The tools of these families, "code", "chunks", "kb", "memory" or "team", over the project at
    `root` and what is the person's.

    The team's search asks the others that are named beside it. Tools that change something are
    among them only with `writes`. The index of code is kept fresh while they are open. Raises:
    InputError for an unknown family; FileError and ConfigError, where chunk files are asked for and
    can't be served.
    """
    unknown = [name for name in names if name not in FAMILIES]
    if unknown or not names:
        told = f"unknown family {unknown[0]!r}" if unknown else "no family is named"
        raise InputError("ARGUMENT_INVALID", f"{told}; known: {', '.join(FAMILIES)}")
    folder = Path(root).resolve()
    found = (Workspace(folder, _settings_of(folder)),)
    engines, shelves = engine_pool(keep=True), ChunkIndexPool()
    families: list[Family] = []
    try:
        for name in sorted(names, key=lambda name: name == "team"):  # last: it searches the others
            families.append(_open(name, found, engines, shelves, families, writes))
    except CortexError:
        Tools(families, engines, shelves).close()
        raise
    return Tools(list_once(families), engines, shelves)


def _open(
    name: str,
    found: Sequence[Workspace],
    engines: EnginePool,
    shelves: ChunkIndexPool,
    beside: Sequence[Family],
    writes: bool,
) -> Family:
    match name:
        case "code":
            family = code.open_family(found, engines, read_only=not writes)
            family.context.start()
            return family
        case "chunks":
            return chunks.open_family(found, shelves)
        case "memory":
            from cortex.families.memory import tools as memory

            person = _settings_of(None)
            return memory.open_family(person, engines, found[0].root, person.memory.scope)
        case "team":
            from cortex.families.team import tools as team

            return team.open_family(
                _settings_of(None), engines, found, list(beside), read_only=not writes
            )
    from cortex.families.documents import tools as kb

    return kb.open_family(_settings_of(None), engines)


def _settings_of(root: Path | None) -> Settings:
    return load(root, environment=environment())
