"""Records that a Core doesn't have yet, and records of Cores this home was connected to.

Records of a former Core are kept by its epoch, with their version there: a home that reconnects
continues from that, and one that connects to another Core knows which records belong elsewhere.
Doesn't decide which of them are sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cortex.base.record_model import Record
from cortex.engine.store.connection import Connection
from cortex.engine.store.records.outbox_rows import NEVER_HERE
from cortex.engine.store.records.row_reader import get_records, read_records


@dataclass(frozen=True, slots=True)
class UploadCandidate:
    """Record that a Core doesn't have; `origin` is a Core that had it, "" for none."""

    record: Record[Any]
    origin: str


def candidates(connection: Connection, epoch: str) -> list[UploadCandidate]:
    """Records that the Core of this epoch lacks and that aren't waiting, oldest first."""
    # System alerts are the only records that always stay local.
    query = (
        "SELECT id FROM records WHERE id NOT IN (SELECT record FROM replica) AND id NOT IN "
        "(SELECT record FROM outbox_records) "
        "AND NOT (kind = 'notification' AND id IN (SELECT record FROM local_only)) "
        "AND id NOT IN (SELECT record FROM elsewhere WHERE epoch = ?) ORDER BY made, id"
    )
    ids = [row[0] for row in connection.execute(query, (epoch,))]
    origins = dict(
        connection.execute("SELECT record, max(url) FROM elsewhere GROUP BY record").fetchall()
    )
    records = get_records(connection, ids)
    return [
        UploadCandidate(records[record_id], origins.get(record_id, ""))
        for record_id in ids
        if record_id in records
    ]


def leave(connection: Connection, epoch: str, url: str) -> None:
    """Record which records the Core has that is being left."""
    insert = (
        "INSERT OR REPLACE INTO elsewhere SELECT record, ?, ?, version FROM replica "
        "WHERE change <> ?"
    )
    connection.execute(insert, (epoch or url, url, NEVER_HERE))
    connection.execute("DELETE FROM replica")


def rejoin(connection: Connection, epoch: str) -> bool:
    """Continue from the records that the Core of this epoch had; false if it is new."""
    insert = (
        "INSERT OR IGNORE INTO replica SELECT record, version, 0 FROM elsewhere WHERE epoch = ?"
    )
    count = connection.execute(insert, (epoch,)).rowcount
    connection.execute("DELETE FROM elsewhere WHERE epoch = ?", (epoch,))
    return count > 0


def changed_since(
    connection: Connection, epoch: str = ""
) -> list[tuple[Record[Any] | None, Record[Any]]]:
    """Records changed here since the Core was left, as it had them and as they are.

    With an `epoch`, those of a Core that isn't connected again yet.
    """
    there = "elsewhere" if epoch else "replica"
    only = "AND there.epoch = :epoch " if epoch else ""
    query = (
        f"SELECT id FROM records JOIN {there} AS there ON there.record = id "
        f"WHERE records.version <> there.version {only}AND id NOT IN "
        "(SELECT record FROM outbox_records) ORDER BY made, id"
    )
    ids = [row[0] for row in connection.execute(query, {"epoch": epoch})]
    earlier_query = (
        "SELECT versions.record, kind, body, author, created, at, versions.version FROM versions "
        f"JOIN {there} AS there ON there.record = versions.record "
        f"AND there.version = versions.version {only}"
    )
    before = (
        {
            record.id: record
            for record in read_records(connection.execute(earlier_query, {"epoch": epoch}))
        }
        if ids
        else {}
    )
    return [(before.get(record.id), record) for record in get_records(connection, ids).values()]
