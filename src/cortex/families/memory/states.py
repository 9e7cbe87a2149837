"""What a state means for being found: which of an origin's two sources a memory is in, if any; and
what is in none for good.
"""

from __future__ import annotations

from collections.abc import Mapping

from cortex.base.types import Memory, MemoryState
from cortex.engine.store import SHOWN, STAGED

_NAMES = {
    MemoryState.STAGING: STAGED,
    MemoryState.APPROVED: SHOWN,
    MemoryState.PROMOTED: SHOWN,
    MemoryState.REJECTED: None,
    MemoryState.SUPERSEDED: None,
}


def name_of(state: MemoryState | None, uncurated: str) -> str | None:
    """The source that a memory is found in, None: none; `uncurated` is what one counts as that
    nobody has judged.
    """
    return _NAMES[MemoryState(uncurated) if state is None else state]


def is_forgotten(memory: Memory, forgotten: Mapping[str, int]) -> bool:
    """Whether a row is one that somebody had forgotten, and not another one that has its key by
    now.
    """
    return forgotten.get(memory.key, -1) in (0, memory.created)
