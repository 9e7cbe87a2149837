"""The lexical index: rows, watermark, filters, damage."""

import os
import random
import threading

import pytest

from cortex.base.errors import LimitError, StoreError
from cortex.base.types import Chunk, Doc
from cortex.engine.store.index import lexical as words_module
from cortex.engine.store.index.lexical import (
    FIELDS,
    MAX_HELD,
    NO_WATERMARK,
    LexicalIndex,
    LexicalRow,
    LexicalTerm,
    SearchFilter,
    extension_of,
    find_damage,
)

EVERYWHERE = SearchFilter((1,))
ANYWHERE = tuple((field, 1.0) for field in FIELDS)


def row(
    doc: int, chunk: int, body: str, path: str = "a.py", source: int = 1, language: str = "python"
) -> LexicalRow:
    return LexicalRow(
        Doc(doc, source, path, doc, 1, 1, language), chunk, Chunk(0, 0, 9, 1, 1, "block"), body
    )


def find(
    words: LexicalIndex, word: str, narrow: SearchFilter = EVERYWHERE, limit: int = 10
) -> list[tuple[int, int]]:
    return [
        (doc, chunk) for doc, chunk, _ in words.search([LexicalTerm(word, ANYWHERE)], narrow, limit)
    ]


def test_new_lexical_index_has_no_watermark_and_no_rows(tmp_path):
    words = LexicalIndex(tmp_path / "w", create=True)
    assert (words.watermark(), len(words), find(words, "x")) == (NO_WATERMARK, 0, [])


def test_watermark_is_committed_with_the_rows(tmp_path):
    words = LexicalIndex(tmp_path / "w", create=True)
    words.apply([row(1, 1, "lamp")], (), 7)
    words.close()
    again = LexicalIndex(tmp_path / "w")
    assert (again.watermark(), len(again), find(again, "lamp")) == (7, 1, [(1, 1)])


def test_briefly_held_lock_is_waited_for(tmp_path, monkeypatch):
    first, second = LexicalIndex(tmp_path / "w", create=True), LexicalIndex(tmp_path / "w")
    first.apply([row(1, 1, "lamp")], (), 1)
    monkeypatch.setattr(words_module, "LOCK_SECONDS", 0.0)
    with pytest.raises(StoreError) as caught:
        second.apply([row(2, 2, "lamp")], (), 2)
    assert caught.value.code == "STORE_LOCKED"
    monkeypatch.setattr(words_module, "LOCK_SECONDS", 30.0)
    leaving = threading.Timer(0.05, first.close)
    leaving.start()
    second.apply([row(2, 2, "lamp")], (), 2)
    leaving.join()
    assert find(second, "lamp") == [(1, 1), (2, 2)]
    second.close()


def test_failed_rows_leave_the_lexical_index_unchanged(tmp_path):
    words = LexicalIndex(tmp_path / "w", create=True)
    words.apply([row(1, 1, "lamp")], (), 1)

    def broken():
        yield row(2, 2, "lamp")
        raise StoreError("STORE_LOCKED", "read no further")

    with pytest.raises(StoreError, match="no further"):
        words.apply(broken(), [1], 2)
    assert (words.watermark(), find(words, "lamp")) == (1, [(1, 1)])
    words.apply([row(3, 3, "lamp")], (), 3)
    assert find(words, "lamp") == [(1, 1), (3, 3)]


def test_word_frequency_follows_writes_here_and_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(words_module, "MAX_COUNTED", 2)
    monkeypatch.setattr(words_module, "MAX_WORDS_COUNTED", 1)
    words = LexicalIndex(tmp_path / "w", create=True)
    words.apply(
        [row(1, 1, "lamp"), row(2, 2, "lamp", source=2), row(3, 3, "lamp bulb", source=3)], (), 1
    )
    reader = LexicalIndex(tmp_path / "w")
    for sources, lamps, bulbs in (((1,), 1, 0), ((1, 2), 2, 0), ((2, 3), 2, 1), ((1,), 1, 0)):
        for index in (words, reader, words):
            found = [
                index.frequency(word, scope=SearchFilter(sources))
                for word in ("lamp", "bulb", "lamp")
            ]
            assert found == [lamps, bulbs, lamps]
    words.apply([row(4, 4, "lamp")], [3], 2)
    reader.reload()
    for index in (words, reader):
        assert [
            index.frequency("lamp", scope=SearchFilter(sources)) for sources in ((1,), (2, 3))
        ] == [2, 1]
    words.close()


def test_word_frequency_is_the_same_for_few_and_many_rows(tmp_path, monkeypatch):
    words = LexicalIndex(tmp_path / "w", create=True)
    told = ("lamp", "lamp bulb", "bulbs", "shade")
    words.apply([row(doc, doc, told[doc % 4], source=doc % 7) for doc in range(1, 200)], (), 1)
    words.apply([row(200, 200, "lamp", source=3)], range(1, 60, 3), 2)  # deleted rows are none
    asked = [
        (word, SearchFilter(sources))
        for word in ("lamp", "bulb", "shade", "sun")
        for sources in ((3,), (1, 2, 6), (9,))
    ]
    seldom = [words.frequency(word, scope=narrow) for word, narrow in asked]
    monkeypatch.setattr(words_module, "FEW_ROWS", 0)
    words.reload()
    assert seldom == [words.frequency(word, scope=narrow) for word, narrow in asked]
    alive = [doc for doc in range(1, 200) if doc not in range(1, 60, 3) and doc % 4 in (0, 1)]
    assert seldom[1] == sum(doc % 7 in (1, 2, 6) for doc in alive)
    words.close()


def test_replayed_changes_leave_the_lexical_index_unchanged(tmp_path):
    words = LexicalIndex(tmp_path / "w", create=True)
    words.apply([row(9, 9, "old")], (), 1)
    for _ in range(3):
        words.apply([row(1, 1, "lamp"), row(1, 2, "lamp"), row(2, 3, "lamp")], [9], 5)
    assert words.identities() == {(1, 1), (1, 2), (2, 3)}
    assert (len(words), words.watermark()) == (3, 5)


def test_equal_lexical_scores_are_ordered_by_doc_and_chunk(tmp_path):
    words = LexicalIndex(tmp_path / "w", create=True)
    words.apply([row(doc, doc, "lamp") for doc in (3, 1, 2)], (), 1)
    assert find(words, "lamp") == [(1, 1), (2, 2), (3, 3)]


def test_lexical_search_narrows_by_source_extension_language_and_doc(tmp_path):
    words = LexicalIndex(tmp_path / "w", create=True)
    rows = [
        row(1, 1, "lamp"),
        row(2, 2, "lamp", path="src/b.go", language="go"),
        row(3, 3, "lamp", source=2),
        row(4, 4, "lamp", path="Makefile", language="make"),
    ]
    words.apply(rows, (), 1)
    assert find(words, "lamp", SearchFilter((2,))) == [(3, 3)]
    assert find(words, "lamp", SearchFilter((1,), extensions=("go", "makefile"))) == [
        (2, 2),
        (4, 4),
    ]
    assert find(words, "lamp", SearchFilter((1,), languages=("python",))) == [(1, 1)]
    assert find(words, "lamp", SearchFilter((1,), docs=frozenset({2, 3}))) == [(2, 2)]
    assert find(words, "lamp", SearchFilter((1,), docs=frozenset())) == []


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_lexical_search_narrows_alike_by_few_and_many_docs(tmp_path, monkeypatch, share):
    chance = random.Random(5)
    words = LexicalIndex(tmp_path / "w", create=True)
    words.apply(
        [row(doc, doc, "lamp " * (1 + doc % 7) + "rest " * (doc % 11)) for doc in range(1, 400)],
        (),
        1,
    )
    for _ in range(5):
        narrow = SearchFilter(
            (1,), docs=frozenset(doc for doc in range(1, 400) if chance.random() < share)
        )
        few = words.search([LexicalTerm("lamp", ANYWHERE)], narrow, 10)
        with monkeypatch.context() as patch:
            patch.setattr("cortex.engine.store.index.lexical.MANY_DOCS", 1)
            assert [
                score for *_, score in words.search([LexicalTerm("lamp", ANYWHERE)], narrow, 10)
            ] == [score for *_, score in few]
            assert {doc for doc, _ in find(words, "lamp", narrow)} <= narrow.docs
            assert find(words, "nowhere", narrow) == []


def test_extension_is_lower_case_or_the_whole_name():
    assert [extension_of(path) for path in ("a/b.PY", "Makefile", "a.b/c", ".bashrc")] == [
        "py",
        "makefile",
        "c",
        "bashrc",
    ]


def test_lexical_reader_sees_new_rows_after_a_reload(tmp_path):
    writer = LexicalIndex(tmp_path / "w", create=True)
    writer.apply([row(1, 1, "lamp")], (), 1)
    reader = LexicalIndex(tmp_path / "w")
    writer.apply([row(2, 2, "lamp")], [1], 2)
    reader.reload()
    assert (find(reader, "lamp"), reader.watermark()) == ([(2, 2)], 2)


def test_opening_a_missing_lexical_index_creates_none(tmp_path):
    with pytest.raises(StoreError) as caught:
        LexicalIndex(tmp_path / "w")
    assert caught.value.code == "INDEX_DAMAGED"
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("damage", ["cut", "garbage", "deleted"])
def test_damaged_lexical_index_works_or_raises_but_never_crashes(tmp_path, damage):
    original = LexicalIndex(tmp_path / "w", create=True)
    original.apply([row(doc, doc, f"lamp number{doc}") for doc in range(1, 60)], (), 1)
    original.close()
    names = sorted(os.listdir(tmp_path / "w"))
    for number, name in enumerate(names):
        copy = tmp_path / f"copy-{number}"
        copy.mkdir()
        for other in names:
            raw = (tmp_path / "w" / other).read_bytes()
            if other == name and damage == "deleted":
                continue
            if other == name:
                raw = (
                    raw[: len(raw) // 2]
                    if damage == "cut"
                    else random.Random(number).randbytes(max(64, len(raw)))
                )
            (copy / other).write_bytes(raw)
        try:
            words = LexicalIndex(copy)
            words.watermark()
            assert len(find(words, "lamp", limit=100)) in (0, 59)
        except StoreError as error:
            assert error.code == "INDEX_DAMAGED"


def test_deleted_rows_stay_deleted_after_the_merges_of_a_killed_writer(tmp_path):
    words, live, number = LexicalIndex(tmp_path / "w", create=True), set(), 0
    chance = random.Random(4)
    for step in range(60):
        gone = sorted(doc for doc in live if chance.random() < 0.05)
        new = list(range(number + 1, number + 1 + chance.randrange(4)))
        number += len(new)
        words.apply([row(doc, doc, "lamp") for doc in new], gone, step + 1)
        live = (live - set(gone)) | set(new)
        assert {doc for doc, _ in words.identities()} == live, f"step {step}"
        if chance.random() < 0.3:
            words._writer = None  # as a kill would leave it: nobody waits for its merges
            words = LexicalIndex(tmp_path / "w")
    words.close()


def test_held_words_are_listed_for_each_row(tmp_path):
    words = LexicalIndex(tmp_path / "w", create=True)
    said = [f"word{number}" for number in range(MAX_HELD)]
    words.apply(
        [row(1, 1, " ".join(said)), row(2, 2, "word3 word3 word17"), row(3, 3, "nothing")], (), 1
    )
    held = words.held([*said, "beyond"], EVERYWHERE, 10)
    assert held == {(1, 1): frozenset(said), (2, 2): frozenset({"word3", "word17"})}
    assert words.held([], EVERYWHERE, 10) == {}


def test_changed_byte_anywhere_in_a_segment_is_detected(tmp_path):
    words = LexicalIndex(tmp_path / "w", create=True)
    words.apply([row(doc, doc, f"lamp number{doc}") for doc in range(1, 60)], (), 1)
    words.close()
    assert find_damage(tmp_path / "w") == ""
    files = [path for path in (tmp_path / "w").iterdir() if path.suffix not in (".json", ".lock")]
    assert len(files) >= 5
    for path in files:
        whole = path.read_bytes()
        for place in (0, len(whole) - 1):
            changed = bytearray(whole)
            changed[place] ^= 1
            path.write_bytes(changed)
            assert find_damage(tmp_path / "w", again=True) == path.name
        path.write_bytes(whole)
    assert find_damage(tmp_path / "w", again=True) == ""


def test_lack_of_memory_is_reported_and_is_no_damage(tmp_path, monkeypatch):
    monkeypatch.setattr(words_module, "ROOM_BYTES", 1 << 60)
    words = LexicalIndex(tmp_path / "w", create=True)
    with pytest.raises(LimitError) as caught:
        words.apply([row(1, 1, "lamp")], (), 1)
    assert caught.value.code == "MEMORY_SHORT" and "ulimit" in caught.value.suggestions[0]
    monkeypatch.undo()
    words.apply([row(1, 1, "lamp")], (), 1)
    assert find(words, "lamp") == [(1, 1)]
