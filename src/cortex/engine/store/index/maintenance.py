"""The indexes beside SQLite, kept equal to it: catching up, rebuilding aside and swapping, and
noticing that they moved.

An index that fails in any way while it is opened, searched or written is not asked again: a file in
its directory says so to every process, answers go on without it, and whoever holds the lease builds
it anew. One mechanism for every case: an index has a watermark, everything after it is replayed
from SQLite, and replaying twice is harmless. A fresh, stale or damaged index is just one with an
early watermark. Each generation of the words is a directory of its own; which one counts is a fact
in SQLite, so a swap is one transaction and readers in other processes follow.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Generator, Iterable, Set
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import CortexError, StoreError
from cortex.base.types import Chunk, Doc, Stamp
from cortex.engine.store.connections import Connections
from cortex.engine.store.content.blobs import unpack
from cortex.engine.store.content.queries import CHUNK_COLUMNS, DOC_COLUMNS
from cortex.engine.store.content.writer import ContentStore
from cortex.engine.store.index.lexical import (
    FORMAT,
    NO_WATERMARK,
    LexicalIndex,
    LexicalRow,
    find_damage,
    remove_generation,
)
from cortex.engine.store.index.paid_vectors import EmbeddingCache, EmbeddingJob
from cortex.engine.store.index.qdrant import Qdrant

if TYPE_CHECKING:  # numpy and the vectors are loaded where an embedder uses them
    from cortex.engine.store.index.vector_index import VectorIndex
    from cortex.engine.store.index.vector_indexes import VectorIndexes

DEAD_SHARE = 0.10  # dead rows bend BM25 until they are merged away
DEAD_ROWS = 1_000  # below this a rebuild isn't worth it
DAMAGED = "INDEX_DAMAGED"
_DOUBTED = "damaged"  # the file that says so

log = logging.getLogger(__name__)


class Indexes:
    """The words and vectors of one store, as this process sees them.

    `_lock` guards which words are current and is held for moments only: searches need it.
    `_writing` is held while the words are written; who holds it may take `_lock`, never the other
    way round.
    """

    def __init__(
        self,
        directory: Path | None,
        connections: Connections,
        truth: ContentStore,
        paid: EmbeddingCache,
        qdrant: Qdrant | None = None,
    ) -> None:
        self._directory = directory
        self._qdrant = qdrant
        self._connections = connections
        self._truth = truth
        self._paid = paid
        # Words and vectors are this very database's: ids of another one, say of one that was
        # deleted, mean other rows.
        identity = truth.get("identity")
        self._prefix = f"words-{FORMAT}-{identity}-"
        self._vectors_directory = None if directory is None else directory / f"vectors-{identity}"
        self._lock = threading.RLock()
        self._writing = threading.RLock()
        self._words: LexicalIndex | None = None
        self._generation = ""
        self._mark = NO_WATERMARK  # of the words, as far as this process has loaded them
        self._sets: VectorIndexes | None = None
        self._doubted = ""  # the generation of words that failed here

    def words(self) -> LexicalIndex | None:
        """The current word index, reloaded if another process moved it; None before the first one,
        and while one is damaged.

        Raises: LimitError MEMORY_SHORT, StoreError STORE_UNWRITABLE.
        """
        with self._lock:
            generation = self._truth.get("words")
            if not generation.startswith(self._prefix) or self._is_doubted(generation):
                return None
            try:
                if self._words is None or generation != self._generation:
                    self._open(generation)
                # SQLite is ahead of the words for a moment after every change: what was loaded then
                # has to be loaded again.
                elif self._mark != self._truth.seq():
                    self._words.reload()
                    self._mark = self._words.watermark()
            except StoreError as error:
                if error.code != DAMAGED:
                    raise
                self.doubt(error)
                return None
            return self._words

    @property
    def damaged(self) -> bool:
        """Whether the words failed, here or in another process, and aren't built anew yet."""
        with self._lock:
            return self._is_doubted(self._truth.get("words"))

    def doubt(self, error: StoreError) -> None:
        """Go on without the index that raised this error; without words in every process, until
        they are built anew.
        """
        if "index" not in error.context:
            # Vectors open empty where they are damaged.
            self.sets.look_again()
            return
        with self._lock:
            generation, index = self._truth.get("words"), error.context.get("index")
            if index != generation and (index or self._directory is not None):
                return
            if generation != self._doubted:
                log.warning("the word index is damaged and will be built anew: %s", error.message)
            self._doubted, self._words = generation, None
            path = self._path_of(generation)
        if path is not None:
            # A disk that can't be written: this process knows it, and others find it out by
            # themselves.
            with suppress(OSError):
                if not path.is_dir():
                    remove_generation(path)
                    path.mkdir(mode=0o700)
                (path / _DOUBTED).touch(mode=0o600)

    def _is_doubted(self, generation: str) -> bool:
        path = self._path_of(generation)
        if not generation.startswith(self._prefix):
            return False
        return generation == self._doubted or (path is not None and (path / _DOUBTED).exists())

    def state(self) -> tuple[str, int]:
        """What an answer by words depends on: two equal states give equal answers."""
        with self._lock:
            if self.words() is None and self.damaged:
                return "", NO_WATERMARK
            return self._generation, self._mark

    @property
    def sets(self) -> VectorIndexes:
        """The vectors, by embedder."""
        from cortex.engine.store.index.vector_indexes import VectorIndexes

        with self._lock:
            if self._sets is None:
                self._sets = VectorIndexes(
                    self._vectors_directory,
                    self._connections,
                    self._truth,
                    self._paid,
                    self._qdrant,
                )
            return self._sets

    def vectors(self, stamp: Stamp) -> VectorIndex:
        """The vectors made by the embedder with this stamp."""
        return self.sets.of(stamp)

    def catch_up(self, makings: Iterable[EmbeddingJob] = (), room: int = sys.maxsize) -> None:
        """Replay into the words, and into these vectors, what SQLite has by now and they haven't.

        Only the lease holder may call this.

        Of several threads that wait here one does it for all that had written by then.

        Raises: LimitError EMBEDDINGS_LIMIT where the vectors would take more than `room` bytes; the
        words are complete then, and what vectors there are is kept.
        """
        wanted = self._truth.seq()
        with self._writing:
            try:
                self._replay(wanted)
            except StoreError as error:
                if error.code != DAMAGED:
                    raise
                self.doubt(error)
                self._replay(wanted)
        for making in makings:
            self.sets.catch_up(making, room)

    def _replay(self, wanted: int) -> None:
        """Bring the words up to date, or build damaged ones anew."""
        words = self._usable_words()
        mark = words.watermark()
        if mark < wanted:
            seq = self._truth.seq()
            gone = self._gone(mark)
            with closing(self._rows(mark)) as rows:
                words.apply(rows, [doc for doc, _, _ in gone], seq)
            self._truth.settle(seq, sum(last - first + 1 for _, first, last in gone))
            with self._lock:
                self._mark = seq

    def tidy(self) -> bool:
        """Rebuild the words when too many of their rows are dead; true if that happened.

        What was removed for good leaves the vectors, too.
        """
        if (
            self._truth.words_linger
            and self._vectors_directory is not None
            and self._vectors_directory.exists()
        ):
            self.sets.erase()
        if not self._has_many_dead():
            return False
        with self._writing:
            # Another thread, that deleted as well or keeps the store, has just done it
            if not self._has_many_dead():
                return False
            self.rebuild()
            return True

    def _has_many_dead(self) -> bool:
        dead = int(self._truth.get("dead", "0"))
        with self._lock:
            words = self._words
        if words is None or dead < DEAD_ROWS:
            return False
        try:
            return dead >= DEAD_SHARE * (dead + len(words))
        except StoreError as error:
            if error.code != DAMAGED:
                raise
            self.doubt(error)
            return True

    def verify(self) -> bool:
        """Rebuild the words when they are damaged, or hold other rows than SQLite; true if that
        happened.

        Vectors of which that is true are compared with SQLite the next time that something changes.
        """
        if self._sets is not None:
            self._sets.verify()
        with self._writing:
            wrong = self._damage_of_words() or self._surplus_of_words()
            if wrong:
                log.warning("the word index is built anew: %s", wrong)
                self.rebuild()
            return bool(wrong)

    def _damage_of_words(self) -> str:
        """What is wrong with the files of the words, compared with their checksums; "" where
        nothing is.
        """
        generation = self._truth.get("words")
        path = self._path_of(generation)
        if (
            path is not None
            and generation.startswith(self._prefix)
            and not self._is_doubted(generation)
        ):
            name = find_damage(path, again=True)
            if name and generation == self._truth.get("words"):
                message = f"{generation}/{name} is damaged"
                self.doubt(StoreError(DAMAGED, message, context={"index": generation}))
        if self.words() is None and self.damaged:
            return f"the word index {generation} is damaged"
        return ""

    def _surplus_of_words(self) -> str:
        try:
            words = self.words()
            if (
                words is None
                or words.watermark() != self._truth.seq()
                or len(words) == self._count_rows()
            ):
                return ""
            return f"it has {len(words)} rows where the store has {self._count_rows()}"
        except StoreError as error:
            if error.code != DAMAGED:
                raise
            self.doubt(error)
            return error.message

    def check_words(self) -> list[str]:
        """How the words' files differ from their checksums, and their ids from the truth's."""
        if wrong := self._damage_of_words():
            return [wrong]
        try:
            words = self.words()
            if words is None or words.watermark() != self._truth.seq():
                return []
            with self._connections.read() as connection:
                pairs = connection.execute(
                    "SELECT docs.id, chunks.id FROM docs JOIN chunks ON chunks.blob = docs.blob"
                )
                return _difference("words", set(pairs), words.identities())
        except StoreError as error:
            if error.code != DAMAGED:
                raise
            self.doubt(error)
            return [error.message]

    def check_vectors(self) -> list[str]:
        """How the ids of the vectors differ from the truth's, whoever made them."""
        on_disk = self._vectors_directory is not None and self._vectors_directory.exists()
        if not on_disk and self._qdrant is None:
            return []
        return self.sets.check()

    def rebuild(self) -> None:
        """Build the words anew beside the current ones and swap; searches go on meanwhile.

        Only for the lease holder.
        """
        with self._writing:
            name = self._next_name()
            path = self._path_of(name)
            try:
                fresh = LexicalIndex(path, create=True)
                seq = self._truth.seq()
                with closing(self._rows(NO_WATERMARK)) as rows:
                    fresh.apply(rows, (), seq)
            except BaseException as error:
                if path is not None:
                    remove_generation(path)
                if isinstance(error, StoreError) and error.code == DAMAGED:
                    # What was never there before isn't damaged: it could not be written.
                    raise StoreError(
                        "STORE_IO", f"the word index can't be written: {error.message}"
                    ) from error
                raise
            self._swap(fresh, name, seq)

    def close(self) -> None:
        """Let go of files; a replay under way in another thread is waited for."""
        if self._sets is not None:
            self._sets.close()
        with self._writing, self._lock:
            words, self._words = self._words, None
            if words is not None:
                _close(words)

    def _open(self, generation: str) -> None:
        """Open that generation, or the one that has taken its place meanwhile."""
        words, self._words = self._words, None
        if words is not None:
            _close(words)
        try:
            self._words = LexicalIndex(self._path_of(generation))
        except StoreError:
            newest = self._truth.get("words")
            if newest == generation:
                raise
            generation, self._words = newest, LexicalIndex(self._path_of(newest))
        self._generation, self._mark = generation, self._words.watermark()

    def _usable_words(self) -> LexicalIndex:
        """The current words, or fresh ones in a new generation where they are missing, damaged or
        ahead of the truth.
        """
        words = self.words()
        if words is not None and words.watermark() <= self._truth.seq():
            return words
        if words is None and self.damaged:
            # Aside: an index that grows while it is asked would hide what it doesn't have yet.
            self.rebuild()
            if (words := self.words()) is not None:
                return words
        name = self._next_name()
        fresh = LexicalIndex(self._path_of(name), create=True)
        self._swap(fresh, name, NO_WATERMARK)
        return fresh

    def _swap(self, fresh: LexicalIndex, name: str, mark: int) -> None:
        """Make fresh words the current ones, here and, through SQLite, in every other process; then
        drop the others.
        """
        with self._lock:
            old, self._words = self._words, fresh
            self._generation, self._mark = name, mark
            self._truth.set({"words": name, "dead": "0"})
        if old is not None:
            _close(old)
        if self._directory is not None:
            for other in self._directory.glob("words-*"):
                if other.name != name:
                    remove_generation(other)

    def _next_name(self) -> str:
        number = self._truth.get("words").rsplit("-", 1)[-1]
        return f"{self._prefix}{int(number) + 1 if number.isdigit() else 1}"

    def _path_of(self, generation: str) -> Path | None:
        return None if self._directory is None else self._directory / generation

    def _rows(self, after: int) -> Generator[LexicalRow, None, None]:
        """What changed after that `seq`, by path: words that are built in the same order give the
        same answers.
        """
        with self._connections.read() as connection:
            # Sorted afterwards (+): else SQLite walks through all docs in that order to find the
            # one that is new.
            docs = connection.execute(
                "SELECT id FROM docs WHERE seq > ? ORDER BY +source, +path", (after,)
            ).fetchall()
            for number in docs:
                *fields, packed = connection.execute(
                    f"SELECT {DOC_COLUMNS}, blobs.text FROM docs JOIN blobs ON blobs.id = blob WHERE docs.id = ?",
                    number,
                ).fetchone()
                doc = Doc(*fields)
                text = unpack(packed)
                for chunk_id, *rest in connection.execute(
                    f"SELECT id, {CHUNK_COLUMNS} FROM chunks WHERE blob = ? ORDER BY id",
                    (doc.blob,),
                ):
                    chunk = Chunk(*rest)
                    yield LexicalRow(doc, chunk_id, chunk, text[chunk.start : chunk.end])

    def _count_rows(self) -> int:
        with self._connections.read() as connection:
            rows = "SELECT coalesce(sum(last_chunk - first_chunk + 1), 0) FROM docs JOIN blobs ON blobs.id = blob"
            return connection.execute(rows).fetchone()[0]

    def _gone(self, after: int) -> list[tuple[int, int, int]]:
        with self._connections.read() as connection:
            return connection.execute(
                "SELECT doc, first_chunk, last_chunk FROM gone WHERE seq > ?", (after,)
            ).fetchall()


def _close(words: LexicalIndex) -> None:
    """Let go of words that are of no use any more, whatever their writer says."""
    try:
        words.close()
    except CortexError as error:
        log.warning("the last merge of a word index failed: %s", error.message)


def _difference(name: str, expected: Set[object], found: Set[object]) -> list[str]:
    if found == expected:
        return []
    return [f"{name}: {len(expected - found)} rows missing, {len(found - expected)} too many"]
