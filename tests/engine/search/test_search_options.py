"""Ranking options of a query: rank fusion, semantic weight, diversity."""

from collections.abc import Iterator

import pytest

from cortex.base.settings import load
from cortex.base.types import Mode, Page, Query
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine

BACKUP = (
    "# Backups\n\nEvery night the database is copied to the second disk. A backup of the database is kept for thirty days.\n"
    "Then it is written to tape, and the operator who is on duty signs for it. Tapes are fetched on the first of each month.\n"
)
FILES = {
    "backup.md": BACKUP,
    "copy/backup.md": BACKUP,
    "old/backup.md": BACKUP.replace("thirty", "twenty"),
    "restore.md": "# Restoring\n\nA backup of the database is restored by the operator, who stops the service first.\n",
    "disk.md": "# Disks\n\nThe second disk holds the copies of every night.\n",
    "people.md": "# People\n\nWho is called at night, and when.\n",
}
QUESTION = "how long is a backup of the database kept"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = tmp_path_factory.mktemp("documents")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    environment = {
        "CORTEX_HOME": str(tmp_path_factory.mktemp("home")),
        "CORTEX_SEARCH_ENABLE_CACHING": "false",
    }
    with Engine(root, load(root, environment=environment), embedder=HashingEmbedder()) as opened:
        opened.index()
        yield opened


def ask(engine: Engine, **more: object) -> Page:
    return engine.search(Query(QUESTION, **more))  # type: ignore[arg-type]


def paths(page: Page) -> list[str]:
    return [hit.path for hit in page.hits]


@pytest.mark.parametrize("fusion", ["auto", "rrf"])
@pytest.mark.parametrize("mode", [Mode.HYBRID, Mode.WORDS, Mode.MEANING])
@pytest.mark.parametrize("diversity", [None, 0.7, 0.0])
def test_search_with_options_is_repeatable_with_falling_scores_and_relevance(
    engine, fusion, mode, diversity
):
    first = ask(engine, fusion=fusion, mode=mode, diversity=diversity)
    assert first.mode is mode
    for values in ([hit.score for hit in first.hits], [hit.relevance for hit in first.hits]):
        assert values == sorted(values, reverse=True)
        assert values
    assert ask(engine, fusion=fusion, mode=mode, diversity=diversity) == first


def test_fused_ranks_come_from_words_and_meaning(engine: Engine):
    assert set(paths(ask(engine, fusion="rrf"))) == set(paths(ask(engine)))
    assert all(hit.score <= 1 for hit in ask(engine, fusion="rrf").hits)


def test_rank_fusion_changes_nothing_in_a_single_mode(engine: Engine):
    for mode in (Mode.WORDS, Mode.MEANING):
        assert ask(engine, mode=mode, fusion="rrf") == ask(engine, mode=mode)


def test_semantic_weight_of_zero_equals_search_by_words(engine: Engine):
    assert ask(engine, meaning_weight=0.0) == ask(engine, mode=Mode.WORDS)
    assert ask(engine, meaning_weight=0.0).notes == ()


def test_share_of_meaning_grows_with_its_weight(engine: Engine):
    def share(weight: float) -> float:
        (first, *_) = ask(engine, meaning_weight=weight, explain=True).hits
        return dict(first.evidence)["meaning"]

    assert share(2.0) == pytest.approx(2 * share(1.0), abs=0.001)


@pytest.mark.parametrize("mode", [Mode.HYBRID, Mode.WORDS])
def test_copies_of_a_document_fall_behind_with_diversity(engine: Engine, mode: Mode):
    usual, differing = paths(ask(engine, mode=mode)), paths(ask(engine, mode=mode, diversity=0.5))
    assert {*usual[:3]} == {"backup.md", "copy/backup.md", "old/backup.md"}
    assert differing[0] == usual[0]
    assert differing[1] == "restore.md"
    assert sorted(differing) == sorted(usual)


def test_diversity_balance_of_1_changes_nothing(engine: Engine):
    assert ask(engine, diversity=1.0) == ask(engine)


def test_hits_below_the_threshold_are_left_out_with_diversity(engine: Engine):
    threshold = ask(engine).hits[3].relevance
    assert sorted(paths(ask(engine, threshold=threshold, diversity=0.3))) == sorted(
        paths(ask(engine, threshold=threshold))
    )
