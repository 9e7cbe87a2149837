"""Gain and cost of vectors: words, the model alone, and both, on an evaluation kit's sets.

    python -m bench.quality.semantic --kit KIT --built BUILT [--provider local] [--sets NAME ...]

In process. Differences are paired: the same query, with and without. See eval_sets.py for KIT and BUILT,
intervals.py for intervals.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.common.figures import Section, Setup
from bench.common.intervals import mean_of
from bench.quality.eval_sets import MEMORIES, RANKED, Sets
from bench.quality.semantic_weights import measure_arms
from cortex.base.types import Mode
from cortex.engine.embedders.static import StaticEmbedder

GAIN = 0.02  # nDCG@10 that both together should have over words, mean of the ranked sets
BEHIND, BEHIND_ONE = -0.01, -0.02  # of the better arm, on the mean of all sets and on any
ALONE = {"semble": 0.70}
EVERY = (*RANKED, *MEMORIES)
ARMS = {"words": Mode.WORDS, "meaning": Mode.MEANING, "both": Mode.HYBRID}
LINES = 50  # of the chunks that speed is measured with
SPEED = {"load ms": 30.0, "query ms": 0.2}
CHUNKS_PER_SECOND = 3_000

Scores = Mapping[str, Mapping[str, np.ndarray]]  # set -> arm -> score of each query


def measure(
    setup: Setup, kit: Path, built: Path, provider: str = "local", names: Sequence[str] = EVERY
) -> Section:
    """Every arm on every set, by category, and what embedding costs."""
    section = Section(
        "meaning" if provider == "local" else f"meaning-{provider}", f"Meaning ({provider})"
    )
    with Sets(setup, kit, built, names, provider) as sets:
        scores = {
            name: {arm: sets.scores(name, mode=mode) for arm, mode in ARMS.items()}
            for name in sets.names
        }
        _judge(section, scores)
        parts = [
            "nDCG@10 in process, 20 hits; in brackets the 95 % interval, differences paired by query, bold where it excludes 0.",
            _table(scores, setup.seed),
            "By category:",
            _categories(sets, scores, setup.seed),
        ]
        if provider == "local" and not setup.quick:
            parts += [
                "**What nearness weighs**, by kind of source and class of query (`made`: of kinds that no set has, MRR@10): the best weight of a group, and what weights are worth that were "
                "picked without the repository (in a source that is one repository: without a fifth of the queries) on which they are judged.",
                measure_arms(sets, setup.seed),
            ]
    if provider == "local":
        _cost(section)
    section.text = "\n\n".join(parts)
    return section


def _judge(section: Section, scores: Scores) -> None:
    gains = {name: (arms["both"] - arms["words"]).mean() for name, arms in scores.items()}
    ranked = [name for name in scores if name in RANKED]
    section.at_least(
        "both - words, mean of the ranked sets", np.mean([gains[name] for name in ranked]), GAIN
    )
    for name in ranked:
        section.at_least(f"{name}, both - words", gains[name], 0.0)
    behind = {
        name: arms["both"].mean() - max(arms["words"].mean(), arms["meaning"].mean())
        for name, arms in scores.items()
    }
    section.at_least(
        "both - the better arm, mean of all sets", np.mean(list(behind.values())), BEHIND
    )
    section.at_least("both - the better arm, worst set", min(behind.values()), BEHIND_ONE)
    for name in ALONE.keys() & scores.keys():
        section.at_least(f"{name}, the model alone", scores[name]["meaning"].mean(), ALONE[name])


def _table(scores: Scores, seed: int) -> str:
    lines = [
        "| set | queries | words | the model alone | both | both - words |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, arms in scores.items():
        cells = [f"{mean_of(arm, seed)}" for arm in arms.values()]
        lines.append(
            f"| {name} | {len(arms['words'])} | {' | '.join(cells)} | {mean_of(arms['both'] - arms['words'], seed).signed()} |"
        )
    return "\n".join(lines)


def _categories(sets: Sets, scores: Scores, seed: int) -> str:
    lines = [
        "| set, category | queries | words | the model alone | both | both - words |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, arms in scores.items():
        of = np.array([str(row.get("category", "")) for row in sets.rows[name]])
        for category in sorted(set(of)):
            mine = of == category
            if not category or mine.all():
                continue
            cells = [f"{arm[mine].mean():.3f}" for arm in arms.values()]
            gain = mean_of((arms["both"] - arms["words"])[mine], seed).signed()
            lines.append(f"| {name}, {category} | {mine.sum()} | {' | '.join(cells)} | {gain} |")
    return "\n".join(lines)


def _cost(section: Section) -> None:
    texts = [
        text
        for path in sorted(Path(__file__).parents[2].glob("src/**/*.py"))
        for text in _windows(path)
    ]
    started = time.process_time()
    embedder = StaticEmbedder()
    embedder.embed(["x"], "query")
    section.add(
        "loading the model", "CPU ms", 1000 * (time.process_time() - started), SPEED["load ms"]
    )
    queries = [text.strip().split("\n", 1)[0][:60] for text in texts]
    section.add(
        "embedding a query", "CPU ms", 1000 * _seconds(embedder, queries, 1), SPEED["query ms"]
    )
    section.at_least(
        "50-line chunks per CPU second", 1 / _seconds(embedder, texts, 256), CHUNKS_PER_SECOND
    )


def _windows(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        "\n".join(lines[start : start + LINES]) for start in range(0, len(lines) - LINES, LINES)
    ]


def _seconds(embedder: StaticEmbedder, texts: list[str], batch: int) -> float:
    """CPU seconds for one text, after a first pass that doesn't count."""
    for _ in range(2):
        started = time.process_time()
        for start in range(0, len(texts), batch):
            embedder.embed(texts[start : start + batch], "passage" if batch > 1 else "query")
        took = time.process_time() - started
    return took / len(texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kit", type=Path, required=True)
    parser.add_argument("--built", type=Path, required=True)
    parser.add_argument("--provider", default="local")
    parser.add_argument("--sets", nargs="+", default=EVERY)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cortex-meaning-") as work:
        setup = Setup(Path(work).resolve(), quick=False, repeat=1)
        print(
            measure(
                setup,
                options.kit.resolve(),
                options.built.resolve(),
                options.provider,
                options.sets,
            ).render()
        )


if __name__ == "__main__":
    main()
