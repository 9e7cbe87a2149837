"""Select memories by ids or filters for curation. Only reads.

A filter selects exactly what it names: a promoted memory counts in every project, but belongs to
one. Text must match with every word, so that a bulk decision never rests on a ranking.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cortex.base.errors import InputError
from cortex.base.paths import root_text
from cortex.base.text import words_of
from cortex.engine.library import Library
from cortex.engine.search.query_parser import STOP_WORDS
from cortex.engine.store import OWN, MemoryFilter, Remembered, stem_of
from cortex.families.memory.databases import databases
from cortex.families.memory.ids import find_memory
from cortex.families.memory.index_text import text_of

ALL, ANY, UNCURATED = "all", "any", "uncurated"
# Name of our own origin, which has no file.
OURS = "own"
# Memories that are named in a message.
MAX_NAMED = 5

_KEY_PREFIX = re.compile(r"mem_[0-9a-f]{4,9}")


@dataclass(frozen=True, slots=True)
class Filter:
    """Criteria for memories; empty fields don't filter."""

    states: tuple[str, ...] = (ALL,)
    project: str = ""
    scope: str = ""
    tags: tuple[str, ...] = ()
    kind: str = ""
    # "own", or the path of a database.
    origin: str = ""
    # Words that must all occur.
    matching: str = ""
    # Created before this time, in milliseconds since 1970.
    before: int = 0


def choose(library: Library, wanted: Filter, limit: int = -1) -> tuple[list[Remembered], int]:
    """Select the newest matching memories, and count all matching ones.

    Raises: InputError ARGUMENT_INVALID.
    """
    filters, lookup = _store_filter(library, wanted), library.store.memories
    stems = [
        stem_of(word) for word in dict.fromkeys(words_of(wanted.matching)) if word not in STOP_WORDS
    ]
    if not stems:
        if wanted.matching.strip():
            raise InputError(
                "ARGUMENT_INVALID", f"{wanted.matching!r} has no word that could be looked for"
            )
        with library.store.reading():
            return lookup.select(filters, limit), lookup.count(filters)
    records = lookup.select(filters, keep=lambda record: _has_words(record, stems))
    return records[: limit if limit >= 0 else None], len(records)


def named(library: Library, ids: Sequence[str]) -> list[Remembered]:
    """Look up memories by ids, without repeats.

    Raises: InputError MEMORY_UNKNOWN or MEMORY_AMBIGUOUS.
    """
    records = (find_by_id_or_prefix(library, memory_id) for memory_id in ids)
    return list({record.ref: record for record in records}.values())


def find_by_id_or_prefix(library: Library, memory_id: str) -> Remembered:
    """Look up a memory by its id; for our own, an unambiguous prefix of four characters will do.

    Raises: InputError MEMORY_UNKNOWN or MEMORY_AMBIGUOUS.
    """
    try:
        return find_memory(library, memory_id)
    except InputError as error:
        if error.code != "MEMORY_UNKNOWN" or not _KEY_PREFIX.fullmatch(memory_id.strip()):
            raise
        matches = library.store.memories.by_beginning(OWN, memory_id.strip(), MAX_NAMED)
        if not matches:
            raise
    if len(matches) > 1:
        names = ", ".join(f"{record.memory.key} ({record.memory.title[:60]})" for record in matches)
        keys = [record.memory.key for record in matches]
        raise InputError(
            "MEMORY_AMBIGUOUS",
            f"{memory_id.strip()!r} may be one of several: {names}",
            context={"id": memory_id.strip(), "candidates": keys},
        )
    return matches[0]


def _store_filter(library: Library, wanted: Filter) -> MemoryFilter:
    return MemoryFilter(
        origins=_origins(library, wanted.origin),
        states=_states(wanted.states, library.settings.memory.uncurated),
        projects=(wanted.project,) if wanted.project else (),
        scope=wanted.scope,
        tags=wanted.tags,
        kind=wanted.kind,
        promoted=False,
        before=wanted.before,
    )


def _states(names: Sequence[str], uncurated: str) -> tuple[str, ...]:
    """State names as stored: "" for memories without a decision, () for any state."""
    states: list[str] = []
    for name in names:
        if name == ANY:
            return ()
        if name == UNCURATED:
            states.append("")
            continue
        included = ("staging", "approved", "promoted") if name == ALL else (name,)
        included = (*included, "promoted") if name == "approved" else included
        states += [*included, *([""] if uncurated in included else [])]
    return tuple(dict.fromkeys(states))


def _origins(library: Library, origin: str) -> tuple[str, ...]:
    present = [database.origin for database in databases(library.settings)]
    if not origin:
        return OWN, *present
    if origin == OURS:
        return (OWN,)
    real = root_text(Path(os.path.realpath(os.path.expanduser(origin))))
    if real not in present:
        known = ", ".join((OURS, *present))
        raise InputError("ARGUMENT_INVALID", f"no memories come from {origin!r}; known: {known}")
    return (real,)


def _has_words(record: Remembered, stems: Sequence[str]) -> bool:
    text = text_of(record.memory).casefold()
    return all(stem in text for stem in stems)
