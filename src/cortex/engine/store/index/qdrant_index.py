"""Vector index in a Qdrant collection, with the interface of the one in files.

A point is a chunk: its id and its vector, no text and no path. Filters are lists of ids, which
SQLite knows better than any payload could: a content shared by two documents is one point. Searches
are exact, and scores are rounded as in `vector_file.py`. Everything here can be thrown away and is
rebuilt from SQLite. Knows nothing of chunks or models, and doesn't decide whether to search.
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

# Rows in one request.
PAGE = 500
# Ids in one answer.
ID_PAGE = 10_000
# Extra results requested, so that of equal scores at the limit the lowest ids are returned.
TIES = 32


class QdrantVectors:
    """Vector index in one collection: one writer, any number of searchers."""

    def __init__(self, qdrant: Qdrant, store: str, stamp: Stamp) -> None:
        self.stamp = stamp
        self._qdrant = qdrant
        self._store = store
        self._name = qdrant.name_of(store, stamp)
        self._lock = threading.RLock()
        self._mark: QdrantMark | None = None
        # True if the collection has existed: if it is gone, so are all its rows.
        self._seen = False
        self._means: dict[tuple[int, int], Floats] = {}

    @property
    def watermark(self) -> int:
        """The `seq` up to which the collection is complete, as last read."""
        return self._mark.watermark if self._mark else FRESH

    @property
    def memory(self) -> int:
        """Memory in this process: none."""
        return 0

    @property
    def state(self) -> tuple[int, str]:
        """State that a search depends on: equal states give equal answers."""
        return self.watermark, self._mark.version if self._mark else ""

    def memory_of(self, rows: int) -> int:
        """Memory of rows in this process: none, they are on the server."""
        return 0

    def add(self, ids: Ids, vectors: Floats) -> None:
        """Add rows; an existing id is replaced.

        Raises: ValueError for a negative id, a wrong shape or a value that isn't a finite number;
        NetworkError.
        """
        from qdrant_client import models

        rows = np.asarray(vectors, dtype=np.float32)
        if rows.shape != (len(ids), self.stamp.dimensions):
            raise ValueError(
                f"expected {len(ids)} vectors of {self.stamp.dimensions} dimensions, got the "
                f"shape {rows.shape}"
            )
        # Half precision, as in the files: both backends give the same scores.
        halves = unit(rows).astype(np.float16).astype(np.float32)
        points = dict(zip((int(chunk_id) for chunk_id in ids), halves, strict=True))
        if any(chunk_id < 0 for chunk_id in points):
            raise ValueError("an id is negative; chunk ids count from 1")
        with self._lock:
            self._ensure_collection()
            for page in _pages(list(points), PAGE):
                batch = models.Batch(
                    ids=[*page], vectors={VECTOR: [points[chunk_id].tolist() for chunk_id in page]}
                )
                self._qdrant.ask(
                    lambda client, batch=batch: client.upsert(self._name, batch, wait=True)
                )

    def remove(self, ids: Ids) -> None:
        """Remove rows; unknown ids are ignored.

        Raises: NetworkError.
        """
        from qdrant_client import models

        if not self._exists():
            return
        for page in _pages(np.unique(ids).tolist(), ID_PAGE):
            points = models.PointIdsList(points=[*page])
            self._qdrant.ask(
                lambda client, points=points: client.delete(self._name, points, wait=True)
            )

    def sync(self, watermark: int) -> None:
        """Mark the collection complete up to `watermark`; every write before has been confirmed.

        Raises: NetworkError.
        """
        with self._lock:
            self._ensure_collection()
            self._mark = self._qdrant.mark(self._name, self._store, self.stamp, watermark)

    def compact(self) -> None:
        """Do nothing: the server compacts by itself."""

    def search(self, vector: Floats, k: int, allowed: Ids | None = None) -> list[tuple[int, float]]:
        """The `k` nearest ids as (id, cosine), best first, ties by id.

        Restricted to `allowed` if that is given.

        Raises: NetworkError.
        """
        from qdrant_client import models

        query = self._normalize_query(vector)
        if (
            k <= 0
            or not query.any()
            or (allowed is not None and not len(allowed))
            or not self._exists()
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
        # Adding 0.0 turns -0.0 into 0.0.
        scores = np.round(np.clip([point.score for point in answer.points], -1.0, 1.0), 4) + 0.0
        hits = zip((int(point.id) for point in answer.points), scores.tolist(), strict=True)
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]

    def cosines(self, vector: Floats, ids: Ids) -> dict[int, float]:
        """Cosine of each of these ids' rows to `vector`; ids without a row are omitted.

        Raises: NetworkError.
        """
        return dict(self.search(vector, len(ids), ids))

    def rows(self, ids: Ids) -> dict[int, Floats]:
        """Rows of these ids, normalized to length 1; ids without a row are omitted.

        Raises: NetworkError.
        """
        rows: dict[int, Floats] = {}
        if self._exists():
            for page in _pages(np.unique(ids).tolist(), PAGE):
                points = self._qdrant.ask(
                    lambda client, page=page: client.retrieve(
                        self._name, page, with_payload=False, with_vectors=True
                    )
                )
                rows |= {int(point.id): _row(point.vector) for point in points}
        return dict(sorted(rows.items()))

    def cosines_of_ranges(self, vector: Floats, ranges: Sequence[tuple[int, int]]) -> list[float]:
        """Cosine of the mean row of each id range (both ends included), 0 if it has no rows.

        Raises: NetworkError.
        """
        query = self._normalize_query(vector)
        known = self._means
        unknown = [ends for ends in ranges if ends not in known]
        wanted = [np.arange(first, last + 1, dtype=np.int64) for first, last in unknown]
        rows = self.rows(np.concatenate(wanted)) if wanted else {}
        means: dict[tuple[int, int], Floats] = {}
        for ends, ids in zip(unknown, wanted, strict=True):
            present = [rows[chunk_id] for chunk_id in ids.tolist() if chunk_id in rows]
            total = (
                np.asarray(present, dtype=np.float64)
                .reshape(-1, self.stamp.dimensions)
                .sum(axis=0, keepdims=True)
            )
            means[ends] = unit(total.astype(np.float32))[0]
            # An id always stands for the same content.
            if len(present) == len(ids):
                known[ends] = means[ends]
        if len(known) > MEANS:
            self._means = {}
        table = [means[ends] if ends in means else known[ends] for ends in ranges]
        return np.round(np.asarray(table, dtype=np.float32) @ query, 4).tolist() if table else []

    def ids(self) -> Ids:
        """All ids in the collection, ascending.

        Raises: NetworkError.
        """
        ids: list[int] = []
        offset = None
        while self._exists():
            points, offset = self._qdrant.ask(
                lambda client, offset=offset: client.scroll(
                    self._name, limit=ID_PAGE, offset=offset, with_payload=False, with_vectors=False
                )
            )
            ids += [point.id for point in points if isinstance(point.id, int)]
            if offset is None:
                break
        return np.sort(np.asarray(ids, dtype=np.int64))

    def lacking(self, ids: Ids) -> Ids:
        """Those of these ids without a row, ascending.

        Raises: NetworkError.
        """
        wanted = np.unique(np.asarray(ids, dtype=np.int64))
        if not len(wanted) or not self._exists():
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
        """Number of rows.

        Raises: NetworkError.
        """
        from qdrant_client import models

        if not self._exists():
            return 0
        others = models.Filter(must_not=[models.HasIdCondition(has_id=[MARK])])
        return self._qdrant.ask(
            lambda client: client.count(self._name, count_filter=others, exact=True)
        ).count

    def reload_if_moved(self) -> bool:
        """Load what another process has written since; true if that changed anything.

        An unavailable server changes nothing.
        """
        try:
            exists, mark = self._qdrant.look(self._name)
        except NetworkError:
            # A search reports it.
            return False
        with self._lock:
            self._seen |= exists
            if mark is not None and (mark.stamp, mark.store) != (self.stamp, self._store):
                mark = None
            moved, self._mark = mark != self._mark, mark
            return moved

    def close(self) -> None:
        """Release memory."""
        with self._lock:
            self._mark, self._means = None, {}

    def _normalize_query(self, vector: Floats) -> Floats:
        return unit(np.asarray(vector, dtype=np.float32).reshape(1, self.stamp.dimensions))[0]

    def _exists(self) -> bool:
        return self._qdrant.look(self._name)[0]

    def _ensure_collection(self) -> None:
        """Create the collection if there is none.

        Raises: NetworkError if it existed before, since the writer has to start again.
        """
        exists, seen = self._exists(), self._seen
        self._seen = exists
        if not exists and seen:
            self._mark = None
            raise self._qdrant.fail(f"Qdrant at {self._qdrant.url} has lost the collection")
        if not exists:
            self._qdrant.make(self._name, self.stamp.dimensions)
            self._seen = True


def _row(vector: object) -> Floats:
    assert isinstance(vector, dict)
    return unit(np.asarray(vector[VECTOR], dtype=np.float32).reshape(1, -1))[0]


def _pages(values: Sequence[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(values), size):
        yield list(values[start : start + size])
