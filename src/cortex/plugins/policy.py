"""What plugins say of a text before it is written, for every write of one library.

The plugins start with the first text that they are asked about, and end with the library; where the
settings name none but those that come with Cortex, which judge nothing, there is no policy and no
cost. What comes from a Core isn't asked about: it was written there, under the Core's own policy.
Road not taken: a check in each way in, of which one was always forgotten.
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
_turn = threading.Lock()
_warnings: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


class Policy:
    """The plugins that may have a say in what is written."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins

    def screen(self, text: str) -> Screening:
        """What the plugins make of a text; their warnings are kept for `plugin_warnings`.

        Raises: ConfigError PLUGIN_UNUSABLE, where one can't be asked.
        """
        found = self._plugins.preflight(text)
        if found.unusable:
            raise ConfigError(
                "PLUGIN_UNUSABLE",
                f"{found.reason}, and it may have a say in what is written: nothing was written",
                context={"plugin": found.unusable},
                instead=(
                    f"Mend the plugin {found.unusable}, or have a person turn it off: without it in the setting team.plugins, or with"
                    f" plugins.{found.unusable}.enabled: false, in $CORTEX_HOME/config.yml; then restart Cortex.",
                ),
            )
        if (heard := _warnings.get()) is not None:
            heard += (warning for warning in found.warnings if warning not in heard)
        return found

    def screened(self, text: str, field: str) -> str:
        """The text as it may be written. Raises: InputError SENSITIVE_BLOCKED; as `screen`."""
        return allowed(self.screen(text), field)


def allowed(found: Screening, field: str) -> str:
    """The text that a verdict lets be written.

    Raises: InputError SENSITIVE_BLOCKED with the plugin's reason.
    """
    if found.allowed:
        return found.text
    raise InputError(
        "SENSITIVE_BLOCKED",
        f"{field}: {found.reason}",
        context={"field": field},
        instead=("Say it without what the plugin refuses; nothing was written.",),
    )


def policy_of(library: Library) -> Policy | None:
    """The policy of a library's writes, None where no plugin may have one."""
    with _turn:
        if (known := _policies.get(library)) is not None:
            return known
        settings = library.settings
        enabled = enabled_by(settings.team.plugins, settings.families.get("plugins"))
        strangers = {name: own for name, own in enabled.items() if name not in BUILT_IN}
        if not strangers:
            return None
        plugins = Plugins(strangers)
        library.at_close(plugins.close)
        _policies[library] = policy = Policy(plugins)
        return policy


@contextmanager
def plugin_warnings() -> Iterator[list[str]]:
    """What plugins warn of while something is written inside the block."""
    heard: list[str] = []
    before = _warnings.set(heard)
    try:
        yield heard
    finally:
        _warnings.reset(before)
