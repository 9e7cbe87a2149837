"""What contributors write in each round, and what must be there after any number of writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

# The name of a write, and which records it makes besides notifications and links.
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


def made_by(writes: int) -> Counter[str]:
    """The records that so many writes make, by kind."""
    found: Counter[str] = Counter()
    for number in range(writes):
        found.update(ROUND[number % len(ROUND)][1])
    return found
