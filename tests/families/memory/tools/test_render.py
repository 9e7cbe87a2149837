"""Answers of the memory tools keep to their budget for any memories."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cortex.base.text import TOKEN_CHARACTERS
from cortex.base.types import Memory
from cortex.engine.sources.project import Project
from cortex.engine.store import Remembered
from cortex.families.memory.adapters.claude_mem import Session
from cortex.families.memory.databases import MemoryDatabase
from cortex.families.memory.search import MemoryHit, MemoryResults
from cortex.families.memory.session_context import SessionContext
from cortex.families.memory.tools import render

PRESENT = (MemoryDatabase(Path("/x/a.db"), ""), MemoryDatabase(Path("/y/b.db"), ""))


def texts(most: int) -> st.SearchStrategy[str]:
    """Short and long texts, of letters and of what JSON has to escape."""
    part = st.sampled_from(["a", "lamp ", '"', "\\", "\x01", "é", "日", "\u202e", "\n", "😀"])
    return st.builds(
        lambda text, times, end: (text * times + end)[:most],
        part,
        st.sampled_from([0, 1, 9, most]),
        part,
    )


@st.composite
def remembered(draw: st.DrawFn) -> Remembered:
    lists = [tuple(draw(st.lists(texts(2_000), max_size=20))) for _ in range(3)]
    title, subtitle, story = draw(texts(20_000)), draw(texts(20_000)), draw(texts(20_000))
    project, session, kind = draw(texts(40)), draw(texts(100)), draw(texts(100))
    memory = Memory(
        "obs_1", title, subtitle, *lists, story, project, session, "2026-11-16", 1, kind
    )
    return Remembered(1, PRESENT[0].origin, 1, 1, None, memory, "", project, b"", b"", None)


BUDGETS = st.sampled_from([200, 201, 500, 2_000])
NOTES = st.lists(texts(1_000), max_size=3).map(tuple)


def within(text: str, budget: int) -> bool:
    return isinstance(json.loads(text), dict) and len(text) <= budget * TOKEN_CHARACTERS


@given(st.lists(remembered(), min_size=1, max_size=12), BUDGETS, NOTES)
def test_search_answer_keeps_to_its_budget(records, budget, notes):
    found = MemoryResults(
        tuple(MemoryHit(record, 0.5, True) for record in records), 90, notes, None, PRESENT
    )
    text = render.found_text(
        found, budget, lambda offset: "x" * 28, 0, lambda text: ["changed " * 20]
    )
    assert within(text, budget) and json.loads(text)["results"]


@given(remembered(), BUDGETS, texts(20_000))
def test_a_whole_memory_keeps_to_its_budget(record, budget, overview):
    session = Session("s", "p", overview, overview, 1, "2026-11-16")
    assert within(
        render.memory_text(record, PRESENT, session, ["changed " * 40] * 3, True, budget), budget
    )


@given(st.lists(remembered(), max_size=8), BUDGETS, NOTES, texts(4_000))
def test_the_context_keeps_to_its_budget(records, budget, notes, path):
    sessions = tuple(
        Session(record.memory.session, "p", record.memory.title, "", 1, "2026-11-16")
        for record in records
    )
    project = Project(Path(f"/p/{'x' * len(path)}"), ("n" * (1 + len(path) % 300),))
    context = SessionContext(project, tuple(records), sessions, tuple(records), notes, PRESENT, {})
    assert within(render.context_text(context, budget), budget)
