"""Mapping from curation states to the search sources of a memory.

Each origin has two sources, shown and staged; some states are in neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cortex.base.types import Memory, MemoryState
from cortex.engine.library import Library
from cortex.engine.store import SHOWN, STAGED, MemoryVerdict, Remembered

_NAMES = {
    MemoryState.STAGING: STAGED,
    MemoryState.APPROVED: SHOWN,
    MemoryState.PROMOTED: SHOWN,
    MemoryState.REJECTED: None,
    MemoryState.SUPERSEDED: None,
}


def name_of(state: MemoryState | None, uncurated: str) -> str | None:
    """Name of the source that a memory is indexed in, None for no source.

    `uncurated` is the state that memories without a decision count as.
    """
    return _NAMES[MemoryState(uncurated) if state is None else state]


def verdict_of(library: Library, record: Remembered, state: MemoryState) -> MemoryVerdict:
    """Verdict that gives a memory a state, and with it the source that it is indexed in."""
    return MemoryVerdict(record.ref, state, name_of(state, library.settings.memory.uncurated))


def supersessions(records: Iterable[Remembered], successor: str) -> list[MemoryVerdict]:
    """Verdicts that mark memories as superseded by the memory with this key."""
    return [
        MemoryVerdict(record.ref, MemoryState.SUPERSEDED, None, successor) for record in records
    ]


def is_forgotten(memory: Memory, forgotten: Mapping[str, int]) -> bool:
    """True if this row was forgotten, and isn't a later row that reuses its key."""
    return forgotten.get(memory.key, -1) in (0, memory.created)
