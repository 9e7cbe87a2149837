"""What a store that is connected to a Core still has to send there, and which of its records the Core has.

An entry is what one step wrote: each record as it was before and as it is then. It is written in that step's own transaction (`enqueue`)
and settled in the one that keeps the Core's answer (`Records.apply`), so that nothing is lost or sent as something else, wherever a
process dies. What the Core took stays for a while as sent: one that was put back from a backup gets it again, under the same keys, and
takes what it has lost. How to send is not known here. Road not taken: finding out by versions what was lost; others write meanwhile.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cortex.errors import ConfigError, StoreError
from cortex.kinds import Actor, Body, Record
from cortex.store.connect import Connected
from cortex.store.recordjson import from_json, to_json
from cortex.store.recordlookup import BATCH, get_records
from cortex.store.recordwanted import marks
from cortex.text import hash_bytes

WAITING, REFUSED, SENT = "waiting", "refused", "sent"
CORE = "core.url"  # a fact of the store: where its Core is
DEVICE = "core.device"  # which home that is among those of one person; part of each key
UPLOADED = "core.uploaded"
UPLOAD = "upload"  # the action of an entry with what was there before
MOST_UPLOADED = 100  # records of one such entry
KEPT_MS = 30 * 86_400_000  # that what was sent stays
MOST_KEPT, MOST_KEPT_BYTES = 10_000, 50_000_000  # entries that were sent; the oldest go
TRIM_EVERY = 64  # entries
FIRST = -(2**62)  # less than the number of any entry
_COLUMNS = "id, key, actor, tier, action, at, changes, state, attempts, code, reason, taken"


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
    key: str  # with the home that it is of
    actor: str
    tier: int
    action: str
    at: int  # milliseconds since 1970
    changes: tuple[Changed, ...]
    state: str  # waiting, refused or sent
    attempts: int
    code: str  # why it was refused
    reason: str  # that, or what went wrong when it was last tried
    taken: int  # when the Core last took it, 0 for never: what waits or was refused all the same is sent again


class Outbox:
    """The entries of a store, the oldest first."""

    def __init__(self, connections: Connected) -> None:
        self._connections = connections

    def waiting(self, limit: int = 50, after: int = FIRST) -> list[Entry]:
        """Those that are still to be sent, in the order in which they have to be."""
        return self._entries("state = ? AND id > ? ORDER BY id LIMIT ?", (WAITING, after, limit))

    def refused(self) -> list[Entry]:
        """Those that the Core didn't take."""
        return self._entries("state = ? ORDER BY id", (REFUSED,))

    def count(self) -> tuple[int, int]:
        """How many wait, and how many were refused."""
        with self._connections.read() as connection:
            found = dict(connection.execute("SELECT state, count(*) FROM outbox GROUP BY state").fetchall())
        return found.get(WAITING, 0), found.get(REFUSED, 0)

    def is_waiting(self, record: str) -> bool:
        """Whether something that a record is about is still to be sent."""
        with self._connections.read() as connection:
            return bool(waiting_for(connection, [record]))

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

    def size(self) -> tuple[int, int]:
        """How many records of the Core are here, and how many bytes they say."""
        ask = "SELECT count(*), coalesce(sum(length(CAST(body AS BLOB))), 0) FROM replica JOIN records ON records.id = record"
        with self._connections.read() as connection:
            count, size = connection.execute(ask).fetchone()
            return count, size

    def upload(self, actor: Actor, mark: str, meta: Mapping[str, str] | None = None) -> int:
        """Queue all that isn't at the Core yet, the first made first, once for each mark; tells how many records that are.

        The facts in `meta` are set in the same transaction: whatever is written after it is queued behind.
        """
        ask = (
            "SELECT id FROM records WHERE id NOT IN (SELECT record FROM replica) AND id NOT IN (SELECT record FROM local_only) "
            "AND id NOT IN (SELECT record FROM outbox_records) ORDER BY made, id"
        )
        with self._connections.write(durable=True) as connection:
            set_facts(connection, meta or {})
            row = connection.execute("SELECT value FROM meta WHERE key = ?", (UPLOADED,)).fetchone()
            if row is not None and row[0] == mark:
                return 0
            set_facts(connection, {UPLOADED: mark})
            ids = [row[0] for row in connection.execute(ask)]
            return _queue(connection, list(get_records(connection, ids).values()), actor, mark)

    def queue(self, ids: Sequence[str], actor: Actor, mark: str) -> int:
        """Queue these records as new ones, before all that waits: a Core that once had them has them no more.

        What waits may build on them, so one that an entry waits for is queued as it was before that entry.
        """
        with self._connections.write(durable=True) as connection:
            connection.executemany("DELETE FROM replica WHERE record = ?", [(number,) for number in ids])
            found = get_records(connection, sorted(ids, key=lambda number: number[-26:]))
            wanted = list(_as_before(connection, found).values())
            return _queue(connection, wanted, actor, mark, _places(connection, len(wanted)), taken=_now())

    def begin_again(self, facts: Mapping[str, str], expected: Mapping[str, str], *, resend: bool) -> int:
        """Have everything compared with the Core; with `resend` all that it took waits again, in its order. Tells how many entries.

        Raises: ConfigError CORE_MISSING, where the store isn't as expected.
        """
        again = f"UPDATE outbox SET state = '{WAITING}', attempts = 0, code = '', reason = '' WHERE state = '{SENT}'"
        with self._connections.write(durable=True) as connection:
            check_facts(connection, expected)
            set_facts(connection, facts)
            connection.execute("UPDATE replica SET change = 0")
            return connection.execute(again).rowcount if resend else 0

    def rename(self, record: str, before: str, slug: str) -> None:
        """Have a subcortex that was never taken sent by another slug; a draft for it names its id."""
        ask = f"SELECT id, changes FROM outbox WHERE state IN ('{WAITING}', '{REFUSED}')"
        with self._connections.write(durable=True) as connection:
            for number, told in connection.execute(ask).fetchall():
                changes = json.loads(told)
                for one in changes:
                    for body in filter(None, (one["before"], one["after"])):
                        if one["id"] == record:
                            body["slug"] = slug
                        elif one["kind"] == "draft" and body.get("target") == before:
                            body["target"] = record
                if (new := json.dumps(changes, ensure_ascii=False)) != told:
                    connection.execute("UPDATE outbox SET changes = ? WHERE id = ?", (new, number))

    def split(self, number: int) -> None:
        """Have each record of an entry sent for itself, before all that waits."""
        with self._connections.write(durable=True) as connection:
            row = connection.execute(f"SELECT {_COLUMNS} FROM outbox WHERE id = ?", (number,)).fetchone()
            if row is None:
                return
            connection.execute("DELETE FROM outbox WHERE id = ?", (number,))
            _, key, actor, tier, action, at, told, *_, taken = row
            changes = json.loads(told)
            for part, (place, one) in enumerate(zip(_places(connection, len(changes)), changes, strict=True)):
                _put(connection, Actor(actor, tier), f"{key}.{part}", action, at, [one], place, taken)

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
    place: int | None = None,
    taken: int = 0,
) -> bool:
    """Have what a step wrote sent to the Core: each record as it was before the step and as it is after it.

    Records that stay here, and those that say the same as before, are left out; false where nothing is left. It comes behind all
    others, unless a number says its place.
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
    _put(connection, actor, f"{key}@{_device(connection)}", action, at, told, place, taken)
    return True


def settle_entry(connection: sqlite3.Connection, number: int, refuse: tuple[str, str] | None) -> None:
    """Be done with an entry: it was taken, or it stays with why it wasn't."""
    if refuse is not None:
        put = "UPDATE outbox SET state = ?, code = ?, reason = ?, attempts = attempts + 1 WHERE id = ?"
        connection.execute(put, (REFUSED, *refuse, number))
        return
    put = "UPDATE outbox SET state = ?, code = '', reason = '', taken = ? WHERE id = ?"
    connection.execute(put, (SENT, _now(), number))
    if number % TRIM_EVERY == 0:
        _trim(connection)


def forget_sent(connection: sqlite3.Connection, ids: Sequence[str], but: int | None) -> None:
    """Keep nothing of what was sent, but for the entry `but`, that holds one of these records: they are erased."""
    gone = "DELETE FROM outbox WHERE state = 'sent' AND id <> ? AND id IN (SELECT entry FROM outbox_records WHERE record = ?)"
    connection.executemany(gone, [(but or 0, number) for number in ids])


def check_facts(connection: sqlite3.Connection, expected: Mapping[str, str]) -> None:
    """Raises: ConfigError CORE_MISSING, where the store is connected otherwise than is expected, or not any more."""
    for key, value in expected.items():
        row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        if (row[0] if row else "") != value:
            raise ConfigError("CORE_MISSING", "this home is no longer connected to that Core; nothing was changed")


def set_facts(connection: sqlite3.Connection, facts: Mapping[str, str]) -> None:
    """Keep facts about the store."""
    connection.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", list(facts.items()))


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


def _trim(connection: sqlite3.Connection) -> None:
    """Keep of what was sent only what is young, and not too much of it."""
    newest = "OVER (ORDER BY taken DESC, id DESC)"
    connection.execute(
        "DELETE FROM outbox WHERE id IN (SELECT id FROM (SELECT id, taken, count(*) "
        f"{newest} AS place, sum(length(changes)) {newest} AS size FROM outbox WHERE state = ?) "
        "WHERE taken < ? OR place > ? OR size > ?)",
        (SENT, _now() - KEPT_MS, MOST_KEPT, MOST_KEPT_BYTES),
    )


def _device(connection: sqlite3.Connection) -> str:
    """Which home this is: as it was connected, or else the store itself."""
    ask = "SELECT value FROM meta WHERE key IN (?, 'identity') AND value <> '' ORDER BY key LIMIT 1"
    row = connection.execute(ask, (DEVICE,)).fetchone()
    return row[0] if row else ""


def _queue(
    connection: sqlite3.Connection,
    records: Sequence[Record[Any]],
    actor: Actor,
    mark: str,
    places: Sequence[int] = (),
    taken: int = 0,
) -> int:
    """Entries with these records as if each had just been made, at these places or behind all others.

    A key says which they are, so that twice is once.
    """
    now, count = _now(), 0
    for part, start in enumerate(range(0, len(records), MOST_UPLOADED)):
        some = records[start : start + MOST_UPLOADED]
        key = f"{UPLOAD}-{hash_bytes(mark.encode(), *(one.id.encode() for one in some)).hex()}"
        made: dict[str, tuple[Record[Any] | None, Record[Any]]] = {one.id: (None, one) for one in some}
        if enqueue(connection, actor, key, UPLOAD, now, made, places[part] if places else None, taken):
            count += len(some)
    return count


def _put(
    connection: sqlite3.Connection,
    actor: Actor,
    key: str,
    action: str,
    at: int,
    told: Sequence[Mapping[str, Any]],
    place: int | None,
    taken: int,
) -> None:
    number = connection.execute(
        "INSERT INTO outbox (id, key, actor, tier, action, at, changes, state, attempts, code, reason, taken) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, '', '', ?)",
        (place, key, actor.name, actor.tier, action, at, json.dumps(told, ensure_ascii=False), WAITING, taken),
    ).lastrowid
    connection.executemany("INSERT INTO outbox_records VALUES (?, ?)", [(one["id"], number) for one in told])


def _now() -> int:
    return int(time.time() * 1000)


def _places(connection: sqlite3.Connection, count: int) -> range:
    """Numbers for so many entries that come before all that are there."""
    first = connection.execute("SELECT min(0, coalesce(min(id), 0)) FROM outbox").fetchone()[0]
    return range(first - count, first)


def _as_before(connection: sqlite3.Connection, records: Mapping[str, Record[Any]]) -> dict[str, Record[Any]]:
    """Records as they were before the first entry that waits for each; without those that an entry makes."""
    found = dict(records)
    ask = (
        "SELECT changes FROM outbox JOIN outbox_records ON outbox.id = entry "
        f"WHERE state = '{WAITING}' AND record = ? ORDER BY outbox.id LIMIT 1"
    )
    for number, one in records.items():
        row = connection.execute(ask, (number,)).fetchone()
        before = row and next(told["before"] for told in json.loads(row[0]) if told["id"] == number)
        if row and before is None:
            del found[number]
        elif row:
            found[number] = replace(one, body=from_json(one.kind, json.dumps(before)))
    return found


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
