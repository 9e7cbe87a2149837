"""Vector index in a Qdrant collection, with the interface of the one in files.

A point is a chunk: its id and its vector, no text and no path. Filters are lists of ids, which
SQLite knows better than any payload could: a content shared by two documents is one point. Searches
are exact, and scores are rounded as in `vector_file.py`. Everything here can be thrown away and is
rebuilt from SQLite. Knows nothing of chunks or models, and doesn't decide whether to search.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from cortex.base.errors import NetworkError
from cortex.base.types import Stamp
from cortex.engine.store.index.qdrant import VECTOR, Qdrant, QdrantMark
from cortex.engine.store.index.vector_index import FRESH, VectorState, checked_query, checked_rows
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

    def look(self) -> VectorState:
        """Load what another process has written since, if the server answers."""
        try:
            exists, mark = self._qdrant.look(self._name)
        except NetworkError:
            # A search reports it.
            pass
        else:
            with self._lock:
                self._seen |= exists
                is_ours = mark is not None and (mark.stamp, mark.store) == (self.stamp, self._store)
                self._mark = mark if is_ours else None
        mark = self._mark
        # No memory in this process: the rows are on the server.
        return VectorState(mark.watermark if mark else FRESH, 0, 0, mark.version if mark else "")

    def add(self, ids: Ids, vectors: Floats) -> None:
        """Add rows; an existing id is replaced.

        Raises: ValueError for a negative id, a wrong shape or a value that isn't a finite number;
        NetworkError.
        """
        from qdrant_client import models

        rows = checked_rows(self.stamp, ids, vectors)
        # Half precision, as in the files: both backends give the same scores.
        halves = rows.astype(np.float16).astype(np.float32)
        points = dict(zip((int(chunk_id) for chunk_id in ids), halves, strict=True))
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

    def sync(self, watermark: int, *, compact: bool = False) -> None:
        """Mark the collection complete up to `watermark`; every write before has been confirmed.

        The server compacts by itself.

        Raises: NetworkError.
        """
        with self._lock:
            self._ensure_collection()
            self._mark = self._qdrant.mark(self._name, self._store, self.stamp, watermark)

    def search(self, vector: Floats, k: int, allowed: Ids | None = None) -> list[tuple[int, float]]:
        """The `k` nearest ids as (id, cosine), best first, ties by id.

        Restricted to `allowed` if that is given.

        Raises: NetworkError.
        """
        from qdrant_client import models

        query = checked_query(self.stamp, vector)
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

    def rows(self, ids: Ids) -> tuple[Ids, Floats]:
        """Those of these ids that have a row, ascending, and their rows.

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
        present = sorted(rows)
        table = np.asarray([rows[chunk_id] for chunk_id in present], dtype=np.float32)
        return np.asarray(present, dtype=np.int64), table.reshape(-1, self.stamp.dimensions)

    def ids(self, among: Ids | None = None) -> Ids:
        """All ids in the collection, or those of `among` in it, ascending.

        Raises: NetworkError.
        """
        if not self._exists() or (among is not None and not len(among)):
            return np.empty(0, dtype=np.int64)
        if among is not None and len(among) <= ID_PAGE:
            points = self._qdrant.ask(
                lambda client: client.retrieve(
                    self._name, among.tolist(), with_payload=False, with_vectors=False
                )
            )
            return np.sort(np.asarray([point.id for point in points], dtype=np.int64))
        ids: list[int] = []
        offset = None
        while True:
            points, offset = self._qdrant.ask(
                lambda client, offset=offset: client.scroll(
                    self._name, limit=ID_PAGE, offset=offset, with_payload=False, with_vectors=False
                )
            )
            ids += [point.id for point in points if isinstance(point.id, int)]
            if offset is None:
                break
        found = np.sort(np.asarray(ids, dtype=np.int64))
        return found if among is None else np.intersect1d(found, among)

    def close(self) -> None:
        """Release memory."""
        with self._lock:
            self._mark = None

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


class QdrantServer(Qdrant):
    """Vector server on a Qdrant: a collection for each store and embedder."""

    def open(self, store: str, stamp: Stamp) -> QdrantVectors:
        """Open a store's index of an embedder; the server isn't asked."""
        return QdrantVectors(self, store, stamp)

    def watermarks(self, store: str) -> list[tuple[Stamp, int]]:
        """Collections of a store that were ever complete, with their watermarks.

        Raises: as `ask`.
        """
        marks = [collection.mark for collection in self.collections(store)]
        return [(mark.stamp, mark.watermark) for mark in marks if mark is not None]

    def keep_only(self, store: str, stamps: Collection[Stamp]) -> None:
        """Delete the collections that a store has of other embedders.

        Raises: as `ask`.
        """
        names = {self.name_of(store, stamp) for stamp in stamps}
        collections = self.collections(store)
        self.drop(found.name for found in collections if found.name not in names)


def _row(vector: object) -> Floats:
    assert isinstance(vector, dict)
    return unit(np.asarray(vector[VECTOR], dtype=np.float32).reshape(1, -1))[0]


def _pages(values: Sequence[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(values), size):
        yield list(values[start : start + size])
