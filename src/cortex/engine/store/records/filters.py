"""Record filters as SQL that starts with the rarest condition or walks an index by time.

Each kind is a query of its own: an index is only in order below a fixed prefix, and an id starts
with its kind, so that references to a topic are already sorted by kind and time. Left to itself,
SQLite collects all references to the topic and sorts them: 200 ms for the newest ten of 100,000.
Only reads counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cortex.base.record_model import KINDS, PREFIXES, RecordFilter
from cortex.engine.store.connection import Connection
from cortex.engine.store.row_level_security import Confined
from cortex.engine.store.sql import marks

# Rows that may be checked one by one.
FEW = 3_000

_REFS = "refs CROSS JOIN records ON records.id = refs.record"
# A condition with its values.
Part = tuple[str, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Way:
    """Query plan for the matching records of one kind."""

    kind: str
    tables: str
    where: str
    values: tuple[object, ...]
    order: str
    start: Part  # the driving condition

    @property
    def ids(self) -> tuple[str, str]:
        """Tables that yield the ids, and the id column; `records` is skipped if it isn't needed."""
        refs_alone = self.tables == _REFS and "records." not in self.where
        return ("refs" if refs_alone else self.tables), (
            "refs.record" if self.tables == _REFS else "records.id"
        )


@dataclass(frozen=True, slots=True)
class _Driver:
    """Condition to start with."""

    tables: str
    part: Part
    meets: object  # part of the filter that it covers
    ordered: bool  # True if its rows come in the requested order


def ways_to(connection: Connection, wanted: RecordFilter, *, ordered: bool) -> list[Way]:
    """Query plans, one per kind; `ordered` if only the first records are needed."""
    return [_way(connection, wanted, kind, ordered) for kind in wanted.kinds or KINDS]


def _way(connection: Connection, wanted: RecordFilter, kind: str, ordered: bool) -> Way:
    drivers = list(_drivers(wanted, kind))
    counts = [_count(connection, driver) for driver in drivers] if len(drivers) > 1 else [FEW]
    best = min(range(len(drivers)), key=counts.__getitem__)
    if ordered and counts[best] >= FEW:
        best = next((index for index, driver in enumerate(drivers) if driver.ordered), best)
    driver = drivers[best]
    rest = _row_conditions(wanted, driver)
    where = " AND ".join((driver.part[0], *(condition for condition, _ in rest)))
    by_ref = driver.tables == _REFS and driver.ordered
    order = "refs.record DESC" if by_ref else _ORDER[wanted.by_change]
    return Way(
        kind,
        driver.tables,
        where,
        (*driver.part[1], *(value for _, many in rest for value in many)),
        order,
        driver.part,
    )


_ORDER = {False: "records.made DESC", True: "records.updated DESC, records.made DESC"}


def _drivers(wanted: RecordFilter, kind: str) -> Iterator[_Driver]:
    prefix = PREFIXES[KINDS[kind]]
    after = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    for ref in wanted.refs:
        condition = "refs.role = ? AND refs.target = ? AND refs.record > ? AND refs.record < ?"
        yield _Driver(_REFS, (condition, (*ref, prefix, after)), ref, not wanted.by_change)
    if wanted.due:
        condition = "refs.role = 'due' AND refs.target < ? AND refs.record > ? AND refs.record < ?"
        yield _Driver(_REFS, (condition, (wanted.due, prefix, after)), "due", False)
    if wanted.states:
        condition = f"records.kind = ? AND records.state IN ({marks(wanted.states)})"
        in_order = not wanted.by_change and len(wanted.states) == 1
        yield _Driver("records", (condition, (kind, *wanted.states)), "states", in_order)
    if wanted.since or wanted.until or wanted.by_change:
        condition = "records.kind = ? AND records.updated >= ?" + (
            " AND records.updated < ?" if wanted.until else ""
        )
        values = (kind, wanted.since, *((wanted.until,) if wanted.until else ()))
        yield _Driver("records", (condition, values), "time", wanted.by_change)
    yield _Driver("records", ("records.kind = ?", (kind,)), "", not wanted.by_change)


def _count(connection: Connection, driver: _Driver) -> int:
    """Number of rows that a plan walks, up to FEW; hidden ones count, since they cost as much."""
    whole = "main." if isinstance(connection, Confined) else ""
    return _count_up_to_few(connection, whole + _table(driver.tables), driver.part)


def rows_on(connection: Connection, way: Way) -> int:
    """Number of visible rows that a plan starts with, up to FEW."""
    return _count_up_to_few(connection, _table(way.tables), way.start)


def _table(tables: str) -> str:
    return "refs" if tables == _REFS else "records"


def _count_up_to_few(connection: Connection, table: str, part: Part) -> int:
    query = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {part[0]} LIMIT {FEW}) AS part"
    return connection.execute(query, part[1]).fetchone()[0]


def conditions_of(wanted: RecordFilter) -> Part:
    """All conditions of a filter, each with a leading "AND"; "" if it is empty."""
    kinds: list[Part] = (
        [(f"records.kind IN ({marks(wanted.kinds)})", wanted.kinds)] if wanted.kinds else []
    )
    parts = [*kinds, *_row_conditions(wanted, _Driver("", ("", ()), "", False))]
    return "".join(f" AND {condition}" for condition, _ in parts), tuple(
        value for _, many in parts for value in many
    )


def _row_conditions(wanted: RecordFilter, driver: _Driver) -> list[Part]:
    """Conditions checked row by row; a unary plus keeps SQLite from using an index for them."""
    parts: list[Part] = []
    record = "refs.record" if driver.tables == _REFS else "records.id"
    if wanted.states and driver.meets != "states":
        parts.append((f"+records.state IN ({marks(wanted.states)})", wanted.states))
    if wanted.authors:
        parts.append((f"records.author IN ({marks(wanted.authors)})", wanted.authors))
    if wanted.sensitivity:
        parts.append(("records.sensitivity = ?", (wanted.sensitivity,)))
    if driver.meets != "time":
        parts += [("+records.updated >= ?", (wanted.since,))] if wanted.since else []
        parts += [("+records.updated < ?", (wanted.until,))] if wanted.until else []
    if wanted.before:
        parts.append((f"{'' if driver.ordered else '+'}records.made < ?", (wanted.before[-26:],)))
    if wanted.due and driver.meets != "due":
        condition = "EXISTS (SELECT 1 FROM refs AS due WHERE due.role = 'due' AND due.target < ? "
        condition += f"AND due.record = {record})"
        parts.append((condition, (wanted.due,)))
    parts += [
        (
            "EXISTS (SELECT 1 FROM refs AS other WHERE other.role = ? AND other.target = ? "
            f"AND other.record = {record})",
            ref,
        )
        for ref in wanted.refs
        if ref != driver.meets
    ]
    return parts
