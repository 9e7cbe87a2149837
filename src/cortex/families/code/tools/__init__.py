"""Code family: search and context over code workspaces, as tools, resources and prompts."""

from __future__ import annotations

from collections.abc import Sequence

from cortex.base.settings import Workspace
from cortex.engine.pool import EnginePool
from cortex.families.code.tools.definitions import TOOLS
from cortex.families.code.tools.resources import PROMPTS, RESOURCES
from cortex.families.code.tools.session import Workspaces
from cortex.toolkit import instructions
from cortex.toolkit.tool import Family

__all__ = ["PROMPTS", "RESOURCES", "TOOLS", "Workspaces", "open_family"]


def open_family(
    workspaces: Sequence[Workspace], engines: EnginePool, *, read_only: bool = False
) -> Family:
    """Open the family over these workspaces, with engines borrowed from `engines`."""
    context = Workspaces(workspaces, engines)
    return Family(
        name="code",
        instructions=instructions.text("code"),
        context=context,
        tools=tuple(tool for tool in TOOLS if not (read_only and tool.writes)),
        resources=RESOURCES,
        prompts=PROMPTS,
        close=context.close,
        places=context.places,
    )
