"""Vectors that another product's memories have in Chroma, kept as paid for where the model that is
wanted here is the same one.

Chroma's own model is all-MiniLM-L6-v2. It embeds the parts of a memory one by one, and here a
memory is one text: the centre of its parts stands in for that text's vector. On 200 commit messages
as memories their cosine was 0.92 on average, 0.75 at worst, and the nearest other text was at 0.60;
asked by a fact of theirs more were first than with vectors of the whole text (84 % to 76 %), asked
by their title fewer (77 % to 93 %), which words find anyway. A memory of several chunks is embedded
here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import CortexError, FileError
from cortex.base.text import hash_bytes
from cortex.base.types import Stamp
from cortex.engine.embedders.server_protocols import PREFIXES
from cortex.engine.library import Library
from cortex.families.memory.adapters.chroma import memory_vectors

if TYPE_CHECKING:
    import numpy as np

DIMENSIONS = 384
MODELS = frozenset(
    {
        "all-minilm-l6-v2",
        "all-minilm",
        "all-minilm:22m",
        "all-minilm:l6-v2",
        "all-minilm:22m-l6-v2-fp16",
    }
)
PAY_BATCH = 500  # vectors that are kept at once

log = logging.getLogger(__name__)


def reuse(library: Library, folder: Path, texts: Iterable[tuple[str, Sequence[str]]]) -> int:
    """Keep the vectors of the Chroma store in a folder for memories, given by key with the texts of
    their chunks.

    Returns how many were kept; why none were is logged. Only for the lease holder.
    """
    stamp = _wanted(library)
    if stamp is None or not folder.is_dir():
        return 0
    single = {key: chunks[0] for key, chunks in texts if len(chunks) == 1}
    if not single:
        return 0
    try:
        vectors = _vectors_in(folder, _state(folder))
    except FileError as error:
        log.info("vectors are made anew: %s", error.message)
        return 0
    rows = {
        hash_bytes(text.encode("utf-8")): vectors[key]
        for key, text in single.items()
        if key in vectors and vectors[key].shape == (DIMENSIONS,)
    }
    hashes = sorted(rows)
    for start in range(0, len(hashes), PAY_BATCH):
        _keep(library, stamp, hashes[start : start + PAY_BATCH], rows)
    log.info(
        "%d of %d memories keep the vectors that they have in %s", len(rows), len(single), folder
    )
    return len(rows)


@lru_cache(maxsize=1)
def _vectors_in(folder: Path, state: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The vectors of a store, read once for each of its states: a large database is copied in many
    rounds.
    """
    return memory_vectors(folder)


def let_go() -> None:
    """Keep no vectors in memory: all is copied."""
    _vectors_in.cache_clear()


def _state(folder: Path) -> tuple[int, ...]:
    return tuple(
        number for file in sorted(folder.glob("chroma.sqlite3*")) for number in _look(file)
    )


def _look(file: Path) -> tuple[int, int]:
    try:
        seen = file.stat()
    except OSError:  # its writer is just at it
        return 0, 0
    return seen.st_mtime_ns, seen.st_size


def _wanted(library: Library) -> Stamp | None:
    """What is wanted here, where Chroma's vectors are the same."""
    wanted = library.embedding.wanted
    if wanted is None or not wanted.costly or not library.holds():
        return None  # vectors that cost nothing are better made of the text itself
    try:
        stamp = wanted.stamp or wanted.connect()
    except CortexError as error:
        log.info("vectors in Chroma are not used: %s", error.message)
        return None
    if is_same(stamp):
        return stamp
    log.info(
        "vectors in Chroma are of all-MiniLM-L6-v2, here %s is wanted: they are made anew",
        stamp.model,
    )
    return None


def is_same(ours: Stamp) -> bool:
    """Whether passages that Chroma embedded can be compared with those of this model; as int8 it is
    the same to 0.99.
    """
    name = ours.model.lower().replace("\\", "/").rpartition("/")[2]
    name = (
        name.removesuffix(":latest")
        .removesuffix(".gguf")
        .removesuffix("-int8")
        .removesuffix(".f16")
    )
    passage = PREFIXES[ours.prefix][1] if ours.prefix else ""
    return name in MODELS and ours.dimensions == DIMENSIONS and not passage


def _keep(
    library: Library, stamp: Stamp, hashes: list[bytes], rows: dict[bytes, np.ndarray]
) -> None:
    import numpy as np

    store = library.store
    store.indexes.sets.pay(
        stamp, store.paid.model(stamp), hashes, np.stack([rows[one] for one in hashes]), []
    )
