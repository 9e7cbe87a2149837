"""Public ids of memories, and the lookup of a memory by its id.

A key alone is an id while it can only mean one memory: our own keys, and those that a database
assigns itself ("ack_abc123_2026-01-04_001"). "obs_12" may exist in every database, so with several
databases the id has the scope in front of the key. Where two databases have the same scope, the
second one's gets its folder: "ack@claude-mem". Ids are accepted with or without the scope.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from cortex.base.errors import InputError
from cortex.base.secret_scanner import redact
from cortex.engine.library import Library
from cortex.engine.store import OWN, Judgement, Remembered
from cortex.families.memory.adapters.claude_mem import ClaudeMemDatabase, ClaudeMemRow
from cortex.families.memory.databases import MemoryDatabase, databases, origins_of
from cortex.families.memory.mirror import behind, without_secrets
from cortex.families.memory.states import is_forgotten
from cortex.families.memory.uncopied_rows import glimpse

COUNTED = re.compile(r"(?:obs|mem)_-?\d+")
# Colons of an id that are tried as the start of its key.
MAX_COLONS = 8
# Candidates that are named in a message.
MAX_NAMED = 5


def display_id(record: Remembered, present: Sequence[MemoryDatabase]) -> str:
    """Id of a memory as shown in answers."""
    if (
        len(present) < 2
        or record.origin == OWN
        or not (record.shared or COUNTED.fullmatch(record.memory.key))
    ):
        return record.memory.key
    return _full_id(record, present)


def _full_id(record: Remembered, present: Sequence[MemoryDatabase]) -> str:
    return f"{_scope(record, present)}:{record.memory.key}"


def _scope(record: Remembered, present: Sequence[MemoryDatabase]) -> str:
    """The scope of a memory, with the folder of its database where another one has the same."""
    database = next((candidate for candidate in present if candidate.origin == record.origin), None)
    if database is None or database.scope:
        return record.scope
    first = next(candidate for candidate in present if not candidate.scope)
    taken = database != first or record.scope.casefold() in {
        candidate.scope.casefold() for candidate in present
    }
    return f"{record.scope}@{database.path.parent.name.lstrip('.')}" if taken else record.scope


def find_memory(library: Library, memory_id: str, scope: str = "") -> Remembered:
    """Look up a memory by its id. Raises: InputError MEMORY_UNKNOWN or MEMORY_AMBIGUOUS."""
    present = databases(library.settings)
    memory_id = memory_id.strip()
    matches = _by_key(library, memory_id, present)
    colons = [at for at, character in enumerate(memory_id) if character == ":"]
    # Both a key and a scope may contain colons.
    for at in reversed(colons[-MAX_COLONS:]):
        matches = matches or _in_scope(
            _by_key(library, memory_id[at + 1 :], present), memory_id[:at], present
        )
    if scope and matches:
        elsewhere, matches = matches, _in_scope(matches, scope, present)
        if not matches:
            known = dict.fromkeys(_scope(record, present) for record in elsewhere[:MAX_NAMED])
            raise InputError(
                "MEMORY_UNKNOWN",
                f"there is no memory {memory_id[:100]!r} in scope {scope[:100]!r}; it is in: "
                f"{', '.join(known)}",
                context={"id": memory_id[:100], "scope": scope[:100]},
            )
    if not matches:
        raise InputError(
            "MEMORY_UNKNOWN",
            f"there is no memory {memory_id[:100]!r}",
            context={"id": memory_id[:100]},
        )
    if len(matches) > 1:
        ids = [_full_id(record, present) for record in matches]
        names = [
            f"{full_id} ({record.memory.title[:60]})"
            for full_id, record in zip(ids, matches, strict=True)
        ]
        raise InputError(
            "MEMORY_AMBIGUOUS",
            f"{memory_id[:100]!r} may be one of {len(matches)}: {', '.join(names[:MAX_NAMED])}",
            context={"id": memory_id[:100], "candidates": ids},
        )
    return matches[0]


def _in_scope(
    records: Sequence[Remembered], scope: str, present: Sequence[MemoryDatabase]
) -> list[Remembered]:
    """Filter by scope: as shown in ids, else by scope or project name."""
    wanted = scope.casefold()
    exact = [record for record in records if wanted == _scope(record, present).casefold()]

    def names(record: Remembered) -> tuple[str, ...]:
        return record.scope, record.memory.project, record.other_project

    return exact or [record for record in records if wanted in map(str.casefold, names(record))]


def _by_key(library: Library, key: str, present: Sequence[MemoryDatabase]) -> list[Remembered]:
    """Memories with this key; rows without a copy are read from their database."""
    lookup = library.store.memories
    records = lookup.by_key(key, origins_of(present))
    known_origins = {record.origin for record in records}

    def look(database: MemoryDatabase, opened: ClaudeMemDatabase) -> Remembered | None:
        row = opened.row(key)
        if row is None or is_forgotten(row.memory, lookup.forgotten(database.origin)):
            return None
        return uncopied(row, database, lookup.judgements(database.origin, [key]).get(key))

    others = [database for database in behind(library) if database.origin not in known_origins]
    return records + [record for record in glimpse(others, look) if record is not None]


def uncopied(row: ClaudeMemRow, database: MemoryDatabase, judged: Judgement | None) -> Remembered:
    """Convert a row of a database to the record that its copy would be."""
    memory = without_secrets(row.memory)
    # The judgement was about another row that had this key.
    if judged is not None and judged.made not in (0, memory.created):
        judged = None
    scope = database.scope or memory.project
    record = Remembered(
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
    return record if judged is None else replace(record, state=judged.state)
