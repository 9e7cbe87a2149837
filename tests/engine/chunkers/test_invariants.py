"""Invariants of chunks for every text, language and size."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.engine.chunkers import cut
from cortex.engine.chunkers.grammars import RULES

FRAGMENTS = [
    "import os",
    "",
    "   ",
    "# a comment é",
    "// another 🎉",
    "/* open",
    "*/",
    "def f(a, b):",
    "    return a + b",
    "class A {",
    "class B(C):",
    "}",
    "  void m(int x) { return; }",
    "fn g() -> i32 { 1 }",
    "@decorator",
    "const X = () => 1;",
    '"""',
    "'unterminated",
    "```python",
    "```",
    "# Heading",
    "## Sub heading",
    "Title",
    "=====",
    "---",
    "word " * 60,
    "x" * 900,
    "\tif (a) {",
    "end",
    "\r",
    "line\r",
    "\x0c",
    "a\u2028b",
    "<?php",
    "module M where",
    "end.",
    "CREATE TABLE t (a int);",
]
LANGUAGES = [*sorted(RULES), "markdown", "text", "json"]


def check(text: str, language: str, target: int, overlap: int = 0) -> None:
    result = cut(text, "x", language, target, overlap)
    assert result.text == text
    assert [chunk.ordinal for chunk in result.chunks] == list(range(len(result.chunks)))
    lines = text.split("\n")
    covered: set[int] = set()
    end = 0
    for chunk in result.chunks:
        assert 0 <= chunk.start < chunk.end <= len(text)
        assert overlap or chunk.start >= end
        end = chunk.end
        assert text.count("\n", 0, chunk.start) + 1 == chunk.start_line
        assert text.count("\n", 0, chunk.end) + 1 == chunk.end_line
        assert chunk.kind
        assert len(chunk.signature) <= 300
        assert len(chunk.doc) <= 200
        assert text[chunk.start : chunk.end].strip()
        covered.update(range(chunk.start, chunk.end))
    kept = "".join(text[index] for index in sorted(covered))
    assert "".join(kept.split()) == "".join(text.split())
    for symbol in result.symbols:
        assert symbol.name
        assert 1 <= symbol.start_line <= symbol.end_line <= len(lines)
    assert result == cut(text, "x", language, target, overlap)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(FRAGMENTS), max_size=60),
    st.sampled_from(LANGUAGES),
    st.sampled_from([16, 60, 250]),
)
def test_every_line_of_any_text_is_in_one_chunk(fragments, language, target):
    check("\n".join(fragments), language, target)


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=300), st.sampled_from(LANGUAGES))
def test_any_string_is_cut_into_chunks(text, language):
    check(text, language, 16)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=60), st.integers(0, 40))
def test_overlapping_chunks_still_cover_every_line(fragments, overlap):
    check("\n".join(fragments), "text", 60, overlap)


@pytest.mark.parametrize("language", LANGUAGES)
def test_long_broken_sources_of_every_language_are_covered(language):
    choose = random.Random(language)
    check("\n".join(choose.choice(FRAGMENTS) for _ in range(400)), language, 250)
    check("", language, 250)
    check("\n\n  \n", language, 250)
