import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.types import Chunk, Doc
from cortex.engine.search import features
from cortex.engine.search.features import ROLES, Candidate
from cortex.engine.store import ChunkLocation


def make_candidate(
    path: str = "src/a.py", doc: int = 1, *, score: float = 0.0, kind: str = "function"
) -> Candidate:
    place = ChunkLocation(
        Doc(doc, 1, path, doc, 10, 0, "python", ""),
        doc,
        Chunk(0, 0, 10, 1, 5, kind, "take", "Lease.take"),
    )
    return Candidate(place, 0.5, score=score)


def test_exact_case_of_a_name_is_stronger_than_another_case():
    same = features.definition_match("Lease", "store.Lease", ["Lease"], [])
    other = features.definition_match("lease", "store.lease", ["Lease"], [])
    assert same == 1.0 > other > 0


def test_qualified_query_matches_only_that_qualification():
    right = features.definition_match("apply", "Store.apply", ["apply", "Store"], ["Store.apply"])
    wrong = features.definition_match("apply", "Change.apply", ["apply", "Store"], ["Store.apply"])
    assert (right, wrong) == (1.0, 0.5)


def test_qualification_matches_its_inner_part_in_any_case():
    assert (
        features.definition_match("apply", "cortex.Store.apply", ["apply"], ["store.apply"]) == 1.0
    )
    assert features.definition_match("apply", "Restore.apply", ["apply"], ["Store.apply"]) == 0.5


def test_prefix_match_is_stronger_the_less_is_missing():
    assert features.prefix_match("parse_it", "parse", 3, 9) > features.prefix_match(
        "parse_everything_else", "parse", 3, 9
    )


def test_prefix_match_is_stronger_the_more_the_name_is_used():
    strengths = [
        features.prefix_match("parse_it", "parse", references, 40) for references in (0, 1, 10, 40)
    ]
    assert strengths == sorted(strengths)
    assert len(set(strengths)) == 4
    assert strengths[-1] < 0.5  # a name that only begins so is never as good as the name


@given(st.text(min_size=1, max_size=30), st.integers(0, 10_000), st.integers(0, 10_000))
def test_prefix_match_is_worth_between_zero_and_half(rest: str, references: int, more: int):
    assert 0 <= features.prefix_match("take" + rest, "take", references, references + more) <= 0.5


def test_package_init_block_with_the_whole_name_is_a_reexport():
    block = make_candidate("src/store/__init__.py", kind="block")
    block.covers = 1.0
    assert features.reexport(block) == 0.3


@pytest.mark.parametrize(
    ("path", "kind", "covers"),
    [
        ("src/store/lease.py", "block", 1.0),
        ("src/store/__init__.py", "function", 1.0),
        ("src/store/__init__.py", "block", 0.5),
    ],
)
def test_other_chunks_are_no_reexport(path: str, kind: str, covers: float):
    candidate = make_candidate(path, kind=kind)
    candidate.covers = covers
    assert features.reexport(candidate) == 0.0


@pytest.mark.parametrize(
    ("path", "keywords", "share"),
    [
        ("src/store/lease.py", ["lease"], 1.0),
        ("src/store/lease.py", ["store", "lease"], 1.0),
        ("src/store/lease.py", ["lease", "colour"], 0.5),
        ("src/store/lease.py", ["src"], 0.0),  # only the file's name and the folder it is in
        ("src/store/lease.py", ["leases"], 1.0),  # other forms of a word
        # "rout" begins both, but neither is the beginning of the other
        ("src/routing/x.py", ["route"], 0.0),
        ("src/cat.py", ["cats"], 0.0),  # too short to be sure
        ("src/parseConfig.ts", ["config"], 1.0),
        ("src/lease.py", [], 0.0),
        ("src/lease.py", ["py"], 0.0),
    ],
)
def test_path_feature_is_the_share_of_keywords_in_the_path(
    path: str, keywords: list[str], share: float
):
    assert features.path_share(path, keywords) == share


@pytest.mark.parametrize(
    ("path", "keywords", "share"),
    [
        ("src/json_array.py", ["json", "array", "of", "numbers"], 1.0),
        ("src/json_array.py", ["json"], 0.0),
        ("src/JsonArray.java", ["json", "array"], 1.0),
        ("src/requests.py", ["request"], 1.0),
        ("src/lease.test.ts", ["lease"], 1.0),
        ("src/_.py", ["lease"], 0.0),
        ("lease/other.py", ["lease"], 0.0),
    ],
)
def test_stem_feature_needs_a_file_name_of_keywords_only(
    path: str, keywords: list[str], share: float
):
    assert features.stem_share(path, keywords) == share


def test_entry_points_are_files_of_known_names():
    assert [
        features.entry(path)
        for path in ("src/main.rs", "app/__init__.py", "Index.tsx", "src/lease.py")
    ] == [1.0, 1.0, 1.0, 0.0]


def test_phrase_share_is_the_longest_run_of_its_words():
    text = "raise the user is not known here".split()
    assert features.phrase_share(text, [("user", "is", "not", "known")]) == 1.0
    assert features.phrase_share(text, [("the", "user", "was", "known")]) == 0.5
    assert features.phrase_share(text, [("known", "not")]) == 0.5  # the order counts
    assert features.phrase_share(text, [("absent", "thing")]) == 0.0


def test_phrase_share_of_several_phrases_is_their_mean():
    text = "no such user".split()
    assert features.phrase_share(text, [("no", "such", "user"), ("absent", "thing")]) == 0.5
    assert features.phrase_share(text, []) == 0.0


def test_part_of_a_word_matches_no_phrase():
    assert features.phrase_share(["username"], [("user", "name")]) == 0.0


words = st.lists(st.sampled_from("abcde"), max_size=30)


@given(words, st.lists(words.filter(bool), max_size=4))
def test_phrase_share_is_between_zero_and_one(text: list[str], phrases: list[list[str]]):
    assert 0 <= features.phrase_share(text, phrases) <= 1


@given(words.filter(bool), st.integers(0, 29), st.integers(1, 30))
def test_phrase_taken_from_a_text_has_a_full_share(text: list[str], start: int, length: int):
    if phrase := text[start : start + length]:
        assert features.phrase_share(text, [phrase]) == 1.0


def test_chunks_of_a_file_support_its_best_chunk_only():
    much = [make_candidate("a.py", 1, score=score) for score in (0.9, 0.5, 0.6)]
    alone = make_candidate("b.py", 2, score=1.0)
    assert features.coherence([*much, alone]) == [(much[0], 1.0), (alone, pytest.approx(1.0 / 2.0))]


def test_coherence_of_one_candidate_or_none_is_empty():
    assert features.coherence([]) == []
    assert features.coherence([make_candidate()]) == []


@pytest.mark.parametrize("name", list(ROLES))
def test_files_beside_the_code_are_demoted_unless_asked_for(name: str):
    assert features.role(name, frozenset()) == ROLES[name] < 1
    assert features.role(name, frozenset({name})) == 1.0


def test_code_is_never_demoted():
    assert features.role("", frozenset()) == features.role("", frozenset({"test"})) == 1.0


def make_named(name: str, score: float, doc: int = 1) -> Candidate:
    chunk = Chunk(0, 0, 10, 1, 5, "function", name, name)
    return Candidate(
        ChunkLocation(Doc(doc, 1, f"{doc}.py", 1, 10, 0, "python"), 1, chunk),
        words=0.0,
        score=score,
    )


def test_chunk_named_like_the_query_takes_the_best_score_of_its_file():
    header, wanted = make_named("", 1.0), make_named("Page.drop_headers", 0.7)
    features.order_within([header, wanted], {"drop": 1.0, "header": 1.0, "pages": 1.0}, 1.0)
    assert (wanted.score, header.score) == (1.0, 0.7)
    assert wanted.within == pytest.approx(0.3)
    assert header.within == pytest.approx(-0.3)


def test_chunk_of_another_file_takes_no_score():
    one, other = make_named("other", 1.0, doc=1), make_named("drop_headers", 0.7, doc=2)
    features.order_within([one, other], {"drop": 1.0, "headers": 1.0}, 1.0)
    assert (one.score, other.score) == (1.0, 0.7)


def test_name_with_the_rarer_word_takes_the_best_score():
    usual, rare = make_named("read_file", 0.5), make_named("delimiter", 0.4)
    features.order_within([usual, rare], {"file": 0.5, "read": 0.5, "delimiter": 5.0}, 1.0)
    assert rare.score > usual.score


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "read", "read_file", "file"]), st.floats(0, 3), st.integers(1, 3)
        ),
        max_size=12,
    )
)
def test_scores_within_a_file_do_not_depend_on_the_input_order(drawn: list[tuple[str, float, int]]):
    candidates = [make_named(name, score, doc) for name, score, doc in drawn]
    features.order_within(candidates, {"read": 1.0, "file": 2.0}, 1.0)
    after = sorted((candidate.place.doc.id, candidate.score) for candidate in candidates)
    assert after == sorted((doc, score) for _, score, doc in drawn)
