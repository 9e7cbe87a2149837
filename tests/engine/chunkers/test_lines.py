"""Chunks of plain lines."""

from itertools import pairwise

from cortex.engine.chunkers import cut


def texts_of(text: str, target: int, overlap: int = 0) -> list[str]:
    return [text[c.start : c.end] for c in cut(text, "x.txt", "text", target, overlap).chunks]


def test_chunk_takes_lines_until_the_next_would_pass_the_target():
    text = "\n".join(f"line {n:02} of thirty characters.." for n in range(20))
    found = texts_of(text, 25)
    assert all(len(part) <= 100 for part in found)
    assert "\n".join(found) == text
    assert len(found) == 7


def test_blank_lines_cost_nothing_and_never_begin_or_end_a_chunk():
    assert texts_of("\n\na\n\n\n\n\nb\n\n", 16) == ["a\n\n\n\n\nb"]


def test_a_long_line_is_split_and_not_shortened():
    text = "short\n" + "x" * 250 + "\nend"
    assert texts_of(text, 25) == ["short", "x" * 100, "x" * 100, "x" * 50, "end"]


def test_lines_without_a_word_are_kept():
    assert texts_of("{\n}\n;", 16) == ["{\n}\n;"]


def test_chunks_repeat_as_many_lines_as_the_overlap_allows():
    text = "\n".join(f"line {n:02} ..........." for n in range(12))
    found = texts_of(text, 25, 10)
    for before, after in pairwise(found):
        assert before.split("\n")[-2:] == after.split("\n")[:2]
