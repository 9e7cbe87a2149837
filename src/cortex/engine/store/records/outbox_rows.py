"""Tables of the outbox: one entry per transaction, and the records that it changes.

Both writers of transactions (`enqueue`) and of the Core's answers (`settle_entry`) use this module,
inside a transaction of their own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from cortex.base.errors import ConfigError, StoreError
from cortex.base.record_model import KINDS, SUMMARY, Actor, Body, Record
from cortex.engine.store.connection import Connection
from cortex.engine.store.records.json_codec import from_fields, to_fields
from cortex.engine.store.records.row_reader import get_records, kind_of_id
from cortex.engine.store.records.rows import UNSEEN
from cortex.engine.store.sql import rows_in

WAITING, REFUSED, SENT = "waiting", "refused", "sent"
# Key of the Core's address in the store's metadata.
CORE = "core.url"
# Tier that the Core last granted to the user.
TIER = "core.tier"
# Id of this home among those of one user; part of each key.
DEVICE = "core.device"
# Time for which accepted entries are kept.
KEPT_MS = 30 * 86_400_000
# Accepted entries that are kept at most; the oldest are dropped.
MOST_KEPT, MOST_KEPT_BYTES = 10_000, 50_000_000
# In place of a change number: the Core has the record, but the local one has another base.
NEVER_HERE = -1
# Entries between two trims.
TRIM_EVERY = 64
# Fields that only reference something and have no text.
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
    """Record written by a transaction; `before` is None if it was created."""

    id: str
    kind: str
    author: str
    created: int
    before: Body | None
    after: Body


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """Changes of one transaction on their way to the Core."""

    id: int
    key: str  # includes the device
    actor: str
    tier: int
    action: str
    at: int  # milliseconds since 1970
    changes: tuple[RecordChange, ...]
    state: str  # waiting, refused or sent
    attempts: int
    code: str  # error code of the rejection
    reason: str  # reason of the rejection, or error of the last attempt
    # Time at which the Core last accepted it, 0 for never. A waiting or rejected entry with such a
    # time is being sent again.
    taken: int


def is_connected(connection: Connection) -> bool:
    """True if the store has a Core."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (CORE,)).fetchone()
    return row is not None and bool(row[0])


def enqueue(
    connection: Connection,
    actor: Actor,
    key: str,
    action: str,
    at: int,
    written: Mapping[str, tuple[Record[Any] | None, Record[Any]]],
    place: int | None = None,
    taken: int = 0,
) -> bool:
    """Queue the changes of a transaction for the Core; false if there is nothing to send.

    Local-only records and records with an unchanged body are left out. The entry comes behind all
    others, unless `place` is given.
    """
    local = _local_only(connection, list(written))
    changes = [
        {
            "id": after.id,
            "kind": after.kind,
            "author": after.author,
            "created": after.created,
            "before": None if before is None else to_fields(before.body),
            "after": to_fields(after.body),
        }
        for before, after in written.values()
        if after.id not in local and (before is None or before.body != after.body)
    ]
    if not changes:
        return False
    put_entry(connection, actor, f"{key}@{_device(connection)}", action, at, changes, place, taken)
    return True


def settle_entry(connection: Connection, entry_id: int, refuse: tuple[str, str] | None) -> None:
    """Mark an entry as accepted, or as rejected with a code and a reason."""
    if refuse is not None:
        update = (
            "UPDATE outbox SET state = ?, code = ?, reason = ?, attempts = attempts + 1 "
            "WHERE id = ?"
        )
        connection.execute(update, (REFUSED, *refuse, entry_id))
        _redact_entry(connection, entry_id)
        return
    update = "UPDATE outbox SET state = ?, code = '', reason = '', taken = ? WHERE id = ?"
    connection.execute(update, (SENT, moment(), entry_id))
    if entry_id % TRIM_EVERY == 0:
        _trim(connection)


def forget_sent(connection: Connection, ids: Sequence[str], but: int | None) -> None:
    """Delete accepted entries, except `but`, that contain one of these erased records.

    Of rejected entries only the content written here is kept. A notification is sent together with
    its subject: while that exists, a restored Core may still need the entry.
    """
    query = (
        "SELECT entry, state FROM outbox_records JOIN outbox ON outbox.id = entry "
        "WHERE record = ? AND entry <> ?"
    )
    beside = "SELECT record FROM outbox_records JOIN records ON records.id = record WHERE entry = ?"
    erased, refused = set(ids), set[int]()
    for record_id in ids:
        for entry, state in connection.execute(query, (record_id, but or 0)).fetchall():
            if state == REFUSED:
                refused.add(entry)
            elif state == SENT and (
                kind_of_id(record_id) != "notification"
                or erased.issuperset(row[0] for row in connection.execute(beside, (entry,)))
            ):
                connection.execute("DELETE FROM outbox WHERE id = ?", (entry,))
    for entry in refused:
        _redact_entry(connection, entry, erased)


def keep_here(connection: Connection, ids: Sequence[str]) -> None:
    """Keep these records local unless the Core has them; pending changes to them are dropped."""
    known = marks_of(connection, ids)
    query = (
        "SELECT entry, changes FROM outbox_records JOIN outbox ON outbox.id = entry "
        f"WHERE record = ? AND state = '{WAITING}'"
    )
    for record_id in (candidate for candidate in ids if candidate not in known):
        connection.execute("INSERT OR IGNORE INTO local_only VALUES (?)", (record_id,))
        for entry, encoded in connection.execute(query, (record_id,)).fetchall():
            left = [change for change in json.loads(encoded) if change["id"] != record_id]
            if left:
                _put_changes(connection, entry, left)
                connection.execute(
                    "DELETE FROM outbox_records WHERE entry = ? AND record = ?", (entry, record_id)
                )
            else:
                connection.execute("DELETE FROM outbox WHERE id = ?", (entry,))


def unaccepted(connection: Connection) -> dict[str, str]:
    """Records rejected by the Core that it doesn't have, with the reason."""
    query = (
        "SELECT record, code, reason FROM outbox JOIN outbox_records ON entry = outbox.id "
        "WHERE state = ? AND record NOT IN (SELECT record FROM replica) ORDER BY outbox.id DESC"
    )
    rows = connection.execute(query, (REFUSED,)).fetchall()
    return {record: f"{reason} [{code}]" if reason else code for record, code, reason in rows}


def only_here(connection: Connection) -> set[str]:
    """Local-only records that the Core doesn't have, except alerts about this machine."""
    alerts = "record >= 'notif_' AND record < 'notif`'"
    query = (
        f"SELECT record FROM local_only WHERE NOT ({alerts}) AND record NOT IN "
        "(SELECT record FROM replica)"
    )
    return {row[0] for row in connection.execute(query)}


def speaking_here(connection: Connection) -> set[str]:
    """Those of `only_here` that would present a team decision to people and agents."""
    query = (
        "SELECT id FROM local_only CROSS JOIN records ON id = record WHERE record NOT IN "
        "(SELECT record FROM replica) "
        "AND (record GLOB 'artifact_*' AND state = 'accepted' OR record GLOB 'subcortex_*' "
        "AND state = 'active')"
    )
    return {row[0] for row in connection.execute(query)}


def check_facts(connection: Connection, expected: Mapping[str, str]) -> None:
    """Check that the store is connected as expected.

    Raises: ConfigError CORE_MISSING if it isn't, or is no longer.
    """
    for key, value in expected.items():
        row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        if (row[0] if row else "") != value:
            raise ConfigError(
                "CORE_MISSING", "this home is no longer connected to that Core; nothing was changed"
            )


def set_facts(connection: Connection, facts: Mapping[str, str]) -> None:
    """Set facts in the store's metadata."""
    connection.executemany(
        "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", list(facts.items())
    )


def waiting_for(connection: Connection, ids: Sequence[str], but: int = 0) -> set[str]:
    """Those of these records that a waiting entry other than `but` changes."""
    query = (
        "SELECT DISTINCT record FROM outbox_records JOIN outbox ON outbox.id = entry "
        "WHERE state = 'waiting' AND entry <> ? AND record IN (?*)"
    )
    return {row[0] for row in rows_in(connection, query, ids, before=(but,))}


def compare_anew(connection: Connection) -> None:
    """Reset the change numbers of the Core's records, since its numbering starts again."""
    connection.execute("UPDATE replica SET change = 0 WHERE change > 0")


def marks_of(connection: Connection, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Version and change of those of these records that the Core has."""
    query = "SELECT record, version, change FROM replica WHERE record IN (?*)"
    rows = rows_in(connection, query, ids)
    return {record: (version, change) for record, version, change in rows}


def _redact_entry(connection: Connection, entry_id: int, erased: Collection[str] = ()) -> None:
    """Reduce a rejected entry to content written here, if a record is gone or `erased`.

    Waiting entries are left unchanged: the Core may know their keys.
    """
    (encoded,) = connection.execute(
        "SELECT changes FROM outbox WHERE id = ?", (entry_id,)
    ).fetchone()
    changes = json.loads(encoded)
    named = [
        record_id
        for change in changes
        for record_id in (change["id"], change["after"].get("about"))
        if record_id
    ]
    here = set(get_records(connection, named)).difference(erased)
    left = [_redact_change(change, here) for change in changes]
    if left != changes:
        _put_changes(connection, entry_id, left)


def _redact_change(change: Mapping[str, Any], here: Collection[str]) -> Mapping[str, Any]:
    """Drop text of other authors in missing records from a change; untitle notifications."""
    if change["before"] is not None:
        return change if change["id"] in here else _changed_fields_only(change)
    if change["kind"] != "notification" or change["after"]["about"] in here:
        return change
    return {**change, "after": {**change["after"], "title": UNSEEN}}


def _put_changes(
    connection: Connection, entry_id: int, changes: Sequence[Mapping[str, Any]]
) -> None:
    connection.execute(
        "UPDATE outbox SET changes = ? WHERE id = ?",
        (json.dumps(changes, ensure_ascii=False), entry_id),
    )


def _changed_fields_only(change: Mapping[str, Any]) -> dict[str, Any]:
    """Change without its unchanged fields, except references.

    Merged at the Core, it has the same result.
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
        {name: value for name, value in body.items() if name not in same} | needed
        for body in (before, after)
    )
    return {**change, **dict(zip(("before", "after"), bodies, strict=True))}


def _local_only(connection: Connection, ids: Sequence[str]) -> set[str]:
    """Those of these records that stay local and that the Core hasn't received after all."""
    query = "SELECT record FROM local_only WHERE record NOT IN (SELECT record FROM replica)"
    return {row[0] for row in rows_in(connection, f"{query} AND record IN (?*)", ids)}


def _trim(connection: Connection) -> None:
    """Drop accepted entries that are too old or too many."""
    newest = "OVER (ORDER BY taken DESC, id DESC)"
    connection.execute(
        "DELETE FROM outbox WHERE id IN (SELECT id FROM (SELECT id, taken, count(*) "
        f"{newest} AS place, sum(length(changes)) {newest} AS size FROM outbox WHERE state = ?) "
        "WHERE taken < ? OR place > ? OR size > ?)",
        (SENT, moment() - KEPT_MS, MOST_KEPT, MOST_KEPT_BYTES),
    )


def _device(connection: Connection) -> str:
    """Id of this home: as assigned at connection, or else the identity of the store."""
    query = (
        "SELECT value FROM meta WHERE key IN (?, 'identity') AND value <> '' ORDER BY key LIMIT 1"
    )
    row = connection.execute(query, (DEVICE,)).fetchone()
    return row[0] if row else ""


def put_entry(
    connection: Connection,
    actor: Actor,
    key: str,
    action: str,
    at: int,
    changes: Sequence[Mapping[str, Any]],
    place: int | None,
    taken: int,
) -> None:
    entry_id = connection.execute(
        "INSERT INTO outbox (id, key, actor, tier, action, at, changes, state, attempts, code, "
        "reason, taken) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, '', '', ?)",
        (
            place,
            key,
            actor.name,
            actor.tier,
            action,
            at,
            json.dumps(changes, ensure_ascii=False),
            WAITING,
            taken,
        ),
    ).lastrowid
    connection.executemany(
        "INSERT INTO outbox_records VALUES (?, ?)", [(change["id"], entry_id) for change in changes]
    )


def moment() -> int:
    return int(time.time() * 1000)


def places_before(connection: Connection, count: int) -> range:
    """Ids for this many entries that come before all existing ones."""
    first = connection.execute("SELECT min(0, coalesce(min(id), 0)) FROM outbox").fetchone()[0]
    return range(first - count, first)


def entry_of(row: Sequence[Any]) -> OutboxEntry:
    entry_id, key, actor, tier, action, at, encoded, *rest = row
    try:
        changes = tuple(
            RecordChange(
                change["id"],
                change["kind"],
                change["author"],
                change["created"],
                None if change["before"] is None else from_fields(change["kind"], change["before"]),
                from_fields(change["kind"], change["after"]),
            )
            for change in json.loads(encoded)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            "STORE_CORRUPT", f"the entry {entry_id} of the outbox is damaged: {error}"
        ) from error
    return OutboxEntry(entry_id, key, actor, tier, action, at, changes, *rest)
