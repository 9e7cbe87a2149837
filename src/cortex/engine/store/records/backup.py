"""All of a ledger in one file and back: lines of JSON, gzipped; the same for both databases, so
that one can become the other.

The first line says what follows (format, schema, epoch, how many rows of each table), then each
line is a row, and the last one is a checksum of all before it: a file that was cut or damaged is
noticed before anything is written. What can be made again is not in there: docs, words and vectors.
A ledger that was loaded is another history than the one that was saved (what was written after the
backup isn't there), so it gets an epoch of its own. The road not taken: the databases' own tools,
which can't read each other's files.
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

FORMAT, SCHEMA = "cortex-ledger", 2  # 2: the audit log has `via`
PAGE = 1_000  # rows that are read or written at once
COMPRESSION = 6


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as it lies in the file: its columns, by how many of them (the first) a row is known,
    and which hold bytes.

    `order` is that of the rows, where an index has another one.
    """

    name: str
    columns: tuple[str, ...]
    keys: int = 1
    binary: str = ""
    order: tuple[str, ...] = ()


# In an order in which each row finds what it points to.
_TABLES = (
    _Table("principals", ("id", "name", "tier", "sensitive", "state", "created")),
    _Table("grants", ("principal", "subcortex", "writes"), 2),
    _Table("tokens", ("id", "principal", "hash", "label", "created", "expires", "used", "revoked"), binary="hash"),
    _Table(
        "records",
        ("id", "kind", "version", "state", "sensitivity", "body", "author", "created", "updated", "made", "change", "scope"),
    ),
    _Table("refs", ("role", "target", "record"), order=("record", "role", "target")),
    _Table("versions", ("record", "version", "kind", "body", "author", "created", "at"), 2),
    _Table("keys", ("actor", "key", "payload", "result", "at"), 2, "payload"),
    _Table("audit", ("id", "at", "actor", "tier", "key", "action", "record", "version", "via")),
    _Table("counters", ("name", "value")),
)  # fmt: skip
_BY_NAME = {table.name: table for table in _TABLES}
_EMPTY = ("principals", "records", "versions", "keys", "audit")  # of a ledger that nobody has used


def dump(ledger: Ledger, file: Path) -> Mapping[str, int]:
    """Save a ledger as it is at one moment, while others write to it; tells how many rows of each
    table there are.

    It is on the disk when this returns. Raises: StoreError; FileError, where the file can't be
    written.
    """
    told = hashlib.sha256()
    with ledger.connections.read() as connection, _writing(file) as out:

        def write(line: object) -> None:
            raw = _line(line)
            told.update(raw)
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
        out.write(_line({"sha256": told.hexdigest()}))
    return counts


def check(file: Path) -> Mapping[str, int]:
    """Read a file from end to end before anything of it is believed, or made for it; tells how many
    rows of each table it has.

    Raises: FileError IMPORT_UNREADABLE for one that is damaged, cut or something else; StoreError
    STORE_NEWER for one of a newer Cortex; OSError, where it can't be read.
    """
    told, last = hashlib.sha256(), b""
    header: dict[str, Any] | None = None
    counts = dict.fromkeys(_BY_NAME, 0)
    try:
        for line in _lines(file):
            told.update(last)
            last = line
            one = json.loads(line)
            if header is None:
                header = _header(one, file)
            elif isinstance(one, list):
                counts[one[0]] += len(one) == len(_BY_NAME[one[0]].columns) + 1
        if (
            header is None
            or json.loads(last or b"0") != {"sha256": told.hexdigest()}
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
    """Make a ledger of a file, all of it or nothing; it gets a new epoch.

    Tells how many rows of each table there are.

    `counts` is what `check` told of the file. Raises: InputError ARGUMENT_INVALID, where the ledger
    isn't empty; as `check`, where that wasn't done before.
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
            connection.executemany(_insertion(table, ledger.kind), rows)
        if ledger.kind == POSTGRESQL:
            connection.execute(
                "SELECT setval(pg_get_serial_sequence('audit', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM audit), false)"
            )
        else:
            _make_docs(ledger, connection, wording)
        new_epoch(connection)
    return counts


@contextmanager
def _writing(file: Path) -> Iterator[gzip.GzipFile]:
    """Where the lines go.

    What fails there is told of the file: the database would take it for its own.
    """
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
    """All rows of a table, in pages by what they are known by."""
    order = table.order or table.columns[: table.keys]
    columns, keys = ", ".join(table.columns), ", ".join(order)
    places = [table.columns.index(name) for name in order]
    blob = table.columns.index(table.binary) if table.binary else -1
    last: tuple[object, ...] = ()
    while True:
        after = f"WHERE ({keys}) > ({', '.join('?' * len(order))})" if last else ""
        ask = f"SELECT {columns} FROM {table.name} {after} ORDER BY {keys} LIMIT {PAGE}"
        page = connection.execute(ask, last).fetchall()
        for row in page:
            told = list(row)
            if blob >= 0:
                told[blob] = base64.b64encode(row[blob]).decode("ascii")
            yield told
        if len(page) < PAGE:
            return
        last = tuple(page[-1][place] for place in places)


def _insertion(table: _Table, kind: str) -> str:
    """How a row gets into a table; the counters are there already, and in PostgreSQL the audit log
    gives its numbers itself.
    """
    if table.name == "counters":
        return "INSERT INTO counters (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    given = " OVERRIDING SYSTEM VALUE" if table.name == "audit" and kind == POSTGRESQL else ""
    marks = ", ".join("?" * len(table.columns))
    return f"INSERT INTO {table.name} ({', '.join(table.columns)}){given} VALUES ({marks})"


def _pages(file: Path) -> Iterator[tuple[_Table, list[tuple[object, ...]]]]:
    """The rows of a file, some at once."""
    table, rows = _TABLES[0], list[tuple[object, ...]]()
    for line in _lines(file):
        if not isinstance(told := json.loads(line), list):
            continue
        if told[0] != table.name or len(rows) == PAGE:
            if rows:
                yield table, rows
            table, rows = _BY_NAME[told[0]], []
        values = told[1:]
        if table.name == "audit" and len(values) == len(table.columns) - 1:
            values.append("")  # of a file of schema 1, in which `via` isn't kept
        named = zip(table.columns, values, strict=True)
        rows.append(
            tuple(base64.b64decode(one) if name == table.binary else one for name, one in named)
        )
    if rows:
        yield table, rows


def _header(one: Any, file: Path) -> dict[str, Any]:
    if not isinstance(one, dict) or one.get("format") != FORMAT:
        raise ValueError("it is something else")
    if one["schema"] > SCHEMA:
        raise StoreError(
            "STORE_NEWER",
            f"{file} was written by a newer Cortex",
            context={"schema": one["schema"]},
        )
    return one


def _lines(file: Path) -> Iterator[bytes]:
    with gzip.open(file, "rb") as lines:
        yield from lines


def _make_docs(ledger: Ledger, connection: Any, wording: RecordTextExtractor) -> None:
    """Have the records found that were loaded."""
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


def _line(one: object) -> bytes:
    return json.dumps(one, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
