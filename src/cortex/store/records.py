"""Records, written: each step is one durable transaction with its idempotency key, its history, its docs and its line in the audit log.

Whatever a step reads, it reads inside that transaction, and a record is only replaced by who has seen its last version: no update is
lost, in one process or in several. A step is a function and not a block, because another database may have to run it again. What a
record means, and who may write it, is not known here.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cortex.errors import InputError
from cortex.kinds import KINDS, SENSITIVE, Actor, Body, Record, Wanted, refs_of
from cortex.seeing import scope_of
from cortex.store.connect import Connected
from cortex.store.recordjson import to_json
from cortex.store.recordlookup import get_records, select_records, starting_with
from cortex.store.recordshelves import RECORDS, Shelf
from cortex.store.truth import next_seq, put_blob, put_doc, remove_doc
from cortex.text import hash_bytes
from cortex.types import Cut, Found


@dataclass(frozen=True, slots=True)
class Worded:
    """What of a record is indexed: a hash, and the text with its chunks; `meaning` says whether vectors are made of it."""

    hash: bytes
    cut: Cut
    meaning: bool = True


# How a record is found, None: not at all. What else there is may be looked up by id.
Wording = Callable[[Record[Any], Callable[[str], Record[Any] | None]], Worded | None]


@dataclass(frozen=True, slots=True)
class Done:
    """What a step gave; `replayed` where it had been done before under the same key, and nothing was written now."""

    result: str
    replayed: bool


class Step:
    """One step under way: what there is, and what is written."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        actor: Actor,
        key: str,
        action: str,
        wording: Wording,
        shelved: bool = False,
    ) -> None:
        self.now = int(time.time() * 1000)
        self.actor = actor
        self.author = actor.name  # of what is new: whoever does it, unless it is done for somebody else
        self._connection = connection
        self._key, self._action = key, action
        self._wording = wording
        self._shelved = shelved
        self._seq = 0

    def get(self, number: str) -> Record[Any] | None:
        """The record of this id, as it is now."""
        return get_records(self._connection, [number]).get(number)

    def select(self, wanted: Wanted, limit: int = 100) -> list[Record[Any]]:
        """The records that are wanted, as they are now."""
        return select_records(self._connection, wanted, limit)

    def starting(self, prefix: str, limit: int = 10) -> list[Record[Any]]:
        """The records whose id begins like this, as they are now."""
        return starting_with(self._connection, prefix, limit)

    def newest(self) -> str:
        """The end of the id of what was made last, "" where there is nothing."""
        ask = "SELECT max(made) FROM records WHERE kind = ?"
        return max(self._connection.execute(ask, (kind,)).fetchone()[0] or "" for kind in KINDS)

    def put(self, record: Record[Any], action: str = "") -> Record[Any]:
        """Write a record: a new one, or the next version of the one that was read; returns it as it is kept.

        Raises: InputError RECORD_CHANGED, where somebody has written another version since.
        """
        known = self.get(record.id)
        before = known.version if known else 0
        if record.version != before:
            raise InputError(
                "RECORD_CHANGED",
                f"{record.id} was changed meanwhile: it has version {before} now, not {record.version}",
                context={"id": record.id, "version": before},
            )
        kept = replace(
            record,
            author=known.author if known else (record.author or self.author),
            created=known.created if known else (record.created or self.now),
            updated=self.now,
            version=before + 1,
        )
        if known is not None:
            self._connection.execute(
                "INSERT INTO versions SELECT id, version, kind, body, author, created, updated FROM records WHERE id = ?",
                (record.id,),
            )
        self._write(kept, known is None)
        self._connection.execute(
            "INSERT INTO audit (at, actor, tier, key, action, record, version) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (self.now, self.actor.name, self.actor.tier, self._key, action or self._action, kept.id, kept.version),
        )
        return kept

    def make(self, number: str, body: Body, action: str = "") -> Record[Any]:
        """Write a new record."""
        return self.put(Record(number, body), action)

    def reword(self, record: Record[Any]) -> None:
        """Have a record found by what it says now, where only something that it tells besides was changed."""
        source = self._put_doc(record, self._source_of(record.id))
        self._connection.execute("UPDATE records SET source = ? WHERE id = ?", (source, record.id))

    def _write(self, kept: Record[Any], new: bool) -> None:
        body = kept.body
        source = self._put_doc(kept, None if new else self._source_of(kept.id))
        values = (kept.version, body.state, body.sensitivity, to_json(body), kept.updated, source, self._next_change())
        if new:
            self._connection.execute(
                "INSERT INTO records (version, state, sensitivity, body, updated, source, change, id, kind, author, created, made) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, kept.id, kept.kind, kept.author, kept.created, kept.id[-26:]),
            )
        else:
            self._connection.execute(
                "UPDATE records SET version = ?, state = ?, sensitivity = ?, body = ?, updated = ?, source = ?, change = ? WHERE id = ?",
                (*values, kept.id),
            )
            self._connection.execute("DELETE FROM refs WHERE record = ?", (kept.id,))
        self._connection.executemany(
            "INSERT INTO refs VALUES (?, ?, ?)", [(role, target, kept.id) for role, target in refs_of(body)]
        )

    def _next_change(self) -> int:
        """The number of this write. The counter's row is locked until the step ends: whoever reads 12 has seen 11 committed."""
        self._connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'change'")
        return self._connection.execute("SELECT value FROM counters WHERE name = 'change'").fetchone()[0]

    def _source_of(self, number: str) -> int | None:
        row = self._connection.execute("SELECT source FROM records WHERE id = ?", (number,)).fetchone()
        return row[0] if row else None

    def _put_doc(self, kept: Record[Any], before: int | None) -> int | None:
        """Have a record found in the source of its kind, or on its shelf, and nowhere else; gives the source."""
        worded = self._wording(kept, self.get)
        source = None if worded is None else self._source(self._shelf(kept, worded.meaning).name)
        if worded is not None and source is not None and source == before and self._says(source, kept.id, worded.hash):
            return source
        if (before is not None or source is not None) and not self._seq:
            self._seq = next_seq(self._connection)
        if before is not None and before != source:
            remove_doc(self._connection, before, kept.id, self._seq)
        if worded is not None and source is not None:
            blob = put_blob(self._connection, worded.hash, worded.cut, meaning=worded.meaning)
            found = Found(kept.id, len(worded.cut.text.encode("utf-8")), kept.updated * 1_000_000)
            put_doc(self._connection, source, found, blob, "", self._seq, time.time_ns())
        return source

    def _shelf(self, kept: Record[Any], meaning: bool) -> Shelf:
        if not self._shelved:
            return Shelf(kept.kind, meaning)
        return Shelf(kept.kind, meaning, scope_of(kept, self.get), kept.body.sensitivity == SENSITIVE)

    def _says(self, source: int, number: str, text: bytes) -> bool:
        """Whether a record is found by this text already: a thread is written anew with each comment, and rarely says something else."""
        ask = "SELECT 1 FROM docs JOIN blobs ON blobs.id = docs.blob WHERE docs.source = ? AND docs.path = ? AND blobs.hash = ?"
        return self._connection.execute(ask, (source, number, text)).fetchone() is not None

    def _source(self, name: str) -> int:
        ask = "SELECT id FROM sources WHERE kind = ? AND name = ? AND root = ''"
        if (row := self._connection.execute(ask, (RECORDS, name)).fetchone()) is not None:
            return row[0]
        put = "INSERT INTO sources (kind, name, root) VALUES (?, ?, '')"
        number = self._connection.execute(put, (RECORDS, name)).lastrowid
        assert number is not None
        return number


class Records:
    """The records of a store, for writing."""

    def __init__(self, connections: Connected, *, indexed: bool = True, shelved: bool = False) -> None:
        """Without `indexed` the records have no docs beside them: they are found elsewhere. `shelved`, each scope has sources of its own."""
        self._connections = connections
        self._indexed = indexed
        self._shelved = shelved

    def perform(
        self, work: Callable[[Step], str], *, actor: Actor, key: str, action: str, payload: str, wording: Wording
    ) -> Done:
        """Do `work` as one step, once for each key of an actor: all of it or nothing, and on the disk when this returns.

        The text that `work` gives is kept with the key. Raises: InputError IDEMPOTENCY_REPLAY for a key that was used for something
        else, RECORD_CHANGED; whatever `work` raises.
        """
        asked = _hash(action, payload)
        with self._connections.write(durable=True, erase=True) as connection:
            if (before := _replay(connection, actor, key, asked)) is not None:
                return before
            step = Step(connection, actor, key, action, wording if self._indexed else _unfound, self._shelved)
            result = work(step)
            connection.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", (actor.name, key, asked, result, step.now))
            return Done(result, False)

    def known(self, actor: Actor, key: str, action: str, payload: str) -> Done | None:
        """What a key gave before, None where it is new. Raises: InputError IDEMPOTENCY_REPLAY."""
        with self._connections.read() as connection:
            return _replay(connection, actor, key, _hash(action, payload))


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
