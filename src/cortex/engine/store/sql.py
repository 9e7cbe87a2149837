"""SQL helpers for many values: placeholders, and batches that fit one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from cortex.engine.store.connection import Connection

T = TypeVar("T")

# Values in one statement.
BATCH = 500


def marks(values: Sequence[object]) -> str:
    """Comma-separated placeholders, one per value."""
    return ",".join("?" * len(values))


def parts(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the values in order, in batches of at most `size`."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def rows_in(
    connection: Connection,
    query: str,
    values: Sequence[object],
    *,
    before: Sequence[object] = (),
    after: Sequence[object] = (),
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query for many values, batch by batch.

    `(?*)` in the query stands for the values, `before` and `after` are its other parameters.
    """
    for part in parts(values, BATCH):
        statement = query.replace("(?*)", f"({marks(part)})")
        yield from connection.execute(statement, (*before, *part, *after))
