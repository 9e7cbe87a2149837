"""Leave one repository out: scores of constants chosen without it.

For each weight a small grid around the chosen value. A fold chooses on everything but one
repository, by the mean over the sets, and is scored on that repository's whole tree; equal values
leave the constant as it is. "All at once" takes the fold's choices together, the one that gains
most first, each as long as it still gains something with those before it. The last fold leaves out
the notebooks and chooses on the repositories alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from bench.common.intervals import mean_of
from bench.quality.ablation import KNOBS, Knob
from bench.quality.eval_sets import Sets

TREES = ("semble", "semble-full")
NOTEBOOKS = ("cookbook-files", "cookbook-chunks")
SAME = 1e-9

Scores = Mapping[str, np.ndarray]  # of a set, query by query


@dataclass(frozen=True, slots=True)
class Fold:
    """Queries to choose by, and queries to be judged by, as masks over the queries of each set."""

    name: str
    learn: Mapping[str, np.ndarray]
    judge: Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Pick:
    """A value that a fold prefers, and its gain there by itself."""

    gain: float
    knob: Knob
    value: float


def make_folds(sets: Sets) -> list[Fold]:
    """A fold for each repository, and one for the notebooks."""
    of = {name: np.array([row["corpus"] for row in sets.rows[name]]) for name in sets.names}
    folds = [
        Fold(
            corpus,
            {name: of[name] != corpus for name in sets.names},
            {"semble-full": of["semble-full"] == corpus},
        )
        for corpus in sets.corpora("semble-full")
    ]
    everything = {name: np.ones(len(of[name]), dtype=bool) for name in sets.names}
    notebooks = Fold(
        "the notebooks",
        {name: everything[name] for name in TREES},
        {name: everything[name] for name in NOTEBOOKS},
    )
    return [*folds, notebooks]


def learnt(fold: Fold, scores: Scores) -> float:
    """The score that a fold chooses by: the mean over its sets."""
    return float(
        np.mean([scores[name][mask].mean() for name, mask in fold.learn.items() if mask.any()])
    )


def judged(fold: Fold, scores: Scores) -> np.ndarray:
    """The scores of the queries that were left out."""
    return np.concatenate([scores[name][mask] for name, mask in fold.judge.items()])


def choose(fold: Fold, chosen: float, by_value: Mapping[float, Scores]) -> float:
    """The best value for the queries that the fold sees; the chosen one if nothing is better."""
    best, worth = chosen, learnt(fold, by_value[chosen])
    for value, scores in by_value.items():
        if learnt(fold, scores) > worth + SAME:
            best, worth = value, learnt(fold, scores)
    return best


def measure_folds(sets: Sets, base: Scores, seed: int) -> str:
    """Both tables: weight by weight, and fold by fold with all weights at once."""
    folds = make_folds(sets)
    picks: list[list[Pick]] = [[] for _ in folds]
    lines = [
        "| weight | chosen | tried | picked by the folds | left out: chosen | left out: picked | best in hindsight |",
        "|---|---:|---|---|---:|---:|---:|",
    ]
    trees = folds[:-1]
    for knob in KNOBS:
        by_value = _turned(sets, base, knob)
        values = [choose(fold, knob.chosen, by_value) for fold in folds]
        for fold, value, found in zip(folds, values, picks, strict=True):
            if value != knob.chosen:
                found.append(Pick(learnt(fold, by_value[value]) - learnt(fold, base), knob, value))
        at = [judged(fold, by_value[value]) for fold, value in zip(trees, values, strict=False)]
        best = [max(judged(fold, scores).mean() for scores in by_value.values()) for fold in trees]
        sizes = [len(scores) for scores in at]
        cells = [
            knob.name,
            f"{knob.chosen:g}",
            " ".join(f"{value:g}" for value in knob.grid),
            _counted(values[:-1]),
            f"{np.concatenate([judged(fold, base) for fold in trees]).mean():.3f}",
            f"{np.concatenate(at).mean():.3f}",
            f"{np.average(best, weights=sizes):.3f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_all_at_once(sets, base, folds, picks, seed)])


def _turned(sets: Sets, base: Scores, knob: Knob) -> dict[float, Scores]:
    out: dict[float, Scores] = {knob.chosen: base}
    for value in knob.grid:
        if value != knob.chosen:
            with knob.turn(value):
                out[value] = {name: sets.scores(name) for name in sets.names}
    return out


def _all_at_once(
    sets: Sets, base: Scores, folds: Sequence[Fold], picks: Sequence[Sequence[Pick]], seed: int
) -> list[str]:
    lines = [
        "| left out | queries | nDCG@10, chosen constants | constants picked without it | difference | picked |",
        "|---|---:|---:|---:|---:|---|",
    ]
    ours, theirs = [], []
    for fold, found in zip(folds, picks, strict=True):
        kept, scores = _together(sets, base, fold, found)
        here, there = judged(fold, base), judged(fold, scores)
        label = ", ".join(f"{pick.knob.name} {pick.value:g}" for pick in kept)
        lines.append(f"{_row(fold.name, here, there, seed)} {label} |")
        if fold is not folds[-1]:
            ours.append(here)
            theirs.append(there)
    lines.insert(
        -1, f"{_row('**all seven**', np.concatenate(ours), np.concatenate(theirs), seed)} |"
    )
    return lines


def _together(
    sets: Sets, base: Scores, fold: Fold, picks: Sequence[Pick]
) -> tuple[list[Pick], Scores]:
    """The picks that gain something together for the fold, and the scores with them."""
    kept: list[Pick] = []
    best = base
    for pick in sorted(picks, key=lambda pick: -pick.gain):
        with ExitStack() as stack:
            for used in [*kept, pick]:
                stack.enter_context(used.knob.turn(used.value))
            scores = {name: sets.scores(name) for name in sets.names}
        if learnt(fold, scores) > learnt(fold, best) + SAME:
            best = scores
            kept.append(pick)
    return kept, best


def _row(name: str, ours: np.ndarray, theirs: np.ndarray, seed: int) -> str:
    difference = mean_of(theirs - ours, seed).signed()
    return f"| {name} | {len(ours)} | {ours.mean():.3f} | {theirs.mean():.3f} | {difference} |"


def _counted(values: Sequence[float]) -> str:
    counts = {value: values.count(value) for value in sorted(set(values))}
    return ", ".join(f"{value:g} ×{count}" for value, count in counts.items())
