"""Numbered words -> a vocabulary, and pairs in its numbers.

A word is in the vocabulary when enough packages use it; every other is cut into words that are, as
the embedder will do.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cortex.engine.embedders.static import WordVectors

LEAST_PACKAGES = 5
HELD_OUT = 0.05
AT_ONCE = 4_000_000  # entries that are put in order together


@dataclass(frozen=True, slots=True)
class Bags:
    """Bags of words, concatenated: numbers, weights (square roots of counts), starts."""

    words: NDArray[np.uint16]
    weights: NDArray[np.float16]
    starts: NDArray[np.int64]

    def take(
        self, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """Words, weights and starts of these bags alone."""
        firsts, sizes = self.starts[rows], self.starts[rows + 1] - self.starts[rows]
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        places = np.arange(sizes.sum()) + np.repeat(firsts - starts, sizes)
        return self.words[places].astype(np.int64), self.weights[places].astype(np.float32), starts


@dataclass(frozen=True, slots=True)
class Pairs:
    """Encoded pairs and what is known of each."""

    words: list[str]
    queries: Bags
    documents: Bags
    package: NDArray[np.uint32]
    kind: NDArray[np.uint8]
    language: NDArray[np.uint8]
    kinds: list[str]
    languages: list[str]
    packages: list[str]

    def held_out(self) -> NDArray[np.bool_]:
        """Mask of pairs of packages that training doesn't see."""
        return np.array([is_held_out(name) for name in self.packages])[self.package]


def is_held_out(package: str) -> bool:
    """A twentieth of the packages, by a hash of their name without the registry.

    So that one project is on one side only.
    """
    name = package.split("/", 1)[-1].lower().removeprefix("python-").removeprefix("node-")
    return int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "big") < HELD_OUT * 2**32


def choose_words(folder: Path, most: int) -> list[str]:
    """The vocabulary: words of enough packages, the most widely used first."""
    words = (folder / "words.txt").read_text(encoding="ascii").split("\n")
    packages = np.load(folder / "packages-with.npy")
    order = np.lexsort((np.arange(len(words)), -packages.astype(np.int64)))
    return [
        words[number]
        for number in order
        if packages[number] >= LEAST_PACKAGES and len(words[number]) <= 24
    ][:most]


def encode(folder: Path, vocabulary: list[str]) -> Pairs:
    """The collected pairs in numbers of the vocabulary."""
    cutter = WordVectors(vocabulary)
    pieces = [
        cutter.cut(word) for word in (folder / "words.txt").read_text(encoding="ascii").split("\n")
    ]
    sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)
    flat = np.array([number for piece in pieces for number in piece], dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    names = json.loads((folder / "names.json").read_text(encoding="utf-8"))
    return Pairs(
        words=vocabulary,
        queries=_renumber(folder, "queries", flat, starts, len(vocabulary)),
        documents=_renumber(folder, "documents", flat, starts, len(vocabulary)),
        package=np.load(folder / "package.npy"),
        kind=np.load(folder / "kind.npy"),
        language=np.load(folder / "language.npy"),
        kinds=names["kinds"],
        languages=names["languages"],
        packages=names["packages"],
    )


def _renumber(
    folder: Path, name: str, flat: NDArray[np.int64], starts: NDArray[np.int64], size: int
) -> Bags:
    words = np.load(folder / f"{name}-words.npy", mmap_mode="r")
    counts = np.load(folder / f"{name}-counts.npy", mmap_mode="r")
    ends = np.load(folder / f"{name}-ends.npy")
    out_words, out_weights, out_sizes = [], [], []
    first = 0
    while first < len(ends):
        begin = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, begin + AT_ONCE)), first + 1)
        stop = int(ends[last - 1])
        rows = np.repeat(np.arange(last - first), np.diff(ends[first:last], prepend=begin))
        old = words[begin:stop].astype(np.int64)
        many = starts[old + 1] - starts[old]
        places = np.arange(many.sum()) + np.repeat(
            starts[old] - np.concatenate(([0], np.cumsum(many)[:-1])), many
        )
        keys = np.repeat(rows, many) * size + flat[places]
        unique, inverse = np.unique(keys, return_inverse=True)
        times = np.bincount(inverse, weights=np.repeat(counts[begin:stop].astype(np.float64), many))
        out_words.append((unique % size).astype(np.uint16))
        out_weights.append(np.sqrt(times).astype(np.float16))
        out_sizes.append(np.bincount(unique // size, minlength=last - first))
        first = last
    return Bags(
        np.concatenate(out_words),
        np.concatenate(out_weights),
        np.concatenate(([0], np.cumsum(np.concatenate(out_sizes)))),
    )
