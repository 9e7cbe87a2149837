"""Plugin policy: screening of every text by plugins before a library writes it.

The plugins start with the first text and end with the library. Where the settings name none but
those that come with Cortex, which don't screen, there is no policy and no cost. Changes from a Core
aren't screened: they were written there, under the Core's own policy. Road not taken: a check at
each entry point, of which one was always forgotten.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakKeyDictionary

from cortex.base.errors import ConfigError, InputError
from cortex.engine.library import Library
from cortex.plugins.registry import BUILT_IN, Plugins, Screening, enabled_by

_policies: WeakKeyDictionary[Library, Policy] = WeakKeyDictionary()
_lock = threading.Lock()
_warnings: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


class Policy:
    """The plugins that screen what is written."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins

    def screen(self, text: str) -> Screening:
        """Screen a text with all plugins; their warnings are collected by `plugin_warnings`.

        Raises: ConfigError PLUGIN_UNUSABLE, where one can't be asked.
        """
        screening = self._plugins.preflight(text)
        if screening.unusable:
            raise ConfigError(
                "PLUGIN_UNUSABLE",
                f"{screening.reason}, and it may have a say in what is written: nothing was "
                "written",
                context={"plugin": screening.unusable},
                instead=(
                    f"Mend the plugin {screening.unusable}, or have a person turn it off: "
                    "without it in the setting team.plugins, or with"
                    f" plugins.{screening.unusable}.enabled: false, in $CORTEX_HOME/config.yml; "
                    "then restart Cortex.",
                ),
            )
        if (collected := _warnings.get()) is not None:
            collected += (warning for warning in screening.warnings if warning not in collected)
        return screening

    def screened(self, text: str, field: str) -> str:
        """Return the text as it may be written.

        Raises: InputError SENSITIVE_BLOCKED; as `screen`.
        """
        return allowed(self.screen(text), field)


def allowed(screening: Screening, field: str) -> str:
    """Return the text of a screening that allows it.

    Raises: InputError SENSITIVE_BLOCKED with the plugin's reason.
    """
    if screening.allowed:
        return screening.text
    raise InputError(
        "SENSITIVE_BLOCKED",
        f"{field}: {screening.reason}",
        context={"field": field},
        instead=("Say it without what the plugin refuses; nothing was written.",),
    )


def policy_of(library: Library) -> Policy | None:
    """Return the policy for a library's writes, None where no plugin screens them."""
    with _lock:
        if (existing := _policies.get(library)) is not None:
            return existing
        settings = library.settings
        enabled = enabled_by(settings.team.plugins, settings.families.get("plugins"))
        third_party = {name: config for name, config in enabled.items() if name not in BUILT_IN}
        if not third_party:
            return None
        plugins = Plugins(third_party)
        library.at_close(plugins.close)
        _policies[library] = policy = Policy(plugins)
        return policy


@contextmanager
def plugin_warnings() -> Iterator[list[str]]:
    """Collect the warnings of plugins about texts that are written inside the block."""
    collected: list[str] = []
    token = _warnings.set(collected)
    try:
        yield collected
    finally:
        _warnings.reset(token)
