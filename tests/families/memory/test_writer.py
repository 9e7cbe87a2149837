"""New memories: kept, duplicate, similar or refused."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from cortex.base.errors import InputError
from cortex.base.types import Citation, Memory, MemoryState
from cortex.engine import library as libraries
from cortex.engine.library import Library
from cortex.families.memory import writer
from cortex.families.memory.curation import judge
from cortex.families.memory.file_import import ImportedMemory
from cortex.families.memory.writer import HOOK, IMPORT, add, add_all
from families.memory.libraries import (
    ask,
    copy,
    database,
    memories,
    one_of,
    open_library,
    settings_of,
    titles,
)

TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A"
LONG = "The release is cut on Thursday evening after the last train has left the station"


@pytest.fixture
def library(isolated) -> Iterator[Library]:
    with open_library(settings_of(isolated.cortex)) as opened:
        yield opened


def test_memory_added_by_a_person_is_approved_and_found_at_once(library):
    written = add(
        library,
        Memory("", "  Lamps  are\nblue ", project="shop", concepts=("lamp",)),
        citations=[Citation("/r", "a.py", "", b"f", b"", "")],
    )
    record = one_of(library, written.key)
    assert (written.created, written.state, record.memory.title, record.scope) == (
        True,
        MemoryState.APPROVED,
        "Lamps are blue",
        "shop",
    )
    assert (
        record.judgement is not None
        and record.judgement.actor == "person"
        and record.memory.date
        and record.memory.created
    )
    assert titles(ask(library, "blue lamp")) == ["Lamps are blue"]
    assert library.store.memories.citations(record.id)[0].path == "a.py"


def test_memory_from_a_hook_or_import_is_in_staging(library):
    add(library, Memory("", "Lamps are blue"), state=MemoryState.STAGING, actor=HOOK)
    add_all(
        library,
        [
            ImportedMemory(Memory("", "Doors are red")),
            ImportedMemory(Memory("", "Roofs are flat"), MemoryState.APPROVED),
        ],
    )
    assert sorted(titles(ask(library, status="staging"))) == ["Doors are red", "Lamps are blue"]
    assert titles(ask(library)) == ["Roofs are flat"]


@pytest.mark.parametrize(
    ("memory", "why"),
    [
        (Memory("", " \n "), "needs a title"),
        (Memory("", "x" * 301), "at most 300"),
        (Memory("", "x", text="y" * 60_000), "at most 50,000"),
        (Memory("", "x", facts=("f",) * 201), "at most 200"),
        (Memory("", "x", text="a\0b"), "characters that aren't valid text"),
        (Memory("", "x", text="\ud800"), "characters that aren't valid text"),
        *((Memory("", "Keys", **{part: value}), "holds a secret") for part, value in (("text", f"use {TOKEN}"), ("facts", (TOKEN,)), ("subtitle", TOKEN), ("concepts", (TOKEN,)), ("files", (TOKEN,)))),
    ],
)  # fmt: skip
@pytest.mark.parametrize("actor", ["person", HOOK])
def test_invalid_memory_is_refused_from_every_actor(library, memory, why, actor):
    with pytest.raises(InputError) as error:
        add(library, memory, actor=actor)
    assert (
        error.value.code == "MEMORY_REFUSED"
        and why in error.value.message
        and TOKEN not in error.value.message
    )
    taken = add_all(library, [ImportedMemory(memory)])
    assert taken.added == () and len(taken.refused) == 1 and memories(library) == []


def test_duplicate_in_another_scope_is_not_written_again(library):
    first = add(
        library, Memory("", LONG, project="shop"), state=MemoryState.STAGING, actor=HOOK
    ).key
    again = add(
        library,
        Memory("", f"**{LONG.upper()}**.", project="mill"),
        state=MemoryState.STAGING,
        actor=HOOK,
    )
    assert (again.created, again.key) == (False, first) and again.duplicate_of is not None
    assert one_of(library, first).state is MemoryState.STAGING
    # A person who says it means it
    said = add(library, Memory("", LONG))
    assert (said.created, said.key, said.state) == (False, first, MemoryState.APPROVED)
    assert one_of(library, first).state is MemoryState.APPROVED and len(memories(library)) == 1


def test_foreign_duplicate_is_approved_when_a_person_adds_it(library, isolated):
    database(isolated.user / ".claude-mem", LONG).close()
    copy(library)
    written = add(library, Memory("", LONG))
    assert (written.created, written.key) == (False, "obs_1") and one_of(
        library, "obs_1"
    ).state is MemoryState.APPROVED


def test_duplicate_of_a_row_in_a_missing_database_is_written(library, isolated):
    database(isolated.user / ".claude-mem", LONG).close()
    copy(library)
    shutil.rmtree(isolated.user / ".claude-mem")
    assert add(library, Memory("", LONG)).created
    assert titles(ask(library)) == [LONG]
    assert add_all(library, [ImportedMemory(Memory("", LONG))]).duplicates == 1


def test_rejected_memory_is_approved_again_by_a_person_but_not_by_a_hook(library):
    key = add(library, Memory("", LONG)).key
    judge(library, [one_of(library, key)], "reject")
    assert add(library, Memory("", LONG), state=MemoryState.STAGING, actor=HOOK).key == key
    assert one_of(library, key).state is MemoryState.REJECTED
    add(library, Memory("", LONG))
    assert one_of(library, key).state is MemoryState.APPROVED


def test_similar_memory_is_kept_and_reported(library):
    first = add(library, Memory("", LONG)).key
    written = add(library, Memory("", LONG.replace("Thursday", "Friday")))
    assert written.created and [record.memory.key for record in written.similar_to] == [first]
    assert add(library, Memory("", "Zebras count coins")).similar_to == ()


def test_served_memory_is_not_learnt_again_from_a_hook(library):
    key = add(library, Memory("", LONG, facts=("Nobody deploys on Friday at all",))).key
    recalled = Memory("", "Nobody deploys on Friday at all")
    written = add(library, recalled, state=MemoryState.STAGING, actor=HOOK)
    assert not written.created and written.refused and written.duplicate_of.memory.key == key
    # A person may say it again
    assert add(library, recalled).created


def test_text_of_an_instruction_file_is_not_learnt_from_a_hook(library):
    said = f"# Rules\n\n- {LONG}.\n"
    written = add(
        library, Memory("", LONG), state=MemoryState.STAGING, actor=HOOK, instructions=said
    )
    assert not written.created and "instruction file" in written.refused and memories(library) == []


def test_new_memory_supersedes_several_in_one_step(library, isolated):
    database(isolated.user / ".claude-mem", "Cut on Monday").close()
    copy(library)
    own = add(library, Memory("", "Cut on Tuesday")).key
    written = add(
        library, Memory("", LONG), supersedes=[one_of(library, own), one_of(library, "obs_1")]
    )
    for key in (own, "obs_1"):
        record = one_of(library, key)
        assert record.state is MemoryState.SUPERSEDED and record.judgement.successor == written.key
    assert titles(ask(library)) == [LONG]


def test_duplicate_of_a_superseded_memory_is_written(library):
    key = add(library, Memory("", LONG, project="shop")).key
    written = add(library, Memory("", LONG, project="mill"), supersedes=[one_of(library, key)])
    assert (
        written.created
        and written.key != key
        and one_of(library, key).state is MemoryState.SUPERSEDED
    )


def test_many_memories_are_one_step_across_transactions(library, monkeypatch):
    monkeypatch.setattr(writer, "BATCH", 3)
    brought = [ImportedMemory(Memory("", f"Lamp {number} is lit")) for number in range(8)] + [
        ImportedMemory(Memory("", "lamp 3 IS lit"))
    ]
    assert add_all(library, brought, dry=True).duplicates == 1 and memories(library) == []
    taken = add_all(library, brought, scope="dev")
    assert (len(taken.added), taken.duplicates) == (8, 1)
    assert {decision.batch for decision in library.store.memories.decisions(99)} == {
        library.store.memories.last_batch(not_by=HOOK)
    }
    assert {memory.scope for memory in memories(library)} == {"dev"}
    assert {decision.actor for decision in library.store.memories.decisions(99)} == {IMPORT}


def test_memory_written_by_two_processes_at_once_is_kept_once(library, isolated, monkeypatch):
    # The holder of the lease is the one that waits
    monkeypatch.setattr(libraries, "FOLLOW_SECONDS", 0.1)
    with open_library(settings_of(isolated.cortex)) as other:
        looked = writer.similar_to

        def interrupted(here: Library, memory: Memory) -> list[object]:
            monkeypatch.setattr(writer, "similar_to", looked)
            add(other, Memory("", "Lamps are blue"), state=MemoryState.STAGING, actor=HOOK)
            return looked(here, memory)  # type: ignore[return-value]

        monkeypatch.setattr(writer, "similar_to", interrupted)
        written = add(library, Memory("", "Lamps are blue!"))
    assert not written.created and written.duplicate_of is not None
    assert titles(memories(library)) == ["Lamps are blue"]
    # As the person said
    assert one_of(library, written.key).state is MemoryState.APPROVED


def test_concurrent_imports_of_the_same_rows_bring_them_once(library, isolated):
    brought = [ImportedMemory(Memory("", f"Lamp {number} is blue")) for number in range(6)]

    def slowly() -> Iterator[ImportedMemory]:
        yield from brought
        with open_library(settings_of(isolated.cortex)) as other:
            add_all(other, brought[:4])

    taken = add_all(library, slowly())
    assert (len(taken.added), taken.duplicates) == (2, 4)
    assert len(memories(library)) == 6


def test_secret_of_a_refused_import_is_not_repeated(library):
    taken = add_all(library, [ImportedMemory(Memory("", f"The key {TOKEN}"))])
    assert len(taken.refused) == 1 and TOKEN not in repr(taken)
