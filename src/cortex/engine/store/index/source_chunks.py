"""The chunks of whole sources, kept in memory by source: who may see which sources differs, the
chunks of a source don't.

A search among some sources by meaning needs all their chunks. Looked up for each choice anew that
takes longer than the search, after every write and for every viewer; put together from what is
known of each source it doesn't. Knows nothing of who asks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from cortex.engine.store.connections import Connections
from cortex.engine.store.sql import parts

Ids = npt.NDArray[np.int64]

# Chunks that may be added to what is known, before all of it is looked up again
LEAST_GROWN = 1_000
PART = 500  # sources that are looked up at once

_RANGES = "SELECT docs.source, first_chunk, last_chunk FROM docs JOIN blobs ON blobs.id = docs.blob WHERE NOT private AND "


class SourceChunks:
    """What is known of each source."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._lock = threading.Lock()
        self._known: dict[int, tuple[int, Ids]] = {}  # by source: up to which `seq`, and its chunks
        self._grown = 0  # chunks that were added since all was looked up

    def of(self, sources: Sequence[int], seq: int) -> Ids:
        """The chunks of these sources at `seq`, ascending.

        What has gone meanwhile may be among them: it has no vector, or is elsewhere.
        """
        with self._lock:
            self._follow(
                [one for one in sources if one in self._known and self._known[one][0] < seq], seq
            )
            missing = [source for source in sources if source not in self._known]
            for part in parts(missing, PART):
                self._look_up(part, seq)
            found = [self._known[one][1] for one in sources]
        # They are in order, each
        ids = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *found]), kind="stable")
        return ids[np.concatenate((np.ones(1, dtype=bool), ids[1:] != ids[:-1]))[: len(ids)]]

    def _follow(self, behind: Sequence[int], seq: int) -> None:
        """Add what was written since; where that is much, much may be gone as well, and everything
        is forgotten.
        """
        if not behind:
            return
        since = min(self._known[one][0] for one in behind)
        with self._connections.read() as connection:
            new = _by_source(connection.execute(f"{_RANGES}docs.seq > ?", (since,)))
        self._grown += sum(len(new[one]) for one in behind if one in new)
        if self._grown > max(LEAST_GROWN, sum(len(ids) for _, ids in self._known.values()) // 4):
            self._known, self._grown = {}, 0
            return
        for one in behind:
            ids = self._known[one][1]
            self._known[one] = (seq, np.union1d(ids, new[one]) if one in new else ids)

    def _look_up(self, sources: Sequence[int], seq: int) -> None:
        marks = ",".join("?" * len(sources))
        with self._connections.read() as connection:
            found = _by_source(connection.execute(f"{_RANGES}docs.source IN ({marks})", sources))
        nothing = np.empty(0, dtype=np.int64)
        self._known |= {source: (seq, found.get(source, nothing)) for source in sources}


def _by_source(rows: Iterable[tuple[int, int, int]]) -> dict[int, Ids]:
    ranges: dict[int, set[tuple[int, int]]] = {}
    for source, first, last in rows:
        ranges.setdefault(source, set()).add((first, last))
    return {
        source: expand(*np.array(list(some), dtype=np.int64).T) for source, some in ranges.items()
    }


def expand(firsts: Ids, lasts: Ids) -> Ids:
    """Every id of these ranges, ascending."""
    counts = lasts - firsts + 1
    if not counts.sum():
        return np.empty(0, dtype=np.int64)
    # All ranges at once: each id is the one before plus one, but for the first of a range.
    starts = np.repeat(firsts - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
    return np.sort(starts + np.arange(len(starts), dtype=np.int64))
