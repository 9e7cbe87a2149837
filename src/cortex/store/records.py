"""Records, written: each step is one durable transaction with its idempotency key, its history, its docs and its line in the audit log.

Whatever a step reads, it reads inside that transaction, and a record is only replaced by who has seen its last version: no update is
lost, in one process or in several. A step is a function and not a block, because another database may have to run it again. What a
record means, and who may write it, is not known here.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from cortex.errors import InputError
from cortex.kinds import KINDS, Actor, Body, Record, Subcortex, Wanted
from cortex.seeing import Get
from cortex.store.connect import Connected, WritersMet
from cortex.store.outbox import (
    check_facts,
    enqueue,
    forget_sent,
    is_connected,
    marks_of,
    set_facts,
    settle_entry,
    waiting_for,
)
from cortex.store.recordlookup import Kept, get_records, select_records, starting_with
from cortex.store.recordrows import RecordRows, Wording
from cortex.text import hash_bytes

ATTEMPTS = 5  # of a step that met another one
WAIT_SECONDS = 0.05  # at most, before the second; a little more before each other
FEWEST_LOOKED_AT = 20  # of those that are wanted, where not all may be seen

# Of each kind by itself, which an index tells.
_NEWEST = f"SELECT max(made) FROM ({' UNION ALL '.join(['SELECT max(made) AS made FROM records WHERE kind = ?'] * len(KINDS))}) AS each_kind"

Sees = Callable[[Record[Any], Get], bool]  # whether the one who writes may know of a record
Guard = Callable[[Record[Any] | None, Record[Any], Get], None]  # raises, where a write isn't allowed
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Done:
    """What a step gave; `replayed` where it had been done before under the same key, and nothing was written now."""

    result: str
    replayed: bool


class Step:
    """One step under way: what there is, as far as it may be seen, and what is written."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        rows: RecordRows,
        actor: Actor,
        key: str,
        action: str,
        sees: Sees | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.now = int(time.time() * 1000)
        self.actor = actor
        self.author = actor.name  # of what is new: whoever does it, unless it is done for somebody else
        self.written: dict[str, tuple[Record[Any] | None, Record[Any]]] = {}  # before the step, and after it
        self._connection = connection
        self._rows = rows
        self._key, self._action = key, action
        self._sees, self._guard = sees, guard
        self._read: dict[str, Record[Any] | None] = {}  # nobody else writes while a step is under way

    def get(self, number: str) -> Record[Any] | None:
        """The record of this id, as it is now."""
        found = self._get(number)
        return found if found is not None and self._shows(found) else None

    def select(self, wanted: Wanted, limit: int = 100) -> list[Record[Any]]:
        """The records that are wanted, as they are now."""
        return self._shown(lambda count, offset: select_records(self._connection, wanted, count, offset), limit)

    def starting(self, prefix: str, limit: int = 10) -> list[Record[Any]]:
        """The records whose id begins like this, as they are now."""
        return self._shown(lambda count, offset: starting_with(self._connection, prefix, count, offset), limit)

    def newest(self) -> str:
        """The end of the id of what was made last, "" where there is nothing."""
        return self._connection.execute(_NEWEST, tuple(KINDS)).fetchone()[0] or ""

    def put(self, record: Record[Any], action: str = "") -> Record[Any]:
        """Write a record: a new one, or the next version of the one that was read; returns it as it is kept.

        Raises: InputError RECORD_CHANGED, where somebody has written another version since; RECORD_INVALID for a slug that is taken;
        whatever the guard raises.
        """
        known = self._get(record.id)
        before = known.version if known else 0
        kept = replace(
            record,
            author=known.author if known else (record.author or self.author),
            created=known.created if known else (record.created or self.now),
            updated=self.now,
            version=before + 1,
        )
        if self._guard is not None:
            self._guard(known, kept, self._rows.get)
        if record.version != before:
            raise InputError(
                "RECORD_CHANGED",
                f"{record.id} was changed meanwhile: it has version {before} now, not {record.version}",
                context={"id": record.id, "version": before},
            )
        if isinstance(kept.body, Subcortex):
            self._check_slug(kept.id, kept.body.slug)
        if known is not None:
            self._rows.keep_version(record.id)
        self._rows.write(known, kept)
        self._connection.execute(
            "INSERT INTO audit (at, actor, tier, key, action, record, version) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (self.now, self.actor.name, self.actor.tier, self._key, action or self._action, kept.id, kept.version),
        )
        first = self.written.get(kept.id)
        self.written[kept.id] = (known if first is None else first[0], kept)
        self._read[kept.id] = kept
        return kept

    def make(self, number: str, body: Body, action: str = "") -> Record[Any]:
        """Write a new record."""
        return self.put(Record(number, body), action)

    def reword(self, record: Record[Any]) -> None:
        """Have a record found by what it says now, where only something that it tells besides was changed."""
        self._rows.reword(record)

    @contextmanager
    def unconfined(self) -> Iterator[None]:
        """Show everything inside the block and ask no guard: what follows from a write that was allowed concerns all, seen or not."""
        sees, guard = self._sees, self._guard
        self._sees = self._guard = None
        try:
            yield
        finally:
            self._sees, self._guard = sees, guard

    def _get(self, number: str) -> Record[Any] | None:
        if number not in self._read:
            self._read[number] = get_records(self._connection, [number]).get(number)
        return self._read[number]

    def _shows(self, record: Record[Any]) -> bool:
        """Whether the one who writes may know of a record."""
        return self._sees is None or self._sees(record, self._rows.get)

    def _shown(self, ask: Callable[[int, int], list[Record[Any]]], limit: int) -> list[Record[Any]]:
        """The first that may be seen, of as many as it takes."""
        if self._sees is None:
            return ask(limit, 0)
        found: dict[str, Record[Any]] = {}
        for one in _paged(ask, max(limit, FEWEST_LOOKED_AT)):
            if len(found) == limit:
                break
            if self._shows(one):
                found[one.id] = one
        return list(found.values())

    def _check_slug(self, number: str, slug: str) -> None:
        """Raises: InputError RECORD_INVALID, where another subcortex has the slug, be it one that nobody here may know of."""
        ask = "SELECT 1 FROM refs WHERE role = 'slug' AND target = ? AND record <> ?"
        if self._connection.execute(ask, (slug, number)).fetchone() is not None:
            raise InputError("RECORD_INVALID", f"the slug {slug} is taken", context={"field": "slug"})


def _paged(ask: Callable[[int, int], list[Record[Any]]], size: int) -> Iterator[Record[Any]]:
    """All, in pages that become larger."""
    offset = 0
    while page := ask(size, offset):
        yield from page
        if len(page) < size:
            return
        offset, size = offset + size, size * 2


class Records:
    """The records of a store, for writing."""

    def __init__(self, connections: Connected, *, indexed: bool = True, shelved: bool = False) -> None:
        """Without `indexed` the records have no store beside them: they are found elsewhere, and sent nowhere.

        `shelved`, each scope has sources of its own.
        """
        self._connections = connections
        self._indexed = indexed
        self._shelved = shelved

    def perform(
        self,
        work: Callable[[Step], str],
        *,
        actor: Actor,
        key: str,
        action: str,
        payload: str,
        wording: Wording,
        sees: Sees | None = None,
        guard: Guard | None = None,
        quiet: bool = False,
    ) -> Done:
        """Do `work` as one step, once for each key of an actor: all of it or nothing, and on the disk when this returns.

        The text that `work` gives is kept with the key. `sees` confines what the step shows, `guard` is asked before each write. What
        a step writes is queued for the Core where there is one; not so a `quiet` one, and what that makes is never sent. Raises:
        InputError IDEMPOTENCY_REPLAY for a key that was used for something else, RECORD_CHANGED; whatever `work` raises.
        """
        asked = _hash(action, payload)

        def attempt(connection: sqlite3.Connection) -> Done:
            if (before := _replay(connection, actor, key, asked)) is not None:
                return before
            step = Step(connection, self.rows(connection, wording), actor, key, action, sees, guard)
            result = work(step)
            connection.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", (actor.name, key, asked, result, step.now))
            if self._indexed and quiet:
                made = [(number,) for number, (before, _) in step.written.items() if before is None]
                connection.executemany("INSERT OR IGNORE INTO local_only VALUES (?)", made)
            elif self._indexed and step.written and is_connected(connection):
                enqueue(connection, actor, key, action, step.now, step.written)
            return Done(result, False)

        return self._transact(attempt)

    def apply(
        self,
        records: Sequence[Kept],
        erased: Sequence[str],
        *,
        wording: Wording,
        meta: Mapping[str, str],
        settle: int | None = None,
        refuse: tuple[str, str] | None = None,
        skip_waiting: bool = False,
        expected: Mapping[str, str] | None = None,
    ) -> int:
        """Take records over as another store has them, exactly, and remove others for good: all in one transaction, with the facts in
        `meta`; tells how many were written. What is lost with the power is lost with its facts and its entry, and comes again.

        `settle` is an entry of the outbox that this answers: it was sent, or stays as refused with the code and reason in `refuse`. With
        `skip_waiting` records that other entries wait for are left alone. What is newer here than what is given stays, unless the facts
        tell of another epoch, or of a resync: then numbers begin anew. Twice is once. Raises: ConfigError CORE_MISSING, where facts
        of the store aren't as `expected`: nothing is changed.
        """

        def attempt(connection: sqlite3.Connection) -> int:
            check_facts(connection, expected or {})
            if settle is not None:
                settle_entry(connection, settle, refuse)
            if _begins_anew(connection, meta):
                connection.execute("UPDATE replica SET change = 0")
            set_facts(connection, meta)
            rows = self.rows(connection, wording)
            count = _copy(connection, rows, records, skip_waiting)
            for table in ("replica", "local_only"):
                connection.executemany(f"DELETE FROM {table} WHERE record = ?", [(number,) for number in erased])
            if self._indexed:
                forget_sent(connection, erased, settle)
            rows.erase(erased)
            connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'applied'")
            return count

        return self._transact(attempt, durable=False)

    def rows(self, connection: sqlite3.Connection, wording: Wording) -> RecordRows:
        """The rows of these records, in a transaction of the caller's."""
        return RecordRows(connection, wording if self._indexed else _unfound, shelved=self._shelved)

    def _transact(self, attempt: Callable[[sqlite3.Connection], R], *, durable: bool = True) -> R:
        """Do something in one transaction, and again where the database says that two writers met."""
        for number in range(1, ATTEMPTS):
            try:
                with self._connections.write(durable=durable, erase=True) as connection:
                    return attempt(connection)
            except WritersMet:
                time.sleep(random.uniform(0, WAIT_SECONDS * number))
        with self._connections.write(durable=durable, erase=True) as connection:
            return attempt(connection)

    def known(self, actor: Actor, key: str, action: str, payload: str) -> Done | None:
        """What a key gave before, None where it is new. Raises: InputError IDEMPOTENCY_REPLAY."""
        with self._connections.read() as connection:
            return _replay(connection, actor, key, _hash(action, payload))


def _copy(connection: sqlite3.Connection, rows: RecordRows, records: Sequence[Kept], skip_waiting: bool) -> int:
    """Write records as they are elsewhere, but for those that wait to be sent and those that are newer here; tells how many."""
    ids = [one.record.id for one in records]
    left = waiting_for(connection, ids) if skip_waiting else set[str]()
    known = marks_of(connection, ids)
    count = 0
    for one in sorted(
        records, key=lambda one: one.record.kind == "comment"
    ):  # behind the threads that they are found by
        number, mark = one.record.id, (one.record.version, one.change)
        if number in left:  # it is there, but what is here goes on from something else
            connection.execute("INSERT OR IGNORE INTO replica VALUES (?, ?, 0)", (number, one.record.version))
        elif known.get(number, mark)[1] <= one.change:
            rows.copy(one.record, one.change)
            connection.execute("INSERT OR REPLACE INTO replica VALUES (?, ?, ?)", (number, *mark))
            known[number] = mark
            count += 1
    rows.settle()
    last = max((one.change for one in records), default=0)
    connection.execute("UPDATE counters SET value = max(value, ?) WHERE name = 'change'", (last,))
    return count


def _begins_anew(connection: sqlite3.Connection, meta: Mapping[str, str]) -> bool:
    """Whether the numbers of changes can't be compared with those before."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'core.epoch'").fetchone()
    before = row[0] if row else ""
    return meta.get("core.resync") == "1" or meta.get("core.epoch", before) != before


def _unfound(record: Record[Any], get: Callable[[str], Record[Any] | None]) -> None:
    return None


def _hash(action: str, payload: str) -> bytes:
    return hash_bytes(b"payload", action.encode(), payload.encode("utf-8", "surrogatepass"))


def _replay(connection: sqlite3.Connection, actor: Actor, key: str, asked: bytes) -> Done | None:
    row = connection.execute(
        "SELECT payload, result FROM keys WHERE actor = ? AND key = ?", (actor.name, key)
    ).fetchone()
    if row is None:
        return None
    if row[0] != asked:
        raise InputError(
            "IDEMPOTENCY_REPLAY",
            f"the key {key!r} was used for another write; nothing was written now",
            context={"idempotency_key": key},
        )
    return Done(row[1], True)
