"""Words for agents, as data: the server's instructions, what each family says of itself, and prompt
templates.

The texts are Markdown files beside this module. Templates know `{{name}}` and `{{#if
name}}…{{/if}}`, nothing more; a template engine would be a dependency for two constructs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

INSTRUCTIONS_BYTES = 2048  # clients cut longer instructions off


def text(name: str) -> str:
    """A text by name, without surrounding blank lines."""
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8").strip()


def instructions(parts: Sequence[str]) -> str:
    """The server's instructions: an opening, then what each family says, whole parts only and under
    2 KB.
    """
    kept = text("server")
    for part in parts:
        longer = f"{kept}\n\n{part.strip()}"
        if part.strip() and len(longer.encode()) < INSTRUCTIONS_BYTES:
            kept = longer
    return kept


def fill(template: str, values: Mapping[str, str]) -> str:
    """A template with its blanks filled in; sections without a value, and the blank lines they
    leave, are gone.
    """
    kept = re.sub(
        r"\{\{#if (\w+)\}\}\n?(.*?)\{\{/if\}\}\n?",
        lambda section: section[2] if values.get(section[1], "").strip() else "",
        template,
        flags=re.DOTALL,
    )
    # One pass over the template: a value that looks like a blank is text, not a blank.
    filled = re.sub(
        r"\{\{(\w+)\}\}", lambda blank: values.get(blank[1], ""), re.sub(r"\n{3,}", "\n\n", kept)
    )
    return filled.strip()
