"""Background rounds: hook notes become memories in staging, databases are copied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.base.types import Memory, MemoryState
from cortex.engine.library import Library
from cortex.families.memory.background import begin, instructions_of, remember, tend
from cortex.families.memory.hook_inbox import HookNote, is_waiting
from cortex.families.memory.writer import add
from cortex.interfaces.daemon.hook import keep
from families.memory.libraries import (
    ask,
    database,
    hold,
    memories,
    open_library,
    settings_of,
    titles,
)

SAID = "The release is cut on Thursday evening after the last train"


@pytest.fixture
def library(isolated) -> Iterator[Library]:
    with open_library(settings_of(isolated.cortex)) as opened:
        yield opened


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    return tmp_path / "shop"


def test_round_takes_in_hook_notes_and_copies_databases(library, isolated, shop):
    database(isolated.user / ".claude-mem", "Apples").close()
    candidates = [{"title": SAID, "kind": "decision"}]
    note = {
        "format": 1,
        "at": 1_700_000_000.25,
        "event": "stop",
        "client": "codex",
        "session": "s1",
        "cwd": str(shop),
    }
    keep(str(isolated.cortex), {**note, "candidates": candidates})
    assert is_waiting(isolated.cortex)
    hold(library)
    tend(library)
    assert not is_waiting(isolated.cortex)
    (record,) = memories(library, origins=("",))
    assert (
        record.memory.title,
        record.memory.project,
        record.memory.kind,
        record.memory.session,
    ) == (SAID, "shop", "decision", "s1")
    assert (record.state, record.judgement.actor, record.memory.provenance) == (
        MemoryState.STAGING,
        "hook",
        "hook codex",
    )
    assert titles(ask(library)) == ["Apples"] and titles(ask(library, status="staging")) == [SAID]


def test_same_hook_note_twice_is_one_memory(library, shop):
    for _ in range(2):
        remember(library, HookNote(SAID, project_path=str(shop), at=1))
    assert len(memories(library)) == 1


def test_hook_note_that_restates_project_instructions_is_not_learnt(library, shop):
    (shop / "AGENTS.md").write_text(f"# Rules\n\n- {SAID}.\n", encoding="utf-8")
    remember(library, HookNote(SAID, project_path=str(shop / "src"), at=1))
    remember(library, HookNote(SAID, project_path=str(shop), at=1))
    assert len(memories(library)) <= 1
    assert SAID in instructions_of(shop) and instructions_of(shop / "nowhere") == ""


def test_hook_note_from_a_missing_folder_takes_its_name_as_project(library, shop):
    remember(library, HookNote(SAID, project_path=str(shop.parent / "gone"), at=1))
    assert [memory.memory.project for memory in memories(library)] == ["gone"]
    remember(library, HookNote("Zebras count coins in the evening", at=1))
    assert {record.memory.project for record in memories(library)} == {"gone", ""}


def test_rejected_memory_does_not_return_from_a_hook(library, shop):
    from cortex.families.memory.curation import judge

    add(library, Memory("", SAID))
    judge(library, memories(library), "reject")
    remember(library, HookNote(SAID, project_path=str(shop), at=1))
    assert [memory.state for memory in memories(library)] == [MemoryState.REJECTED]


def test_the_databases_of_a_library_are_noted_at_its_start(library, isolated):
    database(isolated.user / ".claude-mem", "Apples").close()
    begin(library)
    assert [mirror.origin for mirror in library.store.memories.mirrors()] == [
        str(isolated.user / ".claude-mem" / "claude-mem.db")
    ]
    with open_library(library.settings, read_only=True) as reader:
        # It can't write, and says nothing
        begin(reader)
