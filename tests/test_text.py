from hypothesis import given
from hypothesis import strategies as st

from cortex.text import cut_to_tokens, estimate_tokens, hash_bytes, role_of, split_identifier, words_of


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
        "tests/test_engine.py": "test",
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
