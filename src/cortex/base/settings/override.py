"""Settings that a tool changed for everybody who uses an index: kept with the index, over what
files say, until a person ends it.

Text to and from values; where it is kept is the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from cortex.base.errors import ConfigError
from cortex.base.settings.model import Settings


@dataclass(frozen=True, slots=True)
class Override:
    """What counts in place of what the files say, who set it last, and when (RFC 3339)."""

    settings: Mapping[str, object] = field(default_factory=dict)
    by: str = ""
    since: str = ""

    def as_text(self) -> str:
        """As it is kept."""
        return json.dumps({"settings": dict(self.settings), "by": self.by, "since": self.since})

    def in_words(self) -> str:
        """One line for people."""
        values = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
        return f"{values}, set by {self.by} at {self.since}"


def read_override(text: str) -> Override | None:
    """What was kept, None for nothing, or for what is none."""
    try:
        found = json.loads(text) if text else None
        return (
            Override(dict(found["settings"]), str(found["by"]), str(found["since"]))
            if found
            else None
        )
    except (ValueError, KeyError, TypeError):
        return None


def apply_override(settings: Settings, override: Override | None) -> Settings:
    """The settings with an override; of one that isn't allowed any more nothing counts, and a
    warning says so.
    """
    if override is None or not override.settings:
        return settings
    try:
        return settings.changed(override.settings)
    except ConfigError as error:
        warning = f"what update_config set doesn't count any more: {error.message}; end it with `cortex config end-override`"
        return settings.model_copy(update={"warnings": (*settings.warnings, warning)})
