"""Storage of one project, home or Core: a SQLite database and the indexes beside it.

One `Store` is one directory. The SQLite file is the source of truth; the lexical and vector indexes
are derived from it and can be thrown away at any time.

Only this package contains SQL over our own tables, imports tantivy, turbovec and the clients of
vector servers, and knows the lease.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import CortexError, StoreError
from cortex.base.paths import bytes_on_disk, is_home, open_private
from cortex.base.visibility import Viewer
from cortex.engine.store.connections import Connected, Connections, translated
from cortex.engine.store.content.chunk_entries import Entries, Held, Update
from cortex.engine.store.content.folders import DOCUMENTS, Folder, Folders
from cortex.engine.store.content.queries import (
    ChunkLocation,
    ContentQueries,
    Counts,
    DefinitionSite,
)
from cortex.engine.store.content.redactions import Redactions
from cortex.engine.store.content.writer import ContentChange, ContentStore, Known
from cortex.engine.store.index.lexical import (
    FIELDS,
    LexicalIndex,
    LexicalTerm,
    SearchFilter,
    extension_of,
    remove_generation,
    stem_of,
)
from cortex.engine.store.index.maintenance import Indexes
from cortex.engine.store.index.paid_vectors import (
    Embed,
    EmbeddingCache,
    EmbeddingJob,
    PendingVectors,
)
from cortex.engine.store.lease import Lease
from cortex.engine.store.memories.filters import MemoryFilter
from cortex.engine.store.memories.queries import (
    Decision,
    Judgement,
    MemoryQueries,
    MemoryRanking,
    Mirror,
    Neighbour,
    Ref,
    Remembered,
    ScopeCount,
)
from cortex.engine.store.memories.rows import OWN, SHOWN, STAGED, NewMemory
from cortex.engine.store.memories.writer import Memories, MemoryVerdict
from cortex.engine.store.operation_log import Operation, OperationLog, OperationRequest
from cortex.engine.store.records.outbox import Outbox
from cortex.engine.store.records.outbox_rows import OutboxEntry, RecordChange
from cortex.engine.store.records.queries import (
    AuditEntry,
    RecordHeader,
    RecordQueries,
    VersionedRecord,
)
from cortex.engine.store.records.row_reader import kind_of_id
from cortex.engine.store.records.rows import IndexedText, RecordTextExtractor
from cortex.engine.store.records.transaction import Guard, RecordTransaction, Screened, Sees
from cortex.engine.store.records.writer import Records, TransactionResult
from cortex.engine.store.row_level_security import is_wide, widen
from cortex.engine.store.schema import is_current, is_outdated, migrate
from cortex.engine.store.snapshots import MIGRATION, list_snapshots, make_snapshot

# numpy is only loaded if an embedder uses it.
if TYPE_CHECKING:
    from cortex.engine.store.index.vector_index import VectorServer

__all__ = [
    "DOCUMENTS",
    "FIELDS",
    "OWN",
    "SHOWN",
    "STAGED",
    "STORE_NAME",
    "AuditEntry",
    "ChunkLocation",
    "ContentChange",
    "ContentQueries",
    "Counts",
    "Decision",
    "DefinitionSite",
    "Embed",
    "EmbeddingCache",
    "EmbeddingJob",
    "Entries",
    "Folder",
    "Guard",
    "Held",
    "IndexedText",
    "Judgement",
    "Known",
    "LexicalIndex",
    "LexicalTerm",
    "Memories",
    "MemoryFilter",
    "MemoryQueries",
    "MemoryRanking",
    "MemoryVerdict",
    "Mirror",
    "Neighbour",
    "NewMemory",
    "Operation",
    "OperationRequest",
    "Outbox",
    "OutboxEntry",
    "PendingVectors",
    "RecordChange",
    "RecordHeader",
    "RecordQueries",
    "RecordTextExtractor",
    "RecordTransaction",
    "Records",
    "Ref",
    "Remembered",
    "ScopeCount",
    "Screened",
    "SearchFilter",
    "Sees",
    "Store",
    "TransactionResult",
    "Update",
    "VersionedRecord",
    "check_present",
    "extension_of",
    "is_reported_damaged",
    "kind_of_id",
    "leased",
    "move_aside",
    "remove_replaced",
    "report_damage",
    "set_aside",
    "stem_of",
]

STORE_NAME = "cortex.db"
_ASIDE = f"{STORE_NAME}.damaged-"
_REPLACED = f"{STORE_NAME}.replaced-"
# Messages of `integrity_check` about an index over an intact table.
_INDEX_DAMAGE = re.compile(
    r"row \d+ missing from index .*|wrong # of entries in index .*|non-unique entry in index .*"
)
# Marker file that asks the lease holder to set the database aside.
_DAMAGE_MARKER = f"{_ASIDE}found"
# Number of docs from which a changing source is not recounted for every answer.
LARGE = 4_000
# A count stays valid for this many times as long as counting took.
COUNT_TIMES = 100
# Messages of SQLite's integrity check that are read.
MAX_MESSAGES = 10_000
# Combinations of sources with a cached total.
MAX_TOTALS = 64

log = logging.getLogger(__name__)


class Store:
    """An open store. `directory` None keeps everything in memory.

    With `vector_server`, vectors live on that server instead of in files.

    A read-only store can't be written by any code path: SQLite itself rejects it (`mode=ro`,
    `query_only`). Only the schema of an older store is migrated before it is opened.

    A `confined` store is read-only too and shows records only to a viewer (`viewed_by`), limited to
    what that viewer may see. The process that writes such a store has to open it with `shelved`.
    """

    def __init__(
        self,
        directory: Path | None,
        folder: str = "",
        *,
        read_only: bool = False,
        confined: bool = False,
        shelved: bool = False,
        vector_server: VectorServer | None = None,
    ) -> None:
        self.directory = directory
        path = None if directory is None else directory / STORE_NAME
        if directory is not None and read_only:
            check_present(directory)
        self._connections = Connections(path, read_only=read_only, confined=confined)
        try:
            with self._connections.read() as connection:
                current = is_current(connection) and (
                    is_wide(connection) or not (confined or shelved)
                )
            # A read-only process may be the first to open the store after an update.
            if not current and path is not None and read_only:
                _migrate_on_disk(path, confined)
            # Rare, so opening a store normally doesn't wait for its writer.
            elif not current:
                with self._connections.write() as connection:
                    _prepare(connection, path, shelved)
            redactions = Redactions(self._connections)
            self.content = ContentStore(self._connections, redactions)
            self.paid = EmbeddingCache(self._connections, redactions)
            self.indexes = Indexes(
                directory, self._connections, self.content, self.paid, vector_server
            )
        except BaseException:
            self._connections.close()
            raise
        self.entries = Entries(self._connections)
        self.folders = Folders(self._connections)
        self.memories = Memories(self._connections)
        self.records = Records(self._connections, lambda: self._connections.viewer, shelved=shelved)
        self.outbox = Outbox(self._connections)
        self.lease = Lease(directory, folder, wanted=not read_only)
        self.log = OperationLog(self._connections)
        # By source: (seq, counts, monotonic time until which the counts are valid).
        self._counts: dict[int, tuple[int, Counts, float]] = {}
        # (seq, totals at that seq by combination of sources).
        self._totals: tuple[int, dict[tuple[int, ...], Counts]] = (0, {})

    @property
    def replaced(self) -> bool:
        """True if the files on disk are no longer the open ones: reopen the store."""
        return self._connections.replaced or self.lease.lost

    @property
    def viewer(self) -> Viewer | None:
        """Viewer of this thread, or None where the store isn't confined."""
        return self._connections.viewer

    def viewed_by(self, viewer: Viewer) -> AbstractContextManager[None]:
        """Show this thread what `viewer` may see, inside the block."""
        return self._connections.viewed_by(viewer)

    @property
    def connections(self) -> Connected:
        """Connections of the records, for code that stores more next to them."""
        return self._connections

    def reading(self) -> AbstractContextManager[object]:
        """Read everything inside the block from one consistent snapshot, in one transaction."""
        return self._connections.read()

    def counts(self, *sources: int) -> Counts:
        """Count the docs and chunks of `sources` together.

        Counted once per state of the store; large sources that keep changing are counted less
        often.
        """
        # Keep a reference: another thread may replace `_totals` meanwhile.
        seq, known = self.content.seq(), self._totals
        # Adding up hundreds of sources takes a twentieth of a search, which asks three times.
        if known[0] == seq and sources in known[1]:
            return known[1][sources]
        now = time.monotonic()
        due = [
            source
            for source in sources
            if source not in self._counts or self._counts[source][0] != seq
        ]
        exact = not due or not self._are_counts_valid(sources, due, now)
        if due and exact:
            counted = self.content.counts_of(due)
            until = now + COUNT_TIMES * (time.monotonic() - now)
            self._counts |= {source: (seq, counts, until) for source, counts in counted.items()}
        every = [self._counts[source][1] for source in sources]
        total = Counts(
            sum(counts.docs for counts in every),
            sum(counts.chunks for counts in every),
            sum(counts.characters for counts in every),
        )
        if exact:
            before = known[1] if known[0] == seq and len(known[1]) < MAX_TOTALS else {}
            self._totals = (seq, {**before, sources: total})
        return total

    def _are_counts_valid(self, sources: Sequence[int], due: Sequence[int], now: float) -> bool:
        """True if counts from an earlier `seq` may still be used."""
        known = self._counts
        return all(source in known and now < known[source][2] for source in due) and (
            sum(known[source][1].docs for source in sources) >= LARGE
        )

    def disk_bytes(self) -> int:
        """Size of the store on disk in bytes, indexes included."""
        return 0 if self.directory is None else bytes_on_disk(self.directory)

    def check(self) -> list[str]:
        """Check the store and return a list of problems.

        Runs SQLite's own check, then compares the ids in the lexical and vector indexes with the
        database. An index that is behind the database is not compared: it is complete once it has
        caught up.
        """
        problems: list[str] = []
        for part in (self.check_database, self.indexes.check_words, self.indexes.check_vectors):
            try:
                problems += part()
            except StoreError as error:
                if error.code not in ("STORE_CORRUPT", "INDEX_DAMAGED"):
                    raise
                problems.append(error.message)
        return problems

    def check_database(self) -> list[str]:
        """Check the SQLite file itself.

        Covers pages, indexes, dangling foreign keys, and memories or records without a searchable
        doc.
        """
        with self._connections.read() as connection:
            verdict = [row[0] for row in connection.execute("PRAGMA integrity_check")]
            if verdict != ["ok"]:
                return [f"SQLite: {'; '.join(verdict[:3])}"]
            loose = Counter(row[0] for row in connection.execute("PRAGMA foreign_key_check"))
            problems = [
                f"{count} rows of {table} point to nothing"
                for table, count in sorted(loose.items())
            ]
            for table, key in (("memories", "key"), ("records", "id")):
                count = connection.execute(
                    f"SELECT count(*) FROM {table} WHERE source IS NOT NULL AND NOT EXISTS "
                    f"(SELECT 1 FROM docs WHERE docs.source = {table}.source "
                    f"AND docs.path = {table}.{key})"
                ).fetchone()[0]
                problems += [f"{count} {table} are not found by search"] if count else []
        return problems

    def is_damaged_in_indexes_only(self) -> bool:
        """True if the tables are intact and only SQLite's own indexes are not: `reindex` helps."""
        with self._connections.read() as connection:
            rows = connection.execute(f"PRAGMA integrity_check({MAX_MESSAGES})").fetchall()
        return len(rows) < MAX_MESSAGES and all(_INDEX_DAMAGE.fullmatch(row[0]) for row in rows)

    def reindex(self) -> Path:
        """Rebuild SQLite's own indexes and return the path of a copy made before."""
        assert self.directory is not None
        kept = self.directory / f"{_ASIDE}{time.time_ns()}"
        with translated(kept), self._connections.read() as connection:
            os.close(open_private(str(kept), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            with closing(sqlite3.connect(kept)) as copy:
                # Page by page, including the log and pages that SQLite can no longer reach.
                connection.backup(copy)
        with self._connections.write(durable=True) as connection:
            connection.execute("REINDEX")
        return kept

    def checkpoint(self) -> bool:
        """Move the write-ahead log into the file; false if a reader prevents that."""
        return self._connections.checkpoint()

    def close(self) -> None:
        """Close everything and release the lease."""
        # Each step runs even if another one fails.
        with ExitStack() as ends:
            ends.callback(self.lease.release)
            ends.callback(self._connections.close)
            self.indexes.close()

    def set_aside(self) -> Path:
        """Close a store that holds its lease, move its database aside and return the new path."""
        assert self.directory is not None and self.lease.held
        try:
            self.indexes.close()
            self._connections.close()
            return _set_aside_project(self.directory)
        finally:
            self.lease.release()


def check_present(directory: Path) -> None:
    """Refuse to create a database where one has been: its indexes exist, it is gone or empty.

    Raises: StoreError STORE_LOST.
    """
    path = directory / STORE_NAME
    try:
        if path.stat().st_size:
            return
        state = "is empty"
    except FileNotFoundError:
        state = "is missing"
    except OSError:
        # Opening the file gives a better error.
        return
    left = sorted(
        entry.name for pattern in ("words-*", "vectors-*") for entry in directory.glob(pattern)
    )
    snapshots = len(list_snapshots(directory))
    if not left and not snapshots:
        return
    why = f"{left[0]} beside it belongs" if left else "its snapshots belong"
    raise StoreError(
        "STORE_LOST",
        f"{path} {state}, and {why} to one that was in use (snapshots: {snapshots}); nothing was "
        "written",
        context={"path": str(path), "indexes": left, "snapshots": snapshots},
    )


@contextmanager
def leased(directory: Path) -> Iterator[None]:
    """Hold a store's lease for the block.

    Raises: StoreError STORE_LOCKED if another process holds it.
    """
    lease = Lease(directory)
    if not lease.take():
        raise StoreError(
            "STORE_LOCKED",
            f"process {lease.holder()} uses the store in {directory}",
            instead=("Run `cortex stop` if it is cortexd, else end that process; then try again.",),
        )
    try:
        yield
    finally:
        lease.release()


def set_aside(directory: Path, *, replica: bool = False) -> Path:
    """Move a store's database with its log out of the way and return the new path.

    Only for stores that can be rebuilt: a project's, or the replica of a Core's database. Of the
    databases set aside earlier, the latest is kept.

    Raises: StoreError STORE_LOCKED if another process holds the lease; STORE_CORRUPT for a home's
    store.
    """
    with leased(directory):
        return _set_aside_project(directory, replica=replica)


def move_aside(
    directory: Path, *, sound: bool = False, replacement: Path | None = None
) -> Path | None:
    """Move the database aside while the caller holds the lease; None if there was none.

    A `sound` database isn't named damaged. A `replacement` takes its place; if that fails, the
    database is back where it was. A process killed midway leaves the database together with its log
    in either the old or the new place.
    """
    path = directory / STORE_NAME
    target = directory / f"{_REPLACED if sound else _ASIDE}{time.time_ns()}"
    logs = {
        path.with_name(path.name + suffix): target.with_name(target.name + suffix)
        for suffix in ("-wal", "-shm")
    }
    with translated(directory), ExitStack() as undo:
        for log, copy in logs.items():
            undo.callback(copy.unlink, missing_ok=True)
            _link_or_copy(log, copy)
        moved = path.exists()
        if moved:
            _move(path, target, undo)
        # A new database must not find the log of an old one.
        for log, copy in logs.items():
            undo.callback(_link_or_copy, copy, log)
            log.unlink(missing_ok=True)
        if replacement is not None:
            os.replace(replacement, path)
        undo.pop_all()
    return target if moved else None


def _link_or_copy(file: Path, target: Path) -> None:
    """Make a file available under a second path; a folder of that name is moved there."""
    if file.is_dir():
        file.replace(target)
        return
    try:
        os.link(file, target)
    except (FileNotFoundError, FileExistsError):
        return
    except OSError:
        # A file system without hard links.
        shutil.copy2(file, target)


def _move(source: Path, target: Path, undo: ExitStack) -> None:
    source.replace(target)
    undo.callback(target.replace, source)


def remove_replaced(directory: Path, but: Path | None) -> None:
    """Remove the intact databases that were moved aside, except `but`."""
    for path in directory.glob(f"{_REPLACED}[0-9]*"):
        if but is None or not path.name.startswith(but.name):
            with suppress(OSError):
                path.unlink()


def _set_aside_project(directory: Path, *, replica: bool = False) -> Path:
    """Set a project's database aside and drop all but the latest of the earlier ones."""
    path = directory / STORE_NAME
    if is_home(directory) and not replica:
        raise StoreError(
            "STORE_CORRUPT",
            f"{path} is a home's database and stays where it is",
            context={"path": str(path)},
        )
    earlier = {
        path: path.name.removeprefix(_ASIDE).partition("-")[0]
        for path in directory.glob(f"{_ASIDE}[0-9]*")
    }
    newest = max(earlier.values(), key=int, default="")
    for path in [path for path, stamp in earlier.items() if stamp != newest]:
        remove_generation(path)
    with suppress(OSError):
        (directory / _DAMAGE_MARKER).unlink()
    kept = move_aside(directory)
    if kept is None:
        raise StoreError("STORE_IO", f"there is no {directory / STORE_NAME} to set aside")
    return kept


def report_damage(directory: Path) -> None:
    """Report to the holder of a store's lease that its database is damaged."""
    # If the disk can't be written, nothing could be rebuilt either.
    with suppress(OSError):
        (directory / _DAMAGE_MARKER).touch(mode=0o600)


def is_reported_damaged(directory: Path) -> bool:
    """True if a process reported damage and the database wasn't set aside yet."""
    marker = directory / _DAMAGE_MARKER
    if marker.exists() and not (directory / STORE_NAME).exists():
        # The report was about a database that is gone, not about the next one.
        with suppress(OSError):
            marker.unlink()
    return marker.exists()


def _migrate_on_disk(path: Path, confined: bool) -> None:
    connections = Connections(path)
    try:
        with connections.write() as connection:
            _prepare(connection, path, confined)
    finally:
        connections.close()


def _prepare(connection: sqlite3.Connection, path: Path | None, shelved: bool) -> None:
    """Migrate the schema; for a `shelved` store, add the indexes that limit what a viewer sees."""
    if path is not None and is_outdated(connection):
        try:
            make_snapshot(path, MIGRATION)
        except CortexError as error:
            # A migration is one transaction, so it is safe without a snapshot too.
            log.warning(
                "no snapshot was made before %s was brought up to date: %s", path, error.message
            )
    migrate(connection)
    if shelved:
        widen(connection)
