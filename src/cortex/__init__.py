"""Cortex: a local context engine for coding agents.

    from cortex import Engine, Query, open_engine

    with open_engine("path/to/repository") as engine:
        engine.index()
        for hit in engine.search(Query("where are passwords checked?")).hits:
            print(hit.path, hit.start_line, hit.relevance)

Tools for an MCP server of your own, and chunk files that an indexer wrote: `open_tools`,
`open_chunks`.

Importing the package loads nothing heavy; names are looked up when they are used.
"""

from __future__ import annotations

# Type checkers treat this name like typing.TYPE_CHECKING; importing `typing` would take longer
# than everything else in this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from cortex.base.errors import CortexError
    from cortex.base.types import Entry, Hit, IndexReport, Mode, Note, Page, Query
    from cortex.engine.engine import Engine
    from cortex.interfaces.assembly.sdk import (
        ChunkResult,
        Chunks,
        ToolAnswer,
        Tools,
        open_chunks,
        open_tools,
    )

    __version__: str

__all__ = [
    "ChunkResult",
    "Chunks",
    "CortexError",
    "Engine",
    "Entry",
    "Hit",
    "IndexReport",
    "Mode",
    "Note",
    "Page",
    "Query",
    "ToolAnswer",
    "Tools",
    "open_chunks",
    "open_engine",
    "open_tools",
]

_HOMES = {
    "Engine": "cortex.engine.engine",
    "CortexError": "cortex.base.errors",
    **dict.fromkeys(
        ("ChunkResult", "Chunks", "ToolAnswer", "Tools", "open_chunks", "open_tools"),
        "cortex.interfaces.assembly.sdk",
    ),
}


def open_engine(root: str | Path) -> Engine:
    """Open the engine of a folder, with the settings that apply there."""
    from pathlib import Path

    from cortex.base.settings import environment, load
    from cortex.engine.engine import Engine

    folder = Path(root).resolve()
    return Engine(folder, load(folder, environment=environment()))


def __getattr__(name: str) -> object:
    """Import a public name from its module on first use."""
    if name == "__version__":
        from cortex.base.runtime.home import VERSION

        return VERSION
    if name not in __all__:
        raise AttributeError(f"module 'cortex' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES.get(name, "cortex.base.types")), name)
