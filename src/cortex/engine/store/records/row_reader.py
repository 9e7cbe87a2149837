"""Records, read in a transaction of the caller's: by id, by what is wanted of them, by what they
point to, the newest first.

What a step reads and what others read is read by the same. A row that a damaged store can't tell
any more is left out and named in the log: the others are found as ever.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cortex.base.record_model import KINDS, PREFIXES, Record, RecordFilter
from cortex.engine.store.partitions import shelf_of
from cortex.engine.store.records.filters import FEW, Way, ways_to
from cortex.engine.store.records.json_codec import from_json
from cortex.engine.store.sql import marks, parts

BATCH = 500
MOST_TRIED = 2  # sources in which a doc is looked for
MOST_WALKED = 200  # targets whose records are walked, each kind by itself
COLUMNS = "records.id, records.kind, records.body, records.author, records.created, records.updated, records.version"

log = logging.getLogger(__name__)


def record_of(row: Sequence[Any]) -> Record[Any] | None:
    """The record that a row of COLUMNS is, None where it is damaged."""
    number, kind, text, *rest = row
    try:
        return Record(number, from_json(kind, text), *rest)
    except ValueError as error:
        log.warning("the record %s is damaged and left out: %s", number, error)
        return None


def read_records(rows: Iterable[Sequence[Any]]) -> list[Record[Any]]:
    return [one for row in rows if (one := record_of(row)) is not None]


def get_records(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Record[Any]]:
    """Those of these records that there are, in the order that they were asked for."""
    found: dict[str, Record[Any]] = {}
    for part in parts(ids, BATCH):
        rows = connection.execute(
            f"SELECT {COLUMNS} FROM records WHERE id IN ({marks(part)})", part
        )
        found.update({record.id: record for record in read_records(rows)})
    return {number: found[number] for number in ids if number in found}


def select_records(
    connection: sqlite3.Connection, wanted: RecordFilter, limit: int, offset: int = 0
) -> list[Record[Any]]:
    """The records that are wanted, the last made first, or the last changed; in place of damaged
    ones those that come next.
    """
    found: dict[str, Record[Any]] = {}
    while (left := limit - len(found)) > 0:
        ids = _select_ids(connection, wanted, left, offset)
        known = len(found)
        found |= get_records(connection, ids)
        if len(found) - known == len(ids) or len(ids) < left:
            break
        offset += len(ids)
    return list(found.values())


def _select_ids(
    connection: sqlite3.Connection, wanted: RecordFilter, limit: int, offset: int
) -> list[str]:
    ways = ways_to(connection, wanted, ordered=True)
    parts = [
        f"SELECT * FROM (SELECT records.id AS id, records.made AS made, records.updated AS updated FROM {way.tables} "
        f"WHERE {way.where} ORDER BY {way.order} LIMIT ?) AS part"
        for way in ways
    ]
    values = [value for way in ways for value in (*way.values, limit + offset)]
    order = "updated DESC, made DESC" if wanted.by_change else "made DESC"
    ask = f"SELECT id FROM ({' UNION ALL '.join(parts)}) AS parts ORDER BY {order} LIMIT ? OFFSET ?"
    return [row[0] for row in connection.execute(ask, (*values, limit, offset))]


def starting_with(
    connection: sqlite3.Connection, prefix: str, limit: int, offset: int = 0
) -> list[Record[Any]]:
    """The records whose id begins like this, the first made first."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ? OFFSET ?",
        (prefix, f"{prefix}\x7f", limit, offset),
    )
    return read_records(rows)


def newest_ids(
    connection: sqlite3.Connection, ask: str, values: tuple[str, ...], limit: int
) -> list[str]:
    """The records whose refs are these, the last made first: few are sorted, of many each target's
    are walked in the order of time.

    What points to one target in one role lies by kind and by time already. Sorting all took 70 ms
    where 20,000 speak of one file.
    """
    rows = connection.execute(f"SELECT record FROM refs WHERE {ask} LIMIT {FEW}", values).fetchall()
    found = {row[0] for row in rows}
    if len(rows) == FEW:
        pairs = connection.execute(
            f"SELECT DISTINCT role, target FROM refs WHERE {ask}", values
        ).fetchall()
        if len(pairs) > MOST_WALKED:
            sort = f"SELECT record FROM refs WHERE {ask} GROUP BY record ORDER BY substr(record, -26) DESC LIMIT ?"
            return [row[0] for row in connection.execute(sort, (*values, limit))]
        walk = "SELECT record FROM refs WHERE role = ? AND target = ? AND record > ? AND record < ? ORDER BY record DESC LIMIT ?"
        bounds = [(prefix, f"{prefix}\x7f", limit) for prefix in PREFIXES.values()]
        found = {
            row[0]
            for pair in pairs
            for more in bounds
            for row in connection.execute(walk, (*pair, *more))
        }
    return sorted(found, key=lambda number: number[-26:], reverse=True)[:limit]


def docs_of(
    connection: sqlite3.Connection, ways: Sequence[Way], sources: Sequence[int]
) -> frozenset[int]:
    """The docs, in these sources, of the records on these ways."""
    ask = f"SELECT name, id FROM sources WHERE id IN ({marks(sources)})"
    places = [(shelf_of(name).kind, number) for name, number in connection.execute(ask, sources)]
    found: set[int] = set()
    for way in ways:
        tables, column = way.ids
        numbers = [number for kind, number in places if kind == way.kind]
        if len(numbers) <= MOST_TRIED:
            place = f"docs.source IN ({marks(numbers)}) AND docs.path = {column}"
        else:  # a record says on which of many shelves it is
            tables = way.tables
            place = f"docs.source = records.source AND docs.path = records.id AND +docs.source IN ({marks(numbers)})"
        rows = connection.execute(
            f"SELECT docs.id FROM {tables} CROSS JOIN docs ON {place} WHERE {way.where}",
            (*numbers, *way.values),
        )
        found.update(row[0] for row in rows)
    return frozenset(found)


_KIND_OF: Mapping[str, str] = {
    prefix: name
    for name, cls in KINDS.items()
    for known, prefix in PREFIXES.items()
    if known is cls
}


def kind_of_id(number: str) -> str:
    """The kind that an id says its record is of, "" where it is none of ours."""
    return _KIND_OF.get(number.rpartition("_")[0] + "_", "")
