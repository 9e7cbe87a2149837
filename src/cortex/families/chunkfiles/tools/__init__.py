"""The chunks family: one tool, a search over the chunk files that an indexer wrote, read-only."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from cortex.base.errors import CortexError, FileError
from cortex.base.settings import Workspace
from cortex.families.chunkfiles.format import list_chunk_files
from cortex.families.chunkfiles.index import chunks_dir
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.families.chunkfiles.tools.definitions import NAME, TOOLS, ChunkSession, fault_of
from cortex.families.chunkfiles.tools.search_target import place_of
from cortex.toolkit import instructions
from cortex.toolkit.tool import Family

__all__ = ["NAME", "TOOLS", "has_chunks", "open_family"]


def has_chunks(workspace: Workspace) -> bool:
    """Whether a workspace has a folder with chunk files, whatever is in them."""
    try:
        return bool(list_chunk_files(chunks_dir(workspace.root, workspace.settings)).files)
    except FileError:
        return False


def open_family(found: Sequence[Workspace], shelves: ChunkIndexPool) -> Family:
    """The family over the chunk files of these workspaces, whose shelves are lent by `shelves`.

    Several may have none, as long as one has. Raises: FileError and ConfigError, where there is
    nothing to serve; NetworkError, where an embedder is required and can't be asked.
    """
    opened = ChunkSession(shelves)
    failures: list[CortexError] = []
    directories: set[Path] = set()
    for one in found:
        try:
            directory = chunks_dir(one.root, one.settings)
            if directory not in directories:
                directories.add(directory)
                opened.add(shelves.borrow(directory, one.settings))
        except CortexError as error:
            failures.append(error)
    if failures and not opened.shelves:
        raise failures[0]
    warnings = [
        *(shelf.warning for shelf in opened.shelves),
        *(error.message for error in failures),
    ]
    return Family(
        name="chunks",
        instructions=instructions.text("chunks"),
        context=opened,
        tools=TOOLS,
        fault=fault_of,
        warnings=tuple(warning for warning in warnings if warning),
        close=opened.close,
        places=lambda: nullcontext((place_of(opened),)),
    )
