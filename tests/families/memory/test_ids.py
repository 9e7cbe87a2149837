"""Ids of memories: each shown id opens its own memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.base.errors import InputError
from cortex.base.types import Memory, MemoryState
from cortex.engine.library import Library
from cortex.families.memory.curation import delete, judge
from cortex.families.memory.databases import databases
from cortex.families.memory.ids import display_id, find_memory
from cortex.families.memory.writer import add
from families.memory.adapters.claude_mem_databases import make_claude_mem
from families.memory.libraries import copy, database, memories, one_of, open_library, settings_of


@pytest.fixture
def library(isolated) -> Iterator[Library]:
    with open_library(settings_of(isolated.cortex)) as opened:
        yield opened


def scoped(
    user: Path, scope: str, *titles: str, generation: str = "13", project: str = "ack"
) -> None:
    made = make_claude_mem(user / ".ack-mem" / "scopes" / scope / "memory.db", generation)
    for title in titles:
        made.observation(made.session(f"s-{scope}", project), title, project)
    made.close()


def ids(library: Library) -> dict[str, str]:
    present = databases(library.settings)
    return {memory.memory.title: display_id(memory, present) for memory in memories(library)}


def refusal(library: Library, known: str, scope: str = "") -> InputError:
    with pytest.raises(InputError) as error:
        find_memory(library, known, scope)
    return error.value


def test_row_id_is_its_number_with_one_database(library, isolated):
    database(isolated.user / ".claude-mem", "Apples").close()
    copy(library)
    assert ids(library) == {"Apples": "obs_1"}
    assert (
        find_memory(library, " obs_1 ").memory.title
        == find_memory(library, "ack:obs_1").memory.title
        == "Apples"
    )


def test_row_id_names_its_scope_with_several_databases(library, isolated):
    scoped(isolated.user, "dev", "Apples")
    database(isolated.user / ".claude-mem", "Pears", "Plums").close()
    copy(library)
    assert ids(library) == {"Apples": "dev:obs_1", "Pears": "ack:obs_1", "Plums": "ack:obs_2"}
    for title, known in ids(library).items():
        assert find_memory(library, known).memory.title == title
    # Only one has it
    assert find_memory(library, "obs_2").memory.title == "Plums"


def test_ambiguous_id_is_refused_with_its_candidates(library, isolated):
    scoped(isolated.user, "dev", "Apples")
    database(isolated.user / ".claude-mem", "Pears").close()
    copy(library)
    error = refusal(library, "obs_1")
    assert error.code == "MEMORY_AMBIGUOUS" and error.context["candidates"] == [
        "dev:obs_1",
        "ack:obs_1",
    ]
    assert "Apples" in error.message and "Pears" in error.message
    assert find_memory(library, "obs_1", "DEV").memory.title == "Apples"
    assert refusal(library, "obs_1", "nowhere").code == "MEMORY_UNKNOWN"


def test_rows_of_two_databases_in_one_scope_have_distinct_ids(library, isolated):
    database(isolated.user / ".ack-mem", "Apples").close()
    database(isolated.user / ".claude-mem", "Pears").close()
    copy(library)
    assert ids(library) == {"Apples": "ack:obs_1", "Pears": "ack@claude-mem:obs_1"}
    for title, known in ids(library).items():
        assert find_memory(library, known).memory.title == title
    for known in refusal(library, "obs_1").context["candidates"]:
        find_memory(library, known)


def test_rows_of_a_scope_named_like_a_project_have_distinct_ids(library, isolated):
    scoped(isolated.user, "ack", "Apples")
    database(isolated.user / ".claude-mem", "Pears").close()
    copy(library)
    assert ids(library) == {"Apples": "ack:obs_1", "Pears": "ack@claude-mem:obs_1"}
    for title, known in ids(library).items():
        assert find_memory(library, known).memory.title == title


def test_document_ids_and_own_keys_need_no_scope(library, isolated):
    made = make_claude_mem(isolated.user / ".ack-mem" / "claude-mem.db", "3")
    made.memory("ack_abc123_2026-01-04_001", "Apples")
    made.memory(None, "Plums")
    made.close()
    database(isolated.user / ".claude-mem", "Pears").close()
    copy(library)
    own = add(library, Memory("", "Cherries")).key
    assert ids(library) == {
        "Apples": "ack_abc123_2026-01-04_001",
        "Plums": "ack:obs_2",
        "Pears": "ack@claude-mem:obs_1",
        "Cherries": own,
    }
    assert find_memory(library, "ack:ack_abc123_2026-01-04_001").memory.title == "Apples"


def test_rows_of_two_upgraded_databases_have_distinct_ids(library, isolated):
    for folder in (".ack-mem", ".claude-mem"):
        made = make_claude_mem(isolated.user / folder / "claude-mem.db", "carried")
        made.memory(None, f"In {folder}")
        made.close()
    copy(library)
    assert ids(library) == {"In .ack-mem": "ack:mem_1", "In .claude-mem": "ack@claude-mem:mem_1"}


@pytest.mark.parametrize(
    "known",
    [
        "",
        "obs_99",
        "nowhere:obs_1",
        ":",
        "obs_1:",
        "x" * 5_000,
        "obs_99999999999999999999",
        "🦓",
        "a\0b",
        "%",
    ],
)
def test_an_unknown_id_is_refused(library, isolated, known):
    database(isolated.user / ".claude-mem", "Apples").close()
    copy(library)
    error = refusal(library, known)
    assert error.code == "MEMORY_UNKNOWN" and len(error.message) < 300


def test_uncopied_row_opens_with_its_judgement(library, isolated):
    database(isolated.user / ".claude-mem", "Apples", "Pears").close()
    assert find_memory(library, "obs_1").memory.title == "Apples"
    copy(library)
    judge(library, [one_of(library, "obs_1")], "reject")
    delete(library, [one_of(library, "obs_2")])
    library.store.memories.drop_copy(databases(library.settings)[0].origin)
    assert find_memory(library, "obs_1").state is MemoryState.REJECTED
    assert refusal(library, "obs_2").code == "MEMORY_UNKNOWN"


def test_unreadable_database_leaves_other_ids_working(library, isolated):
    scoped(isolated.user, "dev", "Apples")
    (isolated.user / ".claude-mem").mkdir()
    (isolated.user / ".claude-mem" / "claude-mem.db").write_bytes(b"junk" * 1_000)
    copy(library)
    assert find_memory(library, "obs_1").memory.title == "Apples"


@pytest.mark.parametrize(
    "key", ["ack_1_2026-01-04_001", "a:b", "mem_x:obs_3", "::", "obs_1:", "with a blank"]
)
def test_key_in_two_databases_is_shown_with_its_scope(library, isolated, key):
    for scope in ("dev", "personal"):
        made = make_claude_mem(
            isolated.user / ".ack-mem" / "scopes" / scope / "memory.db", "patched"
        )
        made.memory(key, f"Of {scope}")
        made.memory(f"{key}.{scope}", f"Only of {scope}")
        made.close()
    copy(library)
    shown = ids(library)
    assert shown["Of dev"] == f"dev:{key}" and shown["Only of dev"] == f"{key}.dev"
    for title, known in shown.items():
        assert find_memory(library, known).memory.title == title
    assert refusal(library, key).code == "MEMORY_AMBIGUOUS"
