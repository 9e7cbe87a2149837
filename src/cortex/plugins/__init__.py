"""Plugins: other people's code that adds to context packs, brings observations and judges what is
written.

`interface` is what an author sees, `running` what Cortex calls, `hosts` and `child` the process
between them, `builtin_git_history` and `builtin_coldstart` the plugins that come with Cortex, `policy` what all of
them say of a text before it is written.
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
    # A plugin's process imports this package too and needs none of the other side.
    if name in __all__:
        from cortex.plugins import registry

        return getattr(registry, name)
    raise AttributeError(name)
