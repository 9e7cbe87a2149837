"""Which memories a person means: by ids, or by what they have in common. Only reads.

A filter takes what it says and nothing more: what was promoted counts in every project, but belongs
to one. Text that is looked for must be there with every word, so that a decision about hundreds
never rests on a ranking.
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
OURS = "own"  # how an origin is named that has no file
MAX_NAMED = 5  # memories in a message

_BEGINNING = re.compile(r"mem_[0-9a-f]{4,9}")


@dataclass(frozen=True, slots=True)
class Filter:
    """What memories have in common; what is empty doesn't narrow."""

    states: tuple[str, ...] = (ALL,)
    project: str = ""
    scope: str = ""
    tags: tuple[str, ...] = ()
    kind: str = ""
    origin: str = ""  # "own", or a database's path
    matching: str = ""  # every word of it
    before: int = 0  # made before that millisecond


def choose(library: Library, wanted: Filter, limit: int = -1) -> tuple[list[Remembered], int]:
    """The newest of those that are wanted, and how many there are.

    Raises: InputError ARGUMENT_INVALID.
    """
    asked, lookup = _wanted(library, wanted), library.store.remembered
    stems = [
        stem_of(word) for word in dict.fromkeys(words_of(wanted.matching)) if word not in STOP_WORDS
    ]
    if not stems:
        if wanted.matching.strip():
            raise InputError(
                "ARGUMENT_INVALID", f"{wanted.matching!r} has no word that could be looked for"
            )
        with library.store.reading():
            return lookup.select(asked, limit), lookup.count(asked)
    found = lookup.select(asked, keep=lambda one: _says(one, stems))
    return found[: limit if limit >= 0 else None], len(found)


def named(library: Library, ids: Sequence[str]) -> list[Remembered]:
    """The memories with these ids, each once.

    Raises: InputError MEMORY_UNKNOWN or MEMORY_AMBIGUOUS.
    """
    return list({one.ref: one for one in (find_told(library, told) for told in ids)}.values())


def find_told(library: Library, told: str) -> Remembered:
    """The memory that an id means; of one of our own four letters of its number are enough, where
    no other begins so.

    Raises: InputError MEMORY_UNKNOWN or MEMORY_AMBIGUOUS.
    """
    try:
        return find_memory(library, told)
    except InputError as error:
        if error.code != "MEMORY_UNKNOWN" or not _BEGINNING.fullmatch(told.strip()):
            raise
        found = library.store.remembered.by_beginning(OWN, told.strip(), MAX_NAMED)
        if not found:
            raise
    if len(found) > 1:
        names = ", ".join(f"{one.memory.key} ({one.memory.title[:60]})" for one in found)
        raise InputError(
            "MEMORY_AMBIGUOUS",
            f"{told.strip()!r} may be one of several: {names}",
            context={"id": told.strip(), "candidates": [one.memory.key for one in found]},
        )
    return found[0]


def _wanted(library: Library, wanted: Filter) -> MemoryFilter:
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
    """The states as they are written: what nobody has judged is ""; none is whatever state."""
    found: list[str] = []
    for name in names:
        if name == ANY:
            return ()
        if name == UNCURATED:
            found.append("")
            continue
        meant = ("staging", "approved", "promoted") if name == ALL else (name,)
        meant = (*meant, "promoted") if name == "approved" else meant
        found += [*meant, *([""] if uncurated in meant else [])]
    return tuple(dict.fromkeys(found))


def _origins(library: Library, told: str) -> tuple[str, ...]:
    present = [database.origin for database in databases(library.settings)]
    if not told:
        return OWN, *present
    if told == OURS:
        return (OWN,)
    real = root_text(Path(os.path.realpath(os.path.expanduser(told))))
    if real not in present:
        known = ", ".join((OURS, *present))
        raise InputError("ARGUMENT_INVALID", f"no memories come from {told!r}; known: {known}")
    return (real,)


def _says(one: Remembered, stems: Sequence[str]) -> bool:
    text = text_of(one.memory).casefold()
    return all(stem in text for stem in stems)
