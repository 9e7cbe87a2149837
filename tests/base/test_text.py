"""Words, token budgets, hashes, roles of paths and the size of JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.text import (
    cut_to_tokens,
    estimate_tokens,
    hash_bytes,
    holds_more,
    role_of,
    split_identifier,
    words_of,
)


def test_identifier_gives_the_whole_word_and_its_parts():
    assert words_of("parseHTTPConfig") == ["parsehttpconfig", "parse", "http", "config"]
    assert words_of("get_user_name") == ["getusername", "get", "user", "name"]
    assert words_of("utf8 v2") == ["utf8", "utf", "8", "v2", "v", "2"]


def test_plain_word_is_given_once():
    assert words_of("Lease") == ["lease"]
    assert words_of("__init__") == ["init"]


def test_words_of_other_alphabets_stay_whole():
    assert words_of("straße größe_über") == ["straße", "größeüber", "größe", "über"]


def test_language_without_spaces_is_split_into_character_pairs():
    words = words_of("検索エンジン")
    assert {"検索", "エン", "ジン", "検"} <= set(words)


def test_very_long_run_of_characters_is_no_word():
    assert words_of("a" * 200 + " b") == ["b"]


@given(st.text(max_size=300))
def test_ascii_fast_path_gives_the_same_words(text: str):
    assert words_of(text + "é") == [*words_of(text), "é"] or text[-1:].isalnum() or text[-1:] == "_"


@given(st.text(max_size=60))
def test_identifier_parts_are_stable_and_lower_case(word: str):
    assert split_identifier(word) == split_identifier(word)
    assert all(part == part.lower() for part in split_identifier(word) if part.isascii())


@given(st.text(max_size=2_000), st.integers(min_value=0, max_value=300))
def test_cut_text_is_a_prefix_within_its_token_budget(text: str, tokens: int):
    cut = cut_to_tokens(text, tokens)
    assert estimate_tokens(cut) <= tokens
    assert text.startswith(cut)


def test_cut_text_ends_at_a_whole_line_if_possible():
    assert cut_to_tokens("first line\nsecond line\nthird", 6) == "first line\nsecond line"


def test_hash_depends_on_the_boundaries_of_its_parts():
    assert hash_bytes(b"ab", b"c") != hash_bytes(b"a", b"bc")


def test_role_follows_from_the_path():
    roles = {
        "src/engine.py": "",
        "tests/engine/test_engine.py": "test",
        "pkg/server_test.go": "test",
        "src/test/java/FooTest.java": "test",
        "web/button.spec.ts": "test",
        "examples/demo.py": "example",
        "vendor/lib/x.c": "vendored",
        "api/user_pb2.py": "generated",
        "app/locale/de/LC_MESSAGES/django.po": "locale",
        "docs/guide.md": "docs",
        "README.md": "docs",
        "src/contest/latest.py": "",
    }
    assert {path: role_of(path) for path in roles} == roles


JSON_VALUES = st.recursive(
    st.none() | st.integers() | st.text('ab,[{]}"\\\n', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text('a,[{"\\', max_size=4), inner, max_size=5)
    ),
    max_leaves=30,
)


def count_marks(value: object, marks: str) -> int:
    """The number of these marks in a value's JSON, outside of strings."""
    if not isinstance(value, list | dict):
        return 0
    inner = list(value.values()) if isinstance(value, dict) else value
    commas = max(0, len(value) - 1) if "," in marks else 0
    return 1 + commas + sum(count_marks(item, marks) for item in inner)


@given(JSON_VALUES, st.sampled_from(["[{,", "[{"]), st.booleans())
def test_json_items_are_counted_without_marks_inside_strings(
    value: object, marks: str, plain: bool
):
    count, body = count_marks(value, marks), json.dumps(value, ensure_ascii=plain).encode()
    assert not holds_more(body, count, marks.encode())
    assert count == 0 or holds_more(body, count - 1, marks.encode())


@given(st.binary(max_size=40), st.integers(0, 5))
def test_count_in_invalid_json_never_exceeds_its_marks(body: bytes, most: int):
    assert not holds_more(body, most) or sum(body.count(mark) for mark in b"[{,") > most


@pytest.mark.parametrize("end", [b'"]', b'"', b"", b"\\", b'\\"'])
def test_string_of_marks_counts_as_one_value_even_unterminated(end: bytes):
    assert not holds_more(b'["' + b",[{" * 300_000 + end, 1)
