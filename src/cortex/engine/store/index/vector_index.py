"""Vector backends: the interfaces that files (`vector_file.py`) and a server of vectors implement.

A backend stores rows by chunk id and finds the nearest ones. What else search or embedding needs
is derived from that here, once for all backends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cortex.base.errors import NetworkError
from cortex.base.types import Stamp
from cortex.engine.store.index.vector_scan import Floats, Ids, unit

# Rows of an index in the precision that it stores.
Rows = NDArray[np.floating[Any]]
# Watermark of an empty index.
FRESH = -1
# Cached means of ranges, a kilobyte each.
MEANS = 20_000


@dataclass(frozen=True, slots=True)
class VectorState:
    """State that a search depends on: equal states give equal answers."""

    # The `seq` up to which the index is complete.
    watermark: int
    # Approximate memory in this process in bytes; dead rows count until a rewrite.
    memory: int
    # The same for one row.
    row_bytes: int
    # Changes with every write.
    version: object


class VectorIndex(Protocol):
    """Vectors of one embedder in any backend: one writer, any number of searchers.

    An index on a server may raise VectorServerAway from any method but `look` and `close`.
    """

    def look(self) -> VectorState:
        """Load what another process has written since, if it can be reached; return the state."""
        ...

    def add(self, ids: Ids, vectors: Floats) -> None:
        """Add rows; an existing id is replaced.

        Raises: ValueError for a negative id, a wrong shape or a value that isn't a finite number.
        """
        ...

    def remove(self, ids: Ids) -> None:
        """Remove rows; unknown ids are ignored."""
        ...

    def sync(self, watermark: int, *, compact: bool = False) -> None:
        """Make all changes durable, then mark the index complete up to `watermark`.

        With `compact` nothing of removed rows is left.
        """
        ...

    def search(self, vector: Floats, k: int, allowed: Ids | None = None) -> list[tuple[int, float]]:
        """The `k` nearest ids as (id, cosine), best first, ties by id.

        Restricted to `allowed` if that is given.
        """
        ...

    def rows(self, ids: Ids) -> tuple[Ids, Rows]:
        """Those of these ids that have a row, ascending, and their rows as they are stored."""
        ...

    def ids(self, among: Ids | None = None) -> Ids:
        """All ids in the index, or those of `among` in it, ascending."""
        ...

    def close(self) -> None:
        """Close files and release memory; changes that were not synced are lost."""
        ...


class VectorServer(Protocol):
    """Server that stores the vector indexes of stores, each known by its identity."""

    @property
    def away(self) -> str:
        """Reason why the server can't be asked now, "" if it can or a retry is due."""
        ...

    def open(self, store: str, stamp: Stamp) -> VectorIndex:
        """Open a store's index of an embedder; the server isn't asked."""
        ...

    def watermarks(self, store: str) -> list[tuple[Stamp, int]]:
        """Indexes of a store that were ever complete, with their watermarks.

        Raises: VectorServerAway.
        """
        ...

    def keep_only(self, store: str, stamps: Collection[Stamp]) -> None:
        """Delete the indexes that a store has of other embedders.

        Raises: VectorServerAway.
        """
        ...

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        ...


class VectorServerAway(NetworkError):
    """A server of vectors can't be asked; lexical search can answer."""


def cosines(index: VectorIndex, vector: Floats, ids: Ids) -> dict[int, float]:
    """Cosine of each of these ids' rows to `vector`; ids without a row are omitted."""
    return dict(index.search(vector, len(ids), ids))


def lacking(index: VectorIndex, ids: Ids) -> Ids:
    """Those of these ids without a row, ascending."""
    wanted = np.unique(np.asarray(ids, dtype=np.int64))
    is_lacking = np.ones(len(wanted), dtype=np.bool_)
    is_lacking[np.searchsorted(wanted, index.ids(wanted))] = False
    return wanted[is_lacking]


def checked_rows(stamp: Stamp, ids: Ids, vectors: Floats) -> Floats:
    """Normalize rows to length 1.

    Raises: ValueError for a negative id, a wrong shape or a value that isn't a finite number.
    """
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.shape != (len(ids), stamp.dimensions):
        raise ValueError(
            f"expected {len(ids)} vectors of {stamp.dimensions} dimensions, got the shape "
            f"{rows.shape}"
        )
    if len(ids) and np.min(ids) < 0:
        raise ValueError("an id is negative; chunk ids count from 1")
    return unit(rows)


def checked_query(stamp: Stamp, vector: Floats) -> Floats:
    """Normalize a query to length 1. Raises: ValueError for a wrong shape."""
    return unit(np.asarray(vector, dtype=np.float32).reshape(1, stamp.dimensions))[0]


class RangeMeans:
    """Mean rows of id ranges of one index, cached: an id always stands for the same content."""

    def __init__(self, stamp: Stamp) -> None:
        self._stamp = stamp
        self._means: dict[tuple[int, int], Floats] = {}

    def clear(self) -> None:
        """Forget all means."""
        self._means = {}

    def cosines(
        self, index: VectorIndex, vector: Floats, ranges: Sequence[tuple[int, int]]
    ) -> list[float]:
        """Cosine of the mean row of each id range (both ends included), 0 if it has no rows."""
        query = checked_query(self._stamp, vector)
        if len(self._means) > MEANS:
            self._means = {}
        known = self._means
        unknown = [ends for ends in ranges if ends not in known]
        means = self._compute(index, unknown) if unknown else {}
        # Without a row that is missing, a mean stays what it is.
        known.update({ends: mean for ends, (mean, whole) in means.items() if whole})
        table = [known[ends] if ends in known else means[ends][0] for ends in ranges]
        return np.round(np.asarray(table, dtype=np.float32) @ query, 4).tolist() if table else []

    def _compute(
        self, index: VectorIndex, ranges: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], tuple[Floats, bool]]:
        """Mean row of each range, normalized to length 1, and whether no row is missing."""
        wanted = [np.arange(first, last + 1, dtype=np.int64) for first, last in ranges]
        ids, rows = index.rows(np.concatenate(wanted))
        means: dict[tuple[int, int], tuple[Floats, bool]] = {}
        for first, last in ranges:
            start, stop = np.searchsorted(ids, first), np.searchsorted(ids, last, side="right")
            total = rows[start:stop].astype(np.float64).sum(axis=0, keepdims=True)
            means[first, last] = unit(total.astype(np.float32))[0], stop - start == last - first + 1
        return means
