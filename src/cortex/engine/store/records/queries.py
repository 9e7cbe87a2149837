"""Queries over records: by id, by reference, newest first, history and audit log.

Read-only. Rows are decoded in `row_reader.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from cortex.base.record_model import Record, RecordFilter
from cortex.base.types import Source
from cortex.base.visibility import Viewer
from cortex.engine.store.connection import Connected, Connection
from cortex.engine.store.partitions import RECORDS, parse_partition
from cortex.engine.store.records.filters import FEW, conditions_of, rows_on, ways_to
from cortex.engine.store.records.row_reader import (
    COLUMNS,
    docs_of,
    get_records,
    newest_ids,
    read_records,
    record_of,
    select_records,
    starting_with,
)
from cortex.engine.store.sql import marks, rows_in

# Cached answers of `narrow`.
MAX_NARROWED = 32
# Cached answers of `sources`, by the access of a viewer.
MAX_CHOICES = 128


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Entry of the audit log."""

    id: int
    at: int  # milliseconds since 1970
    actor: str
    tier: int
    key: str
    action: str
    record: str
    version: int
    # Interface of the write; "" in entries from before this was stored.
    via: str = ""


@dataclass(frozen=True, slots=True)
class VersionedRecord:
    """Record with the change number of its last write."""

    record: Record[Any]
    change: int


class RecordHeader(NamedTuple):
    """Fields of a record without its body."""

    id: str
    kind: str
    state: str
    updated: int
    made: str
    thread: str


class RecordQueries:
    """Read access to the records of a store."""

    def __init__(
        self, connections: Connected, viewer: Callable[[], Viewer | None] = lambda: None
    ) -> None:
        """Prepare reading from these connections; `viewer` returns the current viewer, if any."""
        self._connections = connections
        self._viewer = viewer
        self._sources_by_viewer: tuple[int | None, dict[Hashable, tuple[Source, ...]]] = (None, {})
        self._narrowed: tuple[str, dict[Hashable, tuple[list[Source], frozenset[int] | None]]] = (
            "",
            {},
        )

    def get(self, ids: Iterable[str]) -> dict[str, Record[Any]]:
        """Those of these records that exist, by id."""
        with self._connections.read() as connection:
            return get_records(connection, list(dict.fromkeys(ids)))

    def one(self, record_id: str) -> Record[Any] | None:
        """Record with this id, None if there is none."""
        return self.get([record_id]).get(record_id)

    def select(self, wanted: RecordFilter, limit: int = 100, offset: int = 0) -> list[Record[Any]]:
        """Records that match a filter, last created or last changed first."""
        with self._connections.read() as connection:
            return select_records(connection, wanted, limit, offset)

    def starting(self, prefix: str, limit: int = 10) -> list[Record[Any]]:
        """Records with ids that start with `prefix`, oldest first."""
        with self._connections.read() as connection:
            return starting_with(connection, prefix, limit)

    def count(self, wanted: RecordFilter) -> int:
        """Number of records that match a filter."""
        with self._connections.read() as connection:
            counts = [
                connection.execute(
                    f"SELECT count(*) FROM {way.tables} WHERE {way.where}", way.values
                ).fetchone()[0]
                for way in ways_to(connection, wanted, ordered=False)
            ]
            return sum(counts)

    def pointing(
        self, targets: Sequence[str], roles: Sequence[str] = (), limit: int = 200
    ) -> list[Record[Any]]:
        """Records that reference any of these in any of these roles (none: all), newest first."""
        if not targets:
            return []
        condition = f"target IN ({marks(targets)})" + (
            f" AND role IN ({marks(roles)})" if roles else ""
        )
        return self._newest(condition, (*targets, *roles), limit)

    def by_path(self, path: str, limit: int = 200) -> list[Record[Any]]:
        """Records about code at or below a path, newest first."""
        # A single range of the index.
        condition = "role = 'path' AND target >= ? AND target < ? AND (target = ? OR target >= ?)"
        return self._newest(condition, (path, f"{path}0", path, f"{path}/"), limit)

    def _newest(self, condition: str, values: tuple[str, ...], limit: int) -> list[Record[Any]]:
        """Records with references that meet a condition, newest first."""
        with self._connections.read() as connection:
            return list(
                get_records(connection, newest_ids(connection, condition, values, limit)).values()
            )

    def versions(self, record_id: str) -> dict[int, Record[Any]]:
        """All versions of a record by version number, oldest first."""
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT record, kind, body, author, created, at, version FROM versions "
                "WHERE record = ? ORDER BY version",
                (record_id,),
            )
            versions = read_records(rows)
            versions += list(get_records(connection, [record_id]).values())
        return {record.version: record for record in versions}

    def docs(self, wanted: RecordFilter, sources: Sequence[int]) -> frozenset[int]:
        """Docs of the records that match a filter, in these sources."""
        with self._connections.read() as connection:
            return docs_of(connection, ways_to(connection, wanted, ordered=False), sources)

    def narrow(self, wanted: RecordFilter, most: int) -> tuple[list[Source], frozenset[int] | None]:
        """Sources that may contain matching records, and their docs.

        The docs are None if more than `most` rows would have to be read. Cached until a record is
        written, since filters are used repeatedly. The counters are part of the key, since a record
        may change its state and keep its text.
        """
        with self._connections.read() as connection:
            state = connection.execute(
                "SELECT value || ' ' || (SELECT group_concat(value, ' ') FROM counters) FROM meta "
                "WHERE key = 'seq'"
            ).fetchone()[0]
            # Keep a reference: another thread may replace the cache meanwhile.
            known = self._narrowed
            key = (wanted, most, self._viewer())
            if known[0] != state or (len(known[1]) >= MAX_NARROWED and key not in known[1]):
                known = self._narrowed = (state, {})
            if key not in known[1]:
                known[1][key] = self._narrow(connection, wanted, most)
            return known[1][key]

    def _narrow(
        self, connection: Connection, wanted: RecordFilter, most: int
    ) -> tuple[list[Source], frozenset[int] | None]:
        rows = {way: rows_on(connection, way) for way in ways_to(connection, wanted, ordered=False)}
        ways = [way for way, count in rows.items() if count]
        sources = self.sources(way.kind for way in ways)
        if sum(rows.values()) > most or FEW in rows.values():
            return sources, None
        return sources, docs_of(connection, ways, [source.id for source in sources])

    def briefs(self, docs: Sequence[int], wanted: RecordFilter) -> dict[int, RecordHeader]:
        """Headers of the records of these docs that match a filter, by doc."""
        where, values = conditions_of(wanted)
        query = (
            "SELECT docs.id, records.id, records.kind, records.state, records.updated, "
            "records.made, coalesce((SELECT target "
            "FROM refs WHERE record = records.id AND role = 'thread'), '') FROM docs "
            "CROSS JOIN records ON records.id = docs.path "
            f"AND records.source = docs.source WHERE docs.id IN (?*){where}"
        )
        with self._connections.read() as connection:
            rows = rows_in(connection, query, docs, after=values)
            return {row[0]: RecordHeader(*row[1:]) for row in rows}

    def targets(self, role: str) -> frozenset[str]:
        """All targets that records reference in this role."""
        return frozenset(
            row[0]
            for row in self._connections.rows("SELECT target FROM refs WHERE role = ?", (role,))
        )

    def authors(self) -> frozenset[str]:
        """All authors of records."""
        return frozenset(
            row[0] for row in self._connections.rows("SELECT DISTINCT author FROM records")
        )

    def links(self, ids: Sequence[str], limit: int = 500) -> list[Record[Any]]:
        """Links from or to any of these records, newest first."""
        query = (
            "SELECT record FROM refs WHERE role IN ('source', 'target') "
            "AND record > 'link_' AND record < 'link`' AND target IN (?*) LIMIT ?"
        )
        with self._connections.read() as connection:
            link_ids = {row[0] for row in rows_in(connection, query, ids, after=(limit,))}
            return list(get_records(connection, sorted(link_ids, reverse=True)[:limit]).values())

    def by_docs(self, docs: Sequence[int]) -> dict[int, Record[Any]]:
        """Records behind these docs, by doc."""
        query = (
            f"SELECT docs.id, {COLUMNS} FROM docs JOIN records ON records.id = docs.path "
            "AND records.source = docs.source WHERE docs.id IN (?*)"
        )
        with self._connections.read() as connection:
            return {
                row[0]: record
                for row in rows_in(connection, query, docs)
                if (record := record_of(row[1:])) is not None
            }

    def sources(self, kinds: Iterable[str]) -> list[Source]:
        """Sources in which records of these kinds are indexed."""
        wanted, viewer = frozenset(kinds), self._viewer()
        rights = None if viewer is None else (viewer.reads, viewer.hidden, viewer.sensitive)
        key = (rights, wanted)
        with self._connections.read() as connection:
            last = connection.execute(
                "SELECT max(seq) FROM sqlite_sequence WHERE name = 'sources'"
            ).fetchone()[0]
            # Valid until a source is added: existing ones are never renamed.
            known = self._sources_by_viewer
            if known[0] != last or (len(known[1]) >= MAX_CHOICES and key not in known[1]):
                known = self._sources_by_viewer = (last, {})
            if key not in known[1]:
                query = (
                    "SELECT id, kind, name, root FROM sources WHERE kind = ? AND root = '' "
                    "ORDER BY id"
                )
                rows = connection.execute(query, (RECORDS,))
                known[1][key] = tuple(
                    _source(*row) for row in rows if parse_partition(row[2]).kind in wanted
                )
            return list(known[1][key])

    def has(self) -> bool:
        """True if there is any record."""
        return self._connections.row("SELECT 1 FROM records LIMIT 1") is not None

    def changes(self, since: int, limit: int) -> list[VersionedRecord]:
        """Change feed: records written after `since`, in order, each once in its current state."""
        changes: list[VersionedRecord] = []
        query = (
            f"SELECT {COLUMNS}, records.change FROM records WHERE change > ? "
            "ORDER BY change LIMIT ?"
        )
        with self._connections.read() as connection:
            while left := limit - len(changes):
                rows = connection.execute(query, (since, left)).fetchall()
                changes += [
                    VersionedRecord(record, row[-1])
                    for row in rows
                    if (record := record_of(row[:-1])) is not None
                ]
                if len(rows) < left:
                    break
                since = rows[-1][-1]
        return changes

    def kept(self, ids: Iterable[str]) -> list[VersionedRecord]:
        """Those of these records that exist, in this order, with their last change number."""
        wanted = list(dict.fromkeys(ids))
        query = f"SELECT {COLUMNS}, records.change FROM records WHERE id IN (?*)"
        with self._connections.read() as connection:
            records = {
                record.id: VersionedRecord(record, row[-1])
                for row in rows_in(connection, query, wanted)
                if (record := record_of(row[:-1])) is not None
            }
        return [records[record_id] for record_id in wanted if record_id in records]

    def last_change(self) -> int:
        """Number of the last write."""
        return self._connections.value("SELECT value FROM counters WHERE name = 'change'")

    def last_of(self, kind: str) -> tuple[int, int]:
        """Number of records of a kind and their last change; changes with every write to them."""
        query = "SELECT count(*), coalesce(max(change), 0) FROM records WHERE kind = ?"
        return tuple(self._connections.row(query, (kind,)))

    def deeds(self, record: str = "", limit: int = 100, before: int = 0) -> list[AuditEntry]:
        """Latest entries of the audit log, of one record or below an id; newest first."""
        conditions = [("record = ?", record)] if record else []
        conditions += [("id < ?", before)] if before else []
        where = (
            f"WHERE {' AND '.join(condition for condition, _ in conditions)} " if conditions else ""
        )
        rows = self._connections.rows(
            f"SELECT {_AUDIT_COLUMNS} FROM audit {where}ORDER BY id DESC LIMIT ?",
            (*(value for _, value in conditions), limit),
        )
        return [AuditEntry(*row) for row in rows]


_AUDIT_COLUMNS = "id, at, actor, tier, key, action, record, version, via"


@lru_cache(maxsize=20_000)
def _source(source_id: int, kind: str, name: str, root: str) -> Source:
    """Source object, shared between all viewers."""
    return Source(source_id, kind, name, root)
