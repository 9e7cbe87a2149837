"""Snapshots of a home: the data that can't be recreated, in one private compressed file.

A snapshot is a gzipped SQLite database of the same schema; the checksum of gzip shows if it is
complete. It contains memories, records and what belongs to them, the list of document folders, and
the user's settings; not the text of documents, which is read again from the files, nor search data,
which is rebuilt. It is written while others read and write.

Road not taken: a copy of the whole database, which with 10,000 documents is a hundred times as
large, seven times over.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import sqlite3
import time
import zlib
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from cortex.base.errors import SHORTAGES, CortexError, FileError, StoreError, code_of, error_of
from cortex.base.paths import SNAPSHOTS_FOLDER, make_private
from cortex.engine.store.connections import translated

FOLDER = SNAPSHOTS_FOLDER
SETTINGS_FILE = "config.yml"
MOST, MOST_BYTES = 7, 1 << 30
DAY_SECONDS = 86_400
# Disk space that a snapshot leaves free.
SPARE_BYTES = 50 << 20
# Age from which a temporary file of a killed process is removed.
STALE_SECONDS = 3_600
# Level 6 takes three times as long and saves a tenth.
COMPRESSION = 1
DAILY, MIGRATION, RESTORE, ASKED = "daily", "migration", "restore", "asked"

_NAME = re.compile(r"(\d{8}T\d{6})(?:-(\d+))?Z-(daily|migration|restore|asked)\.db\.gz")
_TIME = "%Y%m%dT%H%M%S"
_FILES = "snapshot_files"
_OWN = "IN (SELECT id FROM home.memories WHERE origin = '')"

# Rows of each table in a snapshot; the tables in LEFT_OUT exist and are empty.
KEPT = {
    "meta": "key NOT LIKE '%:%' AND key NOT IN ('words', 'dead', 'forgotten', 'cleanup')",
    "memories": "origin = ''",
    "concepts": f"memory {_OWN}",
    "citations": f"memory {_OWN}",
    **dict.fromkeys(
        (
            *(
                "sources",
                "folders",
                "judgements",
                "forgotten",
                "decisions",
                "records",
                "refs",
                "versions",
                "keys",
            ),
            *("audit", "counters", "principals", "grants", "tokens", "facts"),
            *("outbox", "outbox_records", "replica", "local_only", "elsewhere"),
        ),
        "1",
    ),
}
# Derived data: text that is read again, and everything for search.
LEFT_OUT = (
    *(
        "blobs",
        "chunks",
        "symbols",
        "docs",
        "gone",
        "skips",
        "left_out",
        "entries",
        "tags",
        "leaks",
        "mirrors",
    ),
    *("operations", "requests", "models", "vectors"),
)
# A row in one of these justifies a snapshot.
_CONTENT = {
    "memories": "origin = ''",
    "judgements": "1",
    "records": "1",
    "folders": "1",
    "principals": "1",
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Snapshot on disk."""

    file: Path
    at: int  # seconds since 1970
    reason: str
    size: int

    @property
    def name(self) -> str:
        return self.file.name.removesuffix(".db.gz")


@dataclass(frozen=True, slots=True)
class Contents:
    """Row counts of a snapshot."""

    memories: int
    records: int
    folders: int
    settings: bool


def list_snapshots(home: Path) -> list[Snapshot]:
    """Snapshots of a home, newest first; those dated in the future come last."""
    numbered_snapshots: list[tuple[int, Snapshot]] = []
    with suppress(OSError), os.scandir(home / FOLDER) as entries:
        for entry in entries:
            if match := _NAME.fullmatch(entry.name):
                at = datetime.strptime(match[1], _TIME).replace(tzinfo=UTC)
                with suppress(OSError):
                    size = entry.stat(follow_symlinks=False).st_size
                    snapshot = Snapshot(Path(entry.path), int(at.timestamp()), match[3], size)
                    numbered_snapshots.append((int(match[2] or 1), snapshot))
    now = time.time()
    numbered_snapshots.sort(
        key=lambda numbered: (numbered[1].at <= now, numbered[1].at, numbered[0]), reverse=True
    )
    return [snapshot for _, snapshot in numbered_snapshots]


def is_due(database: Path) -> bool:
    """True if a database was written after its last snapshot, and that is at least a day old."""
    written = 0.0
    for name in (database, database.with_name(f"{database.name}-wal")):
        with suppress(OSError):
            status = name.stat()
            written = max(written, status.st_mtime if status.st_size else 0.0)
    newest = next(iter(list_snapshots(database.parent)), None)
    now = time.time()
    if newest is None or newest.at > now:
        return bool(written)
    return written > newest.at and now - newest.at >= DAY_SECONDS


def is_under_way(home: Path) -> bool:
    """True if a snapshot is being written, or was interrupted within the last hour."""
    with suppress(OSError):
        return any(not _is_stale(file) for file in (home / FOLDER).glob(".snapshot-*"))
    return False


def make_snapshot(database: Path, reason: str) -> Snapshot | None:
    """Write a snapshot beside a database and prune old ones; None if there is nothing to save.

    Raises: as `write_snapshot`.
    """
    snapshot = write_snapshot(database, reason)
    if snapshot is not None:
        prune(list_snapshots(database.parent), {snapshot.file})
    return snapshot


def write_snapshot(database: Path, reason: str) -> Snapshot | None:
    """Write a snapshot beside a database, without pruning; None if there is nothing to save.

    Raises: StoreError STORE_CORRUPT if the database is damaged; FileError DISK_FULL or
    PERMISSION_DENIED.
    """
    folder = database.parent / FOLDER
    with translated(database):
        if not _has_content(database):
            return None
    with _translate_errors(folder):
        make_private(folder)
        if os.name != "nt":
            os.chmod(folder, 0o700)
        _sweep(folder)
        with _temporary(folder, ".db") as copy, _temporary(folder, ".gz") as packed:
            with translated(database):
                _copy(database, copy)
            if shutil.disk_usage(folder).free < copy.stat().st_size + SPARE_BYTES:
                raise FileError("DISK_FULL", f"there is no room for a snapshot in {folder}")
            with open(copy, "rb") as source, open(packed, "wb") as raw:
                with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=COMPRESSION) as target:
                    shutil.copyfileobj(source, target, 1 << 20)
                raw.flush()
                os.fsync(raw.fileno())
            file = _free_name(folder, reason)
            os.replace(packed, file)
    return next(
        (snapshot for snapshot in list_snapshots(database.parent) if snapshot.file == file), None
    )


def prune(snapshots: list[Snapshot], spared: Collection[Path] = ()) -> None:
    """Remove the oldest of these (given newest first) above the limits of number and size.

    The newest always stays, and so do the `spared` files.
    """
    total = 0
    spared_first = sorted(snapshots, key=lambda snapshot: snapshot.file not in spared)
    for index, snapshot in enumerate(spared_first):
        total += snapshot.size
        if snapshot.file not in spared and (index >= MOST or (index and total > MOST_BYTES)):
            with suppress(OSError):
                snapshot.file.unlink()


def verify_snapshot(snapshot: Snapshot) -> Contents:
    """Read a whole snapshot and count its rows.

    Raises: FileError IMPORT_UNREADABLE if it is damaged.
    """
    with _translate_errors(snapshot.file), _temporary(snapshot.file.parent, ".db") as copy:
        unpack(snapshot, copy)
        with closing(sqlite3.connect(copy)) as connection:
            return _contents(connection)


def unpack(snapshot: Snapshot, target: Path) -> None:
    """Unpack a snapshot into a database and check it.

    Raises: FileError IMPORT_UNREADABLE if it is damaged.
    """
    try:
        with gzip.open(snapshot.file, "rb") as source, _open_private(target) as out:
            shutil.copyfileobj(source, out, 1 << 20)
        with closing(sqlite3.connect(target)) as connection, translated(target):
            verdict = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if verdict != "ok":
                raise StoreError("STORE_CORRUPT", verdict)
            # An empty file unpacks to an empty database, which SQLite considers intact.
            connection.execute(f"SELECT count(*) FROM {_FILES}")
            _contents(connection)
    except (EOFError, zlib.error, gzip.BadGzipFile, CortexError) as error:
        if isinstance(error, CortexError) and error.code in SHORTAGES:
            raise
        raise FileError(
            "IMPORT_UNREADABLE",
            f"the snapshot {snapshot.file} is damaged: {error}",
            context={"path": str(snapshot.file)},
            instead=("Take another one: `cortex backup list` shows them.",),
        ) from error


def take_settings(connection: sqlite3.Connection) -> str | None:
    """Remove the settings from an unpacked snapshot and return them; None if it has none."""
    row = connection.execute(
        f"SELECT content FROM {_FILES} WHERE name = ?", (SETTINGS_FILE,)
    ).fetchone()
    connection.execute(f"DROP TABLE {_FILES}")
    return None if row is None else row[0]


def _has_content(database: Path) -> bool:
    with closing(sqlite3.connect(_uri(database), uri=True)) as connection:
        known = {
            row[0]
            for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        }
        return any(
            connection.execute(f"SELECT 1 FROM {table} WHERE {where} LIMIT 1").fetchone()
            is not None
            for table, where in _CONTENT.items()
            if table in known
        )


def _uri(database: Path) -> str:
    return f"{database.absolute().as_uri()}?mode=ro"


def _copy(database: Path, copy: Path) -> None:
    """Copy the rows of a snapshot into an empty file."""
    with closing(sqlite3.connect(copy, uri=True, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("ATTACH ? AS home", (_uri(database),))
        connection.execute("BEGIN")
        schema = connection.execute(
            "SELECT type, name, sql FROM home.sqlite_schema WHERE sql IS NOT NULL "
            "AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        for kind, name, sql in schema:
            if kind != "table":
                continue
            connection.execute(sql)
            if name in KEPT:
                connection.execute(
                    f"INSERT INTO main.{name} SELECT * FROM home.{name} WHERE {KEPT[name]}"
                )
        connection.execute("DELETE FROM main.sqlite_sequence")
        connection.execute("INSERT INTO main.sqlite_sequence SELECT * FROM home.sqlite_sequence")
        for kind, _, sql in schema:
            if kind in ("index", "trigger"):
                connection.execute(sql)
        version = connection.execute("PRAGMA home.user_version").fetchone()[0]
        connection.execute(f"PRAGMA main.user_version = {version}")
        connection.execute(
            f"CREATE TABLE {_FILES} (name TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID"
        )
        with suppress(OSError, UnicodeError):
            text = (database.parent / SETTINGS_FILE).read_text(encoding="utf-8")
            connection.execute(f"INSERT INTO {_FILES} VALUES (?, ?)", (SETTINGS_FILE, text))
        connection.execute("COMMIT")


def _contents(connection: sqlite3.Connection) -> Contents:
    def count(table: str) -> int:
        if (
            connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
            is None
        ):
            # The snapshot is older than the migration that added the table.
            return 0
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]

    return Contents(count("memories"), count("records"), count("folders"), bool(count(_FILES)))


def _free_name(folder: Path, reason: str) -> Path:
    """File name that sorts after all others of the same second."""
    now = datetime.now(UTC).strftime(_TIME)
    numbers = [
        int(match[2] or 1)
        for file in folder.glob(f"{now}*")
        if (match := _NAME.fullmatch(file.name))
    ]
    part = f"-{max(numbers) + 1}" if numbers else ""
    return folder / f"{now}{part}Z-{reason}.db.gz"


def _sweep(folder: Path) -> None:
    """Remove incomplete files of killed processes."""
    for file in folder.glob(".snapshot-*"):
        with suppress(OSError):
            if _is_stale(file):
                file.unlink()


def _is_stale(file: Path) -> bool:
    return time.time() - file.stat().st_mtime > STALE_SECONDS


@contextmanager
def _temporary(folder: Path, ending: str) -> Iterator[Path]:
    file = folder / f".snapshot-{os.getpid()}-{time.time_ns()}{ending}"
    try:
        _open_private(file).close()
        yield file
    finally:
        file.unlink(missing_ok=True)


def _open_private(file: Path) -> BinaryIO:
    """Open a file for writing that only its owner can read."""
    return open(
        os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600),
        "wb",
    )


@contextmanager
def _translate_errors(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"{place} can't be used for snapshots: {error.strerror or error}"
        raise error_of(code_of(error, "PERMISSION_DENIED"), message) from error
