"""Vector backends: behaviour derived for all of them, and a new minimal backend."""

from collections.abc import Collection
from contextlib import closing

import numpy as np
import pytest

from cortex.base.settings import load
from cortex.base.types import Stamp
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.library import Library
from cortex.engine.store.index import vector_servers
from cortex.engine.store.index.vector_file import Vectors
from cortex.engine.store.index.vector_index import (
    FRESH,
    RangeMeans,
    VectorState,
    checked_rows,
    cosines,
    lacking,
)
from cortex.families.documents.search import find, query_of

STAMP = Stamp("test", "random", 32)


def some_rows(count: int) -> np.ndarray:
    rows = np.random.default_rng(7).normal(size=(count, STAMP.dimensions)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def some_ids(*ids: int) -> np.ndarray:
    return np.asarray(ids, dtype=np.int64)


class ToyVectors:
    """The eight methods of a vector index, over a dictionary."""

    def __init__(self, stamp: Stamp) -> None:
        self.stamp = stamp
        self.table: dict[int, np.ndarray] = {}
        self.watermark, self.writes = FRESH, 0

    def look(self) -> VectorState:
        return VectorState(self.watermark, 0, 0, self.writes)

    def add(self, ids, vectors) -> None:
        self.table |= dict(zip(ids.tolist(), checked_rows(self.stamp, ids, vectors), strict=True))
        self.writes += 1

    def remove(self, ids) -> None:
        self.table = {known: row for known, row in self.table.items() if known not in set(ids)}
        self.writes += 1

    def sync(self, watermark: int, *, compact: bool = False) -> None:
        self.watermark = watermark

    def search(self, vector, k, allowed=None):
        ids, rows = self.rows(self.ids(allowed))
        scores = np.round(rows @ vector / np.linalg.norm(vector), 4).tolist()
        return sorted(zip(ids.tolist(), scores, strict=True), key=lambda hit: (-hit[1], hit[0]))[:k]

    def rows(self, ids):
        present = self.ids(ids)
        rows = [self.table[known] for known in present.tolist()]
        return present, np.asarray(rows, dtype=np.float32).reshape(-1, self.stamp.dimensions)

    def ids(self, among=None):
        known = np.asarray(sorted(self.table), dtype=np.int64)
        return known if among is None else np.intersect1d(known, among)

    def close(self) -> None:
        pass


class ToyServer:
    """A vector server that is always there."""

    away = ""

    def __init__(self) -> None:
        self.indexes: dict[tuple[str, Stamp], ToyVectors] = {}
        self.closed = False

    def open(self, store: str, stamp: Stamp) -> ToyVectors:
        return self.indexes.setdefault((store, stamp), ToyVectors(stamp))

    def watermarks(self, store: str) -> list[tuple[Stamp, int]]:
        return [
            (stamp, kept.watermark) for (of, stamp), kept in self.indexes.items() if of == store
        ]

    def keep_only(self, store: str, stamps: Collection[Stamp]) -> None:
        for of, stamp in [*self.indexes]:
            if of == store and stamp not in stamps:
                del self.indexes[of, stamp]

    def close(self) -> None:
        self.closed = True


@pytest.fixture(params=["files", "toy"])
def index(request):
    return Vectors.open(None, STAMP) if request.param == "files" else ToyVectors(STAMP)


def test_cosines_equal_those_of_a_search_without_unknown_ids(index):
    rows, query = some_rows(301)[:300], some_rows(301)[300]
    index.add(np.arange(1, 301), rows)
    found = cosines(index, query, some_ids(7, 8, 4000))
    assert found == pytest.approx({7: float(rows[6] @ query), 8: float(rows[7] @ query)}, abs=2e-3)
    assert cosines(index, query, some_ids()) == {}


def test_cosine_of_a_range_is_that_of_its_mean_and_follows_new_rows(index):
    rows, query, means = some_rows(7)[:6], some_rows(7)[6], RangeMeans(STAMP)
    index.add(some_ids(1, 2, 3), rows[:3])

    def expected(some):
        mean = some.sum(axis=0)
        return float(mean @ query / np.linalg.norm(mean))

    assert means.cosines(index, query, [(1, 3), (2, 2), (2, 6), (8, 9)]) == pytest.approx(
        [expected(rows[:3]), expected(rows[1:2]), expected(rows[1:3]), 0.0], abs=2e-3
    )
    # The range had gaps, so its mean was not cached.
    index.add(some_ids(4, 5, 6), rows[3:])
    assert means.cosines(index, query, [(2, 6)]) == pytest.approx([expected(rows[1:])], abs=2e-3)
    assert means.cosines(index, query, []) == []


def test_ids_without_a_row_are_reported_as_lacking(index):
    index.add(np.arange(1, 6), some_rows(5))
    index.remove(some_ids(2))
    assert lacking(index, some_ids(9, 2, 1, 2)).tolist() == [2, 9]
    assert lacking(index, some_ids()).tolist() == []


def test_new_vector_backend_needs_only_its_opener(monkeypatch, tmp_path_factory):
    server, tmp_path = ToyServer(), tmp_path_factory.mktemp("toy")
    monkeypatch.setattr(vector_servers, "OPENERS", (lambda settings: server,))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tides.md").write_text("# Tides\n\nThe sea rises twice a day.\n")
    flags = {"indexing.workers": 1}
    environment = {"CORTEX_HOME": str(tmp_path / "home")}
    settings = load(None, environment=environment, flags=flags, user_home=tmp_path)
    with closing(Library(settings, embedder=HashingEmbedder())) as library:
        library.index(source=library.add_folder(tmp_path / "docs").source)
        (index,) = server.indexes.values()
        assert index.watermark == library.store.content.seq()
        assert len(index.table) == library.store.indexes.sets.count() > 0
        found = find(library, query_of(settings, "the sea rises twice a day", "semantic", 5), None)
        assert found.results[0].path == "tides.md"
        assert library.store.check() == []
        library.store.indexes.sets.keep_only(())
        assert server.indexes == {}
    # A server that was opened by the library is closed with it.
    assert server.closed
