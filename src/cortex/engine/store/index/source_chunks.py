"""In-memory cache of the chunk ids of whole sources, and of filters.

A semantic search in some sources needs all their chunks. Looking them up for each combination of
sources would take longer than the search, after every write and for every viewer; combining the
cached ids of each source doesn't. Knows nothing of access control: the visible sources differ by
viewer, the chunks of a source don't.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np

from cortex.engine.store.connections import Connections
from cortex.engine.store.index.lexical import SearchFilter, extension_of
from cortex.engine.store.index.vector_scan import Ids
from cortex.engine.store.sql import marks, parts

# Chunks that may be added to the cache before everything is looked up again.
LEAST_GROWN = 1_000
# Sources or docs looked up at once.
PART = 500
# Up to this many docs in a filter are looked up by id.
FEW_DOCS = 20_000
# Filters with cached chunk ids, beside the newest.
WITHIN = 7

_RANGES = (
    "SELECT docs.source, first_chunk, last_chunk FROM docs JOIN blobs ON blobs.id = docs.blob "
    "WHERE NOT private AND "
)


class SourceChunks:
    """Cache of chunk ids by source and by filter."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._lock = threading.Lock()
        # By source: (seq, ids of its chunks).
        self._known: dict[int, tuple[int, Ids]] = {}
        # Chunks added since everything was looked up.
        self._grown = 0
        # By filter: (seq, ids of the matching chunks).
        self._filtered: dict[SearchFilter, tuple[int, Ids]] = {}

    def of(self, sources: Sequence[int], seq: int) -> Ids:
        """Chunk ids of these sources at `seq`, ascending.

        May include removed chunks: those have no vector, or are in another source now.
        """
        with self._lock:
            self._add_new(
                [
                    source
                    for source in sources
                    if source in self._known and self._known[source][0] < seq
                ],
                seq,
            )
            missing = [source for source in sources if source not in self._known]
            for part in parts(missing, PART):
                self._look_up(part, seq)
            chunks = [self._known[source][1] for source in sources]
        # A stable sort merges these sorted arrays cheaply.
        ids = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *chunks]), kind="stable")
        return ids[np.concatenate((np.ones(1, dtype=bool), ids[1:] != ids[:-1]))[: len(ids)]]

    def within(self, scope: SearchFilter, seq: int) -> Ids:
        """Chunk ids that match a filter at `seq`; cached, since filters are used repeatedly."""
        cache = self._filtered
        known = cache.get(scope)
        if known is not None and known[0] == seq:
            return known[1]
        whole = not (scope.extensions or scope.languages or scope.docs is not None)
        chunks = self.of(scope.sources, seq) if whole else self._filter(scope)
        kept = {key: ids for key, ids in list(cache.items())[-WITHIN:] if ids[0] == seq}
        self._filtered = {**kept, scope: (seq, chunks)}
        return chunks

    def _filter(self, scope: SearchFilter) -> Ids:
        by_language = (
            f" AND blobs.language IN ({marks(scope.languages)})" if scope.languages else ""
        )
        query = (
            "SELECT docs.id, docs.path, first_chunk, last_chunk FROM docs "
            "JOIN blobs ON blobs.id = docs.blob "
            f"WHERE docs.source IN ({marks(scope.sources)}){by_language} AND NOT private"
        )
        values = (*scope.sources, *scope.languages)
        with self._connections.read() as connection:
            if scope.docs is None or len(scope.docs) > FEW_DOCS:
                rows = connection.execute(query, values).fetchall()
            else:
                # Looked up by id: a source may have a hundred times as many docs.
                docs, rows = sorted(scope.docs), []
                for part in parts(docs, PART):
                    batch_query = f"{query} AND docs.id IN ({marks(part)})".replace(
                        "docs.source", "+docs.source"
                    )
                    rows += connection.execute(batch_query, (*values, *part)).fetchall()
        ranges = {
            (first, last)
            for doc, path, first, last in rows
            if (scope.docs is None or doc in scope.docs)
            and (not scope.extensions or extension_of(path) in scope.extensions)
        }
        return expand(*np.asarray(sorted(ranges), dtype=np.int64).reshape(-1, 2).T)

    def _add_new(self, behind: Sequence[int], seq: int) -> None:
        """Add the chunks written since; with many new ones, drop the cache.

        Many additions mean that many cached chunks may be gone.
        """
        if not behind:
            return
        since = min(self._known[source][0] for source in behind)
        with self._connections.read() as connection:
            new = _by_source(connection.execute(f"{_RANGES}docs.seq > ?", (since,)))
        self._grown += sum(len(new[source]) for source in behind if source in new)
        if self._grown > max(LEAST_GROWN, sum(len(ids) for _, ids in self._known.values()) // 4):
            self._known, self._grown = {}, 0
            return
        for source in behind:
            ids = self._known[source][1]
            self._known[source] = (seq, np.union1d(ids, new[source]) if source in new else ids)

    def _look_up(self, sources: Sequence[int], seq: int) -> None:
        with self._connections.read() as connection:
            chunks = _by_source(
                connection.execute(f"{_RANGES}docs.source IN ({marks(sources)})", sources)
            )
        nothing = np.empty(0, dtype=np.int64)
        self._known |= {source: (seq, chunks.get(source, nothing)) for source in sources}


def _by_source(rows: Iterable[tuple[int, int, int]]) -> dict[int, Ids]:
    ranges: dict[int, set[tuple[int, int]]] = {}
    for source, first, last in rows:
        ranges.setdefault(source, set()).add((first, last))
    return {
        source: expand(*np.array(list(spans), dtype=np.int64).T) for source, spans in ranges.items()
    }


def expand(firsts: Ids, lasts: Ids) -> Ids:
    """All ids of these ranges, ascending."""
    counts = lasts - firsts + 1
    if not counts.sum():
        return np.empty(0, dtype=np.int64)
    # All ranges at once: each id is the previous one plus one, except the first of a range.
    starts = np.repeat(firsts - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
    return np.sort(starts + np.arange(len(starts), dtype=np.int64))
