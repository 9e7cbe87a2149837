"""Generated memories of the benchmarks: reproducible, of real lengths, readable."""

from __future__ import annotations

import sqlite3

import pytest
from bench.memories import generated, plain_sql, recall

from cortex.families.memory.adapters.claude_mem import open_database


@pytest.fixture(scope="module")
def memories():
    return list(generated.make(120, 7))


def test_generated_memories_are_the_same_for_the_same_seed(memories):
    assert list(generated.make(120, 7)) == memories
    assert list(generated.make(120, 8)) != memories


def test_generated_memories_have_the_lengths_of_real_ones(memories):
    memory = memories[0]
    assert len(memory.title.split()) == 9  # eight words and a number
    assert (len(memory.facts), len(memory.text.split())) == (4, 60)
    assert 1 <= len(memory.concepts) <= 5
    assert len({memory.session for memory in memories}) == 3
    assert [memory.created for memory in memories] == sorted(memory.created for memory in memories)


def test_generated_question_has_words_of_a_single_memory(memories):
    texts = [set(" ".join((memory.title, *memory.facts)).split()) for memory in memories]
    for question in generated.questions(40, memories, 7):
        words = question.split()
        assert 2 <= len(words) <= 8
        assert any(set(words) <= text for text in texts)


def test_generated_claude_mem_database_is_read_by_the_adapter(memories, tmp_path):
    path = tmp_path / "claude-mem.db"
    generated.make_claude_mem(path, 120, 7)
    with open_database(path) as opened:
        rows = opened.rows(limit=1000, ascending=True)
    assert [row.memory.title for row in rows] == [memory.title for memory in memories]
    assert [row.memory.facts for row in rows] == [memory.facts for memory in memories]
    assert [row.memory.session for row in rows] == [memory.session for memory in memories]
    assert not list(tmp_path.glob("*-wal"))


def test_plain_sql_and_fts5_find_a_generated_memory(memories, tmp_path):
    path = tmp_path / "claude-mem.db"
    generated.make_claude_mem(path, 120, 7)
    number = memories[50].title.split()[-1]
    connection = sqlite3.connect(path)
    assert memories[50].title in [title for _, title in plain_sql.ask_by_like(connection, number)]
    connection.close()
    copy = plain_sql.copy_with_words(path, tmp_path / "words.db")
    assert plain_sql.ask_by_match(copy, number)[0][1] == memories[50].title
    copy.close()


def test_right_file_counts_among_files_with_the_same_text():
    row = {"relevant": [{"file": "b.md"}]}
    assert recall.best_files(row, [["x.md"], ["a.md", "b.md"]]) == ["x.md", "b.md"]
