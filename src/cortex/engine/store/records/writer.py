"""Writes of records: durable transactions with idempotency key, history, docs and audit log.

The reads and writes inside a transaction are in `transaction.py`. Records can also be copied
exactly as another store has them (`apply`). A transaction is a function and not a `with` block,
because another database may have to run it again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cortex.base.errors import InputError
from cortex.base.record_model import Actor, Record
from cortex.base.text import hash_bytes
from cortex.base.visibility import Viewer
from cortex.engine.store.connection import Connected, Connection, WriteConflict
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
from cortex.engine.store.records.queries import RecordQueries, VersionedRecord
from cortex.engine.store.records.row_reader import get_records
from cortex.engine.store.records.rows import RecordRows, RecordTextExtractor
from cortex.engine.store.records.transaction import RecordTransaction, TransactionOptions
from cortex.engine.store.records.write_batch import INTO_KEYS
from cortex.engine.store.sql import marks, rows_in

# Attempts of a transaction that conflicts with another one.
ATTEMPTS = 5
# Longest wait before the second attempt; a little more before each further one.
WAIT_SECONDS = 0.05

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """Result of a transaction.

    `replayed` if it had been done before under the same key, and nothing was written now.
    """

    result: str
    replayed: bool


class Records(RecordQueries):
    """Records of a store, to read and to write."""

    def __init__(
        self,
        connections: Connected,
        viewer: Callable[[], Viewer | None] = lambda: None,
        *,
        indexed: bool = True,
        shelved: bool = False,
    ) -> None:
        """Prepare access through these connections; `viewer` returns the current viewer, if any.

        Without `indexed`, records have no store beside them: they are indexed elsewhere and not
        sent to a Core. With `shelved`, each scope has sources of its own.
        """
        super().__init__(connections, viewer)
        self._indexed = indexed
        self._shelved = shelved

    def perform(
        self, work: Callable[[RecordTransaction], str], options: TransactionOptions
    ) -> TransactionResult:
        """Run `work` as one transaction, once for each key of an actor, atomically and durably.

        The text that `work` returns is stored with the key. Changes are queued for the Core if
        there is one.

        Raises: InputError IDEMPOTENCY_REPLAY for a key that was used for something else,
        RECORD_CHANGED; any error of `work`.
        """
        actor, key, action = options.actor, options.key, options.action
        digest = _hash(action, options.payload)

        def attempt(connection: Connection) -> TransactionResult:
            if (before := _replay(connection, actor, key, digest)) is not None:
                return before
            rows = self.rows(connection, options.wording)
            transaction = RecordTransaction(connection, rows, options, synced=self._indexed)
            result = work(transaction)
            connection.insert(INTO_KEYS, [(actor.name, key, digest, result, transaction.now)])
            connection.remember((actor.name, key), (digest, result))
            if self._indexed and options.quiet:
                created = [
                    (record_id,)
                    for record_id, (before, _) in transaction.written.items()
                    if before is None
                ]
                connection.executemany("INSERT OR IGNORE INTO local_only VALUES (?)", created)
            elif self._indexed and transaction.written and is_connected(connection):
                enqueue(connection, actor, key, action, transaction.now, transaction.written)
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
        """Copy records exactly as another store has them and erase others, in one transaction.

        Returns the number of records written. The facts in `meta` are set in the same transaction,
        which isn't durable: after a power failure the records, facts and settled entry are lost
        together and come again. Applying twice has no further effect.

        `settle` is the outbox entry that this answers: it was accepted, or stays rejected with the
        code and reason in `refuse`. With `skip_waiting`, records changed by other waiting entries
        are left alone. A local record that is newer than the given one stays, unless the facts
        announce another epoch or a resync: then the numbering starts again.

        Raises: ConfigError CORE_MISSING if facts of the store aren't as `expected`; nothing is
        changed.
        """

        def attempt(connection: Connection) -> int:
            check_facts(connection, expected or {})
            if settle is not None:
                settle_entry(connection, settle, refuse)
            if _restarts_numbering(connection, meta):
                compare_anew(connection)
            set_facts(connection, meta)
            rows = self.rows(connection, wording)
            count = _copy(connection, rows, records, skip_waiting)
            for table in ("replica", "local_only", "elsewhere"):
                connection.executemany(
                    f"DELETE FROM {table} WHERE record = ?", [(record_id,) for record_id in erased]
                )
            if self._indexed:
                forget_sent(connection, erased, settle)
            rows.erase(erased)
            connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'applied'")
            return count

        return self._transact(attempt, durable=False)

    def rows(self, connection: Connection, wording: RecordTextExtractor) -> RecordRows:
        """Row access for these records, in a transaction of the caller."""
        return RecordRows(
            connection, wording if self._indexed else _not_indexed, shelved=self._shelved
        )

    def _transact(self, attempt: Callable[[Connection], R], *, durable: bool = True) -> R:
        """Run `attempt` in one transaction, and again if two writers conflict."""
        for attempt_number in range(1, ATTEMPTS):
            try:
                with self._connections.write(durable=durable, erase=True) as connection:
                    return attempt(connection)
            except WriteConflict:
                time.sleep(random.uniform(0, WAIT_SECONDS * attempt_number))
        with self._connections.write(durable=durable, erase=True) as connection:
            return attempt(connection)

    def look_ahead(self, ids: Iterable[str], actors: Sequence[str], keys: Sequence[str]) -> None:
        """Prefetch what several transactions in one batch will read, if the database benefits."""
        with self._connections.read() as connection:
            connection.prefetch(ids, get_records)
            connection.prefetch([(actor, key) for actor in actors for key in keys], _read_answers)

    def known(self, actor: Actor, key: str, action: str, payload: str) -> TransactionResult | None:
        """Earlier result of a key, None if it is new.

        Raises: InputError IDEMPOTENCY_REPLAY.
        """
        with self._connections.read() as connection:
            return _replay(connection, actor, key, _hash(action, payload))


def _copy(
    connection: Connection, rows: RecordRows, records: Sequence[VersionedRecord], skip_waiting: bool
) -> int:
    """Write records as another store has them; returns the number written.

    Skips those that wait to be sent and those that are newer here.
    """
    ids = [record.record.id for record in records]
    left = waiting_for(connection, ids) if skip_waiting else set[str]()
    known = marks_of(connection, ids)
    count = 0
    # Comments come after their threads, since the title of the thread is part of their text.
    for copy in sorted(records, key=lambda copy: copy.record.kind == "comment"):
        record_id, mark = copy.record.id, (copy.record.version, copy.change)
        if record_id in left:
            # The Core has the record, but the local one has another base.
            unlike = (record_id, copy.record.version, NEVER_HERE)
            connection.execute("INSERT OR IGNORE INTO replica VALUES (?, ?, ?)", unlike)
        elif known.get(record_id, mark)[1] <= copy.change:
            rows.copy(copy.record, copy.change)
            connection.execute(
                "INSERT OR REPLACE INTO replica VALUES (?, ?, ?)", (record_id, *mark)
            )
            known[record_id] = mark
            count += 1
    rows.settle()
    last = max((copy.change for copy in records), default=0)
    connection.execute("UPDATE counters SET value = max(value, ?) WHERE name = 'change'", (last,))
    return count


def _restarts_numbering(connection: Connection, meta: Mapping[str, str]) -> bool:
    """True if change numbers can't be compared with earlier ones."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'core.epoch'").fetchone()
    before = row[0] if row else ""
    return meta.get("core.resync") == "1" or meta.get("core.epoch", before) != before


def _read_answers(
    connection: Connection, keys: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], tuple[bytes, str]]:
    """Payload hash and result of those of these keys of actors that were used."""
    actors = tuple({actor for actor, _ in keys})
    query = (
        "SELECT actor, key, payload, result FROM keys "
        f"WHERE actor IN ({marks(actors)}) AND key IN (?*)"
    )
    names = list(dict.fromkeys(key for _, key in keys))
    rows = rows_in(connection, query, names, before=actors)
    return {(actor, key): (payload, result) for actor, key, payload, result in rows}


def _not_indexed(record: Record[Any], get: Callable[[str], Record[Any] | None]) -> None:
    return None


def _hash(action: str, payload: str) -> bytes:
    return hash_bytes(b"payload", action.encode(), payload.encode("utf-8", "surrogatepass"))


def _replay(
    connection: Connection, actor: Actor, key: str, digest: bytes
) -> TransactionResult | None:
    name = (actor.name, key)
    row = connection.cached(name, lambda connection: _read_answers(connection, [name]).get(name))
    if row is None:
        return None
    if row[0] != digest:
        raise InputError(
            "IDEMPOTENCY_REPLAY",
            f"the key {key!r} was used for another write; nothing was written now",
            context={"idempotency_key": key},
        )
    return TransactionResult(row[1], True)
