"""The memory family: four read-only tools over earlier learnings."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from cortex.base.settings import Settings
from cortex.engine.pool import EnginePool
from cortex.families.memory.tools.definitions import TOOLS
from cortex.families.memory.tools.render import error_text
from cortex.families.memory.tools.search_target import place_of
from cortex.families.memory.tools.session import MemorySession
from cortex.toolkit import instructions
from cortex.toolkit.tool import Family

__all__ = ["TOOLS", "MemorySession", "open_family"]


def open_family(settings: Settings, engines: EnginePool, folder: Path, scope: str) -> Family:
    """Open the family for a client that works in `folder`."""
    context = MemorySession(settings, engines, folder, scope)
    context.start()
    return Family(
        name="memory",
        instructions=instructions.text("memory"),
        context=context,
        tools=TOOLS,
        render_error=error_text,
        close=context.close,
        places=partial(context.places, lambda library: [place_of(library)]),
    )
