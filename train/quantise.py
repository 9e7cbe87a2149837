"""A table of floats -> the file that the embedder reads: bytes, and a scale per word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def quantise(table: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Each row as numbers from -127 to 127 and what to multiply them by."""
    scales = np.abs(table).max(axis=1) / 127.0
    safe = np.where(scales == 0.0, 1.0, scales)
    return np.rint(table / safe[:, None]).astype(np.int8), scales.astype(np.float32)


def write_model(path: Path, name: str, words: list[str], table: NDArray[np.float32]) -> None:
    """The model file; the same table gives the same bytes."""
    numbers, scales = quantise(table)
    text = np.frombuffer("\n".join(words).encode("ascii"), dtype=np.uint8)
    np.savez(
        path,
        table=numbers,
        scales=scales,
        words=text,
        name=np.frombuffer(name.encode("ascii"), dtype=np.uint8),
    )
