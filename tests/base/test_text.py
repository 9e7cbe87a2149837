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


def test_identifiers_are_words_whole_and_in_parts():
    assert words_of("parseHTTPConfig") == ["parsehttpconfig", "parse", "http", "config"]
    assert words_of("get_user_name") == ["getusername", "get", "user", "name"]
    assert words_of("utf8 v2") == ["utf8", "utf", "8", "v2", "v", "2"]


def test_a_plain_word_is_itself_once():
    assert words_of("Lease") == ["lease"]
    assert words_of("__init__") == ["init"]


def test_words_of_other_alphabets_stay_whole():
    assert words_of("straße größe_über") == ["straße", "größeüber", "größe", "über"]


def test_languages_without_spaces_are_found_by_any_two_characters():
    words = words_of("検索エンジン")
    assert {"検索", "エン", "ジン", "検"} <= set(words)


def test_a_run_that_nobody_searches_for_is_no_word():
    assert words_of("a" * 200 + " b") == ["b"]


@given(st.text(max_size=300))
def test_the_fast_way_to_split_ascii_gives_the_same_words(text: str):
    assert words_of(text + "é") == [*words_of(text), "é"] or text[-1:].isalnum() or text[-1:] == "_"


@given(st.text(max_size=60))
def test_splitting_twice_changes_nothing(word: str):
    assert split_identifier(word) == split_identifier(word)
    assert all(part == part.lower() for part in split_identifier(word) if part.isascii())


@given(st.text(max_size=2_000), st.integers(min_value=0, max_value=300))
def test_a_cut_never_exceeds_its_budget_and_is_a_beginning(text: str, tokens: int):
    cut = cut_to_tokens(text, tokens)
    assert estimate_tokens(cut) <= tokens
    assert text.startswith(cut)


def test_a_cut_keeps_whole_lines_where_it_can():
    assert cut_to_tokens("first line\nsecond line\nthird", 6) == "first line\nsecond line"


def test_a_hash_tells_apart_where_its_parts_end():
    assert hash_bytes(b"ab", b"c") != hash_bytes(b"a", b"bc")


def test_roles_are_told_by_the_path():
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


TOLD = st.recursive(
    st.none() | st.integers() | st.text('ab,[{]}"\\\n', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text('a,[{"\\', max_size=4), inner, max_size=5)
    ),
    max_leaves=30,
)


def amount(told: object, marks: str) -> int:
    """How many of these marks stand between the texts of a value's JSON."""
    if not isinstance(told, list | dict):
        return 0
    inner = list(told.values()) if isinstance(told, dict) else told
    commas = max(0, len(told) - 1) if "," in marks else 0
    return 1 + commas + sum(amount(one, marks) for one in inner)


@given(TOLD, st.sampled_from(["[{,", "[{"]), st.booleans())
def test_what_json_holds_is_counted_without_what_stands_in_texts(
    told: object, marks: str, plain: bool
):
    count, body = amount(told, marks), json.dumps(told, ensure_ascii=plain).encode()
    assert not holds_more(body, count, marks.encode())
    assert count == 0 or holds_more(body, count - 1, marks.encode())


@given(st.binary(max_size=40), st.integers(0, 5))
def test_of_what_is_no_json_no_more_is_counted_than_there_is(body: bytes, most: int):
    assert not holds_more(body, most) or sum(body.count(mark) for mark in b"[{,") > most


@pytest.mark.parametrize("end", [b'"]', b'"', b"", b"\\", b'\\"'])
def test_a_text_of_marks_is_one_value_whether_it_ends_or_not(end: bytes):
    assert not holds_more(b'["' + b",[{" * 300_000 + end, 1)
