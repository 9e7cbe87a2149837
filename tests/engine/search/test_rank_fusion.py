import pytest

from cortex.base.types import Chunk, Doc
from cortex.engine.search.features import Candidate
from cortex.engine.search.query_parser import parse
from cortex.engine.search.rank_fusion import K, fuse
from cortex.engine.search.ranker import explain
from cortex.engine.store import ChunkLocation


def make_candidate(number: int, *, words: float = 0.0, near: float = 0.0) -> Candidate:
    chunk = Chunk(0, 0, 10, 1, 5, "section", "", "")
    return Candidate(
        ChunkLocation(Doc(number, 1, f"{number}.md", number, 10, 0, "markdown"), number, chunk),
        words,
        near=near,
    )


def order(candidates: list[Candidate], weight: float = 1.0) -> list[int]:
    by_words = sorted(
        (candidate for candidate in candidates if candidate.words),
        key=lambda candidate: -candidate.words,
    )
    return [candidate.place.doc.id for candidate in fuse(by_words, candidates, weight, {})]


def test_second_in_both_rankings_comes_before_first_in_one():
    assert (
        order(
            [
                make_candidate(1, words=1.0),
                make_candidate(2, words=0.1, near=0.3),
                make_candidate(3, near=0.9),
            ]
        )[0]
        == 2
    )


def test_fused_score_is_the_sum_of_reciprocal_ranks():
    both, worded = make_candidate(1, words=1.0, near=0.9), make_candidate(2, words=0.5)
    fuse([both, worded], [both, worded], 1.0, {})
    assert both.score == pytest.approx(1.0)
    assert worded.score == pytest.approx((K + 1) / 2 / (K + 2))


def test_weight_scales_the_ranking_by_meaning():
    candidates = [make_candidate(1, words=1.0, near=0.3), make_candidate(2, words=0.9, near=0.5)]
    assert order(candidates, 0.5) == [1, 2]
    assert order(candidates, 2.0) == [2, 1]


def test_distant_candidate_has_no_rank_by_meaning():
    candidates = [make_candidate(1, words=1.0, near=0.1), make_candidate(2, words=0.5, near=0.2)]
    assert order(candidates) == [1, 2]
    assert [candidate.ranks[1] for candidate in candidates if candidate.ranks] == [0.0, 0.0]


def test_equal_fused_scores_are_ordered_by_path():
    candidates = [make_candidate(number, near=0.5) for number in range(1, 6)]
    assert order(candidates) == order(candidates[::-1])


def test_a_fused_candidate_is_explained_by_its_ranks():
    candidate = make_candidate(1, words=1.0, near=0.9)
    fuse([candidate], [candidate], 1.0, {})
    assert explain(candidate, parse("anything at all")) == (
        ("rank by words", 0.5),
        ("rank by meaning", 0.5),
    )
