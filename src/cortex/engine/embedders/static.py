"""Bundled embedder: a table of word vectors, trained on code and docs (docs/model.md).

A text's vector is the sum of its words' vectors, each weighted by the square root of its count.
Words are parts of identifiers in lower case; one that the table lacks is split into words that it
has. Needs numpy and nothing else, and reads a text once. Knows nothing of paths, chunks or
languages. Road not taken: a transformer, which is better on prose and takes some 400 times as long
for each chunk.
"""

from __future__ import annotations

import math
import re
import struct
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cortex.base.types import Stamp
from cortex.engine.embedders import EmbedMode

MODEL = Path(__file__).with_name("static.npz")

# Longer runs are hashes, base64 or minified text.
MAX_WORD_CHARACTERS = 40
# Ten times as many take 30 MB and save 4 % of the time.
MEMO_WORDS = 20_000
LONGEST_PIECE = 16
# Cost of skipping a character when a word is split.
_SKIP_COST = 14.0
_PIECE_COST = 1.0
# Share of a word's characters that must be in known pieces.
_MIN_KNOWN_SHARE = 0.7

# Every character that is no ASCII letter or digit is a separator. A translation table splits text
# in half the time of a regular expression.
_SEPARATOR_TABLE = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
_ACCENTS = re.compile("[\u0300-\u036f]+")
_RUN = re.compile(r"[A-Za-z0-9]+")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


def runs_of(text: str) -> list[str]:
    """Split text into runs of letters and digits, without accents."""
    if text.isascii():
        return text.translate(_SEPARATOR_TABLE).split()
    return _RUN.findall(_ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def parts_of(run: str) -> list[str]:
    """Split a run into lower-case words: `parseHTTPConfig2` gives parse, http, config.

    Words of one character are left out.
    """
    if len(run) > MAX_WORD_CHARACTERS:
        return []
    return [part.lower() for part in _PARTS.findall(run) if len(part) > 1]


class WordVectors:
    """Vocabulary, most frequent word first, that maps runs of characters to word numbers."""

    def __init__(self, words: Iterable[str]) -> None:
        self.numbers = {word: number for number, word in enumerate(words)}
        self._cache: dict[str, tuple[int, ...]] = {}

    def count(self, text: str) -> dict[int, int]:
        """Count the words in `text`, by their number."""
        memo = self._cache
        counts: dict[int, int] = {}
        for run, times in Counter(runs_of(text)).items():
            word_numbers = memo.get(run)
            if word_numbers is None:
                word_numbers = self._cache_run(run)
            for number in word_numbers:
                counts[number] = counts.get(number, 0) + times
        return counts

    def _cache_run(self, run: str) -> tuple[int, ...]:
        if len(self._cache) >= MEMO_WORDS:
            self._cache.clear()
        numbers = tuple(number for part in parts_of(run) for number in self.cut(part))
        self._cache[run] = numbers
        return numbers

    def cut(self, word: str) -> tuple[int, ...]:
        """Number of a word, or of the known words in it: httpclient gives http, client."""
        known = self.numbers.get(word)
        if known is not None:
            return (known,)
        return self._split(word) if word.isalpha() else ()

    def _split(self, word: str) -> tuple[int, ...]:
        """Split a word at the lowest cost.

        A piece costs by its rank, a skipped character costs more than any piece.
        """
        ways: list[tuple[float, tuple[int, ...], int]] = [(0.0, (), 0)]
        for end in range(1, len(word) + 1):
            cost, pieces, known = ways[end - 1]
            best = (cost + _SKIP_COST, pieces, known)
            for start in range(max(0, end - LONGEST_PIECE), end - 1):
                number = self.numbers.get(word[start:end])
                if number is not None:
                    cost, pieces, known = ways[start]
                    cost += _PIECE_COST + math.log(number + 2)
                    if cost < best[0]:
                        best = (cost, (*pieces, number), known + end - start)
            ways.append(best)
        _, pieces, known = ways[-1]
        return pieces if known >= _MIN_KNOWN_SHARE * len(word) else ()


def _map(model: Path, name: str) -> NDArray[np.int8]:
    """Memory-map an uncompressed array in an .npz file, shared by all processes."""
    with zipfile.ZipFile(model) as archive, model.open("rb") as file:
        file.seek(archive.getinfo(name).header_offset + 26)
        # Skip the file name and the extra field of the zip header.
        file.seek(sum(struct.unpack("<HH", file.read(4))), 1)
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        return np.asarray(np.memmap(model, dtype, "r", file.tell(), shape))


class StaticEmbedder:
    """Sums of word vectors from a table that is part of the package."""

    def __init__(self, model: Path = MODEL) -> None:
        with np.load(model) as arrays:
            self._scales: NDArray[np.float32] = arrays["scales"].astype(np.float32)
            self._words = WordVectors(arrays["words"].tobytes().decode("ascii").split("\n"))
            name = arrays["name"].tobytes().decode("ascii")
        self._table = _map(model, "table.npy")
        self.name = "static"
        self.costly = False
        self.dimensions = self._table.shape[1]
        self.stamp = Stamp(provider="local", model=name, dimensions=self.dimensions)

    def connect(self) -> Stamp:
        """Return the stamp; there is nothing to load."""
        return self.stamp

    def embed(self, texts: Sequence[str], mode: EmbedMode) -> NDArray[np.float32]:
        """Return one row for each text; queries and passages are treated alike."""
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            counts = self._words.count(text)
            if counts:
                numbers = np.fromiter(counts, dtype=np.intp, count=len(counts))
                times = np.fromiter(counts.values(), dtype=np.float32, count=len(counts))
                np.dot(
                    np.sqrt(times) * self._scales[numbers],
                    self._table[numbers].astype(np.float32),
                    out=row,
                )
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        # A text without a known word keeps the zero vector.
        lengths[lengths == 0] = 1.0
        return rows / lengths

    def close(self) -> None:
        """Do nothing: memory is freed with the object."""
