"""The context of a project at the start of a session."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.base.types import Memory, MemoryState
from cortex.engine.citations import cite
from cortex.engine.library import Library
from cortex.engine.store import OWN
from cortex.families.memory.curation import judge
from cortex.families.memory.session_context import SessionContext, context_of, session_of
from cortex.families.memory.writer import add
from families.memory.adapters.claude_mem_databases import START, make_claude_mem
from families.memory.libraries import (
    copy,
    database,
    hold,
    one_of,
    open_library,
    settings_of,
    titles,
)

NOW = int(time.time() * 1000)
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A"


@pytest.fixture
def library(isolated) -> Iterator[Library]:
    with open_library(settings_of(isolated.cortex)) as opened:
        yield opened


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    return tmp_path / "shop"


def keep(
    library: Library, title: str, state: MemoryState = MemoryState.APPROVED, **parts: object
) -> str:
    return add(library, Memory("", title, **parts), state=state).key  # type: ignore[arg-type]


def titles_in(context: SessionContext) -> tuple[list[str], list[str]]:
    return titles(list(context.memories)), titles(list(context.others))


def test_context_has_the_projects_newest_and_related_memories_of_others(library, shop):
    keep(library, "Carts are emptied at night", project="shop", concepts=("cart",), created=NOW)
    keep(library, "Not for anybody yet", MemoryState.STAGING, project="shop", created=NOW)
    keep(library, "Carts squeak", project="mill", concepts=("CART",), created=NOW)
    keep(library, "Mills turn", project="mill", concepts=("mill",), created=NOW)
    found = context_of(library, shop, most=5)
    assert titles_in(found) == (["Carts are emptied at night"], ["Carts squeak"])
    assert (found.project.name, found.project.path) == ("shop", shop)
    assert titles_in(context_of(library, shop, most=5, others=False)) == (
        ["Carts are emptied at night"],
        [],
    )


def test_half_of_the_places_go_to_lasting_kinds(library, shop):
    for number in range(10):
        keep(library, f"Note {number} of the day", project="shop", created=NOW - number)
    keep(library, "Money is kept in integers", project="shop", kind="decision", created=1)
    keep(library, "The till jams", project="shop", concepts=("Gotcha",), created=2)
    keep(library, "Tabs, no spaces", project="shop", kind="convention", created=3)
    found, _ = titles_in(context_of(library, shop, most=4))
    assert found == ["Note 0 of the day", "Note 1 of the day", "Tabs, no spaces", "The till jams"]
    assert titles_in(context_of(library, shop, most=0))[0] == []


def test_promoted_memory_is_in_the_context_of_every_project(library, shop):
    key = keep(library, "Rotate the keys in May", project="mill", created=1)
    keep(library, "Wheat is dry", project="mill", kind="decision", created=NOW)
    judge(library, [one_of(library, key)], "promote")
    assert titles_in(context_of(library, shop, most=5)) == (
        [],
        ["Rotate the keys in May", "Wheat is dry"],
    )
    assert titles_in(context_of(library, shop, most=1))[1] == ["Rotate the keys in May"]


def test_memory_of_a_merged_project_is_in_its_context(library, shop, isolated):
    made = make_claude_mem(isolated.user / ".claude-mem" / "claude-mem.db")
    made.observation(made.session("s1", "shop"), "Merged away", "shop", merged_into_project="mall")
    made.close()
    copy(library)
    assert titles_in(context_of(library, shop, most=5)) == (["Merged away"], [])


def test_last_sessions_come_from_every_database(library, shop, isolated):
    for folder, first in ((".ack-mem", 0), (".claude-mem", 2)):
        made = make_claude_mem(isolated.user / folder / "claude-mem.db")
        for number in range(first, first + 2):
            session = made.session(f"s{number}", "shop", moment=START + number)
            made.summary(
                session,
                f"Day {number} with {TOKEN}",
                "shop",
                learned="much",
                created_at_epoch=START + number,
            )
        made.summary(made.session(f"other{first}", "mill"), "Milling", "mill")
        made.close()
    copy(library)
    found = context_of(library, shop, most=5)
    assert [session.title.split(" with")[0] for session in found.sessions] == [
        "Day 3",
        "Day 2",
        "Day 1",
    ]
    assert TOKEN not in repr(found)
    session = session_of(found.present, "s0")
    assert session is not None and session.title.startswith("Day 0") and TOKEN not in repr(session)
    assert session_of(found.present, "nowhere") is None and session_of(found.present, "") is None


def test_session_in_two_databases_is_listed_once(library, shop, isolated):
    for folder in (".ack-mem", ".claude-mem"):
        made = make_claude_mem(isolated.user / folder / "claude-mem.db")
        for number in range(2):
            session = made.session(f"s{number}", "shop", moment=START + number)
            made.summary(
                session, f"Day {number}", "shop", learned="much", created_at_epoch=START + number
            )
        made.close()
    assert [session.title for session in context_of(library, shop, most=5).sessions] == [
        "Day 1",
        "Day 0",
    ]


def test_unreadable_database_is_a_note_of_the_context(library, shop, isolated):
    (isolated.user / ".claude-mem").mkdir()
    (isolated.user / ".claude-mem" / "claude-mem.db").write_bytes(b"junk" * 1_000)
    keep(library, "Carts are emptied at night", project="shop")
    found = context_of(library, shop, most=5)
    assert titles_in(found)[0] == ["Carts are emptied at night"]
    assert len(found.notes) == 1 and "claude-mem.db" in found.notes[0]


def test_newest_uncopied_rows_are_in_the_context_with_a_note(library, isolated, tmp_path):
    (tmp_path / "ack").mkdir()
    database(isolated.user / ".claude-mem", "Apples", "Pears").close()
    with open_library(library.settings) as other:
        hold(other)
        found = context_of(library, tmp_path / "ack", most=5)
    assert titles_in(found)[0] == ["Pears", "Apples"]
    assert any("are being indexed" in note for note in found.notes)


def test_context_of_an_unknown_project_is_empty(library, shop):
    for folder in (shop, shop / "nowhere" / ".." / "x"):
        found = context_of(library, folder, most=5)
        assert (found.memories, found.sessions, found.others) == ((), (), ())


def test_context_marks_memories_with_changed_cited_code(library, shop):
    (shop / "till.py").write_text(
        "def jam():\n    return 1\n\n\ndef other():\n    return 2\n", encoding="utf-8"
    )
    citation = cite(shop, "till.py#jam", library.view_in(shop))
    key = add(library, Memory("", "The till jams once", project="shop"), citations=[citation]).key
    assert context_of(library, shop, most=5).stale == {}
    (shop / "till.py").write_text(
        "def jam():\n    return 1\n\n\ndef other():\n    return 3\n", encoding="utf-8"
    )
    # Another symbol's change
    assert context_of(library, shop, most=5).stale == {}
    (shop / "till.py").write_text("def jam():\n    return 7\n", encoding="utf-8")
    assert context_of(library, shop, most=5).stale == {
        (OWN, key): ("the body of jam in till.py changed",)
    }
    assert context_of(library, shop, most=5, looking=0.0).stale == {
        (OWN, key): ("till.py changed",)
    }
    (shop / "till.py").unlink()
    assert context_of(library, shop, most=5, looking=0.0).stale == {
        (OWN, key): ("till.py is gone",)
    }
