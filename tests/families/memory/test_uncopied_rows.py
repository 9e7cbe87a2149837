"""Brief looks into other products' databases, which no lock holds up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cortex.base.errors import InputError
from cortex.families.memory.databases import MemoryDatabase, databases
from cortex.families.memory.ids import find_memory
from cortex.families.memory.mirror import behind
from cortex.families.memory.session_context import session_of
from cortex.families.memory.uncopied_rows import ANSWER_SECONDS, glimpse
from families.memory.adapters.claude_mem_databases import MadeDatabase, make_claude_mem
from families.memory.libraries import copy, database, open_library, settings_of


def lock(made: MadeDatabase) -> None:
    made.connection.execute("PRAGMA journal_mode = DELETE")
    made.connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    made.connection.execute("BEGIN EXCLUSIVE")
    made.connection.execute("UPDATE observations SET title = 'Half written'")


def scopes(user: Path, *names: str) -> list[MadeDatabase]:
    made = [make_claude_mem(user / ".ack-mem" / "scopes" / name / "memory.db") for name in names]
    for opened in made:
        opened.observation(opened.session("s1"), "Apples")
    return made


def test_glimpse_gives_readable_databases_and_reports_the_others(isolated):
    (made,) = scopes(isolated.user, "dev")
    made.close()
    there = MemoryDatabase(isolated.user / ".ack-mem" / "scopes" / "dev" / "memory.db", "dev")
    problems: list[str] = []
    missing = MemoryDatabase(isolated.user / "nowhere.db", "")
    seen = glimpse(
        [missing, there],
        lambda place, opened: (place.scope, opened.count()),
        report=problems.append,
    )
    assert list(seen) == [("dev", 1)]
    assert len(problems) == 1 and "nowhere.db" in problems[0]


def test_no_database_is_opened_after_the_time_is_over(isolated):
    database(isolated.user / ".claude-mem", "Pears", close=True)
    problems: list[str] = []
    there = MemoryDatabase(isolated.user / ".claude-mem" / "claude-mem.db", "")
    assert not list(
        glimpse([there], lambda _, opened: opened.count(), report=problems.append, seconds=0.0)
    )
    assert "ask again" in problems[0]


def test_locked_databases_delay_an_answer_only_once(isolated):
    made = scopes(isolated.user, "a", "b", "c")
    for locked in made:
        lock(locked)
    with open_library(settings_of(isolated.cortex)) as library:
        begun = time.monotonic()
        assert session_of(databases(library.settings), "s1") is None
        with pytest.raises(InputError):
            find_memory(library, "obs_1")
        assert time.monotonic() - begun < 2 * ANSWER_SECONDS + 1
    for opened in made:
        opened.close()


def test_only_a_database_changed_since_its_copy_is_behind(isolated):
    made = database(isolated.user / ".claude-mem", "Pears")
    with open_library(settings_of(isolated.cortex)) as library:
        assert [database.path.name for database in behind(library)] == ["claude-mem.db"]
        copy(library)
        assert behind(library) == []
        made.observation(made.session("s2"), "Plums")
        assert [database.path.name for database in behind(library)] == ["claude-mem.db"]
        assert find_memory(library, "obs_2").memory.title == "Plums"
    made.close()
