"""Vectors that another product has computed with the configured model, stored as our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cortex.base.types import Stamp
from cortex.engine.store import Store

if TYPE_CHECKING:
    import numpy as np

# Vectors stored at once.
BATCH = 500


def keep_vectors(store: Store, stamp: Stamp, vectors: Mapping[bytes, np.ndarray]) -> None:
    """Store vectors by the hash of their text. Only for the lease holder."""
    import numpy as np

    hashes = sorted(vectors)
    for start in range(0, len(hashes), BATCH):
        batch = hashes[start : start + BATCH]
        rows = np.stack([vectors[text_hash] for text_hash in batch])
        store.indexes.sets.pay(stamp, store.paid.model(stamp), batch, rows, [])


def bare_name(model: str) -> str:
    """Name of a model without its publisher, tag and file format."""
    name = model.lower().replace("\\", "/").rpartition("/")[2]
    return name.removesuffix(":latest").removesuffix(".gguf")
