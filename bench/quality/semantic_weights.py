"""Weights of semantic similarity by query class and source, judged on held-out queries.

Every query is asked at each weight of a grid. A group's weight is picked on all of its repositories
but one and judged on that one; where a group has one repository only, fifths of its queries take
their place. Groups with a weight of their own would gain what the last column says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.common.intervals import mean_of
from bench.quality.ablation import PLAIN, weights
from bench.quality.eval_sets import Sets
from bench.quality.generated_queries import SET, Made, make_queries, reciprocal
from cortex.base.types import Mode
from cortex.engine.search.query_parser import parse

GRID = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # 0: by words
KINDS = {
    "semble": "code",
    "semble-full": "code",
    "locomo": "conversations",
    "locomo-session": "conversations",
}
NOTEBOOKS = "notebooks"
FOLDS = 5
FEW = 15  # queries of a group below which it isn't shown by itself
SAME = 1e-9

Group = tuple[str, str]  # kind of source, class of query


@dataclass(frozen=True, slots=True)
class Asked:
    """A query with its scores, one for each weight of the grid, and by the model alone."""

    group: Group
    fold: str  # of one repository
    scores: tuple[float, ...]
    alone: float


def measure_arms(sets: Sets, seed: int) -> str:
    """Measure words, model and both by group, with the gain of each group's best weight.

    The gain is measured on queries that the weight was not picked by.
    """
    asked = [*_of_sets(sets), *_of_made(sets, seed)]
    groups: dict[Group, list[Asked]] = {}
    for query in asked:
        groups.setdefault(query.group, []).append(query)
    lines = [
        f"| source, class of query | queries | words | the model alone | both, at {PLAIN.meaning:g} | both - words | best weight | gain in hindsight | "
        "weights picked | gain on what they were not picked by |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|---:|",
    ]
    own: list[np.ndarray] = []
    for group, rows in sorted(groups.items()):
        if len(rows) >= FEW:
            line, gain = _row(group, rows, seed)
            lines.append(line)
            if not group[1].startswith("made:"):
                own.append(gain)
    lines += [
        "",
        f"A weight for each group, picked so, on all queries of the sets: {_together(own, seed)} over one weight.",
    ]
    best = np.array(
        [
            max(query.scores) - query.scores[0]
            for query in asked
            if not query.group[1].startswith("made:")
        ]
    )
    lines.append(
        f"The best weight of every single query in hindsight, over words: {mean_of(best, seed).signed()}."
    )
    return "\n".join(lines)


def _of_sets(sets: Sets) -> list[Asked]:
    """The queries of the sets; a query that two sets of a kind ask counts in both."""
    found: list[Asked] = []
    for name in sets.names:
        by_weight = [_scores(sets, name, weight) for weight in GRID]
        alone = sets.scores(name, mode=Mode.MEANING)
        for number, row in enumerate(sets.rows[name]):
            group = (KINDS.get(name, NOTEBOOKS), " + ".join(parse(row["query"]).classes))
            fold = row["corpus"] if len(sets.corpora(name)) > 1 else str(number % FOLDS)
            found.append(
                Asked(
                    group,
                    fold,
                    tuple(float(scores[number]) for scores in by_weight),
                    float(alone[number]),
                )
            )
    return found


def _scores(sets: Sets, name: str, weight: float) -> np.ndarray:
    if not weight:
        return sets.scores(name, mode=Mode.WORDS)
    with weights(meaning=weight):
        return sets.scores(name)


def _of_made(sets: Sets, seed: int) -> list[Asked]:
    if SET not in sets.names:
        return []
    made = [
        query
        for corpus in sets.corpora(SET)
        for query in make_queries(sets.engine(SET, corpus), corpus, seed)
    ]
    by_weight = [_ranks(sets, made, weight) for weight in GRID]
    alone = [reciprocal(sets.engine(SET, query.corpus), query, Mode.MEANING) for query in made]
    return [
        Asked(
            ("code", f"made: {query.kind}"),
            query.corpus,
            tuple(ranks[number] for ranks in by_weight),
            alone[number],
        )
        for number, query in enumerate(made)
    ]


def _ranks(sets: Sets, made: Sequence[Made], weight: float) -> list[float]:
    mode = Mode.HYBRID if weight else Mode.WORDS
    with weights(meaning=weight):
        return [reciprocal(sets.engine(SET, query.corpus), query, mode) for query in made]


def _row(group: Group, rows: Sequence[Asked], seed: int) -> tuple[str, np.ndarray]:
    scores = np.array([row.scores for row in rows])
    chosen = GRID.index(PLAIN.meaning)
    folds = np.array([row.fold for row in rows])
    best = _best(scores, chosen)
    picked = {fold: _best(scores[folds != fold], chosen) for fold in sorted(set(folds))}
    gain = np.array(
        [row[picked[fold]] - row[chosen] for row, fold in zip(scores, folds, strict=True)]
    )
    cells = [
        ", ".join(group),
        str(len(rows)),
        f"{scores[:, 0].mean():.3f}",
        f"{np.mean([row.alone for row in rows]):.3f}",
        f"{scores[:, chosen].mean():.3f}",
        mean_of(scores[:, chosen] - scores[:, 0], seed).signed(),
        f"{GRID[best]:g}",
        mean_of(scores[:, best] - scores[:, chosen], seed).signed(),
        _counted(picked),
        mean_of(gain, seed).signed(),
    ]
    return f"| {' | '.join(cells)} |", gain


def _best(scores: np.ndarray, chosen: int) -> int:
    """The weight with the best mean; the chosen one if no other is better."""
    means = scores.mean(axis=0) if len(scores) else np.zeros(len(GRID))
    best = int(np.argmax(means))
    return best if means[best] > means[chosen] + SAME else chosen


def _counted(picked: Mapping[str, int]) -> str:
    values = [GRID[place] for place in picked.values()]
    return ", ".join(f"{value:g} ×{values.count(value)}" for value in sorted(set(values)))


def _together(gains: Sequence[np.ndarray], seed: int) -> str:
    return mean_of(np.concatenate(gains), seed).signed() if gains else "nothing"
