"""What a store that is connected to a Core still has to send there, and which of its records the Core has.

An entry is what one step wrote: each record as it was before and as it is then. It is written in that step's own transaction (`enqueue`)
and removed in the one that keeps the Core's answer (`Records.apply`), so that nothing is lost or sent as something else, wherever a
process dies. How to send is not known here.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cortex.errors import StoreError
from cortex.kinds import Actor, Body, Record
from cortex.store.connect import Connected
from cortex.store.recordjson import from_json, to_json
from cortex.store.recordlookup import BATCH, get_records
from cortex.store.recordwanted import marks
from cortex.text import hash_bytes

WAITING, REFUSED = "waiting", "refused"
CORE = "core.url"  # a fact of the store: where its Core is
UPLOADED = "core.uploaded"
UPLOAD = "upload"  # the action of an entry with what was there before
MOST_UPLOADED = 100  # records of one such entry
_COLUMNS = "id, key, actor, tier, action, at, changes, state, attempts, code, reason"


@dataclass(frozen=True, slots=True)
class Changed:
    """A record that a step wrote: None before, where it made it."""

    id: str
    kind: str
    author: str
    created: int
    before: Body | None
    after: Body


@dataclass(frozen=True, slots=True)
class Entry:
    """What one step wrote, on its way to the Core."""

    id: int
    key: str
    actor: str
    tier: int
    action: str
    at: int  # milliseconds since 1970
    changes: tuple[Changed, ...]
    state: str  # waiting or refused
    attempts: int
    code: str  # why it was refused
    reason: str  # that, or what went wrong when it was last tried


class Outbox:
    """The entries of a store, the oldest first."""

    def __init__(self, connections: Connected) -> None:
        self._connections = connections

    def waiting(self, limit: int = 50, after: int = 0) -> list[Entry]:
        """Those that are still to be sent, in the order in which they were written."""
        return self._entries("state = ? AND id > ? ORDER BY id LIMIT ?", (WAITING, after, limit))

    def refused(self) -> list[Entry]:
        """Those that the Core didn't take."""
        return self._entries("state = ? ORDER BY id", (REFUSED,))

    def get(self, number: int) -> Entry | None:
        """One entry."""
        return next(iter(self._entries("id = ?", (number,))), None)

    def count(self) -> tuple[int, int]:
        """How many wait, and how many were refused."""
        with self._connections.read() as connection:
            found = dict(connection.execute("SELECT state, count(*) FROM outbox GROUP BY state").fetchall())
        return found.get(WAITING, 0), found.get(REFUSED, 0)

    def is_waiting(self, record: str) -> bool:
        """Whether something that a record is about is still to be sent."""
        with self._connections.read() as connection:
            return bool(waiting_for(connection, [record]))

    def refuse(self, number: int, code: str, reason: str) -> None:
        """Keep an entry that the Core didn't take, with why, until somebody decides about it."""
        self._change("state = ?, code = ?, reason = ?, attempts = attempts + 1", (REFUSED, code, reason), [number])

    def tried(self, number: int, error: str) -> None:
        """Remember that an entry was sent in vain; it still waits."""
        self._change("attempts = attempts + 1, reason = ?", (error,), [number])

    def retry(self, ids: Sequence[int] | None = None) -> int:
        """Have refused entries sent once more, these or all; tells how many."""
        return self._change(f"state = ?, code = '' WHERE state = '{REFUSED}'", (WAITING,), ids)

    def drop(self, number: int) -> bool:
        """Give an entry up; false where there is none."""
        with self._connections.write(durable=True, erase=True) as connection:
            return connection.execute("DELETE FROM outbox WHERE id = ?", (number,)).rowcount > 0

    def known(self, ids: Iterable[str] | None = None) -> dict[str, tuple[int, int]]:
        """Those of these records (None: of all) that the Core has: version and change, as they last came from there."""
        with self._connections.read() as connection:
            if ids is None:
                rows = connection.execute("SELECT record, version, change FROM replica ORDER BY record").fetchall()
                return {record: (version, change) for record, version, change in rows}
            return marks_of(connection, list(ids))

    def upload(self, actor: Actor, mark: str) -> int:
        """Queue all that isn't at the Core yet, the first made first, once for each mark; tells how many records that are."""
        ask = (
            "SELECT id FROM records WHERE id NOT IN (SELECT record FROM replica) AND id NOT IN (SELECT record FROM local_only) "
            "AND id NOT IN (SELECT record FROM outbox_records) ORDER BY made, id"
        )
        with self._connections.write(durable=True) as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = ?", (UPLOADED,)).fetchone()
            if row is not None and row[0] == mark:
                return 0
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (UPLOADED, mark))
            return _queue(connection, [row[0] for row in connection.execute(ask)], actor, mark)

    def queue(self, ids: Sequence[str], actor: Actor, mark: str) -> int:
        """Queue these records as new ones: a Core that once had them has them no more. Those that wait anyway are left out."""
        with self._connections.write(durable=True) as connection:
            waiting = waiting_for(connection, ids)
            wanted = [number for number in ids if number not in waiting]
            connection.executemany("DELETE FROM replica WHERE record = ?", [(number,) for number in wanted])
            return _queue(connection, sorted(wanted, key=lambda number: number[-26:]), actor, mark)

    def forget(self) -> None:
        """Leave the Core: what waits, what is known of it, and where it is."""
        with self._connections.write(durable=True, erase=True) as connection:
            for table in ("outbox", "replica"):
                connection.execute(f"DELETE FROM {table}")
            connection.execute("DELETE FROM meta WHERE key >= 'core.' AND key < 'core/'")

    def _entries(self, where: str, values: Sequence[object]) -> list[Entry]:
        with self._connections.read() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM outbox WHERE {where}", values).fetchall()
        return [_entry(row) for row in rows]

    def _change(self, put: str, values: Sequence[object], ids: Sequence[int] | None) -> int:
        """Change entries, these or all that `put` says."""
        word = "AND" if "WHERE" in put else "WHERE"
        where = "" if ids is None else f" {word} id IN ({marks(ids)})"
        with self._connections.write(durable=True) as connection:
            return connection.execute(f"UPDATE outbox SET {put}{where}", (*values, *(ids or ()))).rowcount


def is_connected(connection: sqlite3.Connection) -> bool:
    """Whether the store has a Core."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (CORE,)).fetchone()
    return row is not None and bool(row[0])


def enqueue(
    connection: sqlite3.Connection,
    actor: Actor,
    key: str,
    action: str,
    at: int,
    written: Mapping[str, tuple[Record[Any] | None, Record[Any]]],
) -> bool:
    """Have what a step wrote sent to the Core: each record as it was before the step and as it is after it.

    Records that stay here, and those that say the same as before, are left out; false where nothing is left.
    """
    here = _local_only(connection, list(written))
    told = [
        {
            "id": after.id,
            "kind": after.kind,
            "author": after.author,
            "created": after.created,
            "before": None if before is None else json.loads(to_json(before.body)),
            "after": json.loads(to_json(after.body)),
        }
        for before, after in written.values()
        if after.id not in here and (before is None or before.body != after.body)
    ]
    if not told:
        return False
    number = connection.execute(
        "INSERT INTO outbox (key, actor, tier, action, at, changes, state, attempts, code, reason) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, 0, '', '')",
        (key, actor.name, actor.tier, action, at, json.dumps(told, ensure_ascii=False), WAITING),
    ).lastrowid
    connection.executemany("INSERT INTO outbox_records VALUES (?, ?)", [(one["id"], number) for one in told])
    return True


def waiting_for(connection: sqlite3.Connection, ids: Sequence[str], but: int = 0) -> set[str]:
    """Those of these records that some entry is about that waits, another one than `but`."""
    ask = (
        "SELECT DISTINCT record FROM outbox_records JOIN outbox ON outbox.id = entry "
        "WHERE state = 'waiting' AND entry <> ? AND record IN "
    )
    return {
        row[0]
        for start in range(0, len(ids), BATCH)
        for part in [ids[start : start + BATCH]]
        for row in connection.execute(f"{ask}({marks(part)})", (but, *part))
    }


def marks_of(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Those of these records that the Core has: version and change."""
    found: dict[str, tuple[int, int]] = {}
    for start in range(0, len(ids), BATCH):
        part = ids[start : start + BATCH]
        ask = f"SELECT record, version, change FROM replica WHERE record IN ({marks(part)})"
        found.update({record: (version, change) for record, version, change in connection.execute(ask, part)})
    return found


def _local_only(connection: sqlite3.Connection, ids: Sequence[str]) -> set[str]:
    return {
        row[0]
        for start in range(0, len(ids), BATCH)
        for part in [ids[start : start + BATCH]]
        for row in connection.execute(f"SELECT record FROM local_only WHERE record IN ({marks(part)})", part)
    }


def _queue(connection: sqlite3.Connection, ids: Sequence[str], actor: Actor, mark: str) -> int:
    """Entries with these records as if each had just been made; a key says which they are, so that twice is once."""
    now, count = int(time.time() * 1000), 0
    for start in range(0, len(ids), MOST_UPLOADED):
        found = get_records(connection, ids[start : start + MOST_UPLOADED])
        key = f"{UPLOAD}-{hash_bytes(mark.encode(), *(number.encode() for number in found)).hex()}"
        if enqueue(connection, actor, key, UPLOAD, now, {number: (None, one) for number, one in found.items()}):
            count += len(found)
    return count


def _entry(row: Sequence[Any]) -> Entry:
    number, key, actor, tier, action, at, told, *rest = row
    try:
        changes = tuple(
            Changed(
                one["id"],
                one["kind"],
                one["author"],
                one["created"],
                None if one["before"] is None else from_json(one["kind"], json.dumps(one["before"])),
                from_json(one["kind"], json.dumps(one["after"])),
            )
            for one in json.loads(told)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError("STORE_CORRUPT", f"the entry {number} of the outbox is damaged: {error}") from error
    return Entry(number, key, actor, tier, action, at, changes, *rest)
