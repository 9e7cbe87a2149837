"""The indexes beside SQLite, kept equal to it: catching up, rebuilding aside and swapping, and noticing that they moved.

One mechanism for every case: an index has a watermark, everything after it is replayed from SQLite, and replaying twice is
harmless. A fresh, stale or damaged index is just one with an early watermark. Each generation of the words is a directory of its
own; which one counts is a fact in SQLite, so a swap is one transaction and readers in other processes follow.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from cortex.errors import CortexError
from cortex.store.connect import Connections
from cortex.store.lookup import _CHUNK, _DOC
from cortex.store.truth import Truth
from cortex.store.vectors import Vectors
from cortex.store.words import FORMAT, NO_WATERMARK, Row, Words, remove_generation
from cortex.types import Chunk, Doc, Stamp

DEAD_SHARE = 0.10  # dead rows bend BM25 until they are merged away
DEAD_ROWS = 1_000  # below this a rebuild isn't worth it
EMBED_BATCH = 256

log = logging.getLogger(__name__)

Embed = Callable[[list[str]], np.ndarray]


class Indexes:
    """The words and vectors of one store, as this process sees them."""

    def __init__(self, directory: Path | None, connections: Connections, truth: Truth) -> None:
        self._directory = directory
        self._connections = connections
        self._truth = truth
        self._lock = threading.RLock()
        self._words: Words | None = None
        self._generation = ""
        self._seen_seq = -1
        self._vectors: Vectors | None = None

    def words(self) -> Words | None:
        """The current word index, reloaded if another process moved it; None before the first one exists."""
        with self._lock:
            generation, seq = self._truth.get("words"), self._truth.seq()
            if not generation:
                return None
            if self._words is None or generation != self._generation:
                self._open(generation)
            elif seq != self._seen_seq:
                self._words.reload()
            self._seen_seq = seq
            return self._words

    def vectors(self, stamp: Stamp) -> Vectors:
        """The vectors made by the embedder with this stamp."""
        with self._lock:
            if self._vectors is None or self._vectors.stamp != stamp:
                if self._vectors is not None:
                    self._vectors.close()
                directory = None if self._directory is None else self._directory / "vectors"
                self._vectors = Vectors.open(directory, stamp)
            else:
                self._vectors.reload_if_moved()
            return self._vectors

    def catch_up(self, stamp: Stamp | None, embed: Embed | None) -> None:
        """Replay into every index what SQLite has and it hasn't. Only the lease holder may call this."""
        seq = self._truth.seq()
        with self._lock:
            words = self._usable_words()
            mark = words.watermark()
            if mark < seq:
                dead = sum(last - first + 1 for _, first, last in self._gone(mark))
                words.apply(self._rows(mark), [doc for doc, _, _ in self._gone(mark)], seq)
                self._truth.settle(seq, dead)
                self._seen_seq = seq
        if stamp is not None and embed is not None:
            self._embed(stamp, embed, seq)

    def tidy(self) -> bool:
        """Rebuild the words when too many of their rows are dead; true if that happened."""
        dead = int(self._truth.get("dead", "0"))
        with self._lock:
            words = self._words
        if words is None or dead < DEAD_ROWS or dead < DEAD_SHARE * (dead + len(words)):
            return False
        self.rebuild()
        return True

    def rebuild(self) -> None:
        """Build the words anew beside the current ones and swap; searches go on meanwhile."""
        old = self._truth.get("words")
        name = _next_name(old)
        directory = None if self._directory is None else self._directory / name
        if directory is not None:
            remove_generation(directory)
        fresh = Words(directory)
        seq = self._truth.seq()
        fresh.apply(self._rows(NO_WATERMARK), (), seq)
        with self._lock:
            if self._words is not None:
                self._words.close()
            self._truth.set({"words": name, "dead": "0"})
            self._words, self._generation, self._seen_seq = fresh, name, seq
        self._remove_others(name)

    def close(self) -> None:
        with self._lock:
            if self._words is not None:
                self._words.close()
            if self._vectors is not None:
                self._vectors.close()
            self._words = self._vectors = None

    def _open(self, generation: str) -> None:
        if self._words is not None:
            self._words.close()
            self._words = None
        directory = None if self._directory is None else self._directory / generation
        self._words = Words(directory)
        self._generation = generation

    def _usable_words(self) -> Words:
        """The current words, or fresh ones in a new generation where they are missing or damaged."""
        generation = self._truth.get("words")
        if generation.startswith(f"words-{FORMAT}-"):
            try:
                words = self.words()
                if words is not None and words.watermark() <= self._truth.seq():
                    return words
            except CortexError as error:
                log.warning("the word index is rebuilt: %s", error.message)
        name = _next_name(generation)
        if self._directory is not None:
            remove_generation(self._directory / name)
        self._open(name)
        self._truth.set({"words": name, "dead": "0"})
        self._remove_others(name)
        assert self._words is not None
        return self._words

    def _remove_others(self, name: str) -> None:
        if self._directory is not None:
            for other in self._directory.glob("words-*"):
                if other.name != name:
                    remove_generation(other)

    def _rows(self, after: int) -> Iterator[Row]:
        with self._connections.read() as connection:
            docs = connection.execute(
                f"SELECT {_DOC}, blobs.text FROM docs JOIN blobs ON blobs.id = blob WHERE seq > ? ORDER BY docs.id",
                (after,),
            )
            for *fields, packed in docs:
                doc = Doc(*fields)
                text = zlib.decompress(packed).decode("utf-8")
                for chunk_id, *rest in connection.execute(
                    f"SELECT id, {_CHUNK} FROM chunks WHERE blob = ? ORDER BY id", (doc.blob,)
                ):
                    chunk = Chunk(*rest)
                    yield Row(doc, chunk_id, chunk, text[chunk.start : chunk.end])

    def _gone(self, after: int) -> list[tuple[int, int, int]]:
        with self._connections.read() as connection:
            return connection.execute(
                "SELECT doc, first_chunk, last_chunk FROM gone WHERE seq > ?", (after,)
            ).fetchall()

    def _embed(self, stamp: Stamp, embed: Embed, seq: int) -> None:
        """Make the vectors' ids those of the chunks in use, by difference: it doesn't matter how they came apart."""
        vectors = self.vectors(stamp)
        if vectors.watermark >= seq:
            return
        live, have = self._live_chunks(), vectors.ids()
        vectors.remove(np.setdiff1d(have, live))
        missing = set(np.setdiff1d(live, have).tolist())
        batch: dict[int, str] = {}
        for row in self._rows(vectors.watermark if missing and len(have) else NO_WATERMARK):
            if row.chunk_id in missing:
                missing.discard(row.chunk_id)
                batch[row.chunk_id] = row.body
            if len(batch) >= EMBED_BATCH:
                _add(vectors, embed, batch)
                batch = {}
        _add(vectors, embed, batch)
        vectors.sync(seq if not missing else NO_WATERMARK)

    def _live_chunks(self) -> np.ndarray:
        with self._connections.read() as connection:
            ranges = connection.execute(
                "SELECT first_chunk, last_chunk FROM blobs WHERE EXISTS (SELECT 1 FROM docs WHERE docs.blob = blobs.id)"
            ).fetchall()
        parts = [np.arange(first, last + 1, dtype=np.int64) for first, last in ranges]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _next_name(generation: str) -> str:
    number = generation.rsplit("-", 1)[-1]
    return f"words-{FORMAT}-{int(number) + 1 if number.isdigit() else 1}"


def _add(vectors: Vectors, embed: Embed, batch: dict[int, str]) -> None:
    if batch:
        vectors.add(np.fromiter(batch, dtype=np.int64, count=len(batch)), embed(list(batch.values())))
