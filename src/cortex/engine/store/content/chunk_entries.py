"""Entries of chunk files: the fields of a chunk besides its text, its tags, and its file.

Each chunk of such a file is stored as a doc with one chunk. An `Update` is one transaction over all
changed files. Each file in it can be rolled back alone, because a broken file is recognized only at
its end. Knows nothing of JSON files, vectors or search.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from cortex.base.types import Cut, Entry
from cortex.engine.store.connection import Connection
from cortex.engine.store.connections import Connections
from cortex.engine.store.content.blobs import unpack
from cortex.engine.store.content.writer import next_seq
from cortex.engine.store.sql import rows_in

# Kinds are stored and looked up like tags.
_TAG, _KIND = "tag:", "kind:"
# Texts are short: a higher level takes twice the time and saves 2 %.
COMPRESSION = 1
# Values in one statement.
PART = 500


@dataclass(frozen=True, slots=True)
class Held:
    """Stored entry."""

    doc: int
    path: str
    hash: bytes
    chunk: int
    file: str


class Update:
    """Changes of one transaction.

    Ids of new rows are assigned here, so that rows can be written in batches: that halves the time.
    """

    def __init__(self, connection: Connection, source: int) -> None:
        self._connection = connection
        self._source = source
        self._numbers = _Numbers(
            *(_last(connection, table) for table in ("blobs", "docs", "chunks"))
        )
        self._waiting = _Rows()
        self.seq = next_seq(connection)
        # Changes that the indexes have to replay.
        self.changes = 0
        self.refreshed = 0

    @contextmanager
    def file(self) -> Iterator[None]:
        """Apply the changes of one file; if the block raises, all of them are rolled back."""
        before = (self.changes, self.refreshed, replace(self._numbers))
        self._connection.execute("SAVEPOINT file")
        try:
            yield
            self.flush()
        except BaseException:
            self._waiting = _Rows()
            self._connection.execute("ROLLBACK TO file")
            self.changes, self.refreshed, self._numbers = before
            raise
        finally:
            self._connection.execute("RELEASE file")

    def of_file(self, file: str) -> list[Held]:
        """Stored entries of a file."""
        return [
            Held(*row)
            for row in self._connection.execute(f"{_HELD} WHERE entries.file = ?", (file,))
        ]

    def between(self, start: str, before: str) -> list[Held]:
        """Stored entries with paths from `start` on, before `before`."""
        rows = self._connection.execute(
            f"{_AT} WHERE docs.source = ? AND docs.path >= ? AND docs.path < ?",
            (self._source, start, before),
        )
        return [Held(*row) for row in rows]

    def put(
        self, path: str, role: str, content_hash: bytes, cut: Cut, entry: Entry, file: str
    ) -> Held:
        """Write a new entry, as a text with one chunk."""
        ids, rows, (only,) = self._numbers, self._waiting, cut.chunks
        ids.blob, ids.doc, ids.chunk = (ids.blob + 1, ids.doc + 1, ids.chunk + 1)
        blob, doc, chunk = ids.blob, ids.doc, ids.chunk
        packed = zlib.compress(cut.text.encode("utf-8"), COMPRESSION)
        rows.blobs.append(
            (blob, content_hash, cut.language, len(cut.text), only.end_line, chunk, chunk, packed)
        )
        rows.chunks.append(
            (chunk, blob, only.end, only.end_line, only.kind, only.name, only.qualified, only.doc)
        )
        rows.symbols.extend(
            (blob, s.name, s.qualified, s.kind, s.start_line, s.end_line) for s in cut.symbols
        )
        rows.docs.append((doc, self._source, path, blob, len(cut.text), role, self.seq))
        rows.entries.append((doc, file, fields_of(entry)))
        names = dict.fromkeys(
            [_KIND + (entry.chunk_type or ""), *(_TAG + tag for tag in entry.tags or ())]
        )
        rows.tags.extend((name, doc) for name in names)
        self.changes += 1
        if len(rows.docs) >= PART:
            self.flush()
        return Held(doc, path, content_hash, chunk, file)

    def refresh(self, doc: int, entry: Entry) -> None:
        """Update the fields of an entry besides its text, if they changed."""
        fields = fields_of(entry)
        cursor = self._connection.execute(
            "UPDATE entries SET fields = ? WHERE doc = ? AND fields <> ?", (fields, doc, fields)
        )
        self.refreshed += cursor.rowcount

    def remove(self, held: Held) -> None:
        """Remove an entry with its text."""
        if self._waiting.docs and held.doc >= self._waiting.docs[0][0]:
            self.flush()
        self._waiting.removed.append(held)
        self.changes += 1
        if len(self._waiting.removed) >= PART:
            self.flush()

    def flush(self) -> None:
        """Write the pending rows."""
        rows, self._waiting = self._waiting, _Rows()
        write, removed = self._connection.executemany, rows.removed
        # Deletions first: a new entry may have the same text under another name.
        write("DELETE FROM docs WHERE id = ?", [(held.doc,) for held in removed])
        write("DELETE FROM blobs WHERE hash = ?", [(held.hash,) for held in removed])
        write(
            "INSERT INTO gone VALUES (?, ?, ?, ?)",
            [(held.doc, held.chunk, held.chunk, self.seq) for held in removed],
        )
        write(
            "INSERT INTO blobs (id, hash, language, characters, lines, first_chunk, last_chunk, "
            "text) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows.blobs,
        )
        write("INSERT INTO chunks VALUES (?, ?, 0, 0, ?, 1, ?, ?, ?, ?, '', ?, NULL)", rows.chunks)
        write("INSERT INTO symbols VALUES (?, ?, ?, ?, ?, ?)", rows.symbols)
        write(
            "INSERT INTO docs (id, source, path, blob, size, mtime_ns, role, seq, checked_at) "
            "VALUES (?, ?, ?, ?, ?, 0, ?, ?, 0)",
            rows.docs,
        )
        write("INSERT INTO entries VALUES (?, ?, ?)", rows.entries)
        write("INSERT INTO tags VALUES (?, ?)", rows.tags)


@dataclass(slots=True)
class _Numbers:
    """Last assigned ids."""

    blob: int
    doc: int
    chunk: int


@dataclass(slots=True)
class _Rows:
    """Rows that are not written yet."""

    removed: list[Held] = field(default_factory=list)
    blobs: list[tuple[object, ...]] = field(default_factory=list)
    chunks: list[tuple[object, ...]] = field(default_factory=list)
    symbols: list[tuple[object, ...]] = field(default_factory=list)
    docs: list[tuple[int, int, str, int, int, str, int]] = field(default_factory=list)
    entries: list[tuple[object, ...]] = field(default_factory=list)
    tags: list[tuple[str, int]] = field(default_factory=list)


_COLUMNS = "SELECT docs.id, docs.path, blobs.hash, blobs.first_chunk, entries.file"
_HELD = (
    f"{_COLUMNS} FROM entries CROSS JOIN docs ON docs.id = entries.doc "
    "CROSS JOIN blobs ON blobs.id = docs.blob"
)
_AT = (
    f"{_COLUMNS} FROM docs CROSS JOIN entries ON entries.doc = docs.id "
    "CROSS JOIN blobs ON blobs.id = docs.blob"
)


class Entries:
    """Entries of chunk files in one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    @contextmanager
    def update(self, source: int) -> Iterator[Update]:
        """Open a transaction: committed when the block ends, rolled back when it raises."""
        with self._connections.write() as connection:
            update = Update(connection, source)
            yield update
            update.flush()

    def read(self, docs: Sequence[int]) -> dict[int, Entry]:
        """Complete entries of these docs, by doc."""
        query = (
            "SELECT entries.doc, entries.fields, blobs.text FROM entries "
            "CROSS JOIN docs ON docs.id = entries.doc "
            "CROSS JOIN blobs ON blobs.id = docs.blob WHERE entries.doc IN (?*)"
        )
        with self._connections.read() as connection:
            rows = rows_in(connection, query, docs)
            return {doc: _entry(fields, unpack(packed)) for doc, fields, packed in rows}

    def called(self, name: str) -> Entry | None:
        """Entry with this id; scans all entries, because it is rarely called."""
        with self._connections.read() as connection:
            row = connection.execute(
                "SELECT doc FROM entries WHERE json_extract(fields, '$[0]') = ? LIMIT 1", (name,)
            ).fetchone()
            return None if row is None else self.read(row)[row[0]]

    def having(self, kinds: Sequence[str], tags: Sequence[str]) -> frozenset[int]:
        """Docs of any of these kinds (none: every kind) that have all of these tags."""
        query = "SELECT doc FROM tags WHERE tag = ?"
        with self._connections.read() as connection:
            docs: set[int] | None = None
            if kinds:
                docs = {
                    row[0] for kind in kinds for row in connection.execute(query, (_KIND + kind,))
                }
            for tag in tags:
                if docs is not None and not docs:
                    break
                tagged = {row[0] for row in connection.execute(query, (_TAG + tag,))}
                docs = tagged if docs is None else docs & tagged
        return frozenset(docs or ())

    def counts(self) -> Mapping[str, int]:
        """Number of entries of each file."""
        return dict(
            self._connections.rows("SELECT file, count(*) FROM entries GROUP BY file ORDER BY file")
        )


def _last(connection: Connection, table: str) -> int:
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    return 0 if row is None else row[0]


def fields_of(entry: Entry) -> str:
    """Encode an entry as JSON without its text, which is in the blob."""
    fields = (
        entry.id,
        entry.chunk_type,
        entry.title,
        entry.tags,
        entry.metadata,
        entry.created_at,
        entry.updated_at,
    )
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _entry(fields: str, text: str) -> Entry:
    name, kind, title, tags, metadata, created_at, updated_at = json.loads(fields)
    return Entry(
        name,
        kind,
        title,
        text,
        None if tags is None else tuple(tags),
        metadata,
        created_at,
        updated_at,
    )
