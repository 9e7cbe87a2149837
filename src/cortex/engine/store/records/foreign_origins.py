"""Records that a Core doesn't have yet, and those that Cores have which this home left.

What was at a Core is kept by the Core's epoch, with the version that it had there: a home that
joins it again goes on from that, and one that joins another Core knows what belongs to somebody
else. Which of them are sent isn't decided here.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from cortex.base.record_model import Record
from cortex.engine.store.records.outbox_rows import NEVER_HERE
from cortex.engine.store.records.row_reader import get_records, read_records


@dataclass(frozen=True, slots=True)
class UploadCandidate:
    """A record that a Core doesn't have; `origin` is a Core that had it, "" for none."""

    record: Record[Any]
    origin: str


def candidates(connection: sqlite3.Connection, epoch: str) -> list[UploadCandidate]:
    """All records that the Core of this epoch doesn't have and that don't wait, the oldest first."""
    # A system alert is the only record that stays here by its nature.
    ask = (
        "SELECT id FROM records WHERE id NOT IN (SELECT record FROM replica) AND id NOT IN (SELECT record FROM outbox_records) "
        "AND NOT (kind = 'notification' AND id IN (SELECT record FROM local_only)) "
        "AND id NOT IN (SELECT record FROM elsewhere WHERE epoch = ?) ORDER BY made, id"
    )
    ids = [row[0] for row in connection.execute(ask, (epoch,))]
    origins = dict(
        connection.execute("SELECT record, max(url) FROM elsewhere GROUP BY record").fetchall()
    )
    found = get_records(connection, ids)
    return [
        UploadCandidate(found[number], origins.get(number, "")) for number in ids if number in found
    ]


def leave(connection: sqlite3.Connection, epoch: str, url: str) -> None:
    """Remember which records the Core has that is left."""
    put = "INSERT OR REPLACE INTO elsewhere SELECT record, ?, ?, version FROM replica WHERE change <> ?"
    connection.execute(put, (epoch or url, url, NEVER_HERE))
    connection.execute("DELETE FROM replica")


def rejoin(connection: sqlite3.Connection, epoch: str) -> bool:
    """Go on from what the Core of this epoch had; false where this home was never there."""
    put = "INSERT OR IGNORE INTO replica SELECT record, version, 0 FROM elsewhere WHERE epoch = ?"
    count = connection.execute(put, (epoch,)).rowcount
    connection.execute("DELETE FROM elsewhere WHERE epoch = ?", (epoch,))
    return count > 0


def changed_since(
    connection: sqlite3.Connection, epoch: str = ""
) -> list[tuple[Record[Any] | None, Record[Any]]]:
    """Records that were written here since the Core was left: as it had them, and as they are.

    With an `epoch`, those of a Core that isn't joined again yet.
    """
    there = "elsewhere" if epoch else "replica"
    only = "AND there.epoch = :epoch " if epoch else ""
    ask = (
        f"SELECT id FROM records JOIN {there} AS there ON there.record = id "
        f"WHERE records.version <> there.version {only}AND id NOT IN (SELECT record FROM outbox_records) ORDER BY made, id"
    )
    ids = [row[0] for row in connection.execute(ask, {"epoch": epoch})]
    had = (
        "SELECT versions.record, kind, body, author, created, at, versions.version FROM versions "
        f"JOIN {there} AS there ON there.record = versions.record AND there.version = versions.version {only}"
    )
    before = (
        {one.id: one for one in read_records(connection.execute(had, {"epoch": epoch}))}
        if ids
        else {}
    )
    return [(before.get(record.id), record) for record in get_records(connection, ids).values()]
