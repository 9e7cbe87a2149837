"""Sensible values from anything in another product's columns."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.families.memory.adapters import coerce
from cortex.families.memory.adapters.coerce import (
    day,
    entries,
    first_line,
    line,
    milliseconds,
    text,
)

ANYTHING = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.binary(max_size=60),
    st.text(max_size=60),
    st.recursive(
        st.none() | st.text(max_size=8) | st.integers() | st.floats(), st.lists, max_leaves=8
    ).map(json.dumps),
)


@pytest.mark.parametrize(
    ("stored", "separator", "read"),
    [
        ('["a", "b", "a", "", " c "]', ",", ("a", "b", "c")),
        ('["a", null, 7, true, ["x"], {"y": 1}]', ",", ("a", "7")),
        ('["whole", "al', ",", ("whole",)),
        ("[broken", ",", ()),
        ("gotcha, how-it-works ,", ",", ("gotcha", "how-it-works")),
        ("One, with a comma\nTwo", "\n", ("One, with a comma", "Two")),
        ('"quoted" is how it must be', "\n", ('"quoted" is how it must be',)),
        ('"a, b"', ",", ("a", "b")),
        ('{"a": 1}', ",", ()),
        ("null", ",", ()),
        ("", ",", ()),
        (None, ",", ()),
        (7, ",", ()),
        (b'["bytes \xff"]', ",", ("bytes \ufffd",)),
        ("[" * 100_000, ",", ()),
        (r'["lone \ud800 half", "nul \u0000"]', ",", ("lone ? half", "nul")),
    ],
)
def test_lists_are_read_in_any_form(stored, separator, read):
    assert entries(stored, separator) == read


def test_lists_and_texts_are_cut_to_their_limits():
    assert (
        len(entries(json.dumps([str(number) for number in range(1000)]), ",")) == coerce.MAX_ENTRIES
    )
    assert len(entries(json.dumps(["x" * 30_000]), ",")[0]) == coerce.MAX_CHARACTERS
    assert len(entries("[" + '"longer than can be", ' * 100_000, ",")) == 1
    assert len(text("x" * 30_000)) == coerce.MAX_CHARACTERS


@pytest.mark.parametrize(
    ("stored", "moment"),
    [
        (1794768337534, 1794768337534),
        (1794768337, 1794768337000),
        (1794768337534123, 1794768337534),
        (1794768337.5, 1794768337500),
        ("1794768337534", 1794768337534),
        ("2026-11-15T18:45:37.534Z", 1794768337534),
        ("2026-11-15 18:45:37", 1794768337000),
        ("2026-11-15", 1794700800000),
        (None, 0),
        ("yesterday", 0),
        (-5, 0),
        (float("inf"), 0),
        ("nan", 0),
        (b"\xff", 0),
    ],
)
def test_moments_are_read_in_any_unit(stored, moment):
    assert milliseconds(stored) == moment
    assert milliseconds(None, "no", stored, 5) == (moment or 5000)


@given(ANYTHING)
def test_any_value_gives_clean_text_entries_and_moment(stored):
    assert "\0" not in text(stored) and text(stored).encode("utf-8") is not None
    assert "\n" not in line(stored)
    for separator in (",", "\n"):
        found = entries(stored, separator)
        assert len(set(found)) == len(found) and all(
            entry and entry == entry.strip() for entry in found
        )
    moment = milliseconds(stored)
    assert moment >= 0 and len(day(moment)) == (10 if moment else 0)


@given(st.text(max_size=300), st.integers(5, 50))
def test_first_line_is_a_single_line_within_the_limit(whole, limit):
    found = first_line(whole, limit)
    assert len(found) <= limit and "\n" not in found


def test_first_line_loses_its_markdown_marks():
    assert first_line("\n  ## Why it  failed\nmore") == "Why it failed"
    assert first_line("word " * 100, 11) == "word word…"
