"""Maintenance of the indexes beside SQLite: catching up, rebuilding, swapping, reloading.

An index has a watermark, everything after it is replayed from SQLite, and replaying twice is
harmless. So a fresh, stale or damaged index is just one with an early watermark. Each generation of
the lexical index is a directory of its own; which one is current is stored in SQLite, so a swap is
one transaction and readers in other processes follow.

An index that fails while it is opened, searched or written is not used again: a marker file in its
directory reports that to every process, answers go on without it, and the lease holder rebuilds it.
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

# numpy and the vector indexes are only loaded if an embedder uses them.
if TYPE_CHECKING:
    from cortex.engine.store.index.vector_index import VectorIndex, VectorServer
    from cortex.engine.store.index.vector_indexes import VectorIndexes

# Dead rows distort BM25 until they are merged away.
DEAD_SHARE = 0.10
# Below this a rebuild isn't worth it.
DEAD_ROWS = 1_000
DAMAGED = "INDEX_DAMAGED"
# Name of the file that marks a generation as damaged.
_DAMAGE_MARKER = "damaged"

log = logging.getLogger(__name__)


class Indexes:
    """Lexical and vector indexes of one store, as this process sees them.

    `_lock` guards the choice of the current lexical index and is held briefly, since searches need
    it. `_writing` is held while the lexical index is written. Its holder may take `_lock`, never
    the other way round.
    """

    def __init__(
        self,
        directory: Path | None,
        connections: Connections,
        content: ContentStore,
        paid: EmbeddingCache,
        vector_server: VectorServer | None = None,
    ) -> None:
        self._directory = directory
        self._vector_server = vector_server
        self._connections = connections
        self._content = content
        self._paid = paid
        # Indexes belong to exactly this database: the ids of another one, such as a deleted one,
        # stand for other rows.
        identity = content.get("identity")
        self._prefix = f"words-{FORMAT}-{identity}-"
        self._vectors_directory = None if directory is None else directory / f"vectors-{identity}"
        self._lock = threading.RLock()
        self._writing = threading.RLock()
        self._words: LexicalIndex | None = None
        self._generation = ""
        # Watermark of the lexical index as loaded by this process.
        self._mark = NO_WATERMARK
        self._vector_indexes: VectorIndexes | None = None
        # Generation of the lexical index that failed in this process.
        self._damaged_generation = ""

    def words(self) -> LexicalIndex | None:
        """Current lexical index, reloaded if another process moved it.

        Returns None before the first one exists, and while it is damaged.

        Raises: LimitError MEMORY_SHORT, StoreError STORE_UNWRITABLE.
        """
        with self._lock:
            generation = self._content.get("words")
            if not generation.startswith(self._prefix) or self._is_marked_damaged(generation):
                return None
            try:
                if self._words is None or generation != self._generation:
                    self._open(generation)
                # SQLite is ahead of the lexical index for a moment after every change; an index
                # loaded then has to be reloaded.
                elif self._mark != self._content.seq():
                    self._words.reload()
                    self._mark = self._words.watermark()
            except StoreError as error:
                if error.code != DAMAGED:
                    raise
                self.mark_damaged(error)
                return None
            return self._words

    @property
    def damaged(self) -> bool:
        """True if the lexical index failed in any process and isn't rebuilt yet."""
        with self._lock:
            return self._is_marked_damaged(self._content.get("words"))

    def mark_damaged(self, error: StoreError) -> None:
        """Stop using the index that raised this error.

        A damaged lexical index is marked for every process until it is rebuilt.
        """
        if "index" not in error.context:
            # Damaged vector indexes open empty.
            self.sets.look_again()
            return
        with self._lock:
            generation, index = self._content.get("words"), error.context.get("index")
            if index != generation and (index or self._directory is not None):
                return
            if generation != self._damaged_generation:
                log.warning("the word index is damaged and will be built anew: %s", error.message)
            self._damaged_generation, self._words = generation, None
            path = self._path_of(generation)
        if path is not None:
            # If the disk can't be written, other processes will discover the damage themselves.
            with suppress(OSError):
                if not path.is_dir():
                    remove_generation(path)
                    path.mkdir(mode=0o700)
                (path / _DAMAGE_MARKER).touch(mode=0o600)

    def _is_marked_damaged(self, generation: str) -> bool:
        path = self._path_of(generation)
        if not generation.startswith(self._prefix):
            return False
        return generation == self._damaged_generation or (
            path is not None and (path / _DAMAGE_MARKER).exists()
        )

    def state(self) -> tuple[str, int]:
        """State that a lexical answer depends on: equal states give equal answers."""
        with self._lock:
            if self.words() is None and self.damaged:
                return "", NO_WATERMARK
            return self._generation, self._mark

    @property
    def sets(self) -> VectorIndexes:
        """Vector indexes, by embedder."""
        from cortex.engine.store.index.vector_indexes import VectorIndexes

        with self._lock:
            if self._vector_indexes is None:
                self._vector_indexes = VectorIndexes(
                    self._vectors_directory,
                    self._connections,
                    self._content,
                    self._paid,
                    self._vector_server,
                )
            return self._vector_indexes

    def vectors(self, stamp: Stamp) -> VectorIndex:
        """Vector index of the embedder with this stamp."""
        return self.sets.of(stamp)

    def catch_up(self, jobs: Iterable[EmbeddingJob] = (), room: int = sys.maxsize) -> None:
        """Replay what SQLite has committed since into the lexical and these vector indexes.

        Only the lease holder may call this. Of several waiting threads, one does it for all that
        had written by then.

        Raises: LimitError EMBEDDINGS_LIMIT if the vectors would take more than `room` bytes; the
        lexical index is complete then, and existing vectors are kept.
        """
        wanted = self._content.seq()
        with self._writing:
            try:
                self._replay(wanted)
            except StoreError as error:
                if error.code != DAMAGED:
                    raise
                self.mark_damaged(error)
                self._replay(wanted)
        for job in jobs:
            self.sets.catch_up(job, room)

    def _replay(self, wanted: int) -> None:
        """Bring the lexical index up to date, or rebuild a damaged one."""
        words = self._ensure_words()
        mark = words.watermark()
        if mark < wanted:
            seq = self._content.seq()
            gone = self._gone(mark)
            with closing(self._rows(mark)) as rows:
                words.apply(rows, [doc for doc, _, _ in gone], seq)
            self._content.record_lexical_progress(
                seq, sum(last - first + 1 for _, first, last in gone)
            )
            with self._lock:
                self._mark = seq

    def tidy(self) -> bool:
        """Rebuild the lexical index if too many of its rows are dead; true if that happened.

        Permanently removed content is erased from the vector files too.
        """
        if (
            self._content.keeps_deleted_words
            and self._vectors_directory is not None
            and self._vectors_directory.exists()
        ):
            self.sets.erase()
        if not self._has_many_dead_rows():
            return False
        with self._writing:
            # Another thread has just done it.
            if not self._has_many_dead_rows():
                return False
            self.rebuild()
            return True

    def _has_many_dead_rows(self) -> bool:
        dead = self._content.number("dead")
        with self._lock:
            words = self._words
        if words is None or dead < DEAD_ROWS:
            return False
        try:
            return dead >= DEAD_SHARE * (dead + len(words))
        except StoreError as error:
            if error.code != DAMAGED:
                raise
            self.mark_damaged(error)
            return True

    def verify(self) -> bool:
        """Rebuild the lexical index if it is damaged or differs from SQLite; true if that happened.

        Vector indexes that differ are compared with SQLite at the next change.
        """
        if self._vector_indexes is not None:
            self._vector_indexes.verify()
        with self._writing:
            wrong = self._find_lexical_damage() or self._find_row_mismatch()
            if wrong:
                log.warning("the word index is built anew: %s", wrong)
                self.rebuild()
            return bool(wrong)

    def _find_lexical_damage(self) -> str:
        """Describe a checksum failure in the lexical index's files, "" if there is none."""
        generation = self._content.get("words")
        path = self._path_of(generation)
        if (
            path is not None
            and generation.startswith(self._prefix)
            and not self._is_marked_damaged(generation)
        ):
            name = find_damage(path, again=True)
            if name and generation == self._content.get("words"):
                message = f"{generation}/{name} is damaged"
                self.mark_damaged(StoreError(DAMAGED, message, context={"index": generation}))
        if self.words() is None and self.damaged:
            return f"the word index {generation} is damaged"
        return ""

    def _find_row_mismatch(self) -> str:
        try:
            words = self.words()
            if (
                words is None
                or words.watermark() != self._content.seq()
                or len(words) == self._count_rows()
            ):
                return ""
            return f"it has {len(words)} rows where the store has {self._count_rows()}"
        except StoreError as error:
            if error.code != DAMAGED:
                raise
            self.mark_damaged(error)
            return error.message

    def check_words(self) -> list[str]:
        """Compare the lexical index's files with their checksums, and its ids with SQLite."""
        if wrong := self._find_lexical_damage():
            return [wrong]
        try:
            words = self.words()
            if words is None or words.watermark() != self._content.seq():
                return []
            with self._connections.read() as connection:
                pairs = connection.execute(
                    "SELECT docs.id, chunks.id FROM docs JOIN chunks ON chunks.blob = docs.blob"
                )
                return _difference("words", set(pairs), words.identities())
        except StoreError as error:
            if error.code != DAMAGED:
                raise
            self.mark_damaged(error)
            return [error.message]

    def check_vectors(self) -> list[str]:
        """Compare the ids of all vector indexes with SQLite."""
        on_disk = self._vectors_directory is not None and self._vectors_directory.exists()
        if not on_disk and self._vector_server is None:
            return []
        return self.sets.check()

    def rebuild(self) -> None:
        """Build a new lexical index beside the current one and swap; searches go on meanwhile.

        Only the lease holder may call this.
        """
        with self._writing:
            name = self._next_name()
            path = self._path_of(name)
            try:
                fresh = LexicalIndex(path, create=True)
                seq = self._content.seq()
                with closing(self._rows(NO_WATERMARK)) as rows:
                    fresh.apply(rows, (), seq)
            except BaseException as error:
                if path is not None:
                    remove_generation(path)
                if isinstance(error, StoreError) and error.code == DAMAGED:
                    # A new index can't be damaged: it could not be written.
                    raise StoreError(
                        "STORE_IO", f"the word index can't be written: {error.message}"
                    ) from error
                raise
            self._swap(fresh, name, seq)

    def close(self) -> None:
        """Close all files, after waiting for a replay in another thread."""
        if self._vector_indexes is not None:
            self._vector_indexes.close()
        with self._writing, self._lock:
            words, self._words = self._words, None
            if words is not None:
                _close(words)

    def _open(self, generation: str) -> None:
        """Open that generation, or the one that has replaced it meanwhile."""
        words, self._words = self._words, None
        if words is not None:
            _close(words)
        try:
            self._words = LexicalIndex(self._path_of(generation))
        except StoreError:
            newest = self._content.get("words")
            if newest == generation:
                raise
            generation, self._words = newest, LexicalIndex(self._path_of(newest))
        self._generation, self._mark = generation, self._words.watermark()

    def _ensure_words(self) -> LexicalIndex:
        """Current lexical index, or a fresh one if it is missing, damaged or ahead of SQLite."""
        words = self.words()
        if words is not None and words.watermark() <= self._content.seq():
            return words
        if words is None and self.damaged:
            # Built aside: searching an index that is still growing would miss rows.
            self.rebuild()
            if (words := self.words()) is not None:
                return words
        name = self._next_name()
        fresh = LexicalIndex(self._path_of(name), create=True)
        self._swap(fresh, name, NO_WATERMARK)
        return fresh

    def _swap(self, fresh: LexicalIndex, name: str, mark: int) -> None:
        """Make a fresh lexical index current in all processes and drop the others."""
        with self._lock:
            old, self._words = self._words, fresh
            self._generation, self._mark = name, mark
            self._content.set({"words": name, "dead": "0"})
        if old is not None:
            _close(old)
        if self._directory is not None:
            for other in self._directory.glob("words-*"):
                if other.name != name:
                    remove_generation(other)

    def _next_name(self) -> str:
        suffix = self._content.get("words").rsplit("-", 1)[-1]
        return f"{self._prefix}{int(suffix) + 1 if suffix.isdigit() else 1}"

    def _path_of(self, generation: str) -> Path | None:
        return None if self._directory is None else self._directory / generation

    def _rows(self, after: int) -> Generator[LexicalRow, None, None]:
        """Rows changed after that `seq`, by path: the same build order gives the same answers."""
        with self._connections.read() as connection:
            # The unary plus makes SQLite sort afterwards; else it walks through all docs in that
            # order to find the new one.
            docs = connection.execute(
                "SELECT id FROM docs WHERE seq > ? ORDER BY +source, +path", (after,)
            ).fetchall()
            for key in docs:
                *fields, packed = connection.execute(
                    f"SELECT {DOC_COLUMNS}, blobs.text FROM docs JOIN blobs ON blobs.id = blob "
                    "WHERE docs.id = ?",
                    key,
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
        rows = (
            "SELECT coalesce(sum(last_chunk - first_chunk + 1), 0) FROM docs "
            "JOIN blobs ON blobs.id = blob"
        )
        return self._connections.value(rows)

    def _gone(self, after: int) -> list[tuple[int, int, int]]:
        return self._connections.rows(
            "SELECT doc, first_chunk, last_chunk FROM gone WHERE seq > ?", (after,)
        )


def _close(words: LexicalIndex) -> None:
    """Close an index that is no longer used; failures are only logged."""
    try:
        words.close()
    except CortexError as error:
        log.warning("the last merge of a word index failed: %s", error.message)


def _difference(name: str, expected: Set[object], actual: Set[object]) -> list[str]:
    if actual == expected:
        return []
    return [f"{name}: {len(expected - actual)} rows missing, {len(actual - expected)} too many"]
