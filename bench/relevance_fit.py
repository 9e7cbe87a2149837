"""The two logistic models behind `relevance`, fitted on the development sets, beside the constants that are in the code.

`known` learns from the first hits of a query whose answer was found and of the same kind of query asked of a repository that has none;
`right` from every one of the first ten hits. The constants in the code aren't copied here: they are what explains the code's own
probabilities on these features, so a model that changes there without changing here shows as a residual.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

import numpy as np
from rules import SEARCH, constants
from sets import Row, Sets

from cortex.search.evidence import Candidate
from cortex.search.parse import Parsed
from cortex.types import Query

CODE = import_module("cortex.search.relevance")
KNOWN = ("log(.02 + covers)", "log words", "defines", "prose", "constant")
RIGHT = ("covers", "defines", "joins", "stem", "share of the best score", "constant")
HITS = 10
RESAMPLES = 200
STEPS = 60
PENALTY = 1e-4


@dataclass(frozen=True, slots=True)
class Asked:
    """What one query of one corpus showed."""

    group: str  # queries of a group weigh as much as those of any other
    known: tuple[float, ...]  # features, the constant included
    known_by_code: float  # the code's probability
    right: list[tuple[float, ...]]  # the same of each hit
    right_by_code: list[float]
    labels: list[bool]


def fit_table(sets: Sets, seed: int) -> str:
    """Both models: the constant in the code, fitted anew, and its interval."""
    answered = [one for name in sets.names for row in sets.rows[name] if (one := _ask(sets, name, row))]
    absent = [one for name, corpus, row in _strangers(sets) if (one := _ask(sets, name, row, corpus))]
    lines = ["| model | feature | in the code | fitted anew | 95 % interval | within |", "|---|---|---:|---:|---:|---|"]
    models = (("known", KNOWN, *_known_rows(answered, absent)), ("right", RIGHT, *_right_rows(answered)))
    for model, features, rows, labels, groups, queries, by_code in models:
        now = np.linalg.lstsq(rows, np.log(by_code / (1 - by_code)), rcond=None)[0]
        fitted, low, high = _with_intervals(rows, labels, groups, queries, seed)
        for number, feature in enumerate(features):
            within = "yes" if low[number] <= now[number] <= high[number] else "no"
            cells = [model, feature, f"{now[number]:.2f}", f"{fitted[number]:.2f}"]
            lines.append(f"| {' | '.join(cells)} | {low[number]:.2f} to {high[number]:.2f} | {within} |")
    lines += [
        "",
        f"{len(answered):,} queries, {len(absent):,} without an answer, {sum(len(one.right) for one in answered):,} hits.",
    ]
    return "\n".join(lines)


def _ask(sets: Sets, name: str, row: Row, corpus: str = "") -> Asked | None:
    """Features of a query's answer; with `corpus`, of one that has no answer to it."""
    seen: list[tuple[Sequence[Candidate], Parsed]] = []
    relate = SEARCH.relate

    def looking(ranked: Sequence[Candidate], parsed: Parsed) -> None:
        seen.append((ranked, parsed))
        relate(ranked, parsed)

    with constants(SEARCH, relate=looking):
        sets.engine(name, corpus or row["corpus"]).search(Query(row["query"], limit=1))
    ranked, parsed = seen[0]
    if not ranked:
        return None
    groups = SEARCH.merge(ranked, HITS)[0]
    best = max(ranked[0].score, 1e-9)
    return Asked(
        group=f"absent {name}" if corpus else name,
        known=_known(ranked[:3], parsed),
        known_by_code=CODE._known(ranked[:3], parsed),
        right=[_right(group.best, group.best.score / best) for group in groups],
        right_by_code=[CODE._right(group.best, group.best.score / best) for group in groups],
        labels=[
            not corpus and sets.hits_target(row, group.best.place.doc.path, group.start_line, group.end_line)
            for group in groups
        ],
    )


def _known(top: Sequence[Candidate], parsed: Parsed) -> tuple[float, ...]:
    return (
        math.log(0.02 + max(map(_covers, top))),
        math.log(max(1, len(parsed.weights))),
        max(max(min(1.0, one.defines), one.joins, one.located) for one in top),
        sum(one.place.doc.language in CODE.PROSE for one in top) / len(top),
        1.0,
    )


def _right(one: Candidate, share: float) -> tuple[float, ...]:
    return (_covers(one), max(min(1.0, one.defines), one.located), one.joins, one.stem, share, 1.0)


def _covers(one: Candidate) -> float:
    return max(one.covers, one.meaning, one.phrase)


def _strangers(sets: Sets) -> list[tuple[str, str, Row]]:
    """Queries with a corpus that doesn't know the answer: of other repositories, notebooks, conversations."""
    draw = random.Random(3)
    trees, talks = sets.corpora("semble"), sets.corpora("locomo")
    found: list[tuple[str, str, Row]] = []
    for name in ("semble", "semble-full"):
        for row in sets.rows[name]:
            others = [one for one in trees if one != row["corpus"]]
            found += [(name, corpus, row) for corpus in draw.sample(others, 2)]
    found += [("semble", draw.choice(trees), row) for row in sets.rows["cookbook-files"]]
    found += [("semble", draw.choice(trees), row) for row in draw.sample(sets.rows["locomo"], 100)]
    found += [("locomo", draw.choice(talks), row) for row in draw.sample(sets.rows["semble"], 100)]
    for row in draw.sample(sets.rows["locomo"], 150):
        found.append(("locomo", draw.choice([one for one in talks if one != row["corpus"]]), row))
    return found


Rows = tuple[
    np.ndarray, np.ndarray, list[str], np.ndarray, np.ndarray
]  # features, labels, groups, queries, by the code


def _known_rows(answered: Sequence[Asked], absent: Sequence[Asked]) -> Rows:
    used = [one for one in answered if any(one.labels)]
    rows = [*used, *absent]
    labels = np.array([1.0] * len(used) + [0.0] * len(absent))
    features = np.array([one.known for one in rows])
    return (
        features,
        labels,
        [one.group for one in rows],
        np.arange(len(rows)),
        np.array([one.known_by_code for one in rows]),
    )


def _right_rows(answered: Sequence[Asked]) -> Rows:
    return (
        np.array([hit for one in answered for hit in one.right]),
        np.array([float(label) for one in answered for label in one.labels]),
        [one.group for one in answered for _ in one.right],
        np.array([number for number, one in enumerate(answered) for _ in one.right]),
        np.array([value for one in answered for value in one.right_by_code]),
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
            * np.bincount(draw.integers(0, queries.max() + 1, queries.max() + 1), minlength=queries.max() + 1)[queries],
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
        bend = (rows * (weights * shares * (1 - shares))[:, None]).T @ rows + ridge * np.eye(len(found))
        step = np.linalg.solve(bend, slope)
        found -= step
        if np.abs(step).max() < 1e-6:
            break
    return found
