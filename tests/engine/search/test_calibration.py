import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.types import Chunk, Doc, Mode
from cortex.engine.search.calibration import (
    _VERY_NEAR,
    CUT,
    FITS,
    _curve,
    calibrate,
    known_features,
    probability,
    right_features,
)
from cortex.engine.search.features import Candidate
from cortex.engine.search.query_parser import parse
from cortex.engine.store import ChunkLocation

PARSED = parse("how are leases taken over by another process")


def make_candidate(score: float = 1.0, language: str = "python", **more: float) -> Candidate:
    place = ChunkLocation(
        Doc(1, 1, "src/a.py", 1, 10, 0, language, ""), 1, Chunk(0, 0, 10, 1, 5, "function")
    )
    return Candidate(place, 0.5, score=score, **more)  # type: ignore[arg-type]


def relevances(
    candidates: list[Candidate],
    query: str = "how are leases taken over by another process",
    mode: Mode = Mode.WORDS,
) -> list[float]:
    calibrate(candidates, parse(query), mode)
    return [candidate.relevance for candidate in candidates]


shares = st.floats(0, 1)
candidates = st.builds(
    make_candidate,
    score=st.floats(0, 8),
    language=st.sampled_from(["python", "markdown"]),
    covers=shares,
    near=shares,
    defines=shares,
    joins=shares,
    located=shares,
    stem=shares,
    phrase=shares,
)


modes = st.sampled_from([Mode.WORDS, Mode.MEANING, Mode.HYBRID])


@given(
    st.lists(candidates, max_size=8),
    st.sampled_from(["x", "take", "one two three four five six", "検索"]),
    modes,
)
def test_relevance_is_between_nothing_and_one(found: list[Candidate], query: str, mode: Mode):
    found.sort(key=lambda one: -one.score)
    assert all(0 <= relevance <= 1 for relevance in relevances(found, query, mode))


@given(candidates, shares, shares, modes, st.sampled_from(["covers", "near"]))
def test_more_of_the_query_or_nearer_to_it_is_never_less_relevant(
    one: Candidate, some: float, more: float, mode: Mode, evidence: str
):
    lower, upper = sorted((some, more))
    found = []
    for strength in (lower, upper):
        setattr(one, evidence, strength)
        found += relevances([one], mode=mode)
    assert found[0] <= found[1]


@given(st.lists(st.floats(0.01, 8), min_size=2, max_size=10), shares)
def test_with_the_same_evidence_relevance_falls_with_the_rank(scores: list[float], covers: float):
    found = relevances(
        [make_candidate(score, covers=covers) for score in sorted(scores, reverse=True)]
    )
    assert found == sorted(found, reverse=True)


def test_nothing_found_is_nothing_to_judge():
    assert relevances([]) == []


def test_a_definition_of_the_name_that_was_asked_for_is_above_the_cut():
    assert relevances([make_candidate(covers=1.0, defines=1.0)], "Lease")[0] > CUT


def test_a_few_common_words_of_a_question_are_below_the_cut():
    found = [make_candidate(score, covers=0.2) for score in (0.5, 0.45, 0.4)]
    assert max(relevances(found)) < CUT


def test_the_best_hit_is_not_certain_because_it_is_the_best():
    strong = relevances([make_candidate(1.0, covers=1.0)])
    weak = relevances([make_candidate(1.0, covers=0.1)])
    assert weak[0] < CUT < strong[0]


def test_a_right_hit_far_down_in_a_good_answer_stays_above_the_cut():
    found = [
        make_candidate(3.0, covers=1.0, defines=1.0),
        *(make_candidate(0.9, covers=0.6) for _ in range(9)),
    ]
    assert relevances(found)[-1] > CUT


@pytest.mark.parametrize("evidence", ["defines", "joins", "located", "stem", "phrase", "near"])
def test_each_kind_of_evidence_makes_a_hit_more_relevant(evidence: str):
    without = relevances([make_candidate(covers=0.4)], mode=Mode.HYBRID)
    assert relevances([make_candidate(covers=0.4, **{evidence: 1.0})], mode=Mode.HYBRID) > without  # type: ignore[arg-type]


def test_by_meaning_alone_what_is_near_is_above_the_cut_and_what_is_far_below():
    near, far = (
        relevances([make_candidate(near=cosine)], mode=Mode.MEANING)[0] for cosine in (0.5, 0.1)
    )
    assert far < CUT < near


@given(st.lists(candidates, min_size=1, max_size=6), modes)
def test_a_hit_is_judged_by_the_features_that_were_fitted(found: list[Candidate], mode: Mode):
    found.sort(key=lambda one: -one.score)
    best, last = max(found[0].score, 1e-9), found[-1]
    known, right = FITS[mode].known, FITS[mode].right
    calibrate(found, PARSED, mode)
    sure = max(probability(one, known_features(found[:3], PARSED)) for one in (known, _VERY_NEAR))
    likely = probability(right, right_features(last, last.score / best))
    assert last.relevance == pytest.approx(_curve(sure * likely**0.5), abs=1e-4)
