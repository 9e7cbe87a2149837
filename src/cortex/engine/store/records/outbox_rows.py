"""How what is to be sent lies in the tables: an entry for each step, and which records it is about.

Whoever writes a step (`enqueue`) or keeps the Core's answer (`settle_entry`) comes through here,
inside a transaction of theirs.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from cortex.base.errors import ConfigError, StoreError
from cortex.base.record_model import KINDS, SUMMARY, Actor, Body, Record
from cortex.engine.store.records.json_codec import from_told, told_of
from cortex.engine.store.records.row_reader import BATCH, get_records, kind_of_id
from cortex.engine.store.records.rows import UNSEEN
from cortex.engine.store.sql import marks, parts

WAITING, REFUSED, SENT = "waiting", "refused", "sent"
CORE = "core.url"  # a fact of the store: where its Core is
TIER = "core.tier"  # what the Core lets the person do, as it last said
DEVICE = "core.device"  # which home that is among those of one person; part of each key
KEPT_MS = 30 * 86_400_000  # that what was sent stays
MOST_KEPT, MOST_KEPT_BYTES = 10_000, 50_000_000  # entries that were sent; the oldest go
# In place of a change: the Core has it, but what is here goes on from something else
NEVER_HERE = -1
TRIM_EVERY = 64  # entries
# Fields that name something, and say nothing
POINTING = frozenset(
    (
        "slug",
        "subcortex",
        "thread",
        "task",
        "parent",
        "target",
        "about",
        "source",
        "relation",
        "type",
        "recipient",
    )
)
COLUMNS = "id, key, actor, tier, action, at, changes, state, attempts, code, reason, taken"


@dataclass(frozen=True, slots=True)
class RecordChange:
    """A record that a step wrote: None before, where it made it."""

    id: str
    kind: str
    author: str
    created: int
    before: Body | None
    after: Body


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """What one step wrote, on its way to the Core."""

    id: int
    key: str  # with the home that it is of
    actor: str
    tier: int
    action: str
    at: int  # milliseconds since 1970
    changes: tuple[RecordChange, ...]
    state: str  # waiting, refused or sent
    attempts: int
    code: str  # why it was refused
    reason: str  # that, or what went wrong when it was last tried
    # When the Core last took it, 0 for never: what waits or was refused all the same is sent again
    taken: int


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
    """Have what a step wrote sent to the Core: each record as it was before the step and as it is
    after it.

    Records that stay here, and those that say the same as before, are left out; false where nothing
    is left. It comes behind all others, unless a number says its place.
    """
    here = _local_only(connection, list(written))
    told = [
        {
            "id": after.id,
            "kind": after.kind,
            "author": after.author,
            "created": after.created,
            "before": None if before is None else told_of(before.body),
            "after": told_of(after.body),
        }
        for before, after in written.values()
        if after.id not in here and (before is None or before.body != after.body)
    ]
    if not told:
        return False
    put_entry(connection, actor, f"{key}@{_device(connection)}", action, at, told, place, taken)
    return True


def settle_entry(
    connection: sqlite3.Connection, number: int, refuse: tuple[str, str] | None
) -> None:
    """Be done with an entry: it was taken, or it stays with why it wasn't."""
    if refuse is not None:
        put = "UPDATE outbox SET state = ?, code = ?, reason = ?, attempts = attempts + 1 WHERE id = ?"
        connection.execute(put, (REFUSED, *refuse, number))
        _forget_unseen(connection, number)
        return
    put = "UPDATE outbox SET state = ?, code = '', reason = '', taken = ? WHERE id = ?"
    connection.execute(put, (SENT, moment(), number))
    if number % TRIM_EVERY == 0:
        _trim(connection)


def forget_sent(connection: sqlite3.Connection, ids: Sequence[str], but: int | None) -> None:
    """Keep nothing of what was sent, but for the entry `but`, that holds one of these records: they
    are erased. Of what was refused only that stays which was written here.

    A notification comes with what it tells of: where that is still here, a Core that was put back
    may need the entry.
    """
    ask = "SELECT entry, state FROM outbox_records JOIN outbox ON outbox.id = entry WHERE record = ? AND entry <> ?"
    beside = "SELECT record FROM outbox_records JOIN records ON records.id = record WHERE entry = ?"
    erased, refused = set(ids), set[int]()
    for number in ids:
        for entry, state in connection.execute(ask, (number, but or 0)).fetchall():
            if state == REFUSED:
                refused.add(entry)
            elif state == SENT and (
                kind_of_id(number) != "notification"
                or erased.issuperset(row[0] for row in connection.execute(beside, (entry,)))
            ):
                connection.execute("DELETE FROM outbox WHERE id = ?", (entry,))
    for entry in refused:
        _forget_unseen(connection, entry, erased)


def keep_here(connection: sqlite3.Connection, ids: Sequence[str]) -> None:
    """Have these records stay here, unless the Core has them: what was written to them since isn't
    sent either.
    """
    known = marks_of(connection, ids)
    ask = f"SELECT entry, changes FROM outbox_records JOIN outbox ON outbox.id = entry WHERE record = ? AND state = '{WAITING}'"
    for number in (id_ for id_ in ids if id_ not in known):
        connection.execute("INSERT OR IGNORE INTO local_only VALUES (?)", (number,))
        for entry, told in connection.execute(ask, (number,)).fetchall():
            left = [load for load in json.loads(told) if load["id"] != number]
            if left:
                _put_changes(connection, entry, left)
                connection.execute(
                    "DELETE FROM outbox_records WHERE entry = ? AND record = ?", (entry, number)
                )
            else:
                connection.execute("DELETE FROM outbox WHERE id = ?", (entry,))


def unaccepted(connection: sqlite3.Connection) -> dict[str, str]:
    """Why the Core didn't take each of the records that it doesn't have; those that nobody sent are
    not among them.
    """
    ask = (
        "SELECT record, code, reason FROM outbox JOIN outbox_records ON entry = outbox.id "
        "WHERE state = ? AND record NOT IN (SELECT record FROM replica) ORDER BY outbox.id DESC"
    )
    rows = connection.execute(ask, (REFUSED,)).fetchall()
    return {record: f"{reason} [{code}]" if reason else code for record, code, reason in rows}


def only_here(connection: sqlite3.Connection) -> set[str]:
    """Records that stay on this machine, but for alerts about it: the Core doesn't have them, and
    they don't wait.
    """
    alerts = "record >= 'notif_' AND record < 'notif`'"
    ask = f"SELECT record FROM local_only WHERE NOT ({alerts}) AND record NOT IN (SELECT record FROM replica)"
    return {row[0] for row in connection.execute(ask)}


def speaking_here(connection: sqlite3.Connection) -> set[str]:
    """Those of `only_here` that would tell people and agents what the team has decided."""
    ask = (
        "SELECT id FROM local_only CROSS JOIN records ON id = record WHERE record NOT IN (SELECT record FROM replica) "
        "AND (record GLOB 'artifact_*' AND state = 'accepted' OR record GLOB 'subcortex_*' AND state = 'active')"
    )
    return {row[0] for row in connection.execute(ask)}


def check_facts(connection: sqlite3.Connection, expected: Mapping[str, str]) -> None:
    """Raises: ConfigError CORE_MISSING, where the store is connected otherwise than is expected, or
    not any more.
    """
    for key, value in expected.items():
        row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        if (row[0] if row else "") != value:
            raise ConfigError(
                "CORE_MISSING", "this home is no longer connected to that Core; nothing was changed"
            )


def set_facts(connection: sqlite3.Connection, facts: Mapping[str, str]) -> None:
    """Keep facts about the store."""
    connection.executemany(
        "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", list(facts.items())
    )


def waiting_for(connection: sqlite3.Connection, ids: Sequence[str], but: int = 0) -> set[str]:
    """Those of these records that some entry is about that waits, another one than `but`."""
    ask = (
        "SELECT DISTINCT record FROM outbox_records JOIN outbox ON outbox.id = entry "
        "WHERE state = 'waiting' AND entry <> ? AND record IN "
    )
    return {
        row[0]
        for part in parts(ids, BATCH)
        for row in connection.execute(f"{ask}({marks(part)})", (but, *part))
    }


def compare_anew(connection: sqlite3.Connection) -> None:
    """Have it forgotten at which change the Core's records came: numbers begin anew."""
    connection.execute("UPDATE replica SET change = 0 WHERE change > 0")


def marks_of(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Those of these records that the Core has: version and change."""
    found: dict[str, tuple[int, int]] = {}
    for part in parts(ids, BATCH):
        ask = f"SELECT record, version, change FROM replica WHERE record IN ({marks(part)})"
        found.update(
            {record: (version, change) for record, version, change in connection.execute(ask, part)}
        )
    return found


def _forget_unseen(
    connection: sqlite3.Connection, number: int, erased: Collection[str] = ()
) -> None:
    """Keep of a refused entry, where a record isn't here any more or is erased now, only what was
    written here, with what stood in its place. What still waits stays as it is: the Core may know
    its key.
    """
    (told,) = connection.execute("SELECT changes FROM outbox WHERE id = ?", (number,)).fetchone()
    changes = json.loads(told)
    named = [
        number
        for change in changes
        for number in (change["id"], change["after"].get("about"))
        if number
    ]
    here = set(get_records(connection, named)).difference(erased)
    left = [_of_own(one, here) for one in changes]
    if left != changes:
        _put_changes(connection, number, left)


def _of_own(change: Mapping[str, Any], here: Collection[str]) -> Mapping[str, Any]:
    """A change without what others wrote in records that aren't here; a notification is called by
    what it is about.
    """
    if change["before"] is not None:
        return change if change["id"] in here else _written(change)
    if change["kind"] != "notification" or change["after"]["about"] in here:
        return change
    return {**change, "after": {**change["after"], "title": UNSEEN}}


def _put_changes(
    connection: sqlite3.Connection, number: int, told: Sequence[Mapping[str, Any]]
) -> None:
    connection.execute(
        "UPDATE outbox SET changes = ? WHERE id = ?", (json.dumps(told, ensure_ascii=False), number)
    )


def _written(change: Mapping[str, Any]) -> dict[str, Any]:
    """A change without what it leaves as it was, but for what it points to: merged at the Core, it
    comes to the same.
    """
    before, after = change["before"], change["after"]
    derived = SUMMARY if change["kind"] == "thread" and "summary_by" not in after else ()
    alike = {name for name in after if name not in POINTING and before.get(name) == after[name]}
    same = alike.union(derived)
    needed = {
        field.name: UNSEEN
        for field in fields(KINDS[change["kind"]])
        if field.name in same and field.default is MISSING
    }
    bodies = (
        {name: one for name, one in body.items() if name not in same} | needed
        for body in (before, after)
    )
    return {**change, **dict(zip(("before", "after"), bodies, strict=True))}


def _local_only(connection: sqlite3.Connection, ids: Sequence[str]) -> set[str]:
    """Those of these records that stay here; not what the Core has got after all."""
    ask = "SELECT record FROM local_only WHERE record NOT IN (SELECT record FROM replica)"
    return {
        row[0]
        for part in parts(ids, BATCH)
        for row in connection.execute(f"{ask} AND record IN ({marks(part)})", part)
    }


def _trim(connection: sqlite3.Connection) -> None:
    """Keep of what was sent only what is young, and not too much of it."""
    newest = "OVER (ORDER BY taken DESC, id DESC)"
    connection.execute(
        "DELETE FROM outbox WHERE id IN (SELECT id FROM (SELECT id, taken, count(*) "
        f"{newest} AS place, sum(length(changes)) {newest} AS size FROM outbox WHERE state = ?) "
        "WHERE taken < ? OR place > ? OR size > ?)",
        (SENT, moment() - KEPT_MS, MOST_KEPT, MOST_KEPT_BYTES),
    )


def _device(connection: sqlite3.Connection) -> str:
    """Which home this is: as it was connected, or else the store itself."""
    ask = "SELECT value FROM meta WHERE key IN (?, 'identity') AND value <> '' ORDER BY key LIMIT 1"
    row = connection.execute(ask, (DEVICE,)).fetchone()
    return row[0] if row else ""


def put_entry(
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
        (
            place,
            key,
            actor.name,
            actor.tier,
            action,
            at,
            json.dumps(told, ensure_ascii=False),
            WAITING,
            taken,
        ),
    ).lastrowid
    connection.executemany(
        "INSERT INTO outbox_records VALUES (?, ?)", [(one["id"], number) for one in told]
    )


def moment() -> int:
    return int(time.time() * 1000)


def places_before(connection: sqlite3.Connection, count: int) -> range:
    """Numbers for so many entries that come before all that are there."""
    first = connection.execute("SELECT min(0, coalesce(min(id), 0)) FROM outbox").fetchone()[0]
    return range(first - count, first)


def entry_of(row: Sequence[Any]) -> OutboxEntry:
    number, key, actor, tier, action, at, told, *rest = row
    try:
        changes = tuple(
            RecordChange(
                load["id"],
                load["kind"],
                load["author"],
                load["created"],
                None if load["before"] is None else from_told(load["kind"], load["before"]),
                from_told(load["kind"], load["after"]),
            )
            for load in json.loads(told)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            "STORE_CORRUPT", f"the entry {number} of the outbox is damaged: {error}"
        ) from error
    return OutboxEntry(number, key, actor, tier, action, at, changes, *rest)
