"""The two logistic models of `relevance`, fitted anew beside the constants of the code.

`known` learns from the first hits of a query whose answer was found and of the same kind of query
asked of a repository that has none; `right` from each of the first ten hits.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from bench.quality.ablation import SEARCH, constants
from bench.quality.eval_sets import Row, Sets
from cortex.base.types import Mode, Query
from cortex.engine.search.features import Candidate
from cortex.engine.search.query_parser import Parsed

CODE = import_module("cortex.engine.search.calibration")
TABLE = import_module("cortex.engine.search.weights")
HITS = 10
RESAMPLES = 200
STEPS = 60
PENALTY = 1e-4


@dataclass(frozen=True, slots=True)
class Asked:
    """Features and labels of a query asked of a corpus."""

    group: str  # queries of a group weigh as much as those of any other
    known: tuple[float, ...]  # features, the constant included
    right: list[tuple[float, ...]]  # the same of each hit
    labels: list[bool]


def fit_table(sets: Sets, seed: int, mode: Mode) -> str:
    """Both models of a mode: the constant in the code, fitted anew, and its interval."""
    answered = [
        asked
        for name in sets.names
        for row in sets.rows[name]
        if (asked := _ask(sets, name, row, mode))
    ]
    absent = [
        asked
        for name, corpus, row in _strangers(sets)
        if (asked := _ask(sets, name, row, mode, corpus))
    ]
    lines = [
        "| model | feature | in the code | fitted anew | 95 % interval | within |",
        "|---|---|---:|---:|---:|---|",
    ]
    fits = TABLE.FITS[mode]
    models = (
        ("known", TABLE.KNOWN, fits.known, *_known_rows(answered, absent)),
        ("right", TABLE.RIGHT, fits.right, *_right_rows(answered)),
    )
    for model, features, now, rows, labels, groups, queries in models:
        # The others say nothing in this mode
        used = [number for number, weight in enumerate(now) if weight]
        fitted, low, high = _with_intervals(rows[:, used], labels, groups, queries, seed)
        for place, number in enumerate(used):
            within = "yes" if low[place] <= now[number] <= high[place] else "no"
            cells = [model, features[number], f"{now[number]:.2f}", f"{fitted[place]:.2f}"]
            lines.append(
                f"| {' | '.join(cells)} | {low[place]:.2f} to {high[place]:.2f} | {within} |"
            )
    lines += [
        "",
        f"{len(answered):,} queries, {len(absent):,} without an answer, {sum(len(asked.right) for asked in answered):,} hits.",
    ]
    return "\n".join(lines)


def _ask(sets: Sets, name: str, row: Row, mode: Mode, corpus: str = "") -> Asked | None:
    """Features of a query's answer; with `corpus`, of one that has no answer to it."""
    seen: list[tuple[Sequence[Candidate], Parsed]] = []
    relate = SEARCH.relate

    def record(ranked: Sequence[Candidate], parsed: Parsed, mode: Mode) -> None:
        seen.append((ranked, parsed))
        relate(ranked, parsed, mode)

    with constants(SEARCH, relate=record):
        sets.engine(name, corpus or row["corpus"]).search(Query(row["query"], mode=mode, limit=1))
    ranked, parsed = seen[0]
    if not ranked:
        return None
    groups = SEARCH.merge(ranked, HITS)[0]
    best = max(ranked[0].score, 1e-9)
    return Asked(
        group=f"absent {name}" if corpus else name,
        known=CODE.known_features(ranked[:3], parsed),
        right=[CODE.right_features(group.best, group.best.score / best) for group in groups],
        labels=[
            not corpus
            and sets.hits_target(row, group.best.place.doc.path, group.start_line, group.end_line)
            for group in groups
        ],
    )


def _strangers(sets: Sets) -> list[tuple[str, str, Row]]:
    """Queries with a corpus that has no answer: another repository, notebooks, or conversations."""
    draw = random.Random(3)
    trees, talks = sets.corpora("semble"), sets.corpora("locomo")
    found: list[tuple[str, str, Row]] = []
    for name in ("semble", "semble-full"):
        for row in sets.rows[name]:
            others = [tree for tree in trees if tree != row["corpus"]]
            found += [(name, corpus, row) for corpus in draw.sample(others, 2)]
    found += [("semble", draw.choice(trees), row) for row in sets.rows["cookbook-files"]]
    found += [("semble", draw.choice(trees), row) for row in draw.sample(sets.rows["locomo"], 100)]
    found += [("locomo", draw.choice(talks), row) for row in draw.sample(sets.rows["semble"], 100)]
    for row in draw.sample(sets.rows["locomo"], 150):
        found.append(
            ("locomo", draw.choice([talk for talk in talks if talk != row["corpus"]]), row)
        )
    return found


Rows = tuple[np.ndarray, np.ndarray, list[str], np.ndarray]  # features, labels, groups, queries


def _known_rows(answered: Sequence[Asked], absent: Sequence[Asked]) -> Rows:
    used = [asked for asked in answered if any(asked.labels)]
    rows = [*used, *absent]
    labels = np.array([1.0] * len(used) + [0.0] * len(absent))
    features = np.array([row.known for row in rows])
    return features, labels, [row.group for row in rows], np.arange(len(rows))


def _right_rows(answered: Sequence[Asked]) -> Rows:
    return (
        np.array([hit for asked in answered for hit in asked.right]),
        np.array([float(label) for asked in answered for label in asked.labels]),
        [asked.group for asked in answered for _ in asked.right],
        np.array([number for number, asked in enumerate(answered) for _ in asked.right]),
    )


def _with_intervals(
    rows: np.ndarray, labels: np.ndarray, groups: Sequence[str], queries: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = Counter(groups)
    weights = np.array([1 / counts[group] for group in groups])
    weights /= weights.mean()
    fitted = fit(rows, labels, weights)
    draw = np.random.default_rng(seed)
    drawn = [
        fit(
            rows,
            labels,
            weights
            * np.bincount(
                draw.integers(0, queries.max() + 1, queries.max() + 1), minlength=queries.max() + 1
            )[queries],
        )
        for _ in range(RESAMPLES)
    ]
    low, high = np.percentile(np.array(drawn), (2.5, 97.5), axis=0)
    return fitted, low, high


def fit(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Logistic regression by Newton's method, with a little ridge."""
    found = np.zeros(rows.shape[1])
    ridge = PENALTY * len(labels)
    for _ in range(STEPS):
        shares = 1 / (1 + np.exp(-np.clip(rows @ found, -30, 30)))
        slope = rows.T @ (weights * (shares - labels)) + ridge * found
        bend = (rows * (weights * shares * (1 - shares))[:, None]).T @ rows + ridge * np.eye(
            len(found)
        )
        step = np.linalg.solve(bend, slope)
        found -= step
        if np.abs(step).max() < 1e-6:
            break
    return found
