"""Settings that a tool changed for all users of an index, until a person ends the override.

They are stored with the index and take precedence over files. Converts between text and values; the
caller stores the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from cortex.base.errors import ConfigError
from cortex.base.settings.model import Settings


@dataclass(frozen=True, slots=True)
class Override:
    """Overriding values, with their author and time (RFC 3339)."""

    settings: Mapping[str, object] = field(default_factory=dict)
    by: str = ""
    since: str = ""

    def as_text(self) -> str:
        """Encode for storage."""
        return json.dumps({"settings": dict(self.settings), "by": self.by, "since": self.since})

    def in_words(self) -> str:
        """Describe the override in one line."""
        values = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
        return f"{values}, set by {self.by} at {self.since}"


def read_override(text: str) -> Override | None:
    """Decode a stored override; None where there is none or it isn't valid."""
    try:
        content = json.loads(text) if text else None
        return (
            Override(dict(content["settings"]), str(content["by"]), str(content["since"]))
            if content
            else None
        )
    except (ValueError, KeyError, TypeError):
        return None


def apply_override(settings: Settings, override: Override | None) -> Settings:
    """Apply an override to settings.

    One that is no longer allowed is ignored as a whole, with a warning.
    """
    if override is None or not override.settings:
        return settings
    try:
        return settings.changed(override.settings)
    except ConfigError as error:
        warning = (
            f"what update_config set doesn't count any more: {error.message}; "
            "end it with `cortex config end-override`"
        )
        return settings.model_copy(update={"warnings": (*settings.warnings, warning)})
