from cortex.search.parse import parse
from cortex.search.rank import Candidate, rank
from cortex.store import Place
from cortex.text import role_of
from cortex.types import Chunk, Doc

ids = iter(range(1, 10_000))


def make_candidate(path: str, *, words: float = 0.5, doc: int = 0, defines: float = 0.0, line: int = 1) -> Candidate:
    chunk = Chunk(0, 0, 10, line, line + 5, "function", "take", "Lease.take")
    number = next(ids)
    return Candidate(
        Place(Doc(doc or number, 1, path, number, 10, 0, "python", role_of(path)), number, chunk),
        words,
        defines=defines,
    )


def order(candidates: list[Candidate], query: str) -> list[str]:
    return [candidate.place.doc.path for candidate in rank(candidates, parse(query))]


def test_a_definition_comes_before_a_better_word_match():
    found = order([make_candidate("a.py", words=1.0), make_candidate("b.py", words=0.3, defines=1.0)], "take")
    assert found == ["b.py", "a.py"]


def test_the_code_comes_before_its_test():
    assert (
        order([make_candidate("tests/test_x.py", words=0.6), make_candidate("src/y.py", words=0.5)], "the thing")[0]
        == "src/y.py"
    )


def test_a_query_for_tests_lifts_their_demotion():
    candidates = [make_candidate("tests/test_x.py", words=0.9), make_candidate("src/y.py", words=0.5)]
    assert order(candidates, "tests of the thing")[0] == "tests/test_x.py"


def test_a_file_named_like_the_question_is_preferred():
    candidates = [make_candidate("src/other.py", words=0.6), make_candidate("src/lease.py", words=0.5)]
    assert order(candidates, "where is the lease")[0] == "src/lease.py"


def test_repeats_of_a_file_fall_behind_but_stay():
    candidates = [make_candidate("a.py", doc=1, words=1 - n / 100, line=n * 10 + 1) for n in range(4)]
    candidates.append(make_candidate("b.py", words=0.8))
    found = order(candidates, "anything else")
    assert found[:2] == ["a.py", "b.py"]
    assert found.count("a.py") == 4


def test_ties_are_broken_by_path_and_line_whatever_the_input_order():
    make = [("b.py", 1), ("a.py", 30), ("a.py", 3)]
    one = [make_candidate(path, doc=hash(path) % 1000 + 20_000, line=line) for path, line in make]
    assert [c.place.doc.path for c in rank(list(one), parse("zzz"))] == [
        c.place.doc.path for c in rank(one[::-1], parse("zzz"))
    ]
