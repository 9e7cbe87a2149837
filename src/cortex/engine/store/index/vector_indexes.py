"""The vectors of one store: a directory, or a collection of a Qdrant server, for each embedder, so
that a new one is made beside the one that answers.

Vectors of a cheap embedder are made here, of the texts in SQLite, and exist nowhere else. Those
that are paid for are in SQLite (`paid.py`) and are only copied. A set takes in what SQLite has
committed since the set's watermark; where that can't be told any more, its ids are compared with
all chunks in use, and it doesn't matter how they came apart. Knows no model, and doesn't decide
which of several sets answers.
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
WITHIN = 7  # narrowed searches whose chunks are remembered, beside the newest
# In a narrowed search, up to which they are looked up by themselves, so many at once
FEW_DOCS, PART = 20_000, 500
LEAST_SHARE = 0.5  # of the chunks: vectors of fewer would hide more than they find
# The contents in use, with their chunks: all, and those of docs that are new since a `seq`. CROSS
# JOIN keeps the order that is written.
_USED = "SELECT id, first_chunk, last_chunk FROM blobs WHERE NOT private AND EXISTS (SELECT 1 FROM docs WHERE docs.blob = blobs.id)"
_CHANGED = "SELECT DISTINCT blobs.id, first_chunk, last_chunk FROM docs CROSS JOIN blobs ON blobs.id = docs.blob WHERE docs.seq > ? AND NOT private"
# The chunks of docs that were removed since a `seq`, where no other doc has the same content.
_GONE = (
    "SELECT DISTINCT first_chunk, last_chunk FROM gone WHERE seq > ? AND NOT EXISTS "
    "(SELECT 1 FROM chunks CROSS JOIN docs ON docs.blob = chunks.blob WHERE chunks.id = gone.first_chunk)"
)
REMOVED = ".removed-"  # before the name of a directory that is on its way out
CHECK_TRIES, CHECK_SECONDS = 4, 0.25  # a batch may be under way between SQLite and its index


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Due:
    """What a set has to take in to be complete at `seq`: contents in use that it may lack, and ids
    that are no longer in use.
    """

    seq: int
    blobs: Ids  # ascending
    firsts: Ids  # of each one's chunks
    lasts: Ids
    gone: Ids | None  # None where these are all contents in use: what isn't theirs is gone

    def chunks(self) -> Ids:
        """The ids of these contents' chunks, ascending."""
        return expand(self.firsts, self.lasts)


class VectorIndexes:
    """The vectors of every embedder that a store has some of.

    Only the lease holder may change them.
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
        self._lock = threading.RLock()  # of what is open: held for moments
        # Who holds it may take the other one, never the other way round
        self._writing = threading.RLock()
        self._open: dict[Stamp, VectorIndex] = {}
        self._within: dict[SearchFilter, tuple[int, Ids]] = {}  # up to which `seq`, and the chunks
        self._chunks = SourceChunks(connections)
        self._counted = (FRESH, 0)  # how many chunks were in use at which `seq`
        self._said = ""  # why their server is away, as it was logged
        self._copied: dict[Stamp, int] = {}  # up to which `seq` paid vectors are known to be copied

    @property
    def away(self) -> str:
        """Why the vectors can't be asked now; only those of a server ever can't."""
        return self._qdrant.away if self._qdrant else ""

    @property
    def may_vanish(self) -> bool:
        """Whether somebody else keeps the vectors, and may lose them."""
        return self._qdrant is not None

    @property
    def least_mark(self) -> int:
        """Vectors below this watermark are not searched: their server may hold what was removed for
        good while it was away.
        """
        return int(self._truth.get("removed", "0")) if self._qdrant else 0

    def of(self, stamp: Stamp) -> VectorIndex:
        """The vectors made by the embedder with this stamp, as they are now."""
        with self._lock:
            vectors = self._open.get(stamp)
            if vectors is None:
                vectors = self._open[stamp] = self._open_set(stamp)
            vectors.reload_if_moved()
            return vectors

    def _open_set(self, stamp: Stamp) -> VectorIndex:
        if self._qdrant is not None:
            return QdrantVectors(self._qdrant, self._truth.get("identity"), stamp)
        return Vectors.open(self._path_of(stamp), stamp)

    def catch_up(self, making: EmbeddingJob, room: int) -> None:
        """Make one embedder's vectors those of the chunks in use; paid ones, as far as they are
        there. Where their server is away, later.

        Raises: LimitError EMBEDDINGS_LIMIT where vectors that are made here would take more than
        `room` bytes; what is there is kept.
        """
        wanted = self._truth.seq()
        with self._writing:
            try:
                self._bring_up(making, room, wanted)
            except StoreError as error:
                if error.code != "INDEX_DAMAGED":
                    raise
                log.warning("the vectors of %s are made anew: %s", making.stamp.model, error)
                self._discard(making.stamp)
                self._bring_up(making, room, wanted)
            # Ids of another store, say of one that was deleted, mean other chunks
            if self._directory is not None:
                for path in self._directory.parent.glob("vectors*"):
                    if path != self._directory:
                        shutil.rmtree(path, ignore_errors=True)

    def _bring_up(self, making: EmbeddingJob, room: int, wanted: int) -> None:
        with self._unless_away():
            if making.embed is not None:
                self._make(self.of(making.stamp), making.embed, room, wanted)
            else:
                self._copy(self.of(making.stamp), room)

    def _discard(self, stamp: Stamp) -> None:
        """Remove a set whose files are damaged; the next one is made in its place."""
        self.let_go([other for other in self._open if other != stamp])
        path = self._path_of(stamp)
        if self._directory is not None and not self._directory.is_dir():
            _remove(self._directory)
        elif path is not None:
            _remove(path)

    def damaged(self, stamp: Stamp) -> bool:
        """Whether there are files of a set that can't be used; their server's vectors never are."""
        path = self._path_of(stamp)
        if self._qdrant is not None or path is None or not os.path.lexists(path):
            return False
        vectors = self.of(stamp)
        if vectors.watermark != FRESH or vectors.memory:
            return False
        manifest = read_manifest(path)
        return manifest is None or manifest.watermark != FRESH

    def look_again(self) -> None:
        """Forget what is open, unless it is being written: what is damaged on disk opens empty."""
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
        """Keep the vectors of texts that were just paid for, in SQLite first; then copy them, and
        `known` ones, to be searched.

        Raises: ValueError for a wrong shape or a value that is no number.
        """
        if rows.shape != (len(hashes), stamp.dimensions):
            raise ValueError(
                f"expected {len(hashes)} vectors of {stamp.dimensions} dimensions, got the shape {rows.shape}"
            )
        packed = unit(rows).astype("<f2")
        self._paid.put(
            model, {digest: row.tobytes() for digest, row in zip(hashes, packed, strict=True)}
        )
        self.copy(stamp, [*hashes, *known])

    def copy(self, stamp: Stamp, hashes: Sequence[bytes]) -> None:
        """Copy paid vectors of these texts, to be searched."""
        with self._writing, self._unless_away():
            vectors, chunks = self.of(stamp), self._paid.chunks_of(hashes)
            # Where this fails, the next look is at everything
            copied = self._copied.pop(stamp, FRESH)
            self._add_paid(vectors, vectors.lacking(np.asarray(chunks, dtype=np.int64)))
            vectors.sync(vectors.watermark)
            self._copied[stamp] = copied

    def fits(self, stamp: Stamp, room: int) -> bool:
        """Whether there is room for the vectors of all chunks in use."""
        return self.of(stamp).memory_of(self.count()) <= room

    def count(self) -> int:
        """How many chunks are in use; counted once for each `seq`, since every search asks while
        something is embedded.
        """
        seq, counted = self._truth.seq(), self._counted
        if counted[0] != seq:
            with self._connections.read() as connection:
                row = connection.execute(
                    "SELECT coalesce(sum(last_chunk - first_chunk + 1), 0) FROM blobs "
                    "WHERE NOT private AND EXISTS (SELECT 1 FROM docs WHERE docs.blob = blobs.id)"
                ).fetchone()
            self._counted = counted = (seq, row[0])
        return counted[1]

    def size(self, stamp: Stamp) -> int:
        """How many rows there are; none, where their server is away."""
        vectors = self.of(stamp)
        if not self.away:
            with self._unless_away():
                return len(vectors)
        return 0

    def embedded(self, stamp: Stamp) -> int:
        """How many of these have a vector; none, where their server is away."""
        vectors = self.of(stamp)
        if vectors.watermark == self._truth.seq():
            return self.size(stamp)
        if not self.away:
            with self._unless_away():
                return len(np.intersect1d(vectors.ids(), self._live(), assume_unique=True))
        return 0

    def chunks_within(self, narrow: SearchFilter) -> Ids:
        """The chunks of the docs that may be candidates at all; remembered, since who narrows a
        search does so again.
        """
        seq, remembered = self._truth.seq(), self._within
        known = remembered.get(narrow)
        if known is not None and known[0] == seq:
            return known[1]
        whole = not (narrow.extensions or narrow.languages or narrow.docs is not None)
        found = self._chunks.of(narrow.sources, seq) if whole else self._find_within(narrow)
        kept = {one: ids for one, ids in list(remembered.items())[-WITHIN:] if ids[0] == seq}
        self._within = {**kept, narrow: (seq, found)}
        return found

    def _find_within(self, narrow: SearchFilter) -> Ids:
        spoken = f" AND blobs.language IN ({marks(narrow.languages)})" if narrow.languages else ""
        ask = (
            "SELECT docs.id, docs.path, first_chunk, last_chunk FROM docs JOIN blobs ON blobs.id = docs.blob "
            f"WHERE docs.source IN ({marks(narrow.sources)}){spoken} AND NOT private"
        )
        values = (*narrow.sources, *narrow.languages)
        with self._connections.read() as connection:
            if narrow.docs is None or len(narrow.docs) > FEW_DOCS:
                rows = connection.execute(ask, values).fetchall()
            else:  # by themselves: a source may have a hundred times as many
                docs, rows = sorted(narrow.docs), []
                for part in parts(docs, PART):
                    some = f"{ask} AND docs.id IN ({marks(part)})".replace(
                        "docs.source", "+docs.source"
                    )
                    rows += connection.execute(some, (*values, *part)).fetchall()
        ranges = {
            (first, last)
            for number, path, first, last in rows
            if (narrow.docs is None or number in narrow.docs)
            and (not narrow.extensions or extension_of(path) in narrow.extensions)
        }
        return expand(*_columns(sorted(ranges), 2))

    def on_disk(self) -> list[Manifest | None]:
        """What each directory says of itself; None for one that doesn't say."""
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
                with self._unless_away():
                    store = self._truth.get("identity")
                    names = {self._qdrant.name_of(store, stamp) for stamp in stamps}
                    self._qdrant.drop(
                        collection.name
                        for collection in self._qdrant.collections(store)
                        if collection.name not in names
                    )

    def erase(self) -> None:
        """Leave no row on disk of what is no longer in use, in the sets that nobody asks any more
        either: a vector tells what a text is about.
        """
        with self._writing:
            used = self._live()
            for path in self._paths():
                manifest = read_manifest(path)
                if manifest is None:  # nobody can tell what it has
                    _remove(path)
                    continue
                opened = self._open.get(manifest.stamp)
                with (
                    nullcontext(opened)
                    if opened is not None
                    else closing(Vectors.open(path, manifest.stamp)) as one
                ):
                    one.remove(np.setdiff1d(one.ids(), used))
                    one.compact()
                    one.sync(one.watermark)

    def rest_but(self, stamp: Stamp) -> None:
        """Let go of the memory of all others, unless somebody writes just now."""
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
                self._copied.pop(stamp, None)

    def check(self) -> list[str]:
        """How the ids of the vectors on disk differ from the truth's, whoever made them."""
        problems: list[str] = []
        for path in self._paths():
            manifest = read_manifest(path)
            if manifest is None:
                problems.append("vectors: nothing says how much of them is complete")
            elif manifest.watermark == self._truth.seq():
                problems += self._difference(manifest.stamp, partial(_ids_in, path))
        if self._qdrant is not None:
            with self._unless_away():
                for collection in self._qdrant.collections(self._truth.get("identity")):
                    if (
                        collection.mark is not None
                        and collection.mark.watermark == self._truth.seq()
                    ):
                        problems += self._difference(
                            collection.mark.stamp, lambda stamp: self.of(stamp).ids()
                        )
        return problems

    def verify(self) -> None:
        """Have sets that are made here compared with the truth, the next time, where they hold more
        or fewer rows than it has.
        """
        with self._lock:
            opened = list(self._open.values())
        for vectors in opened:
            if isinstance(vectors, Vectors) and not vectors.is_whole():
                log.warning(
                    "the vectors of %s are damaged: they will be made anew", vectors.stamp.model
                )
                with self._writing:
                    self._discard(vectors.stamp)
                    self._copied.pop(vectors.stamp, None)
                continue
            complete = (
                vectors.watermark == self._truth.seq() and self._paid.find(vectors.stamp) is None
            )
            with self._unless_away():
                if complete and len(vectors) != self.count():
                    log.warning(
                        "there are %d vectors of %d chunks: they will be compared",
                        len(vectors),
                        self.count(),
                    )
                    self._truth.doubt()

    def close(self) -> None:
        """Let go of files; whoever writes is waited for."""
        with self._writing:
            self.let_go(())

    @contextmanager
    def _unless_away(self) -> Iterator[None]:
        """Leave undone what a server that is away can't do: its watermark tells later what is
        missing.
        """
        try:
            yield
        except NetworkError as error:
            if error.code != UNAVAILABLE:
                raise
            if error.message != self._said:  # once, not with every batch of a run
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
                np.asarray(self._paid.embedded(stamp), dtype=np.int64) if paid else self._live()
            )
            found = ids_of(stamp)
            missing, surplus = (
                len(np.setdiff1d(expected, found)),
                len(np.setdiff1d(found, expected)),
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
        """Finish what somebody who was killed had begun to remove."""
        if self._directory is not None:
            for path in self._directory.glob(f"{REMOVED}*"):
                shutil.rmtree(path, ignore_errors=True)

    def _make(self, vectors: VectorIndex, embed: Embed, room: int, wanted: int) -> None:
        if wanted <= vectors.watermark <= self._truth.seq():  # another thread did it, with its own
            return
        due = self._due(vectors.watermark)
        if due.seq == vectors.watermark:
            return
        used = due.chunks()
        if due.gone is not None and vectors.memory + vectors.memory_of(len(used)) > room:
            due = self._due(FRESH)  # what there is room for can't be told from what has changed
            used = due.chunks()
        fits = vectors.memory_of(len(used)) <= room
        if not fits and vectors.memory > room:  # even what is there would have to be loaded first
            raise _no_room(vectors, room)
        self._drop(vectors, due, used)
        missing = vectors.lacking(used)
        if fits and vectors.memory + vectors.memory_of(len(missing)) > room:
            vectors.compact()  # dead rows are all that is too much
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
        # A crash may have left vectors in SQLite that no watermark tells of: the first look is at
        # all of them.
        after, complete = self._copied.get(stamp, FRESH), self._paid.is_complete(stamp)
        if complete:  # a server may have lost what was copied
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
        self._copied[stamp] = due.seq

    def _drop(self, vectors: VectorIndex, due: _Due, used: Ids) -> None:
        """Take out the rows of chunks that are no longer in use."""
        # SQLite is a copy from before: its next ids will mean other chunks
        if vectors.watermark > due.seq:
            vectors.remove(vectors.ids())
        else:
            vectors.remove(np.setdiff1d(vectors.ids(), used) if due.gone is None else due.gone)

    def _add_paid(self, vectors: VectorIndex, chunks: Ids) -> None:
        for rows in self._paid.rows(vectors.stamp, chunks.tolist()):
            packed = np.frombuffer(b"".join(row for _, row in rows), dtype="<f2")
            ids = np.asarray([number for number, _ in rows], dtype=np.int64)
            vectors.add(ids, packed.reshape(len(rows), -1).astype(np.float32))

    def _live(self) -> Ids:
        return self._due(FRESH).chunks()

    def _due(self, after: int) -> _Due:
        """What has changed since that `seq`; everything, where that isn't known."""
        with self._connections.read() as connection:
            seq = self._truth.seq()
            known = self._truth.remembers(after) and after <= seq
            rows = connection.execute(
                _CHANGED if known else _USED, (after,) if known else ()
            ).fetchall()
            gone = connection.execute(_GONE, (after,)).fetchall() if known else None
        blobs, firsts, lasts = _columns(rows, 3)
        return _Due(seq, blobs, firsts, lasts, None if gone is None else expand(*_columns(gone, 2)))

    def _texts(self, due: _Due, chunks: Ids) -> Iterator[tuple[int, str]]:
        """The texts of these chunks of what is due; each content is unpacked once, and no other."""
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
                wanted_ranges = [one for one in ranges if one[0] in missing]
                slices = self._paid.redactions.of(blob, text).slices(
                    text, [one[1:] for one in wanted_ranges]
                )
                yield from (
                    (number, text) for (number, *_), text in zip(wanted_ranges, slices, strict=True)
                )


def _remove(path: Path) -> None:
    """Remove a set in one step, as far as anybody can see: one without its rows must not be found
    where a set is looked for.
    """
    aside = path.with_name(REMOVED + path.name)
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(OSError):  # what another process has open (Windows) goes the next time
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
            # Kept, but not searched: chunks without a vector would always come last
            vectors.sync(FRESH)
            raise _no_room(vectors, room)
        vectors.add(
            np.asarray([number for number, _ in batch], dtype=np.int64),
            embed([text for _, text in batch]),
        )


def _no_room(vectors: VectorIndex, room: int) -> LimitError:
    stamp = vectors.stamp
    return LimitError(
        "EMBEDDINGS_LIMIT",
        f"embedding by {stamp.provider} {stamp.model} stopped: the vectors would take more than {room / 1e6:,.1f} MB of memory",
    )
