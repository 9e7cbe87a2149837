"""Vector indexes of one store: one for each embedder, in files or on a server.

The index of a new embedder is made beside the one that answers. Vectors of a cheap embedder are
computed here from the texts in SQLite and exist nowhere else; paid ones are in SQLite
(`paid_vectors.py`) and only copied. An index replays what SQLite has committed since its watermark.
If that is no longer known, its ids are compared with all chunks in use, however the two came to
differ.

Knows no model, and doesn't decide which of several indexes answers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from cortex.base.errors import LimitError, StoreError
from cortex.base.types import Stamp
from cortex.engine.store.connections import Connections
from cortex.engine.store.content.blobs import unpack
from cortex.engine.store.content.writer import ContentStore
from cortex.engine.store.index.lexical import SearchFilter
from cortex.engine.store.index.paid_vectors import Embed, EmbeddingCache, EmbeddingJob
from cortex.engine.store.index.source_chunks import SourceChunks, expand
from cortex.engine.store.index.vector_file import Vectors
from cortex.engine.store.index.vector_folder import VectorFolder, remove
from cortex.engine.store.index.vector_index import (
    FRESH,
    RangeMeans,
    VectorIndex,
    VectorServer,
    VectorServerAway,
    VectorState,
    lacking,
)
from cortex.engine.store.index.vector_log import Manifest, read_manifest
from cortex.engine.store.index.vector_scan import Floats, Ids, unit

EMBED_BATCH = 256
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
        folder: Path | None,
        connections: Connections,
        content: ContentStore,
        paid: EmbeddingCache,
        server: VectorServer | None = None,
    ) -> None:
        # Where a server stores the vectors, files may be left of the time before.
        self._folder = VectorFolder(folder)
        self._server = server
        self._connections = connections
        self._content = content
        self._paid = paid
        # Guards the open indexes; held briefly.
        self._lock = threading.RLock()
        # Its holder may take `_lock`, never the other way round.
        self._writing = threading.RLock()
        self._open: dict[Stamp, VectorIndex] = {}
        self._means: dict[Stamp, RangeMeans] = {}
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
        return self._server.away if self._server else ""

    @property
    def may_vanish(self) -> bool:
        """True if a server stores the vectors, and may lose them."""
        return self._server is not None

    @property
    def least_mark(self) -> int:
        """Lowest watermark that may be searched.

        A server that was unavailable may still hold vectors of permanently removed content.
        """
        return int(self._content.get("removed", "0")) if self._server else 0

    def of(self, stamp: Stamp) -> VectorIndex:
        """Vector index of the embedder with this stamp, in its current state."""
        return self._look(stamp)[0]

    def state(self, stamp: Stamp) -> VectorState:
        """Current state of the vector index of the embedder with this stamp."""
        return self._look(stamp)[1]

    def _look(self, stamp: Stamp) -> tuple[VectorIndex, VectorState]:
        with self._lock:
            index = self._open.get(stamp)
            if index is None:
                index = self._open[stamp] = (
                    self._folder.open(stamp)
                    if self._server is None
                    else self._server.open(self._content.get("identity"), stamp)
                )
                self._means[stamp] = RangeMeans(stamp)
            state = index.look()
            if state.watermark == FRESH:
                self._means[stamp].clear()
            return index, state

    def file_cosines(
        self, stamp: Stamp, vector: Floats, ranges: Sequence[tuple[int, int]]
    ) -> list[float]:
        """Cosine of the mean row of each id range (both ends included), 0 if it has no rows."""
        with self._lock:
            index, means = self._look(stamp)[0], self._means[stamp]
        return means.cosines(index, vector, ranges)

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
            self._folder.remove_siblings()

    def _update(self, job: EmbeddingJob, room: int, wanted: int) -> None:
        with self._skip_if_unavailable():
            if job.embed is not None:
                self._embed_missing(job, job.embed, room, wanted)
            else:
                self._copy(job.stamp, room)

    def _discard(self, stamp: Stamp) -> None:
        """Remove an index with damaged files; the next one is made in its place."""
        self.let_go([other for other in self._open if other != stamp])
        self._folder.discard(stamp)

    def damaged(self, stamp: Stamp) -> bool:
        """True if the files of an index can't be used; never for a server's."""
        if self._server is not None or not self._folder.is_there(stamp):
            return False
        state = self.state(stamp)
        if state.watermark != FRESH or state.memory:
            return False
        manifest = self._folder.manifest(stamp)
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
            (index, state), chunks = self._look(stamp), self._paid.chunks_of(hashes)
            # If this fails, the next run looks at everything.
            copied = self._copied_seq.pop(stamp, FRESH)
            self._add_paid(stamp, index, lacking(index, np.asarray(chunks, dtype=np.int64)))
            index.sync(state.watermark)
            self._copied_seq[stamp] = copied

    def fits(self, stamp: Stamp, room: int) -> bool:
        """True if the vectors of all chunks in use fit into `room` bytes."""
        return self.state(stamp).row_bytes * self.count() <= room

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
        if not self.away:
            with self._skip_if_unavailable():
                return len(self.of(stamp).ids())
        return 0

    def embedded(self, stamp: Stamp) -> int:
        """Number of chunks in use that have a vector, 0 if the server is unavailable."""
        index, state = self._look(stamp)
        if state.watermark == self._content.seq():
            return self.size(stamp)
        if not self.away:
            with self._skip_if_unavailable():
                return len(np.intersect1d(index.ids(), self._chunks_in_use(), assume_unique=True))
        return 0

    def chunks_within(self, scope: SearchFilter) -> Ids:
        """Ids of the chunks that match a filter; cached, since filters are used repeatedly."""
        return self._chunks.within(scope, self._content.seq())

    def on_disk(self) -> list[Manifest | None]:
        """Manifest of each directory, None for one without a readable manifest."""
        return self._folder.manifests()

    def keep_only(self, stamps: Collection[Stamp]) -> None:
        """Remove the vectors of every other embedder."""
        with self._writing:
            self.let_go(stamps)
            self._folder.keep_only(() if self._server else stamps)
            if self._server is not None:
                with self._skip_if_unavailable():
                    self._server.keep_only(self._content.get("identity"), stamps)

    def erase(self) -> None:
        """Remove unused rows from all files on disk, also from indexes that no longer answer.

        A vector reveals what a text is about.
        """
        with self._writing:
            used = self._chunks_in_use()
            for path in self._folder.paths():
                manifest = read_manifest(path)
                if manifest is None:
                    # Its rows can't be identified.
                    remove(path)
                    continue
                opened = self._open.get(manifest.stamp)
                with (
                    nullcontext(opened)
                    if opened is not None
                    else closing(Vectors.open(path, manifest.stamp)) as vectors
                ):
                    vectors.remove(np.setdiff1d(vectors.ids(), used))
                    vectors.sync(vectors.look().watermark, compact=True)

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
                self._means.pop(stamp, None)
                self._copied_seq.pop(stamp, None)

    def check(self) -> list[str]:
        """Compare the ids of all vector indexes with SQLite and describe the differences."""
        problems: list[str] = []
        for path in self._folder.paths():
            manifest = read_manifest(path)
            if manifest is None:
                problems.append("vectors: nothing says how much of them is complete")
            elif manifest.watermark == self._content.seq():
                problems += self._difference(manifest.stamp, partial(_ids_in, path))
        if self._server is not None:
            with self._skip_if_unavailable():
                for stamp, watermark in self._server.watermarks(self._content.get("identity")):
                    if watermark == self._content.seq():
                        problems += self._difference(stamp, lambda stamp: self.of(stamp).ids())
        return problems

    def verify(self) -> None:
        """Mark indexes with more or fewer rows than SQLite for comparison at the next change."""
        with self._lock:
            opened = list(self._open.items())
        for stamp, index in opened:
            if isinstance(index, Vectors) and not index.is_whole():
                log.warning("the vectors of %s are damaged: they will be made anew", stamp.model)
                with self._writing:
                    self._discard(stamp)
                    self._copied_seq.pop(stamp, None)
                continue
            is_complete = self.state(stamp).watermark == self._content.seq()
            with self._skip_if_unavailable():
                if not is_complete or self._paid.find(stamp) is not None:
                    continue
                size, count = len(index.ids()), self.count()
                if size != count:
                    log.warning(
                        "there are %d vectors of %d chunks: they will be compared", size, count
                    )
                    self._content.recheck_vectors()

    def close(self) -> None:
        """Close all files, after waiting for a writer."""
        with self._writing:
            self.let_go(())

    @contextmanager
    def _skip_if_unavailable(self) -> Iterator[None]:
        """Skip the block if the server is unavailable; its watermark shows what is missing."""
        try:
            yield
        except VectorServerAway as error:
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

    def _embed_missing(self, job: EmbeddingJob, embed: Embed, room: int, wanted: int) -> None:
        index, state = self._look(job.stamp)
        # Another thread has done it together with its own changes.
        if wanted <= state.watermark <= self._content.seq():
            return
        due = self._due(state.watermark)
        if due.seq == state.watermark:
            return
        used = due.chunks()
        if due.gone is not None and state.memory + state.row_bytes * len(used) > room:
            # Whether there is room can't be decided from the changes alone.
            due = self._due(FRESH)
            used = due.chunks()
        fits = state.row_bytes * len(used) <= room
        # Even the existing vectors would have to be loaded first.
        if not fits and state.memory > room:
            raise _no_room(job.stamp, room)
        self._drop(index, state.watermark, due, used)
        missing = lacking(index, used)
        if fits and index.look().memory + state.row_bytes * len(missing) > room:
            # Without the dead rows there is enough room.
            index.sync(state.watermark, compact=True)
        texts = self._texts(due, missing)
        while batch := list(islice(texts, EMBED_BATCH)):
            if index.look().memory + state.row_bytes * len(batch) > room:
                # Kept, but not searched: chunks without a vector would always come last.
                index.sync(FRESH)
                raise _no_room(job.stamp, room)
            ids = np.asarray([chunk_id for chunk_id, _ in batch], dtype=np.int64)
            index.add(ids, embed([text for _, text in batch]))
        index.sync(due.seq)

    def _copy(self, stamp: Stamp, room: int) -> None:
        index, state = self._look(stamp)
        if state.row_bytes * self.count() > room:
            return
        # A crash may have left vectors in SQLite that no watermark accounts for, so the first run
        # looks at all of them.
        after, complete = self._copied_seq.get(stamp, FRESH), self._paid.is_complete(stamp)
        if complete:
            # A server may have lost copied vectors.
            after = min(after, state.watermark)
        due = self._due(after)
        if after == due.seq and (state.watermark == due.seq) == complete:
            return
        self._drop(index, state.watermark, due, due.chunks())
        embedded = np.asarray(self._paid.embedded(stamp, after), dtype=np.int64)
        self._add_paid(stamp, index, lacking(index, embedded))
        if complete and len(index.ids()) < LEAST_SHARE * self.count():
            self._paid.set_complete(self._paid.model(stamp), complete := False)
        index.sync(due.seq if complete else FRESH)
        self._copied_seq[stamp] = due.seq

    def _drop(self, index: VectorIndex, watermark: int, due: _Due, used: Ids) -> None:
        """Remove the rows of chunks that are no longer in use."""
        # SQLite was restored from an older copy: its next ids will stand for other chunks.
        if watermark > due.seq:
            index.remove(index.ids())
        else:
            index.remove(np.setdiff1d(index.ids(), used) if due.gone is None else due.gone)

    def _add_paid(self, stamp: Stamp, index: VectorIndex, chunks: Ids) -> None:
        for rows in self._paid.rows(stamp, chunks.tolist()):
            packed = np.frombuffer(b"".join(row for _, row in rows), dtype="<f2")
            ids = np.asarray([chunk_id for chunk_id, _ in rows], dtype=np.int64)
            index.add(ids, packed.reshape(len(rows), -1).astype(np.float32))

    def _chunks_in_use(self) -> Ids:
        return self._due(FRESH).chunks()

    def _due(self, after: int) -> _Due:
        """Changes since that `seq`; everything in use, if they are no longer known."""
        with self._connections.read() as connection:
            seq = self._content.seq()
            known = self._content.lists_removals_since(after) and after <= seq
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


def _ids_in(path: Path, stamp: Stamp) -> Ids:
    with closing(Vectors.open(path, stamp)) as vectors:
        return vectors.ids()


def _columns(rows: Sequence[tuple[int, ...]], count: int) -> Iterator[Ids]:
    return iter(np.asarray(rows, dtype=np.int64).reshape(-1, count).T)


def _no_room(stamp: Stamp, room: int) -> LimitError:
    return LimitError(
        "EMBEDDINGS_LIMIT",
        f"embedding by {stamp.provider} {stamp.model} stopped: the vectors would take more than "
        f"{room / 1e6:,.1f} MB of memory",
    )
