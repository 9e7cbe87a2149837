from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from cortex.base.settings import load
from cortex.engine.engine import Engine
from cortex.engine.search.features import Candidate
from cortex.engine.search.query_parser import parse
from cortex.engine.search.retrieval import find_by_words, weigh_words
from cortex.engine.store import SearchFilter, Store


def make_function(name: str, lines: int) -> str:
    """A function long enough to be a chunk of its own."""
    body = "".join(
        f"    value_{name}_{number} = {number} + compute(1)\n" for number in range(lines - 2)
    )
    return f"def {name}():\n{body}    return value\n"


FILES = {
    "src/app/main.py": make_function("first", 60) + make_function("second", 60),
    "src/json/JsonArray.java": "class JsonArray {\n  int size() { return 0; }\n}\n",
    "src/json/array_of.py": "def json_array():\n    return []\n",
    "lib/parser.py": "def parse_config(text):\n    return text\n",
    "lib/every.py": "def parse_every(texts):\n    return texts\n",
    "lib/user.py": "from parser import parse_config\n\nA = parse_config(1)\nB = parse_config(2)\n",
    "tests/app/main.py": "def first():\n    return 'tested'\n",
    "docs/json.md": "# Json\n\nA json array holds values; see first and parse_config.\n",
}
Find = Callable[..., list[Candidate]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, int]]:
    root = tmp_path_factory.mktemp("workspace")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    home = str(tmp_path_factory.mktemp("home"))
    with Engine(root, load(root, environment={"CORTEX_HOME": home})) as engine:
        engine.index()
        yield engine.store, engine.source.id


@pytest.fixture(scope="module")
def find(store: tuple[Store, int]) -> Find:
    opened, source = store

    def ask(text: str, **more: object) -> list[Candidate]:
        parsed, words = parse(text), opened.indexes.words()
        scope = SearchFilter((source,), **more)  # type: ignore[arg-type]
        with opened.reading():
            return list(
                find_by_words(opened, words, scope, parsed, weigh_words(words, parsed)).values()
            )

    return ask


def located(found: list[Candidate]) -> dict[tuple[str, int], float]:
    return {
        (candidate.place.doc.path, candidate.place.chunk.start_line): candidate.located
        for candidate in found
        if candidate.located
    }


def test_a_path_finds_the_first_chunk_of_its_file(find: Find):
    assert located(find("lib/parser.py")) == {("lib/parser.py", 1): 0.8}


def test_a_path_with_a_line_finds_the_chunk_at_that_line(find: Find):
    assert located(find("src/app/main.py:66")) == {("src/app/main.py", 61): 1.0}


def test_path_with_an_unknown_line_still_finds_the_file(find: Find):
    assert located(find("src/app/main.py:600")) == {("src/app/main.py", 1): 0.8}


def test_end_of_a_path_finds_every_file_with_that_end(find: Find):
    assert {path for path, _ in located(find("app/main.py"))} == {
        "src/app/main.py",
        "tests/app/main.py",
    }
    assert located(find("in.py")) == {}  # whole names only


def test_the_absolute_path_of_a_stack_trace_finds_its_file(find: Find):
    trace = 'Traceback (most recent call last):\n  File "/home/me/project/src/app/main.py", line 66, in second\nKeyError: 3'
    assert located(find(trace)) == {("src/app/main.py", 61): 1.0}


def test_windows_path_finds_its_file(find: Find):
    assert located(find("src\\app\\main.py:66")) == {("src/app/main.py", 61): 1.0}
    assert located(find("C:\\me\\project\\src\\app\\main.py:66")) == {("src/app/main.py", 61): 1.0}


def test_neighbouring_words_find_the_name_joined_from_them(find: Find):
    joined = {
        candidate.place.doc.path: (candidate.named, candidate.joins)
        for candidate in find("size of a json array")
        if candidate.joins
    }
    assert joined == {
        "src/json/JsonArray.java": ("JsonArray", 1.0),
        "src/json/array_of.py": ("json_array", 1.0),
    }


def test_unknown_name_finds_names_with_that_prefix_most_used_first(find: Find):
    defined = {
        candidate.named: candidate.defines for candidate in find("parse") if candidate.defines
    }
    assert set(defined) == {"parse_config", "parse_every"}
    assert defined["parse_config"] > defined["parse_every"]  # although the other one is shorter
    assert max(defined.values()) < 0.5
    assert find("par") and not [candidate for candidate in find("pa") if candidate.defines]


def test_known_name_finds_no_longer_names(find: Find):
    assert {candidate.named for candidate in find("first") if candidate.defines} == {"first"}


def test_name_is_found_whole_or_in_parts_with_its_coverage(find: Find):
    found = {candidate.place.doc.path: candidate.covers for candidate in find("parse config")}
    assert found["lib/parser.py"] == pytest.approx(1.0, abs=1e-4)
    assert all(0 <= covers < 1.0001 for covers in found.values())


QUERIES = {
    "words": "value return",
    "definition": "first",
    "beginning": "parse",
    "joined": "a json array",
    "place": "src/app/main.py:66",
    "trace": 'File "/x/tests/app/main.py", line 1, in first',
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_every_retriever_keeps_to_the_extensions(find: Find, query: str):
    assert {candidate.place.doc.path for candidate in find(query, extensions=("md",))} <= {
        "docs/json.md"
    }


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_every_retriever_keeps_to_the_languages(find: Find, query: str):
    found = find(query, languages=("java",))
    assert {candidate.place.doc.language for candidate in found} <= {"java"}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_every_retriever_keeps_to_the_folder(find: Find, store: tuple[Store, int], query: str):
    opened, source = store
    with opened.reading():
        docs = frozenset(doc.id for doc in opened.content.docs(source, "lib"))
    assert {candidate.place.doc.path for candidate in find(query, docs=docs)} <= {
        "lib/parser.py",
        "lib/every.py",
        "lib/user.py",
    }


def test_every_retriever_finds_something_in_the_sample(find: Find):
    ways = {
        "words": lambda candidate: candidate.words,
        "definition": lambda candidate: candidate.defines,
        "beginning": lambda candidate: candidate.defines,
        "joined": lambda candidate: candidate.joins,
        "place": lambda candidate: candidate.located,
        "trace": lambda candidate: candidate.located,
    }
    assert [name for name, query in QUERIES.items() if not any(map(ways[name], find(query)))] == []


def test_names_and_locations_are_found_without_a_lexical_index(store: tuple[Store, int]):
    opened, source = store
    assert weigh_words(None, parse("first")) == {}
    for way in ("definition", "beginning", "joined", "place"):
        assert find_by_words(opened, None, SearchFilter((source,)), parse(QUERIES[way]), {}), way
    assert find_by_words(opened, None, SearchFilter((source,)), parse("of"), {}) == {}


def test_a_rare_word_is_worth_more_than_a_common_one(store: tuple[Store, int]):
    word_weights = weigh_words(store[0].indexes.words(), parse("return tested"))
    assert word_weights["tested"] > word_weights["return"] > 0


def test_words_with_a_weight_rounded_to_zero_still_find_their_chunks(store: tuple[Store, int]):
    """The weight is that of a word in every row of twenty thousand."""
    opened, source = store
    words, parsed = opened.indexes.words(), replace(parse("json"), weights={"json": 1e-9})
    with opened.reading():
        found = find_by_words(
            opened, words, SearchFilter((source,)), parsed, weigh_words(words, parsed)
        )
    assert "docs/json.md" in {candidate.place.doc.path for candidate in found.values()}
    assert not any(candidate.words for candidate in found.values())
