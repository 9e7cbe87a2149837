"""Vector sets after changes: only changed texts are read and embedded."""

from __future__ import annotations

import shutil
from contextlib import closing

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.store import EmbeddingJob, SearchFilter, Store
from cortex.engine.store.content import writer as truth
from cortex.engine.store.index import source_chunks, vector_folder, vector_indexes
from cortex.engine.store.index.vector_file import Vectors
from cortex.engine.store.index.vector_index import FRESH
from cortex.engine.store.index.vector_scan import unit

EMBEDDER = HashingEmbedder(32)
EVERYTHING = vector_indexes._USED


class RecordingEmbedder:
    """An embedder that keeps the texts of its calls, and can fail at the next one."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.fails = False

    def embed(self, texts: list[str]) -> np.ndarray:
        if self.fails:
            raise OSError("killed")
        self.texts += texts
        return EMBEDDER.embed(texts, "passage")


def catch_up(store: Store, asked: RecordingEmbedder | None = None) -> None:
    store.indexes.catch_up([EmbeddingJob(EMBEDDER.stamp, (asked or RecordingEmbedder()).embed)])


def vectors_of(store: Store) -> Vectors:
    return store.indexes.vectors(EMBEDDER.stamp)


def texts_in_use(store: Store) -> dict[int, str]:
    """The chunks in use, by id, as SQLite has them."""
    with store._connections.read() as connection:
        blobs = [row[0] for row in connection.execute("SELECT DISTINCT blob FROM docs")]
    texts = {blob: store.content.text(blob) for blob in blobs}
    return {
        number: texts[blob][chunk.start : chunk.end]
        for blob in blobs
        for number, chunk in store.content.chunks(blob)
    }


def assert_whole(store: Store) -> None:
    """The set is the one that would be made of nothing: every chunk in use has the row of its own
    text, and nothing else has one.
    """
    expected, vectors = texts_in_use(store), vectors_of(store)
    assert vectors.watermark == store.content.seq()
    assert vectors.ids().tolist() == sorted(expected)
    fresh = Vectors.open(None, EMBEDDER.stamp)
    fresh.add(
        np.asarray(list(expected), dtype=np.int64),
        EMBEDDER.embed(list(expected.values()), "passage"),
    )
    for text in ["lamp = 1", *expected.values()]:
        query = EMBEDDER.embed([text], "query")[0]
        assert vectors.search(query, 50) == fresh.search(query, 50)


def statements(store: Store, asked: RecordingEmbedder) -> list[str]:
    """The SQL statements of a catch-up."""
    said: list[str] = []
    with store._connections.read() as connection:  # the only one that is open
        connection.set_trace_callback(said.append)
    catch_up(store, asked)
    with store._connections.read() as connection:
        connection.set_trace_callback(None)
    return said


def test_update_reads_and_embeds_changed_texts_only(folder):
    asked = RecordingEmbedder()
    folder.write_all({f"f{number}.py": f"lamp = {number}\n" for number in range(60)})
    catch_up(folder.store, asked)
    assert len(asked.texts) == 60
    asked.texts.clear()
    folder.write_all({"f7.py": "desk = 7\n", "new.py": "chair = 1\n"})
    folder.remove("f8.py")
    said = statements(folder.store, asked)
    assert sorted(asked.texts) == ["chair = 1", "desk = 7"]
    assert len(said) > 5
    assert [line for line in said if line == EVERYTHING] == []
    assert sum("SELECT text FROM blobs" in line for line in said) == 2
    assert_whole(folder.store)


def test_forgotten_text_leaves_no_row_on_disk_also_in_retired_sets(folder):
    store, earlier = folder.store, HashingEmbedder(48)
    secret = "merger = 1"
    folder.write_all({"a.py": "lamp = 1\n", "b.py": f"{secret}\n"})
    store.indexes.catch_up(
        [
            EmbeddingJob(
                embedder.stamp, lambda texts, embedder=embedder: embedder.embed(texts, "passage")
            )
            for embedder in (EMBEDDER, earlier)
        ]
    )
    needles = [_row_of(store, embedder, secret) for embedder in (EMBEDDER, earlier)]
    assert [_is_on_disk(store, needle) for needle in needles] == [True, True]
    with store._connections.write() as connection:
        truth.forget_source(connection, folder.source.id)
    folder.source = store.content.source("files", "other", "/other")
    folder.write(c_py="desk = 1\n")
    catch_up(store)
    assert store.indexes.tidy()
    assert [_is_on_disk(store, needle) for needle in needles] == [False, False]
    assert_whole(store)
    assert store.indexes.vectors(earlier.stamp).ids().tolist() == []


def _row_of(store: Store, embedder: HashingEmbedder, text: str) -> bytes:
    """The row of a text in a vector set."""
    vectors = store.indexes.vectors(embedder.stamp)
    assert isinstance(vectors, Vectors)
    return unit(embedder.embed([text], "passage")).astype(vectors._dtype["vector"].base).tobytes()


def _is_on_disk(store: Store, needle: bytes) -> bool:
    assert store.directory is not None
    files = [
        path
        for path in store.directory.rglob("*")
        if path.is_file() and "vectors" in path.as_posix()
    ]
    assert files
    return any(needle in path.read_bytes() for path in files)


def test_chunks_of_a_source_are_the_known_ones_and_those_written_since(folder, monkeypatch):
    narrow, sets = SearchFilter((folder.source.id,)), folder.store.indexes.sets

    def within() -> set[int]:
        catch_up(folder.store)
        return set(sets.chunks_within(narrow)) & set(vectors_of(folder.store).ids().tolist())

    folder.write_all({f"f{number}.py": f"lamp = {number}\n" for number in range(20)})
    assert within() == set(texts_in_use(folder.store))
    folder.write_all({"f7.py": "desk = 7\n", "new.py": "chair = 1\n"})
    folder.remove("f8.py")
    folder.link("again.py", like="f9.py")
    assert within() == set(texts_in_use(folder.store))
    assert sets.chunks_within(narrow).tolist() == sorted(sets.chunks_within(narrow).tolist())
    monkeypatch.setattr(source_chunks, "LEAST_GROWN", 0)
    folder.write_all({f"g{number}.py": f"door = {number}\n" for number in range(20)})
    # Looked up again
    assert within() == set(sets.chunks_within(narrow)) == set(texts_in_use(folder.store))


def test_text_in_a_vector_set_is_never_embedded_again(folder):
    asked = RecordingEmbedder()
    folder.write(a_py="lamp = 1\n")
    catch_up(folder.store, asked)
    folder.link("b.py", like="a.py")
    catch_up(folder.store, asked)
    folder.remove("a.py")
    catch_up(folder.store, asked)
    assert asked.texts == ["lamp = 1"]
    assert_whole(folder.store)


def test_restored_content_gets_its_row_again(folder):
    folder.write(a_py="lamp = 1\n", b_py="desk = 1\n")
    catch_up(folder.store)
    blob = folder.blob("a.py")
    folder.remove("a.py")
    catch_up(folder.store)
    assert len(vectors_of(folder.store).ids()) == 1
    folder.write(c_py="lamp = 1\n")
    assert folder.blob("c.py") == blob
    catch_up(folder.store)
    assert_whole(folder.store)


def test_forgotten_content_loses_its_row(folder):
    folder.write(a_py="lamp = 1\n", b_py="desk = 1\n")
    catch_up(folder.store)
    folder.store.content.forget([folder.doc("a.py")])
    folder.remove("b.py")
    folder.store.content.sweep(2**40)
    folder.write(c_py="chair = 1\n")
    catch_up(folder.store)
    assert_whole(folder.store)


@pytest.mark.parametrize("step", ["truth", "words", "embedding", "rows"])
def test_catch_up_killed_between_two_steps_goes_on_from_the_watermark(
    open_store, folder_of, monkeypatch, step
):
    first = folder_of(open_store())
    first.write_all({f"f{number}.py": f"lamp = {number}\n" for number in range(20)})
    catch_up(first.store)
    mark = first.store.content.seq()
    first.write(f3_py="desk = 3\n")
    first.remove("f4.py")
    asked = RecordingEmbedder()
    if step == "words":
        first.catch_up()
    elif step == "embedding":
        asked.fails = True
        with pytest.raises(OSError, match="killed"):
            catch_up(first.store, asked)
    elif step == "rows":
        with monkeypatch.context() as patch:
            patch.setattr(Vectors, "sync", lambda self, watermark: None)
            catch_up(first.store)
    first.store.close()
    again = folder_of(open_store())
    assert vectors_of(again.store).watermark == mark
    again.write(g_py="chair = 1\n")  # before the vectors have had a turn
    again.catch_up()
    asked = RecordingEmbedder()
    said = statements(again.store, asked)
    assert sorted(asked.texts) == ["chair = 1", "desk = 3"]
    assert EVERYTHING not in said
    assert_whole(again.store)
    catch_up(again.store, asked)
    assert len(asked.texts) == 2


def test_vector_set_far_behind_is_compared_as_a_whole(folder, monkeypatch):
    monkeypatch.setattr(truth, "REMOVALS", 3)
    folder.write_all({f"f{number}.py": f"lamp = {number}\n" for number in range(12)})
    catch_up(folder.store)
    for number in range(6):
        folder.remove(f"f{number}.py")
    folder.catch_up()
    asked = RecordingEmbedder()
    assert EVERYTHING in statements(folder.store, asked)
    assert asked.texts == []
    assert_whole(folder.store)


def test_store_without_recorded_removals_is_compared_as_a_whole_once(folder):
    folder.write(a_py="lamp = 1\n", b_py="desk = 1\n")
    catch_up(folder.store)
    folder.remove("a.py")
    with folder.store._connections.write() as connection:  # as an earlier version left it
        connection.execute("DELETE FROM gone")
        connection.execute("DELETE FROM meta WHERE key = 'forgotten'")
    catch_up(folder.store)
    assert_whole(folder.store)
    folder.write(c_py="chair = 1\n")
    assert EVERYTHING not in statements(folder.store, RecordingEmbedder())


@pytest.mark.parametrize("harm", ["gone", "damaged"])
def test_lost_or_damaged_vector_set_is_made_again(open_store, folder_of, harm):
    first = folder_of(open_store())
    first.write(a_py="lamp = 1\n", b_py="desk = 1\n")
    catch_up(first.store)
    first.store.close()
    (rows,) = first.store.directory.glob("vectors-*/*/rows-*")
    if harm == "gone":
        shutil.rmtree(rows.parent)
    else:
        rows.write_bytes(rows.read_bytes()[:-9] + b"123456789")
    again = folder_of(open_store())
    assert vectors_of(again.store).watermark == FRESH
    catch_up(again.store)
    assert_whole(again.store)


def spoil(store: Store) -> None:
    vectors = vectors_of(store)
    vectors.remove(vectors.ids()[:1])
    vectors.add(np.asarray([998, 999]), EMBEDDER.embed(["x", "y"], "passage"))
    vectors.sync(store.content.seq())


def test_doubted_vector_set_gets_lost_rows_and_drops_superfluous_ones(folder):
    folder.write(a_py="lamp = 1\n", b_py="desk = 1\n")
    catch_up(folder.store)
    spoil(folder.store)
    folder.store.content.recheck_vectors()
    folder.write(c_py="chair = 1\n")
    catch_up(folder.store)
    assert_whole(folder.store)


def test_verify_doubts_a_vector_set_with_a_wrong_number_of_rows(folder):
    folder.write(a_py="lamp = 1\n", b_py="desk = 1\n")
    catch_up(folder.store)
    folder.store.indexes.verify()
    folder.write(c_py="chair = 1\n")
    assert EVERYTHING not in statements(folder.store, RecordingEmbedder())
    spoil(folder.store)
    folder.store.indexes.verify()
    folder.write(d_py="table = 1\n")
    catch_up(folder.store)
    assert_whole(folder.store)


def test_vector_set_ahead_of_a_restored_database_is_made_again(tmp_path, open_store, folder_of):
    first = folder_of(open_store())
    first.write(a_py="lamp = 1\n")
    catch_up(first.store)
    first.store.checkpoint()
    copy = (tmp_path / "cortex.db").read_bytes()
    first.write(b_py="desk = 1\n")
    first.write(c_py="chair = 1\n")
    catch_up(first.store)
    first.store.close()
    (tmp_path / "cortex.db").write_bytes(copy)
    again = folder_of(open_store())
    again.write(b_py="table = 1\n")  # under the id that the desk had
    catch_up(again.store)
    assert_whole(again.store)


def test_reader_that_takes_over_continues_at_the_writer_s_watermark(open_store, folder_of):
    writer, heir = folder_of(open_store()), folder_of(open_store())
    writer.write(a_py="lamp = 1\n", b_py="desk = 1\n")
    catch_up(writer.store)
    assert len(vectors_of(heir.store).ids()) == 2
    writer.remove("a.py")
    catch_up(writer.store)
    writer.write(c_py="chair = 1\n")
    writer.store.close()
    asked = RecordingEmbedder()
    said = statements(heir.store, asked)
    assert (asked.texts, EVERYTHING in said) == (["chair = 1"], False)
    assert_whole(heir.store)


names = st.sampled_from([f"{letter}.py" for letter in "abcd"])
texts = st.sampled_from([f"word{number} = {number}\n" for number in range(4)] + [""])
changes = st.lists(
    st.one_of(
        st.tuples(st.just("write"), names, texts),
        st.tuples(st.sampled_from(["remove", "forget"]), names, st.just("")),
        st.tuples(
            st.sampled_from(["words", "all", "fail", "sweep", "reopen", "doubt"]),
            st.just(""),
            st.just(""),
        ),
    ),
    max_size=16,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # a class, the same for all
@given(changes=changes, kept=st.sampled_from([1, 2_000]))
def test_vector_set_after_any_changes_equals_a_fresh_one(
    tmp_path_factory, folder_of, changes, kept
):
    directory = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(truth, "REMOVALS", kept)
        folder = folder_of(Store(directory))
        for change, path, text in changes:
            known = folder.store.content.known(folder.source.id)
            if change == "write":
                folder.write_all({path: text})
            elif change == "remove":
                folder.remove(path)
            elif change == "forget" and path in known:
                folder.store.content.forget([known[path].doc])
            elif change == "words":
                folder.catch_up()
            elif change == "all":
                catch_up(folder.store)
                assert_whole(folder.store)
            elif change == "fail":
                with patch.context() as killed:
                    killed.setattr(Vectors, "sync", lambda self, watermark: None)
                    catch_up(folder.store)
            elif change == "sweep":
                folder.store.content.sweep(2**40)
            elif change == "reopen":
                folder.store.close()
                folder = folder_of(Store(directory))
            elif change == "doubt":
                folder.store.content.recheck_vectors()
        with closing(folder.store):
            catch_up(folder.store)
            assert_whole(folder.store)
            assert folder.store.check() == []
    shutil.rmtree(directory)


def test_vector_set_removal_killed_midway_leaves_no_part(folder, monkeypatch):
    folder.write_all({"a.py": "lamp = 1\n", "b.py": "desk = 2\n"})
    catch_up(folder.store)
    sets = folder.store.indexes.sets
    with monkeypatch.context() as patch:
        patch.setattr(vector_folder.shutil, "rmtree", remove_rows_and_die)
        with pytest.raises(KeyboardInterrupt):
            sets.keep_only(())
    assert folder.store.check() == []
    catch_up(folder.store)
    assert_whole(folder.store)
    sets.keep_only(())
    assert list(folder.store.directory.glob("vectors-*/*")) == []


def remove_rows_and_die(path, ignore_errors=False):
    if path.exists():
        for rows in path.glob("rows-*.log"):
            rows.unlink()
        raise KeyboardInterrupt
