import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.types import Chunk, Doc, Mode
from cortex.engine.search.calibration import calibrate, known_features, right_features
from cortex.engine.search.features import Candidate
from cortex.engine.search.query_classes import Corpus
from cortex.engine.search.query_parser import parse
from cortex.engine.search.weights import CUT, FITS, KNOWN, RIGHT, VERY_NEAR
from cortex.engine.store import ChunkLocation


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


modes_of_search = [Mode.WORDS, Mode.MEANING, Mode.HYBRID]
modes = st.sampled_from(modes_of_search)
queries = st.sampled_from(["x", "take", "one two three four five six", "検索"])


@given(st.lists(candidates, max_size=8), queries, modes)
def test_relevance_is_between_zero_and_one(found: list[Candidate], query: str, mode: Mode):
    found.sort(key=lambda candidate: -candidate.score)
    assert all(0 <= relevance <= 1 for relevance in relevances(found, query, mode))


@given(candidates, shares, shares, modes, st.sampled_from(["covers", "near"]))
def test_more_coverage_or_nearness_is_never_less_relevant(
    candidate: Candidate, some: float, more: float, mode: Mode, evidence: str
):
    lower, upper = sorted((some, more))
    found = []
    for strength in (lower, upper):
        setattr(candidate, evidence, strength)
        found += relevances([candidate], mode=mode)
    assert found[0] <= found[1]


@given(st.lists(st.floats(0.01, 8), min_size=2, max_size=10), shares)
def test_relevance_falls_with_the_rank_for_the_same_evidence(scores: list[float], covers: float):
    found = relevances(
        [make_candidate(score, covers=covers) for score in sorted(scores, reverse=True)]
    )
    assert found == sorted(found, reverse=True)


def test_no_candidates_give_no_relevance():
    assert relevances([]) == []


def test_definition_of_the_queried_name_is_above_the_cut():
    assert relevances([make_candidate(covers=1.0, defines=1.0)], "Lease")[0] > CUT


def test_a_few_common_words_of_a_question_are_below_the_cut():
    found = [make_candidate(score, covers=0.2) for score in (0.5, 0.45, 0.4)]
    assert max(relevances(found)) < CUT


def test_first_hit_is_not_certain_by_its_rank():
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


def test_semantic_hit_is_above_the_cut_only_when_near():
    near, far = (
        relevances([make_candidate(near=cosine)], mode=Mode.MEANING)[0] for cosine in (0.5, 0.1)
    )
    assert far < CUT < near


@given(st.lists(candidates, min_size=1, max_size=6), queries, modes)
def test_relevance_equals_the_logistic_models_that_define_it(
    found: list[Candidate], query: str, mode: Mode
):
    """Both probabilities by their definition: logistic models of the features, the second by its
    square root, the product laid on two lines that meet where .05 is .65.
    """
    found.sort(key=lambda candidate: -candidate.score)
    parsed = parse(query)
    expected = [0.0] * len(found)
    for place in reversed(range(len(found))):
        value = defined_relevance(found, place, len(parsed.weights), mode)
        expected[place] = max([*expected[place:], value])
    calibrate(found, parsed, mode)
    assert [candidate.relevance for candidate in found] == pytest.approx(expected, abs=1e-4)
    assert all(candidate.relevance == round(candidate.relevance, 4) for candidate in found)


def defined_relevance(found: list[Candidate], place: int, words: int, mode: Mode) -> float:
    """The relevance of one of the candidates, without the cap by those behind it."""
    top, candidate = found[:3], found[place]
    features = (
        math.log(0.02 + max(max(hit.covers, hit.phrase) for hit in top)),
        math.log(max(words, 1)),
        max(max(hit.defines, hit.joins, hit.located) for hit in top),
        sum(hit.place.doc.language == "markdown" for hit in top) / len(top),
        max(hit.near for hit in top),
        1.0,
    )
    share = candidate.score / found[0].score if found[0].score > 1e-9 else candidate.score / 1e-9
    evidence = (
        max(candidate.covers, candidate.phrase),
        max(candidate.defines, candidate.located),
        candidate.joins,
        candidate.stem,
        candidate.near,
        share,
        1.0,
    )
    known = max(logistic(FITS[mode].known, features), logistic(VERY_NEAR, features))
    product = known * logistic(FITS[mode].right, evidence) ** 0.5
    return product * 13 if product < 0.05 else 0.65 + (product - 0.05) * 0.35 / 0.95


def logistic(weights: tuple[float, ...], features: tuple[float, ...]) -> float:
    total = sum(weight * feature for weight, feature in zip(weights, features, strict=True))
    return math.exp(total) / (1 + math.exp(total))


def test_features_to_fit_are_those_used_for_relevance():
    found = [
        make_candidate(4.0, covers=0.2, phrase=0.6, defines=0.1, located=0.3, near=0.25),
        make_candidate(2.0, "markdown", covers=0.5, joins=0.7, stem=0.8, near=0.75),
        make_candidate(1.0, defines=0.4),
        make_candidate(0.5, "markdown", covers=1.0, defines=1.0, near=1.0),
    ]
    parsed = parse("leases taken by another process")
    assert known_features(found[:3], parsed) == pytest.approx(
        (math.log(0.62), math.log(len(parsed.weights)), 0.7, 1 / 3, 0.75, 1.0)
    )
    assert right_features(found[0], 0.5) == (0.6, 0.3, 0.0, 0.0, 0.25, 0.5, 1.0)
    assert right_features(found[1], 0.25) == (0.5, 0.0, 0.7, 0.8, 0.75, 0.25, 1.0)


def test_prose_weights_apply_to_documents_and_records_not_to_memories():
    found = [make_candidate(language="markdown"), make_candidate()]
    parsed = parse("how are leases taken over")
    shares_of_prose = {
        corpus: known_features(found, replace(parsed, corpus=corpus))[3] for corpus in Corpus
    }
    assert shares_of_prose.pop(Corpus.MEMORIES) == 0
    assert set(shares_of_prose.values()) == {0.5}


def test_relevance_reaches_both_ends_of_its_scale():
    sure = make_candidate(covers=1.0, defines=1.0, joins=1.0, stem=1.0, near=1.0)
    assert relevances([sure], mode=Mode.HYBRID)[0] == pytest.approx(0.99, abs=0.01)
    assert relevances([make_candidate(covers=0.0)])[0] < 0.01


def test_candidates_without_a_score_get_a_relevance():
    assert relevances([make_candidate(0.0), make_candidate(0.0)])[1] < 0.65


@pytest.mark.parametrize("mode", modes_of_search)
def test_every_weight_table_has_a_number_for_each_feature(mode: Mode):
    assert len(FITS[mode].known) == len(VERY_NEAR) == len(KNOWN) == 6
    assert len(FITS[mode].right) == len(RIGHT) == 7
