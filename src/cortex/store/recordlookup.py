"""Records, read: by id, by what they point to, the newest first, as they were before, and who did what. Nothing here writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cortex.kinds import KINDS, PREFIXES, Record, Wanted
from cortex.store.connect import Connections
from cortex.store.recordjson import from_json
from cortex.types import Source

RECORDS = "records"  # the kind of a source
BATCH = 500
COLUMNS = "records.id, records.kind, records.body, records.author, records.created, records.updated, records.version"

B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Deed:
    """A line of the audit log."""

    id: int
    at: int  # milliseconds since 1970
    actor: str
    tier: int
    key: str
    action: str
    record: str
    version: int


class RecordLookup:
    """The records of a store, for reading."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def get(self, ids: Iterable[str]) -> dict[str, Record[Any]]:
        """Those of these records that there are."""
        with self._connections.read() as connection:
            return get_records(connection, list(dict.fromkeys(ids)))

    def one(self, number: str) -> Record[Any] | None:
        """The record of this id."""
        return self.get([number]).get(number)

    def select(self, wanted: Wanted, limit: int = 100, offset: int = 0) -> list[Record[Any]]:
        """The records that are wanted, the last made first, or the last changed."""
        with self._connections.read() as connection:
            return select_records(connection, wanted, limit, offset)

    def count(self, wanted: Wanted) -> int:
        """How many are wanted."""
        with self._connections.read() as connection:
            ask, values = _conditions(wanted)
            return connection.execute(f"SELECT count(*) FROM records WHERE {ask}", values).fetchone()[0]

    def pointing(self, targets: Sequence[str], roles: Sequence[str] = (), limit: int = 200) -> list[Record[Any]]:
        """The records that point to any of these, in any of these roles (none: in whatever role), the last made first."""
        if not targets:
            return []
        with self._connections.read() as connection:
            ask = f"target IN ({_marks(targets)})" + (f" AND role IN ({_marks(roles)})" if roles else "")
            rows = connection.execute(
                f"SELECT DISTINCT record FROM refs WHERE {ask} ORDER BY substr(record, -26) DESC LIMIT ?",
                (*targets, *roles, limit),
            ).fetchall()
            found = get_records(connection, [row[0] for row in rows])
        return list(found.values())

    def by_path(self, path: str, limit: int = 200) -> list[Record[Any]]:
        """The records that speak of code at or below a path, the last made first."""
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT DISTINCT record FROM refs WHERE role = 'path' AND (target = ?1 OR (target >= ?2 AND target < ?3)) "
                "ORDER BY substr(record, -26) DESC LIMIT ?4",
                (path, f"{path}/", f"{path}0", limit),
            ).fetchall()
            return list(get_records(connection, [row[0] for row in rows]).values())

    def versions(self, number: str) -> dict[int, Record[Any]]:
        """All versions of a record, the first one first."""
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT record, kind, body, author, created, at, version FROM versions WHERE record = ? ORDER BY version",
                (number,),
            )
            found = [record_of(row) for row in rows]
            found += list(get_records(connection, [number]).values())
        return {one.version: one for one in found}

    def docs(self, wanted: Wanted, sources: Sequence[int]) -> frozenset[int]:
        """The docs of the records that are wanted, in these sources."""
        ask, values = _conditions(wanted)
        with self._connections.read() as connection:
            rows = connection.execute(
                f"SELECT docs.id FROM records CROSS JOIN docs ON docs.source = records.source AND docs.path = records.id "
                f"WHERE {ask} AND records.source IN ({_marks(sources)})",
                (*values, *sources),
            )
            return frozenset(row[0] for row in rows)

    def by_docs(self, docs: Sequence[int]) -> dict[int, Record[Any]]:
        """The records that these docs are of."""
        found: dict[int, Record[Any]] = {}
        with self._connections.read() as connection:
            for start in range(0, len(docs), BATCH):
                part = docs[start : start + BATCH]
                rows = connection.execute(
                    f"SELECT docs.id, {COLUMNS} FROM docs JOIN records ON records.id = docs.path AND records.source = docs.source "
                    f"WHERE docs.id IN ({_marks(part)})",
                    part,
                )
                found.update({row[0]: record_of(row[1:]) for row in rows})
        return found

    def sources(self, kinds: Iterable[str]) -> list[Source]:
        """The sources that records of these kinds are found in."""
        names = [name for kind in kinds for name in (kind, kind + "!")]
        with self._connections.read() as connection:
            rows = connection.execute(
                f"SELECT id, kind, name, root FROM sources WHERE kind = ? AND root = '' AND name IN ({_marks(names)}) ORDER BY id",
                (RECORDS, *names),
            )
            return [Source(*row) for row in rows]

    def has(self) -> bool:
        """Whether there is any record."""
        with self._connections.read() as connection:
            return connection.execute("SELECT 1 FROM records LIMIT 1").fetchone() is not None

    def deeds(self, record: str = "", limit: int = 100) -> list[Deed]:
        """The last lines of the audit log, of all or of one record, the newest first."""
        ask = "WHERE record = ? " if record else ""
        with self._connections.read() as connection:
            rows = connection.execute(
                f"SELECT id, at, actor, tier, key, action, record, version FROM audit {ask}ORDER BY id DESC LIMIT ?",
                (*((record,) if record else ()), limit),
            )
            return [Deed(*row) for row in rows]


def record_of(row: Sequence[Any]) -> Record[Any]:
    """The record that a row of COLUMNS is."""
    number, kind, text, *rest = row
    return Record(number, from_json(kind, text), *rest)


def get_records(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Record[Any]]:
    """Those of these records that there are, in the order that they were asked for."""
    found: dict[str, Record[Any]] = {}
    for start in range(0, len(ids), BATCH):
        part = ids[start : start + BATCH]
        for row in connection.execute(f"SELECT {COLUMNS} FROM records WHERE id IN ({_marks(part)})", part):
            found[row[0]] = record_of(row)
    return {number: found[number] for number in ids if number in found}


def select_records(connection: sqlite3.Connection, wanted: Wanted, limit: int, offset: int = 0) -> list[Record[Any]]:
    """The records that are wanted, the last made first, or the last changed."""
    ask, values = _conditions(wanted)
    order = "records.updated DESC, records.made DESC" if wanted.by_change else "records.made DESC"
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM records WHERE {ask} ORDER BY {order} LIMIT ? OFFSET ?", (*values, limit, offset)
    )
    return [record_of(row) for row in rows]


def _conditions(wanted: Wanted) -> tuple[str, list[object]]:
    parts, values = ["1"], list[object]()
    for column, told in (("kind", wanted.kinds), ("state", wanted.states), ("author", wanted.authors)):
        if told:
            parts.append(f"records.{column} IN ({_marks(told)})")
            values += told
    for role, target in wanted.refs:
        parts.append("records.id IN (SELECT record FROM refs WHERE role = ? AND target = ?)")
        values += (role, target)
    for ask, value in (
        ("records.sensitivity = ?", wanted.sensitivity),
        ("records.updated >= ?", wanted.since),
        ("records.updated < ?", wanted.until),
        ("records.made < ?", wanted.before[-26:]),
        ("records.id IN (SELECT record FROM refs WHERE role = 'due' AND target < ?)", wanted.due),
    ):
        if value:
            parts.append(ask)
            values.append(value)
    return " AND ".join(parts), values


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


_KIND_OF: Mapping[str, str] = {
    prefix: name for name, cls in KINDS.items() for known, prefix in PREFIXES.items() if known is cls
}


def kind_of_id(number: str) -> str:
    """The kind that an id says its record is of, "" where it is none of ours."""
    return _KIND_OF.get(number.rpartition("_")[0] + "_", "")
