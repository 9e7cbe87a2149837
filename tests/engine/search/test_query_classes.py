from dataclasses import astuple

import pytest

from cortex.engine.search.query_classes import Corpus, QueryClass
from cortex.engine.search.query_parser import parse
from cortex.engine.search.weights import WEIGHTS, weights_of

TRACE = 'Traceback (most recent call last):\n  File "src/app.py", line 7, in run\n    take()\nKeyError: 3'
QUERIES: dict[QueryClass, tuple[str, ...]] = {
    QueryClass.PHRASE: (
        "lease take over",
        "Request lifespan and shutdown hooks",
        "retry with backoff",
    ),
    QueryClass.SYMBOL: ("parseConfig", "lease", "MAX_TERMS", "drop!", "__init__"),
    QueryClass.QUALIFIED: (
        "Store.apply",
        "std::fs::read",
        "Store#apply",
        "App\\Models\\User",
        "this->run",
    ),
    QueryClass.PATH: ("src/app/main.py", "main.py:12", "src\\app\\main.ts", "the Cargo.toml"),
    QueryClass.QUOTED: ('"out of time"', "who says 'no such user' here", "“nothing to do”"),
    QueryClass.ERROR: (
        "ValueError: no such user",
        TRACE,
        "TypeError: x is not a function\n    at run (src/app.js:12:7)",
        "error: cannot find module",
        "thread 'main' panicked at src/main.rs:3: index out of bounds",
    ),
    QueryClass.QUESTION: (
        "where is the lease taken",
        "how does the store recover from a crash",
        "Which file is written first?",
        "what happens to a damaged store?",
        "can a server run twice",
    ),
    QueryClass.ARCHITECTURE: (
        "architecture of the engine",
        "entry points",
        "data flow from scan to index",
        "request lifecycle",
        "high-level overview",
    ),
    QueryClass.TESTS: ("tests of the lease", "lease spec", "fixtures for a store"),
    QueryClass.DOCS: ("documentation of settings", "changelog", "installation guide"),
}


@pytest.mark.parametrize(
    ("wanted", "text"),
    [(query_class, text) for query_class, texts in QUERIES.items() for text in texts],
    ids=lambda value: value[:30],
)
def test_query_class_is_recognised(wanted: QueryClass, text: str):
    assert wanted in parse(text).classes


def test_query_marked_as_code_is_a_snippet_only():
    for code in ("def take(self):\n    return 1", 'raise ValueError("no such user")', "src/app.py"):
        assert parse(code, code=True).classes == (QueryClass.SNIPPET,)


def test_every_query_class_has_sample_queries():
    assert {*QUERIES, QueryClass.SNIPPET} == set(QueryClass) == set(WEIGHTS)


def test_name_that_ends_like_a_question_is_no_question():
    assert parse("empty?").classes == (QueryClass.SYMBOL,)


def test_how_x_works_is_a_topic_and_how_does_x_work_a_question():
    assert parse("How the server handles requests and how it does so in order").classes == (
        QueryClass.PHRASE,
    )
    assert parse("How does the server handle requests").classes == (QueryClass.QUESTION,)


def test_error_text_with_a_question_mark_is_no_question():
    assert QueryClass.QUESTION not in parse("error: did you mean x?").classes


def test_query_can_be_of_several_classes():
    assert set(parse("how are the tests of the architecture organised?").classes) == {
        QueryClass.ARCHITECTURE,
        QueryClass.TESTS,
        QueryClass.QUESTION,
    }


def test_weights_of_a_mixed_query_are_the_mean_of_its_classes():
    one, two = WEIGHTS[QueryClass.QUOTED], WEIGHTS[QueryClass.ARCHITECTURE]
    mixed = weights_of((QueryClass.QUOTED, QueryClass.ARCHITECTURE))
    assert astuple(mixed) == pytest.approx(
        [(a + b) / 2 for a, b in zip(astuple(one), astuple(two), strict=True)]
    )


@pytest.mark.parametrize("query_class", list(QueryClass))
def test_query_of_one_class_has_the_weights_of_that_class(query_class: QueryClass):
    assert weights_of((query_class,)) == WEIGHTS[query_class]


def test_weights_are_never_negative_and_repeats_never_gain():
    for weights in WEIGHTS.values():
        assert min(astuple(weights)) >= 0
        assert 0 < weights.repeat <= 1


def test_in_documents_a_files_name_and_its_length_count_less_than_in_code():
    for query_class in QueryClass:
        code, documents = weights_of((query_class,)), weights_of((query_class,), Corpus.DOCUMENTS)
        assert documents.coherence == 0
        assert documents.repeat >= code.repeat
        assert documents.path <= code.path
        assert documents.stem <= code.stem
