"""Judgement, edits and undo of memories; deletion from every file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cortex.base.errors import InputError
from cortex.base.types import Memory, MemoryState
from cortex.engine import library as libraries
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.library import Library
from cortex.engine.store import OWN
from cortex.engine.store.index import lexical as words_module
from cortex.engine.store.index.lexical import LexicalIndex
from cortex.families.memory import curation
from cortex.families.memory.curation import delete, edit, judge, supersede, undo
from cortex.families.memory.file_import import ImportedMemory
from cortex.families.memory.ids import find_memory
from cortex.families.memory.writer import add, add_all
from families.memory.libraries import (
    ask,
    copy,
    database,
    memories,
    one_of,
    open_library,
    settings_of,
    start_lease_holder,
    titles,
)

QUAGGA = "The quagga is striped in front only"


@pytest.fixture
def library(isolated) -> Iterator[Library]:
    with open_library(settings_of(isolated.cortex)) as opened:
        yield opened


@pytest.fixture
def foreign(library, isolated) -> Library:
    database(isolated.user / ".claude-mem", "Apples", "Pears").close()
    copy(library)
    return library


def keep(library: Library, title: str, **parts: object) -> str:
    return add(library, Memory("", title, **parts)).key  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("action", "found"), [("approve", ["Apples"]), ("promote", ["Apples"]), ("reject", [])]
)
def test_judging_a_foreign_row_changes_answers_until_undone(foreign, action, found):
    assert judge(foreign, [one_of(foreign, "obs_1")], action, reason="so") == 1
    assert titles(ask(foreign, "apples"))[:1] == found
    # It is so already
    assert judge(foreign, [one_of(foreign, "obs_1")], action) == 0
    assert undo(foreign) == 1
    assert (
        one_of(foreign, "obs_1").judgement is None and titles(ask(foreign, "apples"))[0] == "Apples"
    )
    assert undo(foreign) == 0


def test_decision_about_many_is_undone_in_one_step(library, monkeypatch):
    monkeypatch.setattr(curation, "BATCH", 3)
    add_all(library, (ImportedMemory(Memory("", f"Lamp {number} is lit")) for number in range(10)))
    assert judge(library, memories(library), "approve") == 10
    assert len(ask(library, limit=50).hits) == 10
    assert undo(library) == 10
    assert {memory.state for memory in memories(library)} == {MemoryState.STAGING}


def test_edit_is_found_by_its_new_words_until_undone(library):
    key = keep(library, "Lamps are blue", concepts=("lamp",))
    written = edit(library, one_of(library, key), Memory("", "Doors are red"))
    assert (
        written.key == key
        and titles(ask(library, "red doors")) == ["Doors are red"]
        and titles(ask(library, "blue")) == []
    )
    undo(library)
    assert titles(ask(library, "blue lamps")) == ["Lamps are blue"] and one_of(
        library, key
    ).memory.concepts == ("lamp",)


def test_edited_foreign_row_is_superseded_by_an_own_memory(foreign):
    row = one_of(foreign, "obs_1")
    written = edit(foreign, row, replace(row.memory, title="Apples are round"))
    own = one_of(foreign, written.key)
    assert (own.origin, own.scope, own.state) == (
        OWN,
        row.scope,
        MemoryState.APPROVED,
    ) and "obs_1" in own.memory.provenance
    assert one_of(foreign, "obs_1").judgement.successor == written.key
    assert sorted(titles(ask(foreign))) == ["Apples are round", "Pears"]
    undo(foreign)
    assert (
        sorted(titles(ask(foreign))) == ["Apples", "Pears"]
        and one_of(foreign, written.key).state is MemoryState.REJECTED
    )


def test_edit_that_duplicates_another_memory_is_refused(library):
    first, second = keep(library, "Lamps are blue"), keep(library, "Doors are red")
    with pytest.raises(InputError, match=first):
        edit(library, one_of(library, second), Memory("", "LAMPS are blue"))
    assert edit(
        library, one_of(library, second), Memory("", "doors are red", subtitle="mostly")
    ).created


def test_superseding_memory_becomes_approved(foreign):
    key = add(foreign, Memory("", "Apples are round"), state=MemoryState.STAGING).key
    supersede(foreign, one_of(foreign, "obs_1"), one_of(foreign, key))
    assert (one_of(foreign, "obs_1").state, one_of(foreign, key).state) == (
        MemoryState.SUPERSEDED,
        MemoryState.APPROVED,
    )
    assert undo(foreign) == 2
    assert (one_of(foreign, "obs_1").state, one_of(foreign, key).state) == (
        None,
        MemoryState.STAGING,
    )


def test_memories_do_not_supersede_each_other_in_a_circle(library):
    first, second, third = (keep(library, f"Lamp {number} is lit") for number in range(3))
    supersede(library, one_of(library, first), one_of(library, second))
    supersede(library, one_of(library, second), one_of(library, third))
    for old, new in ((third, first), (first, first)):
        with pytest.raises(InputError):
            supersede(library, one_of(library, old), one_of(library, new))


def test_undo_skips_a_deletion(library):
    gone, kept = keep(library, "Lamps are blue"), keep(library, "Doors are red")
    judge(library, [one_of(library, kept)], "promote")
    deleted = delete(library, [one_of(library, gone)])
    assert (deleted.own, deleted.copies, deleted.complete) == (1, 0, True)
    assert undo(library) == 1 and one_of(library, kept).state is MemoryState.APPROVED
    with pytest.raises(InputError):
        find_memory(library, gone)


def test_undo_restores_the_remaining_memories_of_a_decision(library):
    keys = [keep(library, f"Lamp {number} is lit") for number in range(2)]
    judge(library, [one_of(library, key) for key in keys], "reject")
    delete(library, [one_of(library, keys[0])])
    assert undo(library) == 1 and one_of(library, keys[1]).state is MemoryState.APPROVED


def all_bytes(home: Path) -> bytes:
    return b"".join(
        file.read_bytes()
        for file in sorted(home.rglob("*"))
        if file.is_file() and file.name != "lease"
    ).lower()


def test_deleted_memory_is_gone_from_every_file(isolated):
    with Library(settings_of(isolated.cortex), embedder=HashingEmbedder()) as library:
        keep(library, "Lamps are blue")
        key = keep(
            library, QUAGGA, text="quagga " * 900, concepts=("quaggatag",), files=("quagga.py",)
        )
        edit(library, one_of(library, key), Memory("", "A quagga once more"))
        judge(library, [one_of(library, key)], "reject", reason="the quagga is extinct")
        ask(library, "quagga")
        assert b"quagga" in all_bytes(isolated.cortex)
        assert delete(library, [one_of(library, key)]).complete
        assert b"quagga" not in all_bytes(isolated.cortex)
        assert titles(ask(library, "quagga lamps")) == ["Lamps are blue"]


def test_deleted_memory_is_gone_although_another_process_holds_the_lease(library, isolated):
    key = keep(library, QUAGGA)
    library.close()
    holder = start_lease_holder(isolated.cortex)
    try:
        with open_library(settings_of(isolated.cortex)) as other:
            add(other, Memory("", "Lamps are blue"))
            assert not other.holds_lease()
            assert delete(other, [one_of(other, key)]).complete
            assert b"quagga" not in all_bytes(isolated.cortex)
            assert titles(memories(other)) == ["Lamps are blue"]
            assert titles(ask(other, "quagga lamps")) == ["Lamps are blue"]
    finally:
        holder.communicate("end\n", timeout=20)


def test_deletion_is_incomplete_while_a_reader_is_open(library, isolated, monkeypatch):
    key, other = keep(library, QUAGGA), keep(library, "Lamps are blue")
    monkeypatch.setattr(libraries, "FOLLOW_SECONDS", 0.3)
    with open_library(settings_of(isolated.cortex), read_only=True) as reader:
        with reader.store.reading():
            assert len(memories(reader)) == 2
            assert not delete(library, [one_of(library, key)]).complete
        assert delete(library, [one_of(library, other)]).complete
    assert b"quagga" not in all_bytes(isolated.cortex)


def test_writes_are_kept_and_deletion_is_incomplete_while_the_index_is_locked(
    library, isolated, monkeypatch, caplog
):
    old, gone = keep(library, "Lamps are blue"), keep(library, QUAGGA)
    mine = library.store.indexes.words()
    assert mine is not None and library.holds_lease()
    mine.close()
    (folder,) = isolated.cortex.glob("words-*")
    others = LexicalIndex(folder)
    # It has the lock now
    others.apply([], (), mine.watermark())
    monkeypatch.setattr(words_module, "LOCK_SECONDS", 0.0)
    new = keep(library, "Curtains are green")
    assert edit(library, one_of(library, old), Memory("", "Lamps are red")).created
    assert judge(library, [one_of(library, new)], "promote") == 1
    supersede(library, one_of(library, old), one_of(library, new))
    assert undo(library) == 1
    assert add_all(library, [ImportedMemory(Memory("", "Chairs are brown"))]).added
    assert "what was written can't be searched yet" in caplog.text
    deleted = delete(library, [one_of(library, gone)])
    assert (deleted.own, deleted.complete) == (
        1,
        False,
    ) and "what was deleted is still in the indexes" in caplog.text
    others.close()
    assert library.follow(forget=True)
    found = titles(ask(library, "lamps red curtains green chairs brown quagga blue", status="all"))
    assert sorted(found) == ["Chairs are brown", "Curtains are green", "Lamps are red"]
    assert b"quagga" not in all_bytes(isolated.cortex)
