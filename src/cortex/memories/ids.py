"""What a memory is known by: its key, and with several databases its scope before it; and the memory that an id means.

A key is told alone while it can only mean one memory: our own and those that a database names itself ("ack_abc123_2026-01-04_001");
"obs_12" is one of each database. An id is taken with or without its scope.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cortex.errors import CortexError, InputError
from cortex.library import Library
from cortex.memories.places import Database, databases
from cortex.sources.foreign.claudemem import Row, open_database
from cortex.store import OWN, Remembered
from cortex.types import Memory

COUNTED = re.compile(r"obs_\d+")
MAX_NAMED = 5  # of those that an id may mean, in a message


def told_id(one: Remembered, present: Sequence[Database]) -> str:
    """What a memory is called in answers."""
    if len(present) < 2 or one.origin == OWN or not COUNTED.fullmatch(one.memory.key):
        return one.memory.key
    return f"{one.scope}:{one.memory.key}"


def find_memory(library: Library, told: str, scope: str = "") -> Remembered:
    """The memory that an id means. Raises: InputError MEMORY_UNKNOWN or MEMORY_AMBIGUOUS."""
    present = databases(library.settings)
    told = told.strip()
    found = _known(library, told, present)
    before, colon, key = told.rpartition(":")
    if not found and colon:
        found = [one for one in _known(library, key, present) if _is_of(one, before)]
    if scope and len(found) > 1:
        found = [one for one in found if _is_of(one, scope)] or found
    if not found:
        raise InputError("MEMORY_UNKNOWN", f"there is no memory {told[:100]!r}", context={"id": told[:100]})
    if len(found) > 1:
        names = [f"{one.scope}:{one.memory.key} ({one.memory.title[:60]})" for one in found]
        raise InputError(
            "MEMORY_AMBIGUOUS",
            f"{told[:100]!r} may be one of {len(found)}: {', '.join(names[:MAX_NAMED])}",
            context={"id": told[:100], "candidates": [f"{one.scope}:{one.memory.key}" for one in found]},
        )
    return found[0]


def _is_of(one: Remembered, scope: str) -> bool:
    return scope.casefold() in (one.scope.casefold(), one.memory.project.casefold(), one.other_project.casefold())


def _known(library: Library, key: str, present: Sequence[Database]) -> list[Remembered]:
    """The memories with this key; a row that isn't copied yet is read where it is."""
    origins = {OWN, *(one.origin for one in present)}
    found = library.store.remembered.by_key(key, origins)
    have = {one.origin for one in found}
    for database in present:
        if database.origin not in have and key not in library.store.remembered.forgotten(database.origin):
            try:
                with open_database(database.path) as opened:
                    row = opened.row(key)
            except CortexError:  # the answer is about another one
                continue
            if row is not None:
                found.append(uncopied(row, database))
    return found


def uncopied(row: Row, database: Database) -> Remembered:
    """A row of a database as if it had been copied."""
    from cortex.memories.mirror import without_secrets

    memory: Memory = without_secrets(row.memory)
    scope = database.scope or memory.project
    return Remembered(0, database.origin, row.number, None, row.state, memory, row.other_project, scope, b"", b"", None)
