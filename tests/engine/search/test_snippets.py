import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cortex.base.types import Chunk, Doc
from cortex.engine.search.features import Candidate
from cortex.engine.search.snippets import MERGED_LINES, SnippetGroup, cut_snippet, merge, opening_of
from cortex.engine.store import ChunkLocation

MARK = re.compile(r"… \d+:")  # a line that says where the text goes on

FUNCTION = """\
# What comes before.
@cached
def take(self, name: str) -> bool:
    first = 1
    second = 2
    third = 3
    fourth = 4
    self.lock.hold(name)
    sixth = 6
    seventh = 7
    return True
""".split("\n")


def make_candidate(start: int, end: int, doc: int = 1) -> Candidate:
    doc_ = Doc(doc, 1, f"{doc}.py", doc, 10, 0, "python", "")
    return Candidate(ChunkLocation(doc_, start, Chunk(start, 0, 10, start, end, "function")), 0.5)


def ranges(groups: list[SnippetGroup]) -> list[tuple[int, int, int]]:
    return [(group.best.place.doc.id, group.start_line, group.end_line) for group in groups]


def test_neighbouring_chunks_are_one_hit_led_by_the_best():
    best, after, before = make_candidate(20, 30), make_candidate(32, 40), make_candidate(10, 19)
    (group,) = merge([best, after, before], 100)[0]
    assert group.best is best
    assert (group.start_line, group.end_line) == (10, 40)
    assert {id(chunk) for chunk in group.chunks} == {id(best), id(after), id(before)}


def test_distant_chunk_stays_a_hit_of_its_own():
    assert ranges(merge([make_candidate(1, 10), make_candidate(14, 20)], 100)[0]) == [
        (1, 1, 10),
        (1, 14, 20),
    ]


def test_chunks_of_different_files_are_not_joined():
    assert ranges(merge([make_candidate(1, 10, 1), make_candidate(11, 20, 2)], 100)[0]) == [
        (1, 1, 10),
        (2, 11, 20),
    ]


def test_joined_hit_is_at_most_a_screen_long():
    chunks = [make_candidate(start, start + 19) for start in (1, 21, 41, 61)]
    assert ranges(merge(chunks, 100)[0]) == [(1, 1, 60), (1, 61, 80)]


def test_a_long_chunk_alone_stays_whole():
    assert ranges(merge([make_candidate(1, 500), make_candidate(501, 502)], 100)[0]) == [
        (1, 1, 500),
        (1, 501, 502),
    ]


def test_hits_are_ordered_by_their_best_chunk():
    order = [
        make_candidate(50, 55),
        make_candidate(1, 5, 2),
        make_candidate(56, 60),
        make_candidate(1, 5),
    ]
    assert ranges(merge(order, 100)[0]) == [(1, 50, 60), (2, 1, 5), (1, 1, 5)]


spans = st.tuples(st.integers(1, 3), st.integers(1, 200), st.integers(0, 40))


@given(st.lists(spans, max_size=30, unique_by=lambda span: span[:2]))
def test_every_candidate_is_in_exactly_one_hit(found: list[tuple[int, int, int]]):
    candidates = [make_candidate(start, start + length, doc) for doc, start, length in found]
    groups, total = merge(candidates, 1000)
    assert total == len(groups)
    assert sorted(id(chunk) for group in groups for chunk in group.chunks) == sorted(
        map(id, candidates)
    )
    for group in groups:
        assert {candidate.place.doc.id for candidate in group.chunks} == {group.best.place.doc.id}
        assert group.start_line == min(
            candidate.place.chunk.start_line for candidate in group.chunks
        )
        assert group.end_line == max(candidate.place.chunk.end_line for candidate in group.chunks)
        assert len(group.chunks) == 1 or group.end_line - group.start_line < MERGED_LINES
    ranks = [candidates.index(group.best) for group in groups]
    assert ranks == sorted(ranks)


def test_a_snippet_shows_the_declaration_and_the_lines_that_matter():
    text, numbers = cut_snippet(FUNCTION, 101, {"lock": 3.0, "hold": 2.0}, 103, 90)
    lines = text.split("\n")
    assert lines[:2] == ["… 103:", "def take(self, name: str) -> bool:"]
    assert lines[2] == "… 108:"
    assert lines[3] == "    self.lock.hold(name)"
    assert numbers[:2] == (103, 108)


def test_consecutive_lines_have_no_gap_mark_between_them():
    text, numbers = cut_snippet(FUNCTION, 1, {"cached": 1.0}, 2, 90)
    assert text.split("\n")[0] == "… 2:"
    assert text.count("…") == 1
    assert numbers == tuple(range(2, 2 + len(numbers)))


def test_snippet_without_query_words_is_the_beginning():
    _, numbers = cut_snippet(FUNCTION, 1, {}, 3, 120)
    assert numbers[:3] == (3, 4, 5)


def test_very_long_line_is_cut_around_the_query_word():
    line = "x" * 5_000 + " needle " + "y" * 5_000
    text, numbers = cut_snippet([line], 7, {"needle": 1.0}, 7, 200)
    assert "needle" in text
    assert len(text) <= 200
    assert numbers == (7,)


def test_long_line_below_a_declaration_is_cut_around_the_query_word():
    text, numbers = cut_snippet(
        ["def f():", "x" * 900 + " needle " + "y" * 900], 1, {"needle": 1.0}, 1, 200
    )
    assert text.startswith("def f():\n")
    assert "needle" in text
    assert len(text) <= 200
    assert numbers == (1, 2)


def test_a_snippet_ends_with_words_not_with_brackets():
    lines = ["function f() {", "  needle()", "}", "", "}"]
    text, _ = cut_snippet([*lines, *["    other()"] * 30], 1, {"needle": 1.0}, 1, 70)
    assert not text.endswith(("}", "\n"))


texts = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\n\r…"), max_size=90),
    min_size=1,
    max_size=40,
)


@given(texts, st.integers(1, 100_000), st.integers(0, 45), st.integers(20, 600))
@example(["def f():", "needle " + "x" * 900], 1, 0, 200)
def test_snippet_keeps_to_its_size_and_quotes_lines_of_the_file(
    lines: list[str], first: int, at: int, size: int
):
    text, numbers = cut_snippet(lines, first, {"needle": 1.0, "a": 0.5, "0": 0.2}, first + at, size)
    shown = text.split("\n")
    marks = [line for line in shown if MARK.fullmatch(line)]
    assert len(text) <= size + sum(len(mark) + 1 for mark in marks)
    assert len(shown) - len(marks) == len(numbers)
    assert list(numbers) == sorted(set(numbers))
    number = first - 1
    rest = iter(numbers)
    for line in shown:
        if MARK.fullmatch(line):
            number = int(re.sub(r"\D", "", line)) - 1
            continue
        number += 1
        assert number == next(rest)
        whole = lines[number - first]
        assert line == whole.rstrip() or (len(whole) > len(line) and line.strip() in whole)


@pytest.mark.parametrize(
    ("signature", "start_line", "opening"),
    [
        ("def take(self, name: str) -> bool", 101, 103),
        # The first line of the declaration
        ("def take(\n    self, name: str\n) -> bool", 101, 103),
        ("", 101, 101),
        ("def gone()", 104, 104),
    ],
)
def test_opening_line_is_the_declaration(signature: str, start_line: int, opening: int):
    assert opening_of(FUNCTION, 101, start_line, signature) == opening


def test_blank_lines_and_brackets_open_nothing():
    assert opening_of(["", "{", "value = 1"], 5, 5, "") == 7
    assert opening_of(["", ""], 5, 5, "") == 5
