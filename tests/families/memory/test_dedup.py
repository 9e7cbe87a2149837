"""Fingerprints and likeness of memories, and recalled or restated text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.types import Memory
from cortex.families.memory.dedup import (
    ALIKE,
    canonical,
    fingerprint,
    is_recalled,
    likeness,
    parts_of,
    restates,
)

RAILWAY = Memory(
    "mem_1",
    "Railway env vars need NIXPACKS_ prefix",
    "Build-time env vars need the prefix",
    ("NIXPACKS_ prefix is required for build-time env vars", "Runtime vars work without prefix"),
    ("gotcha",),
    text="The build did not see env vars set in the dashboard.\nIt took an hour to find out. The docs don't say it.",
)


def memory(title: str, text: str = "", *facts: str, subtitle: str = "") -> Memory:
    return Memory("mem_x", title, subtitle, facts, text=text)


def served(*memories: Memory) -> Callable[[Sequence[bytes]], set[bytes]]:
    parts = {part for each in memories for part in parts_of(each)}
    return lambda asked: parts & set(asked)


@pytest.mark.parametrize(
    "title",
    [
        "use PNPM, not npm",
        "  Use   pnpm, not npm.  ",
        "- Use **pnpm**, not `npm`!",
        "3. _Use pnpm_, not npm",
        "> “Use pnpm, not npm”",
        "Use ｐｎｐｍ, not npm",
        "- [x] Use pnpm, not 'npm'…",
    ],
)
def test_fingerprint_ignores_shape_capitals_and_punctuation(title: str) -> None:
    assert canonical(memory(title)) == "use pnpm, not npm"
    assert fingerprint(memory(title)) == fingerprint(memory("Use pnpm, not npm"))


def test_fingerprint_ignores_key_project_tags_and_files() -> None:
    second = Memory(
        "k",
        RAILWAY.title,
        RAILWAY.subtitle,
        RAILWAY.facts,
        ("railway",),
        ("a.py",),
        RAILWAY.text,
        project="p",
    )
    assert fingerprint(second) == fingerprint(RAILWAY)


def test_fingerprint_counts_repeated_text_once() -> None:
    once = memory("Hooks may fire twice", "So they must be idempotent.")
    assert fingerprint(
        memory("Hooks may fire twice", "# Hooks may fire twice\n\nSo they must be idempotent.")
    ) == fingerprint(once)
    assert fingerprint(memory("Hooks may fire", "Hooks may fire twice.")) == fingerprint(
        memory("Hooks may fire twice")
    )
    assert fingerprint(memory("Use uv", "Use uvicorn for it")) != fingerprint(
        memory("Use uvicorn for it")
    )


def test_fingerprint_differs_by_words_numbers_and_names() -> None:
    prints = {
        fingerprint(memory(title))
        for title in (
            "port is 5433",
            "port is 5434",
            "port is not 5433",
            "NIXPACKS_ prefix",
            "NIXPACKS prefix",
            "snake_case_name",
        )
    }
    assert len(prints) == 6


def test_served_memory_is_recalled_whole_and_in_parts() -> None:
    known = served(RAILWAY)
    assert is_recalled(RAILWAY, known)
    assert is_recalled(memory("Railway env vars need `NIXPACKS_` prefix."), known)
    assert is_recalled(memory(RAILWAY.title, "It took an hour to find out."), known)
    assert is_recalled(
        memory(
            "runtime vars work without prefix",
            "The docs don't say it. It took an hour to find out.",
        ),
        known,
    )
    assert is_recalled(memory(RAILWAY.title, f"{RAILWAY.facts[0]}; {RAILWAY.facts[1]}."), known)


def test_text_with_something_new_is_not_recalled() -> None:
    known = served(RAILWAY)
    assert not is_recalled(memory(RAILWAY.title, "Since May the prefix is optional."), known)
    assert not is_recalled(memory("Use Postgres", RAILWAY.text), known)
    assert not is_recalled(memory(RAILWAY.title, f"{RAILWAY.facts[0]}. Use Postgres."), known)
    assert not is_recalled(memory(f"{RAILWAY.title} no more"), known)
    assert not is_recalled(memory("2026-11-16"), known)
    assert not is_recalled(RAILWAY, served())


@pytest.mark.parametrize(
    "line",
    [
        "- mem_1a2b3c4d5e 2026-11-02 gotcha: Railway env vars need NIXPACKS_ prefix",
        "- ack:obs_12 2026-11-02 problem solution: Railway env vars need NIXPACKS_ prefix (auth-service)",
        "- mem_1a2b3c · Railway env vars need NIXPACKS_ prefix · 3 days ago",
        "* [ack:obs_12] · Railway env vars need NIXPACKS_ prefix · gotcha · 2026-11-02",
        "mem_1a2b | Railway env vars need NIXPACKS_ prefix | staging",
        "Title: Railway env vars need NIXPACKS_ prefix",
        "remember: Railway env vars need NIXPACKS_ prefix",
        '"title": "Railway env vars need NIXPACKS_ prefix",',
        json.dumps(
            {
                "id": "mem_1",
                "title": RAILWAY.title,
                "facts": list(RAILWAY.facts),
                "concepts": ["env vars"],
                "project": "auth-service",
            }
        ),
        json.dumps([{"id": "mem_1", "title": RAILWAY.title}], indent=2),
    ],
)
def test_formatted_line_of_an_answer_is_recalled(line: str) -> None:
    assert is_recalled(memory(line), served(RAILWAY))
    assert is_recalled(
        memory(RAILWAY.title, f"What I know:\n{line}" if line[0] not in "[{" else line),
        served(RAILWAY, memory("What I know")),
    )


def test_separators_in_a_title_stay_part_of_it() -> None:
    own = memory("Order of search · words first · then meaning")
    assert is_recalled(own, served(own))
    assert not is_recalled(memory("Order of search · meaning first"), served(own))


def test_brackets_in_a_title_stay_part_of_it() -> None:
    assert not is_recalled(
        memory("Runtime vars work without prefix (since May only)"), served(RAILWAY)
    )
    own = memory("Use pnpm everywhere (not npm)")
    assert is_recalled(memory("- mem_1a2b3c 2026-11-02 Use pnpm everywhere (not npm)"), served(own))
    assert not is_recalled(memory("Use pnpm everywhere (not yarn)"), served(own))


def test_hostile_json_is_text() -> None:
    for text in ("[" * 100_000, '{"a": ' * 5_000, "[1, 2", "{}", "[[[]]]"):
        assert not is_recalled(memory("something else", text), served(RAILWAY))


SAME = [
    ("Railway env vars need NIXPACKS_ prefix", "Railway environment variables need the NIXPACKS_ prefix"),
    ("Use pnpm instead of npm in this repository", "In this repository use pnpm instead of npm"),
    ("The deploy script must be run from the repository root", "Deploy script has to be run from the repo root"),
    ("Postgres listens on port 5433 in the dev container", "In the dev container Postgres is listening on port 5433"),
    ("We chose SQLite over Postgres because no server process is wanted", "SQLite was chosen over Postgres since no server process is wanted"),
    ("CI fails on Windows because paths are compared case-sensitively", "CI is failing on Windows: paths get compared case sensitively"),
]  # fmt: skip
DIFFERENT = [
    ("Postgres listens on port 5433 in the dev container", "Redis is started by docker compose in the dev container"),
    ("Use pnpm instead of npm in this repository", "Use uv instead of pip for the Python tools of this repository"),
    ("The auth middleware caches tokens for 5 minutes", "The auth middleware refuses tokens that were signed with the old key"),
    ("Migrations run automatically at startup; don't run them by hand", "Migrations are functions and never changed after release"),
    ("We chose SQLite over Postgres because no server is wanted", "We chose tantivy over FTS5 because it answers fifty times faster"),
    ("Railway env vars need NIXPACKS_ prefix", "Railway deploys need a health check path in railway.toml"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), SAME)
def test_small_edits_leave_memories_alike(first: str, second: str) -> None:
    assert likeness(memory(first), memory(second)) >= ALIKE


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_different_memories_of_one_topic_are_not_alike(first: str, second: str) -> None:
    assert likeness(memory(first), memory(second)) < ALIKE


def test_the_order_of_facts_hardly_counts() -> None:
    facts = ("One file to back up", "No server process is wanted", "Readers never block the writer")
    assert (
        likeness(
            memory("SQLite over Postgres", "", *facts),
            memory("SQLite over Postgres", "", *facts[::-1]),
        )
        > 0.9
    )


TEXTS = st.text(max_size=80)
MEMORIES = st.builds(memory, TEXTS, TEXTS, TEXTS, subtitle=TEXTS)


@given(MEMORIES, MEMORIES)
def test_likeness_is_symmetric_bounded_and_whole_for_equal_memories(
    first: Memory, second: Memory
) -> None:
    assert 0 <= likeness(first, second) <= 1
    assert likeness(first, second) == likeness(second, first)
    assert likeness(first, first) == 1


@given(MEMORIES)
def test_memory_with_content_recalls_itself(own: Memory) -> None:
    assert is_recalled(own, served(own)) == bool(parts_of(own))


INSTRUCTIONS = """# CLAUDE.md

- Always use `pnpm`, never npm.
- Tests must not sleep; wait on a condition
  instead.

## Style
Lines are at most 120 characters long. Comments say why,
not what.
"""


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Always use pnpm, never npm", ""),
        ("Use pnpm", "Always use pnpm, never npm."),
        ("Tests must not sleep; wait on a condition instead", ""),
        ("Comments say why, not what.", "Lines are at most 120 characters long."),
        ("Always use pnpm and never npm", ""),
    ],
)
def test_text_of_an_instruction_file_is_restated(title: str, text: str) -> None:
    assert restates(memory(title, text), INSTRUCTIONS)


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Always use pnpm, never npm", "The lock file breaks otherwise on macOS."),
        ("Always use uv, never pip", ""),
        ("Style", ""),
        ("Tests may sleep in the campaigns", ""),
    ],
)
def test_text_beyond_an_instruction_file_is_not_restated(title: str, text: str) -> None:
    assert not restates(memory(title, text), INSTRUCTIONS)
    assert not restates(memory(title, text), "")


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "unit",
    [
        " ",
        "\n",
        "\t",
        "note: ",
        "note: a b. ",
        "- ",
        "_",
        "* _a",
        "\n ",
        "> - 1. ",
        "mem_1 · ",
        "ab. ",
        "a·",
    ],
)
def test_hostile_repetition_is_read_in_bounded_time(unit: str) -> None:
    hostile = memory("something", unit * (50_000 // len(unit)) + "x")
    assert is_recalled(hostile, served(hostile)) == bool(parts_of(hostile))
    assert not restates(memory("no such sentence"), hostile.text)
