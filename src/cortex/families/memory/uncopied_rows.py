"""A look into other products' databases while somebody waits for an answer: all of them together
get a second, whoever locks one.

What is asked often is copied (mirror.py); this is for the rest: rows that aren't copied yet, and
sessions, which never are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from cortex.base.errors import CortexError
from cortex.families.memory.adapters.claude_mem import ClaudeMemDatabase as Opened
from cortex.families.memory.adapters.claude_mem import open_database
from cortex.families.memory.databases import MemoryDatabase

ANSWER_SECONDS = 1.0

Seen = TypeVar("Seen")


def glimpse(
    present: Iterable[MemoryDatabase],
    look: Callable[[MemoryDatabase, Opened], Seen],
    *,
    tell: Callable[[str], None] = lambda problem: None,
    seconds: float = ANSWER_SECONDS,
) -> Iterator[Seen]:
    """What is seen in each of these databases; of one that can't be read in time it is told why."""
    deadline = time.monotonic() + seconds
    for database in present:
        left = deadline - time.monotonic()
        if left <= 0:
            tell(f"{database.path} was not looked into, the others took too long: ask again")
            continue
        try:
            with open_database(database.path, seconds=left) as opened:
                seen = look(database, opened)
        except CortexError as error:
            tell(error.message)
        else:
            yield seen
