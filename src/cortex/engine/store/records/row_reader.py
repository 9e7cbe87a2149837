"""Reads of records inside a transaction of the caller: by id, by filter, by reference.

Transactions and queries share this code. A damaged row is left out and logged; the others are
returned as usual.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from cortex.base.record_model import KINDS, PREFIXES, Record, RecordFilter
from cortex.engine.store.partitions import parse_partition
from cortex.engine.store.records.filters import FEW, Way, ways_to
from cortex.engine.store.records.json_codec import from_json
from cortex.engine.store.sql import marks, parts

BATCH = 500
# Sources in which a doc is looked up directly.
MOST_TRIED = 2
# Targets with references that are walked kind by kind.
MOST_WALKED = 200
COLUMNS = (
    "records.id, records.kind, records.body, records.author, records.created, records.updated, "
    "records.version"
)

log = logging.getLogger(__name__)


def record_of(row: Sequence[Any]) -> Record[Any] | None:
    """Build a record from a row of COLUMNS, None if it is damaged."""
    record_id, kind, text, *rest = row
    try:
        return Record(record_id, from_json(kind, text), *rest)
    except ValueError as error:
        log.warning("the record %s is damaged and left out: %s", record_id, error)
        return None


def read_records(rows: Iterable[Sequence[Any]]) -> list[Record[Any]]:
    return [record for row in rows if (record := record_of(row)) is not None]


def get_records(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Record[Any]]:
    """Those of these records that exist, in the order given."""
    records: dict[str, Record[Any]] = {}
    for part in parts(ids, BATCH):
        rows = connection.execute(
            f"SELECT {COLUMNS} FROM records WHERE id IN ({marks(part)})", part
        )
        records.update({record.id: record for record in read_records(rows)})
    return {record_id: records[record_id] for record_id in ids if record_id in records}


def select_records(
    connection: sqlite3.Connection, wanted: RecordFilter, limit: int, offset: int = 0
) -> list[Record[Any]]:
    """Records that match a filter, last created or changed first; damaged ones are skipped."""
    records: dict[str, Record[Any]] = {}
    while (left := limit - len(records)) > 0:
        ids = _select_ids(connection, wanted, left, offset)
        known = len(records)
        records |= get_records(connection, ids)
        if len(records) - known == len(ids) or len(ids) < left:
            break
        offset += len(ids)
    return list(records.values())


def _select_ids(
    connection: sqlite3.Connection, wanted: RecordFilter, limit: int, offset: int
) -> list[str]:
    ways = ways_to(connection, wanted, ordered=True)
    parts = [
        "SELECT * FROM (SELECT records.id AS id, records.made AS made, "
        f"records.updated AS updated FROM {way.tables} "
        f"WHERE {way.where} ORDER BY {way.order} LIMIT ?) AS part"
        for way in ways
    ]
    values = [value for way in ways for value in (*way.values, limit + offset)]
    order = "updated DESC, made DESC" if wanted.by_change else "made DESC"
    query = (
        f"SELECT id FROM ({' UNION ALL '.join(parts)}) AS parts ORDER BY {order} LIMIT ? OFFSET ?"
    )
    return [row[0] for row in connection.execute(query, (*values, limit, offset))]


def starting_with(
    connection: sqlite3.Connection, prefix: str, limit: int, offset: int = 0
) -> list[Record[Any]]:
    """Records with ids that start with `prefix`, oldest first."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ? OFFSET ?",
        (prefix, f"{prefix}\x7f", limit, offset),
    )
    return read_records(rows)


def newest_ids(
    connection: sqlite3.Connection, ask: str, values: tuple[str, ...], limit: int
) -> list[str]:
    """Ids of records with references that meet a condition, newest first.

    Few are sorted; of many, each target's are walked in time order, since references to one target
    in one role are already sorted by kind and time. Sorting all took 70 ms with 20,000 references
    to one file.
    """
    rows = connection.execute(f"SELECT record FROM refs WHERE {ask} LIMIT {FEW}", values).fetchall()
    ids = {row[0] for row in rows}
    if len(rows) == FEW:
        pairs = connection.execute(
            f"SELECT DISTINCT role, target FROM refs WHERE {ask}", values
        ).fetchall()
        if len(pairs) > MOST_WALKED:
            sort = (
                f"SELECT record FROM refs WHERE {ask} GROUP BY record "
                "ORDER BY substr(record, -26) DESC LIMIT ?"
            )
            return [row[0] for row in connection.execute(sort, (*values, limit))]
        walk = (
            "SELECT record FROM refs WHERE role = ? AND target = ? AND record > ? AND record < ? "
            "ORDER BY record DESC LIMIT ?"
        )
        bounds = [(prefix, f"{prefix}\x7f", limit) for prefix in PREFIXES.values()]
        ids = {
            row[0]
            for pair in pairs
            for more in bounds
            for row in connection.execute(walk, (*pair, *more))
        }
    return sorted(ids, key=lambda record_id: record_id[-26:], reverse=True)[:limit]


def docs_of(
    connection: sqlite3.Connection, ways: Sequence[Way], sources: Sequence[int]
) -> frozenset[int]:
    """Docs, in these sources, of the records on these query plans."""
    query = f"SELECT name, id FROM sources WHERE id IN ({marks(sources)})"
    partitions = [
        (parse_partition(name).kind, source) for name, source in connection.execute(query, sources)
    ]
    docs: set[int] = set()
    for way in ways:
        tables, column = way.ids
        own = [source for kind, source in partitions if kind == way.kind]
        if len(own) <= MOST_TRIED:
            join = f"docs.source IN ({marks(own)}) AND docs.path = {column}"
        else:
            # The record itself names its source among the many.
            tables = way.tables
            join = (
                "docs.source = records.source AND docs.path = records.id "
                f"AND +docs.source IN ({marks(own)})"
            )
        rows = connection.execute(
            f"SELECT docs.id FROM {tables} CROSS JOIN docs ON {join} WHERE {way.where}",
            (*own, *way.values),
        )
        docs.update(row[0] for row in rows)
    return frozenset(docs)


def kind_of_id(record_id: str) -> str:
    """Kind of record for an id, "" if the id is not one of ours."""
    prefix = record_id.rpartition("_")[0] + "_"
    return next((name for name, cls in KINDS.items() if PREFIXES[cls] == prefix), "")
