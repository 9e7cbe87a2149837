"""The chunks family: one tool, a search over the chunk files that an indexer wrote, read-only."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from cortex import guide
from cortex.errors import CortexError, FileError
from cortex.families.chunks.tools import NAME, TOOLS, Shelved, fault_of
from cortex.settings import Workspace
from cortex.shelf import chunks_dir
from cortex.shelf.shelves import Shelves
from cortex.sources.chunkfiles import list_chunk_files
from cortex.tools import Family

__all__ = ["NAME", "TOOLS", "has_chunks", "open_family"]

log = logging.getLogger(__name__)


def has_chunks(workspace: Workspace) -> bool:
    """Whether a workspace has a folder with chunk files, whatever is in them."""
    try:
        return bool(list_chunk_files(chunks_dir(workspace.root, workspace.settings)).files)
    except FileError:
        return False


def open_family(found: Sequence[Workspace], shelves: Shelves) -> Family:
    """The family over the chunk files of these workspaces, whose shelves are lent by `shelves`.

    Several may have none, as long as one has. Raises: FileError and ConfigError, where there is nothing to serve; NetworkError, where an
    embedder is required and can't be asked.
    """
    opened = Shelved(shelves)
    first: CortexError | None = None
    directories: set[Path] = set()
    for workspace in found:
        directory = chunks_dir(workspace.root, workspace.settings)
        if directory in directories:
            continue
        directories.add(directory)
        try:
            opened.add(shelves.borrow(directory, workspace.settings))
        except CortexError as error:
            if first is not None or len(found) > 1:
                log.warning("%s", error.message)
            first = first or error
    if not opened.shelves and first is not None:
        raise first
    return Family(
        name="chunks",
        instructions=guide.text("chunks"),
        context=opened,
        tools=TOOLS,
        fault=fault_of,
        close=opened.close,
    )
