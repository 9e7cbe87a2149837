"""Memories that the benchmarks make up: the same each time, of the lengths of real ones, and
readable as what they pretend to be.
"""

from __future__ import annotations

import sqlite3

import pytest
from bench.memories import generated, plain_sql, recall

from cortex.families.memory.adapters.claude_mem import open_database


@pytest.fixture(scope="module")
def memories():
    return list(generated.make(120, 7))


def test_the_same_memories_are_made_each_time(memories):
    assert list(generated.make(120, 7)) == memories
    assert list(generated.make(120, 8)) != memories


def test_they_have_the_lengths_of_real_ones(memories):
    one = memories[0]
    assert len(one.title.split()) == 9  # eight words and a number
    assert (len(one.facts), len(one.text.split())) == (4, 60)
    assert 1 <= len(one.concepts) <= 5
    assert len({memory.session for memory in memories}) == 3
    assert [memory.created for memory in memories] == sorted(memory.created for memory in memories)


def test_a_question_is_made_of_words_that_one_memory_says(memories):
    said = [set(" ".join((memory.title, *memory.facts)).split()) for memory in memories]
    for question in generated.questions(40, memories, 7):
        words = question.split()
        assert 2 <= len(words) <= 8
        assert any(set(words) <= one for one in said)


def test_a_made_database_is_read_as_one_of_the_product(memories, tmp_path):
    path = tmp_path / "claude-mem.db"
    generated.make_claude_mem(path, 120, 7)
    with open_database(path) as opened:
        rows = opened.rows(limit=1000, ascending=True)
    assert [row.memory.title for row in rows] == [memory.title for memory in memories]
    assert [row.memory.facts for row in rows] == [memory.facts for memory in memories]
    assert [row.memory.session for row in rows] == [memory.session for memory in memories]
    assert not list(tmp_path.glob("*-wal"))


def test_the_other_ways_to_ask_find_what_is_there(memories, tmp_path):
    path = tmp_path / "claude-mem.db"
    generated.make_claude_mem(path, 120, 7)
    number = memories[50].title.split()[-1]
    connection = sqlite3.connect(path)
    assert memories[50].title in [title for _, title in plain_sql.ask_by_like(connection, number)]
    connection.close()
    copy = plain_sql.copy_with_words(path, tmp_path / "words.db")
    assert plain_sql.ask_by_match(copy, number)[0][1] == memories[50].title
    copy.close()


def test_of_files_that_say_the_same_the_right_one_counts():
    row = {"relevant": [{"file": "b.md"}]}
    assert recall.told(row, [["x.md"], ["a.md", "b.md"]]) == ["x.md", "b.md"]
