"""Chunks family: one read-only tool that searches the chunk files of an indexer."""

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
    """True if a workspace has a folder with chunk files, valid or not."""
    try:
        return bool(list_chunk_files(chunks_dir(workspace.root, workspace.settings)).files)
    except FileError:
        return False


def open_family(workspaces: Sequence[Workspace], pool: ChunkIndexPool) -> Family:
    """Open the family over the chunk files of these workspaces, with indexes from the pool.

    Workspaces without chunk files are skipped if any has some.

    Raises: FileError or ConfigError if there is nothing to serve; NetworkError if an embedder is
    required and doesn't answer.
    """
    session = ChunkSession(pool)
    failures: list[CortexError] = []
    directories: set[Path] = set()
    for workspace in workspaces:
        try:
            directory = chunks_dir(workspace.root, workspace.settings)
            if directory not in directories:
                directories.add(directory)
                session.add(pool.borrow(directory, workspace.settings))
        except CortexError as error:
            failures.append(error)
    if failures and not session.indexes:
        raise failures[0]
    warnings = [
        *(index.warning for index in session.indexes),
        *(error.message for error in failures),
    ]
    return Family(
        name="chunks",
        instructions=instructions.text("chunks"),
        context=session,
        tools=TOOLS,
        fault=fault_of,
        warnings=tuple(warning for warning in warnings if warning),
        close=session.close,
        places=lambda: nullcontext((place_of(session),)),
    )
