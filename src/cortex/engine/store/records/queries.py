"""Records, read: by id, by what they point to, the newest first, as they were before, and who did
what. Nothing here writes.

Here are the questions that others ask; how rows become records is `recordreading`'s.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from cortex.base.record_model import Record, RecordFilter
from cortex.base.types import Source
from cortex.base.visibility import Viewer
from cortex.engine.store.connections import Connected
from cortex.engine.store.partitions import RECORDS, shelf_of
from cortex.engine.store.records.filters import FEW, conditions_of, rows_on, ways_to
from cortex.engine.store.records.row_reader import (
    BATCH,
    COLUMNS,
    docs_of,
    get_records,
    newest_ids,
    read_records,
    record_of,
    select_records,
    starting_with,
)
from cortex.engine.store.sql import marks, parts

MAX_NARROWED = 32  # answers of `narrow` that are remembered
MAX_CHOICES = 128  # of sources, by what somebody may see


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A line of the audit log."""

    id: int
    at: int  # milliseconds since 1970
    actor: str
    tier: int
    key: str
    action: str
    record: str
    version: int
    via: str = ""  # how it was written; "" in lines of before this was kept


@dataclass(frozen=True, slots=True)
class VersionedRecord:
    """A record, and the number of the write that made it what it is."""

    record: Record[Any]
    change: int


class RecordHeader(NamedTuple):
    """What of a record is told without its body."""

    id: str
    kind: str
    state: str
    updated: int
    made: str
    thread: str  # that it belongs to


class RecordLookup:
    """The records of a store, for reading."""

    def __init__(
        self, connections: Connected, viewer: Callable[[], Viewer | None] = lambda: None
    ) -> None:
        """`viewer` is who looks now, where that makes a difference."""
        self._connections = connections
        self._viewer = viewer
        self._shelves: tuple[int | None, dict[Hashable, tuple[Source, ...]]] = (None, {})
        self._narrowed: tuple[str, dict[Hashable, tuple[list[Source], frozenset[int] | None]]] = (
            "",
            {},
        )

    def get(self, ids: Iterable[str]) -> dict[str, Record[Any]]:
        """Those of these records that there are."""
        with self._connections.read() as connection:
            return get_records(connection, list(dict.fromkeys(ids)))

    def one(self, number: str) -> Record[Any] | None:
        """The record of this id."""
        return self.get([number]).get(number)

    def select(self, wanted: RecordFilter, limit: int = 100, offset: int = 0) -> list[Record[Any]]:
        """The records that are wanted, the last made first, or the last changed."""
        with self._connections.read() as connection:
            return select_records(connection, wanted, limit, offset)

    def starting(self, prefix: str, limit: int = 10) -> list[Record[Any]]:
        """The records whose id begins like this, the first made first."""
        with self._connections.read() as connection:
            return starting_with(connection, prefix, limit)

    def count(self, wanted: RecordFilter) -> int:
        """How many are wanted."""
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
        """The records that point to any of these, in any of these roles (none: in whatever role),
        the last made first.
        """
        if not targets:
            return []
        ask = f"target IN ({marks(targets)})" + (f" AND role IN ({marks(roles)})" if roles else "")
        return self._newest(ask, (*targets, *roles), limit)

    def by_path(self, path: str, limit: int = 200) -> list[Record[Any]]:
        """The records that speak of code at or below a path, the last made first."""
        # One range of the index
        ask = "role = 'path' AND target >= ? AND target < ? AND (target = ? OR target >= ?)"
        return self._newest(ask, (path, f"{path}0", path, f"{path}/"), limit)

    def _newest(self, ask: str, values: tuple[str, ...], limit: int) -> list[Record[Any]]:
        """The records whose refs are these, the last made first."""
        with self._connections.read() as connection:
            return list(
                get_records(connection, newest_ids(connection, ask, values, limit)).values()
            )

    def versions(self, number: str) -> dict[int, Record[Any]]:
        """All versions of a record, the first one first."""
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT record, kind, body, author, created, at, version FROM versions WHERE record = ? ORDER BY version",
                (number,),
            )
            found = read_records(rows)
            found += list(get_records(connection, [number]).values())
        return {one.version: one for one in found}

    def docs(self, wanted: RecordFilter, sources: Sequence[int]) -> frozenset[int]:
        """The docs of the records that are wanted, in these sources."""
        with self._connections.read() as connection:
            return docs_of(connection, ways_to(connection, wanted, ordered=False), sources)

    def narrow(self, wanted: RecordFilter, most: int) -> tuple[list[Source], frozenset[int] | None]:
        """The sources in which some may be that are wanted, and their docs: None where more than
        `most` would have to be looked at.

        Remembered until some record is written: who narrows a search does so again. The counters
        tell, since a record may change its state and be found by the same words.
        """
        with self._connections.read() as connection:
            state = connection.execute(
                "SELECT value || ' ' || (SELECT group_concat(value, ' ') FROM counters) FROM meta WHERE key = 'seq'"
            ).fetchone()[0]
            # Of this state, whatever another thread puts in its place meanwhile
            known = self._narrowed
            key = (wanted, most, self._viewer())
            if known[0] != state or (len(known[1]) >= MAX_NARROWED and key not in known[1]):
                known = self._narrowed = (state, {})
            if key not in known[1]:
                known[1][key] = self._narrow(connection, wanted, most)
            return known[1][key]

    def _narrow(
        self, connection: sqlite3.Connection, wanted: RecordFilter, most: int
    ) -> tuple[list[Source], frozenset[int] | None]:
        rows = {way: rows_on(connection, way) for way in ways_to(connection, wanted, ordered=False)}
        ways = [way for way, count in rows.items() if count]
        sources = self.sources(way.kind for way in ways)
        if sum(rows.values()) > most or FEW in rows.values():
            return sources, None
        return sources, docs_of(connection, ways, [source.id for source in sources])

    def briefs(self, docs: Sequence[int], wanted: RecordFilter) -> dict[int, RecordHeader]:
        """The records of these docs, in brief; only those that are wanted."""
        found: dict[int, RecordHeader] = {}
        where, values = conditions_of(wanted)
        with self._connections.read() as connection:
            for part in parts(docs, BATCH):
                rows = connection.execute(
                    "SELECT docs.id, records.id, records.kind, records.state, records.updated, records.made, coalesce((SELECT target "
                    "FROM refs WHERE record = records.id AND role = 'thread'), '') FROM docs CROSS JOIN records ON records.id = docs.path "
                    f"AND records.source = docs.source WHERE docs.id IN ({marks(part)}){where}",
                    (*part, *values),
                )
                found.update({row[0]: RecordHeader(*row[1:]) for row in rows})
        return found

    def targets(self, role: str) -> frozenset[str]:
        """All that some record points to in this role."""
        with self._connections.read() as connection:
            return frozenset(
                row[0]
                for row in connection.execute("SELECT target FROM refs WHERE role = ?", (role,))
            )

    def authors(self) -> frozenset[str]:
        """Whoever wrote some record."""
        with self._connections.read() as connection:
            return frozenset(
                row[0] for row in connection.execute("SELECT DISTINCT author FROM records")
            )

    def links(self, ids: Sequence[str], limit: int = 500) -> list[Record[Any]]:
        """The links from or to any of these records, the last made first."""
        found: set[str] = set()
        with self._connections.read() as connection:
            for part in parts(ids, BATCH):
                found.update(
                    row[0]
                    for row in connection.execute(
                        "SELECT record FROM refs WHERE role IN ('source', 'target') AND record > 'link_' AND record < 'link`' "
                        f"AND target IN ({marks(part)}) LIMIT ?",
                        (*part, limit),
                    )
                )
            return list(get_records(connection, sorted(found, reverse=True)[:limit]).values())

    def by_docs(self, docs: Sequence[int]) -> dict[int, Record[Any]]:
        """The records that these docs are of."""
        found: dict[int, Record[Any]] = {}
        with self._connections.read() as connection:
            for part in parts(docs, BATCH):
                rows = connection.execute(
                    f"SELECT docs.id, {COLUMNS} FROM docs JOIN records ON records.id = docs.path AND records.source = docs.source "
                    f"WHERE docs.id IN ({marks(part)})",
                    part,
                )
                found.update(
                    {row[0]: one for row in rows if (one := record_of(row[1:])) is not None}
                )
        return found

    def sources(self, kinds: Iterable[str]) -> list[Source]:
        """The sources that records of these kinds are found in."""
        wanted, viewer = frozenset(kinds), self._viewer()
        rights = None if viewer is None else (viewer.reads, viewer.hidden, viewer.sensitive)
        key = (rights, wanted)
        with self._connections.read() as connection:
            last = connection.execute(
                "SELECT max(seq) FROM sqlite_sequence WHERE name = 'sources'"
            ).fetchone()[0]
            known = self._shelves  # those that are there are never renamed
            if known[0] != last or (len(known[1]) >= MAX_CHOICES and key not in known[1]):
                known = self._shelves = (last, {})
            if key not in known[1]:
                ask = "SELECT id, kind, name, root FROM sources WHERE kind = ? AND root = '' ORDER BY id"
                rows = connection.execute(ask, (RECORDS,))
                known[1][key] = tuple(
                    _source(*row) for row in rows if shelf_of(row[2]).kind in wanted
                )
            return list(known[1][key])

    def has(self) -> bool:
        """Whether there is any record."""
        with self._connections.read() as connection:
            return connection.execute("SELECT 1 FROM records LIMIT 1").fetchone() is not None

    def changes(self, since: int, limit: int) -> list[VersionedRecord]:
        """The records that were written after the change `since`, in the order of their last
        change; each once, as it is now.
        """
        found: list[VersionedRecord] = []
        ask = f"SELECT {COLUMNS}, records.change FROM records WHERE change > ? ORDER BY change LIMIT ?"
        with self._connections.read() as connection:
            while left := limit - len(found):
                rows = connection.execute(ask, (since, left)).fetchall()
                found += [
                    VersionedRecord(one, row[-1])
                    for row in rows
                    if (one := record_of(row[:-1])) is not None
                ]
                if len(rows) < left:
                    break
                since = rows[-1][-1]
        return found

    def kept(self, ids: Iterable[str]) -> list[VersionedRecord]:
        """Those of these records that there are, in this order, with the number of their last
        write.
        """
        wanted = list(dict.fromkeys(ids))
        found: dict[str, VersionedRecord] = {}
        with self._connections.read() as connection:
            for part in parts(wanted, BATCH):
                ask = f"SELECT {COLUMNS}, records.change FROM records WHERE id IN ({marks(part)})"
                for row in connection.execute(ask, part).fetchall():
                    if (one := record_of(row[:-1])) is not None:
                        found[one.id] = VersionedRecord(one, row[-1])
        return [found[number] for number in wanted if number in found]

    def last_change(self) -> int:
        """The number of the last write."""
        with self._connections.read() as connection:
            return connection.execute(
                "SELECT value FROM counters WHERE name = 'change'"
            ).fetchone()[0]

    def last_of(self, kind: str) -> tuple[int, int]:
        """How many records of a kind there are, and the number of the last write of one: another
        answer is another state of them.
        """
        ask = "SELECT count(*), coalesce(max(change), 0) FROM records WHERE kind = ?"
        with self._connections.read() as connection:
            return tuple(connection.execute(ask, (kind,)).fetchone())

    def deeds(self, record: str = "", limit: int = 100, before: int = 0) -> list[AuditEntry]:
        """The last lines of the audit log, of all or of one record, or those below an id; the
        newest first.
        """
        parts = [("record = ?", record)] if record else []
        parts += [("id < ?", before)] if before else []
        where = f"WHERE {' AND '.join(ask for ask, _ in parts)} " if parts else ""
        with self._connections.read() as connection:
            rows = connection.execute(
                f"SELECT {_DEED} FROM audit {where}ORDER BY id DESC LIMIT ?",
                (*(value for _, value in parts), limit),
            )
            return [AuditEntry(*row) for row in rows]


_DEED = "id, at, actor, tier, key, action, record, version, via"


@lru_cache(maxsize=20_000)
def _source(number: int, kind: str, name: str, root: str) -> Source:
    """A source, the same one for all who may see it."""
    return Source(number, kind, name, root)
