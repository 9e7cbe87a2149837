"""Vector index in a directory: a log of half-precision rows, scanned and rescored exactly.

    watermark.json     stamp, watermark, generation, number of complete records, checksum
    rows-000001.log    fixed-size records (id, vector); a later record replaces an earlier one
                       with the same id, the id ~n removes n
    scan2-*.tvim       turbovec's encoding of a prefix of that log, so that opening is fast

Everything here can be thrown away: an index that is missing, damaged or of another embedder opens
empty with watermark -1, and the caller replays. One process writes (it holds the store's lease),
any number read: a log only grows, and a new generation has a new name, because a mapped file can't
be replaced on Windows. Rows are scanned by numpy or turbovec. Knows nothing of chunks or models.

Roads not taken: turbovec's own `sync`, since its file would be a second source of truth that can be
ahead of the watermark; and HNSW, which takes a hundred times longer to build and loses recall under
filters.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from cortex.base.errors import StoreError, shortage_of
from cortex.base.paths import make_private
from cortex.base.types import Stamp
from cortex.engine.store.index.vector_index import (
    FRESH,
    Rows,
    VectorState,
    checked_query,
    checked_rows,
)
from cortex.engine.store.index.vector_log import (
    Manifest,
    Records,
    VectorLog,
    checksum_of,
    log_path,
    next_generation,
    read_manifest,
    sweep,
    write_manifest,
)
from cortex.engine.store.index.vector_scan import (
    BITS,
    BLOCK,
    Codes,
    Floats,
    Ids,
    View,
    cosines,
    encode,
    encode_all,
    find,
    fold,
    scan_codes,
    scan_exactly,
    turbovec_works,
)

if TYPE_CHECKING:
    from turbovec import IdMapIndex

_NOT_DAMAGE = (errno.EACCES, errno.EPERM, errno.EROFS)
# At least this many rows are rescored exactly: the 50 nearest of 130,000 chunks were always among
# them.
CANDIDATES = 400
CANDIDATES_PER_RESULT = 8
# An allow-list below this share is scanned exactly: faster than turbovec's own filter.
NARROW = 0.05
# Share of dead records from which a log is rewritten.
DEAD_SHARE = 0.25
DEAD_MINIMUM = 1000
# Rows from which a snapshot is saved; encoding fewer takes less than 50 ms.
SNAPSHOT_MINIMUM = 10_000
# Share of the log after the last snapshot, which is encoded again at every opening.
SNAPSHOT_SHARE = 0.05
# Prefix of snapshots; those of another precision are ignored.
SCAN = f"scan{BITS}"

Engine = Literal["turbovec", "numpy"]


class Vectors:
    """Vector index in files: one writer, any number of searchers."""

    def __init__(self, directory: Path | None, stamp: Stamp, engine: Engine) -> None:
        self.stamp = stamp
        self.watermark = FRESH
        self._directory = directory
        # turbovec takes multiples of 8 only; other dimensions are scanned by numpy.
        self._turbovec = engine == "turbovec" and stamp.dimensions % 8 == 0 and turbovec_works()
        self._dtype = np.dtype([("id", "<i8"), ("vector", "<f2", (stamp.dimensions,))])
        # Memory of ids, positions and encoded rows. Rows of a log on disk are mapped, and few are
        # read for an answer: the system reclaims their pages when it needs them.
        scanned = stamp.dimensions * BITS // 8 + 8 if self._turbovec else stamp.dimensions + 4
        self._row_bytes = 16 + scanned + (self._dtype.itemsize if directory is None else 0)
        self._no_codes = Codes(np.empty((0, stamp.dimensions), np.int8), np.empty(0, np.float32))
        # Allocated now, so that closing needs no memory.
        self._no_ids = np.empty(0, dtype=np.int64)
        self._no_records = np.empty(0, dtype=self._dtype)
        self._lock = threading.RLock()
        self._clear()

    @classmethod
    def open(cls, directory: Path | None, stamp: Stamp, engine: Engine = "turbovec") -> Vectors:
        """Open the index in `directory` (None: in memory only). Writes nothing.

        An unusable one opens empty with watermark -1.
        """
        vectors = cls(directory, stamp, engine)
        vectors.reload_if_moved()
        return vectors

    def look(self) -> VectorState:
        """Load what another process has written since, and return the state."""
        self.reload_if_moved()
        with self._lock:
            records = self._log.records if self._log else 0
            memory = records * self._row_bytes
            version = (self._generation, records)
            return VectorState(self.watermark, memory, self._row_bytes, version)

    def add(self, ids: Ids, vectors: Floats) -> None:
        """Add rows; an existing id is replaced.

        Raises: ValueError for a negative id, a wrong shape or a value that isn't a finite number.
        """
        rows = checked_rows(self.stamp, ids, vectors)
        records = np.zeros(len(ids), dtype=self._dtype)
        records["id"], records["vector"] = ids, rows
        self._append(records)

    def remove(self, ids: Ids) -> None:
        """Remove rows; unknown ids are ignored."""
        with self._lock:
            self._start_writing()
            view = self._refresh()
            known = view.ids[find(view.ids, ids)]
            records = np.zeros(len(known), dtype=self._dtype)
            records["id"] = ~known
            self._append(records)

    def sync(self, watermark: int, *, compact: bool = False) -> None:
        """Make all changes durable, then mark the index complete up to `watermark`.

        With `compact` the log is rewritten without its dead rows.
        """
        with self._lock, self._translated():
            self._start_writing()
            view = self._refresh()
            dead = view.folded - len(view.ids)
            if dead and (compact or (dead > DEAD_MINIMUM and dead > DEAD_SHARE * view.folded)):
                self._compact(view)
            if self._directory is not None:
                log = self._log or self._begin_log()
                log.sync()
                self._manifest = Manifest(
                    self.stamp, watermark, self._generation, log.records, log.checksum
                )
                write_manifest(self._directory, self._manifest)
                self._save_scan(self._directory, self._view)
                sweep(
                    self._directory,
                    keep=(log_path(self._directory, self._generation).name, self._snapshot),
                )
            self.watermark = watermark

    def search(self, vector: Floats, k: int, allowed: Ids | None = None) -> list[tuple[int, float]]:
        """The `k` nearest ids as (id, cosine), best first, ties by id.

        Restricted to `allowed` if that is given.
        """
        query = checked_query(self.stamp, vector)
        with self._lock:
            view = self._refresh()
            scan, codes = self._refresh_scan(view), self._refresh_codes(view)
        chosen = np.arange(len(view.ids)) if allowed is None else find(view.ids, allowed)
        if k <= 0 or not len(chosen) or not query.any():
            return []
        wide = max(CANDIDATES, CANDIDATES_PER_RESULT * k)
        if len(chosen) > wide:
            nearest = None
            if len(chosen) >= NARROW * len(view.ids):
                if scan is not None:
                    nearest = scan_codes(
                        scan, view, query, wide, None if allowed is None else chosen
                    )
                elif codes is not None:
                    nearest = codes.nearest(view, query, wide, chosen)
            chosen = scan_exactly(view, query, wide, chosen) if nearest is None else nearest
        scores = cosines(view, query, chosen)
        order = np.lexsort((chosen, -scores))[:k]
        return list(zip(view.ids[chosen[order]].tolist(), scores[order].tolist(), strict=True))

    def rows(self, ids: Ids) -> tuple[Ids, Rows]:
        """Those of these ids that have a row, ascending, and their rows as they are stored."""
        with self._lock:
            view = self._refresh()
        chosen = find(view.ids, ids)
        return view.ids[chosen], view.records["vector"][view.positions[chosen]]

    def ids(self, among: Ids | None = None) -> Ids:
        """All ids in the index, or those of `among` in it, ascending."""
        with self._lock:
            view = self._refresh()
        return view.ids.copy() if among is None else view.ids[find(view.ids, among)]

    def reload_if_moved(self) -> bool:
        """Load what another process has written since; true if that changed anything.

        The writer itself is always current.
        """
        with self._lock:
            if self._directory is None or (self._log is not None and self._log.writing):
                return False
            # The generation may be swept between reading its name and opening it.
            for _ in range(3):
                manifest = read_manifest(self._directory)
                if manifest == self._manifest:
                    return False
                if manifest is None or manifest.stamp != self.stamp:
                    break
                if self._load_manifest(self._directory, manifest):
                    return True
            changed = self._manifest is not None
            self._clear()
            return changed

    def is_whole(self) -> bool:
        """Compare the files on disk with their checksum."""
        manifest = None if self._directory is None else read_manifest(self._directory)
        if self._directory is None or manifest is None:
            return self._directory is None or self.watermark == FRESH
        return VectorLog(log_path(self._directory, manifest.generation), self._dtype).extend(
            manifest.records, manifest.checksum
        )

    def close(self) -> None:
        """Close files and release memory; changes that were not synced are lost."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        self._log: VectorLog | None = None
        self._manifest: Manifest | None = None
        self._generation = 0
        # Loaded on demand: a process that only writes rarely needs it.
        self._scan: IdMapIndex | None = None
        # Encoded rows for numpy, if turbovec isn't used.
        self._codes = self._no_codes
        # Name of the newest snapshot of the scan, and the number of log records that it covers.
        self._snapshot = ""
        self._snapshot_records = 0
        self._view = self._scanned = View(self._no_records, self._no_ids, self._no_ids)
        self.watermark = FRESH

    def _load_manifest(self, directory: Path, manifest: Manifest) -> bool:
        """Take over the state in `manifest`, reading only what is new; false if damaged."""
        log, grown = self._log, False
        if (
            log is not None
            and self._generation == manifest.generation
            and log.records <= manifest.records
        ):
            grown = log.extend(manifest.records, manifest.checksum)
        if not grown:
            log = VectorLog(log_path(directory, manifest.generation), self._dtype)
            if not log.extend(manifest.records, manifest.checksum):
                return False
            self._clear()
        self._log, self._manifest, self._generation, self.watermark = (
            log,
            manifest,
            manifest.generation,
            manifest.watermark,
        )
        count, path = next(iter(self._snapshots(directory)), (0, None))
        self._snapshot, self._snapshot_records = path.name if path else "", count
        return True

    def _start_writing(self) -> None:
        """Load the newest state: a previous lease holder may have written since the last look."""
        if self._log is None or not self._log.writing:
            self.reload_if_moved()

    def _append(self, records: Records) -> None:
        with self._lock, self._translated():
            self._start_writing()
            if len(records):
                (self._log or self._begin_log()).append(records)

    def _begin_log(self) -> VectorLog:
        """Start the empty log of a new generation; unread until the watermark file names it."""
        path = None
        if self._directory is not None:
            make_private(self._directory)
            self._generation = next_generation(self._directory)
            path = log_path(self._directory, self._generation)
        self._log, self._snapshot, self._snapshot_records = VectorLog(path, self._dtype), "", 0
        return self._log

    def _refresh(self) -> View:
        """View of everything in the log."""
        if self._log is not None and self._log.records != self._view.folded:
            with self._translated():
                records = self._log.view()
            self._view, _ = fold(self._view, records)
        return self._view

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Report damaged files if reading or writing fails for no more specific reason."""
        try:
            yield
        except (OSError, ValueError, MemoryError) as error:
            if shortage := shortage_of(error, "using vectors"):
                raise shortage from error
            if isinstance(error, OSError) and error.errno in _NOT_DAMAGE:
                raise
            raise StoreError(
                "INDEX_DAMAGED", f"the vectors of {self.stamp.model} failed: {error}"
            ) from error

    def _refresh_scan(self, view: View) -> IdMapIndex | None:
        """Scan in the state of `view`; None if there are too few rows."""
        if self._scan is None:
            self._load_scan(view)
        if self._scan is None:
            if self._turbovec and len(view.ids) > CANDIDATES:
                self._scan = encode_all(view)
        elif self._scanned is not view:
            for chunk_id in fold(self._scanned, view.records)[1].tolist():
                self._scan.remove(chunk_id)
            encode(self._scan, view, view.positions >= self._scanned.folded)
        self._scanned = view
        return self._scan

    def _refresh_codes(self, view: View) -> Codes | None:
        """Encoded rows for numpy, in the state of `view`; None if unused or too few."""
        if self._turbovec or len(view.ids) <= CANDIDATES:
            return None
        if len(self._codes.scales) != view.folded:
            self._codes = self._codes.extend(view.records)
        return self._codes

    def _compact(self, view: View) -> None:
        """Write the live rows to a new generation.

        The old one stays until the watermark file has moved.
        """
        if self._scan is not None or self._snapshot:
            self._refresh_scan(view)
        before = self._log, self._generation, self._snapshot, self._snapshot_records
        try:
            log = self._begin_log()
            positions = np.sort(view.positions)
            for start in range(0, len(positions), BLOCK):
                log.append(view.records[positions[start : start + BLOCK]])
            fresh = View(log.view(), view.ids, np.searchsorted(positions, view.positions))
        except BaseException:
            # An incomplete log must not be mistaken for a complete one.
            self._log, self._generation, self._snapshot, self._snapshot_records = before
            raise
        # The scan holds the same rows under the same ids: only their positions have changed. Codes
        # are addressed by position, so they are encoded again.
        self._codes = self._no_codes
        self._view = self._scanned = fresh

    def _snapshots(self, directory: Path) -> list[tuple[int, Path]]:
        """Snapshots of this generation as (records covered, path), largest first."""
        named = [
            (path.stem.split("-"), path)
            for path in directory.glob(f"{SCAN}-{self._generation:06d}-*-*.tvim")
        ]
        return sorted(
            ((int(parts[2]), path) for parts, path in named if parts[2].isdecimal()), reverse=True
        )

    def _load_scan(self, view: View) -> None:
        """Load the largest intact snapshot of a prefix of the log, if there is one."""
        self._snapshot, self._snapshot_records = "", 0
        if self._directory is None or not self._turbovec:
            return
        from turbovec import IdMapIndex

        for count, path in self._snapshots(self._directory):
            try:
                if count > view.folded or checksum_of(path) != int(path.stem.split("-")[3], 16):
                    continue
                self._scan = IdMapIndex.load(os.fspath(path))
            except (OSError, ValueError):
                continue
            self._snapshot, self._snapshot_records = path.name, count
            nothing = View(view.records[:0], view.ids[:0], view.positions[:0])
            self._scanned = view if count == view.folded else fold(nothing, view.records[:count])[0]
            return

    def _save_scan(self, directory: Path, view: View) -> None:
        """Save turbovec's encoding of the log once enough of it is new."""
        count, held = view.folded, self._scan is not None
        if (
            len(view.ids) < SNAPSHOT_MINIMUM
            or count - self._snapshot_records <= SNAPSHOT_SHARE * count
        ):
            return
        scan = self._refresh_scan(view)
        if scan is None:
            return
        fresh = directory / "scan.new"
        scan.write(os.fspath(fresh))
        self._snapshot = f"{SCAN}-{self._generation:06d}-{count}-{checksum_of(fresh):08x}.tvim"
        self._snapshot_records = count
        os.replace(fresh, directory / self._snapshot)
        # This process doesn't search.
        if not held:
            self._scan = None
