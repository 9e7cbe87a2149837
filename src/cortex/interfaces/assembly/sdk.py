"""Python API: Cortex's chunk search and tools inside another program.

For programs that have an MCP server of their own. Knows no MCP library: a tool is described as the
JSON of `tools/list` and answers with text, which every library can carry. What `cortex mcp` does
besides (a shared process, an address) stays there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cortex.base.errors import CortexError, InputError
from cortex.base.settings import Settings, Workspace, environment, load
from cortex.base.types import Entry
from cortex.families import FAMILIES
from cortex.families.chunkfiles.index import ChunkIndex, ChunkQuery, ChunkSearchResult
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.families.chunkfiles.tools.definitions import answer_text, result_text
from cortex.interfaces.assembly.families import TEAM, ServeRequest, SharedResources, open_family
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

# Largest number of results of a chunk search.
MOST = 100


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """A chunk and its relevance, from 0 to 1."""

    chunk: Entry
    combined_score: float


class Chunks:
    """Searchable chunk files of a folder; changed files are seen while it is open.

    Threads may share it.
    """

    def __init__(self, shelf: ChunkIndex) -> None:
        self._index = shelf

    def search(
        self,
        query: str,
        *,
        limit: int = 15,
        min_score: float = 0.0,
        tags: Iterable[str] = (),
        chunk_types: Iterable[str] = (),
    ) -> list[ChunkResult]:
        """Return chunks with any of `chunk_types` and all `tags`, best first.

        Raises: InputError for an empty query; LimitError; NetworkError, where an embedder is
        required and fails.
        """
        page = self._find(query, limit, min_score, tags, chunk_types)
        return [ChunkResult(entry, score) for entry, score in page.results]

    def answer(
        self,
        query: str,
        *,
        limit: int = 15,
        min_score: float = 0.0,
        tags: Iterable[str] = (),
        chunk_types: Iterable[str] = (),
    ) -> str:
        """Search like `search`, and return the JSON text that `cortex_search` answers with."""
        page = self._find(query, limit, min_score, tags, chunk_types)
        return answer_text([result_text(entry, score) for entry, score in page.results])

    def _find(
        self,
        query: str,
        limit: int,
        min_score: float,
        tags: Iterable[str],
        chunk_types: Iterable[str],
    ) -> ChunkSearchResult:
        return self._index.search(
            ChunkQuery(
                query,
                max(1, min(MOST, limit)),
                min_score,
                tuple(dict.fromkeys(tags)),
                tuple(dict.fromkeys(chunk_types)),
            )
        )

    def close(self) -> None:
        """Stop following the files."""
        self._index.close()

    def __enter__(self) -> Chunks:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_chunks(directory: str | Path, *, watch: bool = True) -> Chunks:
    """Open the chunk files in `directory`, with the settings of its project.

    Raises: FileError and ConfigError, where there is nothing to search; NetworkError, where an
    embedder is required and can't be reached.
    """
    folder = Path(directory).resolve()
    index = ChunkIndex(
        folder,
        _settings_of(folder.parent.parent if folder.parent.name == ".cortex" else None),
        watch=watch,
    )
    try:
        index.start()
    except BaseException:
        index.close()
        raise
    return Chunks(index)


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """Result of a tool; with `is_error` it is an explanation of what went wrong.

    `notes` belong into a second text.
    """

    text: str
    is_error: bool = False
    notes: tuple[str, ...] = ()


class Tools:
    """Cortex's tools, to be listed and called.

    Calls may block, and threads may make them at once.
    """

    def __init__(self, families: Sequence[Family], resources: SharedResources) -> None:
        self._families = tuple(families)
        self._resources = resources

    def definitions(self) -> list[dict[str, object]]:
        """Return every tool in the form of MCP's `tools/list`."""
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

        Raises: InputError for an unknown tool or invalid arguments; CortexError, where the tool's
        contract requires an error of the request instead of a result.
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
        self._resources.close()

    def __enter__(self) -> Tools:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_tools(*names: str, root: str | Path = ".", writes: bool = False) -> Tools:
    """Open the tools of these families: "code", "chunks", "kb", "memory" or "team".

    They work on the project at `root` and on the user's home. The team's search includes the other
    families that are named. Tools that change something are included only with `writes`. The index
    of code is kept fresh while they are open.

    Raises: InputError for an unknown family; FileError and ConfigError, where chunk files are
    requested and can't be served.
    """
    unknown = [name for name in names if name not in FAMILIES]
    if unknown or not names:
        problem = f"unknown family {unknown[0]!r}" if unknown else "no family is named"
        raise InputError("ARGUMENT_INVALID", f"{problem}; known: {', '.join(FAMILIES)}")
    folder = Path(root).resolve()
    workspaces, person = (Workspace(folder, _settings_of(folder)),), _settings_of(None)
    request = ServeRequest(names, workspaces, person, person.memory.scope, folder, ())
    resources = SharedResources(engine_pool(keep=True), ChunkIndexPool())
    families: list[Family] = []
    try:
        for name in names:
            if name != TEAM:
                families.append(open_family(name, request, resources, read_only=not writes))
        if TEAM in names:
            from cortex.families.team import tools as team

            # The last one, because it searches the others.
            beside = tuple(families)
            families.append(
                team.open_family(
                    person, resources.engines, workspaces, beside, read_only=not writes
                )
            )
    except CortexError:
        Tools(families, resources).close()
        raise
    return Tools(list_once(families), resources)


def _settings_of(root: Path | None) -> Settings:
    return load(root, environment=environment())
