"""Connections to the SQLite file of a store.

All of them are opened here. A store on disk has one writing connection under a lock and as many
reading ones as are in use at once (WAL: readers never wait for the writer). A store in memory has a
single connection under the same lock. An encrypted store would change only `_connect`. SQLite's own
errors are translated into those of errors.py.

Road not taken: a connection per thread. Threads come and go, and the connections they leave behind
stay open.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from cortex.base.errors import CortexError, FileError, StoreError, short_of_memory, shortage_of
from cortex.base.paths import is_frozen
from cortex.base.runtime.file_lock import lock_file
from cortex.base.visibility import Viewer
from cortex.engine.store.connection import SingleReads, SqliteConnection
from cortex.engine.store.row_level_security import Confined, confine, show

BUSY_TIMEOUT_MS = 10_000
# Page cache of one connection; the default of 2 MB makes index lookups in a large store slow.
# Mapping the file instead makes a search over 100,000 records a tenth cheaper, but every connection
# counts the mapping as memory again, and a failing disk kills the process.
CACHE_KIB = 8_192
# Size to which the next checkpoint truncates a WAL that a long run has grown.
JOURNAL_LIMIT_BYTES = 64 << 20
# Time that `close` gives readers in other threads to finish.
CLOSE_SECONDS = 2.0
JOT_SECONDS = 0.2
# Time that a checkpoint waits for readers; the next one completes what is left.
CHECKPOINT_MS = 100
# Prefix of folders with a copy of a read-only store, and the lock file in each.
COPIES, LOCK = "cortex-store-", "lock"


class Connections(SingleReads):
    """All connections of this process to one store.

    If `confined`, each thread sees what its viewer may see.
    """

    def __init__(
        self, path: Path | None, *, read_only: bool = False, confined: bool = False
    ) -> None:
        if confined and (path is None or not read_only):
            raise ValueError("only a store on disk that is open read-only can be confined")
        self.path = path
        self._read_only = read_only
        self._frozen = read_only and path is not None and is_frozen(path.parent)
        self._copy = _copy_with_log(path) if self._frozen and path is not None else None
        if self._copy is not None and path is not None:
            self.path = path = Path(self._copy.name) / path.name
        self._confined = confined
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._local = threading.local()
        self._idle: list[SqliteConnection] = []
        self._reading = 0
        self._returned = threading.Condition()
        self._closed = False
        with translated(path):
            if path is not None and path.is_dir():
                raise StoreError(
                    "STORE_CORRUPT", f"{path} is a folder where the database should be"
                )
            if path is not None and not read_only:
                _move_folders_aside(path)
                _make_private(path)
            self._writer = _connect(path, read_only, confined)
            self._opened = None if path is None else os.stat(path)

    @property
    def replaced(self) -> bool:
        """True if the open file was moved, removed or replaced since it was opened."""
        return (
            self.path is not None
            and self._opened is not None
            and not is_still(self.path, self._opened)
        )

    @contextmanager
    def write(self, *, durable: bool = False, erase: bool = False) -> Iterator[SqliteConnection]:
        """Open a write transaction: committed when the block ends, rolled back when it raises.

        `durable` is for data that can't be recreated: when this returns it is on the disk, not only
        in the page cache of the operating system. `erase` is for text that a person may want gone:
        without it, removed or replaced text stays in unused pages and parts of pages.
        """
        if getattr(self._local, "together", False):
            with translated(self.path), _savepoint(self._writer):
                yield self._writer
            return
        with self._lock, translated(self.path):
            self._check_open()
            if self._frozen:
                raise StoreError(
                    "STORE_UNWRITABLE", f"{self.path} can be read only: its folder can't be written"
                )
            if self._read_only:
                raise StoreError("STORE_READ_ONLY", f"{self.path} is open for reading only")
            # A write that ran out of memory may have failed to roll back.
            self._end_transaction()
            self._writer.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._writer.execute(f"PRAGMA secure_delete = {'ON' if erase else 'OFF'}")
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            finally:
                self._end_transaction()

    def _end_transaction(self) -> None:
        # SQLite itself ends the transaction if the disk is full.
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    @contextmanager
    def together(self) -> Iterator[None]:
        """Combine all writes of this thread inside the block into one durable transaction.

        Other threads see them when the block ends, this thread at once. A write that fails rolls
        back only itself.
        """
        with self.write(durable=True, erase=True) as connection:
            self._local.together, self._local.connection = True, connection
            try:
                yield
            finally:
                self._local.together, self._local.connection = False, None

    def jot(self, statement: str, values: Sequence[object]) -> None:
        """Write a row that isn't worth waiting for; gives up after `JOT_SECONDS`."""
        if not self._lock.acquire(timeout=JOT_SECONDS):
            raise StoreError("STORE_LOCKED", f"{self.path} is being written")
        try:
            with self.write() as connection:
                connection.execute(statement, values)
        finally:
            self._lock.release()

    @contextmanager
    def read(self) -> Iterator[SqliteConnection]:
        """Open a read transaction: every statement in the block sees the same state."""
        if self.path is None:
            with self._lock, translated(self.path):
                self._check_open()
                yield self._writer
            return
        outer = getattr(self._local, "connection", None)
        # A nested block shares the transaction of the outer one.
        if outer is not None:
            with translated(self.path):
                if isinstance(outer, Confined) and outer.shows != self.viewer:
                    raise CortexError(
                        "INTERNAL_ERROR", "the viewer changed inside an open read transaction"
                    )
                yield outer
            return
        with translated(self.path):
            connection = self._local.connection = self._borrow()
            try:
                if isinstance(connection, Confined):
                    show(connection, self.viewer)
                connection.execute("BEGIN")
                yield connection
            finally:
                self._local.connection = None
                self._give_back(connection)

    @property
    def viewer(self) -> Viewer | None:
        """Viewer of this thread."""
        return getattr(self._local, "viewer", None)

    @contextmanager
    def viewed_by(self, viewer: Viewer) -> Iterator[None]:
        """Show this thread only what `viewer` may see, inside the block.

        Can't be nested, or used inside a `read` block.
        """
        if (
            not self._confined
            or self.viewer is not None
            or getattr(self._local, "connection", None) is not None
        ):
            raise CortexError(
                "INTERNAL_ERROR", "a viewer is set already, or this store restricts none"
            )
        self._local.viewer = viewer
        try:
            yield
        finally:
            self._local.viewer = None

    def _borrow(self) -> SqliteConnection:
        with self._returned:
            self._check_open()
            self._reading += 1
            if self._idle:
                return self._idle.pop(self._idle_index() if self._confined else -1)
        try:
            return _connect(self.path, self._read_only, self._confined)
        except BaseException:
            with self._returned:
                self._reading -= 1
            raise

    def _idle_index(self) -> int:
        """Index of an idle connection last used for this viewer, else of the newest one."""
        viewer = self.viewer
        matches = (
            index
            for index, connection in enumerate(self._idle)
            if isinstance(connection, Confined) and connection.shows == viewer
        )
        return next(matches, -1)

    def _give_back(self, connection: SqliteConnection) -> None:
        try:
            if connection.in_transaction:
                # Nothing was written, so this fails only for lack of memory.
                connection.execute("ROLLBACK")
        finally:
            with self._returned:
                self._reading -= 1
                if connection.in_transaction:
                    connection.close()
                else:
                    self._idle.append(connection)
                self._returned.notify_all()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(
                "STORE_LOCKED", "the store is closed", context={"path": str(self.path)}
            )
        # SQLite's locks don't survive a fork.
        if os.getpid() != self._process:
            raise StoreError(
                "STORE_LOCKED", "the store was opened before this process was forked; open it again"
            )

    def checkpoint(self) -> bool:
        """Move the WAL into the file and truncate it; false if a reader still needs older pages."""
        if self.path is None or self._read_only:
            return True
        with self._lock, translated(self.path):
            self._check_open()
            self._writer.execute(f"PRAGMA busy_timeout = {CHECKPOINT_MS}")
            try:
                return not self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                self._writer.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")

    def close(self) -> None:
        """Close all connections.

        A transaction in another thread gets a short time to finish; later calls are rejected.
        """
        with self._returned:
            if self._closed:
                return
            self._closed = True
            # A connection still in use after that is left to its thread: closing it during a
            # statement can crash the process.
            self._returned.wait_for(lambda: self._reading == 0, CLOSE_SECONDS)
            for connection in self._idle:
                connection.close()
        if self._lock.acquire(timeout=CLOSE_SECONDS):
            try:
                self._writer.close()
            finally:
                self._lock.release()
        if self._copy is not None:
            self._copy.cleanup()


@contextmanager
def _savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block as a part of the open transaction that can be rolled back by itself."""
    if not connection.in_transaction:
        raise StoreError("STORE_IO", "an earlier write of the same transaction failed")
    connection.execute("SAVEPOINT part")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO part")
            connection.execute("RELEASE part")
        raise
    connection.execute("RELEASE part")


def is_still(path: Path, opened: os.stat_result) -> bool:
    """True if the file at `path` is the one that was opened."""
    # An open file can't be removed on Windows.
    if os.name == "nt":
        return True
    try:
        current = os.stat(path)
    except FileNotFoundError:
        return False
    except OSError:
        # A drive that doesn't respond at the moment; the file may still be there.
        return True
    return (current.st_dev, current.st_ino) == (opened.st_dev, opened.st_ino)


def _move_folders_aside(path: Path) -> None:
    """Move folders named like SQLite's own files aside; SQLite recreates those files."""
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if beside.is_dir():
            beside.replace(path.with_name(f"{path.name}.damaged-{time.time_ns()}{suffix}"))


def _make_private(path: Path) -> None:
    """Create an empty database that only its owner may read; SQLite's files inherit the mode.

    An existing file isn't opened: closing it would release every lock that this process has on it,
    including those of a store that is open in it. Another process that closes the store next would
    then believe to be the last one and remove the log.
    """
    # It exists already; for any other failure SQLite gives a better error.
    with suppress(OSError):
        os.close(
            os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        )


def _connect(path: Path | None, read_only: bool, confined: bool) -> SqliteConnection:
    connection = sqlite3.connect(
        ":memory:" if path is None else f"{path.absolute().as_uri()}?{_mode(path, read_only)}",
        uri=path is not None,
        timeout=BUSY_TIMEOUT_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        factory=Confined if confined else SqliteConnection,
    )
    try:
        if confined:
            confine(connection)
        elif read_only:
            connection.execute("PRAGMA query_only = ON")
        if not read_only:
            _use_write_ahead_log(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        # A planted view or trigger may not call any function.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_LIMIT_BYTES}")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    except BaseException:
        connection.close()
        raise
    return connection


class _Copy:
    """Temporary folder for a copy of a store, accessible to this user only.

    The lock file in it is released when the process ends, even by a crash.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=COPIES, ignore_cleanup_errors=True)
        self.name = self._folder.name
        fresh, lock = Path(self.name) / "lock.new", Path(self.name) / LOCK
        self._lock = os.open(fresh, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        lock_file(self._lock)
        fresh.rename(lock)

    def cleanup(self) -> None:
        os.close(self._lock)
        self._folder.cleanup()


def _remove_stale_copies() -> None:
    """Remove this user's copies left by killed processes: those with a free lock."""
    for folder in Path(tempfile.gettempdir()).glob(f"{COPIES}*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / LOCK, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        except OSError:
            continue
        try:
            if lock_file(lock):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _copy_with_log(path: Path) -> _Copy | None:
    """Copy a database with a log that SQLite can't read in place; None if no copy is needed."""
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if not log.exists() or not log.stat().st_size or index.exists():
        return None
    _remove_stale_copies()
    folder = _Copy()
    for file in (path, log):
        shutil.copyfile(file, Path(folder.name) / file.name)
    return folder


def _mode(path: Path, read_only: bool) -> str:
    """Choose the URI parameters with which SQLite opens the file.

    Where SQLite can't put its own files next to it, no other process can write either.
    """
    if not read_only:
        return "mode=rwc"
    log = path.with_name(f"{path.name}-wal")
    unlogged = not log.exists() or not log.stat().st_size
    return "mode=ro&immutable=1" if unlogged and is_frozen(path.parent) else "mode=ro"


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Turn the WAL on.

    SQLite doesn't wait for another process doing the same at this step, so this function does.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextmanager
def translated(path: Path | None) -> Iterator[None]:
    """Translate errors of SQLite, the lexical index and the disk into actionable ones."""
    where = str(path or "memory")
    try:
        yield
    except CortexError as error:
        if error.code in ("STORE_CORRUPT", "STORE_NEWER"):
            # Callers set aside only the store with this path.
            error.context.setdefault("path", where)
        raise
    except sqlite3.DatabaseError as error:
        raise _error_from_message(str(error), where, error) from error
    except UnicodeDecodeError as error:
        # SQLite quotes the text that it can't read, and Python can't decode the quote.
        context = {"path": where, "cause": str(error)}
        raise StoreError(
            "STORE_CORRUPT", f"{where} is damaged: a text in it isn't UTF-8", context=context
        ) from error
    except (MemoryError, OSError) as error:
        if shortage := shortage_of(error, f"using {where}"):
            shortage.context["path"] = where
            raise shortage from error
        if isinstance(error, FileNotFoundError):
            raise FileError(
                "FILE_NOT_FOUND", f"{where} is gone", context={"path": where}
            ) from error
        if isinstance(error, PermissionError):
            raise StoreError(
                "STORE_UNWRITABLE",
                f"{where} can't be written: {error.strerror}",
                context={"path": where},
            ) from error
        raise


def _error_from_message(message: str, where: str, error: Exception) -> CortexError:
    lowered = message.lower()
    context = {"path": where, "cause": message}
    if "out of memory" in lowered:
        return short_of_memory(f"using {where}")
    if "disk is full" in lowered or "no space left" in lowered:
        return FileError("DISK_FULL", f"writing to {where} failed: {message}", context=context)
    # Not a full disk: a quota, an unreachable network drive, a dying disk.
    if "disk i/o error" in lowered:
        return StoreError(
            "STORE_IO", f"the disk below {where} answers with errors", context=context
        )
    if "locked" in lowered or "busy" in lowered:
        return StoreError("STORE_LOCKED", f"{where} is locked by another process", context=context)
    if "readonly" in lowered or "unable to open" in lowered or "permission" in lowered:
        return StoreError(
            "STORE_UNWRITABLE", f"{where} can't be opened for writing: {message}", context=context
        )
    if (
        isinstance(error, (sqlite3.ProgrammingError, sqlite3.InterfaceError))
        and "closed" in lowered
    ):
        return StoreError("STORE_LOCKED", "the store is closed", context=context)
    if isinstance(error, (sqlite3.IntegrityError, sqlite3.ProgrammingError)):
        return CortexError("INTERNAL_ERROR", f"{where}: {message}", context=context)
    if (
        "malformed" in lowered
        or "not a database" in lowered
        or "corrupt" in lowered
        or "no such table" in lowered
    ):
        return StoreError("STORE_CORRUPT", f"{where} is damaged: {message}", context=context)
    return CortexError("INTERNAL_ERROR", f"{where}: {message}", context=context)
