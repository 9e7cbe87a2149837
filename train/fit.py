"""Pairs -> a table of word vectors: contrastive training with in-batch negatives."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from train.vocabulary import Pairs

TEMPLATES = (
    "how does {} work",
    "how is {} implemented",
    "where is {} implemented",
    "where is {} handled",
    "where do we {}",
    "what does {} do",
    "which function does {}",
    "function that {}",
    "code that {}",
    "method to {}",
    "class for {}",
    "find the code for {}",
    "show me {}",
    "how to {}",
    "how do I {}",
    "how are {} handled",
    "explain {}",
    "what is {}",
    "implementation of {}",
    "when is {} used",
    "why does {}",
    "definition of {}",
    "the part that handles {}",
    "how can I {} in the project",
)


SMALL_PACKAGE = 100  # a package of so many pairs gives all of them
# Of some kinds of pairs an epoch takes a share only: names are many, and a name is less of a
# question than a comment is.
SHARES: Mapping[str, float] = {"name": 0.2, "named": 0.5, "inline": 0.5}
KEPT, KEPT_SQUARES = 0.9, 0.99  # of the means of gradients and of their squares, from step to step


@dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters; the values are those of the released model."""

    dimensions: int = 256
    batch: int = 2048
    epochs: float = 3.0
    rate: float = 5e-3
    temperature: float = 0.05
    questions: float = 0.3  # share of queries that are wrapped in a template
    # A package of n pairs gives n ** balance of them to an epoch, up to a factor
    balance: float = 0.6
    shares: Mapping[str, float] = field(default_factory=lambda: SHARES)
    runs: int = 4  # how many tables, trained from one start in different orders, are averaged


def fit(
    pairs: Pairs, start: NDArray[np.float32], recipe: Recipe, rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """A table trained on these rows of the pairs: the mean of a few, which is better than each."""
    return np.mean(
        [_run(pairs, start, recipe, rows, seed) for seed in range(1, recipe.runs + 1)], axis=0
    )


def _run(
    pairs: Pairs, start: NDArray[np.float32], recipe: Recipe, rows: NDArray[np.int64], seed: int
) -> NDArray[np.float32]:
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    table = torch.nn.Parameter(torch.from_numpy(start.copy()))
    moves = _Moves(table)
    templates = _templates(pairs.words)
    order, place, begun = _epoch(pairs, rows, recipe, random), 0, time.process_time()
    steps = int(len(order) * recipe.epochs / recipe.batch)
    for step in range(steps):
        rate = recipe.rate * min(1.0, (step + 1) / 50) * (1 - step / steps)
        if place + recipe.batch > len(order):
            order, place = _epoch(pairs, rows, recipe, random), 0
        loss = _loss(pairs, table, templates, recipe, order[place : place + recipe.batch], random)
        place += recipe.batch
        table.grad = None
        loss.backward()
        moves.step(rate)
        if step % 200 == 0:
            seconds = time.process_time() - begun
            sys.stderr.write(
                f"run {seed} step {step}/{steps} loss {loss.item():.3f} {seconds:.0f} s\n"
            )
    return table.detach().numpy()


class _Moves:
    """Adam with one step size per word: a word's vector moves along its gradient."""

    def __init__(self, table: torch.nn.Parameter) -> None:
        self._table = table
        self._mean = torch.zeros_like(table)
        self._squares = torch.zeros(len(table), 1)
        self._steps = 0

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move every word against the mean of its gradients."""
        gradient = self._table.grad
        assert gradient is not None
        self._steps += 1
        self._mean.mul_(KEPT).add_(gradient, alpha=1 - KEPT)
        self._squares.mul_(KEPT_SQUARES).add_(
            (gradient * gradient).mean(1, keepdim=True), alpha=1 - KEPT_SQUARES
        )
        lengths = (self._squares / (1 - KEPT_SQUARES**self._steps)).sqrt() + 1e-8
        self._table.addcdiv_(self._mean / (1 - KEPT**self._steps), lengths, value=-rate)


def _loss(
    pairs: Pairs,
    table: torch.nn.Parameter,
    templates: torch.Tensor,
    recipe: Recipe,
    rows: NDArray[np.int64],
    random: np.random.Generator,
) -> torch.Tensor:
    words, weights, starts = pairs.queries.take(rows)
    queries = _sums(table, words, weights, starts)
    wrapped = torch.from_numpy(
        np.where(
            random.random(len(rows)) < recipe.questions,
            random.integers(1, len(templates), len(rows)),
            0,
        )
    )
    queries = queries + functional.embedding(wrapped, templates @ table)
    words, weights, starts = pairs.documents.take(rows)
    documents = _sums(table, words, weights, starts)
    scores = functional.normalize(queries) @ functional.normalize(documents).T / recipe.temperature
    scores = scores.masked_fill(_same(pairs, rows), -1e4)
    target = torch.arange(len(rows))
    return (
        functional.cross_entropy(scores, target) + functional.cross_entropy(scores.T, target)
    ) / 2


def _sums(
    table: torch.nn.Parameter,
    words: NDArray[np.int64],
    weights: NDArray[np.float32],
    starts: NDArray[np.int64],
) -> torch.Tensor:
    return functional.embedding_bag(
        torch.from_numpy(words),
        table,
        torch.from_numpy(starts),
        mode="sum",
        per_sample_weights=torch.from_numpy(weights),
    )


def _same(pairs: Pairs, rows: NDArray[np.int64]) -> torch.Tensor:
    """Mask of pairs with the same query or document words as another: they are no wrong answers."""
    same = torch.zeros(len(rows), len(rows), dtype=torch.bool)
    for bags in (pairs.queries, pairs.documents):
        places: dict[bytes, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(
                bags.words[bags.starts[row] : bags.starts[row + 1]].tobytes(), []
            ).append(place)
        for group in places.values():
            if len(group) > 1:
                index = torch.tensor(group)
                same[index[:, None], index[None, :]] = True
    same.fill_diagonal_(False)
    return same


def _templates(words: list[str]) -> torch.Tensor:
    """One row of word counts for each template; row 0 is no template."""
    numbers = {word: number for number, word in enumerate(words)}
    rows = torch.zeros(len(TEMPLATES) + 1, len(words))
    for row, template in enumerate(TEMPLATES, 1):
        for word in template.lower().split():
            if word in numbers:
                rows[row, numbers[word]] = 1.0
    return rows


def _epoch(
    pairs: Pairs, rows: NDArray[np.int64], recipe: Recipe, random: np.random.Generator
) -> NDArray[np.int64]:
    """The pairs of one epoch in random order, less of large packages and frequent kinds."""
    order = random.permutation(rows)
    sizes = np.bincount(pairs.package[rows])[pairs.package[order]]
    share = np.minimum(1.0, (sizes / SMALL_PACKAGE) ** (recipe.balance - 1.0))
    share *= np.array([recipe.shares.get(kind, 1.0) for kind in pairs.kinds])[pairs.kind[order]]
    return order[random.random(len(order)) < share]
