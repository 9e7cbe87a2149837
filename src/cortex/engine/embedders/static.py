"""The embedder that comes with the package: a table of word vectors, trained on code and its
documentation (docs/model.md).

A text's vector is the sum of its words' vectors, each counted by the square root of how often it
stands there. Words are parts of identifiers in lower case; one that the table lacks is cut into
words that it has. Needs numpy and nothing else, and looks at a text once. Knows nothing of paths,
chunks or languages. Road not taken: a transformer, which is better on prose and takes some 400
times as long for each chunk.
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

MAX_WORD_CHARACTERS = 40  # longer runs are hashes, base64 or minified text
MEMO_WORDS = 20_000  # ten times as many take 30 MB and save 4 % of the time
LONGEST_PIECE = 16
_SKIP_COST = 14.0  # what it costs to leave a character out when a word is cut
_PIECE_COST = 1.0
_LEAST_KNOWN = 0.7  # share of a word's characters that must lie in known pieces

# Every character that is no ASCII letter or digit separates; text is split by a table, in half the
# time of an expression.
_SEPARATED = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
_ACCENTS = re.compile("[\u0300-\u036f]+")
_RUN = re.compile(r"[A-Za-z0-9]+")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


def runs_of(text: str) -> list[str]:
    """The runs of letters and digits in `text`, accents taken off."""
    if text.isascii():
        return text.translate(_SEPARATED).split()
    return _RUN.findall(_ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def parts_of(run: str) -> list[str]:
    """`parseHTTPConfig2` -> parse, http, config: the words of two and more characters in a run,
    lower case.
    """
    if len(run) > MAX_WORD_CHARACTERS:
        return []
    return [part.lower() for part in _PARTS.findall(run) if len(part) > 1]


class WordVectors:
    """A vocabulary, the most frequent word first, and how a run of characters becomes numbers of
    its words.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.numbers = {word: number for number, word in enumerate(words)}
        self._memo: dict[str, tuple[int, ...]] = {}

    def count(self, text: str) -> dict[int, int]:
        """The numbers of the words in `text`, and how often each stands there."""
        memo = self._memo
        counts: dict[int, int] = {}
        for run, times in Counter(runs_of(text)).items():
            found = memo.get(run)
            if found is None:
                found = self._remember(run)
            for number in found:
                counts[number] = counts.get(number, 0) + times
        return counts

    def _remember(self, run: str) -> tuple[int, ...]:
        if len(self._memo) >= MEMO_WORDS:
            self._memo.clear()
        numbers = tuple(number for part in parts_of(run) for number in self.cut(part))
        self._memo[run] = numbers
        return numbers

    def cut(self, word: str) -> tuple[int, ...]:
        """A word's number, or those of the known words that it is most likely made of: httpclient
        -> http, client.
        """
        known = self.numbers.get(word)
        if known is not None:
            return (known,)
        return self._cheapest(word) if word.isalpha() else ()

    def _cheapest(self, word: str) -> tuple[int, ...]:
        """The cheapest way through the word; a piece costs by its rank, a character that is left
        out costs more than any piece.
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
        return pieces if known >= _LEAST_KNOWN * len(word) else ()


def _map(model: Path, name: str) -> NDArray[np.int8]:
    """An array in a file of numpy's that isn't compressed, mapped: its pages are the system's, and
    all processes share them.
    """
    with zipfile.ZipFile(model) as archive, model.open("rb") as file:
        file.seek(archive.getinfo(name).header_offset + 26)
        # Past the name and what comes after it
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
        """Nothing to load or ask."""
        return self.stamp

    def embed(self, texts: Sequence[str], mode: EmbedMode) -> NDArray[np.float32]:
        """One row for each text; queries and passages are treated alike."""
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
        lengths[lengths == 0] = 1.0  # without a word that is known, near to nothing
        return rows / lengths

    def close(self) -> None:
        """Nothing to let go of but memory, which goes with the object."""
