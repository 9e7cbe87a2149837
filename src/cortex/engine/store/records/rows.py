"""How a record lies in the tables: its row, what it points to, the scope that it belongs to, and
the doc that it is found by.

Both who writes a step and who copies what another store has come through here, inside a transaction
of theirs. What stands here is never confined: a doc says the same, whoever wrote it.
"""

from __future__ import annotations

import sqlite3
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
from cortex.engine.store.records.write_batch import INTO_RECORDS, INTO_REFS, WriteBatch, insert


@dataclass(frozen=True, slots=True)
class IndexedText:
    """What of a record is indexed: a hash, and the text with its chunks; `meaning` says whether
    vectors are made of it.
    """

    hash: bytes
    cut: Cut
    meaning: bool = True


UNSEEN = "(no longer to be seen)"  # in place of a text that has to be there

# How a record is found, None: not at all. What else there is may be looked up by id.
RecordTextExtractor = Callable[
    [Record[Any], Callable[[str], Record[Any] | None]], IndexedText | None
]

# Where it is another record that decides who may see one: the role in which it points there, and
# how its id begins.
_HANGING = (
    ("target", "draft_"),
    ("about", "notif_"),
    ("source", "link_"),
    ("target", "link_"),
    ("thread", "obs_"),
    ("task", "obs_"),
)
_LINKS = "record > 'link_' AND record < 'link`'"
_HANGS = " OR ".join(
    f"(role = '{role}' AND target = ? AND record > '{prefix}' AND record < '{prefix[:-1]}`')"
    for role, prefix in _HANGING
)


class RecordRows:
    """The rows of records, in one transaction."""

    def __init__(
        self, connection: sqlite3.Connection, wording: RecordTextExtractor, *, shelved: bool = False
    ) -> None:
        self._connection = connection
        self._wording = wording
        self._shelved = shelved
        self._seq = 0
        self._moved: list[Record[Any]] = []
        self._retitled: list[str] = []

    def get(self, ref: str) -> Record[Any] | None:
        """The record of this id, or the subcortex of this slug."""
        if "_" in ref:  # a slug has none
            return self.one(ref)
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM records WHERE id = (SELECT min(record) FROM refs WHERE role = 'slug' AND target = ?)",
            (ref,),
        )
        return next(iter(read_records(rows)), None)

    def one(self, number: str) -> Record[Any] | None:
        """The record of this id."""
        if not isinstance(self._connection, WriteBatch):
            return get_records(self._connection, [number]).get(number)
        aside, known = self._connection.aside, self._connection.records
        if number not in known:
            known[number] = get_records(aside, [number]).get(number)
        return known[number]

    def write(self, before: Record[Any] | None, kept: Record[Any]) -> int:
        """Write a record as the next change, whose number it gives.

        What others may see or not see because of it becomes news as well.
        """
        change = self.next_change()
        moved = self._put(kept, before is None, change)
        if isinstance(self._connection, WriteBatch):
            self._connection.remember(kept)
        if before is None:
            return change
        if moved or before.body.sensitivity != kept.body.sensitivity:
            self._rescope([kept], numbered=True)
        if isinstance(kept.body, Subcortex) and before.body.visibility != kept.body.visibility:
            self._renumber_scope(kept.id)
        return change

    def copy(self, kept: Record[Any], change: int) -> None:
        """Write a record as another store has it; `settle` has to follow."""
        row = self._connection.execute(
            f"SELECT {COLUMNS} FROM records WHERE id = ?", (kept.id,)
        ).fetchone()
        known = None if row is None else record_of(row)  # none where it is damaged
        if row is not None:
            if row[-1] < kept.version:
                self.keep_version(kept.id)
            self._connection.execute(
                "DELETE FROM versions WHERE record = ? AND version >= ?", (kept.id, kept.version)
            )
        if self._put(kept, row is None, change):
            self._moved.append(kept)
        if isinstance(kept.body, Thread) and (known is None or known.body.title != kept.body.title):
            self._retitled.append(kept.id)

    def settle(self) -> None:
        """Have what hangs on what was copied belong where that does, and comments be found by the
        titles of their threads.

        Another store tells records in the order of their last change: a comment comes before its
        thread, which tells of it.
        """
        self._rescope(self._moved, numbered=False)  # numbers are the other store's
        for thread in self._retitled:
            for one in self._pointing("thread", "comment_", thread):
                self.reword(one)
        self._retitled.clear()

    def keep_version(self, number: str) -> None:
        """Keep a record as it is among its earlier versions."""
        self._connection.execute(
            "INSERT INTO versions SELECT id, version, kind, body, author, created, updated FROM records WHERE id = ?",
            (number,),
        )

    def reword(self, record: Record[Any]) -> None:
        """Have a record found by what it says now."""
        before, scope = self._where(record.id)
        source = self._put_doc(record, before, scope)
        self._connection.execute("UPDATE records SET source = ? WHERE id = ?", (source, record.id))

    def erase(self, ids: Iterable[str]) -> int:
        """Remove records for good, with their versions and whatever they were found by; tells how
        many there were.

        What stays and has to do with them no longer says how they were called: comments, and
        notifications.
        """
        count, found = 0, False
        for number in ids:
            source, _ = self._where(number)
            if source is not None:
                remove_doc(self._connection, source, number, self._next_seq())
            gone = self._connection.execute("DELETE FROM records WHERE id = ?", (number,)).rowcount
            count, found = count + gone, found or (gone > 0 and kind_of_id(number) in FOUND_KINDS)
            for one in self._pointing("thread", "comment_", number):
                self.reword(one)
            for one in self._pointing("about", "notif_", number):
                self._untitle(one)
        # Drafts, notifications and links are in no index: it need not be built anew for them
        if found:
            self._next_seq()
            forget_rest(self._connection)
        return count

    def next_change(self) -> int:
        """The number of a write.

        The counter's row is locked until the step ends: whoever reads 12 has seen 11 committed.
        """
        if isinstance(self._connection, WriteBatch):
            return self._connection.next_change()
        self._connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'change'")
        return self._connection.execute(
            "SELECT value FROM counters WHERE name = 'change'"
        ).fetchone()[0]

    def _put(self, kept: Record[Any], new: bool, change: int) -> bool:
        """Write the row and what it points to; tells whether the record is new or belongs elsewhere
        than before.
        """
        body = kept.body
        before, scope_before = (None, "") if new else self._where(kept.id)
        scope = scope_of(kept, self.get)
        source = self._put_doc(kept, before, scope)
        values = (
            kept.version,
            body.state,
            body.sensitivity,
            to_json(body),
            kept.updated,
            source,
            change,
            scope,
        )
        header = (kept.id, kept.kind, kept.author, kept.created, kept.id[-26:])
        if new:
            insert(self._connection, INTO_RECORDS, [(*values, *header)])
        else:
            self._connection.execute(
                "UPDATE records SET version = ?, state = ?, sensitivity = ?, body = ?, updated = ?, source = ?, change = ?, scope = ?, "
                "author = ?, created = ? WHERE id = ?",
                (*values, kept.author, kept.created, kept.id),
            )
            self._connection.execute("DELETE FROM refs WHERE record = ?", (kept.id,))
        insert(
            self._connection, INTO_REFS, [(role, target, kept.id) for role, target in refs_of(body)]
        )
        return new or scope != scope_before

    def _rescope(self, moved: list[Record[Any]], *, numbered: bool) -> None:
        """Have what hangs on these belong where they do, and so on; a number makes it news for
        those who follow.
        """
        while moved:
            for one in self._hanging_on(moved.pop()):
                before, known = self._where(one.id)
                if (scope := scope_of(one, self.get)) != known:
                    put = "UPDATE records SET scope = ?, source = ? WHERE id = ?"
                    self._connection.execute(
                        put, (scope, self._put_doc(one, before, scope), one.id)
                    )
                    moved.append(one)
                # A link is seen by who sees both its ends
                if numbered and (scope != known or isinstance(one.body, Link)):
                    self._renumber([one.id])

    def _renumber_scope(self, scope: str) -> None:
        """Make news of all that belongs to a scope, and of the links that lead there."""
        ask = (
            "SELECT id FROM records WHERE scope = ? UNION SELECT refs.record FROM refs JOIN records ON records.id = refs.target "
            f"WHERE refs.role = 'target' AND {_LINKS} AND records.scope = ?"
        )
        self._renumber([row[0] for row in self._connection.execute(ask, (scope, scope))])

    def _renumber(self, ids: Iterable[str]) -> None:
        """Have these written as the next changes, without another version."""
        rows = [(self.next_change(), number) for number in ids]
        self._connection.executemany("UPDATE records SET change = ? WHERE id = ?", rows)

    def _untitle(self, notification: Record[Any]) -> None:
        """Have a notification, in all versions, not say how what it is about is called."""
        body = to_json(replace(notification.body, title=UNSEEN))
        self._connection.execute(
            "UPDATE records SET body = ? WHERE id = ?", (body, notification.id)
        )
        self._connection.execute("DELETE FROM versions WHERE record = ?", (notification.id,))

    def _pointing(self, role: str, prefix: str, target: str) -> list[Record[Any]]:
        """The records of one kind that point to another in this role."""
        ask = "SELECT record FROM refs WHERE role = ? AND target = ? AND record > ? AND record < ?"
        rows = self._connection.execute(ask, (role, target, prefix, f"{prefix[:-1]}`"))
        return list(get_records(self._connection, [row[0] for row in rows]).values())

    def _hanging_on(self, record: Record[Any]) -> list[Record[Any]]:
        names = (record.id, *((record.body.slug,) if isinstance(record.body, Subcortex) else ()))
        ask = f"SELECT record FROM refs WHERE {_HANGS}"
        ids = [
            row[0]
            for name in names
            for row in self._connection.execute(ask, (name,) * len(_HANGING))
        ]
        return list(get_records(self._connection, ids).values())

    def _where(self, number: str) -> tuple[int | None, str]:
        """The source in which a record is found, and the scope that it belongs to."""
        row = self._connection.execute(
            "SELECT source, scope FROM records WHERE id = ?", (number,)
        ).fetchone()
        return (row[0], row[1]) if row else (None, "")

    def _put_doc(self, kept: Record[Any], before: int | None, scope: str) -> int | None:
        """Have a record found in the source of its kind, or on its shelf, and nowhere else; gives
        the source.
        """
        worded = self._wording(kept, self.get)
        source = (
            None if worded is None else self._source(self._shelf(kept, worded.meaning, scope).name)
        )
        if (
            worded is not None
            and source is not None
            and source == before
            and self._says(source, kept.id, worded.hash)
        ):
            return source
        if before is not None and before != source:
            remove_doc(self._connection, before, kept.id, self._next_seq())
        if worded is not None and source is not None:
            blob = put_blob(self._connection, worded.hash, worded.cut, meaning=worded.meaning)
            found = ScannedFile(
                kept.id, len(worded.cut.text.encode("utf-8")), kept.updated * 1_000_000
            )
            put_doc(self._connection, source, found, blob, "", self._next_seq(), time.time_ns())
        return source

    def _shelf(self, kept: Record[Any], meaning: bool, scope: str) -> RecordPartition:
        if not self._shelved:
            return RecordPartition(kept.kind, meaning)
        return RecordPartition(kept.kind, meaning, scope, kept.body.sensitivity == SENSITIVE)

    def _next_seq(self) -> int:
        """The state of the store that this transaction makes."""
        if not self._seq:
            self._seq = next_seq(self._connection)
        return self._seq

    def _says(self, source: int, number: str, text: bytes) -> bool:
        """Whether a record is found by this text already: a thread is written anew with each
        comment, and rarely says something else.
        """
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
