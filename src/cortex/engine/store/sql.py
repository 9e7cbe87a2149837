"""SQL helpers for many values: placeholders, and batches that fit one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def marks(values: Sequence[object]) -> str:
    """Comma-separated placeholders, one per value."""
    return ",".join("?" * len(values))


def parts(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the values in order, in batches of at most `size`."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
