import random
import subprocess
import sys
import threading
import uuid
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.base.errors import CortexError
from cortex.base.types import Stamp
from cortex.engine.store.index import vector_file as module
from cortex.engine.store.index.qdrant import Qdrant
from cortex.engine.store.index.qdrant_index import QdrantVectors
from cortex.engine.store.index.vector_file import Vectors
from cortex.engine.store.index.vector_index import FRESH
from cortex.engine.store.index.vector_log import VectorLog
from cortex.engine.store.index.vector_scan import unit

STAMP = Stamp(provider="test", model="random", dimensions=32)


@pytest.fixture(params=["turbovec", "numpy"])
def engine(request):
    return request.param


@pytest.fixture(params=["turbovec", "numpy", "qdrant"])
def any_engine(request):
    """Every engine of vectors, on disk and in memory."""
    if request.param != "qdrant":
        return request.param
    request.getfixturevalue("local_qdrant")
    return Qdrant("http://127.0.0.1:6333")


def opened(directory, engine):
    if isinstance(engine, Qdrant):
        vectors = QdrantVectors(engine, str(directory or uuid.uuid4()), STAMP)
        vectors.look()
        return vectors
    return Vectors.open(directory, STAMP, engine)


def make_rows(count, seed=0, dimensions=32):
    rows = np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def make_ids(*numbers):
    return np.array(numbers, dtype=np.int64)


def filled(directory, engine, count, first=1, seed=0):
    vectors = opened(directory, engine)
    vectors.add(np.arange(first, first + count), make_rows(count, seed))
    return vectors


def assert_nearest(hits, ids, rows, query, k):
    """Check the `k` nearest of `ids` by exact cosine, within half precision and four digits."""
    cosine = dict(zip(ids.tolist(), (rows.astype(np.float64) @ query).tolist(), strict=True))
    assert [score for _, score in hits] == pytest.approx(
        [cosine[number] for number, _ in hits], abs=2e-4
    )
    assert [score for _, score in hits] == pytest.approx(
        sorted(cosine.values(), reverse=True)[:k], abs=2e-4
    )
    assert len({number for number, _ in hits}) == min(k, len(ids))
    assert hits == sorted(hits, key=lambda hit: (-hit[1], hit[0]))


@pytest.mark.parametrize("count", [50, 3000])
@pytest.mark.parametrize("on_disk", [True, False])
def test_a_search_finds_the_nearest_rows_by_cosine(tmp_path, any_engine, count, on_disk):
    vectors = filled(tmp_path if on_disk else None, any_engine, count)
    rows = make_rows(count)
    for query in make_rows(10, seed=1):
        assert_nearest(vectors.search(query, 10), np.arange(1, count + 1), rows, query, 10)


def test_both_vector_engines_give_the_same_hits():
    query = make_rows(1, seed=1)[0]
    assert filled(None, "turbovec", 3000).search(query, 20) == filled(None, "numpy", 3000).search(
        query, 20
    )


def test_search_after_compaction_finds_moved_rows(tmp_path, engine):
    vectors, query = filled(tmp_path, engine, 3000), make_rows(1, seed=1)[0]
    vectors.search(query, 10)  # rows are encoded where they are now
    vectors.remove(np.arange(1, 1501))
    vectors.sync(1, compact=True)
    vectors.add(np.arange(3001, 3501), make_rows(500, seed=2))
    rows = np.concatenate([make_rows(3000)[1500:], make_rows(500, seed=2)])
    assert_nearest(vectors.search(query, 10), np.arange(1501, 3501), rows, query, 10)


def test_equal_cosines_are_ordered_by_id(any_engine):
    vectors = opened(None, any_engine)
    row = make_rows(1)
    vectors.add(make_ids(9, 3, 7), np.repeat(row, 3, axis=0))
    assert vectors.search(row[0], 5) == [(3, 1.0), (7, 1.0), (9, 1.0)]


@pytest.mark.parametrize("allowed_count", [1, 40, 120, 900, 2500])
def test_an_allow_list_is_exact_at_every_width(any_engine, allowed_count):
    vectors = filled(None, any_engine, 3000)
    allowed = np.random.default_rng(2).permutation(np.arange(1, 3001))[:allowed_count]
    query = make_rows(1, seed=1)[0]
    with_strangers = np.concatenate([allowed, make_ids(999_999, 1_000_000)])
    assert_nearest(
        vectors.search(query, 10, with_strangers), allowed, make_rows(3000)[allowed - 1], query, 10
    )


def test_an_allow_list_without_a_known_id_finds_nothing(any_engine):
    vectors = filled(None, any_engine, 300)
    query = make_rows(1)[0]
    assert vectors.search(query, 5, make_ids()) == []
    assert vectors.search(query, 5, make_ids(7000, 8000)) == []


def test_zero_query_zero_limit_and_empty_index_find_nothing(any_engine):
    vectors = filled(None, any_engine, 300)
    assert vectors.search(np.zeros(32, dtype=np.float32), 5) == []
    assert vectors.search(make_rows(1)[0], 0) == []
    assert len(vectors.search(make_rows(1)[0], 10_000)) == 300
    assert opened(None, any_engine).search(make_rows(1)[0], 5) == []


def test_malformed_vector_is_refused(any_engine):
    vectors = opened(None, any_engine)
    bad = make_rows(1).copy()
    bad[0, 3] = np.nan
    for ids, rows in (
        (make_ids(1), bad),
        (make_ids(1), make_rows(2)),
        (make_ids(-1), make_rows(1)),
        (make_ids(1), make_rows(1, dimensions=8)),
    ):
        with pytest.raises(ValueError):
            vectors.add(ids, rows)
    with pytest.raises(ValueError):
        vectors.search(bad[0], 1)
    assert len(vectors.ids()) == 0


def test_zero_vector_is_kept_and_near_to_no_query(any_engine):
    vectors = opened(None, any_engine)
    vectors.add(make_ids(1, 2), np.stack([np.zeros(32, dtype=np.float32), make_rows(1)[0]]))
    assert vectors.search(make_rows(1)[0], 2) == [(2, 1.0), (1, 0.0)]


def test_added_id_replaces_its_row_and_removing_an_unknown_id_does_nothing(any_engine):
    vectors = filled(None, any_engine, 300)
    fresh = make_rows(2, seed=5)
    vectors.search(fresh[0], 1)
    vectors.add(make_ids(7, 7), fresh)
    vectors.remove(make_ids(8, 4000))
    assert vectors.search(fresh[1], 1) == [(7, 1.0)]
    assert len(vectors.ids()) == 299
    assert 8 not in vectors.ids()


def test_synced_rows_are_there_when_opened_again(tmp_path, any_engine):
    vectors = filled(tmp_path, any_engine, 500)
    vectors.remove(make_ids(1, 2))
    vectors.sync(41)
    query = make_rows(1, seed=1)[0]
    expected = vectors.search(query, 10)
    vectors.close()
    again = opened(tmp_path, any_engine)
    assert (again.look().watermark, len(again.ids()), again.search(query, 10)) == (
        41,
        498,
        expected,
    )


def test_unsynced_rows_are_dropped_and_overwritten(tmp_path, engine):
    vectors = filled(tmp_path, engine, 10)
    vectors.sync(1)
    vectors.add(np.arange(100, 400), make_rows(300, seed=3))
    vectors.close()
    again = Vectors.open(tmp_path, STAMP, engine)
    assert (again.look().watermark, len(again.ids())) == (1, 10)
    again.add(make_ids(50), make_rows(1, seed=4))
    again.sync(2)
    again.close()
    assert Vectors.open(tmp_path, STAMP, engine).ids().tolist() == [*range(1, 11), 50]


def test_empty_vector_index_can_be_complete(tmp_path, any_engine):
    opened(tmp_path, any_engine).sync(5)
    again = opened(tmp_path, any_engine)
    assert (again.look().watermark, len(again.ids())) == (5, 0)
    again.add(make_ids(1), make_rows(1))
    again.sync(6)
    assert opened(tmp_path, any_engine).ids().tolist() == [1]


def test_opening_and_searching_vectors_writes_nothing(tmp_path, engine):
    directory = tmp_path / "none"
    vectors = Vectors.open(directory, STAMP, engine)
    assert vectors.search(make_rows(1)[0], 3) == []
    assert not directory.exists()


def test_another_stamp_opens_empty_and_replaces_the_index_when_synced(tmp_path, engine):
    filled(tmp_path, engine, 10).sync(3)
    other = replace(STAMP, model="other")
    vectors = Vectors.open(tmp_path, other, engine)
    assert (vectors.look().watermark, len(vectors.ids())) == (FRESH, 0)
    assert Vectors.open(tmp_path, STAMP, engine).look().watermark == 3
    vectors.add(make_ids(1), make_rows(1))
    vectors.sync(4)
    assert Vectors.open(tmp_path, STAMP, engine).look().watermark == FRESH
    assert Vectors.open(tmp_path, other, engine).look().watermark == 4
    assert len(list(tmp_path.glob("rows-*"))) == 1


@pytest.mark.parametrize("harm", ["flip", "truncate", "empty", "delete"])
@pytest.mark.parametrize("victim", ["watermark.json", "rows-000001.log"])
def test_damaged_vector_file_opens_empty_and_is_rebuilt(tmp_path, engine, victim, harm):
    filled(tmp_path, engine, 300).sync(3)
    damage(tmp_path / victim, harm)
    vectors = Vectors.open(tmp_path, STAMP, engine)
    assert (vectors.look().watermark, len(vectors.ids())) == (FRESH, 0)
    vectors.add(make_ids(1), make_rows(1))
    assert vectors.reload_if_moved() is False
    vectors.sync(9)
    again = Vectors.open(tmp_path, STAMP, engine)
    assert (again.look().watermark, again.ids().tolist()) == (9, [1])


def damage(path, harm):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0x10
    if harm == "delete":
        path.unlink()
    else:
        path.write_bytes({"flip": bytes(raw), "truncate": bytes(raw[:-5]), "empty": b""}[harm])


@pytest.mark.parametrize("harm", ["none", "flip", "truncate", "empty", "delete"])
def test_scan_snapshot_saves_encoding_and_its_damage_costs_nothing_else(
    tmp_path, monkeypatch, harm
):
    monkeypatch.setattr(module, "SNAPSHOT_MINIMUM", 500)
    vectors = filled(tmp_path, "turbovec", 600)
    vectors.sync(1)
    vectors.remove(make_ids(5))
    vectors.add(make_ids(6, 601), make_rows(2, seed=7))
    vectors.sync(2)
    query = make_rows(1, seed=1)[0]
    expected = vectors.search(query, 50)
    (snapshot,) = tmp_path.glob("scan*")
    if harm != "none":
        damage(snapshot, harm)
    again = Vectors.open(tmp_path, STAMP, "turbovec")
    assert again.search(query, 50) == expected
    assert again.search(query, 50, np.arange(1, 500)) == vectors.search(
        query, 50, np.arange(1, 500)
    )


def test_writer_keeps_the_scan_snapshot_without_loading_it(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SNAPSHOT_MINIMUM", 500)
    first = filled(tmp_path, "turbovec", 600)
    first.sync(1)
    assert first._scan is None
    first.close()
    (snapshot,) = tmp_path.glob("scan*")
    writer = Vectors.open(tmp_path, STAMP, "turbovec")
    writer.add(make_ids(601), make_rows(1, seed=7))
    writer.remove(make_ids(3))
    writer.sync(2)
    assert writer._scan is None
    assert list(tmp_path.glob("scan*")) == [snapshot]
    query = make_rows(1, seed=1)[0]
    monkeypatch.setattr(module, "encode_all", None)  # the snapshot is enough
    expected = filled(None, "numpy", 600)
    expected.add(make_ids(601), make_rows(1, seed=7))
    expected.remove(make_ids(3))
    assert writer.search(query, 50) == expected.search(query, 50)
    writer.add(np.arange(700, 1000), make_rows(300, seed=8))
    writer.sync(3)
    (grown,) = tmp_path.glob("scan*")
    assert grown != snapshot


def test_scan_snapshot_of_another_precision_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SNAPSHOT_MINIMUM", 500)
    filled(tmp_path, "turbovec", 600).sync(1)
    (snapshot,) = tmp_path.glob("scan*")
    old = snapshot.rename(tmp_path / snapshot.name.replace(module.SCAN, "scan"))
    vectors = Vectors.open(tmp_path, STAMP, "turbovec")
    query = make_rows(1, seed=1)[0]
    assert vectors.search(query, 20) == filled(None, "numpy", 600).search(query, 20)
    vectors.sync(2)
    assert (old.exists(), snapshot.exists()) == (False, True)


def test_vector_log_full_of_dead_rows_is_compacted(tmp_path, engine):
    vectors = filled(tmp_path, engine, 300)
    vectors.sync(1)
    reader = Vectors.open(tmp_path, STAMP, engine)
    query = make_rows(1, seed=1)[0]
    before = reader.search(query, 10)
    for watermark in range(2, 8):
        vectors.add(np.arange(1, 301), make_rows(300))
        vectors.sync(watermark)
    record = 8 + 2 * STAMP.dimensions
    assert (
        sum(path.stat().st_size for path in tmp_path.glob("rows-*")) <= (300 + 1000 + 300) * record
    )
    assert len(list(tmp_path.glob("rows-*"))) == 1
    assert reader.search(query, 10) == before
    assert reader.reload_if_moved() is True
    assert (reader.look().watermark, reader.search(query, 10)) == (7, before)
    assert vectors.search(query, 10) == before
    assert Vectors.open(tmp_path, STAMP, engine).search(query, 10) == before


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), "MEMORY_SHORT"),
        (OSError(28, "full"), "DISK_FULL"),
        (OSError(5, "broken"), "STORE_IO"),
    ],
)
def test_failed_compaction_loses_no_row(tmp_path, engine, monkeypatch, error, code):
    vectors = filled(tmp_path, engine, 300)
    vectors.remove(np.arange(1, 101))
    vectors.sync(1)

    def fail(log, records):
        raise error

    with monkeypatch.context() as patch, pytest.raises(CortexError) as caught:
        patch.setattr(VectorLog, "append", fail)
        vectors.sync(1, compact=True)
    assert caught.value.code == code
    vectors.sync(2)
    assert vectors.ids().tolist() == list(range(101, 301))
    assert Vectors.open(tmp_path, STAMP, engine).ids().tolist() == list(range(101, 301))


def test_vector_reader_sees_rows_only_with_a_new_watermark(tmp_path, engine):
    writer = filled(tmp_path, engine, 250)
    writer.sync(1)
    reader = Vectors.open(tmp_path, STAMP, engine)
    fresh = make_rows(1, seed=3)
    writer.add(make_ids(900), fresh)
    assert reader.reload_if_moved() is False
    assert reader.search(fresh[0], 1)[0][0] != 900
    writer.sync(2)
    assert reader.reload_if_moved() is True
    assert reader.search(fresh[0], 1) == [(900, 1.0)]
    assert reader.reload_if_moved() is False


def test_open_reader_reads_on_while_the_writer_begins_a_new_log(tmp_path, engine):
    writer = filled(tmp_path / "v", engine, 60)
    writer.sync(1)
    reader = opened(tmp_path / "v", engine)
    (log,) = (tmp_path / "v").glob("rows-*.log")
    writer.remove(np.arange(1, 60))
    writer.sync(1, compact=True)
    writer.sync(2)
    assert not log.exists()
    assert reader.ids().tolist() == list(range(1, 61))  # nothing of it was read before
    assert reader.search(make_rows(60)[59], 1)[0][0] == 60
    assert reader.reload_if_moved() and reader.ids().tolist() == [60]


def test_reader_that_takes_over_writes_after_the_last_writer_s_rows(tmp_path, engine):
    writer = filled(tmp_path, engine, 5)
    writer.sync(1)
    heir = Vectors.open(tmp_path, STAMP, engine)
    writer.add(make_ids(6), make_rows(1, seed=3))
    writer.sync(2)
    writer.close()
    heir.add(make_ids(7), make_rows(1, seed=4))
    heir.sync(3)
    assert Vectors.open(tmp_path, STAMP, engine).ids().tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_numpy_steps_in_where_turbovec_cannot_be_imported(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "turbovec", None)
    vectors = filled(tmp_path, "turbovec", 500)
    vectors.sync(1)
    query = make_rows(1, seed=1)[0]
    assert_nearest(vectors.search(query, 5), np.arange(1, 501), make_rows(500), query, 5)


def test_dimensions_that_turbovec_refuses_are_scanned_by_numpy():
    vectors = Vectors.open(None, replace(STAMP, dimensions=10), "turbovec")
    rows = make_rows(300, dimensions=10)
    vectors.add(np.arange(300), rows)
    assert vectors.search(rows[17], 1) == [(17, 1.0)]


def test_searches_during_writes_give_right_hits(tmp_path, engine):
    vectors = filled(tmp_path, engine, 1000)
    faults, done = [], threading.Event()

    def search():
        queries = make_rows(1000)
        allowed = np.arange(1, 1001)
        try:
            while not done.is_set():
                for at in (0, 500):
                    for hits in (
                        vectors.search(queries[at], 3),
                        vectors.search(queries[at], 3, allowed),
                    ):
                        assert hits[0] == (at + 1, 1.0)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(30):
        vectors.add(np.arange(2000, 2200), make_rows(200, seed=turn + 10))
        vectors.remove(np.arange(2000, 2100))
        vectors.sync(turn)
    done.set()
    for thread in threads:
        thread.join(timeout=30)
    assert faults == []


actions = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.integers(0, 30), max_size=8)),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 30), max_size=8)),
        st.tuples(st.just("sync"), st.just([])),
        st.tuples(st.just("reopen"), st.just([])),
    ),
    max_size=15,
)


@settings(max_examples=40, deadline=None)
@given(actions=actions)
def test_vectors_after_any_changes_equal_a_plain_dictionary(tmp_path_factory, actions):
    directory = tmp_path_factory.mktemp("vectors")
    vectors, live, saved, watermark = Vectors.open(directory, STAMP), {}, {}, FRESH
    for turn, (action, numbers) in enumerate(actions):
        if action == "add":
            rows = make_rows(len(numbers), seed=turn)
            vectors.add(np.array(numbers, dtype=np.int64), rows)
            live |= dict(zip(numbers, rows, strict=True))
        elif action == "remove":
            vectors.remove(np.array(numbers, dtype=np.int64))
            live = {number: row for number, row in live.items() if number not in numbers}
        elif action == "sync":
            vectors.sync(turn)
            saved, watermark = dict(live), turn
        else:
            vectors.close()
            vectors, live = Vectors.open(directory, STAMP), dict(saved)
        assert vectors.look().watermark == watermark
        assert vectors.ids().tolist() == sorted(live)
    for row in live.values():
        assert vectors.search(row, 1)[0][1] == 1.0
    vectors.close()


WRITER = """
import sys
from pathlib import Path
import numpy as np
from cortex.engine.store.index import vector_file as module
from cortex.engine.store.index.vector_file import Vectors
from cortex.base.types import Stamp

module.DEAD_MINIMUM, module.SNAPSHOT_MINIMUM = 50, 100
vectors = Vectors.open(Path(sys.argv[1]), Stamp("test", "random", 32), sys.argv[2])
for turn in range(vectors.look().watermark + 1, 100_000):
    rng = np.random.default_rng(turn)
    vectors.add(rng.integers(0, 400, size=40), rng.normal(size=(40, 32)).astype(np.float32))
    vectors.remove(rng.integers(0, 400, size=15))
    vectors.sync(turn)
    print(turn, flush=True)
"""


def test_a_writer_killed_at_any_moment_leaves_a_whole_index_at_its_watermark(tmp_path, engine):
    chance = random.Random(engine)
    for _ in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), engine], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        acknowledged = -1
        for _ in range(chance.randrange(1, 30)):
            acknowledged = int(writer.stdout.readline())
        # So that the kill falls into another step each time
        for _ in range(chance.randrange(20_000)):
            pass
        writer.kill()
        writer.wait(timeout=30)
        writer.stdout.close()
        vectors = Vectors.open(tmp_path, STAMP, engine)
        assert vectors.look().watermark >= acknowledged
        expected = {}
        for turn in range(vectors.look().watermark + 1):
            rng = np.random.default_rng(turn)
            expected |= dict(
                zip(rng.integers(0, 400, size=40).tolist(), rng.normal(size=(40, 32)), strict=True)
            )
            for number in rng.integers(0, 400, size=15).tolist():
                expected.pop(number, None)
        assert vectors.ids().tolist() == sorted(expected)
        for number in list(expected)[:20]:
            assert vectors.search(expected[number].astype(np.float32), 1) == [(number, 1.0)]


def test_rows_are_in_the_order_of_ids_without_unknown_ids(any_engine):
    vectors, rows = filled(None, any_engine, 30), make_rows(30)
    ids, found = vectors.rows(make_ids(9, 3, 4000))
    assert ids.tolist() == [3, 9]
    assert unit(found.astype(np.float32)) == pytest.approx(rows[[2, 8]], abs=1e-3)
    ids, found = vectors.rows(make_ids())
    assert (ids.tolist(), found.shape) == ([], (0, STAMP.dimensions))


def test_vector_ids_are_all_or_those_asked_for(any_engine):
    vectors = filled(None, any_engine, 5)
    vectors.remove(make_ids(2))
    assert vectors.ids().tolist() == [1, 3, 4, 5]
    assert vectors.ids(make_ids(9, 2, 1, 2)).tolist() == [1]
    assert vectors.ids(make_ids()).tolist() == []
