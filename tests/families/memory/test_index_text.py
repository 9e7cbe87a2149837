"""The indexed text of a memory, with title and date in every chunk."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.types import TURN, Memory
from cortex.families.memory.index_text import spelt, text_of, word

OBSERVATION = Memory(
    "obs_1",
    "Build variables need a prefix",
    subtitle="The dashboard's own are seen at run time only",
    facts=("The prefix is BUILD_", "Runtime variables need none"),
    concepts=("gotcha", "shipping"),
    files=("deploy.toml", "src/build.py"),
    text="The build did not see what was set in the dashboard.",
    date="2026-05-07",
)


def test_short_memory_is_one_chunk_with_every_part_once():
    _, cut = word(OBSERVATION)
    (chunk,) = cut.chunks
    said = cut.text[chunk.start : chunk.end]
    for part in (
        OBSERVATION.title,
        OBSERVATION.subtitle,
        *OBSERVATION.facts,
        *OBSERVATION.files,
        *OBSERVATION.concepts,
        OBSERVATION.text,
    ):
        assert said.count(part) == 1
    assert chunk.name == OBSERVATION.title


def test_title_that_begins_the_text_is_indexed_once():
    text = "[9:12 am on 3 June, 2026] Bo: The  crane was painted,\nand then it rained for a week."
    memory = Memory("m", "[9:12 am on 3 June, 2026] Bo: The crane was painted, and then", text=text)
    assert text_of(memory) == text + "\n"


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        ("[9:12 am on 3 June, 2026] Bo: The crane was painted.", "Bo"),
        ("Ines Maria: Good morning!", "Ines Maria"),
        ("Zoë: Good morning!\nAre you well?", "Zoë"),
        ("Bo: The crane.\nInes: Which crane?", ""),
        ("We said: the crane stays as it is.", ""),
        ("The crane was painted: twice.", ""),
        ("12: the answer", ""),
        ("https://example.org is down", ""),
    ],
)
def test_text_with_one_speaker_is_a_turn_of_that_speaker(text, speaker):
    _, cut = word(Memory("m", text[:20], text=text))
    (chunk,) = cut.chunks
    assert (chunk.name if chunk.kind == TURN else "") == speaker


def test_memory_with_facts_or_several_chunks_is_no_turn():
    for memory in (
        replace(OBSERVATION, text="Decision: we keep it."),
        Memory("m", "Notes", text="Bo: a\n\n" + "word " * 9_000),
    ):
        assert TURN not in {chunk.kind for chunk in word(memory)[1].chunks}


def test_every_piece_of_a_long_memory_has_its_title_and_date():
    story = "\n\n".join(
        f"# Part {number}\n\n" + "They went on and on. " * 200 for number in range(4)
    )
    _, cut = word(replace(OBSERVATION, text=story))
    assert len(cut.chunks) > 3
    assert all(chunk.qualified.startswith(OBSERVATION.title) for chunk in cut.chunks)
    assert all("May 2026" in chunk.doc for chunk in cut.chunks)
    assert f"{OBSERVATION.title} > Part 2" in {chunk.qualified for chunk in cut.chunks}


def test_date_is_spelt_out_beside_its_digits():
    assert spelt("2026-05-07") == "2026-05-07, 7 May 2026"
    assert [spelt(day) for day in ("", "soon", "2026-13-40")] == ["", "soon", "2026-13-40"]


def test_indexed_text_changes_only_with_the_content_of_a_memory():
    assert word(OBSERVATION) == word(
        replace(OBSERVATION, key="other", project="elsewhere", session="s")
    )
    changed = [
        replace(OBSERVATION, title="T"),
        replace(OBSERVATION, date=""),
        replace(OBSERVATION, facts=()),
        replace(OBSERVATION, text="x"),
    ]
    assert len({word(memory)[0] for memory in (OBSERVATION, *changed)}) == 5


@given(
    st.text(max_size=60),
    st.text(max_size=300),
    st.lists(st.text(max_size=40), max_size=3),
    st.text(max_size=12),
)
def test_chunks_of_any_memory_lie_within_its_text(title, text, facts, day):
    _, cut = word(Memory("m", title, text=text, facts=tuple(facts), date=day))
    for chunk in cut.chunks:
        assert 0 <= chunk.start <= chunk.end <= len(cut.text)
