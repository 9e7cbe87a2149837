"""Direct reads from other products' databases while a caller waits for an answer.

All databases together get one second, even if one is locked. Frequently needed rows are copied
(mirror.py); this is for rows without a copy, and for sessions, which are never copied.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from cortex.base.errors import CortexError
from cortex.families.memory.adapters.claude_mem import ClaudeMemDatabase, open_database
from cortex.families.memory.databases import MemoryDatabase

ANSWER_SECONDS = 1.0

Result = TypeVar("Result")


def glimpse(
    present: Iterable[MemoryDatabase],
    look: Callable[[MemoryDatabase, ClaudeMemDatabase], Result],
    *,
    report: Callable[[str], None] = lambda problem: None,
    seconds: float = ANSWER_SECONDS,
) -> Iterator[Result]:
    """Yield the result of `look` for each database.

    A database that can't be read in time is reported through `report` with the reason.
    """
    deadline = time.monotonic() + seconds
    for database in present:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            report(f"{database.path} was not looked into, the others took too long: ask again")
            continue
        try:
            with open_database(database.path, seconds=remaining) as opened:
                seen = look(database, opened)
        except CortexError as error:
            report(error.message)
        else:
            yield seen
