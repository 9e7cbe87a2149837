"""Index maintenance: catching up, repair, swapping under readers, and ids that agree."""

import random
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cortex.base.errors import NetworkError, StoreError
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.store import FIELDS, EmbeddingJob, LexicalTerm, SearchFilter, Store
from cortex.engine.store.index import maintenance, vector_indexes
from cortex.engine.store.index.lexical import NO_WATERMARK, LexicalIndex

DEADLINE = 20.0
TERM = tuple((field, 1.0) for field in FIELDS)


def find(store: Store, word: str) -> list[str]:
    """The paths of the hits of a search, without hits that SQLite doesn't know."""
    words = store.indexes.words()
    assert words is not None
    rows = words.search([LexicalTerm(word, TERM)], SearchFilter((1,)), 1000)
    places = store.content.places([(doc, chunk) for doc, chunk, _ in rows])
    return sorted({place.doc.path for place in places.values()})


def generations(store: Store) -> list[str]:
    assert store.directory
    return sorted(path.name for path in store.directory.glob("words-*"))


def damage_missing(directory):
    shutil.rmtree(directory)


def damage_cut(directory):
    for file in directory.iterdir():
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def damage_garbage(directory):
    for file in directory.iterdir():
        file.write_bytes(random.Random(file.name).randbytes(200))


def test_store_has_no_lexical_index_before_the_first_catch_up(folder):
    assert folder.store.indexes.words() is None
    folder.catch_up()
    assert find(folder.store, "lamp") == []


def test_changes_are_found_after_catching_up_once_or_twice(folder):
    folder.write(a_py="lamp = 1\n", b_py="desk = 1\n")
    folder.catch_up()
    folder.write(a_py="chair = 1\n", c_py="lamp = 3\n")
    folder.remove("b.py")
    for _ in range(3):
        folder.catch_up()
    assert (
        find(folder.store, "lamp"),
        find(folder.store, "desk"),
        find(folder.store, "chair"),
    ) == (["c.py"], [], ["a.py"])
    assert folder.store.check() == []


def test_replay_from_an_earlier_watermark_changes_no_rows(folder):
    """As after a crash between the commit of the rows and the note of it in SQLite."""
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    words = folder.store.indexes.words()
    words.apply((), (), 0)  # the watermark as it was before
    folder.write(b_py="lamp = 2\n")
    folder.remove("a.py")
    folder.catch_up()
    assert find(folder.store, "lamp") == ["b.py"]
    assert folder.store.check() == []


@pytest.mark.parametrize("damage", [damage_missing, damage_cut, damage_garbage])
def test_damaged_lexical_index_is_rebuilt_without_an_error(tmp_path, open_store, folder_of, damage):
    folder = folder_of(open_store())
    folder.write(a_py="lamp = 1\n", b_py="lamp = 2\n")
    folder.catch_up()
    folder.store.close()
    damage(tmp_path / generations(folder.store)[0])
    again = folder_of(open_store())
    again.catch_up()
    assert find(again.store, "lamp") == ["a.py", "b.py"]
    assert again.store.check() == []
    assert len(generations(again.store)) == 1


def test_lexical_index_ahead_of_the_database_is_rebuilt(folder):
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    folder.store.indexes.words().apply((), (), 50)
    folder.catch_up()
    assert find(folder.store, "lamp") == ["a.py"]
    assert folder.store.indexes.words().watermark() == 1


def test_another_lexical_format_has_another_directory(tmp_path, open_store, folder_of, monkeypatch):
    old = folder_of(open_store())
    old.write(a_py="lamp = 1\n")
    old.catch_up()
    old.store.close()
    before = generations(old.store)
    monkeypatch.setattr(maintenance, "FORMAT", "99")
    new = folder_of(open_store())
    assert new.store.indexes.words() is None
    new.catch_up()
    assert find(new.store, "lamp") == ["a.py"]
    (name,) = generations(new.store)
    assert name.startswith("words-99-")
    assert [name] != before


def test_many_dead_rows_cause_a_lexical_rebuild(folder, monkeypatch):
    monkeypatch.setattr(maintenance, "DEAD_ROWS", 10)
    folder.write_all({f"f{number}.py": f"lamp = {number}\n" for number in range(100)})
    folder.catch_up()
    assert not folder.store.indexes.tidy()
    folder.remove(*(f"f{number}.py" for number in range(9)))
    folder.catch_up()
    assert not folder.store.indexes.tidy()  # nine of a hundred
    folder.remove(*(f"f{number}.py" for number in range(9, 15)))
    folder.catch_up()
    before = generations(folder.store)
    assert folder.store.indexes.tidy()
    assert generations(folder.store) != before
    assert len(generations(folder.store)) == 1
    assert len(find(folder.store, "lamp")) == 85
    assert not folder.store.indexes.tidy()


def test_one_of_several_that_find_many_dead_rows_rebuilds(folder, monkeypatch):
    monkeypatch.setattr(maintenance, "DEAD_ROWS", 10)
    folder.write_all({f"f{number}.py": f"lamp = {number}\n" for number in range(100)})
    folder.catch_up()
    folder.remove(*(f"f{number}.py" for number in range(20)))
    folder.catch_up()
    ready = threading.Barrier(4)

    def tidy(_: int) -> bool:
        ready.wait(20)
        return folder.store.indexes.tidy()

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(tidy, range(4))) == 1
    assert len(find(folder.store, "lamp")) == 80


def test_a_reader_in_the_same_process_follows_a_swap(open_store, folder_of):
    writer, reader = folder_of(open_store()), open_store()
    writer.write(a_py="lamp = 1\n")
    writer.catch_up()
    assert find(reader, "lamp") == ["a.py"]
    writer.store.indexes.rebuild()
    writer.write(b_py="lamp = 2\n")
    writer.catch_up()
    assert find(reader, "lamp") == ["a.py", "b.py"]


def test_reader_opened_before_the_first_catch_up_finds_the_index_later(open_store, folder_of):
    writer, reader = folder_of(open_store()), open_store()
    writer.write(a_py="lamp = 1\n")
    writer.catch_up()
    writer.write(b_py="lamp = 2\n")
    assert find(reader, "lamp") == ["a.py"]  # SQLite is ahead of the words
    writer.catch_up()
    assert find(reader, "lamp") == ["a.py", "b.py"]


def test_reader_works_without_a_lexical_index_removed_before_it_opened(open_store, folder_of):
    folder = folder_of(open_store())
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    reader = open_store()
    shutil.rmtree(folder.store.directory / generations(folder.store)[0])
    assert reader.indexes.words() is None and reader.indexes.damaged
    assert folder.store.indexes.damaged  # who holds the lease sees it
    folder.catch_up()
    assert not reader.indexes.damaged and find(reader, "lamp") == ["a.py"]


READER = """
import sys
from pathlib import Path
from cortex.engine.store import FIELDS, LexicalTerm, SearchFilter, Store
store = Store(Path(sys.argv[1]))
term = LexicalTerm("lamp", tuple((field, 1.0) for field in FIELDS))
for _ in sys.stdin:
    for _ in range(20):
        rows = store.indexes.words().search([term], SearchFilter((1,)), 1000)
        count = len(store.content.places([(doc, chunk) for doc, chunk, _ in rows]))
    print(count, store.indexes.state()[0], flush=True)
store.close()
"""


def test_reader_in_another_process_follows_a_swap_without_a_failed_answer(tmp_path, folder):
    folder.write_all({f"f{number}.py": f"lamp = {number}\n" for number in range(30)})
    folder.catch_up()
    command = [sys.executable, "-c", READER, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdin and reader.stdout
        for round_ in range(4):
            reader.stdin.write("ask\n")
            reader.stdin.flush()
            folder.store.indexes.rebuild()  # while it answers
            count, _ = reader.stdout.readline().split()
            assert count == "30", f"round {round_}"
        reader.stdin.write("ask\n")
        reader.stdin.flush()
        assert reader.stdout.readline().split() == ["30", generations(folder.store)[0]]
        reader.communicate(timeout=DEADLINE)
    assert len(generations(folder.store)) == 1


def test_threads_search_while_the_lexical_index_is_written_and_swapped(folder):
    folder.write_all({f"f{number}.py": f"lamp = {number}\n" for number in range(20)})
    folder.catch_up()
    stop, problems, counts = threading.Event(), [], []

    def search() -> None:
        try:
            while not stop.is_set():
                counts.append(len(find(folder.store, "lamp")))
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(6):
        folder.write_all({f"more{number}.py": f"lamp = 'more {number}'\n"})
        folder.catch_up()
        folder.store.indexes.rebuild()
    stop.set()
    for thread in threads:
        thread.join(DEADLINE)
    assert problems == []
    assert min(counts) >= 20
    assert len(find(folder.store, "lamp")) == 26


def test_a_change_during_a_rebuild_is_not_lost(folder, monkeypatch):
    folder.write(a_py="lamp = 1\n", b_py="lamp = 2\n")
    folder.catch_up()
    started, go_on = threading.Event(), threading.Event()
    apply = LexicalIndex.apply

    def slow(self, rows, gone, watermark):
        if self._index.searcher().num_docs == 0 and not started.is_set():  # the fresh ones
            started.set()
            go_on.wait(DEADLINE)
        return apply(self, rows, gone, watermark)

    monkeypatch.setattr(LexicalIndex, "apply", slow)
    rebuilding = threading.Thread(target=folder.store.indexes.rebuild)
    rebuilding.start()
    assert started.wait(DEADLINE)
    folder.write(a_py="desk = 1\n")
    changing = threading.Thread(target=folder.catch_up)
    changing.start()
    go_on.set()
    rebuilding.join(DEADLINE)
    changing.join(DEADLINE)
    assert (find(folder.store, "lamp"), find(folder.store, "desk")) == (["b.py"], ["a.py"])
    assert folder.store.check() == []


def test_rebuilt_lexical_index_does_not_depend_on_the_order_of_changes(
    tmp_path, open_store, folder_of
):
    texts = {f"f{number}.py": f"lamp_{number % 3} = {number}\n" for number in range(40)}
    orders = []
    for seed in (1, 2):
        (tmp_path / str(seed)).mkdir()
        folder = folder_of(open_store(tmp_path / str(seed)))
        names = sorted(texts)
        random.Random(seed).shuffle(names)
        for name in names:
            folder.write_all({name: texts[name]})
        folder.catch_up()
        folder.store.indexes.rebuild()
        words = folder.store.indexes.words()
        rows = words.search([LexicalTerm("lamp", TERM)], SearchFilter((1,)), 10)
        places = folder.store.content.places([(doc, chunk) for doc, chunk, _ in rows])
        orders.append(sorted((score, places[doc, chunk].doc.path) for doc, chunk, score in rows))
    assert orders[0] == orders[1]


def embedding_job(embedder) -> EmbeddingJob:
    return EmbeddingJob(embedder.stamp, lambda texts: embedder.embed(texts, "passage"))


def vector_ids(store: Store, embedder) -> set[int]:
    return set(store.indexes.vectors(embedder.stamp).ids().tolist())


def chunk_ids(folder) -> set[int]:
    docs = folder.store.content.docs(folder.source.id)
    return {chunk for doc in docs for chunk, _ in folder.store.content.chunks(doc.blob)}


def test_vectors_hold_the_ids_of_the_chunks_in_use(folder):
    embedder = HashingEmbedder()
    for change in (
        lambda: folder.write(a_py="lamp = 1\n", b_py="desk = 1\n", c_py="lamp = 1\n"),
        lambda: folder.write(a_py="chair = 1\n"),
        lambda: folder.remove("b.py"),
        lambda: folder.link("d.py", like="c.py"),
        lambda: folder.remove("c.py"),
    ):
        change()
        folder.store.indexes.catch_up([embedding_job(embedder)])
        assert vector_ids(folder.store, embedder) == chunk_ids(folder)


def test_embedding_that_failed_halfway_is_completed_later(folder, monkeypatch):
    monkeypatch.setattr(vector_indexes, "EMBED_BATCH", 2)
    embedder, calls = HashingEmbedder(), []

    def embed(texts):
        calls.append(len(texts))
        if len(calls) == 2:
            raise NetworkError("EMBEDDER_UNAVAILABLE", "gone")
        return embedder.embed(texts, "passage")

    folder.write_all({f"f{number}.py": f"lamp = {number}\n" for number in range(7)})
    with pytest.raises(NetworkError):
        folder.store.indexes.catch_up([EmbeddingJob(embedder.stamp, embed)])
    assert find(folder.store, "lamp")  # the words have everything
    assert folder.write(z_py="z = 1\n")  # and no view is left open
    folder.store.checkpoint()
    assert (folder.store.directory / "cortex.db-wal").stat().st_size == 0
    folder.store.indexes.catch_up([EmbeddingJob(embedder.stamp, embed)])
    assert vector_ids(folder.store, embedder) == chunk_ids(folder)


def test_another_embedder_makes_all_vectors_again(folder):
    folder.write(a_py="lamp = 1\n")
    for embedder in (HashingEmbedder(64), HashingEmbedder(32)):
        assert folder.store.indexes.sets.state(embedder.stamp).watermark == NO_WATERMARK
        folder.store.indexes.catch_up([embedding_job(embedder)])
        assert vector_ids(folder.store, embedder) == chunk_ids(folder)


def test_vectors_of_a_deleted_database_are_never_used(tmp_path, open_store, folder_of):
    embedder = HashingEmbedder()
    old = folder_of(open_store())
    old.write(a_py="lamp = 1\n")
    old.write(b_py="desk = 1\n")
    old.store.indexes.catch_up([embedding_job(embedder)])
    old.store.close()
    for file in tmp_path.glob("cortex.db*"):
        file.unlink()
    new = folder_of(open_store())
    new.write(a_py="chair = 1\n")
    assert vector_ids(new.store, embedder) == set()
    new.store.indexes.catch_up([embedding_job(embedder)])
    (found, cosine), *rest = new.store.indexes.vectors(embedder.stamp).search(
        np.asarray(embedder.embed(["chair = 1"], "query")[0]), 5
    )
    assert (cosine, rest) == (1.0, [])
    assert found in chunk_ids(new)
    assert len(list(tmp_path.glob("vectors*"))) == 1


def test_lexical_index_of_a_deleted_database_is_never_used(tmp_path, open_store, folder_of):
    old = folder_of(open_store())
    old.write(a_py="lamp = 1\n")
    old.catch_up()
    before = generations(old.store)
    old.store.close()
    for file in tmp_path.glob("cortex.db*"):
        file.unlink()
    new = folder_of(open_store())
    new.write(a_py="chair = 1\n")
    new.catch_up()
    assert (find(new.store, "lamp"), find(new.store, "chair")) == ([], ["a.py"])
    assert set(before).isdisjoint(generations(new.store))


def test_lexical_index_that_differs_from_the_database_is_rebuilt_by_verify(folder):
    folder.write(a_py="lamp = 1\n", b_py="lamp = 2\n")
    folder.catch_up()
    assert not folder.store.indexes.verify()
    folder.store.indexes.words().apply((), [folder.doc("a.py")], 1)  # a row is lost
    assert folder.store.check()
    assert folder.store.indexes.verify()
    assert find(folder.store, "lamp") == ["a.py", "b.py"]
    assert folder.store.check() == []


@pytest.mark.parametrize("damage", [damage_missing, damage_cut, damage_garbage])
def test_check_reports_a_damaged_lexical_index(open_store, folder_of, damage):
    first = folder_of(open_store())
    first.write(a_py="lamp = 1\n")
    first.catch_up()
    first.store.close()
    (words,) = first.store.directory.glob("words-*")
    damage(words)
    (problem,) = open_store().check()
    assert "word index" in problem


def test_check_reports_lost_and_superfluous_vectors(folder):
    embedder = HashingEmbedder()
    folder.write(a_py="lamp = 1\n", b_py="desk = 2\n")
    folder.store.indexes.catch_up([embedding_job(embedder)])
    assert folder.store.check() == []
    vectors = folder.store.indexes.vectors(embedder.stamp)
    vectors.remove(vectors.ids()[:1])
    vectors.add(np.asarray([998, 999]), embedder.embed(["x", "y"], "passage"))
    vectors.sync(folder.store.content.seq())
    assert folder.store.check() == ["vectors: 1 rows missing, 2 too many"]
    folder.write(c_py="chair = 3\n")
    folder.catch_up()
    assert folder.store.check() == []  # they are behind, and no worse than that


def test_vector_catch_up_reads_only_texts_without_a_vector(folder):
    embedder = HashingEmbedder()

    def catch_up_without(*paths: str) -> None:
        """Let the lexical index catch up, then the vectors, while these texts can't be read."""
        folder.catch_up()
        with folder.store._connections.write() as connection:
            for path in paths:
                connection.execute(
                    "UPDATE blobs SET text = x'00' WHERE id = ?", (folder.blob(path),)
                )
        folder.store.indexes.catch_up([embedding_job(embedder)])
        assert vector_ids(folder.store, embedder) == chunk_ids(folder)

    folder.write_all({"f0.py": "lamp = 0\n", "f1.py": "lamp = 1\n", "f2.py": "lamp = 2\n"})
    catch_up_without()
    folder.write_all({"a.py": "new = 1\n", "b.py": "lamp = 0\n"})  # the second is known content
    catch_up_without("b.py")
    folder.remove("f1.py")
    catch_up_without("f2.py")


def is_ours(name: str, number: int) -> bool:
    return name.startswith("words-") and name.endswith(f"-{number}")


def test_current_generation_is_kept_and_a_rebuilt_one_is_numbered(folder):
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    (first,) = generations(folder.store)
    assert is_ours(first, 1)
    folder.catch_up()
    folder.write(b_py="lamp = 2\n")
    folder.catch_up()
    assert generations(folder.store) == [first]
    folder.store.indexes.rebuild()
    (second,) = generations(folder.store)
    assert is_ours(second, 2)


def test_lexical_index_is_opened_once_for_many_searches(open_store, folder_of):
    folder, reader = folder_of(open_store()), open_store()
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    for store in (folder.store, reader):
        assert store.indexes.words() is store.indexes.words()
        assert store.indexes.vectors(HashingEmbedder().stamp) is store.indexes.vectors(
            HashingEmbedder().stamp
        )
        assert store.indexes.sets is store.indexes.sets


def test_lexical_index_state_changes_with_its_content(open_store, folder_of):
    folder = folder_of(open_store())
    states = [folder.store.indexes.state()]
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    states.append(folder.store.indexes.state())
    folder.write(b_py="lamp = 2\n")
    folder.catch_up()
    states.append(folder.store.indexes.state())
    folder.store.indexes.rebuild()
    states.append(folder.store.indexes.state())
    (name,) = generations(folder.store)
    assert states[0] == ("", NO_WATERMARK)
    assert [mark for _, mark in states[1:]] == [1, 2, 2]
    assert states[1][0] == states[2][0] != states[3][0] == name
    reader = open_store()
    assert reader.indexes.state() == states[3]
    damage_missing(folder.store.directory / name)
    fresh = open_store()
    assert fresh.indexes.state() == ("", NO_WATERMARK)


def test_failed_lexical_index_is_marked_for_all_readers_and_rebuilt(open_store, folder_of, caplog):
    folder, reader = folder_of(open_store()), open_store()
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    (name,) = generations(folder.store)
    failed = StoreError("INDEX_DAMAGED", "it fell over", context={"index": name})
    for _ in range(2):
        reader.indexes.mark_damaged(failed)
    assert [record.message for record in caplog.records] == [
        "the word index is damaged and will be built anew: it fell over"
    ]
    assert reader.indexes.damaged is folder.store.indexes.damaged is True
    assert reader.indexes.words() is folder.store.indexes.words() is None
    assert (folder.store.directory / name / "damaged").stat().st_mode & 0o777 == 0o600
    folder.catch_up()
    (fresh,) = generations(folder.store)
    assert is_ours(fresh, 2)
    assert reader.indexes.damaged is folder.store.indexes.damaged is False
    assert find(reader, "lamp") == find(folder.store, "lamp") == ["a.py"]


def test_error_of_a_replaced_index_does_not_mark_the_new_one(folder):
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    (old,) = generations(folder.store)
    folder.store.indexes.rebuild()
    folder.store.indexes.mark_damaged(StoreError("INDEX_DAMAGED", "late", context={"index": old}))
    assert folder.store.indexes.damaged is False
    assert find(folder.store, "lamp") == ["a.py"]


def test_file_in_place_of_the_lexical_index_is_replaced(open_store, folder_of):
    folder = folder_of(open_store())
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    (name,) = generations(folder.store)
    path = folder.store.directory / name
    shutil.rmtree(path)
    path.write_text("in the way", encoding="utf-8")
    reader = open_store()
    assert reader.indexes.words() is None
    assert path.is_dir() and path.stat().st_mode & 0o777 == 0o700
    folder.catch_up()
    assert find(reader, "lamp") == ["a.py"]


@pytest.mark.parametrize("look", ["verify", "check"])
def test_changed_byte_on_disk_is_detected_in_an_open_index(folder, look):
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    (name,) = generations(folder.store)
    path = max(
        (folder.store.directory / name).glob("*.store"), key=lambda file: file.stat().st_size
    )
    raw = bytearray(path.read_bytes())
    raw[0] ^= 255
    path.write_bytes(raw)
    assert find(folder.store, "lamp") == ["a.py"]
    if look == "check":
        assert folder.store.check() == [f"the word index {name} is damaged"]
        assert folder.store.check() == [f"the word index {name} is damaged"]
    assert folder.store.indexes.verify() is True
    assert folder.store.indexes.verify() is False
    assert folder.store.check() == []
    assert find(folder.store, "lamp") == ["a.py"]
    assert is_ours(generations(folder.store)[0], 2)


def test_missing_and_superfluous_lexical_rows_are_counted(folder):
    folder.write(a_py="lamp = 1\n", b_py="lamp = 2\n", c_py="lamp = 3\n")
    folder.catch_up()
    assert folder.store.check() == []
    gone = [folder.doc("a.py"), folder.doc("b.py")]
    folder.store.indexes.words().apply((), gone, folder.store.content.seq())
    assert folder.store.check() == ["words: 2 rows missing, 0 too many"]
    assert folder.store.indexes.verify() is True


def test_lexical_index_that_is_behind_is_not_compared(folder):
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    folder.write(b_py="lamp = 2\n")
    (before,) = generations(folder.store)
    assert folder.store.check() == []
    assert folder.store.indexes.verify() is False
    assert generations(folder.store) == [before]


def test_store_without_a_lexical_index_has_nothing_to_compare_or_tidy(folder):
    folder.write(a_py="lamp = 1\n")
    assert folder.store.check() == []
    assert folder.store.indexes.verify() is False
    assert folder.store.indexes.tidy() is False
    assert generations(folder.store) == []


def test_store_in_memory_is_searched_checked_tidied_and_repaired(
    open_store, folder_of, monkeypatch
):
    monkeypatch.setattr(maintenance, "DEAD_ROWS", 1)
    folder = folder_of(open_store(None))
    indexes = folder.store.indexes
    assert (indexes.words(), indexes.damaged, indexes.tidy()) == (None, False, False)
    folder.write(a_py="lamp = 1\n", b_py="lamp = 2\n")
    indexes.catch_up([embedding_job(HashingEmbedder())])
    assert find(folder.store, "lamp") == ["a.py", "b.py"]
    assert folder.store.check() == []
    indexes.mark_damaged(StoreError("INDEX_DAMAGED", "it failed", context={"index": ""}))
    assert (indexes.words(), indexes.damaged) == (None, True)
    assert folder.store.check() != []
    assert indexes.verify() is True
    assert find(folder.store, "lamp") == ["a.py", "b.py"]
    folder.remove("a.py")
    folder.catch_up()
    assert (indexes.tidy(), indexes.tidy()) == (True, False)
    assert (find(folder.store, "lamp"), folder.store.check()) == (["b.py"], [])


def test_failed_rebuild_leaves_the_lexical_index_unchanged(folder):
    folder.write(a_py="lamp = 1\n", b_py="lamp = 2\n")
    folder.catch_up()
    before, blob = generations(folder.store), folder.blob("b.py")
    with folder.store._connections.write() as connection:
        (text,) = connection.execute("SELECT text FROM blobs WHERE id = ?", (blob,)).fetchone()
        connection.execute("UPDATE blobs SET text = x'00' WHERE id = ?", (blob,))
    with pytest.raises(StoreError, match="a text in the store is damaged"):
        folder.store.indexes.rebuild()
    assert generations(folder.store) == before
    with folder.store._connections.write() as connection:
        connection.execute("UPDATE blobs SET text = ? WHERE id = ?", (text, blob))
    assert find(folder.store, "lamp") == ["a.py", "b.py"]
    folder.store.indexes.rebuild()
    assert find(folder.store, "lamp") == ["a.py", "b.py"]


def fail(monkeypatch, method: str, code: str, times: int = 1) -> None:
    """Let this method of lexical indexes fail, as with a disk that gives errors."""
    left, own = [times], getattr(LexicalIndex, method)

    def failing(self, *arguments):
        if left[0]:
            left[0] -= 1
            name = self._directory.name if self._directory else ""
            raise StoreError(code, "the disk says no", context={"index": name})
        return own(self, *arguments)

    monkeypatch.setattr(LexicalIndex, method, failing)


def test_unwritable_new_index_is_reported_and_is_no_damage(folder, monkeypatch):
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    before = generations(folder.store)
    fail(monkeypatch, "apply", "INDEX_DAMAGED")
    with pytest.raises(StoreError, match="can't be written: the disk says no") as failed:
        folder.store.indexes.rebuild()
    assert failed.value.code == "STORE_IO"
    assert generations(folder.store) == before
    fail(monkeypatch, "apply", "STORE_UNWRITABLE")
    with pytest.raises(StoreError) as failed:
        folder.store.indexes.rebuild()
    assert failed.value.code == "STORE_UNWRITABLE"
    assert folder.store.indexes.damaged is False


def test_lexical_index_that_fails_while_written_is_rebuilt_at_once(folder, monkeypatch):
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    folder.write(b_py="lamp = 2\n")
    fail(monkeypatch, "apply", "INDEX_DAMAGED")
    folder.catch_up()
    assert find(folder.store, "lamp") == ["a.py", "b.py"]
    assert is_ours(generations(folder.store)[0], 2)


@pytest.mark.parametrize("look", ["catch_up", "verify", "check", "words"])
def test_other_disk_failures_are_raised_and_are_no_damage(folder, monkeypatch, look):
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    before = generations(folder.store)
    folder.write(b_py="lamp = 2\n")
    method = {"catch_up": "apply", "words": "reload"}.get(look, "watermark")
    fail(monkeypatch, method, "STORE_IO", times=9)
    with pytest.raises(StoreError, match="the disk says no"):
        (folder.store.check if look == "check" else getattr(folder.store.indexes, look))()
    monkeypatch.undo()
    assert folder.store.indexes.damaged is False
    assert generations(folder.store) == before


@pytest.mark.parametrize("look", ["verify", "tidy", "check"])
def test_lexical_index_that_fails_while_read_is_damaged(folder, monkeypatch, look):
    monkeypatch.setattr(maintenance, "DEAD_ROWS", 1)
    folder.write(a_py="lamp = 1\n", b_py="lamp = 2\n")
    folder.catch_up()
    folder.remove("b.py")
    folder.catch_up()
    fail(monkeypatch, "identities" if look == "check" else "__len__", "INDEX_DAMAGED")
    if look == "verify":
        assert folder.store.indexes.verify() is True
    else:
        told = folder.store.check() if look == "check" else folder.store.indexes.tidy()
        assert told == (["the disk says no"] if look == "check" else False)
        assert folder.store.indexes.damaged is True
        folder.catch_up()
    assert is_ours(generations(folder.store)[0], 2)
    assert find(folder.store, "lamp") == ["a.py"]


def test_other_failure_while_counting_dead_rows_is_raised(folder, monkeypatch):
    monkeypatch.setattr(maintenance, "DEAD_ROWS", 1)
    folder.write(a_py="lamp = 1\n", b_py="lamp = 2\n")
    folder.catch_up()
    folder.remove("b.py")
    folder.catch_up()
    fail(monkeypatch, "__len__", "STORE_IO")
    with pytest.raises(StoreError, match="the disk says no"):
        folder.store.indexes.tidy()


def test_dead_rows_are_counted_by_removed_chunks(folder, monkeypatch):
    """A tenth of all rows, counted by chunks and not by files, is too many."""
    monkeypatch.setattr(maintenance, "DEAD_ROWS", 1)
    lines = "".join(f"    total += price[{line}] * amount[{line}]\n" for line in range(40))
    functions = "\n\n".join(f"def lamp_{number}():\n{lines}" for number in range(9))
    folder.write_all({f"f{number}.py": functions for number in range(3)})
    folder.catch_up()
    chunks = len(chunk_ids(folder))
    assert chunks > 3
    folder.write(one_py="desk = 1\n")
    folder.remove("f0.py")
    folder.catch_up()
    dead = int(folder.store.content.get("dead"))
    assert dead == chunks
    folder.remove("one.py")
    folder.catch_up()
    assert int(folder.store.content.get("dead")) == chunks + 1
    assert folder.store.indexes.tidy() is True
    assert folder.store.content.get("dead") == "0"


def test_lost_vector_rows_are_made_at_the_next_change_after_verify(folder):
    embedder = HashingEmbedder()
    folder.write(a_py="lamp = 1\n", b_py="desk = 2\n")
    folder.store.indexes.catch_up([embedding_job(embedder)])
    vectors = folder.store.indexes.vectors(embedder.stamp)
    vectors.remove(vectors.ids()[:1])
    vectors.sync(folder.store.content.seq())
    folder.store.indexes.verify()
    folder.write(c_py="chair = 3\n")
    folder.store.indexes.catch_up([embedding_job(embedder)])
    assert vector_ids(folder.store, embedder) == chunk_ids(folder)
