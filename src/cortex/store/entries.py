"""The entries of chunk files: what such a file says of a chunk besides its text, its tags, and the file that it stands in.

A chunk of a file is a doc with one chunk. One `Update` is one transaction over all files that changed, and a file in it can be taken back
alone: whether a file is whole is known only at its end. Knows nothing of JSON files, vectors or search.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from cortex.store.connect import Connections
from cortex.store.lookup import unpack
from cortex.store.truth import _forget_blob, _next_seq, _put_blob, _put_doc, _remove_doc
from cortex.types import Cut, Entry, Found

_TAG, _KIND = "tag:", "kind:"  # kinds are found as tags are
PART = 500  # values in one statement


@dataclass(frozen=True, slots=True)
class Held:
    """An entry that is in the store."""

    doc: int
    hash: bytes
    chunk: int
    file: str


class Update:
    """The changes of one transaction."""

    def __init__(self, connection: sqlite3.Connection, source: int) -> None:
        self._connection = connection
        self._source = source
        self._now = time.time_ns()
        self.seq = _next_seq(connection)
        self.changes = 0

    @contextmanager
    def file(self) -> Iterator[None]:
        """The changes of one file: where the block raises, none of them count."""
        before = self.changes
        self._connection.execute("SAVEPOINT file")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK TO file")
            self.changes = before
            raise
        finally:
            self._connection.execute("RELEASE file")

    def of_file(self, file: str) -> dict[str, Held]:
        """What is held of a file, by path."""
        rows = self._connection.execute(f"{_HELD} WHERE entries.file = ?", (file,))
        return {path: Held(*rest) for path, *rest in rows}

    def at(self, path: str) -> Held | None:
        """What is held at a path, of whichever file."""
        row = self._connection.execute(
            f"{_HELD} WHERE docs.source = ? AND docs.path = ?", (self._source, path)
        ).fetchone()
        return None if row is None else Held(*row[1:])

    def put(self, path: str, content_hash: bytes, cut: Cut, entry: Entry, file: str) -> int:
        """Write an entry in place of what is at its path; returns the number of its chunk."""
        self.remove(path)
        connection = self._connection
        blob = _put_blob(connection, content_hash, cut)
        found = Found(path, len(entry.text), 0)
        doc = _put_doc(connection, self._source, found, blob, self.seq, self._now)
        connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (doc, file, _fields(entry)))
        names = dict.fromkeys([_KIND + (entry.chunk_type or ""), *(_TAG + tag for tag in entry.tags or ())])
        connection.executemany("INSERT INTO tags VALUES (?, ?)", [(name, doc) for name in names])
        self.changes += 1
        return connection.execute("SELECT first_chunk FROM blobs WHERE id = ?", (blob,)).fetchone()[0]

    def remove(self, path: str) -> None:
        """Remove the entry at a path, with its text."""
        row = self._connection.execute(
            "SELECT blob FROM docs WHERE source = ? AND path = ?", (self._source, path)
        ).fetchone()
        if row is not None:
            _remove_doc(self._connection, self._source, path, self.seq)
            _forget_blob(self._connection, row[0])
            self.changes += 1


_HELD = (
    "SELECT docs.path, docs.id, blobs.hash, blobs.first_chunk, entries.file FROM entries "
    "CROSS JOIN docs ON docs.id = entries.doc CROSS JOIN blobs ON blobs.id = docs.blob"
)


class Entries:
    """The entries of one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    @contextmanager
    def update(self, source: int) -> Iterator[Update]:
        """One transaction: all of it counts when the block ends, nothing where it raises."""
        with self._connections.write() as connection:
            yield Update(connection, source)

    def read(self, docs: Sequence[int]) -> dict[int, Entry]:
        """The entries of these docs, whole."""
        found: dict[int, Entry] = {}
        with self._connections.read() as connection:
            for start in range(0, len(docs), PART):
                part = docs[start : start + PART]
                marks = ",".join("?" * len(part))
                for doc, fields, packed in connection.execute(
                    "SELECT entries.doc, entries.fields, blobs.text FROM entries CROSS JOIN docs ON docs.id = entries.doc "
                    f"CROSS JOIN blobs ON blobs.id = docs.blob WHERE entries.doc IN ({marks})",
                    part,
                ):
                    found[doc] = _entry(fields, unpack(packed))
        return found

    def having(self, kinds: Sequence[str], tags: Sequence[str]) -> frozenset[int]:
        """The docs of any of these kinds (none: of every kind) that have all of these tags."""
        ask = "SELECT doc FROM tags WHERE tag = ?"
        with self._connections.read() as connection:
            found: set[int] | None = None
            if kinds:
                found = {row[0] for kind in kinds for row in connection.execute(ask, (_KIND + kind,))}
            for tag in tags:
                if found is not None and not found:
                    break
                tagged = {row[0] for row in connection.execute(ask, (_TAG + tag,))}
                found = tagged if found is None else found & tagged
        return frozenset(found or ())

    def counts(self) -> Mapping[str, int]:
        """How many entries each file has."""
        with self._connections.read() as connection:
            return dict(connection.execute("SELECT file, count(*) FROM entries GROUP BY file ORDER BY file"))


def _fields(entry: Entry) -> str:
    """All of an entry but its text, which the blob has."""
    told = (entry.id, entry.chunk_type, entry.title, entry.tags, entry.metadata, entry.created_at, entry.updated_at)
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def _entry(fields: str, text: str) -> Entry:
    name, kind, title, tags, metadata, created_at, updated_at = json.loads(fields)
    return Entry(name, kind, title, text, None if tags is None else tuple(tags), metadata, created_at, updated_at)
