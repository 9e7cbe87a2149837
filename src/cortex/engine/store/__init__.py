"""What is remembered.

One `Store` is one directory: a SQLite file that is the truth, and indexes that can be thrown away.

This folder alone has SQL over our own tables, imports tantivy, turbovec and the client of Qdrant,
and knows the lease.
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

from cortex.base.errors import CortexError, StoreError
from cortex.base.paths import bytes_on_disk, is_home, open_private
from cortex.base.visibility import Viewer
from cortex.engine.store.connections import Connected, Connections, translated
from cortex.engine.store.content.chunk_entries import Entries, Held, Update
from cortex.engine.store.content.folders import DOCUMENTS, Folder, Folders
from cortex.engine.store.content.queries import ChunkLocation, Counts, DefinitionSite, Lookup
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
from cortex.engine.store.index.qdrant import Qdrant, QdrantCollection
from cortex.engine.store.lease import Lease
from cortex.engine.store.memories.filters import MemoryFilter
from cortex.engine.store.memories.queries import (
    Decision,
    Judgement,
    MemoryLookup,
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
    RecordLookup,
    VersionedRecord,
)
from cortex.engine.store.records.row_reader import kind_of_id
from cortex.engine.store.records.rows import IndexedText, RecordTextExtractor
from cortex.engine.store.records.transaction import Guard, RecordTransaction, Screened, Sees
from cortex.engine.store.records.writer import Records, TransactionResult
from cortex.engine.store.row_level_security import is_wide, widen
from cortex.engine.store.schema import is_current, is_outdated, migrate
from cortex.engine.store.snapshots import MIGRATION, list_snapshots, make_snapshot

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
    "Lookup",
    "Memories",
    "MemoryFilter",
    "MemoryLookup",
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
    "Qdrant",
    "QdrantCollection",
    "RecordChange",
    "RecordHeader",
    "RecordLookup",
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
# What `integrity_check` says of an index whose table is sound.
_INDEX_DAMAGE = re.compile(
    r"row \d+ missing from index .*|wrong # of entries in index .*|non-unique entry in index .*"
)
_FOUND = f"{_ASIDE}found"  # asks the holder of the lease to set the database aside
LARGE = 4_000  # docs of a source: while it changes it isn't counted for each answer
COUNT_TIMES = 100  # as long as counting takes, a count holds
MAX_MESSAGES = 10_000  # of SQLite's check that are read
MAX_TOTALS = 64  # choices of sources that are added up once

log = logging.getLogger(__name__)


class Store:
    """An open store. `directory` None keeps everything in memory.

    `qdrant` keeps the vectors, where it is given, in place of files. Read-only, nothing can be
    written through it, whoever tries: SQLite itself refuses (`mode=ro`, `query_only`); only the
    schema of an older store is brought up to date before. `confined`, which is read-only, too,
    nothing of the records is seen but by a viewer (`viewed_by`), and that only what is theirs to
    see; such a store has to be `shelved` for whoever writes it.
    """

    def __init__(
        self,
        directory: Path | None,
        folder: str = "",
        *,
        read_only: bool = False,
        confined: bool = False,
        shelved: bool = False,
        qdrant: Qdrant | None = None,
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
            # Who only looks may be the first after an update
            if not current and path is not None and read_only:
                _bring_up_to_date(path, confined)
            elif not current:  # seldom: opening a store need not wait for its writer
                with self._connections.write() as connection:
                    _prepare(connection, path, shelved)
            self.truth = ContentStore(self._connections)
            redactions = Redactions(self._connections)
            self.paid = EmbeddingCache(self._connections, redactions)
            self.indexes = Indexes(directory, self._connections, self.truth, self.paid, qdrant)
        except BaseException:
            self._connections.close()
            raise
        self.lookup = Lookup(self._connections, redactions)
        self.entries = Entries(self._connections)
        self.folders = Folders(self._connections)
        self.memories = Memories(self._connections)
        self.remembered = MemoryLookup(self._connections)
        self.records = Records(self._connections, shelved=shelved)
        self.recorded = RecordLookup(self._connections, lambda: self._connections.viewer)
        self.outbox = Outbox(self._connections)
        self.lease = Lease(directory, folder, wanted=not read_only)
        self.log = OperationLog(self._connections)
        # By source: seq, counts, until when
        self._counts: dict[int, tuple[int, Counts, float]] = {}
        # Seq, and by sources what they have then
        self._totals: tuple[int, dict[tuple[int, ...], Counts]] = (0, {})

    @property
    def replaced(self) -> bool:
        """Whether the files on disk are no longer the ones that are open here, so that the store
        has to be opened anew.
        """
        return self._connections.replaced or self.lease.lost

    @property
    def viewer(self) -> Viewer | None:
        """Who looks, in this thread; nobody, where the store isn't confined."""
        return self._connections.viewer

    def viewed_by(self, viewer: Viewer) -> AbstractContextManager[None]:
        """Show what this viewer may see to this thread, inside the block."""
        return self._connections.viewed_by(viewer)

    @property
    def connections(self) -> Connected:
        """What the records are written to and read from, for who keeps more beside them."""
        return self._connections

    def reading(self) -> AbstractContextManager[object]:
        """One consistent view for everything that is read inside the block, and one transaction
        instead of many.
        """
        return self._connections.read()

    def counts(self, *sources: int) -> Counts:
        """How many docs and chunks sources have together, counted once for each state of the store;
        of many that change all the time not as often.
        """
        # Of this state, whatever another thread puts in its place meanwhile
        seq, known = (
            self.truth.seq(),
            self._totals,
        )
        # To add up hundreds is a twentieth of a search, and it asks three times
        if known[0] == seq and sources in known[1]:
            return known[1][sources]
        now = time.monotonic()
        due = [
            source
            for source in sources
            if source not in self._counts or self._counts[source][0] != seq
        ]
        exact = not due or not self._holds(sources, due, now)
        if due and exact:
            counted = self.lookup.counts_of(due)
            until = now + COUNT_TIMES * (time.monotonic() - now)
            self._counts |= {one: (seq, counts, until) for one, counts in counted.items()}
        every = [self._counts[one][1] for one in sources]
        total = Counts(
            sum(one.docs for one in every),
            sum(one.chunks for one in every),
            sum(one.characters for one in every),
        )
        if exact:
            before = known[1] if known[0] == seq and len(known[1]) < MAX_TOTALS else {}
            self._totals = (seq, {**before, sources: total})
        return total

    def _holds(self, sources: Sequence[int], due: Sequence[int], now: float) -> bool:
        """Whether what was counted before another state is to be believed still."""
        known = self._counts
        return all(one in known and now < known[one][2] for one in due) and (
            sum(known[source][1].docs for source in sources) >= LARGE
        )

    def disk_bytes(self) -> int:
        """How much the store takes on disk, indexes included."""
        return 0 if self.directory is None else bytes_on_disk(self.directory)

    def check(self) -> list[str]:
        """What is wrong with the store: SQLite's own check, then ids of the words and vectors
        compared with the truth.

        Indexes that are behind the truth are not compared: they are complete when they have caught
        up.
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
        """What is wrong with the SQLite file itself: pages, indexes, rows that point to nothing,
        texts that aren't searched.
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
                    f"(SELECT 1 FROM docs WHERE docs.source = {table}.source AND docs.path = {table}.{key})"
                ).fetchone()[0]
                problems += [f"{count} {table} are not found by search"] if count else []
        return problems

    def is_damaged_in_indexes_only(self) -> bool:
        """Whether the tables are sound and only SQLite's own indexes are not, so that `reindex`
        helps.
        """
        with self._connections.read() as connection:
            rows = connection.execute(f"PRAGMA integrity_check({MAX_MESSAGES})").fetchall()
        return len(rows) < MAX_MESSAGES and all(_INDEX_DAMAGE.fullmatch(row[0]) for row in rows)

    def reindex(self) -> Path:
        """Build SQLite's own indexes anew from its tables; returns the copy of the database before."""
        assert self.directory is not None
        kept = self.directory / f"{_ASIDE}{time.time_ns()}"
        with translated(kept), self._connections.read() as connection:
            os.close(open_private(str(kept), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            with closing(sqlite3.connect(kept)) as copy:
                # Page by page, with what the log has: also what SQLite can't find its way to.
                connection.backup(copy)
        with self._connections.write(durable=True) as connection:
            connection.execute("REINDEX")
        return kept

    def checkpoint(self) -> bool:
        """Move the write-ahead log into the file; false where a reader is in the way of that."""
        return self._connections.checkpoint()

    def close(self) -> None:
        """Close everything and give the lease back."""
        with ExitStack() as ends:  # each of them, whatever fails
            ends.callback(self.lease.release)
            ends.callback(self._connections.close)
            self.indexes.close()

    def set_aside(self) -> Path:
        """Close the store of a lease holder, and move its database out of the way; returns where it
        went.
        """
        assert self.directory is not None and self.lease.held
        try:
            self.indexes.close()
            self._connections.close()
            return _discard(self.directory)
        finally:
            self.lease.release()


def check_present(directory: Path) -> None:
    """Refuse to begin anew where a database was: its indexes are there, and it is gone or empty.

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
        # Opening it says better what is wrong.
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
        f"{path} {state}, and {why} to one that was in use (snapshots: {snapshots}); nothing was written",
        context={"path": str(path), "indexes": left, "snapshots": snapshots},
    )


@contextmanager
def leased(directory: Path) -> Iterator[None]:
    """Hold a store's lease for the block.

    Raises: StoreError STORE_LOCKED, where another process has it.
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
    """Move a store's database, with what its log holds, out of the way and return where it went.

    For a store that nothing is only in: a project's, or the replica of a Core's database. Of what
    was set aside before the last one is kept.

    Raises: StoreError STORE_LOCKED when another process holds the lease; STORE_CORRUPT for a
    home's.
    """
    with leased(directory):
        return _discard(directory, replica=replica)


def move_aside(
    directory: Path, *, sound: bool = False, replacement: Path | None = None
) -> Path | None:
    """Do that where the lease is held already; a `sound` database isn't called damaged then.

    None where there was none.

    A process that is killed on the way leaves the database with its log in the old place or in the
    new one. A `replacement` takes its place; where that fails, the database is where it was.
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
            _double(log, copy)
        moved = path.exists()
        if moved:
            _move(path, target, undo)
        for log, copy in logs.items():  # a new database must not find an old one's log
            undo.callback(_double, copy, log)
            log.unlink(missing_ok=True)
        if replacement is not None:
            os.replace(replacement, path)
        undo.pop_all()
    return target if moved else None


def _double(file: Path, target: Path) -> None:
    """Have a file at a second place, too; a folder that has its name moves there."""
    if file.is_dir():
        file.replace(target)
        return
    try:
        os.link(file, target)
    except (FileNotFoundError, FileExistsError):
        return
    except OSError:  # a file system without hard links
        shutil.copy2(file, target)


def _move(source: Path, target: Path, undo: ExitStack) -> None:
    source.replace(target)
    undo.callback(target.replace, source)


def remove_replaced(directory: Path, but: Path | None) -> None:
    """Remove the sound databases that were moved aside, but this one."""
    for path in directory.glob(f"{_REPLACED}[0-9]*"):
        if but is None or not path.name.startswith(but.name):
            with suppress(OSError):
                path.unlink()


def _discard(directory: Path, *, replica: bool = False) -> Path:
    """Set a project's database aside, and remove what was set aside before the last time."""
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
    for path in [path for path, number in earlier.items() if number != newest]:
        remove_generation(path)
    with suppress(OSError):
        (directory / _FOUND).unlink()
    kept = move_aside(directory)
    if kept is None:
        raise StoreError("STORE_IO", f"there is no {directory / STORE_NAME} to set aside")
    return kept


def report_damage(directory: Path) -> None:
    """Tell the holder of a store's lease that its database is damaged."""
    # A disk that can't be written: then nothing can be built anew either.
    with suppress(OSError):
        (directory / _FOUND).touch(mode=0o600)


def is_reported_damaged(directory: Path) -> bool:
    """Whether another process found the store's database damaged, and it wasn't set aside yet."""
    found = directory / _FOUND
    if found.exists() and not (directory / STORE_NAME).exists():
        # It was said of a database that is gone, not of the next one.
        with suppress(OSError):
            found.unlink()
    return found.exists()


def _bring_up_to_date(path: Path, confined: bool) -> None:
    connections = Connections(path)
    try:
        with connections.write() as connection:
            _prepare(connection, path, confined)
    finally:
        connections.close()


def _prepare(connection: sqlite3.Connection, path: Path | None, shelved: bool) -> None:
    """Make the tables what this Cortex expects; where those who read are confined, with indexes
    that say who sees what.
    """
    if path is not None and is_outdated(connection):
        try:
            make_snapshot(path, MIGRATION)
        except CortexError as error:
            # A migration is one transaction: it changes all or nothing, with or without a snapshot.
            log.warning(
                "no snapshot was made before %s was brought up to date: %s", path, error.message
            )
    migrate(connection)
    if shelved:
        widen(connection)
