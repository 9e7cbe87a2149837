"""Entries of chunk files in a store: one transaction, rollback of one file, filters."""

import pytest

from cortex.base.types import Chunk, Cut, Entry
from cortex.engine.store import Store


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path)
    yield made
    made.close()


@pytest.fixture
def source(store):
    return store.content.source("chunks", "here", "").id


def entry(name, text="text", kind="symbols", tags=("a",), **more):
    fields = {"title": name, "metadata": {"n": 1}, "created_at": None, "updated_at": None} | more
    return Entry(id=name, chunk_type=kind, text=text, tags=tags, **fields)


def put(update, one, file="a.json"):
    cut = Cut(
        "text",
        one.text,
        (Chunk(0, 0, len(one.text), 1, 1, one.chunk_type or "", one.id, one.id),),
        (),
    )
    return update.put(one.id, "", f"hash of {one.id} {one.text}".encode(), cut, one, file)


def everything(store):
    found = store.entries.read(sorted(store.entries.having((), ("a",))))
    return {one.id: one for one in found.values()}


def test_an_entry_comes_back_whole(store, source):
    one = entry(
        "é🎉", "two\nlines", tags=("a", "b"), metadata={"deep": [1, {"x": None}]}, updated_at="now"
    )
    with store.entries.update(source) as update:
        put(update, one)
    assert everything(store) == {"é🎉": one}


def test_entry_filter_matches_any_type_and_all_tags(store, source):
    with store.entries.update(source) as update:
        docs = {
            name: put(update, entry(name, kind=kind, tags=tags)).doc
            for name, kind, tags in [
                ("x", "symbols", ("a", "go")),
                ("y", "definitions", ("a",)),
                ("z", None, None),
                ("w", "kind:symbols", ("tag:a", "a")),
            ]
        }
    having = store.entries.having
    assert having(("symbols", "definitions"), ()) == {docs["x"], docs["y"]}
    assert having((), ("a", "go")) == {docs["x"]}
    assert having(("definitions",), ("go",)) == frozenset()
    assert having(("",), ()) == {docs["z"]}
    assert having((), ("nowhere", "a")) == frozenset()


def test_failed_file_is_rolled_back_alone(store, source):
    with store.entries.update(source) as update:
        with update.file():
            first = put(update, entry("x"))
        with pytest.raises(ValueError, match="broken"), update.file():
            for number in range(600):  # more than are written at once
                put(update, entry(f"y{number}"), "b.json")
            update.remove(first)
            raise ValueError("broken")
        with update.file():
            last = put(update, entry("z"), "c.json")
        assert (update.changes, last.chunk) == (2, first.chunk + 1)
    assert set(everything(store)) == {"x", "z"}
    assert store.entries.counts() == {"a.json": 1, "c.json": 1}
    store.indexes.catch_up()
    assert store.check() == []


def test_an_update_that_fails_changes_nothing(store, source):
    with pytest.raises(ValueError, match="broken"), store.entries.update(source) as update:
        put(update, entry("x"))
        raise ValueError("broken")
    assert everything(store) == {}
    assert store.content.seq() == 0


def test_removed_entry_leaves_no_text_and_no_tag(store, source):
    with store.entries.update(source) as update, update.file():
        held = put(update, entry("x", "secret text"))
        put(update, entry("y"))
        update.remove(held)  # before it is written
    with store.entries.update(source) as update:
        (other,) = update.of_file("a.json")
        update.remove(other)
    assert everything(store) == {}
    assert (store.content.text(1), store.content.text(2)) == ("", "")
    store.indexes.catch_up()
    assert store.check() == []


def test_change_outside_the_indexed_fields_keeps_the_doc(store, source):
    with store.entries.update(source) as update, update.file():
        held = put(update, entry("x"))
    with store.entries.update(source) as update:
        update.refresh(held.doc, entry("x"))
        assert update.refreshed == 0
        update.refresh(held.doc, entry("x", updated_at="later"))
        assert (update.refreshed, update.changes) == (1, 0)
    assert everything(store)["x"].updated_at == "later"
