"""Tools of the team family: search with all other families, and safe contributions.

What agents write waits for a person's approval, unless the settings say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cortex.base.settings import Settings, Workspace
from cortex.engine.pool import EnginePool
from cortex.families.team.tools.definitions import TOOLS
from cortex.families.team.tools.plugins import open_plugins
from cortex.families.team.tools.render import error_text
from cortex.families.team.tools.session import TeamSession
from cortex.toolkit import instructions
from cortex.toolkit.tool import Family

__all__ = ["TOOLS", "TeamSession", "open_family"]


def open_family(
    settings: Settings,
    engines: EnginePool,
    workspaces: Sequence[Workspace],
    beside: Sequence[Family] = (),
    hidden: Sequence[Family] = (),
    missing: Mapping[str, str] | None = None,
    *,
    read_only: bool = False,
) -> Family:
    """Open the family for a client that works in these workspaces.

    It searches the families `beside` it, and those that are `hidden`: opened for it alone, and
    closed with it. `missing` maps families that could not be opened to the reason.
    """
    others = {family.name: family for family in (*beside, *hidden)}
    plugins = open_plugins(settings, workspaces[0].root if workspaces else None)
    served = [family.name for family in beside]
    context = TeamSession(settings, engines, workspaces, others, served, plugins, missing or {})
    context.start()

    def close() -> None:
        context.close()
        for family in hidden:
            family.close()

    return Family(
        name="team",
        instructions=instructions.text("team"),
        context=context,
        tools=tuple(tool for tool in TOOLS if not (read_only and tool.writes)),
        render_error=error_text,
        close=close,
    )
