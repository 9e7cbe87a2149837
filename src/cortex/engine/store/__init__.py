"""Storage of one project, home or Core: a SQLite database and the indexes beside it.

One `Store` is one directory. The SQLite file is the source of truth; the lexical and vector indexes
are derived from it and can be thrown away at any time.

Only this package contains SQL over our own tables, imports tantivy, turbovec and the clients of
vector servers, and knows the lease.
"""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import CortexError, StoreError
from cortex.base.paths import bytes_on_disk
from cortex.base.visibility import Viewer
from cortex.engine.store import integrity
from cortex.engine.store.connection import Connected, SqliteConnection
from cortex.engine.store.connections import Connections, translated
from cortex.engine.store.content.chunk_entries import Entries, Held, Update
from cortex.engine.store.content.folders import DOCUMENTS, Folder, Folders
from cortex.engine.store.content.queries import (
    ChunkLocation,
    ContentQueries,
    Counts,
    DefinitionSite,
)
from cortex.engine.store.content.redactions import Redactions
from cortex.engine.store.content.source_counts import SourceCounts
from cortex.engine.store.content.writer import ContentChange, ContentStore, Known
from cortex.engine.store.database_files import (
    ASIDE,
    STORE_NAME,
    check_present,
    is_reported_damaged,
    leased,
    move_aside,
    remove_replaced,
    report_damage,
    set_aside,
    set_aside_project,
)
from cortex.engine.store.index.lexical import (
    FIELDS,
    LexicalIndex,
    LexicalTerm,
    SearchFilter,
    extension_of,
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
from cortex.engine.store.records.transaction import (
    Guard,
    RecordTransaction,
    Screened,
    Sees,
    TransactionOptions,
)
from cortex.engine.store.records.writer import Records, TransactionResult
from cortex.engine.store.row_level_security import is_wide, widen
from cortex.engine.store.schema import is_current, is_outdated, migrate
from cortex.engine.store.snapshots import MIGRATION, make_snapshot

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
    "TransactionOptions",
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

log = logging.getLogger(__name__)


class Store:
    """An open store. `directory` None keeps everything in memory.

    With `vector_server`, vectors live on that server instead of in files.

    A read-only store can't be written by any code path: SQLite itself rejects it (`mode=ro`,
    `query_only`). Only the schema of an older store is migrated before it is opened.

    A `confined` store is read-only too and shows records only to a viewer (`viewed_by`), limited to
    what that viewer may see. The process that writes such a store has to open it with `shelved`,
    which adds the indexes that this needs.
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
            # Only if needed, because writing waits for another writer.
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
        self._counts = SourceCounts(self.content)

    @property
    def replaced(self) -> bool:
        """True if the open files were replaced on disk, so that the store must be reopened."""
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
        """Count the docs and chunks of `sources` together."""
        return self._counts.total(sources)

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
            return integrity.problems_of(connection)

    def is_damaged_in_indexes_only(self) -> bool:
        """True if the tables are intact and only SQLite's own indexes are not: `reindex` helps."""
        with self._connections.read() as connection:
            return integrity.is_damaged_in_indexes_only(connection)

    def reindex(self) -> Path:
        """Rebuild SQLite's own indexes and return the path of a copy made before."""
        assert self.directory is not None
        kept = self.directory / f"{ASIDE}{time.time_ns()}"
        with translated(kept), self._connections.read() as connection:
            integrity.copy_pages(connection, kept)
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
            return set_aside_project(self.directory)
        finally:
            self.lease.release()


def _migrate_on_disk(path: Path, confined: bool) -> None:
    connections = Connections(path)
    try:
        with connections.write() as connection:
            _prepare(connection, path, confined)
    finally:
        connections.close()


def _prepare(connection: SqliteConnection, path: Path | None, shelved: bool) -> None:
    """Migrate the schema; for a `shelved` store, add the indexes that limit what a viewer sees."""
    if path is not None and is_outdated(connection):
        try:
            make_snapshot(path, MIGRATION)
        except CortexError as error:
            # A migration is one transaction, so it is safe without a snapshot too.
            log.warning("could not make a snapshot before migrating %s: %s", path, error.message)
    migrate(connection)
    if shelved:
        widen(connection)
