"""The kb family: read-only tools, a resource and a prompt over the user's documents."""

from __future__ import annotations

from functools import partial

from cortex.base.settings import Settings
from cortex.engine.library_session import LibrarySession
from cortex.engine.pool import EnginePool
from cortex.families.documents.tools.definitions import TOOLS, fault_of, tools_for
from cortex.families.documents.tools.resources import PROMPTS, RESOURCES
from cortex.families.documents.tools.search_target import targets_of
from cortex.toolkit import instructions
from cortex.toolkit.tool import Family

__all__ = ["PROMPTS", "RESOURCES", "TOOLS", "LibrarySession", "open_family"]


def open_family(settings: Settings, engines: EnginePool) -> Family:
    """Open the family over the user's documents; the library opens in the background."""
    context = LibrarySession(settings, engines)
    context.start()
    return Family(
        name="kb",
        instructions=instructions.text("kb"),
        context=context,
        tools=tools_for(settings),
        resources=RESOURCES,
        prompts=PROMPTS,
        fault=fault_of,
        close=context.close,
        places=partial(context.places, targets_of),
    )
