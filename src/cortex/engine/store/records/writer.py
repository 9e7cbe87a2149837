"""Records, written: each step is one durable transaction with its idempotency key, its history, its
docs and its line in the audit log.

What a step reads and writes is in `recordstep.py`; here is what it is surrounded by, and records
that are taken over as another store has them. A step is a function and not a block, because another
database may have to run it again.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cortex.base.errors import InputError
from cortex.base.record_model import Actor, Record
from cortex.base.text import hash_bytes
from cortex.engine.store.connections import Connected, WriteConflict
from cortex.engine.store.records.outbox_rows import (
    NEVER_HERE,
    check_facts,
    compare_anew,
    enqueue,
    forget_sent,
    is_connected,
    marks_of,
    set_facts,
    settle_entry,
    waiting_for,
)
from cortex.engine.store.records.queries import VersionedRecord
from cortex.engine.store.records.row_reader import BATCH, get_records
from cortex.engine.store.records.rows import RecordRows, RecordTextExtractor
from cortex.engine.store.records.transaction import Guard, RecordTransaction, Screened, Sees
from cortex.engine.store.records.write_batch import INTO_KEYS, WriteBatch, insert
from cortex.engine.store.sql import marks, parts

ATTEMPTS = 5  # of a step that met another one
WAIT_SECONDS = 0.05  # at most, before the second; a little more before each other

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """What a step gave; `replayed` where it had been done before under the same key, and nothing
    was written now.
    """

    result: str
    replayed: bool


class Records:
    """The records of a store, for writing."""

    def __init__(
        self, connections: Connected, *, indexed: bool = True, shelved: bool = False
    ) -> None:
        """Without `indexed` the records have no store beside them: they are found elsewhere, and
        sent nowhere.

        `shelved`, each scope has sources of its own.
        """
        self._connections = connections
        self._indexed = indexed
        self._shelved = shelved

    def perform(
        self,
        work: Callable[[RecordTransaction], str],
        *,
        actor: Actor,
        key: str,
        action: str,
        payload: str,
        wording: RecordTextExtractor,
        sees: Sees | None = None,
        guard: Guard | None = None,
        quiet: bool = False,
        screen: Screened | None = None,
    ) -> TransactionResult:
        """Do `work` as one step, once for each key of an actor: all of it or nothing, and on the
        disk when this returns.

        The text that `work` gives is kept with the key. `sees` confines what the step shows,
        `guard` is asked before each write, `screen` gives each record as it may be written. What a
        step writes is queued for the Core where there is one; not so a `quiet` one, and what that
        makes is never sent. Raises: InputError IDEMPOTENCY_REPLAY for a key that was used for
        something else, RECORD_CHANGED; whatever `work` raises.
        """
        asked = _hash(action, payload)

        def attempt(connection: sqlite3.Connection) -> TransactionResult:
            if (before := _replay(connection, actor, key, asked)) is not None:
                return before
            rows = self.rows(connection, wording)
            step = RecordTransaction(
                connection,
                rows,
                actor,
                key,
                action,
                sees,
                guard,
                screen=screen,
                synced=self._indexed,
            )
            result = work(step)
            insert(connection, INTO_KEYS, [(actor.name, key, asked, result, step.now)])
            if isinstance(connection, WriteBatch):
                connection.keys[actor.name, key] = (asked, result)
            if self._indexed and quiet:
                made = [(number,) for number, (before, _) in step.written.items() if before is None]
                connection.executemany("INSERT OR IGNORE INTO local_only VALUES (?)", made)
            elif self._indexed and step.written and is_connected(connection):
                enqueue(connection, actor, key, action, step.now, step.written)
            return TransactionResult(result, False)

        return self._transact(attempt)

    def apply(
        self,
        records: Sequence[VersionedRecord],
        erased: Sequence[str],
        *,
        wording: RecordTextExtractor,
        meta: Mapping[str, str],
        settle: int | None = None,
        refuse: tuple[str, str] | None = None,
        skip_waiting: bool = False,
        expected: Mapping[str, str] | None = None,
    ) -> int:
        """Take records over as another store has them, exactly, and remove others for good: all in
        one transaction, with the facts in `meta`; tells how many were written. What is lost with
        the power is lost with its facts and its entry, and comes again.

        `settle` is an entry of the outbox that this answers: it was sent, or stays as refused with
        the code and reason in `refuse`. With `skip_waiting` records that other entries wait for are
        left alone. What is newer here than what is given stays, unless the facts tell of another
        epoch, or of a resync: then numbers begin anew. Twice is once. Raises: ConfigError
        CORE_MISSING, where facts of the store aren't as `expected`: nothing is changed.
        """

        def attempt(connection: sqlite3.Connection) -> int:
            check_facts(connection, expected or {})
            if settle is not None:
                settle_entry(connection, settle, refuse)
            if _begins_anew(connection, meta):
                compare_anew(connection)
            set_facts(connection, meta)
            rows = self.rows(connection, wording)
            count = _copy(connection, rows, records, skip_waiting)
            for table in ("replica", "local_only", "elsewhere"):
                connection.executemany(
                    f"DELETE FROM {table} WHERE record = ?", [(number,) for number in erased]
                )
            if self._indexed:
                forget_sent(connection, erased, settle)
            rows.erase(erased)
            connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'applied'")
            return count

        return self._transact(attempt, durable=False)

    def rows(self, connection: sqlite3.Connection, wording: RecordTextExtractor) -> RecordRows:
        """The rows of these records, in a transaction of the caller's."""
        return RecordRows(connection, wording if self._indexed else _unfound, shelved=self._shelved)

    def _transact(self, attempt: Callable[[sqlite3.Connection], R], *, durable: bool = True) -> R:
        """Do something in one transaction, and again where the database says that two writers met."""
        for number in range(1, ATTEMPTS):
            try:
                with self._connections.write(durable=durable, erase=True) as connection:
                    return attempt(connection)
            except WriteConflict:
                time.sleep(random.uniform(0, WAIT_SECONDS * number))
        with self._connections.write(durable=durable, erase=True) as connection:
            return attempt(connection)

    def look_ahead(self, ids: Iterable[str], actors: Sequence[str], keys: Sequence[str]) -> None:
        """Have what steps of one transaction will ask for looked up at once, where that is cheaper
        than one after the other.
        """
        with self._connections.read() as connection:
            if not isinstance(connection, WriteBatch):
                return
            aside, wanted = (
                connection.aside,
                [fromkey for fromkey in dict.fromkeys(ids) if fromkey not in connection.records],
            )
            found = get_records(aside, wanted)
            connection.records.update({number: found.get(number) for number in wanted})
            for part in parts(keys, BATCH):
                ask = f"SELECT actor, key, payload, result FROM keys WHERE actor IN ({marks(actors)}) AND key IN ({marks(part)})"
                used = {
                    (row[0], row[1]): (row[2], row[3])
                    for row in aside.execute(ask, (*actors, *part)).fetchall()
                }
                connection.keys.update(
                    {(actor, key): used.get((actor, key)) for actor in actors for key in part}
                )

    def known(self, actor: Actor, key: str, action: str, payload: str) -> TransactionResult | None:
        """What a key gave before, None where it is new. Raises: InputError IDEMPOTENCY_REPLAY."""
        with self._connections.read() as connection:
            return _replay(connection, actor, key, _hash(action, payload))


def _copy(
    connection: sqlite3.Connection,
    rows: RecordRows,
    records: Sequence[VersionedRecord],
    skip_waiting: bool,
) -> int:
    """Write records as they are elsewhere, but for those that wait to be sent and those that are
    newer here; tells how many.
    """
    ids = [record.record.id for record in records]
    left = waiting_for(connection, ids) if skip_waiting else set[str]()
    known = marks_of(connection, ids)
    count = 0
    # Behind the threads that they are found by
    for one in sorted(records, key=lambda one: one.record.kind == "comment"):
        number, mark = one.record.id, (one.record.version, one.change)
        if number in left:  # it is there, but what is here goes on from something else
            unlike = (number, one.record.version, NEVER_HERE)
            connection.execute("INSERT OR IGNORE INTO replica VALUES (?, ?, ?)", unlike)
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


def _answer(connection: Any, actor: str, key: str) -> tuple[bytes, str] | None:
    """What a key was used for, and what it gave."""
    ask = "SELECT payload, result FROM keys WHERE actor = ? AND key = ?"
    if not isinstance(connection, WriteBatch):
        return connection.execute(ask, (actor, key)).fetchone()
    aside, known = connection.aside, connection.keys
    if (actor, key) not in known:
        known[actor, key] = aside.execute(ask, (actor, key)).fetchone()
    return known[actor, key]


def _unfound(record: Record[Any], get: Callable[[str], Record[Any] | None]) -> None:
    return None


def _hash(action: str, payload: str) -> bytes:
    return hash_bytes(b"payload", action.encode(), payload.encode("utf-8", "surrogatepass"))


def _replay(
    connection: sqlite3.Connection, actor: Actor, key: str, asked: bytes
) -> TransactionResult | None:
    row = _answer(connection, actor.name, key)
    if row is None:
        return None
    if row[0] != asked:
        raise InputError(
            "IDEMPOTENCY_REPLAY",
            f"the key {key!r} was used for another write; nothing was written now",
            context={"idempotency_key": key},
        )
    return TransactionResult(row[1], True)
