"""Plugins: third-party code that adds to context packs, observes, and screens writes.

Modules: `api` (for authors), `registry` (for Cortex), `host_process` and `child_process` (the
process of a plugin), `builtin_git_history` and `builtin_coldstart` (plugins that come with Cortex),
`policy` (screening of a text before it is written).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex.plugins.api import (
    Context,
    Line,
    Observation,
    Plugin,
    Redaction,
    Section,
    Subject,
    Verdict,
)

if TYPE_CHECKING:
    from cortex.plugins.registry import Plugins, PluginState, ProcessLimits, Screening, enabled_by

__all__ = [
    "Context",
    "Line",
    "Observation",
    "Plugin",
    "PluginState",
    "Plugins",
    "ProcessLimits",
    "Redaction",
    "Screening",
    "Section",
    "Subject",
    "Verdict",
    "enabled_by",
]


def __getattr__(name: str) -> object:
    # A plugin's process imports this package too, and needs nothing of the host side.
    if name in __all__:
        from cortex.plugins import registry

        return getattr(registry, name)
    raise AttributeError(name)
