from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.text import role_of
from cortex.base.types import Chunk, Doc
from cortex.engine.search.query_classes import QueryClass
from cortex.engine.search.query_parser import parse
from cortex.engine.search.ranker import DAY_NS, Candidate, explain, rank, why
from cortex.engine.search.weights import WEIGHTS, weights_of
from cortex.engine.store import ChunkLocation

PHRASE = WEIGHTS[QueryClass.PHRASE]
ids = iter(range(1, 100_000))


def make_candidate(
    file: str, *, words: float = 0.5, doc: int = 0, line: int = 1, mtime_ns: int = 0, **more: float
) -> Candidate:
    chunk = Chunk(0, 0, 10, line, line + 5, "function", "take", "Lease.take")
    number = next(ids)
    place = ChunkLocation(
        Doc(doc or number, 1, file, number, 10, mtime_ns, "python", role_of(file)), number, chunk
    )
    return Candidate(place, words, **more)  # type: ignore[arg-type]


def no_words(place: ChunkLocation) -> list[str]:
    return []


def order(candidates: list[Candidate], query: str) -> list[str]:
    return [candidate.place.doc.path for candidate in rank(candidates, parse(query), no_words, {})]


def test_a_definition_comes_before_a_better_word_match():
    found = order(
        [make_candidate("a.py", words=1.0), make_candidate("b.py", words=0.3, defines=1.0)], "take"
    )
    assert found == ["b.py", "a.py"]


def test_code_comes_before_its_test():
    assert (
        order(
            [make_candidate("tests/test_x.py", words=0.6), make_candidate("src/y.py", words=0.5)],
            "the thing",
        )[0]
        == "src/y.py"
    )


def test_a_query_for_tests_lifts_their_demotion():
    candidates = [
        make_candidate("tests/test_x.py", words=0.9),
        make_candidate("src/y.py", words=0.5),
    ]
    assert order(candidates, "tests of the thing")[0] == "tests/test_x.py"


def test_a_file_named_like_the_question_is_preferred():
    candidates = [
        make_candidate("src/other.py", words=0.6),
        make_candidate("src/lease.py", words=0.5),
    ]
    assert order(candidates, "where is the lease")[0] == "src/lease.py"


def test_chunk_with_all_query_words_comes_before_one_with_half():
    candidates = [
        make_candidate("a.py", words=0.6, covers=0.5),
        make_candidate("b.py", words=0.5, covers=1.0),
    ]
    assert order(candidates, "some thing else")[0] == "b.py"


def test_location_named_in_the_query_comes_first():
    candidates = [
        make_candidate("a.py", words=1.0, covers=1.0),
        make_candidate("b.py", words=0.0, located=1.0),
    ]
    assert order(candidates, "what fails in b.py:3")[0] == "b.py"


def test_architecture_query_prefers_entry_points():
    for query, first in (("architecture", "lib/main.py"), ("something about it", "lib/store.py")):
        candidates = [
            make_candidate("lib/store.py", words=0.52),
            make_candidate("lib/main.py", words=0.5),
        ]
        assert order(candidates, query)[0] == first


def test_chunk_with_the_words_of_a_message_in_order_comes_first():
    said = make_candidate("b.py", words=0.3)
    candidates = [make_candidate("a.py", words=1.0), said]
    ranked = rank(
        candidates,
        parse("ValueError: no such user"),
        lambda place: ["no", "such", "user"] if place is said.place else [],
        {},
    )
    assert ranked[0] is said
    assert why(said, parse("ValueError: no such user")) == "phrase"


def test_phrases_are_looked_for_in_the_best_candidates_only():
    seen: list[ChunkLocation] = []
    candidates = [make_candidate(f"{number}.py", words=number / 300) for number in range(200)]
    rank(candidates, parse('"no such user"'), lambda place: seen.append(place) or [], {})
    assert len(seen) == 50
    assert {place.doc.path for place in seen} == {f"{number}.py" for number in range(150, 200)}


def test_no_text_is_read_without_a_phrase_in_the_query():
    def never(place: ChunkLocation) -> list[str]:
        raise AssertionError(place)

    assert rank([make_candidate("a.py")], parse("take the lease"), never, {})


def test_repeated_hits_of_a_file_fall_behind_but_stay():
    candidates = [
        make_candidate("a.py", doc=1, words=1 - n / 100, line=n * 10 + 1) for n in range(4)
    ]
    candidates.append(make_candidate("b.py", words=0.8))
    found = order(candidates, "anything else")
    assert found[:2] == ["a.py", "b.py"]
    assert found.count("a.py") == 4


def test_question_keeps_several_hits_of_a_file_in_front():
    candidates = [
        make_candidate("a.py", doc=1, words=1 - n / 100, line=n * 10 + 1) for n in range(4)
    ]
    candidates.append(make_candidate("b.py", words=0.8))
    assert order(candidates, "where is anything done?")[:4] == ["a.py"] * 4


def test_ties_are_broken_by_path_and_line():
    make = [("b.py", 1), ("a.py", 30), ("a.py", 3)]
    for some in (make, make[::-1]):
        candidates = [
            make_candidate(path, doc=ord(path[0]) + 20_000, line=line) for path, line in some
        ]
        ranked = rank(candidates, parse("zzz"), no_words, {})
        assert [
            (candidate.place.doc.path, candidate.place.chunk.start_line) for candidate in ranked
        ] == [("a.py", 3), ("b.py", 1), ("a.py", 30)]


def test_equal_hits_are_ordered_by_the_latest_commit():
    candidates = [
        make_candidate("a.py", mtime_ns=5 * DAY_NS),
        make_candidate("n.py"),
        make_candidate("z.py"),
    ]
    ranked = rank(candidates, parse("anything else"), no_words, {"z.py": 0, "n.py": 1})
    assert [candidate.place.doc.path for candidate in ranked] == ["z.py", "n.py", "a.py"]


def test_equal_hits_are_ordered_by_the_latest_day_of_change():
    old, new = (
        make_candidate("a.py", mtime_ns=3 * DAY_NS),
        make_candidate("z.py", mtime_ns=5 * DAY_NS),
    )
    assert order([old, new], "anything else") == ["z.py", "a.py"]


def test_equal_hits_of_one_day_are_ordered_by_path():
    early, late = (
        make_candidate("z.py", mtime_ns=5 * DAY_NS + 7),
        make_candidate("a.py", mtime_ns=5 * DAY_NS),
    )
    assert order([early, late], "anything else") == ["a.py", "z.py"]


def test_a_later_day_never_outweighs_evidence():
    candidates = [
        make_candidate("old.py", words=0.51),
        make_candidate("new.py", words=0.5, mtime_ns=900 * DAY_NS),
    ]
    assert order(candidates, "anything else")[0] == "old.py"


shares = st.floats(0, 1)
paths = st.sampled_from(
    ["src/a.py", "src/lease.py", "tests/test_a.py", "docs/a.md", "vendor/x.c", "main.py"]
)
candidates = st.builds(
    lambda file, doc, **more: make_candidate(file, doc=doc, **more),
    paths,
    st.integers(1, 4),
    words=shares,
    covers=shares,
    meaning=shares,
    defines=shares,
    joins=shares,
    located=shares,
)
queries = st.sampled_from(
    ["Lease", "a.b", "take the lease", "where is it?", '"no such user"', "test architecture"]
)


@given(st.lists(candidates, max_size=12), queries)
def test_an_explanation_adds_up_to_the_score(found: list[Candidate], query: str):
    parsed = parse(query)
    for candidate in rank(found, parsed, lambda place: ["no", "such"], {}):
        score, factor = 0.0, 1.0
        for label, value in explain(candidate, parsed):
            if label.startswith("x "):
                factor *= value
            else:
                score += value
        assert score * factor == pytest.approx(candidate.score, abs=0.0015)


@given(st.lists(candidates, max_size=12), queries)
def test_ranking_keeps_every_candidate_and_orders_by_score(found: list[Candidate], query: str):
    ranked = rank(found, parse(query), no_words, {})
    assert sorted(map(id, ranked)) == sorted(map(id, found))
    scores = [round(candidate.score, 4) for candidate in ranked]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("evidence", "phrase"),
    [
        ({"located": 1.0}, "named place"),
        ({"defines": 1.0, "named": "take"}, "defines take"),
        ({"defines": 0.3}, "passes the name on"),
        ({"path": 1.0}, "path"),
        ({"meaning": 0.9}, "meaning"),
        ({}, "words"),
    ],
)
def test_reason_names_the_strongest_evidence(evidence: dict[str, float], phrase: str):
    assert why(make_candidate("a.py", **evidence), parse("anything else")) == phrase  # type: ignore[arg-type]


def test_explanation_of_a_chunk_that_stands_for_its_file_adds_up():
    candidates = [
        make_candidate("a.py", words=0.4, doc=1),
        make_candidate("a.py", words=0.5, doc=1, line=9),
    ]
    word_weights = {"take": 1.0, "lease": 1.0}
    candidates[1].place = replace(
        candidates[1].place, chunk=replace(candidates[1].place.chunk, qualified="other")
    )
    parsed = parse("take the lease away")
    first = rank(candidates, parsed, no_words, {}, word_weights)[0]
    assert first is candidates[0]
    assert dict(explain(first, parsed))["order in its file"] == pytest.approx(0.1)
    assert sum(part for _, part in explain(first, parsed)) == pytest.approx(first.score, abs=1e-3)


@pytest.mark.parametrize(
    "query",
    [
        "what fails in a.py:9",
        "take",
        'find "take the lease"',
        'where is "take the lease" said?',
        'tests of "take the lease"',
    ],
)
def test_chunk_name_never_outranks_a_queried_location_name_or_quote(query: str):
    candidates = [
        make_candidate("a.py", words=0.4, doc=1),
        make_candidate("a.py", words=0.5, doc=1, line=9),
    ]
    candidates[1].place = replace(
        candidates[1].place, chunk=replace(candidates[1].place.chunk, qualified="other")
    )
    assert (
        rank(candidates, parse(query), no_words, {}, {"take": 1.0, "lease": 1.0})[0]
        is candidates[1]
    )


@pytest.mark.parametrize(
    ("evidence", "worth"),
    [
        ({}, 0.0),
        ({"beside": 0.25}, 0.25),
        ({"within": 0.125}, 0.125),
        ({"within": -0.125}, -0.125),
        ({"meaning": 0.5}, 0.5),
        ({"speaks": 0.2}, 0.2),
        ({"covers": 0.5}, PHRASE.coverage / 4),
        ({"defines": 0.5}, PHRASE.definition / 2),
        ({"joins": 0.5}, PHRASE.joined / 2),
        ({"located": 0.5}, PHRASE.place / 2),
        ({"beside": 0.25, "speaks": 0.2, "joins": 1.0}, 0.45 + PHRASE.joined),
    ],
)
def test_each_evidence_adds_what_its_weight_says(evidence: dict[str, float], worth: float):
    parsed = parse("anything else")
    (candidate,) = rank([make_candidate("src/a.py", words=0.5, **evidence)], parsed, no_words, {})
    # The only file is the one that holds together best
    assert candidate.coherence == 1
    assert candidate.score == pytest.approx(0.5 + worth + PHRASE.coherence)
    (low,) = rank([make_candidate("tests/test_a.py", words=0.5, **evidence)], parsed, no_words, {})
    assert low.score == pytest.approx(low.role * (0.5 + worth + PHRASE.coherence)) and low.role < 1


def test_file_name_and_phrase_add_what_their_weights_say():
    question = WEIGHTS[QueryClass.QUESTION]
    (named,) = rank([make_candidate("src/lease.py")], parse("where is the lease"), no_words, {})
    assert named.path == named.stem == 1
    assert named.score == pytest.approx(0.5 + question.path + question.stem + question.coherence)
    error = parse("ValueError: no such user")
    quoted = weights_of(error.classes)
    (said,) = rank([make_candidate("src/a.py")], error, lambda _: ["no", "such", "user"], {})
    assert said.phrase == 1
    assert said.score == pytest.approx(0.5 + quoted.phrase + quoted.coherence)
    architecture = weights_of(parse("architecture").classes)
    (entry,) = rank([make_candidate("lib/main.py")], parse("architecture"), no_words, {})
    assert entry.entry == 1
    assert entry.score == pytest.approx(0.5 + architecture.entry + architecture.coherence)


def test_chunks_of_a_file_support_its_best_chunk_with_falling_weight():
    chunks = [make_candidate("a.py", doc=7, words=words, line=9) for words in (0.9, 0.6, 0.3)]
    first, second, third = rank(chunks, parse("anything else"), no_words, {})
    assert [first.repeat, second.repeat, third.repeat] == pytest.approx(
        [1, PHRASE.repeat, PHRASE.repeat**2]
    )
    assert first.coherence > 0
    assert first.score == pytest.approx(0.9 + PHRASE.coherence * first.coherence)
    assert second.score == pytest.approx(
        PHRASE.repeat * (0.6 + PHRASE.coherence * second.coherence)
    )


def test_explanation_lists_every_counting_feature_with_four_digits():
    candidate = make_candidate("tests/test_a.py", words=0.123456, meaning=0.234567)
    candidate.beside, candidate.speaks, candidate.within, candidate.coherence = (
        0.345678,
        0.2,
        -0.012345,
        0.5,
    )
    candidate.covers, candidate.joins, candidate.located, candidate.entry, candidate.phrase = (
        0.5,
        0.25,
        1.0,
        1.0,
        1.0,
    )
    candidate.path, candidate.stem, candidate.defines = 1.0, 1.0, 0.6
    candidate.role, candidate.repeat, candidate.fresh = 0.4, 0.123456, 0.234567
    assert explain(candidate, parse("anything else")) == (
        ("words", 0.1235),
        ("neighbouring chunks", 0.3457),
        ("speaker", 0.2),
        ("meaning", 0.2346),
        ("coverage", round(PHRASE.coverage / 4, 4)),
        ("definition", round(PHRASE.definition * 0.6, 4)),
        ("words joined to a name", round(PHRASE.joined / 4, 4)),
        ("path", PHRASE.path),
        ("file name", PHRASE.stem),
        ("named place", PHRASE.place),
        ("order in its file", -0.0123),
        ("file coherence", round(PHRASE.coherence / 2, 4)),
        ("x test file", 0.4),
        ("x repeat of its file", 0.1235),
        ("x like a better one", 0.2346),
    )


def test_explanation_leaves_out_features_that_count_for_nothing():
    assert explain(make_candidate("src/a.py", words=0.5), parse("x y")) == (("words", 0.5),)


def test_explanation_of_fused_ranks_has_the_share_of_each():
    candidate = make_candidate("src/a.py", words=0.9)
    candidate.ranks = (0.123456, 0.654321)
    assert explain(candidate, parse("x y")) == (
        ("rank by words", 0.1235),
        ("rank by meaning", 0.6543),
    )
    candidate.ranks = (0.5, 0.0)
    assert explain(candidate, parse("x y")) == (("rank by words", 0.5),)


@pytest.mark.parametrize(
    ("evidence", "phrase"),
    [
        ({"phrase": 0.6, "defines": 1.0}, "phrase"),
        ({"phrase": 0.5}, "words"),
        ({"phrase": 1.0, "located": 0.5}, "named place"),
        ({"stem": 1.0, "path": 0.2}, "path"),
        ({"path": 0.3}, "words"),
        ({"path": 0.5, "meaning": 0.9}, "meaning"),
        ({"beside": 0.6}, "neighbouring chunks"),
        ({"beside": 0.4}, "words"),
        ({"beside": 0.8, "meaning": 0.9}, "meaning"),
        ({"meaning": 0.6}, "meaning"),
        ({"meaning": 0.4}, "words"),
    ],
)
def test_reason_names_evidence_that_outweighs_the_rest(evidence: dict[str, float], phrase: str):
    assert why(make_candidate("a.py", words=0.5, **evidence), parse("anything else")) == phrase


@pytest.mark.parametrize(("more", "first"), [(0.00003, "a.py"), (0.0002, "b.py")])
def test_scores_closer_than_a_ten_thousandth_are_equal(more: float, first: str):
    candidates = [make_candidate("b.py", words=0.5 + more), make_candidate("a.py", words=0.5)]
    assert order(candidates, "anything else")[0] == first


def test_a_day_begins_every_86_400_seconds():
    midnight = 20_000 * 24 * 60 * 60 * 1_000_000_000
    candidates = [
        make_candidate("a.py", mtime_ns=midnight - 1),
        make_candidate("z.py", mtime_ns=midnight),
    ]
    assert order(candidates, "anything else") == ["z.py", "a.py"]
