"""The session brief of a project: whole lines within the room, fenced against its titles."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cortex.base.types import Memory, MemoryState
from cortex.engine.sources.project import Project
from cortex.engine.store import OWN, Remembered
from cortex.families.memory.adapters.claude_mem import Session
from cortex.families.memory.session_brief import HEAD, brief_text
from cortex.families.memory.session_context import SessionContext

PROJECT = Project(Path("/work/shop"), ("shop",))


def record(title: str, key: str = "mem_1", **more: str) -> Remembered:
    memory = Memory(key, title, date="2026-11-01", **more)  # type: ignore[arg-type]
    return Remembered(1, OWN, 0, 1, MemoryState.APPROVED, memory, "", "shop", b"", b"", None)


def context(memories=(), sessions=(), others=(), stale=()) -> SessionContext:
    return SessionContext(
        PROJECT, tuple(memories), tuple(sessions), tuple(others), (), (), dict(stale)
    )


def test_each_memory_is_a_line_with_its_id_date_and_kind():
    session = Session("s", "shop", "A day", "Much was\ndone", 0, "2026-10-31")
    text = brief_text(
        context(
            [record("Use uv", kind="decision")],
            [session],
            [record("Blue lamps", "mem_2", project="lamps")],
        ),
        10_000,
    )
    assert text.splitlines() == [
        HEAD,
        "",
        "```text",
        "Project: shop",
        "- mem_1 2026-11-01 decision: Use uv",
        "Last sessions:",
        "- 2026-10-31 A day: Much was done",
        "From other projects:",
        "- mem_2 2026-11-01 Blue lamps (lamps)",
        "```",
    ]


def test_brief_is_empty_without_memories_or_room():
    assert brief_text(context(), 10_000) == ""
    assert brief_text(context([record("Use uv")]), 20) == ""


def test_lines_beyond_the_room_are_left_out_with_their_heading():
    text = brief_text(
        context([record("a"), record("b" * 200)], others=[record("c" * 200)]), len(HEAD) + 300
    )
    assert "- mem_1 2026-11-01 a\n" in text and "b" * 200 in text
    assert "From other projects" not in text and text.endswith("\n```")


@given(st.lists(st.text(min_size=1), max_size=8), st.integers(0, 1_500))
def test_no_title_ends_the_fence_or_its_line(titles, room):
    text = brief_text(
        context([record(title) for title in titles], others=[record(title) for title in titles]),
        room,
    )
    assert len(text) <= room
    if text:
        lines = text.splitlines()
        assert lines[0] == HEAD and set(lines[-1]) == {"`"} and lines[2] == f"{lines[-1]}text"
        assert all(
            line[:2] == "- " or line in ("Project: shop", "From other projects:")
            for line in lines[3:-1]
        )
        assert not any(lines[-1] in line for line in lines[3:-1])


def test_memory_with_changed_code_is_marked_maybe_stale():
    stale = {(OWN, "mem_1"): ("client.py changed",)}
    assert "- mem_1 2026-11-01 Use uv [maybe stale: client.py changed]" in brief_text(
        context([record("Use uv")], stale=stale.items()), 10_000
    )
