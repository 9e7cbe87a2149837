"""Texts for agents: the server's instructions, each family's part of them, prompt templates.

The texts are Markdown files beside this module. Templates know `{{name}}` and `{{#if
name}}…{{/if}}`, nothing more; a template engine would be a dependency for two constructs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

# Clients cut longer instructions off.
INSTRUCTIONS_BYTES = 2048


def text(name: str) -> str:
    """Read a text by name, without surrounding blank lines."""
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8").strip()


def instructions(parts: Sequence[str]) -> str:
    """Join the server's instructions: an opening and the families' parts, whole and under 2 KB."""
    kept = text("server")
    for part in parts:
        longer = f"{kept}\n\n{part.strip()}"
        if part.strip() and len(longer.encode()) < INSTRUCTIONS_BYTES:
            kept = longer
    return kept


def fill(template: str, values: Mapping[str, str]) -> str:
    """Fill a template; sections without a value are removed, with the blank lines they leave."""
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
