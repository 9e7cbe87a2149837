from hypothesis import given
from hypothesis import strategies as st

from cortex.search.parse import MAX_TERMS, parse


def test_one_name_is_a_symbol_query():
    parsed = parse("parseConfig")
    assert parsed.symbol
    assert parsed.names == ("parseConfig",)
    assert parsed.weights["parseconfig"] > parsed.weights["parse"]


def test_a_qualified_name_keeps_its_path():
    for text in ("Store.apply", "Store::apply", "Store#apply", "Store->apply"):
        parsed = parse(text)
        assert parsed.qualified == ("Store.apply",)
        assert parsed.names[0] == "apply"


def test_a_sentence_loses_its_stop_words_but_keeps_its_names():
    parsed = parse("how does the Keeper call look_again?")
    assert not parsed.symbol
    assert "the" not in parsed.weights
    assert "look_again" in parsed.names


def test_a_query_of_stop_words_only_still_looks_for_them():
    assert set(parse("how is it").weights) == {"how", "is", "it"}


def test_words_about_tests_ask_for_tests():
    assert "test" in parse("unit tests of the lease").roles
    assert not parse("take the lease").roles


def test_a_snippet_names_nothing():
    parsed = parse("def take(self):\n    return self.held", code=True)
    assert parsed.names == ()
    assert not parsed.symbol
    assert "held" in parsed.weights


@given(st.text(max_size=3_000))
def test_any_text_is_understood_within_bounds(text: str):
    parsed = parse(text)
    assert len(parsed.weights) <= MAX_TERMS
    assert all(weight > 0 for weight in parsed.weights.values())
