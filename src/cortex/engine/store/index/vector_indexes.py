"""Vector indexes of one store: a directory or a Qdrant collection for each embedder.

The index of a new embedder is made beside the one that answers. Vectors of a cheap embedder are
computed here from the texts in SQLite and exist nowhere else; paid ones are in SQLite
(`paid_vectors.py`) and only copied. An index replays what SQLite has committed since its watermark.
If that is no longer known, its ids are compared with all chunks in use, however the two came to
differ.

Knows no model, and doesn't decide which of several indexes answers.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from cortex.base.errors import LimitError, NetworkError, StoreError
from cortex.base.text import hash_bytes
from cortex.base.types import Stamp
from cortex.engine.store.connections import Connections
from cortex.engine.store.content.blobs import unpack
from cortex.engine.store.content.writer import ContentStore
from cortex.engine.store.index.lexical import SearchFilter, extension_of
from cortex.engine.store.index.paid_vectors import Embed, EmbeddingCache, EmbeddingJob
from cortex.engine.store.index.qdrant import UNAVAILABLE, Qdrant
from cortex.engine.store.index.qdrant_index import QdrantVectors
from cortex.engine.store.index.source_chunks import SourceChunks, expand
from cortex.engine.store.index.vector_file import FRESH, Vectors
from cortex.engine.store.index.vector_index import VectorIndex
from cortex.engine.store.index.vector_log import Manifest, read_manifest
from cortex.engine.store.index.vector_scan import Floats, Ids, unit
from cortex.engine.store.sql import marks, parts

EMBED_BATCH = 256
# Filters with cached chunk ids, beside the newest.
WITHIN = 7
# Up to this many docs in a filter are looked up by id, in batches of that size.
FEW_DOCS, PART = 20_000, 500
# Share of the chunks that need a vector: with fewer, semantic search would miss too much.
LEAST_SHARE = 0.5
# Contents in use with their chunks: all of them, and those of docs changed since a `seq`. CROSS
# JOIN makes SQLite keep the written order.
_USED = (
    "SELECT id, first_chunk, last_chunk FROM blobs WHERE NOT private AND EXISTS "
    "(SELECT 1 FROM docs WHERE docs.blob = blobs.id)"
)
_CHANGED = (
    "SELECT DISTINCT blobs.id, first_chunk, last_chunk FROM docs "
    "CROSS JOIN blobs ON blobs.id = docs.blob WHERE docs.seq > ? AND NOT private"
)
# Chunks of docs removed since a `seq`, unless another doc has the same content.
_GONE = (
    "SELECT DISTINCT first_chunk, last_chunk FROM gone WHERE seq > ? AND NOT EXISTS "
    "(SELECT 1 FROM chunks CROSS JOIN docs ON docs.blob = chunks.blob "
    "WHERE chunks.id = gone.first_chunk)"
)
# Prefix of a directory that is being removed.
REMOVED = ".removed-"
# A check is repeated, since a batch may be on its way from SQLite to its index.
CHECK_TRIES, CHECK_SECONDS = 4, 0.25


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Due:
    """Work needed to make an index complete at `seq`.

    Contents in use that it may lack, and ids no longer in use.
    """

    seq: int
    blobs: Ids  # ascending
    firsts: Ids  # first and last chunk of each
    lasts: Ids
    # None if `blobs` are all contents in use: any other id is gone.
    gone: Ids | None

    def chunks(self) -> Ids:
        """Ids of the chunks of these contents, ascending."""
        return expand(self.firsts, self.lasts)


class VectorIndexes:
    """Vector indexes of a store, one per embedder.

    Only the lease holder may change them.
    """

    def __init__(
        self,
        directory: Path | None,
        connections: Connections,
        content: ContentStore,
        paid: EmbeddingCache,
        qdrant: Qdrant | None = None,
    ) -> None:
        self._directory = directory
        self._qdrant = qdrant
        self._connections = connections
        self._content = content
        self._paid = paid
        # Guards the open indexes; held briefly.
        self._lock = threading.RLock()
        # Its holder may take `_lock`, never the other way round.
        self._writing = threading.RLock()
        self._open: dict[Stamp, VectorIndex] = {}
        # By filter: (seq, ids of the matching chunks).
        self._filtered_chunks: dict[SearchFilter, tuple[int, Ids]] = {}
        self._chunks = SourceChunks(connections)
        # (seq, number of chunks in use then).
        self._chunk_count = (FRESH, 0)
        # Last logged reason why the server is unavailable.
        self._said = ""
        # The `seq` up to which paid vectors are known to be copied.
        self._copied_seq: dict[Stamp, int] = {}

    @property
    def away(self) -> str:
        """Reason why the server can't be asked now, "" if it can or there is no server."""
        return self._qdrant.away if self._qdrant else ""

    @property
    def may_vanish(self) -> bool:
        """True if a server stores the vectors, and may lose them."""
        return self._qdrant is not None

    @property
    def least_mark(self) -> int:
        """Lowest watermark that may be searched.

        A server that was unavailable may still hold vectors of permanently removed content.
        """
        return int(self._content.get("removed", "0")) if self._qdrant else 0

    def of(self, stamp: Stamp) -> VectorIndex:
        """Vector index of the embedder with this stamp, in its current state."""
        with self._lock:
            vectors = self._open.get(stamp)
            if vectors is None:
                vectors = self._open[stamp] = self._open_index(stamp)
            vectors.reload_if_moved()
            return vectors

    def _open_index(self, stamp: Stamp) -> VectorIndex:
        if self._qdrant is not None:
            return QdrantVectors(self._qdrant, self._content.get("identity"), stamp)
        return Vectors.open(self._path_of(stamp), stamp)

    def catch_up(self, job: EmbeddingJob, room: int) -> None:
        """Update one embedder's vectors to the chunks in use.

        Paid ones are only copied as far as they exist. If the server is unavailable, this is left
        for later.

        Raises: LimitError EMBEDDINGS_LIMIT if vectors computed here would take more than `room`
        bytes; existing ones are kept.
        """
        wanted = self._content.seq()
        with self._writing:
            try:
                self._update(job, room, wanted)
            except StoreError as error:
                if error.code != "INDEX_DAMAGED":
                    raise
                log.warning("the vectors of %s are made anew: %s", job.stamp.model, error)
                self._discard(job.stamp)
                self._update(job, room, wanted)
            # Ids of another store, such as a deleted one, stand for other chunks.
            if self._directory is not None:
                for path in self._directory.parent.glob("vectors*"):
                    if path != self._directory:
                        shutil.rmtree(path, ignore_errors=True)

    def _update(self, job: EmbeddingJob, room: int, wanted: int) -> None:
        with self._skip_if_unavailable():
            if job.embed is not None:
                self._embed_missing(self.of(job.stamp), job.embed, room, wanted)
            else:
                self._copy(self.of(job.stamp), room)

    def _discard(self, stamp: Stamp) -> None:
        """Remove an index with damaged files; the next one is made in its place."""
        self.let_go([other for other in self._open if other != stamp])
        path = self._path_of(stamp)
        if self._directory is not None and not self._directory.is_dir():
            _remove(self._directory)
        elif path is not None:
            _remove(path)

    def damaged(self, stamp: Stamp) -> bool:
        """True if the files of an index can't be used; never for a server's."""
        path = self._path_of(stamp)
        if self._qdrant is not None or path is None or not os.path.lexists(path):
            return False
        vectors = self.of(stamp)
        if vectors.watermark != FRESH or vectors.memory:
            return False
        manifest = read_manifest(path)
        return manifest is None or manifest.watermark != FRESH

    def look_again(self) -> None:
        """Close the open indexes unless one is being written; damaged ones reopen empty."""
        if self._writing.acquire(blocking=False):
            try:
                self.let_go(())
            finally:
                self._writing.release()

    def pay(
        self,
        stamp: Stamp,
        model: int,
        hashes: Sequence[bytes],
        rows: Floats,
        known: Sequence[bytes],
    ) -> None:
        """Store vectors that were just paid for in SQLite, then copy them and `known` ones.

        Raises: ValueError for a wrong shape or a value that isn't a finite number.
        """
        if rows.shape != (len(hashes), stamp.dimensions):
            raise ValueError(
                f"expected {len(hashes)} vectors of {stamp.dimensions} dimensions, got the shape "
                f"{rows.shape}"
            )
        packed = unit(rows).astype("<f2")
        self._paid.put(
            model, {digest: row.tobytes() for digest, row in zip(hashes, packed, strict=True)}
        )
        self.copy(stamp, [*hashes, *known])

    def copy(self, stamp: Stamp, hashes: Sequence[bytes]) -> None:
        """Copy the paid vectors of these texts into the searchable index."""
        with self._writing, self._skip_if_unavailable():
            vectors, chunks = self.of(stamp), self._paid.chunks_of(hashes)
            # If this fails, the next run looks at everything.
            copied = self._copied_seq.pop(stamp, FRESH)
            self._add_paid(vectors, vectors.lacking(np.asarray(chunks, dtype=np.int64)))
            vectors.sync(vectors.watermark)
            self._copied_seq[stamp] = copied

    def fits(self, stamp: Stamp, room: int) -> bool:
        """True if the vectors of all chunks in use fit into `room` bytes."""
        return self.of(stamp).memory_of(self.count()) <= room

    def count(self) -> int:
        """Number of chunks in use.

        Counted once per `seq`, since every search asks during embedding.
        """
        seq, counted = self._content.seq(), self._chunk_count
        if counted[0] != seq:
            with self._connections.read() as connection:
                row = connection.execute(
                    "SELECT coalesce(sum(last_chunk - first_chunk + 1), 0) FROM blobs "
                    "WHERE NOT private AND EXISTS (SELECT 1 FROM docs WHERE docs.blob = blobs.id)"
                ).fetchone()
            self._chunk_count = counted = (seq, row[0])
        return counted[1]

    def size(self, stamp: Stamp) -> int:
        """Number of vectors, 0 if the server is unavailable."""
        vectors = self.of(stamp)
        if not self.away:
            with self._skip_if_unavailable():
                return len(vectors)
        return 0

    def embedded(self, stamp: Stamp) -> int:
        """Number of chunks in use that have a vector, 0 if the server is unavailable."""
        vectors = self.of(stamp)
        if vectors.watermark == self._content.seq():
            return self.size(stamp)
        if not self.away:
            with self._skip_if_unavailable():
                return len(np.intersect1d(vectors.ids(), self._chunks_in_use(), assume_unique=True))
        return 0

    def chunks_within(self, narrow: SearchFilter) -> Ids:
        """Ids of the chunks that match a filter; cached, since filters are used repeatedly."""
        seq, cache = self._content.seq(), self._filtered_chunks
        known = cache.get(narrow)
        if known is not None and known[0] == seq:
            return known[1]
        whole = not (narrow.extensions or narrow.languages or narrow.docs is not None)
        chunks = (
            self._chunks.of(narrow.sources, seq) if whole else self._find_filtered_chunks(narrow)
        )
        kept = {key: ids for key, ids in list(cache.items())[-WITHIN:] if ids[0] == seq}
        self._filtered_chunks = {**kept, narrow: (seq, chunks)}
        return chunks

    def _find_filtered_chunks(self, narrow: SearchFilter) -> Ids:
        by_language = (
            f" AND blobs.language IN ({marks(narrow.languages)})" if narrow.languages else ""
        )
        query = (
            "SELECT docs.id, docs.path, first_chunk, last_chunk FROM docs "
            "JOIN blobs ON blobs.id = docs.blob "
            f"WHERE docs.source IN ({marks(narrow.sources)}){by_language} AND NOT private"
        )
        values = (*narrow.sources, *narrow.languages)
        with self._connections.read() as connection:
            if narrow.docs is None or len(narrow.docs) > FEW_DOCS:
                rows = connection.execute(query, values).fetchall()
            else:
                # Looked up by id: a source may have a hundred times as many docs.
                docs, rows = sorted(narrow.docs), []
                for part in parts(docs, PART):
                    batch_query = f"{query} AND docs.id IN ({marks(part)})".replace(
                        "docs.source", "+docs.source"
                    )
                    rows += connection.execute(batch_query, (*values, *part)).fetchall()
        ranges = {
            (first, last)
            for doc, path, first, last in rows
            if (narrow.docs is None or doc in narrow.docs)
            and (not narrow.extensions or extension_of(path) in narrow.extensions)
        }
        return expand(*_columns(sorted(ranges), 2))

    def on_disk(self) -> list[Manifest | None]:
        """Manifest of each directory, None for one without a readable manifest."""
        return [read_manifest(path) for path in self._paths()]

    def keep_only(self, stamps: Collection[Stamp]) -> None:
        """Remove the vectors of every other embedder."""
        with self._writing:
            self.let_go(stamps)
            kept = set() if self._qdrant else {self._path_of(stamp) for stamp in stamps}
            for path in self._paths():
                if path not in kept:
                    _remove(path)
            self._remove_leftovers()
            if self._qdrant is not None:
                with self._skip_if_unavailable():
                    store = self._content.get("identity")
                    names = {self._qdrant.name_of(store, stamp) for stamp in stamps}
                    self._qdrant.drop(
                        collection.name
                        for collection in self._qdrant.collections(store)
                        if collection.name not in names
                    )

    def erase(self) -> None:
        """Remove unused rows from all files on disk, also from indexes that no longer answer.

        A vector reveals what a text is about.
        """
        with self._writing:
            used = self._chunks_in_use()
            for path in self._paths():
                manifest = read_manifest(path)
                if manifest is None:
                    # Its rows can't be identified.
                    _remove(path)
                    continue
                opened = self._open.get(manifest.stamp)
                with (
                    nullcontext(opened)
                    if opened is not None
                    else closing(Vectors.open(path, manifest.stamp)) as vectors
                ):
                    vectors.remove(np.setdiff1d(vectors.ids(), used))
                    vectors.compact()
                    vectors.sync(vectors.watermark)

    def rest_but(self, stamp: Stamp) -> None:
        """Release the memory of all other indexes, unless one is being written."""
        if len(self._open) > 1 and self._writing.acquire(blocking=False):
            try:
                self.let_go((stamp,))
            finally:
                self._writing.release()

    def let_go(self, stamps: Collection[Stamp]) -> None:
        """Close the vectors of every other embedder."""
        with self._lock:
            for stamp in [stamp for stamp in self._open if stamp not in stamps]:
                self._open.pop(stamp).close()
                self._copied_seq.pop(stamp, None)

    def check(self) -> list[str]:
        """Compare the ids of all vector indexes with SQLite and describe the differences."""
        problems: list[str] = []
        for path in self._paths():
            manifest = read_manifest(path)
            if manifest is None:
                problems.append("vectors: nothing says how much of them is complete")
            elif manifest.watermark == self._content.seq():
                problems += self._difference(manifest.stamp, partial(_ids_in, path))
        if self._qdrant is not None:
            with self._skip_if_unavailable():
                for collection in self._qdrant.collections(self._content.get("identity")):
                    if (
                        collection.mark is not None
                        and collection.mark.watermark == self._content.seq()
                    ):
                        problems += self._difference(
                            collection.mark.stamp, lambda stamp: self.of(stamp).ids()
                        )
        return problems

    def verify(self) -> None:
        """Mark indexes with more or fewer rows than SQLite for comparison at the next change."""
        with self._lock:
            opened = list(self._open.values())
        for vectors in opened:
            if isinstance(vectors, Vectors) and not vectors.is_whole():
                log.warning(
                    "the vectors of %s are damaged: they will be made anew", vectors.stamp.model
                )
                with self._writing:
                    self._discard(vectors.stamp)
                    self._copied_seq.pop(vectors.stamp, None)
                continue
            complete = (
                vectors.watermark == self._content.seq() and self._paid.find(vectors.stamp) is None
            )
            with self._skip_if_unavailable():
                if complete and len(vectors) != self.count():
                    log.warning(
                        "there are %d vectors of %d chunks: they will be compared",
                        len(vectors),
                        self.count(),
                    )
                    self._content.doubt()

    def close(self) -> None:
        """Close all files, after waiting for a writer."""
        with self._writing:
            self.let_go(())

    @contextmanager
    def _skip_if_unavailable(self) -> Iterator[None]:
        """Skip the block if the server is unavailable; its watermark shows what is missing."""
        try:
            yield
        except NetworkError as error:
            if error.code != UNAVAILABLE:
                raise
            # Logged once, not for every batch of a run.
            if error.message != self._said:
                log.warning("%s; until it is back, words answer", error.message)
            self._said = error.message
        else:
            self._said = ""

    def _difference(self, stamp: Stamp, ids_of: Callable[[Stamp], Ids]) -> list[str]:
        missing = surplus = 0
        for attempt in range(CHECK_TRIES):
            if attempt:
                time.sleep(CHECK_SECONDS)
            paid = self._paid.find(stamp) is not None
            expected = (
                np.asarray(self._paid.embedded(stamp), dtype=np.int64)
                if paid
                else self._chunks_in_use()
            )
            actual = ids_of(stamp)
            missing, surplus = (
                len(np.setdiff1d(expected, actual)),
                len(np.setdiff1d(actual, expected)),
            )
            if not missing + surplus:
                return []
            if not paid:
                break
        return [f"vectors: {missing} rows missing, {surplus} too many"]

    def _path_of(self, stamp: Stamp) -> Path | None:
        if self._directory is None:
            return None
        name = re.sub(r"[^a-z0-9]+", "-", f"{stamp.provider} {stamp.model}".lower()).strip("-")[:40]
        return (
            self._directory
            / f"{name}-{hash_bytes(*(str(part).encode() for part in astuple(stamp))).hex()[:12]}"
        )

    def _paths(self) -> list[Path]:
        if self._directory is None or not self._directory.is_dir():
            return []
        return sorted(
            path
            for path in self._directory.iterdir()
            if path.is_dir() and not path.name.startswith(REMOVED)
        )

    def _remove_leftovers(self) -> None:
        """Finish removals that were interrupted when a process was killed."""
        if self._directory is not None:
            for path in self._directory.glob(f"{REMOVED}*"):
                shutil.rmtree(path, ignore_errors=True)

    def _embed_missing(self, vectors: VectorIndex, embed: Embed, room: int, wanted: int) -> None:
        # Another thread has done it together with its own changes.
        if wanted <= vectors.watermark <= self._content.seq():
            return
        due = self._due(vectors.watermark)
        if due.seq == vectors.watermark:
            return
        used = due.chunks()
        if due.gone is not None and vectors.memory + vectors.memory_of(len(used)) > room:
            # Whether there is room can't be decided from the changes alone.
            due = self._due(FRESH)
            used = due.chunks()
        fits = vectors.memory_of(len(used)) <= room
        # Even the existing vectors would have to be loaded first.
        if not fits and vectors.memory > room:
            raise _no_room(vectors, room)
        self._drop(vectors, due, used)
        missing = vectors.lacking(used)
        if fits and vectors.memory + vectors.memory_of(len(missing)) > room:
            # Without the dead rows there is enough room.
            vectors.compact()
        batch: list[tuple[int, str]] = []
        for text in self._texts(due, missing):
            batch.append(text)
            if len(batch) >= EMBED_BATCH:
                _add(vectors, embed, batch, room)
                batch = []
        _add(vectors, embed, batch, room)
        vectors.sync(due.seq)

    def _copy(self, vectors: VectorIndex, room: int) -> None:
        stamp = vectors.stamp
        if vectors.memory_of(self.count()) > room:
            return
        # A crash may have left vectors in SQLite that no watermark accounts for, so the first run
        # looks at all of them.
        after, complete = self._copied_seq.get(stamp, FRESH), self._paid.is_complete(stamp)
        if complete:
            # A server may have lost copied vectors.
            after = min(after, vectors.watermark)
        due = self._due(after)
        if after == due.seq and (vectors.watermark == due.seq) == complete:
            return
        self._drop(vectors, due, due.chunks())
        embedded = np.asarray(self._paid.embedded(stamp, after), dtype=np.int64)
        self._add_paid(vectors, vectors.lacking(embedded))
        if complete and len(vectors) < LEAST_SHARE * self.count():
            self._paid.set_complete(self._paid.model(stamp), complete := False)
        vectors.sync(due.seq if complete else FRESH)
        self._copied_seq[stamp] = due.seq

    def _drop(self, vectors: VectorIndex, due: _Due, used: Ids) -> None:
        """Remove the rows of chunks that are no longer in use."""
        # SQLite was restored from an older copy: its next ids will stand for other chunks.
        if vectors.watermark > due.seq:
            vectors.remove(vectors.ids())
        else:
            vectors.remove(np.setdiff1d(vectors.ids(), used) if due.gone is None else due.gone)

    def _add_paid(self, vectors: VectorIndex, chunks: Ids) -> None:
        for rows in self._paid.rows(vectors.stamp, chunks.tolist()):
            packed = np.frombuffer(b"".join(row for _, row in rows), dtype="<f2")
            ids = np.asarray([chunk_id for chunk_id, _ in rows], dtype=np.int64)
            vectors.add(ids, packed.reshape(len(rows), -1).astype(np.float32))

    def _chunks_in_use(self) -> Ids:
        return self._due(FRESH).chunks()

    def _due(self, after: int) -> _Due:
        """Changes since that `seq`; everything in use, if they are no longer known."""
        with self._connections.read() as connection:
            seq = self._content.seq()
            known = self._content.remembers(after) and after <= seq
            rows = connection.execute(
                _CHANGED if known else _USED, (after,) if known else ()
            ).fetchall()
            gone = connection.execute(_GONE, (after,)).fetchall() if known else None
        blobs, firsts, lasts = _columns(rows, 3)
        return _Due(seq, blobs, firsts, lasts, None if gone is None else expand(*_columns(gone, 2)))

    def _texts(self, due: _Due, chunks: Ids) -> Iterator[tuple[int, str]]:
        """Texts of these chunks of what is due; each content is unpacked once."""
        wanted = np.searchsorted(chunks, due.firsts) < np.searchsorted(
            chunks, due.lasts, side="right"
        )
        missing = set(chunks.tolist())
        for blob in due.blobs[wanted].tolist():
            with self._connections.read() as connection:
                row = connection.execute("SELECT text FROM blobs WHERE id = ?", (blob,)).fetchone()
                ranges = connection.execute(
                    "SELECT id, start, end FROM chunks WHERE blob = ?", (blob,)
                ).fetchall()
                text = None if row is None else unpack(row[0])
            if text is not None:
                wanted_ranges = [span for span in ranges if span[0] in missing]
                slices = self._paid.redactions.of(blob, text).slices(
                    text, [span[1:] for span in wanted_ranges]
                )
                yield from (
                    (chunk_id, text)
                    for (chunk_id, *_), text in zip(wanted_ranges, slices, strict=True)
                )


def _remove(path: Path) -> None:
    """Remove an index atomically: one without its rows must never be found in its place."""
    aside = path.with_name(REMOVED + path.name)
    shutil.rmtree(aside, ignore_errors=True)
    # Files that another process has open (Windows) are removed the next time.
    with suppress(OSError):
        if path.is_dir():
            os.replace(path, aside)
            shutil.rmtree(aside, ignore_errors=True)
        else:
            path.unlink()


def _ids_in(path: Path, stamp: Stamp) -> Ids:
    with closing(Vectors.open(path, stamp)) as vectors:
        return vectors.ids()


def _columns(rows: Sequence[tuple[int, ...]], count: int) -> Iterator[Ids]:
    return iter(np.asarray(rows, dtype=np.int64).reshape(-1, count).T)


def _add(vectors: VectorIndex, embed: Embed, batch: Sequence[tuple[int, str]], room: int) -> None:
    if batch:
        if vectors.memory + vectors.memory_of(len(batch)) > room:
            # Kept, but not searched: chunks without a vector would always come last.
            vectors.sync(FRESH)
            raise _no_room(vectors, room)
        vectors.add(
            np.asarray([chunk_id for chunk_id, _ in batch], dtype=np.int64),
            embed([text for _, text in batch]),
        )


def _no_room(vectors: VectorIndex, room: int) -> LimitError:
    stamp = vectors.stamp
    return LimitError(
        "EMBEDDINGS_LIMIT",
        f"embedding by {stamp.provider} {stamp.model} stopped: the vectors would take more than "
        f"{room / 1e6:,.1f} MB of memory",
    )
