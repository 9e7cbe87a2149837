"""Memories that the benchmarks make up: the same each time, of the lengths of real ones, and
readable as what they pretend to be.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from cortex.families.memory.adapters.claude_mem import open_database

BENCH = Path(__file__).resolve().parent.parent.parent / "bench"


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        yield SimpleNamespace(
            made=importlib.import_module("memories_made"),
            peers=importlib.import_module("memories_peers"),
            recall=importlib.import_module("recall"),
        )


@pytest.fixture(scope="module")
def memories(bench):
    return list(bench.made.make(120, 7))


def test_the_same_memories_are_made_each_time(bench, memories):
    assert list(bench.made.make(120, 7)) == memories
    assert list(bench.made.make(120, 8)) != memories


def test_they_have_the_lengths_of_real_ones(memories):
    one = memories[0]
    assert len(one.title.split()) == 9  # eight words and a number
    assert (len(one.facts), len(one.text.split())) == (4, 60)
    assert 1 <= len(one.concepts) <= 5
    assert len({memory.session for memory in memories}) == 3
    assert [memory.created for memory in memories] == sorted(memory.created for memory in memories)


def test_a_question_is_made_of_words_that_one_memory_says(bench, memories):
    said = [set(" ".join((memory.title, *memory.facts)).split()) for memory in memories]
    for question in bench.made.questions(40, memories, 7):
        words = question.split()
        assert 2 <= len(words) <= 8
        assert any(set(words) <= one for one in said)


def test_a_made_database_is_read_as_one_of_the_product(bench, memories, tmp_path):
    path = tmp_path / "claude-mem.db"
    bench.made.make_claude_mem(path, 120, 7)
    with open_database(path) as opened:
        rows = opened.rows(limit=1000, ascending=True)
    assert [row.memory.title for row in rows] == [memory.title for memory in memories]
    assert [row.memory.facts for row in rows] == [memory.facts for memory in memories]
    assert [row.memory.session for row in rows] == [memory.session for memory in memories]
    assert not list(tmp_path.glob("*-wal"))


def test_the_other_ways_to_ask_find_what_is_there(bench, memories, tmp_path):
    path = tmp_path / "claude-mem.db"
    bench.made.make_claude_mem(path, 120, 7)
    number = memories[50].title.split()[-1]
    connection = sqlite3.connect(path)
    assert memories[50].title in [title for _, title in bench.peers.ask_by_like(connection, number)]
    connection.close()
    copy = bench.peers.copy_with_words(path, tmp_path / "words.db")
    assert bench.peers.ask_by_match(copy, number)[0][1] == memories[50].title
    copy.close()


def test_of_files_that_say_the_same_the_right_one_counts(bench):
    row = {"relevant": [{"file": "b.md"}]}
    assert bench.recall.told(row, [["x.md"], ["a.md", "b.md"]]) == ["x.md", "b.md"]
