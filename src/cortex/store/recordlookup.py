"""Records, read: by id, by what they point to, the newest first, as they were before, and who did what. Nothing here writes.

A row that a damaged store can't tell any more is left out and named in the log: the others are found as ever.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from cortex.kinds import KINDS, PREFIXES, Record, Wanted
from cortex.seeing import Viewer
from cortex.store.connect import Connected
from cortex.store.recordjson import from_json
from cortex.store.recordshelves import RECORDS, shelf_of
from cortex.store.recordwanted import FEW, Way, conditions_of, marks, rows_on, ways_to
from cortex.types import Source

BATCH = 500
MOST_TRIED = 2  # sources in which a doc is looked for
MOST_WALKED = 200  # targets whose records are walked, each kind by itself
MAX_NARROWED = 32  # answers of `narrow` that are remembered
MAX_CHOICES = 128  # of sources, by what somebody may see
COLUMNS = "records.id, records.kind, records.body, records.author, records.created, records.updated, records.version"

B = TypeVar("B")

log = logging.getLogger(__name__)


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


@dataclass(frozen=True, slots=True)
class Kept:
    """A record, and the number of the write that made it what it is."""

    record: Record[Any]
    change: int


class Brief(NamedTuple):
    """What of a record is told without its body."""

    id: str
    kind: str
    state: str
    updated: int
    made: str
    thread: str  # that it belongs to


class RecordLookup:
    """The records of a store, for reading."""

    def __init__(self, connections: Connected, viewer: Callable[[], Viewer | None] = lambda: None) -> None:
        """`viewer` is who looks now, where that makes a difference."""
        self._connections = connections
        self._viewer = viewer
        self._shelves: tuple[int | None, dict[Hashable, tuple[Source, ...]]] = (None, {})
        self._narrowed: tuple[str, dict[Hashable, tuple[list[Source], frozenset[int] | None]]] = ("", {})

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

    def starting(self, prefix: str, limit: int = 10) -> list[Record[Any]]:
        """The records whose id begins like this, the first made first."""
        with self._connections.read() as connection:
            return starting_with(connection, prefix, limit)

    def count(self, wanted: Wanted) -> int:
        """How many are wanted."""
        with self._connections.read() as connection:
            counts = [
                connection.execute(f"SELECT count(*) FROM {way.tables} WHERE {way.where}", way.values).fetchone()[0]
                for way in ways_to(connection, wanted, ordered=False)
            ]
            return sum(counts)

    def pointing(self, targets: Sequence[str], roles: Sequence[str] = (), limit: int = 200) -> list[Record[Any]]:
        """The records that point to any of these, in any of these roles (none: in whatever role), the last made first."""
        if not targets:
            return []
        ask = f"target IN ({marks(targets)})" + (f" AND role IN ({marks(roles)})" if roles else "")
        return self._newest(ask, (*targets, *roles), limit)

    def by_path(self, path: str, limit: int = 200) -> list[Record[Any]]:
        """The records that speak of code at or below a path, the last made first."""
        ask = "role = 'path' AND target >= ? AND target < ? AND (target = ? OR target >= ?)"  # one range of the index
        return self._newest(ask, (path, f"{path}0", path, f"{path}/"), limit)

    def _newest(self, ask: str, values: tuple[str, ...], limit: int) -> list[Record[Any]]:
        """The records whose refs are these, the last made first."""
        with self._connections.read() as connection:
            return list(get_records(connection, _newest_ids(connection, ask, values, limit)).values())

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

    def docs(self, wanted: Wanted, sources: Sequence[int]) -> frozenset[int]:
        """The docs of the records that are wanted, in these sources."""
        with self._connections.read() as connection:
            return _docs_of(connection, ways_to(connection, wanted, ordered=False), sources)

    def narrow(self, wanted: Wanted, most: int) -> tuple[list[Source], frozenset[int] | None]:
        """The sources in which some may be that are wanted, and their docs: None where more than `most` would have to be looked at.

        Remembered until some record is written: who narrows a search does so again. The counters tell, since a record may change its
        state and be found by the same words.
        """
        with self._connections.read() as connection:
            state = connection.execute(
                "SELECT value || ' ' || (SELECT group_concat(value, ' ') FROM counters) FROM meta WHERE key = 'seq'"
            ).fetchone()[0]
            known = self._narrowed  # of this state, whatever another thread puts in its place meanwhile
            key = (wanted, most, self._viewer())
            if known[0] != state or (len(known[1]) >= MAX_NARROWED and key not in known[1]):
                known = self._narrowed = (state, {})
            if key not in known[1]:
                known[1][key] = self._narrow(connection, wanted, most)
            return known[1][key]

    def _narrow(
        self, connection: sqlite3.Connection, wanted: Wanted, most: int
    ) -> tuple[list[Source], frozenset[int] | None]:
        rows = {way: rows_on(connection, way) for way in ways_to(connection, wanted, ordered=False)}
        ways = [way for way, count in rows.items() if count]
        sources = self.sources(way.kind for way in ways)
        if sum(rows.values()) > most or FEW in rows.values():
            return sources, None
        return sources, _docs_of(connection, ways, [source.id for source in sources])

    def briefs(self, docs: Sequence[int], wanted: Wanted) -> dict[int, Brief]:
        """The records of these docs, in brief; only those that are wanted."""
        found: dict[int, Brief] = {}
        where, values = conditions_of(wanted)
        with self._connections.read() as connection:
            for start in range(0, len(docs), BATCH):
                part = docs[start : start + BATCH]
                rows = connection.execute(
                    "SELECT docs.id, records.id, records.kind, records.state, records.updated, records.made, coalesce((SELECT target "
                    "FROM refs WHERE record = records.id AND role = 'thread'), '') FROM docs CROSS JOIN records ON records.id = docs.path "
                    f"AND records.source = docs.source WHERE docs.id IN ({marks(part)}){where}",
                    (*part, *values),
                )
                found.update({row[0]: Brief(*row[1:]) for row in rows})
        return found

    def targets(self, role: str) -> frozenset[str]:
        """All that some record points to in this role."""
        with self._connections.read() as connection:
            return frozenset(row[0] for row in connection.execute("SELECT target FROM refs WHERE role = ?", (role,)))

    def links(self, ids: Sequence[str], limit: int = 500) -> list[Record[Any]]:
        """The links from or to any of these records, the last made first."""
        found: set[str] = set()
        with self._connections.read() as connection:
            for start in range(0, len(ids), BATCH):
                part = ids[start : start + BATCH]
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
            for start in range(0, len(docs), BATCH):
                part = docs[start : start + BATCH]
                rows = connection.execute(
                    f"SELECT docs.id, {COLUMNS} FROM docs JOIN records ON records.id = docs.path AND records.source = docs.source "
                    f"WHERE docs.id IN ({marks(part)})",
                    part,
                )
                found.update({row[0]: one for row in rows if (one := record_of(row[1:])) is not None})
        return found

    def sources(self, kinds: Iterable[str]) -> list[Source]:
        """The sources that records of these kinds are found in."""
        wanted, viewer = frozenset(kinds), self._viewer()
        rights = None if viewer is None else (viewer.reads, viewer.hidden, viewer.sensitive)
        key = (rights, wanted)
        with self._connections.read() as connection:
            last = connection.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'sources'").fetchone()[0]
            known = self._shelves  # those that are there are never renamed
            if known[0] != last or (len(known[1]) >= MAX_CHOICES and key not in known[1]):
                known = self._shelves = (last, {})
            if key not in known[1]:
                ask = "SELECT id, kind, name, root FROM sources WHERE kind = ? AND root = '' ORDER BY id"
                rows = connection.execute(ask, (RECORDS,))
                known[1][key] = tuple(_source(*row) for row in rows if shelf_of(row[2]).kind in wanted)
            return list(known[1][key])

    def has(self) -> bool:
        """Whether there is any record."""
        with self._connections.read() as connection:
            return connection.execute("SELECT 1 FROM records LIMIT 1").fetchone() is not None

    def changes(self, since: int, limit: int) -> list[Kept]:
        """The records that were written after the change `since`, in the order of their last change; each once, as it is now."""
        found: list[Kept] = []
        ask = f"SELECT {COLUMNS}, records.change FROM records WHERE change > ? ORDER BY change LIMIT ?"
        with self._connections.read() as connection:
            while left := limit - len(found):
                rows = connection.execute(ask, (since, left)).fetchall()
                found += [Kept(one, row[-1]) for row in rows if (one := record_of(row[:-1])) is not None]
                if len(rows) < left:
                    break
                since = rows[-1][-1]
        return found

    def kept(self, ids: Iterable[str]) -> list[Kept]:
        """Those of these records that there are, in this order, with the number of their last write."""
        wanted = list(dict.fromkeys(ids))
        found: dict[str, Kept] = {}
        with self._connections.read() as connection:
            for start in range(0, len(wanted), BATCH):
                part = wanted[start : start + BATCH]
                ask = f"SELECT {COLUMNS}, records.change FROM records WHERE id IN ({marks(part)})"
                for row in connection.execute(ask, part).fetchall():
                    if (one := record_of(row[:-1])) is not None:
                        found[one.id] = Kept(one, row[-1])
        return [found[number] for number in wanted if number in found]

    def last_change(self) -> int:
        """The number of the last write."""
        with self._connections.read() as connection:
            return connection.execute("SELECT value FROM counters WHERE name = 'change'").fetchone()[0]

    def last_of(self, kind: str) -> tuple[int, int]:
        """How many records of a kind there are, and the number of the last write of one: another answer is another state of them."""
        ask = "SELECT count(*), coalesce(max(change), 0) FROM records WHERE kind = ?"
        with self._connections.read() as connection:
            return tuple(connection.execute(ask, (kind,)).fetchone())

    def deeds(self, record: str = "", limit: int = 100, before: int = 0) -> list[Deed]:
        """The last lines of the audit log, of all or of one record, or those below an id; the newest first."""
        parts = [("record = ?", record)] if record else []
        parts += [("id < ?", before)] if before else []
        where = f"WHERE {' AND '.join(ask for ask, _ in parts)} " if parts else ""
        with self._connections.read() as connection:
            rows = connection.execute(
                f"SELECT id, at, actor, tier, key, action, record, version FROM audit {where}ORDER BY id DESC LIMIT ?",
                (*(value for _, value in parts), limit),
            )
            return [Deed(*row) for row in rows]


@lru_cache(maxsize=20_000)
def _source(number: int, kind: str, name: str, root: str) -> Source:
    """A source, the same one for all who may see it."""
    return Source(number, kind, name, root)


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
    for start in range(0, len(ids), BATCH):
        part = ids[start : start + BATCH]
        rows = connection.execute(f"SELECT {COLUMNS} FROM records WHERE id IN ({marks(part)})", part)
        found.update({one.id: one for one in read_records(rows)})
    return {number: found[number] for number in ids if number in found}


def _newest_ids(connection: sqlite3.Connection, ask: str, values: tuple[str, ...], limit: int) -> list[str]:
    """The records whose refs are these, the last made first: few are sorted, of many each target's are walked in the order of time.

    What points to one target in one role lies by kind and by time already. Sorting all took 70 ms where 20,000 speak of one file.
    """
    rows = connection.execute(f"SELECT record FROM refs WHERE {ask} LIMIT {FEW}", values).fetchall()
    found = {row[0] for row in rows}
    if len(rows) == FEW:
        pairs = connection.execute(f"SELECT DISTINCT role, target FROM refs WHERE {ask}", values).fetchall()
        if len(pairs) > MOST_WALKED:
            sort = f"SELECT record FROM refs WHERE {ask} GROUP BY record ORDER BY substr(record, -26) DESC LIMIT ?"
            return [row[0] for row in connection.execute(sort, (*values, limit))]
        walk = "SELECT record FROM refs WHERE role = ? AND target = ? AND record > ? AND record < ? ORDER BY record DESC LIMIT ?"
        bounds = [(prefix, f"{prefix}\x7f", limit) for prefix in PREFIXES.values()]
        found = {row[0] for pair in pairs for more in bounds for row in connection.execute(walk, (*pair, *more))}
    return sorted(found, key=lambda number: number[-26:], reverse=True)[:limit]


def _docs_of(connection: sqlite3.Connection, ways: Sequence[Way], sources: Sequence[int]) -> frozenset[int]:
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
            f"SELECT docs.id FROM {tables} CROSS JOIN docs ON {place} WHERE {way.where}", (*numbers, *way.values)
        )
        found.update(row[0] for row in rows)
    return frozenset(found)


def select_records(connection: sqlite3.Connection, wanted: Wanted, limit: int, offset: int = 0) -> list[Record[Any]]:
    """The records that are wanted, the last made first, or the last changed; in place of damaged ones those that come next."""
    found: dict[str, Record[Any]] = {}
    while (left := limit - len(found)) > 0:
        ids = _select_ids(connection, wanted, left, offset)
        known = len(found)
        found |= get_records(connection, ids)
        if len(found) - known == len(ids) or len(ids) < left:
            break
        offset += len(ids)
    return list(found.values())


def _select_ids(connection: sqlite3.Connection, wanted: Wanted, limit: int, offset: int) -> list[str]:
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


def starting_with(connection: sqlite3.Connection, prefix: str, limit: int, offset: int = 0) -> list[Record[Any]]:
    """The records whose id begins like this, the first made first."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ? OFFSET ?",
        (prefix, f"{prefix}\x7f", limit, offset),
    )
    return read_records(rows)


_KIND_OF: Mapping[str, str] = {
    prefix: name for name, cls in KINDS.items() for known, prefix in PREFIXES.items() if known is cls
}


def kind_of_id(number: str) -> str:
    """The kind that an id says its record is of, "" where it is none of ours."""
    return _KIND_OF.get(number.rpartition("_")[0] + "_", "")
