"""Memories as a target of one search beside documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.base.errors import InputError
from cortex.base.types import Cancel, Memory, MemoryState, Mode, Query
from cortex.engine.library import Library
from cortex.engine.search.federated import federated_search
from cortex.families.documents import tools
from cortex.families.documents.tools.search_target import place_of as documents_of
from cortex.families.memory.tools.search_target import place_of
from cortex.families.memory.writer import add
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.tool import Call, bind, find_tool, perform
from families.memory.libraries import copy, database, open_library, settings_of


@pytest.fixture
def library(isolated, tmp_path: Path) -> Iterator[Library]:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "zebra.md").write_text(
        "# Zebras\n\nZebras are striped.\n", encoding="utf-8"
    )
    database(isolated.user / ".claude-mem", "Zebras count coins").close()
    with open_library(settings_of(isolated.cortex)) as opened:
        opened.index(source=opened.add_folder(tmp_path / "notes", key="notes").source)
        copy(opened)
        add(opened, Memory("", "A zebra waits for approval"), state=MemoryState.STAGING)
        yield opened


def test_one_search_finds_documents_and_memories_with_their_citations(library):
    located, page = federated_search(
        [documents_of(library), place_of(library)], Query("zebras", mode=Mode.WORDS), Cancel()
    )
    assert {(found.family, found.cited.get("title") or found.hit.path) for found in located} == {
        ("kb", "zebra.md"),
        ("memory", "Zebras count coins"),
    }
    memory = next(found for found in located if found.family == "memory")
    assert (
        memory.cited == {"id": "obs_1", "title": "Zebras count coins", "project": "ack"}
        and memory.source == "memories"
    )
    assert page.total == 2


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.FULL])
def test_file_search_modes_are_refused_for_memories(library, mode):
    with pytest.raises(InputError):
        place_of(library).ask(Query("zebras", mode=mode), Cancel())


def test_answer_without_memories_says_how_to_add_one(isolated):
    with open_library(settings_of(isolated.cortex)) as library:
        page = place_of(library).ask(Query("zebras", mode=Mode.WORDS), Cancel())
    assert page.hits == () and "cortex memory add" in page.notes[0]


def test_document_tools_find_no_memories(library):
    library.store.lease.release()
    family = tools.open_family(library.settings, engine_pool(keep=False))
    try:

        def ask(name: str, **arguments: object) -> str:
            found, tool = find_tool([family], name)
            return perform(found, tool, bind(tool, arguments), Call()).text

        found = ask("kb_search", query="zebras count coins")
        assert found.startswith("Found 1 result ") and "zebra.md" in found
        assert "memories" not in ask("kb_list_sources")
        assert "Documents: 1\nChunks: 1\n" in ask("kb_stats")
    finally:
        family.close()
