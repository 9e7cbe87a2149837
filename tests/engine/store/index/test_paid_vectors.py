"""Paid vectors: kept by text, copied to be searched, and separate for each model."""

from __future__ import annotations

import sqlite3
import zlib

import numpy as np
import pytest

from cortex.base.types import Stamp
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.store import ContentChange, EmbeddingJob, schema

STAMP = Stamp("test", "costly", 32)


def pay(store, stamp: Stamp = STAMP, most: int = 1000) -> list[str]:
    """Pay for at most so many waiting texts; returns the paid ones."""
    model = store.paid.model(stamp)
    waiting = list(store.paid.waiting(model, store.paid.plan(model)))
    batch = {pending.hash: pending.text for pending in waiting if not pending.known}
    batch = dict(list(batch.items())[:most])
    rows = HashingEmbedder(stamp.dimensions).embed(list(batch.values()), "passage")
    store.indexes.sets.pay(
        stamp, model, list(batch), rows, [pending.hash for pending in waiting if pending.known]
    )
    return list(batch.values())


def chunk_ids(folder) -> set[int]:
    docs = folder.store.content.docs(folder.source.id)
    return {chunk for doc in docs for chunk, _ in folder.store.content.chunks(doc.blob)}


def vector_ids(folder, stamp: Stamp = STAMP) -> set[int]:
    return set(folder.store.indexes.vectors(stamp).ids().tolist())


def catch_up(folder, stamp: Stamp = STAMP) -> None:
    folder.store.indexes.catch_up([EmbeddingJob(stamp, None)])


def test_a_store_of_the_first_version_becomes_one_of_the_second(tmp_path, open_store, folder_of):
    raw = sqlite3.connect(tmp_path / "cortex.db")
    schema.MIGRATIONS[0](raw)
    raw.execute("PRAGMA user_version = 1")
    raw.execute("INSERT INTO sources (kind, name, root) VALUES ('files', 'folder', '/folder')")
    raw.execute(
        "INSERT INTO blobs (hash, language, characters, lines, first_chunk, last_chunk, text) "
        "VALUES (x'01', 'python', 2, 1, 1, 1, ?)",
        (zlib.compress(b"a\n"),),
    )
    raw.execute("INSERT INTO chunks VALUES (1, 1, 0, 0, 2, 1, 1, 'code', '', '', '', '')")
    raw.execute("INSERT INTO docs VALUES (1, 1, 'a.py', 1, 2, 1, '', 1, 1)")
    raw.execute("UPDATE meta SET value = '1' WHERE key = 'seq'")
    raw.commit()
    raw.close()
    folder = folder_of(open_store())
    folder.write(b_py="b = 1\n")
    assert sorted(pay(folder.store)) == ["a\n", "b = 1"]
    assert vector_ids(folder) == chunk_ids(folder)
    assert folder.store.check() == []


def test_searched_vectors_are_the_paid_ones(folder):
    folder.write(a_py="lamp = 1\n", b_py="desk = 2\n")
    assert sorted(pay(folder.store)) == ["desk = 2", "lamp = 1"]
    assert vector_ids(folder) == chunk_ids(folder)
    vector = HashingEmbedder(32).embed(["lamp = 1"], "query")[0]
    (first, cosine), *_ = folder.store.indexes.vectors(STAMP).search(np.asarray(vector), 2)
    assert (round(cosine, 3), first in chunk_ids(folder)) == (1.0, True)


def test_paid_vectors_are_copied_again_into_a_lost_index(tmp_path, open_store, folder_of):
    folder = folder_of(open_store())
    folder.write(a_py="lamp = 1\n", b_py="desk = 2\n")
    pay(folder.store)
    folder.store.indexes.sets.keep_only(())
    assert vector_ids(folder) == set()
    catch_up(folder)
    assert vector_ids(folder) == chunk_ids(folder)
    assert pay(folder.store) == []


def test_crash_between_paid_vectors_and_their_copy_costs_nothing(
    open_store, folder_of, monkeypatch
):
    folder = folder_of(open_store())
    folder.write(a_py="lamp = 1\n")
    pay(folder.store)
    folder.store.paid.set_complete(folder.store.paid.model(STAMP), True)
    catch_up(folder)
    folder.write(b_py="desk = 2\n")
    catch_up(folder)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="gone"):
        patch.setattr(
            folder.store.indexes.vectors(STAMP),
            "sync",
            lambda _: (_ for _ in ()).throw(OSError("gone")),
        )
        pay(folder.store)
    folder.store.close()
    again = folder_of(open_store())
    catch_up(again)
    assert (vector_ids(again) == chunk_ids(again), pay(again.store), again.store.check()) == (
        True,
        [],
        [],
    )


def test_complete_model_stays_complete_until_many_vectors_are_missing(folder):
    folder.write_all({f"f{number}.py": f"lamp = {number}\n" for number in range(4)})
    pay(folder.store, most=3)
    catch_up(folder)
    assert folder.store.indexes.sets.state(STAMP).watermark == -1
    pay(folder.store)
    folder.store.paid.set_complete(folder.store.paid.model(STAMP), True)
    catch_up(folder)
    assert folder.store.indexes.sets.state(STAMP).watermark == folder.store.content.seq()
    folder.write(more_py="desk = 1\n")
    catch_up(folder)
    assert folder.store.indexes.sets.state(STAMP).watermark == folder.store.content.seq()
    assert (folder.store.indexes.sets.embedded(STAMP), folder.store.indexes.sets.count()) == (4, 5)
    folder.write_all({f"g{number}.py": f"chair = {number}\n" for number in range(9)})
    catch_up(folder)
    assert folder.store.indexes.sets.state(STAMP).watermark == -1
    assert not folder.store.paid.is_complete(STAMP)


def test_each_model_has_paid_vectors_of_its_own(folder):
    folder.write(a_py="lamp = 1\n")
    other = Stamp("test", "costly", 32, prefix="query: ")
    pay(folder.store)
    assert pay(folder.store, other) == ["lamp = 1"]
    sets = folder.store.indexes.sets
    assert sorted(manifest.stamp.prefix for manifest in sets.on_disk()) == ["", "query: "]
    sets.keep_only((other,))
    assert [manifest.stamp for manifest in sets.on_disk()] == [other]
    assert folder.store.check() == []


def test_vectors_of_a_wrong_length_are_not_kept(folder):
    folder.write(a_py="lamp = 1\n")
    model = folder.store.paid.model(STAMP)
    with pytest.raises(ValueError, match="dimensions"):
        folder.store.indexes.sets.pay(STAMP, model, [b"x"], np.ones((1, 31), np.float32), [])
    assert [count for _, _, count in folder.store.paid.models()] == [0]


def test_text_embedded_under_another_name_is_known(folder):
    folder.write(a_py="lamp = 1\n")
    pay(folder.store)
    folder.remove("a.py")
    folder.store.content.sweep(2**40)  # the content is gone for good, the vector is not yet
    folder.write(b_py="lamp = 1\n")
    model = folder.store.paid.model(STAMP)
    (waiting,) = folder.store.paid.waiting(model, folder.store.paid.plan(model))
    assert waiting.known
    assert pay(folder.store) == []
    catch_up(folder)
    assert vector_ids(folder) == chunk_ids(folder)


def test_sweep_keeps_vectors_that_a_text_could_still_claim(folder):
    folder.write(a_py="lamp = 1\n", b_py="desk = 2\n")
    pay(folder.store)
    folder.remove("a.py")
    folder.store.content.sweep(2**40)
    folder.write(c_py="chair = 3\n")
    folder.store.paid.sweep(0, None)
    assert [count for _, _, count in folder.store.paid.models()] == [2]
    pay(folder.store)
    folder.store.paid.sweep(0, None)
    assert [count for _, _, count in folder.store.paid.models()] == [2]  # of b and c


def test_most_useful_texts_wait_in_front(folder):
    folder.write_all(
        {
            "tests/test_a.py": "test = 1\n",
            "a.py": "code = 1\n",
            "README.md": "text\n",
            "vendor/b.py": "b = 1\n",
        }
    )
    assert folder.store.content.apply(folder.source.id, ContentChange()) == 1
    assert pay(folder.store) == ["code = 1", "text", "test = 1", "b = 1"]
