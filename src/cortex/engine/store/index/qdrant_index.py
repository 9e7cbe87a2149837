"""One embedder's vectors in a Qdrant collection, behind the interface of the embedded index
(`vectors.py`).

A point is a chunk: its id and its vector, no text and no path. Filters are lists of ids, which
SQLite knows better than any payload could: a content that two documents share is one point.
Searches are exact, scores rounded as the embedded index rounds them. Everything here can be thrown
away and is made anew from SQLite. Knows nothing of chunks or models, and doesn't decide whether to
search.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np

from cortex.base.errors import NetworkError
from cortex.base.types import Stamp
from cortex.engine.store.index.qdrant import MARK, VECTOR, Qdrant, QdrantMark
from cortex.engine.store.index.vector_file import FRESH, MEANS
from cortex.engine.store.index.vector_scan import Floats, Ids, unit

PAGE = 500  # rows in one request
ID_PAGE = 10_000  # ids in one answer
TIES = 32  # more than are asked for: of equal scores at the cut, those with the lowest ids count


class QdrantVectors:
    """Vectors in one collection: one writer, any number of searchers."""

    def __init__(self, qdrant: Qdrant, store: str, stamp: Stamp) -> None:
        self.stamp = stamp
        self._qdrant = qdrant
        self._store = store
        self._name = qdrant.name_of(store, stamp)
        self._lock = threading.RLock()
        self._mark: QdrantMark | None = None
        # The collection was there: if it is gone, so is all that was put into it
        self._seen = False
        self._means: dict[tuple[int, int], Floats] = {}

    @property
    def watermark(self) -> int:
        """Up to where it is complete, as it said last."""
        return self._mark.watermark if self._mark else FRESH

    @property
    def memory(self) -> int:
        """None of this process's memory, or next to none."""
        return 0

    @property
    def state(self) -> tuple[int, str]:
        """What a search depends on: two equal states give equal answers."""
        return self.watermark, self._mark.version if self._mark else ""

    def memory_of(self, rows: int) -> int:
        """None: rows are the server's."""
        return 0

    def add(self, ids: Ids, vectors: Floats) -> None:
        """Put rows in; an id that is there is replaced.

        Raises: ValueError for a negative id, a wrong shape or a value that is no number;
        NetworkError.
        """
        from qdrant_client import models

        rows = np.asarray(vectors, dtype=np.float32)
        if rows.shape != (len(ids), self.stamp.dimensions):
            raise ValueError(
                f"expected {len(ids)} vectors of {self.stamp.dimensions} dimensions, got the shape {rows.shape}"
            )
        # Half precision, as the embedded index keeps it: both give the same scores.
        halves = unit(rows).astype(np.float16).astype(np.float32)
        points = dict(zip((int(number) for number in ids), halves, strict=True))
        if any(number < 0 for number in points):
            raise ValueError("an id is negative; chunk ids count from 1")
        with self._lock:
            self._become()
            for page in _pages(list(points), PAGE):
                batch = models.Batch(
                    ids=[*page], vectors={VECTOR: [points[number].tolist() for number in page]}
                )
                self._qdrant.ask(
                    lambda client, batch=batch: client.upsert(self._name, batch, wait=True)
                )

    def remove(self, ids: Ids) -> None:
        """Take rows out; unknown ids are nothing. Raises: NetworkError."""
        from qdrant_client import models

        if not self._is_there():
            return
        for page in _pages(np.unique(ids).tolist(), ID_PAGE):
            points = models.PointIdsList(points=[*page])
            self._qdrant.ask(
                lambda client, points=points: client.delete(self._name, points, wait=True)
            )

    def sync(self, watermark: int) -> None:
        """Say that everything up to `watermark` was added and removed; each of that was waited for.

        Raises: NetworkError.
        """
        with self._lock:
            self._become()
            self._mark = self._qdrant.mark(self._name, self._store, self.stamp, watermark)

    def compact(self) -> None:
        """Nothing to do: the server does it by itself."""

    def search(self, vector: Floats, k: int, allowed: Ids | None = None) -> list[tuple[int, float]]:
        """The `k` nearest ids, of `allowed` only where that is given, as (id, cosine): best first,
        ties by id. Raises: NetworkError.
        """
        from qdrant_client import models

        query = self._query(vector)
        if (
            k <= 0
            or not query.any()
            or (allowed is not None and not len(allowed))
            or not self._is_there()
        ):
            return []
        chosen = None
        if allowed is not None:
            chosen = models.Filter(must=[models.HasIdCondition(has_id=np.unique(allowed).tolist())])
        answer = self._qdrant.ask(
            lambda client: client.query_points(
                self._name,
                query=query.tolist(),
                using=VECTOR,
                query_filter=chosen,
                search_params=models.SearchParams(exact=True),
                limit=k + TIES,
                with_payload=False,
            )
        )
        # No -0.0
        scores = np.round(np.clip([point.score for point in answer.points], -1.0, 1.0), 4) + 0.0
        found = zip((int(point.id) for point in answer.points), scores.tolist(), strict=True)
        return sorted(found, key=lambda one: (-one[1], one[0]))[:k]

    def cosines(self, vector: Floats, ids: Ids) -> dict[int, float]:
        """How near these ids' rows are; those that have none are left out. Raises: NetworkError."""
        return dict(self.search(vector, len(ids), ids))

    def rows(self, ids: Ids) -> dict[int, Floats]:
        """The rows of these ids, of length 1; those that have none are left out.

        Raises: NetworkError.
        """
        found: dict[int, Floats] = {}
        if self._is_there():
            for page in _pages(np.unique(ids).tolist(), PAGE):
                points = self._qdrant.ask(
                    lambda client, page=page: client.retrieve(
                        self._name, page, with_payload=False, with_vectors=True
                    )
                )
                found |= {int(point.id): _row(point.vector) for point in points}
        return dict(sorted(found.items()))

    def cosines_of_ranges(self, vector: Floats, ranges: Sequence[tuple[int, int]]) -> list[float]:
        """How near the mean of the rows of each range of ids is, both ends included; 0 where it has
        none. Raises: NetworkError.
        """
        query = self._query(vector)
        known = self._means
        unknown = [ends for ends in ranges if ends not in known]
        wanted = [np.arange(first, last + 1, dtype=np.int64) for first, last in unknown]
        rows = self.rows(np.concatenate(wanted)) if wanted else {}
        means: dict[tuple[int, int], Floats] = {}
        for ends, ids in zip(unknown, wanted, strict=True):
            here = [rows[number] for number in ids.tolist() if number in rows]
            total = (
                np.asarray(here, dtype=np.float64)
                .reshape(-1, self.stamp.dimensions)
                .sum(axis=0, keepdims=True)
            )
            means[ends] = unit(total.astype(np.float32))[0]
            if len(here) == len(ids):  # what an id stands for never changes
                known[ends] = means[ends]
        if len(known) > MEANS:
            self._means = {}
        table = [means[ends] if ends in means else known[ends] for ends in ranges]
        return np.round(np.asarray(table, dtype=np.float32) @ query, 4).tolist() if table else []

    def ids(self) -> Ids:
        """Every id in the collection, ascending. Raises: NetworkError."""
        found: list[int] = []
        offset = None
        while self._is_there():
            points, offset = self._qdrant.ask(
                lambda client, offset=offset: client.scroll(
                    self._name, limit=ID_PAGE, offset=offset, with_payload=False, with_vectors=False
                )
            )
            found += [point.id for point in points if isinstance(point.id, int)]
            if offset is None:
                break
        return np.sort(np.asarray(found, dtype=np.int64))

    def lacking(self, ids: Ids) -> Ids:
        """Those of these ids that have no row, ascending. Raises: NetworkError."""
        wanted = np.unique(np.asarray(ids, dtype=np.int64))
        if not len(wanted) or not self._is_there():
            return wanted
        if len(wanted) > ID_PAGE:
            return np.setdiff1d(wanted, self.ids(), assume_unique=True)
        points = self._qdrant.ask(
            lambda client: client.retrieve(
                self._name, wanted.tolist(), with_payload=False, with_vectors=False
            )
        )
        return np.setdiff1d(
            wanted, np.asarray([point.id for point in points], dtype=np.int64), assume_unique=True
        )

    def __len__(self) -> int:
        """How many rows there are. Raises: NetworkError."""
        from qdrant_client import models

        if not self._is_there():
            return 0
        others = models.Filter(must_not=[models.HasIdCondition(has_id=[MARK])])
        return self._qdrant.ask(
            lambda client: client.count(self._name, count_filter=others, exact=True)
        ).count

    def reload_if_moved(self) -> bool:
        """See what another process has written since; True where that changed anything. A server
        that is away changes nothing.
        """
        try:
            there, mark = self._qdrant.look(self._name)
        except NetworkError:  # who searches is told so
            return False
        with self._lock:
            self._seen |= there
            if mark is not None and (mark.stamp, mark.store) != (self.stamp, self._store):
                mark = None
            moved, self._mark = mark != self._mark, mark
            return moved

    def close(self) -> None:
        """Let go of memory."""
        with self._lock:
            self._mark, self._means = None, {}

    def _query(self, vector: Floats) -> Floats:
        return unit(np.asarray(vector, dtype=np.float32).reshape(1, self.stamp.dimensions))[0]

    def _is_there(self) -> bool:
        return self._qdrant.look(self._name)[0]

    def _become(self) -> None:
        """Make the collection where there is none; where there was one, whoever fills it has to
        begin anew.
        """
        there, seen = self._is_there(), self._seen
        self._seen = there
        if not there and seen:
            self._mark = None
            raise self._qdrant.fail(f"Qdrant at {self._qdrant.url} has lost the collection")
        if not there:
            self._qdrant.make(self._name, self.stamp.dimensions)
            self._seen = True


def _row(vector: object) -> Floats:
    assert isinstance(vector, dict)
    return unit(np.asarray(vector[VECTOR], dtype=np.float32).reshape(1, -1))[0]


def _pages(values: Sequence[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(values), size):
        yield list(values[start : start + size])
