"""Means with 95 % bootstrap intervals over the queries of a set, with a fixed seed.

Queries of one repository are not independent of each other, so the true intervals are somewhat
wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and where 95 % of the means of resampled queries lie."""

    mean: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """True for an interval that excludes 0."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def signed(self) -> str:
        """The interval as a difference, bold if it excludes 0."""
        text = f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"
        return f"**{text}**" if self.sure else text


def mean_of(values: Sequence[float] | np.ndarray, seed: int) -> Interval:
    """The mean of a value of each query."""
    scores = np.asarray(values, dtype=float)
    low, high = np.percentile(scores[_drawn(len(scores), seed)].mean(axis=1), (2.5, 97.5))
    return Interval(float(scores.mean()), float(low), float(high))


def share_of(
    right: Sequence[float] | np.ndarray, of: Sequence[float] | np.ndarray, seed: int
) -> Interval:
    """The sum of one value of each query through the sum of another."""
    parts, wholes = np.asarray(right, dtype=float), np.asarray(of, dtype=float)
    drawn = _drawn(len(parts), seed)
    low, high = np.percentile(
        parts[drawn].sum(axis=1) / np.maximum(wholes[drawn].sum(axis=1), 1e-9), (2.5, 97.5)
    )
    return Interval(float(parts.sum() / max(wholes.sum(), 1e-9)), float(low), float(high))


def _drawn(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, count, (RESAMPLES, count))
