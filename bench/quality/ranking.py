"""Scores of the ranker: beside semble, without each rule, and with held-out constants.

    python -m bench.quality.ranking --kit KIT --built BUILT --semble-python VENV/bin/python --semble-model DIR

Embedder `none`, in process. Differences are paired: the same query, with and without. See eval_sets.py
for KIT and BUILT, intervals.py for intervals.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bench.common.figures import Section, Setup
from bench.common.intervals import mean_of
from bench.peers.semble import Semble
from bench.quality.ablation import LEFT_OUT, PARSE, WITHOUT, Change
from bench.quality.cross_validation import measure_folds
from bench.quality.eval_sets import RANKED, Sets
from bench.quality.generated_queries import measure_made

LEAST = {"semble": 0.86, "semble-full": 0.82, "cookbook-files": 0.82, "cookbook-chunks": 0.73}
# Lower end of the interval of the difference to semble
LEAST_BESIDE = {"semble": -0.01, "semble-full": -0.01}
LITTLE = 0.002  # nDCG@10 that counts as a change of a repository

Scores = Mapping[str, np.ndarray]


def measure(setup: Setup, kit: Path, built: Path, semble: Semble | None) -> Section:
    """Scores, ablation and folds."""
    section = Section("ranking", "Ranking")
    with Sets(setup, kit, built, RANKED) as sets:
        theirs = sets.semble_scores(semble) if semble else {}
        base = {name: sets.scores(name) for name in sets.names}
        for name in sets.names:
            section.at_least(f"{name}, nDCG@10", base[name].mean(), LEAST.get(name))
            if name in theirs and name in LEAST_BESIDE:
                low = mean_of(base[name] - theirs[name], setup.seed).low
                section.at_least(
                    f"{name}, difference to semble, lower end", low, LEAST_BESIDE[name]
                )
        parts = [
            "nDCG@10 in process, embedder `none`, 20 hits; in brackets the 95 % interval, differences paired by query, bold where it excludes 0.",
            _beside(sets, base, theirs, setup.seed),
            _classes(sets),
            "**Every rule switched off**: what is lost or won without it, on how many of the repositories (whole trees), and the mean of the sets.",
            _changed(sets, base, WITHOUT, setup.seed),
            "**Rules that were tried and left out**, switched on. (A field of its own for signatures was the fourth: the index no longer has it.)",
            _changed(sets, base, LEFT_OUT, setup.seed),
            "**Queries of kinds that no set has**, made from the whole trees (made.py): what is lost without the rules for them.",
            measure_made(sets, setup.seed),
            "**One repository left out**: each weight on a small grid, chosen on the six other repositories and the notebooks (mean of the sets), judged on the whole "
            "tree of the seventh; then all weights at once as each fold picked them. The chosen constants have seen every repository, the picked ones have not: the difference is what "
            "to expect less on repositories that nobody has looked at.",
            measure_folds(sets, base, setup.seed) if not setup.quick else "Not with `--quick`.",
        ]
    section.text = "\n\n".join(parts)
    return section


def _beside(sets: Sets, base: Scores, theirs: Scores, seed: int) -> str:
    lines = ["| set | queries | Cortex | semble 0.7.0 | difference |", "|---|---:|---:|---:|---:|"]
    for name in sets.names:
        other, difference = "", ""
        if name in theirs:
            other = f"{theirs[name].mean():.3f}"
            difference = mean_of(base[name] - theirs[name], seed).signed()
        lines.append(
            f"| {name} | {len(base[name])} | {mean_of(base[name], seed)} | {other} | {difference} |"
        )
    return "\n".join(lines)


def _classes(sets: Sets) -> str:
    """Number of queries of each class: a rule of a class without queries shows nothing."""
    parts: list[str] = []
    for name in sets.names:
        counts = Counter(
            str(class_) for row in sets.rows[name] for class_ in PARSE.parse(row["query"]).classes
        )
        parts.append(
            f"{name}: {', '.join(f'{query_class} {count}' for query_class, count in counts.most_common())}"
        )
    return f"Queries by class, where one may have several. {'; '.join(parts)}."


def _changed(sets: Sets, base: Scores, changes: Mapping[str, Change], seed: int) -> str:
    lines = [
        f"| | {' | '.join(sets.names)} | repositories worse, better | mean |",
        "|---|" + "---:|" * (len(sets.names) + 2),
    ]
    corpora = np.array([row["corpus"] for row in sets.rows["semble-full"]])
    for label, change in changes.items():
        with change():
            differences = {name: sets.scores(name) - base[name] for name in sets.names}
        cells = [
            mean_of(difference, seed).signed() if difference.any() else "0"
            for difference in differences.values()
        ]
        by_tree = [
            differences["semble-full"][corpora == corpus].mean()
            for corpus in sets.corpora("semble-full")
        ]
        worse, better = (
            sum(difference < -LITTLE for difference in by_tree),
            sum(difference > LITTLE for difference in by_tree),
        )
        mean = np.mean([difference.mean() for difference in differences.values()])
        lines.append(f"| {label} | {' | '.join(cells)} | {worse}, {better} | {mean:+.3f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kit", type=Path, required=True)
    parser.add_argument("--built", type=Path, required=True)
    parser.add_argument("--semble-python", help="the Python of an environment that has semble")
    parser.add_argument("--semble-model", help="folder of a local model2vec model")
    parser.add_argument("--quick", action="store_true", help="without the folds")
    options = parser.parse_args()
    semble = None
    if options.semble_python and options.semble_model:
        model = str(Path(options.semble_model).resolve())
        semble = Semble(os.path.abspath(options.semble_python), model, mcp=True)
    with tempfile.TemporaryDirectory(prefix="cortex-ranking-") as work:
        setup = Setup(Path(work).resolve(), quick=options.quick, repeat=1)
        print(measure(setup, options.kit.resolve(), options.built.resolve(), semble).render())


if __name__ == "__main__":
    main()
