"""Backup of a ledger in one file of gzipped JSON lines, the same for both databases.

The first line is a header (format, schema, epoch, number of rows of each table), then each line is
a row, and the last one is a checksum of all before it: a truncated or damaged file is detected
before anything is written. Derived data is not included: docs, lexical index and vectors. A
restored ledger is another history than the saved one (later writes are missing), so it gets an
epoch of its own.

Road not taken: the databases' own tools, which can't read each other's files.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortex.base.errors import CortexError, FileError, InputError, StoreError, code_of, error_of
from cortex.engine.store.records.ledger import POSTGRESQL, Ledger, new_epoch
from cortex.engine.store.records.row_reader import get_records
from cortex.engine.store.records.rows import RecordTextExtractor

# Schema 2: the audit log has `via`.
FORMAT, SCHEMA = "cortex-ledger", 2
# Rows read or written at once.
PAGE = 1_000
COMPRESSION = 6


@dataclass(frozen=True, slots=True)
class _Table:
    """Table as stored in the file: its columns, the number of key columns, the binary column.

    `order` is the order of the rows, if an index has another one.
    """

    name: str
    columns: tuple[str, ...]
    keys: int = 1
    binary: str = ""
    order: tuple[str, ...] = ()


# Ordered so that the targets of foreign keys come first.
_TABLES = (
    _Table("principals", ("id", "name", "tier", "sensitive", "state", "created")),
    _Table("grants", ("principal", "subcortex", "writes"), 2),
    _Table(
        "tokens",
        ("id", "principal", "hash", "label", "created", "expires", "used", "revoked"),
        binary="hash",
    ),
    _Table(
        "records",
        (
            "id", "kind", "version", "state", "sensitivity", "body", "author", "created", "updated",
            "made", "change", "scope",
        ),
    ),
    _Table("refs", ("role", "target", "record"), order=("record", "role", "target")),
    _Table("versions", ("record", "version", "kind", "body", "author", "created", "at"), 2),
    _Table("keys", ("actor", "key", "payload", "result", "at"), 2, "payload"),
    _Table("audit", ("id", "at", "actor", "tier", "key", "action", "record", "version", "via")),
    _Table("counters", ("name", "value")),
)  # fmt: skip
_BY_NAME = {table.name: table for table in _TABLES}
# Tables that are empty in an unused ledger.
_EMPTY = ("principals", "records", "versions", "keys", "audit")


def dump(ledger: Ledger, file: Path) -> Mapping[str, int]:
    """Save a ledger in a consistent state while others write; returns the row counts by table.

    The file is on the disk when this returns.

    Raises: StoreError; FileError if the file can't be written.
    """
    checksum = hashlib.sha256()
    with ledger.connections.read() as connection, _writing(file) as out:

        def write(line: object) -> None:
            raw = _line(line)
            checksum.update(raw)
            out.write(raw)

        counts = {
            table.name: connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]
            for table in _TABLES
        }
        epoch = connection.execute("SELECT value FROM facts WHERE key = 'epoch'").fetchone()[0]
        write({"format": FORMAT, "schema": SCHEMA, "epoch": epoch, "counts": counts})
        for table in _TABLES:
            for row in _rows(connection, table):
                write([table.name, *row])
        out.write(_line({"sha256": checksum.hexdigest()}))
    return counts


def check(file: Path) -> Mapping[str, int]:
    """Read a whole file and verify it before it is used; returns the row counts by table.

    Raises: FileError IMPORT_UNREADABLE for a damaged, truncated or unrelated file; StoreError
    STORE_NEWER for one of a newer Cortex; OSError if it can't be read.
    """
    checksum, last = hashlib.sha256(), b""
    header: dict[str, Any] | None = None
    counts = dict.fromkeys(_BY_NAME, 0)
    try:
        for line in _lines(file):
            checksum.update(last)
            last = line
            content = json.loads(line)
            if header is None:
                header = _header(content, file)
            elif isinstance(content, list):
                counts[content[0]] += len(content) == len(_BY_NAME[content[0]].columns) + 1
        if (
            header is None
            or json.loads(last or b"0") != {"sha256": checksum.hexdigest()}
            or counts != header["counts"]
        ):
            raise ValueError("it isn't whole")
    except (
        gzip.BadGzipFile,
        EOFError,
        zlib.error,
        ValueError,
        LookupError,
        TypeError,
        RecursionError,
    ) as error:
        raise _unreadable(file, error) from error
    return counts


def load(
    ledger: Ledger,
    file: Path,
    *,
    wording: RecordTextExtractor,
    counts: Mapping[str, int] | None = None,
) -> Mapping[str, int]:
    """Load a file into an empty ledger atomically, with a new epoch; returns the row counts.

    `counts` is the result of `check` for the file.

    Raises: InputError ARGUMENT_INVALID if the ledger isn't empty; the errors of `check` if `counts`
    isn't given.
    """
    counts = counts or check(file)
    with ledger.connections.write(durable=True) as connection:
        for name in _EMPTY:
            if connection.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone() is not None:
                raise InputError(
                    "ARGUMENT_INVALID",
                    "a backup is only loaded into an empty database, and this one is in use",
                )
        for table, rows in _pages(file):
            connection.executemany(_insert_statement(table, ledger.kind), rows)
        if ledger.kind == POSTGRESQL:
            connection.execute(
                "SELECT setval(pg_get_serial_sequence('audit', 'id'), "
                "(SELECT coalesce(max(id), 0) + 1 FROM audit), false)"
            )
        else:
            _make_docs(ledger, connection, wording)
        new_epoch(connection)
    return counts


@contextmanager
def _writing(file: Path) -> Iterator[gzip.GzipFile]:
    """Open the file for writing; its errors are raised as file errors, not as database errors."""
    try:
        with open(file, "wb") as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=COMPRESSION) as out:
                yield out
            raw.flush()
            os.fsync(raw.fileno())
    except OSError as error:
        code = code_of(
            error, "FILE_NOT_FOUND" if isinstance(error, FileNotFoundError) else "PERMISSION_DENIED"
        )
        raise error_of(
            code, f"{file} can't be written: {error.strerror}", {"path": str(file)}
        ) from error


def _rows(connection: Any, table: _Table) -> Iterator[Sequence[object]]:
    """Yield all rows of a table, in pages by key."""
    order = table.order or table.columns[: table.keys]
    columns, keys = ", ".join(table.columns), ", ".join(order)
    key_columns = [table.columns.index(name) for name in order]
    blob = table.columns.index(table.binary) if table.binary else -1
    last: tuple[object, ...] = ()
    while True:
        after = f"WHERE ({keys}) > ({', '.join('?' * len(order))})" if last else ""
        query = f"SELECT {columns} FROM {table.name} {after} ORDER BY {keys} LIMIT {PAGE}"
        page = connection.execute(query, last).fetchall()
        for row in page:
            values = list(row)
            if blob >= 0:
                values[blob] = base64.b64encode(row[blob]).decode("ascii")
            yield values
        if len(page) < PAGE:
            return
        last = tuple(page[-1][index] for index in key_columns)


def _insert_statement(table: _Table, kind: str) -> str:
    """INSERT statement of a table.

    Counters exist already, and PostgreSQL assigns the ids of the audit log unless overridden.
    """
    if table.name == "counters":
        return (
            "INSERT INTO counters (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE "
            "SET value = excluded.value"
        )
    given = " OVERRIDING SYSTEM VALUE" if table.name == "audit" and kind == POSTGRESQL else ""
    marks = ", ".join("?" * len(table.columns))
    return f"INSERT INTO {table.name} ({', '.join(table.columns)}){given} VALUES ({marks})"


def _pages(file: Path) -> Iterator[tuple[_Table, list[tuple[object, ...]]]]:
    """Yield the rows of a file in pages."""
    table, rows = _TABLES[0], list[tuple[object, ...]]()
    for line in _lines(file):
        if not isinstance(content := json.loads(line), list):
            continue
        if content[0] != table.name or len(rows) == PAGE:
            if rows:
                yield table, rows
            table, rows = _BY_NAME[content[0]], []
        values = content[1:]
        if table.name == "audit" and len(values) == len(table.columns) - 1:
            # A file of schema 1 has no `via`.
            values.append("")
        named = zip(table.columns, values, strict=True)
        rows.append(
            tuple(
                base64.b64decode(value) if name == table.binary else value for name, value in named
            )
        )
    if rows:
        yield table, rows


def _header(content: Any, file: Path) -> dict[str, Any]:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError("it is something else")
    if content["schema"] > SCHEMA:
        raise StoreError(
            "STORE_NEWER",
            f"{file} was written by a newer Cortex",
            context={"schema": content["schema"]},
        )
    return content


def _lines(file: Path) -> Iterator[bytes]:
    with gzip.open(file, "rb") as lines:
        yield from lines


def _make_docs(ledger: Ledger, connection: Any, wording: RecordTextExtractor) -> None:
    """Index the loaded records."""
    rows = ledger.records.rows(connection, wording)
    ids = [row[0] for row in connection.execute("SELECT id FROM records ORDER BY made, id")]
    for start in range(0, len(ids), PAGE):
        for record in get_records(connection, ids[start : start + PAGE]).values():
            rows.reword(record)


def _unreadable(file: Path, error: Exception) -> CortexError:
    return FileError(
        "IMPORT_UNREADABLE",
        f"{file} is no backup of a Core, or it is damaged or cut: {error}; nothing was written",
        context={"path": str(file)},
        suggestions=("Take another backup: this one can't be read to its end.",),
    )


def _line(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
