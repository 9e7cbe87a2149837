"""What a store that is connected to a Core still has to send there, and which of its records the
Core has.

An entry is what one step wrote: each record as it was before and as it is then. It is written in
that step's own transaction (`enqueue`) and settled in the one that keeps the Core's answer
(`Records.apply`), so that nothing is lost or sent as something else, wherever a process dies. What
the Core took stays for a while as sent: one that was put back from a backup gets it again, under
the same keys, and takes what it has lost. How to send is not known here. Road not taken: finding
out by versions what was lost; others write meanwhile.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cortex.base.record_model import Actor, Record
from cortex.base.text import hash_bytes
from cortex.engine.store.connections import Connected
from cortex.engine.store.records import foreign_origins
from cortex.engine.store.records.foreign_origins import UploadCandidate
from cortex.engine.store.records.json_codec import from_told, told_of
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
from cortex.engine.store.records.row_reader import BATCH, get_records
from cortex.engine.store.sql import marks, parts

UPLOADED = "core.uploaded"
RESYNC = "core.resync"  # "1" while all is compared with the Core from the beginning
UPLOAD = "upload"  # the action of an entry with what was there before
MOST_UPLOADED = 100  # records of one such entry
FIRST = -(2**62)  # less than the number of any entry

# The records to be sent, as they are sent
Choose = Callable[[Sequence[UploadCandidate]], Sequence[Record[Any]]]


class Outbox:
    """The entries of a store, the oldest first."""

    def __init__(self, connections: Connected) -> None:
        self._connections = connections

    def waiting(self, limit: int = 50, after: int = FIRST) -> list[OutboxEntry]:
        """Those that are still to be sent, in the order in which they have to be."""
        return self._entries("state = ? AND id > ? ORDER BY id LIMIT ?", (WAITING, after, limit))

    def refused(self) -> list[OutboxEntry]:
        """Those that the Core didn't take."""
        return self._entries("state = ? ORDER BY id", (REFUSED,))

    def absent(self) -> dict[str, str]:
        """Records that the Core doesn't have, and that don't wait: why it refused them, "" for
        those that stay here.
        """
        with self._connections.read() as connection:
            return dict.fromkeys(only_here(connection), "") | unaccepted(connection)

    def withheld(self) -> frozenset[str]:
        """Those of the absent records that no pack and no agent's search tells: refused, or they
        speak for the team.
        """
        with self._connections.read() as connection:
            return frozenset((*speaking_here(connection), *unaccepted(connection)))

    def count(self) -> tuple[int, int]:
        """How many wait, and how many were refused."""
        with self._connections.read() as connection:
            found = dict(
                connection.execute("SELECT state, count(*) FROM outbox GROUP BY state").fetchall()
            )
        return found.get(WAITING, 0), found.get(REFUSED, 0)

    def tried(self, number: int, error: str) -> None:
        """Remember that an entry was sent in vain; it still waits."""
        put = "UPDATE outbox SET attempts = attempts + 1, reason = ? WHERE id = ?"
        with self._connections.write(durable=True) as connection:
            connection.execute(put, (error, number))

    def retry(self, ids: Sequence[int] | None = None) -> int:
        """Have refused entries sent once more, these or all; tells how many."""
        put = f"UPDATE outbox SET state = '{WAITING}', code = '' WHERE state = '{REFUSED}'"
        with self._connections.write(durable=True) as connection:
            if ids is None:
                return connection.execute(put).rowcount
            several = ((f"{put} AND id IN ({marks(some)})", some) for some in parts(ids, BATCH))
            return sum(connection.execute(statement, some).rowcount for statement, some in several)

    def drop(self, number: int) -> bool:
        """Give a refused entry up, and have what it made stay here; false where there is none, or
        it is to be sent once more.
        """
        with self._connections.write(durable=True, erase=True) as connection:
            ask = "SELECT changes FROM outbox WHERE id = ? AND state = ?"
            row = connection.execute(ask, (number, REFUSED)).fetchone()
            if row is None:
                return False
            connection.execute("DELETE FROM outbox WHERE id = ?", (number,))
            keep_here(
                connection, [load["id"] for load in json.loads(row[0]) if load["before"] is None]
            )
            return True

    def known(self, ids: Iterable[str] | None = None) -> dict[str, tuple[int, int]]:
        """Those of these records (None: of all) that the Core has: version and change, as they last
        came from there.
        """
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
        """Those of these, as the Core has them now, that once came from there in a later version,
        or that may be others of the same number: it was put back. Each with the version that came.
        Without those that an entry waits for, another one than `but`, and without notifications.
        """
        with self._connections.read() as connection:
            told = [record for record in records if record.record.kind != "notification"]
            known = marks_of(connection, [one.record.id for one in told])
            found = [
                one
                for one in told
                if one.record.id in known and _is_older(one, *known[one.record.id])
            ]
            waiting = waiting_for(connection, [one.record.id for one in found], but or 0)
        return [(one, known[one.record.id][0]) for one in found if one.record.id not in waiting]

    def size(self) -> tuple[int, int]:
        """How many records of the Core are here, and how many bytes they say."""
        ask = "SELECT count(*), coalesce(sum(length(CAST(body AS BLOB))), 0) FROM replica JOIN records ON records.id = record"
        with self._connections.read() as connection:
            count, size = connection.execute(ask).fetchone()
            return count, size

    def candidates(self, epoch: str) -> list[UploadCandidate]:
        """All that the Core of this epoch doesn't have yet and that doesn't wait, the first made
        first.
        """
        with self._connections.read() as connection:
            return foreign_origins.candidates(connection, epoch)

    def changed_since(self, epoch: str) -> list[Record[Any]]:
        """Records of the Core of this epoch that were written here since it was left."""
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
        """Queue what `choose` gives of all that the Core doesn't have, and have the rest stay here;
        tells how many records are queued.

        With `changes` what the Core had when it was left is queued where it was changed since, as a
        change of that. The facts in `meta` are set in the same transaction: whatever is written
        after it is queued behind.
        """
        with self._connections.write(durable=True) as connection:
            set_facts(connection, {**meta, UPLOADED: mark})
            if foreign_origins.rejoin(connection, epoch):
                set_facts(connection, {RESYNC: "1"})  # what it had may be hidden now, or lost
            found = foreign_origins.candidates(connection, epoch)
            chosen = {one.id: one for one in choose(found)}
            held = [(one.record.id,) for one in found if one.record.id not in chosen]
            connection.executemany("INSERT OR IGNORE INTO local_only VALUES (?)", held)
            connection.executemany(
                "DELETE FROM local_only WHERE record = ?", [(number,) for number in chosen]
            )
            # This Core counts its own versions: what another one had can't be told by its number
            # any more.
            connection.executemany(
                "UPDATE elsewhere SET version = 0 WHERE record = ?",
                [(number,) for number in chosen],
            )
            new = [(None, one) for one in sorted(chosen.values(), key=_due)]
            since = foreign_origins.changed_since(connection) if changes else []
            return _queue(connection, [*new, *since], actor, mark)

    def queue(self, ids: Sequence[str], actor: Actor, mark: str) -> int:
        """Queue these records as new ones, before all that waits: a Core that once had them has
        them no more.

        What waits may build on them, so one that an entry waits for is queued as it was before that
        entry.
        """
        with self._connections.write(durable=True) as connection:
            connection.executemany(
                "DELETE FROM replica WHERE record = ?", [(number,) for number in ids]
            )
            found = _as_before(connection, get_records(connection, ids))
            wanted = [(None, one) for one in sorted(found.values(), key=_due)]
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
        """Have everything compared with the Core; with `resend` all that it took waits again, in
        its order. Tells how many entries.

        Raises: ConfigError CORE_MISSING, where the store isn't as expected.
        """
        again = f"UPDATE outbox SET state = '{WAITING}', attempts = 0, code = '', reason = '' WHERE state = '{SENT}'"
        with self._connections.write(durable=True) as connection:
            check_facts(connection, expected)
            set_facts(connection, facts)
            compare_anew(connection)
            return connection.execute(again).rowcount if resend else 0

    def rename(self, record: str, before: str, slug: str) -> None:
        """Have a subcortex that was never taken sent by another slug; a draft for it names its id."""
        ask = f"SELECT id, changes FROM outbox WHERE state IN ('{WAITING}', '{REFUSED}')"
        with self._connections.write(durable=True) as connection:
            for number, told in connection.execute(ask).fetchall():
                changes = json.loads(told)
                for change in changes:
                    for body in filter(None, (change["before"], change["after"])):
                        if change["id"] == record:
                            body["slug"] = slug
                        elif change["kind"] == "draft" and body.get("target") == before:
                            body["target"] = record
                if (new := json.dumps(changes, ensure_ascii=False)) != told:
                    connection.execute("UPDATE outbox SET changes = ? WHERE id = ?", (new, number))

    def split(self, number: int) -> None:
        """Have each record of an entry sent for itself, before all that waits."""
        with self._connections.write(durable=True) as connection:
            row = connection.execute(
                f"SELECT {COLUMNS} FROM outbox WHERE id = ?", (number,)
            ).fetchone()
            if row is None:
                return
            connection.execute("DELETE FROM outbox WHERE id = ?", (number,))
            _, key, actor, tier, action, at, told, *_, taken = row
            changes = json.loads(told)
            for part, (place, one) in enumerate(
                zip(places_before(connection, len(changes)), changes, strict=True)
            ):
                put_entry(
                    connection, Actor(actor, tier), f"{key}.{part}", action, at, [one], place, taken
                )

    def part(self, number: int, fields: Collection[str]) -> OutboxEntry:
        """Leave an edit of one record only these fields, and queue the rest of it before all else.

        Gives the edit as it is then.
        """
        with self._connections.write(durable=True) as connection:
            row = connection.execute(
                f"SELECT {COLUMNS} FROM outbox WHERE id = ?", (number,)
            ).fetchone()
            _, key, actor, tier, action, at, told, *_, taken = row
            edit, others = _edit_of(json.loads(told))
            before, after = edit["before"], edit["after"]
            left = {**edit, "after": _with(before, after, fields)}
            rest = {**edit, "after": _with(after, before, fields)}
            put = "UPDATE outbox SET changes = ? WHERE id = ?"
            connection.execute(put, (json.dumps([left], ensure_ascii=False), number))
            (place,) = places_before(connection, 1)
            put_entry(
                connection,
                Actor(actor, tier),
                f"{key}.rest",
                action,
                at,
                [rest, *others],
                place,
                taken,
            )
            connection.execute(
                "DELETE FROM outbox_records WHERE entry = ? AND record <> ?", (number, edit["id"])
            )
            return entry_of(
                connection.execute(
                    f"SELECT {COLUMNS} FROM outbox WHERE id = ?", (number,)
                ).fetchone()
            )

    def rebase(self, number: int) -> bool:
        """Send a refused edit on top of what its records say here now.

        False where one of them isn't here, or it is no edit.
        """
        with self._connections.write(durable=True) as connection:
            row = connection.execute(
                "SELECT changes FROM outbox WHERE id = ? AND state = ?", (number, REFUSED)
            ).fetchone()
            changes = json.loads(row[0]) if row else []
            edits = [change for change in changes if change["kind"] != "notification"]
            here = get_records(connection, [one["id"] for one in edits])
            if not edits or any(one["before"] is None or one["id"] not in here for one in edits):
                return False
            for edit in edits:
                before, after = edit["before"], edit["after"]
                fields = {
                    name
                    for name in before.keys() | after.keys()
                    if before.get(name) != after.get(name)
                }
                edit["before"] = told_of(here[edit["id"]].body)
                edit["after"] = _with(edit["before"], after, fields)
            put = f"UPDATE outbox SET changes = ?, state = '{WAITING}', key = key || '.again', code = '' WHERE id = ?"
            connection.execute(put, (json.dumps(changes, ensure_ascii=False), number))
            return True

    def forget(self, epoch: str = "", url: str = "") -> None:
        """Leave the Core of this epoch and address: what waits, and where it is; what it had is
        known as its own.
        """
        with self._connections.write(durable=True, erase=True) as connection:
            connection.execute("DELETE FROM outbox")
            foreign_origins.leave(connection, epoch, url)
            connection.execute(
                "DELETE FROM local_only WHERE record < 'notif_' OR record >= 'notif`'"
            )
            connection.execute("DELETE FROM meta WHERE key >= 'core.' AND key < 'core/'")

    def _entries(self, where: str, values: Sequence[object]) -> list[OutboxEntry]:
        with self._connections.read() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM outbox WHERE {where}", values
            ).fetchall()
        return [entry_of(row) for row in rows]


def _edit_of(
    changes: Sequence[Mapping[str, Any]],
) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """The one change that isn't a notification, and the others."""
    (edit,) = (change for change in changes if change["kind"] != "notification")
    return edit, [one for one in changes if one is not edit]


def _with(
    body: Mapping[str, Any], other: Mapping[str, Any], fields: Collection[str]
) -> dict[str, Any]:
    """A body with these fields of the other; what stands in neither is as it is anyway."""
    kept = {name: value for name, value in body.items() if name not in fields}
    return kept | {name: value for name, value in other.items() if name in fields}


def _is_older(now: VersionedRecord, version: int, change: int) -> bool:
    """Whether what the Core has now isn't, or may not be, what followed on what came from there; no
    change: all is compared anew.
    """
    if change == NEVER_HERE:
        return False
    later = now.record.version < version and change <= now.change
    return later or (now.record.version == version and change == 0)


def _due(record: Record[Any]) -> tuple[str, bool, str]:
    """When something can be sent: when it was made, or else what it was attached to since; that
    comes before it.
    """
    made = record.id[-26:]
    due = max(made, *(getattr(record.body, field, "")[-26:] for field in ("thread", "task")))
    return due, due != made, record.id


def _queue(
    connection: sqlite3.Connection,
    records: Sequence[tuple[Record[Any] | None, Record[Any]]],
    actor: Actor,
    mark: str,
    places: Sequence[int] = (),
    taken: int = 0,
) -> int:
    """Entries with these records, each as it was (None: as if it had just been made) and is, at
    these places or behind all others.

    A key says which they are, so that twice is once.
    """
    now, count = moment(), 0
    for part, some in enumerate(parts(records, MOST_UPLOADED)):
        key = f"{UPLOAD}-{hash_bytes(mark.encode(), *(one.id.encode() for _, one in some)).hex()}"
        made = {one.id: (before, one) for before, one in some}
        if enqueue(
            connection, actor, key, UPLOAD, now, made, places[part] if places else None, taken
        ):
            count += len(some)
    return count


def _as_before(
    connection: sqlite3.Connection, records: Mapping[str, Record[Any]]
) -> dict[str, Record[Any]]:
    """Records as they were before the first entry that waits for each; without those that an entry
    makes.
    """
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
            found[number] = replace(one, body=from_told(one.kind, before))
    return found
