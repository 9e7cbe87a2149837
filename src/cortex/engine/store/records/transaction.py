"""Transaction over records: filtered reads, checked writes.

Runs inside the database transaction of `writer.py`. A record is only replaced by a writer that has
read its latest version, so that no update is lost. Doesn't know what a record means or who may
write it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import KINDS, Actor, Body, Record, RecordFilter, Subcortex
from cortex.base.visibility import Get
from cortex.engine.store.connection import Connection
from cortex.engine.store.records.outbox_rows import unaccepted
from cortex.engine.store.records.row_reader import select_records, starting_with
from cortex.engine.store.records.rows import RecordRows, RecordTextExtractor
from cortex.engine.store.records.write_batch import INTO_AUDIT, NEWEST

# Smallest page read if some of the matching records may be hidden.
FEWEST_LOOKED_AT = 20

# The maximum of each kind by itself comes from an index.
_NEWEST_OF_KIND = "SELECT max(made) AS made FROM records WHERE kind = ?"

# True if the actor may see a record.
Sees = Callable[[Record[Any], Get], bool]
# Raises if a write isn't allowed.
Guard = Callable[[Record[Any] | None, Record[Any], Get], None]
# Returns the record in the form in which it may be written; the first argument is the old one.
Screened = Callable[[Record[Any] | None, Record[Any]], Record[Any]]


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    """Actor, idempotency key and rules of one transaction."""

    actor: Actor
    key: str
    action: str
    # The whole request as text, to detect a key that is used for another one.
    payload: str
    wording: RecordTextExtractor
    # Limits what the transaction shows.
    sees: Sees | None = None
    # Called before each write.
    guard: Guard | None = None
    # Returns each record in the form in which it may be written.
    screen: Screened | None = None
    # True if nothing is queued for the Core; records created in it are never sent.
    quiet: bool = False


class RecordTransaction:
    """Open transaction: reads what the actor may see, and writes."""

    def __init__(
        self,
        connection: Connection,
        rows: RecordRows,
        options: TransactionOptions,
        *,
        synced: bool = True,
    ) -> None:
        """Start a transaction; `synced` if the store may have a Core and an outbox."""
        self.now = int(time.time() * 1000)
        self.actor = options.actor
        # Author of new records: the actor, unless it writes on behalf of another principal.
        self.author = options.actor.name
        # Each written record before and after the transaction.
        self.written: dict[str, tuple[Record[Any] | None, Record[Any]]] = {}
        # Change number of each written record, not of records moved along with it.
        self.changes: dict[str, int] = {}
        self._connection = connection
        self._rows = rows
        self._key, self._action = options.key, options.action
        self._sees, self._guard, self._screen = options.sees, options.guard, options.screen
        self._synced = synced
        # A valid cache, since no other writer is active during the transaction.
        self._read: dict[str, Record[Any] | None] = {}

    def get(self, record_id: str) -> Record[Any] | None:
        """Current record with this id, None if it is missing or hidden."""
        record = self._get(record_id)
        return record if record is not None and self._is_visible(record) else None

    def select(self, wanted: RecordFilter, limit: int = 100) -> list[Record[Any]]:
        """Current records that match a filter."""
        return self._visible(
            lambda count, offset: select_records(self._connection, wanted, count, offset), limit
        )

    def starting(self, prefix: str, limit: int = 10) -> list[Record[Any]]:
        """Current records with ids that start with `prefix`."""
        return self._visible(
            lambda count, offset: starting_with(self._connection, prefix, count, offset), limit
        )

    def newest(self) -> str:
        """Suffix of the id of the newest record, "" if there is none."""
        of_kinds = " UNION ALL ".join([_NEWEST_OF_KIND] * len(KINDS))
        query = f"SELECT max(made) FROM ({of_kinds}) AS each_kind"
        # A buffered record may be the newest one, so the query goes through the buffer.
        return self._connection.cached(
            NEWEST, lambda _: self._connection.execute(query, tuple(KINDS)).fetchone()[0] or ""
        )

    def put(self, record: Record[Any], action: str = "") -> Record[Any]:
        """Write a new record or the next version of an existing one; returns it as stored.

        Raises: InputError RECORD_CHANGED if another version was written since it was read;
        RECORD_INVALID for a slug that is taken; any error of the guard.
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
        if self._screen is not None:
            kept = self._screen(known, kept)
        if record.version != before:
            raise InputError(
                "RECORD_CHANGED",
                f"{record.id} was changed meanwhile: it has version {before} now, not "
                f"{record.version}",
                context={"id": record.id, "version": before},
            )
        if isinstance(kept.body, Subcortex):
            self._check_slug(kept.id, kept.body.slug)
        if known is not None:
            self._rows.keep_version(record.id)
        self.changes[kept.id] = self._rows.write(known, kept)
        actor = self.actor
        origin, subject = (
            (actor.name, actor.tier, self._key),
            (action or self._action, kept.id, kept.version),
        )
        self._connection.insert(INTO_AUDIT, [(self.now, *origin, *subject, actor.via)])
        first = self.written.get(kept.id)
        self.written[kept.id] = (known if first is None else first[0], kept)
        self._read[kept.id] = kept
        return kept

    def make(self, record_id: str, body: Body, action: str = "") -> Record[Any]:
        """Write a new record."""
        return self.put(Record(record_id, body), action)

    def unaccepted(self) -> dict[str, str]:
        """Records rejected by the Core, with the reason."""
        return unaccepted(self._connection) if self._synced else {}

    def reword(self, record: Record[Any]) -> None:
        """Index a record again after a change of a related record that its text includes."""
        self._rows.reword(record)

    @contextmanager
    def unconfined(self) -> Iterator[None]:
        """Show everything and skip the guard inside the block.

        For the consequences of an allowed write, which affect hidden records too.
        """
        sees, guard = self._sees, self._guard
        self._sees = self._guard = None
        try:
            yield
        finally:
            self._sees, self._guard = sees, guard

    def _get(self, record_id: str) -> Record[Any] | None:
        if record_id not in self._read:
            self._read[record_id] = self._rows.one(record_id)
        return self._read[record_id]

    def _is_visible(self, record: Record[Any]) -> bool:
        """True if the actor may see a record."""
        return self._sees is None or self._sees(record, self._rows.get)

    def _visible(
        self, fetch: Callable[[int, int], list[Record[Any]]], limit: int
    ) -> list[Record[Any]]:
        """First visible records, reading as many pages as needed."""
        if self._sees is None:
            return fetch(limit, 0)
        visible: dict[str, Record[Any]] = {}
        for record in _paged(fetch, max(limit, FEWEST_LOOKED_AT)):
            if len(visible) == limit:
                break
            if self._is_visible(record):
                visible[record.id] = record
        return list(visible.values())

    def _check_slug(self, record_id: str, slug: str) -> None:
        """Check that no other subcortex has the slug, visible or not.

        Raises: InputError RECORD_INVALID.
        """
        query = "SELECT 1 FROM refs WHERE role = 'slug' AND target = ? AND record <> ?"
        if self._connection.execute(query, (slug, record_id)).fetchone() is not None:
            raise InputError(
                "RECORD_INVALID", f"the slug {slug} is taken", context={"field": "slug"}
            )


def _paged(fetch: Callable[[int, int], list[Record[Any]]], size: int) -> Iterator[Record[Any]]:
    """Yield all records, in pages of growing size."""
    offset = 0
    while page := fetch(size, offset):
        yield from page
        if len(page) < size:
            return
        offset, size = offset + size, size * 2
