"""Deterministic embedder without a model: texts that share words have a high cosine.

The same text has the same vector on every machine and in every run, as tests need. It knows nothing
of meaning, so no setting selects it. Road not taken: Python's `hash`, which differs from run to
run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cortex.base.text import words_of
from cortex.base.types import Stamp
from cortex.engine.embedders import EmbedMode


class HashingEmbedder:
    """Embedder that counts words in the dimension, and with the sign, of their hash."""

    def __init__(self, dimensions: int = 64) -> None:
        self.name = "hashing"
        self.costly = False
        self.dimensions = dimensions
        self.stamp = Stamp(provider="hashing", model="words", dimensions=dimensions)

    def connect(self) -> Stamp:
        """Return the stamp; there is nothing to load."""
        return self.stamp

    def embed(self, texts: Sequence[str], mode: EmbedMode) -> NDArray[np.float32]:
        """Return one row for each text; queries and passages are treated alike."""
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in words_of(text):
                dimension, sign = _dimension_of(word, self.dimensions)
                row[dimension] += sign
            # There are no words, or they cancel out: any direction will do, as long as it is always
            # the same.
            if not row.any():
                row[0] = 1.0
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def close(self) -> None:
        """Do nothing."""


@lru_cache(maxsize=100_000)
def _dimension_of(word: str, dimensions: int) -> tuple[int, float]:
    digest = int.from_bytes(
        hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )
    return (digest >> 1) % dimensions, 1.0 if digest & 1 else -1.0
