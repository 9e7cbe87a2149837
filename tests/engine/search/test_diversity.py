from hypothesis import given
from hypothesis import strategies as st

from cortex.base.types import Chunk, Doc
from cortex.engine.search.diversity import DEPTH, diversify, likeness_of_words
from cortex.engine.search.features import Candidate
from cortex.engine.store import ChunkLocation


def make_candidates(*scores: float) -> list[Candidate]:
    chunk = Chunk(0, 0, 10, 1, 5, "section", "", "")
    places = [
        ChunkLocation(Doc(number, 1, f"{number}.md", number, 10, 0, "markdown"), number, chunk)
        for number in range(len(scores))
    ]
    return [
        Candidate(place, score, score=score, relevance=score / 2)
        for place, score in zip(places, scores, strict=True)
    ]


def order(candidates: list[Candidate], balance: float, alike: set[tuple[int, int]]) -> list[int]:
    found = diversify(candidates, balance, lambda one, other: float((one, other) in alike), 0.9)
    return [candidate.place.doc.id for candidate in found]


def test_repetition_of_a_better_hit_falls_behind():
    assert order(make_candidates(1.0, 0.9, 0.8), 0.7, {(0, 1)}) == [0, 2, 1]


def test_best_hit_stays_first_and_repetitions_are_kept():
    assert order(make_candidates(1.0, 0.9, 0.1), 0.5, {(0, 1), (0, 2), (1, 2)}) == [0, 1, 2]


def test_balance_of_1_leaves_the_order_unchanged():
    assert order(make_candidates(1.0, 0.9, 0.8), 1.0, {(0, 1)}) == [0, 1, 2]


def test_slightly_similar_hits_keep_their_order():
    found = diversify(make_candidates(1.0, 0.99, 0.98), 0.3, lambda one, other: 0.85, 0.9)
    assert [candidate.place.doc.id for candidate in found] == [0, 1, 2]


def test_demoted_hit_carries_the_size_of_its_demotion():
    (_, _, last) = diversify(
        make_candidates(1.0, 0.9, 0.6), 0.7, lambda one, other: float((one, other) == (0, 1)), 0.9
    )
    assert (last.place.doc.id, last.score) == (1, 0.6)
    assert 0.6 < last.fresh < 0.7


@given(
    st.lists(st.floats(0, 1), min_size=0, max_size=DEPTH + 20),
    st.floats(0, 1),
    st.lists(st.frozensets(st.sampled_from("abcd")), min_size=DEPTH + 20, max_size=DEPTH + 20),
)
def test_diversity_keeps_every_hit_with_falling_scores_and_relevance(scores, balance, words):
    candidates = make_candidates(*sorted(scores, reverse=True))
    behind = candidates[DEPTH:]
    found = diversify(candidates, balance, likeness_of_words(words), 0.6)
    assert sorted(candidate.place.doc.id for candidate in found) == list(range(len(scores)))
    assert [candidate.score for candidate in found] == sorted(
        (candidate.score for candidate in found), reverse=True
    )
    assert [candidate.relevance for candidate in found] == sorted(
        (candidate.relevance for candidate in found), reverse=True
    )
    assert found[DEPTH:] == behind


def test_similarity_of_texts_follows_their_shared_words():
    likeness = likeness_of_words([frozenset("abc"), frozenset("bcd"), frozenset()])
    assert (likeness(0, 1), likeness(0, 2), likeness(2, 2)) == (0.5, 0.0, 0.0)
