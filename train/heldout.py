"""MRR@10 of a table on held-out packages, among 1,000 candidates (500 for headings)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from train.vocabulary import Bags, Pairs

DRAWS = 6
LEAST_WITHIN = 60
CODE, PROSE = 1000, 500


def embed(table: NDArray[np.float32], bags: Bags, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Unit vectors of these bags."""
    words, weights, starts = bags.take(rows)
    out = np.zeros((len(rows), table.shape[1]), dtype=np.float32)
    ends = np.append(starts[1:], len(words))
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        out[number] = weights[start:end] @ table[words[start:end]]
    return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)


def reciprocal_ranks(
    queries: NDArray[np.float32], documents: NDArray[np.float32]
) -> NDArray[np.float64]:
    """1 / rank of each query's own document, 0 below the tenth."""
    scores = queries @ documents.T
    ranks = (scores > np.diag(scores)[:, None]).sum(axis=1) + 1
    return np.where(ranks <= 10, 1.0 / ranks, 0.0)


def draws(
    pairs: Pairs, kind: str, size: int, language: str | None = None
) -> list[NDArray[np.int64]]:
    """Samples of held-out pairs, the same for every table, without duplicates in a sample."""
    wanted = pairs.held_out() & (pairs.kind == pairs.kinds.index(kind))
    if language is not None:
        wanted &= pairs.language == pairs.languages.index(language)
    rows = np.flatnonzero(wanted)
    random = np.random.default_rng(7)
    samples = []
    for _ in range(DRAWS):
        order, seen, kept = random.permutation(rows), set[bytes](), []
        for row in order:
            key = _key(pairs.queries, row)
            if key not in seen:
                seen.add(key)
                kept.append(row)
            if len(kept) == size:
                break
        if len(kept) == size:
            samples.append(np.array(kept))
    return samples


def measure(
    pairs: Pairs,
    table: NDArray[np.float32],
    kind: str = "doc",
    size: int = CODE,
    language: str | None = None,
) -> tuple[float, int]:
    """Mean MRR@10 and the number of queries behind it."""
    found = [
        reciprocal_ranks(embed(table, pairs.queries, rows), embed(table, pairs.documents, rows))
        for rows in draws(pairs, kind, size, language)
    ]
    return (
        (float(np.mean(np.concatenate(found))), sum(map(len, found)))
        if found
        else (float("nan"), 0)
    )


def measure_within(
    pairs: Pairs, table: NDArray[np.float32], kind: str = "doc"
) -> tuple[float, int]:
    """MRR@10 among the candidates of one package, like a search in one repository."""
    rows = np.flatnonzero(pairs.held_out() & (pairs.kind == pairs.kinds.index(kind)))
    found = []
    for package in np.unique(pairs.package[rows]):
        own = rows[pairs.package[rows] == package][:CODE]
        if len(own) >= LEAST_WITHIN:
            own = own[np.unique([_key(pairs.queries, row) for row in own], return_index=True)[1]]
            found.append(
                reciprocal_ranks(
                    embed(table, pairs.queries, own), embed(table, pairs.documents, own)
                ).mean()
            )
    return (float(np.mean(found)), len(found)) if found else (float("nan"), 0)


def _key(bags: Bags, row: int) -> bytes:
    return bags.words[bags.starts[row] : bags.starts[row + 1]].tobytes()
