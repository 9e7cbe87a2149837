"""One step of writing records, under way: what it reads, as far as whoever writes may see it, and
what it writes.

All of it happens inside the transaction of `records.py`: a record is only replaced by who has seen
its last version, so that no update is lost. What a record means, and who may write it, is not known
here.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import KINDS, Actor, Body, Record, RecordFilter, Subcortex
from cortex.base.visibility import Get
from cortex.engine.store.records.outbox_rows import unaccepted
from cortex.engine.store.records.row_reader import select_records, starting_with
from cortex.engine.store.records.rows import RecordRows
from cortex.engine.store.records.write_batch import INTO_AUDIT, WriteBatch, insert

FEWEST_LOOKED_AT = 20  # of those that are wanted, where not all may be seen

# Of each kind by itself, which an index tells.
_NEWEST = f"SELECT max(made) FROM ({' UNION ALL '.join(['SELECT max(made) AS made FROM records WHERE kind = ?'] * len(KINDS))}) AS each_kind"

Sees = Callable[[Record[Any], Get], bool]  # whether the one who writes may know of a record
# Raises, where a write isn't allowed
Guard = Callable[[Record[Any] | None, Record[Any], Get], None]
# A record as it may be written, after the one before
Screened = Callable[[Record[Any] | None, Record[Any]], Record[Any]]


class RecordTransaction:
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
        *,
        synced: bool = True,
        screen: Screened | None = None,
    ) -> None:
        """`synced` says that the store may have a Core, and an outbox."""
        self.now = int(time.time() * 1000)
        self.actor = actor
        # Of what is new: whoever does it, unless it is done for somebody else
        self.author = actor.name
        # Before the step, and after it
        self.written: dict[str, tuple[Record[Any] | None, Record[Any]]] = {}
        # The numbers of what was written, as long as nothing moved with it
        self.changes: dict[str, int] = {}
        self._connection = connection
        self._rows = rows
        self._key, self._action = key, action
        self._sees, self._guard, self._screen = sees, guard, screen
        self._synced = synced
        # Nobody else writes while a step is under way
        self._read: dict[str, Record[Any] | None] = {}

    def get(self, number: str) -> Record[Any] | None:
        """The record of this id, as it is now."""
        found = self._get(number)
        return found if found is not None and self._shows(found) else None

    def select(self, wanted: RecordFilter, limit: int = 100) -> list[Record[Any]]:
        """The records that are wanted, as they are now."""
        return self._shown(
            lambda count, offset: select_records(self._connection, wanted, count, offset), limit
        )

    def starting(self, prefix: str, limit: int = 10) -> list[Record[Any]]:
        """The records whose id begins like this, as they are now."""
        return self._shown(
            lambda count, offset: starting_with(self._connection, prefix, count, offset), limit
        )

    def newest(self) -> str:
        """The end of the id of what was made last, "" where there is nothing."""
        known = self._connection.newest if isinstance(self._connection, WriteBatch) else None
        if known is None:
            known = self._connection.execute(_NEWEST, tuple(KINDS)).fetchone()[0] or ""
        if isinstance(self._connection, WriteBatch):
            self._connection.newest = known
        return known

    def put(self, record: Record[Any], action: str = "") -> Record[Any]:
        """Write a record: a new one, or the next version of the one that was read; returns it as it
        is kept.

        Raises: InputError RECORD_CHANGED, where somebody has written another version since;
        RECORD_INVALID for a slug that is taken; whatever the guard raises.
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
                f"{record.id} was changed meanwhile: it has version {before} now, not {record.version}",
                context={"id": record.id, "version": before},
            )
        if isinstance(kept.body, Subcortex):
            self._check_slug(kept.id, kept.body.slug)
        if known is not None:
            self._rows.keep_version(record.id)
        self.changes[kept.id] = self._rows.write(known, kept)
        actor = self.actor
        who, what = (
            (actor.name, actor.tier, self._key),
            (action or self._action, kept.id, kept.version),
        )
        insert(self._connection, INTO_AUDIT, [(self.now, *who, *what, actor.via)])
        first = self.written.get(kept.id)
        self.written[kept.id] = (known if first is None else first[0], kept)
        self._read[kept.id] = kept
        return kept

    def make(self, number: str, body: Body, action: str = "") -> Record[Any]:
        """Write a new record."""
        return self.put(Record(number, body), action)

    def unaccepted(self) -> dict[str, str]:
        """Records that the Core didn't take, with the reason."""
        return unaccepted(self._connection) if self._synced else {}

    def reword(self, record: Record[Any]) -> None:
        """Have a record found by what it says now, where only something that it tells besides was
        changed.
        """
        self._rows.reword(record)

    @contextmanager
    def unconfined(self) -> Iterator[None]:
        """Show everything inside the block and ask no guard: what follows from a write that was
        allowed concerns all, seen or not.
        """
        sees, guard = self._sees, self._guard
        self._sees = self._guard = None
        try:
            yield
        finally:
            self._sees, self._guard = sees, guard

    def _get(self, number: str) -> Record[Any] | None:
        if number not in self._read:
            self._read[number] = self._rows.one(number)
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
        """Raises: InputError RECORD_INVALID, where another subcortex has the slug, be it one that
        nobody here may know of.
        """
        ask = "SELECT 1 FROM refs WHERE role = 'slug' AND target = ? AND record <> ?"
        if self._connection.execute(ask, (slug, number)).fetchone() is not None:
            raise InputError(
                "RECORD_INVALID", f"the slug {slug} is taken", context={"field": "slug"}
            )


def _paged(ask: Callable[[int, int], list[Record[Any]]], size: int) -> Iterator[Record[Any]]:
    """All, in pages that become larger."""
    offset = 0
    while page := ask(size, offset):
        yield from page
        if len(page) < size:
            return
        offset, size = offset + size, size * 2
