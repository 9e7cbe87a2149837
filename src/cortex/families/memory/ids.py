"""What a memory is known by: its key, and with several databases its scope before it; and the
memory that an id means.

A key is told alone while it can only mean one memory: our own and those that a database names
itself ("ack_abc123_2026-01-04_001"); "obs_12" is one of each database. Where two databases have the
same scope, the second one's is told with its folder: "ack@claude-mem". An id is taken with or
without its scope.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from cortex.base.errors import InputError
from cortex.base.secret_scanner import redact
from cortex.engine.library import Library
from cortex.engine.store import OWN, Judgement, Remembered
from cortex.families.memory.adapters.claude_mem import ClaudeMemDatabase as Opened
from cortex.families.memory.adapters.claude_mem import ClaudeMemRow
from cortex.families.memory.databases import MemoryDatabase, databases
from cortex.families.memory.mirror import behind, without_secrets
from cortex.families.memory.states import is_forgotten
from cortex.families.memory.uncopied_rows import glimpse

COUNTED = re.compile(r"(?:obs|mem)_-?\d+")
MAX_COLONS = 8  # of an id, behind which its key may begin
MAX_NAMED = 5  # of those that an id may mean, in a message


def told_id(one: Remembered, present: Sequence[MemoryDatabase]) -> str:
    """What a memory is called in answers."""
    if (
        len(present) < 2
        or one.origin == OWN
        or not (one.shared or COUNTED.fullmatch(one.memory.key))
    ):
        return one.memory.key
    return _full_id(one, present)


def _full_id(one: Remembered, present: Sequence[MemoryDatabase]) -> str:
    return f"{_scope(one, present)}:{one.memory.key}"


def _scope(one: Remembered, present: Sequence[MemoryDatabase]) -> str:
    """The scope of a memory, with the folder of its database where another one has the same."""
    database = next((each for each in present if each.origin == one.origin), None)
    if database is None or database.scope:
        return one.scope
    first = next(each for each in present if not each.scope)
    taken = database != first or one.scope.casefold() in {each.scope.casefold() for each in present}
    return f"{one.scope}@{database.path.parent.name.lstrip('.')}" if taken else one.scope


def find_memory(library: Library, told: str, scope: str = "") -> Remembered:
    """The memory that an id means. Raises: InputError MEMORY_UNKNOWN or MEMORY_AMBIGUOUS."""
    present = databases(library.settings)
    told = told.strip()
    found = _known(library, told, present)
    colons = [at for at, character in enumerate(told) if character == ":"]
    for at in reversed(colons[-MAX_COLONS:]):  # a key may have some, and a scope too
        found = found or _of(_known(library, told[at + 1 :], present), told[:at], present)
    if scope and found:
        elsewhere, found = found, _of(found, scope, present)
        if not found:
            scopes = ", ".join(
                dict.fromkeys(_scope(memory, present) for memory in elsewhere[:MAX_NAMED])
            )
            raise InputError(
                "MEMORY_UNKNOWN",
                f"there is no memory {told[:100]!r} in scope {scope[:100]!r}; it is in: {scopes}",
                context={"id": told[:100], "scope": scope[:100]},
            )
    if not found:
        raise InputError(
            "MEMORY_UNKNOWN", f"there is no memory {told[:100]!r}", context={"id": told[:100]}
        )
    if len(found) > 1:
        ids = [_full_id(one, present) for one in found]
        names = [
            f"{known} ({one.memory.title[:60]})" for known, one in zip(ids, found, strict=True)
        ]
        raise InputError(
            "MEMORY_AMBIGUOUS",
            f"{told[:100]!r} may be one of {len(found)}: {', '.join(names[:MAX_NAMED])}",
            context={"id": told[:100], "candidates": ids},
        )
    return found[0]


def _of(
    found: Sequence[Remembered], scope: str, present: Sequence[MemoryDatabase]
) -> list[Remembered]:
    """Those of a scope: as it is told, else as it may be meant."""
    asked = scope.casefold()
    told = [one for one in found if asked == _scope(one, present).casefold()]
    return told or [
        one
        for one in found
        if asked
        in (one.scope.casefold(), one.memory.project.casefold(), one.other_project.casefold())
    ]


def _known(library: Library, key: str, present: Sequence[MemoryDatabase]) -> list[Remembered]:
    """The memories with this key; a row that isn't copied yet is read where it is."""
    lookup = library.store.remembered
    found = lookup.by_key(key, {OWN, *(one.origin for one in present)})
    have = {one.origin for one in found}

    def look(database: MemoryDatabase, opened: Opened) -> Remembered | None:
        row = opened.row(key)
        if row is None or is_forgotten(row.memory, lookup.forgotten(database.origin)):
            return None
        return uncopied(row, database, lookup.judgements(database.origin, [key]).get(key))

    others = [one for one in behind(library) if one.origin not in have]
    return found + [one for one in glimpse(others, look) if one is not None]


def uncopied(row: ClaudeMemRow, database: MemoryDatabase, judged: Judgement | None) -> Remembered:
    """A row of a database as if it had been copied."""
    memory = without_secrets(row.memory)
    # It was about another row, which had this key
    if judged is not None and judged.made not in (0, memory.created):
        judged = None
    scope = database.scope or memory.project
    one = Remembered(
        0,
        database.origin,
        row.number,
        None,
        row.state,
        memory,
        redact(row.other_project)[0],
        scope,
        b"",
        b"",
        judged,
    )
    return one if judged is None else replace(one, state=judged.state)
