"""Reliability of `relevance`: recall at the cut of .65, and precision by tenths.

    python -m bench.quality.relevance --kit KIT --built BUILT [--fit]

`--fit` (in `make bench` always, but for `--quick`) fits both probabilities of
`cortex.engine.search.weights` anew; see relevance_fit.py. absent.txt holds questions about
things that none of the repositories is about, absent_later.txt more of them, written when the
constants stood: don't tune by those. See eval_sets.py for KIT and BUILT, intervals.py for intervals.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from bench.common.figures import Section, Setup
from bench.common.intervals import mean_of, share_of
from bench.quality.eval_sets import MEMORIES, RANKED, Sets
from bench.quality.relevance_fit import fit_table
from cortex.base.types import Mode, Query
from cortex.engine.search.weights import CUT

ARMS = (
    ("words only", "none", (Mode.WORDS,)),
    ("words and meaning", "local", (Mode.HYBRID, Mode.MEANING)),
)
HITS = 10
KEPT = 0.98  # of recall@10
SILENT = 0.8  # of the absent questions
ABSENT = Path(__file__).with_name("absent.txt")
LATER = Path(__file__).with_name("absent_later.txt")


def measure(setup: Setup, kit: Path, built: Path, fit: bool) -> Section:
    """Measure recall at the cut, absent questions, tenths and fits, by words and with vectors."""
    section = Section("relevance", "Relevance")
    parts = [f"The default threshold is {CUT:g}; in brackets the 95 % interval."]
    for label, provider, modes in ARMS:
        with Sets(setup, kit, built, (*RANKED, *MEMORIES), provider) as sets:
            parts += [
                f"**{label.capitalize()}**",
                _recall(section, sets, setup.seed, label),
                _absent(section, sets, label),
                "How often a hit among the first ten is right, by its relevance, all sets (a set's labels don't name every right place):",
                _tenths(sets, setup.seed),
            ]
            for mode in modes if fit else ():
                parts += [
                    f"**The two logistic models of mode {mode} fitted anew** (`known`: the source has the answer; `right`: this hit is one), questions "
                    "asked of another repository as those without an answer, every set of equal weight; intervals by resampling whole queries:",
                    fit_table(sets, setup.seed, mode),
                ]
    section.text = "\n\n".join(parts)
    return section


def _recall(section: Section, sets: Sets, seed: int, label: str) -> str:
    lines = [
        f"| set | queries | recall@10 | with threshold {CUT:g} | ratio |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in sets.names:
        whole = sets.scores(name, "recall10", HITS)
        kept = sets.scores(name, "recall10", HITS, CUT)
        ratio = share_of(kept, whole, seed)
        lines.append(
            f"| {name} | {len(whole)} | {mean_of(whole, seed)} | {kept.mean():.3f} | {ratio} |"
        )
        section.at_least(
            f"{label}: {name}, recall@10 with the threshold / without", ratio.mean, KEPT
        )
    return "\n".join(lines)


def _absent(section: Section, sets: Sets, label: str) -> str:
    questions = [path.read_text(encoding="utf-8").splitlines() for path in (ABSENT, LATER)]
    first, later = map(len, questions)
    lines = [
        f"Questions about things that aren't there, and the share of them with nothing above the cut: {first} that the constants were chosen by, and {later} written later.",
        "",
        f"| repository | first {first} | later {later} |",
        "|---|---:|---:|",
    ]
    shares: list[list[float]] = []
    for corpus in sets.corpora("semble-full"):
        engine = sets.engine("semble-full", corpus)
        silent = [
            [not engine.search(Query(text, limit=1, threshold=CUT)).hits for text in part]
            for part in questions
        ]
        shares.append([float(np.mean(part)) for part in silent])
        lines.append(f"| {corpus} | {shares[-1][0]:.2f} | {shares[-1][1]:.2f} |")
    means = np.mean(shares, axis=0)
    for when, column, mean in zip(
        ("first", "later"), zip(*shares, strict=True), means, strict=True
    ):
        section.at_least(
            f"{label}: absent questions ({when}) with no hit, mean of the repositories",
            mean,
            SILENT,
        )
        section.at_least(
            f"{label}: absent questions ({when}) with no hit, worst repository", min(column), SILENT
        )
    return "\n".join([*lines, f"| **mean** | {means[0]:.2f} | {means[1]:.2f} |"])


def _tenths(sets: Sets, seed: int) -> str:
    right, shown = [], []
    for name in sets.names:
        for row in sets.rows[name]:
            counts = np.zeros((2, 10))
            for hit in sets.ask(name, row, HITS):
                tenth = min(9, int(hit.relevance * 10))
                counts[0, tenth] += sets.hits_target(row, hit.path, hit.start_line, hit.end_line)
                counts[1, tenth] += 1
            right.append(counts[0])
            shown.append(counts[1])
    rights, showns = np.array(right), np.array(shown)
    lines = ["| relevance | hits | share right |", "|---|---:|---:|"]
    for tenth in range(10):
        if count := int(showns[:, tenth].sum()):
            share = share_of(rights[:, tenth], showns[:, tenth], seed)
            lines.append(f"| {tenth / 10:.1f} to {(tenth + 1) / 10:.1f} | {count:,} | {share} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kit", type=Path, required=True)
    parser.add_argument("--built", type=Path, required=True)
    parser.add_argument("--fit", action="store_true", help="fit both models anew")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cortex-relevance-") as work:
        setup = Setup(Path(work).resolve(), quick=False, repeat=1)
        print(measure(setup, options.kit.resolve(), options.built.resolve(), options.fit).render())


if __name__ == "__main__":
    main()
