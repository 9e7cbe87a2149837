import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.engine.search.query_classes import QueryClass
from cortex.engine.search.query_parser import MAX_NAMES, MAX_PLACES, MAX_TERMS, parse


def test_one_name_is_a_symbol_query():
    parsed = parse("parseConfig")
    assert parsed.is_name
    assert parsed.classes == (QueryClass.SYMBOL,)
    assert parsed.names == ("parseConfig",)
    assert parsed.weights["parseconfig"] > parsed.weights["parse"]


def test_a_qualified_name_keeps_its_path():
    for text in ("Store.apply", "Store::apply", "Store#apply", "Store->apply"):
        parsed = parse(text)
        assert parsed.qualified == ("Store.apply",)
        assert parsed.names[0] == "apply"
        assert parsed.classes == (QueryClass.QUALIFIED,)


def test_a_sentence_loses_its_stop_words_but_keeps_its_names():
    parsed = parse("how does the Keeper call look_again?")
    assert not parsed.is_name
    assert "the" not in parsed.weights
    assert "look_again" in parsed.names


def test_a_query_of_stop_words_only_still_looks_for_them():
    assert set(parse("how is it").weights) == {"how", "is", "it"}


def test_words_about_tests_ask_for_tests():
    assert "test" in parse("unit tests of the lease").roles
    assert not parse("take the lease").roles


def test_code_snippet_has_no_names():
    parsed = parse("def take(self):\n    return self.held", code=True)
    assert parsed.names == ()
    assert not parsed.is_name
    assert parsed.joined == parsed.places == ()
    assert "held" in parsed.weights


def test_words_marked_as_code_are_names():
    assert "drain" in parse("who calls drain() at the end").names
    assert "held" in parse("why is `held` false").names
    assert parse("how are leases taken over").names == ()


def test_neighbouring_words_are_joined_into_names_between_stop_words():
    joined = parse("the json array of a type adapter").joined
    assert {"jsonarray", "json_array", "typeadapter", "type_adapter"} == set(joined)


def test_three_neighbouring_words_are_joined_into_a_name():
    assert "typeadapterfactory" in parse("type adapter factory").joined


def test_file_paths_are_locations_with_an_optional_line():
    cases = {
        "src/app/main.py": ("src/app/main.py", 0),
        "./src/app/main.py:12": ("src/app/main.py", 12),
        'File "src/app/main.py", line 12, in run': ("src/app/main.py", 12),
        "at run (src/app/main.js:12:7)": ("src/app/main.js", 12),
        "src\\app\\main.py:12": ("src/app/main.py", 12),
        "Main.java(12)": ("Main.java", 12),
        "notes.txt": ("notes.txt", 0),
    }
    assert {text: parse(text).places for text in cases} == {
        text: (place,) for text, place in cases.items()
    }


def test_qualified_name_is_no_location():
    assert parse("Store.apply").places == ()
    assert parse("e.g. version 3.11").places == ()


def test_quoted_texts_and_error_messages_are_phrases():
    assert parse('where is "out of time" said').phrases == (("out", "of", "time"),)
    assert parse("“out of time”").phrases == (("out", "of", "time"),)
    assert parse("ValueError: no such user").phrases == (("no", "such", "user"),)
    assert parse("the user's name isn't there").phrases == ()


def test_one_word_is_no_phrase():
    assert parse('the "lease"').phrases == ()


@given(st.text(max_size=3_000))
def test_any_text_is_parsed_within_bounds(text: str):
    parsed = parse(text)
    assert len(parsed.weights) <= MAX_TERMS
    assert all(weight > 0 for weight in parsed.weights.values())
    assert len(parsed.names) <= MAX_NAMES
    assert len(parsed.joined) <= MAX_NAMES
    assert len(parsed.places) <= MAX_PLACES
    assert parsed.classes


HOSTILE = (
    "a",
    "aError",
    "a/",
    "a-",
    "a_",
    "a.1",
    ".",
    "\n",
    "`a",
    "'a ",
    '"a',
    "panic ",
    "at a",
    "a(",
    "::",
    "a\\",
    "/a.py:1 ",
)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("piece", HOSTILE)
def test_repetitive_query_is_parsed_quickly(piece: str):
    parse((piece * 20_000)[:20_000])
