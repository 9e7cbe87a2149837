"""The writes of a contributor's round, and the records that any number of writes must leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

# The name of each write, and the records that it makes besides notifications and links.
ROUND: tuple[tuple[str, Mapping[str, int]], ...] = (
    ("observe", {"observation": 1}),
    ("open", {"thread": 1}),
    ("say", {"comment": 1}),
    ("draft", {"draft": 1}),
    ("approve", {"comment": 1}),
    ("plan", {"task": 1}),
    ("block", {}),
    ("batch", {"observation": 2}),
    ("sum up", {"comment": 1}),
    ("decide", {"artifact": 1}),
    ("propose", {"draft": 1}),
    ("reject", {}),
    ("resolve", {}),
)


def key_of(number: int) -> str:
    """The key of a write."""
    return f"write-{number}"


def records_after(writes: int) -> Counter[str]:
    """The number of records that so many writes make, by kind."""
    counts: Counter[str] = Counter()
    for number in range(writes):
        counts.update(ROUND[number % len(ROUND)][1])
    return counts
