"""Outbox of a store connected to a Core: changes to send, and records the Core has.

An entry holds the changes of one transaction: each record before and after. It is written in that
transaction (`enqueue`) and settled in the one that stores the Core's answer (`Records.apply`), so
that nothing is lost or altered if a process dies at any point. Accepted entries are kept for a
while: a Core restored from a backup receives them again under the same keys and takes those it has
lost. Knows nothing of how to send.

Road not taken: finding lost changes by comparing versions, since other clients write meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cortex.base.record_model import Actor, Record
from cortex.base.text import hash_bytes
from cortex.engine.store.connection import Connected, Connection
from cortex.engine.store.records import foreign_origins
from cortex.engine.store.records.foreign_origins import UploadCandidate
from cortex.engine.store.records.json_codec import from_fields, to_fields
from cortex.engine.store.records.outbox_rows import (
    COLUMNS,
    NEVER_HERE,
    REFUSED,
    SENT,
    WAITING,
    OutboxEntry,
    check_facts,
    compare_anew,
    enqueue,
    entry_of,
    keep_here,
    marks_of,
    moment,
    only_here,
    places_before,
    put_entry,
    set_facts,
    speaking_here,
    unaccepted,
    waiting_for,
)
from cortex.engine.store.records.queries import VersionedRecord
from cortex.engine.store.records.row_reader import get_records
from cortex.engine.store.sql import BATCH, marks, parts

UPLOADED = "core.uploaded"
# "1" while everything is compared with the Core from the beginning.
RESYNC = "core.resync"
# Action of an entry with records that existed before the connection.
UPLOAD = "upload"
# Records in one such entry.
MOST_UPLOADED = 100
# Less than the id of any entry.
FIRST = -(2**62)

# Selects the records to send, in the form in which they are sent.
Choose = Callable[[Sequence[UploadCandidate]], Sequence[Record[Any]]]


class Outbox:
    """Outbox entries of a store, oldest first."""

    def __init__(self, connections: Connected) -> None:
        self._connections = connections

    def waiting(self, limit: int = 50, after: int = FIRST) -> list[OutboxEntry]:
        """Entries still to be sent, in the order in which they have to be sent."""
        return self._entries("state = ? AND id > ? ORDER BY id LIMIT ?", (WAITING, after, limit))

    def refused(self) -> list[OutboxEntry]:
        """Entries that the Core rejected."""
        return self._entries("state = ? ORDER BY id", (REFUSED,))

    def absent(self) -> dict[str, str]:
        """Records that the Core lacks and that aren't waiting, with the reason for rejection.

        The reason is "" for records that stay local.
        """
        with self._connections.read() as connection:
            return dict.fromkeys(only_here(connection), "") | unaccepted(connection)

    def withheld(self) -> frozenset[str]:
        """Absent records that no pack or agent search shows: rejected, or speaking for the team."""
        with self._connections.read() as connection:
            return frozenset((*speaking_here(connection), *unaccepted(connection)))

    def count(self) -> tuple[int, int]:
        """Number of waiting and of rejected entries."""
        counts = dict(self._connections.rows("SELECT state, count(*) FROM outbox GROUP BY state"))
        return counts.get(WAITING, 0), counts.get(REFUSED, 0)

    def tried(self, entry_id: int, error: str) -> None:
        """Record a failed attempt to send an entry; it keeps waiting."""
        update = "UPDATE outbox SET attempts = attempts + 1, reason = ? WHERE id = ?"
        with self._connections.write(durable=True) as connection:
            connection.execute(update, (error, entry_id))

    def retry(self, ids: Sequence[int] | None = None) -> int:
        """Send rejected entries again, these or all; returns their number."""
        update = f"UPDATE outbox SET state = '{WAITING}', code = '' WHERE state = '{REFUSED}'"
        with self._connections.write(durable=True) as connection:
            if ids is None:
                return connection.execute(update).rowcount
            statements = (
                (f"{update} AND id IN ({marks(batch)})", batch) for batch in parts(ids, BATCH)
            )
            return sum(
                connection.execute(statement, batch).rowcount for statement, batch in statements
            )

    def drop(self, entry_id: int) -> bool:
        """Give up a rejected entry and keep the records it created local.

        Returns false if there is none, or if it is to be sent again.
        """
        with self._connections.write(durable=True, erase=True) as connection:
            query = "SELECT changes FROM outbox WHERE id = ? AND state = ?"
            row = connection.execute(query, (entry_id, REFUSED)).fetchone()
            if row is None:
                return False
            connection.execute("DELETE FROM outbox WHERE id = ?", (entry_id,))
            keep_here(
                connection,
                [change["id"] for change in json.loads(row[0]) if change["before"] is None],
            )
            return True

    def known(self, ids: Iterable[str] | None = None) -> dict[str, tuple[int, int]]:
        """Those of these records (None: all) that the Core has, with its last (version, change)."""
        with self._connections.read() as connection:
            if ids is None:
                rows = connection.execute(
                    "SELECT record, version, change FROM replica ORDER BY record"
                ).fetchall()
                return {record: (version, change) for record, version, change in rows}
            return marks_of(connection, list(ids))

    def older(
        self, records: Sequence[VersionedRecord], but: int | None = None
    ) -> list[tuple[VersionedRecord, int]]:
        """Records that the Core has in an older version than it once sent: it was restored.

        `records` are as the Core has them now. Each is returned with the version that came before;
        also if it may be a different record with the same version number. Omits notifications and
        records that a waiting entry other than `but` changes.
        """
        with self._connections.read() as connection:
            candidates = [record for record in records if record.record.kind != "notification"]
            known = marks_of(connection, [candidate.record.id for candidate in candidates])
            outdated = [
                candidate
                for candidate in candidates
                if candidate.record.id in known
                and _is_older(candidate, *known[candidate.record.id])
            ]
            waiting = waiting_for(connection, [record.record.id for record in outdated], but or 0)
        return [
            (record, known[record.record.id][0])
            for record in outdated
            if record.record.id not in waiting
        ]

    def size(self) -> tuple[int, int]:
        """Number of records of the Core in this store, and the bytes of their bodies."""
        query = (
            "SELECT count(*), coalesce(sum(length(CAST(body AS BLOB))), 0) FROM replica "
            "JOIN records ON records.id = record"
        )
        return self._connections.row(query)

    def candidates(self, epoch: str) -> list[UploadCandidate]:
        """Records that the Core of this epoch lacks and that aren't waiting, oldest first."""
        with self._connections.read() as connection:
            return foreign_origins.candidates(connection, epoch)

    def changed_since(self, epoch: str) -> list[Record[Any]]:
        """Records of the Core of this epoch that were changed here since the connection ended."""
        with self._connections.read() as connection:
            return [now for _, now in foreign_origins.changed_since(connection, epoch)]

    def upload(
        self,
        actor: Actor,
        mark: str,
        epoch: str,
        meta: Mapping[str, str],
        choose: Choose,
        *,
        changes: bool,
    ) -> int:
        """Queue the records that `choose` selects; the rest stays local. Returns the number queued.

        Candidates are all records that the Core doesn't have. With `changes`, records that the Core
        had when the connection ended are queued as changes if they were changed since. The facts in
        `meta` are set in the same transaction, so that every later write is queued behind.
        """
        with self._connections.write(durable=True) as connection:
            set_facts(connection, {**meta, UPLOADED: mark})
            if foreign_origins.rejoin(connection, epoch):
                # Its records may be hidden now, or lost.
                set_facts(connection, {RESYNC: "1"})
            candidates = foreign_origins.candidates(connection, epoch)
            chosen = {record.id: record for record in choose(candidates)}
            held = [
                (candidate.record.id,)
                for candidate in candidates
                if candidate.record.id not in chosen
            ]
            connection.executemany("INSERT OR IGNORE INTO local_only VALUES (?)", held)
            connection.executemany(
                "DELETE FROM local_only WHERE record = ?", [(record_id,) for record_id in chosen]
            )
            # This Core counts its own versions: versions of another Core can't be compared any
            # more.
            connection.executemany(
                "UPDATE elsewhere SET version = 0 WHERE record = ?",
                [(record_id,) for record_id in chosen],
            )
            new = [(None, record) for record in sorted(chosen.values(), key=_send_order)]
            since = foreign_origins.changed_since(connection) if changes else []
            return _queue(connection, [*new, *since], actor, mark)

    def queue(self, ids: Sequence[str], actor: Actor, mark: str) -> int:
        """Queue these records as new ones, before all waiting entries.

        For records that a Core once had and has lost. Waiting entries may build on them, so a
        record changed by a waiting entry is queued in its state before that entry.
        """
        with self._connections.write(durable=True) as connection:
            connection.executemany(
                "DELETE FROM replica WHERE record = ?", [(record_id,) for record_id in ids]
            )
            records = _before_waiting(connection, get_records(connection, ids))
            wanted = [(None, record) for record in sorted(records.values(), key=_send_order)]
            return _queue(
                connection,
                wanted,
                actor,
                mark,
                places_before(connection, len(wanted)),
                taken=moment(),
            )

    def begin_again(
        self, facts: Mapping[str, str], expected: Mapping[str, str], *, resend: bool
    ) -> int:
        """Compare everything with the Core again; returns the number of entries sent again.

        With `resend`, all accepted entries wait again, in their order.

        Raises: ConfigError CORE_MISSING if the facts of the store aren't as expected.
        """
        requeue = (
            f"UPDATE outbox SET state = '{WAITING}', attempts = 0, code = '', reason = '' "
            f"WHERE state = '{SENT}'"
        )
        with self._connections.write(durable=True) as connection:
            check_facts(connection, expected)
            set_facts(connection, facts)
            compare_anew(connection)
            return connection.execute(requeue).rowcount if resend else 0

    def rename(self, record: str, before: str, slug: str) -> None:
        """Change the slug of a subcortex that was never accepted in all unsent entries.

        Drafts that target the old slug refer to its id instead.
        """
        query = f"SELECT id, changes FROM outbox WHERE state IN ('{WAITING}', '{REFUSED}')"
        with self._connections.write(durable=True) as connection:
            for entry_id, stored in connection.execute(query).fetchall():
                changes = json.loads(stored)
                for change in changes:
                    for body in filter(None, (change["before"], change["after"])):
                        if change["id"] == record:
                            body["slug"] = slug
                        elif change["kind"] == "draft" and body.get("target") == before:
                            body["target"] = record
                if (new := json.dumps(changes, ensure_ascii=False)) != stored:
                    connection.execute(
                        "UPDATE outbox SET changes = ? WHERE id = ?", (new, entry_id)
                    )

    def split(self, entry_id: int) -> None:
        """Replace an entry by one entry per record, before all waiting ones."""
        with self._connections.write(durable=True) as connection:
            row = connection.execute(
                f"SELECT {COLUMNS} FROM outbox WHERE id = ?", (entry_id,)
            ).fetchone()
            if row is None:
                return
            connection.execute("DELETE FROM outbox WHERE id = ?", (entry_id,))
            _, key, actor, tier, action, at, encoded, *_, taken = row
            changes = json.loads(encoded)
            for part, (new_id, change) in enumerate(
                zip(places_before(connection, len(changes)), changes, strict=True)
            ):
                put_entry(
                    connection,
                    Actor(actor, tier),
                    f"{key}.{part}",
                    action,
                    at,
                    [change],
                    new_id,
                    taken,
                )

    def part(self, entry_id: int, fields: Collection[str]) -> OutboxEntry:
        """Reduce an edit of one record to these fields and queue the rest of it first.

        Returns the reduced edit.
        """
        with self._connections.write(durable=True) as connection:
            row = connection.execute(
                f"SELECT {COLUMNS} FROM outbox WHERE id = ?", (entry_id,)
            ).fetchone()
            _, key, actor, tier, action, at, encoded, *_, taken = row
            edit, others = _edit_of(json.loads(encoded))
            before, after = edit["before"], edit["after"]
            left = {**edit, "after": _merge_fields(before, after, fields)}
            rest = {**edit, "after": _merge_fields(after, before, fields)}
            update = "UPDATE outbox SET changes = ? WHERE id = ?"
            connection.execute(update, (json.dumps([left], ensure_ascii=False), entry_id))
            (new_id,) = places_before(connection, 1)
            put_entry(
                connection,
                Actor(actor, tier),
                f"{key}.rest",
                action,
                at,
                [rest, *others],
                new_id,
                taken,
            )
            connection.execute(
                "DELETE FROM outbox_records WHERE entry = ? AND record <> ?", (entry_id, edit["id"])
            )
            return entry_of(
                connection.execute(
                    f"SELECT {COLUMNS} FROM outbox WHERE id = ?", (entry_id,)
                ).fetchone()
            )

    def rebase(self, entry_id: int) -> bool:
        """Send a rejected edit again on top of the current state of its records.

        Returns false if one of them isn't here, or the entry isn't an edit.
        """
        with self._connections.write(durable=True) as connection:
            row = connection.execute(
                "SELECT changes FROM outbox WHERE id = ? AND state = ?", (entry_id, REFUSED)
            ).fetchone()
            changes = json.loads(row[0]) if row else []
            edits = [change for change in changes if change["kind"] != "notification"]
            here = get_records(connection, [edit["id"] for edit in edits])
            if not edits or any(edit["before"] is None or edit["id"] not in here for edit in edits):
                return False
            for edit in edits:
                before, after = edit["before"], edit["after"]
                fields = {
                    name
                    for name in before.keys() | after.keys()
                    if before.get(name) != after.get(name)
                }
                edit["before"] = to_fields(here[edit["id"]].body)
                edit["after"] = _merge_fields(edit["before"], after, fields)
            update = (
                f"UPDATE outbox SET changes = ?, state = '{WAITING}', key = key || '.again', "
                "code = '' WHERE id = ?"
            )
            connection.execute(update, (json.dumps(changes, ensure_ascii=False), entry_id))
            return True

    def forget(self, epoch: str = "", url: str = "") -> None:
        """End the connection to the Core of this epoch and address.

        Drops the outbox and the connection facts; the records that the Core had are marked as its
        own.
        """
        with self._connections.write(durable=True, erase=True) as connection:
            connection.execute("DELETE FROM outbox")
            foreign_origins.leave(connection, epoch, url)
            connection.execute(
                "DELETE FROM local_only WHERE record < 'notif_' OR record >= 'notif`'"
            )
            connection.execute("DELETE FROM meta WHERE key >= 'core.' AND key < 'core/'")

    def _entries(self, where: str, values: Sequence[object]) -> list[OutboxEntry]:
        rows = self._connections.rows(f"SELECT {COLUMNS} FROM outbox WHERE {where}", values)
        return [entry_of(row) for row in rows]


def _edit_of(
    changes: Sequence[Mapping[str, Any]],
) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """Split changes into the only one that isn't a notification, and the others."""
    (edit,) = (change for change in changes if change["kind"] != "notification")
    return edit, [change for change in changes if change is not edit]


def _merge_fields(
    body: Mapping[str, Any], other: Mapping[str, Any], fields: Collection[str]
) -> dict[str, Any]:
    """Body with these fields taken from `other`; fields in neither keep their defaults."""
    kept = {name: value for name, value in body.items() if name not in fields}
    return kept | {name: value for name, value in other.items() if name in fields}


def _is_older(now: VersionedRecord, version: int, change: int) -> bool:
    """True if the Core's current record may not be a successor of the one that it sent.

    A change of 0 means that everything is being compared again.
    """
    if change == NEVER_HERE:
        return False
    later = now.record.version < version and change <= now.change
    return later or (now.record.version == version and change == 0)


def _send_order(record: Record[Any]) -> tuple[str, bool, str]:
    """Sort key by the earliest point at which a record can be sent.

    That is when it was created, or after the thread or task that it was attached to since.
    """
    created = record.id[-26:]
    due = max(created, *(getattr(record.body, field, "")[-26:] for field in ("thread", "task")))
    return due, due != created, record.id


def _queue(
    connection: Connection,
    records: Sequence[tuple[Record[Any] | None, Record[Any]]],
    actor: Actor,
    mark: str,
    places: Sequence[int] = (),
    taken: int = 0,
) -> int:
    """Queue entries with these records at these places, or behind all others.

    Each record comes with its earlier state (None: as if just created). The key identifies the
    records, so that queueing twice has no effect.
    """
    now, count = moment(), 0
    for part, batch in enumerate(parts(records, MOST_UPLOADED)):
        digest = hash_bytes(mark.encode(), *(record.id.encode() for _, record in batch))
        key = f"{UPLOAD}-{digest.hex()}"
        written = {record.id: (before, record) for before, record in batch}
        if enqueue(
            connection, actor, key, UPLOAD, now, written, places[part] if places else None, taken
        ):
            count += len(batch)
    return count


def _before_waiting(
    connection: Connection, records: Mapping[str, Record[Any]]
) -> dict[str, Record[Any]]:
    """Records before the first waiting entry for each; without those that an entry creates."""
    earlier = dict(records)
    query = (
        "SELECT changes FROM outbox JOIN outbox_records ON outbox.id = entry "
        f"WHERE state = '{WAITING}' AND record = ? ORDER BY outbox.id LIMIT 1"
    )
    for record_id, record in records.items():
        row = connection.execute(query, (record_id,)).fetchone()
        before = row and next(
            change["before"] for change in json.loads(row[0]) if change["id"] == record_id
        )
        if row and before is None:
            del earlier[record_id]
        elif row:
            earlier[record_id] = replace(record, body=from_fields(record.kind, before))
    return earlier
