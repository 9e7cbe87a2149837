"""Content writes: seq, ids, content shared between docs, and the removal of content."""

import time

from cortex.base.types import ScannedFile
from cortex.engine.store import ContentChange
from cortex.engine.store.content import writer

DAY = 86_400


def test_every_change_raises_seq_by_one(folder):
    assert [folder.write(a_py="x = 1\n"), folder.write(b_py="y = 2\n"), folder.remove("a.py")] == [
        1,
        2,
        3,
    ]
    assert folder.store.content.seq() == 3


def test_new_modification_time_alone_leaves_the_indexes_current(folder):
    folder.write(a_py="x = 1\n")
    folder.store.content.apply(
        folder.source.id, ContentChange(touched=[(folder.doc("a.py"), ScannedFile("a.py", 6, 99))])
    )
    assert folder.store.content.seq() == 1
    assert folder.store.content.known(folder.source.id)["a.py"].mtime_ns == 99


def test_changed_text_gets_a_new_doc_id_that_is_never_reused(folder):
    seen: set[int] = set()
    for text in ("x = 1\n", "x = 2\n", "x = 3\n"):
        folder.write(a_py=text)
        assert folder.doc("a.py") not in seen
        seen.add(folder.doc("a.py"))
    folder.remove("a.py")
    folder.write(a_py="x = 3\n")
    assert folder.doc("a.py") not in seen


def test_chunk_ids_are_never_reused_after_their_blob_is_gone(folder):
    folder.write(a_py="x = 1\n")
    ((first, _),) = folder.store.content.chunks(folder.blob("a.py"))
    folder.store.content.forget([folder.doc("a.py")])
    folder.write(a_py="x = 1\n")
    ((second, _),) = folder.store.content.chunks(folder.blob("a.py"))
    assert second > first


def test_the_same_content_under_two_names_is_one_blob(folder):
    folder.write(a_py="x = 1\n", b_py="x = 1\n")
    folder.write(c_py="x = 1\n")
    assert folder.blobs() == 1
    assert folder.blob("a.py") == folder.blob("b.py") == folder.blob("c.py")


def test_a_rename_and_a_branch_switch_and_back_need_no_new_blob(folder):
    folder.write(a_py="x = 1\n", b_py="y = 1\n")
    folder.link("renamed.py", like="a.py")
    folder.remove("a.py")
    assert folder.blobs() == 2
    before = folder.blob("b.py")
    folder.write(b_py="y = 'on the branch'\n")
    folder.store.content.apply(
        folder.source.id, ContentChange(links=[(ScannedFile("b.py", 1, 1), before)])
    )
    assert folder.blobs() == 3
    assert folder.store.content.text(folder.blob("b.py")) == "y = 1\n"


def test_last_removals_are_remembered_after_the_lexical_index_dropped_them(folder, monkeypatch):
    monkeypatch.setattr(writer, "REMOVALS", 2)
    folder.write(a_py="x = 1\n", b_py="y = 1\n", c_py="z = 1\n")
    docs = [folder.doc(path) for path in ("a.py", "b.py", "c.py")]
    folder.catch_up()
    before = folder.store.content.seq()
    first = folder.remove("a.py")
    folder.remove("b.py")
    folder.catch_up()
    assert [row[0] for row in folder.store.indexes._gone(before)] == docs[:2]
    assert folder.store.content.lists_removals_since(before)
    folder.remove("c.py")
    folder.catch_up()
    assert [row[0] for row in folder.store.indexes._gone(before)] == docs[1:]
    assert (
        folder.store.content.lists_removals_since(before),
        folder.store.content.lists_removals_since(first),
    ) == (False, True)


def test_doubted_store_knows_no_removals_until_the_next_change(folder):
    seq = folder.write(a_py="x = 1\n")
    folder.catch_up()
    assert folder.store.content.lists_removals_since(seq)
    folder.store.content.recheck_vectors()
    assert not folder.store.content.lists_removals_since(seq)
    assert folder.store.content.lists_removals_since(folder.write(b_py="y = 1\n"))


def test_unused_content_is_dropped_after_a_while(folder):
    folder.write(a_py="x = 1\n", b_py="y = 1\n")
    folder.remove("a.py")
    now = int(time.time())
    assert folder.store.content.sweep(now - 14 * DAY) == 0
    assert folder.store.content.sweep(now + 1) == 1
    assert folder.blobs() == 1


def test_content_used_again_is_kept(folder):
    folder.write(a_py="x = 1\n")
    folder.link("b.py", like="a.py")
    folder.remove("a.py")
    folder.remove("b.py")
    folder.write(c_py="x = 1\n")
    assert folder.store.content.sweep(int(time.time()) + 1) == 0


def test_forgotten_content_is_dropped_at_once_unless_another_doc_uses_it(folder):
    folder.write(a_py="x = 1\n", b_py="x = 1\n")
    folder.store.content.forget([folder.doc("a.py")])
    assert folder.blobs() == 1
    folder.store.content.forget([folder.doc("b.py")])
    assert folder.blobs() == 0


def test_forgetting_an_unknown_doc_changes_nothing(folder):
    folder.write(a_py="x = 1\n")
    folder.store.content.forget([999])
    assert "a.py" in folder.store.content.known(folder.source.id)


def test_refused_file_leaves_the_docs_until_it_can_be_read(folder):
    folder.write(a_py="x = 1\n")
    folder.store.content.apply(
        folder.source.id, ContentChange(skips=[(ScannedFile("a.py", 5, 7), "binary")])
    )
    assert folder.store.content.known(folder.source.id) == {}
    assert folder.store.content.skips(folder.source.id) == {"a.py": (5, 7, "binary")}
    folder.write(a_py="x = 2\n")
    assert folder.store.content.skips(folder.source.id) == {}


def test_failed_change_is_rolled_back(folder):
    folder.write(a_py="x = 1\n")
    try:
        # There is no such blob
        folder.store.content.apply(
            folder.source.id,
            ContentChange(removed=["a.py"], links=[(ScannedFile("b.py", 1, 1), 12345)]),
        )
    except Exception as error:
        assert getattr(error, "code", "") == "INTERNAL_ERROR"
    assert set(folder.store.content.known(folder.source.id)) == {"a.py"}
    assert folder.store.content.seq() == 1
    assert folder.write(c_py="z = 1\n") == 2
