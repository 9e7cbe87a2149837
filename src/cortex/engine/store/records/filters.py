"""Which records are wanted, as SQL that begins with the rarest condition, or walks an index in the
order of time.

Each kind is a way of its own: an index is in order only below a fixed beginning, and an id says its
kind, so that what points to a topic lies by kind and by time already. Left to itself SQLite makes a
list of all that point to the topic, and sorts: 200 ms for the newest ten of 100,000. Reads only
counts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from cortex.base.record_model import KINDS, PREFIXES, RecordFilter
from cortex.engine.store.row_level_security import Confined
from cortex.engine.store.sql import marks

FEW = 3_000  # rows that may be looked at one by one

_REFS = "refs CROSS JOIN records ON records.id = refs.record"
Part = tuple[str, tuple[object, ...]]  # a condition with its values


@dataclass(frozen=True, slots=True)
class Way:
    """How to come to the records of one kind that are wanted."""

    kind: str
    tables: str
    where: str
    values: tuple[object, ...]
    order: str
    start: Part  # what it begins with

    @property
    def ids(self) -> tuple[str, str]:
        """Tables that give the ids, and the column; who points to something need not be looked at
        itself.
        """
        refs_alone = self.tables == _REFS and "records." not in self.where
        return ("refs" if refs_alone else self.tables), (
            "refs.record" if self.tables == _REFS else "records.id"
        )


@dataclass(frozen=True, slots=True)
class _Driver:
    """A condition to begin with."""

    tables: str
    part: Part
    meets: object  # what of the wanted it answers to
    ordered: bool  # in the order that is asked for


def ways_to(connection: sqlite3.Connection, wanted: RecordFilter, *, ordered: bool) -> list[Way]:
    """One way for each kind; `ordered` for who wants the first of them only."""
    return [_way(connection, wanted, kind, ordered) for kind in wanted.kinds or KINDS]


def _way(connection: sqlite3.Connection, wanted: RecordFilter, kind: str, ordered: bool) -> Way:
    drivers = list(_drivers(wanted, kind))
    counts = [_count(connection, one) for one in drivers] if len(drivers) > 1 else [FEW]
    best = min(range(len(drivers)), key=counts.__getitem__)
    if ordered and counts[best] >= FEW:
        best = next((place for place, one in enumerate(drivers) if one.ordered), best)
    driver = drivers[best]
    rest = _rest(wanted, driver)
    where = " AND ".join((driver.part[0], *(ask for ask, _ in rest)))
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
        ask = "refs.role = ? AND refs.target = ? AND refs.record > ? AND refs.record < ?"
        yield _Driver(_REFS, (ask, (*ref, prefix, after)), ref, not wanted.by_change)
    if wanted.due:
        ask = "refs.role = 'due' AND refs.target < ? AND refs.record > ? AND refs.record < ?"
        yield _Driver(_REFS, (ask, (wanted.due, prefix, after)), "due", False)
    if wanted.states:
        ask = f"records.kind = ? AND records.state IN ({marks(wanted.states)})"
        in_order = not wanted.by_change and len(wanted.states) == 1
        yield _Driver("records", (ask, (kind, *wanted.states)), "states", in_order)
    if wanted.since or wanted.until or wanted.by_change:
        ask = "records.kind = ? AND records.updated >= ?" + (
            " AND records.updated < ?" if wanted.until else ""
        )
        values = (kind, wanted.since, *((wanted.until,) if wanted.until else ()))
        yield _Driver("records", (ask, values), "time", wanted.by_change)
    yield _Driver("records", ("records.kind = ?", (kind,)), "", not wanted.by_change)


def _count(connection: sqlite3.Connection, driver: _Driver) -> int:
    """How many rows a way leads along, up to FEW; those too that the viewer doesn't see, since it
    is as long.
    """
    whole = "main." if isinstance(connection, Confined) else ""
    return _up_to_few(connection, whole + _table(driver.tables), driver.part)


def rows_on(connection: sqlite3.Connection, way: Way) -> int:
    """How many rows that are seen a way begins with, up to FEW."""
    return _up_to_few(connection, _table(way.tables), way.start)


def _table(tables: str) -> str:
    return "refs" if tables == _REFS else "records"


def _up_to_few(connection: sqlite3.Connection, table: str, part: Part) -> int:
    ask = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {part[0]} LIMIT {FEW}) AS part"
    return connection.execute(ask, part[1]).fetchone()[0]


def conditions_of(wanted: RecordFilter) -> Part:
    """All that holds for who is wanted, with "AND" before it; "" where everything does."""
    kinds: list[Part] = (
        [(f"records.kind IN ({marks(wanted.kinds)})", wanted.kinds)] if wanted.kinds else []
    )
    parts = [*kinds, *_rest(wanted, _Driver("", ("", ()), "", False))]
    return "".join(f" AND {ask}" for ask, _ in parts), tuple(
        value for _, many in parts for value in many
    )


def _rest(wanted: RecordFilter, driver: _Driver) -> list[Part]:
    """What is looked at in each row: a plus keeps SQLite from using an index for it."""
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
        ask = "EXISTS (SELECT 1 FROM refs AS due WHERE due.role = 'due' AND due.target < ? "
        ask += f"AND due.record = {record})"
        parts.append((ask, (wanted.due,)))
    parts += [
        (
            f"EXISTS (SELECT 1 FROM refs AS other WHERE other.role = ? AND other.target = ? AND other.record = {record})",
            ref,
        )
        for ref in wanted.refs
        if ref != driver.meets
    ]
    return parts
