"""Read Chroma's segment files: header, rows of links, vector and label, and the label table.

The label table is a pickle, of which only strings, numbers and dicts are accepted, so that nothing
in it is executed. Damaged files are left out. Road not taken: mapping a file into memory, since a
file that shrinks meanwhile would crash this process.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import pickletools
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import numpy as np

MAX_DIMENSIONS = 16_384
# Vectors of a collection.
MAX_VECTORS = 1_000_000
# Bytes of the pickle, with some 50 for each vector.
MAX_LABELS = 100_000_000
# Characters.
MAX_ID = 500
# Bytes of a row.
MAX_STRIDE = 4 * MAX_DIMENSIONS + 100_000
# Errors of a missing or damaged label table.
UNREADABLE = (
    *(OSError, pickle.UnpicklingError, EOFError, ValueError, TypeError),
    *(KeyError, IndexError, OverflowError),
)
# Bytes that are read at once.
BLOCK_BYTES = 4_000_000

log = logging.getLogger(__name__)

# Version, offset, capacity, rows, bytes per row, label offset, vector offset.
_HEADER = struct.Struct("<iQQQQQQ")
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_PLAIN = _PUTS | frozenset({
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "INT", "LONG", "BININT",
    "BININT1", "BININT2", "LONG1", "LONG4", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE",
    "BINUNICODE8", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "MEMOIZE", "GET", "BINGET",
    "LONG_BINGET",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Shape:
    """Layout of a vector file."""

    rows: int
    stride: int
    # Offsets in a row.
    vector: int
    label: int
    dimensions: int


def flushed(folder: Path, dimensions: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the labels and unit vectors of a segment folder with this number of dimensions."""
    import numpy as np

    shape = _shape(folder)
    if shape is None or shape.dimensions != dimensions:
        return
    row = np.dtype({
        "names": ["vector", "label"],
        "formats": [("<f4", (shape.dimensions,)), "<u8"],
        "offsets": [shape.vector, shape.label],
        "itemsize": shape.stride,
    })  # fmt: skip
    try:
        with _open(folder / "data_level0.bin") as file:
            left = min(shape.rows, MAX_VECTORS)
            while left > 0:
                raw = file.read(min(left, max(1, BLOCK_BYTES // shape.stride)) * shape.stride)
                block = np.frombuffer(raw, row, len(raw) // shape.stride)
                for vector, label in zip(block["vector"], block["label"].tolist(), strict=True):
                    unit = unit_of(vector)
                    if unit is not None:
                        yield label, unit
                left = left - len(block) if len(block) else 0
    except OSError as error:
        log.warning("vectors in %s are left out: %s", folder, error.strerror or error)


def _shape(folder: Path) -> _Shape | None:
    """Layout from the header, None if it is missing or invalid."""
    try:
        with _open(folder / "header.bin") as file:
            raw = file.read(_HEADER.size)
    except FileNotFoundError:
        # Nothing was flushed yet.
        return None
    except OSError as error:
        log.warning("vectors in %s are left out: %s", folder, error.strerror or error)
        return None
    if len(raw) < _HEADER.size:
        return None
    version, start, _, rows, stride, label, vector = _HEADER.unpack(raw)
    dimensions = (label - vector) // 4
    fits = (
        vector + 4 * dimensions == label
        and label + 8 == stride <= MAX_STRIDE
        and 0 < dimensions <= MAX_DIMENSIONS
    )
    if version != 1 or start != 0 or not fits:
        log.warning("vectors in %s are left out: their layout isn't known", folder)
        return None
    return _Shape(rows, stride, vector, label, dimensions)


def labels_of(folder: Path) -> dict[int, str]:
    """Map labels to ids, from the pickle."""
    try:
        with _open(folder / "index_metadata.pickle") as file:
            raw = file.read(MAX_LABELS + 1)
        if len(raw) > MAX_LABELS:
            raise ValueError("the list of their names is too large")
        if not _is_plain(raw):
            raise ValueError(
                "the list of their names holds more than texts and numbers (a Chroma before 1.0 "
                "wrote it so)"
            )
        metadata = _Plain(io.BytesIO(raw)).load()
    except FileNotFoundError:
        # Nothing was flushed yet.
        return {}
    except UNREADABLE as error:
        log.warning("vectors in %s are left out: %s", folder, error)
        return {}
    labels = metadata.get("label_to_id") if isinstance(metadata, dict) else None
    if not isinstance(labels, dict):
        log.warning("vectors in %s are left out: their memories are unknown", folder)
        return {}
    return {
        label: name
        for label, name in labels.items()
        if isinstance(label, int) and isinstance(name, str) and 0 < len(name) <= MAX_ID
    }


class _Plain(pickle.Unpickler):
    """Unpickler that rejects every class."""

    def find_class(self, module: str, name: str, /) -> object:
        raise pickle.UnpicklingError(f"the list of their names asks for {module}.{name}")


def _is_plain(raw: bytes) -> bool:
    """True if a pickle holds only strings, numbers and dicts and can't allocate beyond its size.

    Overriding `find_class` alone would let a number of four bytes claim 32 GB for the memo table.
    """
    return all(
        opcode.name in _PLAIN and (opcode.name not in _PUTS or int(argument or 0) <= len(raw))
        for opcode, argument, _ in pickletools.genops(raw)
    )


def _open(path: Path) -> BinaryIO:
    """Open a regular file of the store; neither it nor its folder may be a link.

    Raises: OSError.
    """
    if not stat.S_ISDIR(os.lstat(path.parent).st_mode) or not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(f"{path} is a link, or no file")
    return open(path, "rb")


def unit_of(vector: np.ndarray) -> np.ndarray | None:
    """Normalise a vector to length 1; None if it has no direction."""
    import numpy as np

    # Some NaNs raise a warning when they are converted.
    with np.errstate(invalid="ignore"):
        exact = vector.astype(np.float64)
    length = float(np.sqrt(exact @ exact))
    return (exact / length).astype(np.float32) if np.isfinite(length) and length > 1e-6 else None
