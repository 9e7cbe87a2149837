"""A deterministic embedder without a model: texts that share words have a high cosine.

The same text has the same vector on every machine and in every run, which is what tests need. It
knows nothing of meaning, so no setting selects it. Road not taken: Python's `hash`, which differs
from run to run.
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
    """Counts each word in a place, and with a sign, that its hash decides."""

    def __init__(self, dimensions: int = 64) -> None:
        self.name = "hashing"
        self.costly = False
        self.dimensions = dimensions
        self.stamp = Stamp(provider="hashing", model="words", dimensions=dimensions)

    def connect(self) -> Stamp:
        """Nothing to load or ask."""
        return self.stamp

    def embed(self, texts: Sequence[str], mode: EmbedMode) -> NDArray[np.float32]:
        """One row for each text; queries and passages are treated alike."""
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in words_of(text):
                place, sign = _place(word, self.dimensions)
                row[place] += sign
            # No words, or they cancel out: any direction will do, but it must be the same one
            if not row.any():
                row[0] = 1.0
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def close(self) -> None:
        """Nothing to let go of."""


@lru_cache(maxsize=100_000)
def _place(word: str, dimensions: int) -> tuple[int, float]:
    number = int.from_bytes(
        hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )
    return (number >> 1) % dimensions, 1.0 if number & 1 else -1.0
