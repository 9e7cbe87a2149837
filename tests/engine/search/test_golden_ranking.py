"""Questions about this repository as it was at one commit, with the answers that are right: the
ranking may become better, not worse.

tests/golden/ranking.json holds the questions, where each answer stood when the file was last
written, and the figures over all. A change of the ranking renews it in the same commit:
CORTEX_GOLDEN=write; then look at the difference.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex.base.settings import load
from cortex.base.types import Mode, Query
from cortex.engine.engine import Engine
from cortex.engine.search.query_parser import parse

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "ranking.json"
WRITE = os.environ.get("CORTEX_GOLDEN") == "write"
TREE = "4297abfc7b2fd62876264d0822cefdbb49e57380"
LIMIT = 10
TOLERANCE = 0.01  # less than one question of sixty
LIKE_QUESTIONS = ("tests/golden/", "tests/search/")  # they hold the questions themselves
WRITTEN = 1_700_000_000  # when all files were changed: the time of a checkout must not decide


def questions() -> list[dict[str, Any]]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))["queries"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Sources, documents and tests of one commit, indexed: files that change later don't count."""
    command = ["git", "archive", "--format=tar", TREE, "src", "docs", "tests"]
    packed = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    if packed.returncode:
        pytest.skip(f"no git history: {packed.stderr.decode(errors='replace').strip()}")
    copy = tmp_path_factory.mktemp("checkout")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        for file in archive:
            content = archive.extractfile(file)
            if content is not None and not file.name.startswith(LIKE_QUESTIONS):
                (copy / file.name).parent.mkdir(parents=True, exist_ok=True)
                (copy / file.name).write_bytes(content.read())
                os.utime(copy / file.name, (WRITTEN, WRITTEN))
    home = str(tmp_path_factory.mktemp("home"))
    with Engine(copy, load(copy, environment={"CORTEX_HOME": home})) as opened:
        opened.index()
        yield opened


def rank_of(engine: Engine, question: dict[str, Any]) -> int:
    """The place of the right answer, 0 where it isn't among the first ten."""
    query = Query(
        question["query"], mode=Mode.HYBRID, limit=LIMIT, code=question["class"] == "code snippet"
    )
    for number, hit in enumerate(engine.search(query).hits, 1):
        if hit.path == question["file"] and question.get("holds", "") in hit.text:
            return number
    return 0


def figures(ranks: list[int]) -> dict[str, float]:
    return {
        "recall@1": round(sum(rank == 1 for rank in ranks) / len(ranks), 4),
        "recall@5": round(sum(1 <= rank <= 5 for rank in ranks) / len(ranks), 4),
        "mrr": round(sum(1 / rank for rank in ranks if rank) / len(ranks), 4),
    }


def test_the_ranking_is_not_worse_than_it_was(engine: Engine) -> None:
    asked = questions()
    ranks = [rank_of(engine, question) for question in asked]
    now = figures(ranks)
    if WRITE:
        renewed = [{**question, "rank": rank} for question, rank in zip(asked, ranks, strict=True)]
        text = json.dumps({**now, "queries": renewed}, indent=1, ensure_ascii=False)
        GOLDEN.write_text(text + "\n", encoding="utf-8", newline="\n")
    before = json.loads(GOLDEN.read_text(encoding="utf-8"))
    changed = [
        f"{question['query']!r}: {question['rank']} -> {rank}"
        for question, rank in zip(before["queries"], ranks, strict=True)
        if question["rank"] != rank
    ]
    worse = {
        name: (before[name], value)
        for name, value in now.items()
        if value < before[name] - TOLERANCE
    }
    assert not worse, f"{worse}\n" + "\n".join(changed)


@pytest.mark.parametrize("question", questions(), ids=lambda question: question["query"][:40])
def test_a_question_is_of_its_class(question: dict[str, Any]) -> None:
    assert (
        question["class"] in parse(question["query"], question["class"] == "code snippet").classes
    )


def test_every_answer_is_in_the_tree(engine: Engine) -> None:
    for question in questions():
        assert question.get("holds", "") in (engine.root / question["file"]).read_text(
            encoding="utf-8"
        )


def test_every_class_is_asked_for() -> None:
    assert len({question["class"] for question in questions()}) == 11
    assert len({question["query"] for question in questions()}) == len(questions()) >= 60
