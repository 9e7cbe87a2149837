"""Rows of a record: the record itself, its references, its scope and its searchable doc.

Used by local transactions and by copies from another store, inside a transaction of the caller.
Access isn't limited here: a doc has the same text regardless of the writer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from cortex.base.record_model import (
    FOUND_KINDS,
    SENSITIVE,
    Link,
    Record,
    Subcortex,
    Thread,
    refs_of,
)
from cortex.base.types import Cut, ScannedFile
from cortex.base.visibility import scope_of
from cortex.engine.store.connection import Connection
from cortex.engine.store.content.writer import forget_rest, next_seq, put_blob, put_doc, remove_doc
from cortex.engine.store.partitions import RECORDS, RecordPartition
from cortex.engine.store.records.json_codec import to_json
from cortex.engine.store.records.row_reader import (
    COLUMNS,
    get_records,
    kind_of_id,
    read_records,
    record_of,
)
from cortex.engine.store.records.write_batch import INTO_RECORDS, INTO_REFS


@dataclass(frozen=True, slots=True)
class IndexedText:
    """Indexed text of a record with its hash and chunks; `meaning` if vectors are made of it."""

    hash: bytes
    cut: Cut
    meaning: bool = True


# Placeholder for a required text.
UNSEEN = "(no longer to be seen)"

# Returns the indexed text of a record, None to leave it out; related records are looked up by id.
RecordTextExtractor = Callable[
    [Record[Any], Callable[[str], Record[Any] | None]], IndexedText | None
]

# Records that inherit their visibility from another one: role of the reference, prefix of the id.
_DEPENDENTS = (
    ("target", "draft_"),
    ("about", "notif_"),
    ("source", "link_"),
    ("target", "link_"),
    ("thread", "obs_"),
    ("task", "obs_"),
)
_LINKS = "record > 'link_' AND record < 'link`'"
_IS_DEPENDENT = " OR ".join(
    f"(role = '{role}' AND target = ? AND record > '{prefix}' AND record < '{prefix[:-1]}`')"
    for role, prefix in _DEPENDENTS
)


class RecordRows:
    """Rows of records, in one transaction."""

    def __init__(
        self, connection: Connection, wording: RecordTextExtractor, *, shelved: bool = False
    ) -> None:
        self._connection = connection
        self._extract_text = wording
        self._shelved = shelved
        self._seq = 0
        self._moved: list[Record[Any]] = []
        self._retitled: list[str] = []

    def get(self, ref: str) -> Record[Any] | None:
        """Record with this id, or subcortex with this slug."""
        # A slug has no underscore.
        if "_" in ref:
            return self.one(ref)
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM records WHERE id = "
            "(SELECT min(record) FROM refs WHERE role = 'slug' AND target = ?)",
            (ref,),
        )
        return next(iter(read_records(rows)), None)

    def one(self, record_id: str) -> Record[Any] | None:
        """Record with this id, None if there is none."""
        return self._connection.cached(
            record_id, lambda connection: get_records(connection, [record_id]).get(record_id)
        )

    def write(self, before: Record[Any] | None, record: Record[Any]) -> int:
        """Write a record as the next change and return the change number.

        Records that become visible or hidden because of it get new change numbers too.
        """
        change = self._connection.next_change()
        moved = self._put(record, before is None, change)
        self._connection.remember_record(record)
        if before is None:
            return change
        if moved or before.body.sensitivity != record.body.sensitivity:
            self._rescope([record], numbered=True)
        if isinstance(record.body, Subcortex) and before.body.visibility != record.body.visibility:
            self._renumber_scope(record.id)
        return change

    def copy(self, record: Record[Any], change: int) -> None:
        """Write a record as another store has it; `settle` has to follow."""
        row = self._connection.execute(
            f"SELECT {COLUMNS} FROM records WHERE id = ?", (record.id,)
        ).fetchone()
        # None if it is damaged.
        known = None if row is None else record_of(row)
        if row is not None:
            if row[-1] < record.version:
                self.keep_version(record.id)
            self._connection.execute(
                "DELETE FROM versions WHERE record = ? AND version >= ?",
                (record.id, record.version),
            )
        if self._put(record, row is None, change):
            self._moved.append(record)
        if isinstance(record.body, Thread) and (
            known is None or known.body.title != record.body.title
        ):
            self._retitled.append(record.id)

    def settle(self) -> None:
        """Update the scope of dependents of copied records, and the text of comments.

        Another store sends records in the order of their last change, so a comment may come before
        its thread, and its text includes the thread's title.
        """
        # The change numbers are those of the other store.
        self._rescope(self._moved, numbered=False)
        for thread in self._retitled:
            for comment in self._referring_to("thread", "comment_", thread):
                self.reword(comment)
        self._retitled.clear()

    def keep_version(self, record_id: str) -> None:
        """Store the current state of a record among its earlier versions."""
        self._connection.execute(
            "INSERT INTO versions SELECT id, version, kind, body, author, created, updated "
            "FROM records WHERE id = ?",
            (record_id,),
        )

    def reword(self, record: Record[Any]) -> None:
        """Index a record by its current text."""
        before, scope = self._where(record.id)
        source = self._put_doc(record, before, scope)
        self._connection.execute("UPDATE records SET source = ? WHERE id = ?", (source, record.id))

    def erase(self, ids: Iterable[str]) -> int:
        """Remove records for good, with versions and docs; returns their number.

        Remaining comments and notifications about them no longer contain their titles.
        """
        count, was_indexed = 0, False
        for record_id in ids:
            source, _ = self._where(record_id)
            if source is not None:
                remove_doc(self._connection, source, record_id, self._next_seq())
            deleted = self._connection.execute(
                "DELETE FROM records WHERE id = ?", (record_id,)
            ).rowcount
            count, was_indexed = (
                count + deleted,
                was_indexed or (deleted > 0 and kind_of_id(record_id) in FOUND_KINDS),
            )
            for comment in self._referring_to("thread", "comment_", record_id):
                self.reword(comment)
            for notification in self._referring_to("about", "notif_", record_id):
                self._untitle(notification)
        # Drafts, notifications and links are in no index, so it needn't be rebuilt for them.
        if was_indexed:
            self._next_seq()
            forget_rest(self._connection)
        return count

    def _put(self, record: Record[Any], new: bool, change: int) -> bool:
        """Write the row and its references; true if the record is new or its scope changed."""
        body = record.body
        before, scope_before = (None, "") if new else self._where(record.id)
        scope = scope_of(record, self.get)
        source = self._put_doc(record, before, scope)
        values = (
            record.version,
            body.state,
            body.sensitivity,
            to_json(body),
            record.updated,
            source,
            change,
            scope,
        )
        header = (record.id, record.kind, record.author, record.created, record.id[-26:])
        if new:
            self._connection.insert(INTO_RECORDS, [(*values, *header)])
        else:
            self._connection.execute(
                "UPDATE records SET version = ?, state = ?, sensitivity = ?, body = ?, "
                "updated = ?, source = ?, change = ?, scope = ?, "
                "author = ?, created = ? WHERE id = ?",
                (*values, record.author, record.created, record.id),
            )
            self._connection.execute("DELETE FROM refs WHERE record = ?", (record.id,))
        self._connection.insert(
            INTO_REFS, [(role, target, record.id) for role, target in refs_of(body)]
        )
        return new or scope != scope_before

    def _rescope(self, moved: list[Record[Any]], *, numbered: bool) -> None:
        """Move dependents of these records to their scope, recursively.

        `numbered` gives them new change numbers, so that they appear in the change feed.
        """
        while moved:
            for dependent in self._dependents_of(moved.pop()):
                before, known = self._where(dependent.id)
                if (scope := scope_of(dependent, self.get)) != known:
                    update = "UPDATE records SET scope = ?, source = ? WHERE id = ?"
                    self._connection.execute(
                        update, (scope, self._put_doc(dependent, before, scope), dependent.id)
                    )
                    moved.append(dependent)
                # A link is visible to those who see both of its ends.
                if numbered and (scope != known or isinstance(dependent.body, Link)):
                    self._renumber([dependent.id])

    def _renumber_scope(self, scope: str) -> None:
        """Give new change numbers to all records of a scope and to the links into it."""
        query = (
            "SELECT id FROM records WHERE scope = ? UNION SELECT refs.record FROM refs "
            "JOIN records ON records.id = refs.target "
            f"WHERE refs.role = 'target' AND {_LINKS} AND records.scope = ?"
        )
        self._renumber([row[0] for row in self._connection.execute(query, (scope, scope))])

    def _renumber(self, ids: Iterable[str]) -> None:
        """Give these records new change numbers without a new version."""
        rows = [(self._connection.next_change(), record_id) for record_id in ids]
        self._connection.executemany("UPDATE records SET change = ? WHERE id = ?", rows)

    def _untitle(self, notification: Record[Any]) -> None:
        """Remove the title of the subject from a notification, in all versions."""
        body = to_json(replace(notification.body, title=UNSEEN))
        self._connection.execute(
            "UPDATE records SET body = ? WHERE id = ?", (body, notification.id)
        )
        self._connection.execute("DELETE FROM versions WHERE record = ?", (notification.id,))

    def _referring_to(self, role: str, prefix: str, target: str) -> list[Record[Any]]:
        """Records of one kind that reference `target` in this role."""
        query = (
            "SELECT record FROM refs WHERE role = ? AND target = ? AND record > ? AND record < ?"
        )
        rows = self._connection.execute(query, (role, target, prefix, f"{prefix[:-1]}`"))
        return list(get_records(self._connection, [row[0] for row in rows]).values())

    def _dependents_of(self, record: Record[Any]) -> list[Record[Any]]:
        names = (record.id, *((record.body.slug,) if isinstance(record.body, Subcortex) else ()))
        query = f"SELECT record FROM refs WHERE {_IS_DEPENDENT}"
        ids = [
            row[0]
            for name in names
            for row in self._connection.execute(query, (name,) * len(_DEPENDENTS))
        ]
        return list(get_records(self._connection, ids).values())

    def _where(self, record_id: str) -> tuple[int | None, str]:
        """Source in which a record is indexed, and its scope."""
        row = self._connection.execute(
            "SELECT source, scope FROM records WHERE id = ?", (record_id,)
        ).fetchone()
        return (row[0], row[1]) if row else (None, "")

    def _put_doc(self, record: Record[Any], before: int | None, scope: str) -> int | None:
        """Index a record in the source of its kind or scope and in no other; returns the source."""
        text = self._extract_text(record, self.get)
        source = (
            None if text is None else self._source(self._shelf(record, text.meaning, scope).name)
        )
        if (
            text is not None
            and source is not None
            and source == before
            and self._is_indexed_as(source, record.id, text.hash)
        ):
            return source
        if before is not None and before != source:
            remove_doc(self._connection, before, record.id, self._next_seq())
        if text is not None and source is not None:
            blob = put_blob(self._connection, text.hash, text.cut, meaning=text.meaning)
            file = ScannedFile(
                record.id, len(text.cut.text.encode("utf-8")), record.updated * 1_000_000
            )
            put_doc(self._connection, source, file, blob, "", self._next_seq(), time.time_ns())
        return source

    def _shelf(self, record: Record[Any], meaning: bool, scope: str) -> RecordPartition:
        if not self._shelved:
            return RecordPartition(record.kind, meaning)
        return RecordPartition(record.kind, meaning, scope, record.body.sensitivity == SENSITIVE)

    def _next_seq(self) -> int:
        """The `seq` of this transaction."""
        if not self._seq:
            self._seq = next_seq(self._connection)
        return self._seq

    def _is_indexed_as(self, source: int, record_id: str, digest: bytes) -> bool:
        """True if a record is indexed with this text already.

        A thread is written with each comment, and its text rarely changes.
        """
        query = (
            "SELECT 1 FROM docs JOIN blobs ON blobs.id = docs.blob WHERE docs.source = ? "
            "AND docs.path = ? AND blobs.hash = ?"
        )
        return self._connection.execute(query, (source, record_id, digest)).fetchone() is not None

    def _source(self, name: str) -> int:
        query = "SELECT id FROM sources WHERE kind = ? AND name = ? AND root = ''"
        if (row := self._connection.execute(query, (RECORDS, name)).fetchone()) is not None:
            return row[0]
        insert_source = "INSERT INTO sources (kind, name, root) VALUES (?, ?, '')"
        source_id = self._connection.execute(insert_source, (RECORDS, name)).lastrowid
        assert source_id is not None
        return source_id
