"""Fields of a memory by what is done with them: shown, scanned for secrets, screened by a policy.

A field of text or a list of texts belongs into each of these rows that applies to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from cortex.base.types import Memory

LISTS = ("facts", "concepts", "files")
# Fields that answers show of every memory.
CONTENT = ("title", "subtitle", "facts", "concepts")
# Fields that are limited in size and may not hold a secret.
WRITTEN = ("title", "subtitle", *LISTS, "text")
# Fields of other products' rows from which secrets are removed.
REDACTED = ("title", "subtitle", "project", "kind", "text", *LISTS)
# Fields that the write policy of plugins sees.
SCREENED = ("title", "subtitle", "text", "facts", "concepts")


def values_of(memory: Memory, names: Iterable[str]) -> dict[str, object]:
    """Fields of a memory as JSON."""
    values = ((name, getattr(memory, name)) for name in names)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


def texts_of(memory: Memory, names: Iterable[str]) -> list[str]:
    """All texts in these fields, in order."""
    values = (getattr(memory, name) for name in names)
    return [text for value in values for text in ([value] if isinstance(value, str) else value)]


def map_texts(memory: Memory, names: Iterable[str], change: Callable[[str, str], str]) -> Memory:
    """Copy of a memory in which `change`, called with name and text, has changed these fields."""
    values = {name: getattr(memory, name) for name in names}
    changed = {
        name: change(name, value)
        if isinstance(value, str)
        else tuple(change(name, text) for text in value)
        for name, value in values.items()
    }
    return replace(memory, **changed)
