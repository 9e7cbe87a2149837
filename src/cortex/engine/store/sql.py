"""SQL helpers for many values: placeholders, and batches that fit one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def marks(values: Sequence[object]) -> str:
    """As many marks as there are values."""
    return ",".join("?" * len(values))


def parts(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The values in their order, at most `size` at a time."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
