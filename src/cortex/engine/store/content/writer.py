"""Writes of the indexed content: sources, blobs with chunks and symbols, docs, removals.

Every change is one transaction that increments `seq`; the indexes beside SQLite replay from there
(`index/maintenance.py`). Queries are in `queries.py`. Knows nothing of where a text comes from or
how it is ranked.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cortex.base.errors import Cancelled
from cortex.base.text import role_of
from cortex.base.types import Cut, ScannedFile, Skipped, Source
from cortex.engine.store.connection import Connection
from cortex.engine.store.content.queries import ContentQueries, rows_below
from cortex.engine.store.content.redactions import put_leaks
from cortex.engine.store.sql import rows_in

# Removed docs that stay listed after the lexical index has dropped them, for the vector indexes.
REMOVALS = 2_000
# Value for the number of dead rows that forces a rebuild: more rows than an index ever has.
ALL_DEAD = 10**12
# Level 9 saves 1 % more and takes twice the time on source code.
COMPRESSION = 6


@dataclass(frozen=True, slots=True)
class Known:
    """Stored state of a doc's file, enough to detect a change."""

    doc: int
    blob: int
    size: int
    mtime_ns: int
    # Time at which its content was last read.
    checked_ns: int


@dataclass(slots=True)
class ContentChange:
    """Changes to a source for one transaction, collected file by file."""

    # A moment before any of its files was read.
    read_ns: int = field(default_factory=time.time_ns)
    # New content: file, content hash, chunks.
    cuts: list[tuple[ScannedFile, bytes, Cut]] = field(default_factory=list)
    # Known content under a new name or time: file, blob.
    links: list[tuple[ScannedFile, int]] = field(default_factory=list)
    # Same content, new time: doc, file.
    touched: list[tuple[int, ScannedFile]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    skips: list[tuple[ScannedFile, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.touched) + self.replay_count

    @property
    def replay_count(self) -> int:
        """Number of changes that the indexes have to replay."""
        return len(self.cuts) + len(self.links) + len(self.removed) + len(self.skips)


class ContentStore(ContentQueries):
    """Indexed content of a store, to read and to write."""

    def source(self, kind: str, name: str, root: str) -> Source:
        """Source with this kind, name and root, created if it is new."""
        with self._connections.read() as connection:
            row = _find_source(connection, kind, name, root)
        if row is None:
            with self._connections.write() as connection:
                connection.execute(
                    "INSERT OR IGNORE INTO sources (kind, name, root) VALUES (?, ?, ?)",
                    (kind, name, root),
                )
                row = _find_source(connection, kind, name, root)
        assert row is not None
        return Source(row[0], kind, name, root)

    def source_by_id(self, source_id: int) -> Source | None:
        """Source with this id, None if there is none."""
        row = self._connections.row(
            "SELECT id, kind, name, root FROM sources WHERE id = ?", (source_id,)
        )
        return None if row is None else Source(*row)

    def known(self, source: int, below: Collection[str] | None = None) -> dict[str, Known]:
        """Docs of the source by path: all, or those at or below these paths."""
        with self._connections.read() as connection:
            rows = rows_below(
                connection,
                "SELECT path, id, blob, size, mtime_ns, checked_at FROM docs",
                source,
                below,
            )
            return {path: Known(*rest) for path, *rest in rows}

    def skips(
        self, source: int, below: Collection[str] | None = None
    ) -> dict[str, tuple[int, int, str]]:
        """Files that were read and rejected, as path to (size, mtime, reason).

        All of them, or those at or below these paths.
        """
        with self._connections.read() as connection:
            rows = rows_below(
                connection, "SELECT path, size, mtime_ns, reason FROM skips", source, below
            )
            return {path: (size, mtime_ns, reason) for path, size, mtime_ns, reason in rows}

    def doc_count(self, source: int) -> int:
        """Number of docs of the source."""
        return self._connections.value("SELECT count(*) FROM docs WHERE source = ?", (source,))

    def blobs(self, hashes: Sequence[bytes]) -> dict[bytes, int]:
        """Ids of those contents that are already stored, by hash."""
        with self._connections.read() as connection:
            query = "SELECT hash, id FROM blobs WHERE hash IN (?*)"
            return {row[0]: row[1] for row in rows_in(connection, query, hashes)}

    def apply(self, source: int, change: ContentChange) -> int:
        """Write the change in one transaction and return `seq`.

        It is a new `seq` unless only times have changed.
        """
        now = change.read_ns
        with self._connections.write() as connection:
            role = role_of if _kind_of(connection, source) == "files" else _no_role
            seq = next_seq(connection) if change.replay_count else _seq(connection)
            for path in change.removed:
                remove_doc(connection, source, path, seq)
                connection.execute(
                    "DELETE FROM skips WHERE source = ? AND path = ?", (source, path)
                )
            for file, reason in change.skips:
                remove_doc(connection, source, file.path, seq)
                connection.execute(
                    "INSERT OR REPLACE INTO skips (source, path, size, mtime_ns, reason) "
                    "VALUES (?, ?, ?, ?, ?)",
                    (source, file.path, file.size, file.mtime_ns, reason),
                )
            for file, content_hash, cut in change.cuts:
                blob = put_blob(connection, content_hash, cut)
                put_doc(connection, source, file, blob, role(file.path), seq, now)
            for file, blob in change.links:
                connection.execute("UPDATE blobs SET orphaned_at = NULL WHERE id = ?", (blob,))
                put_doc(connection, source, file, blob, role(file.path), seq, now)
            connection.executemany(
                "UPDATE docs SET mtime_ns = ?, size = ?, checked_at = ? WHERE id = ?",
                [(file.mtime_ns, file.size, now, doc) for doc, file in change.touched],
            )
            return seq

    def put(self, texts: Sequence[tuple[int, ScannedFile, bytes, Cut]]) -> list[int]:
        """Write texts (source, file, content hash, chunks) atomically; returns their doc ids."""
        now = time.time_ns()
        with self._connections.write(durable=True) as connection:
            seq = next_seq(connection)
            return [
                put_doc(
                    connection, source, file, put_blob(connection, content_hash, cut), "", seq, now
                )
                for source, file, content_hash, cut in texts
            ]

    def forget(self, docs: Iterable[int]) -> int:
        """Remove these docs and unshared content for good; returns the new `seq`."""
        with self._connections.write(durable=True) as connection:
            seq = next_seq(connection)
            for doc in docs:
                row = connection.execute(
                    "SELECT source, path, blob FROM docs WHERE id = ?", (doc,)
                ).fetchone()
                if row is not None:
                    remove_doc(connection, row[0], row[1], seq)
                    forget_blob(connection, row[2])
            return seq

    def record_lexical_progress(self, seq: int, dead: int) -> None:
        """Record that the lexical index is complete up to `seq`, with `dead` more dead rows.

        Of the removals up to `seq`, only the latest stay listed.
        """
        with self._connections.write() as connection:
            connection.execute("INSERT OR IGNORE INTO meta VALUES ('forgotten', ?)", (str(seq),))
            oldest = connection.execute(
                "SELECT seq FROM gone WHERE seq <= ? ORDER BY seq DESC LIMIT 1 OFFSET ?",
                (seq, REMOVALS),
            ).fetchone()
            if oldest is not None:
                connection.execute("DELETE FROM gone WHERE seq <= ?", oldest)
                _forget_until(connection, oldest[0])
            connection.execute(
                "INSERT INTO meta VALUES ('dead', ?) ON CONFLICT (key) DO UPDATE "
                "SET value = CAST(value AS INTEGER) + ?",
                (str(dead), dead),
            )

    @property
    def keeps_deleted_words(self) -> bool:
        """True if the lexical index still contains permanently removed content: rebuild it."""
        return self.number("dead") >= ALL_DEAD

    def lists_removals_since(self, seq: int) -> bool:
        """True if all removals since `seq` are still listed."""
        return seq >= int(self.get("forgotten", str(seq + 1)))

    def recheck_vectors(self) -> None:
        """Make the next catch-up of the vectors compare all ids instead of only the changes."""
        with self._connections.write() as connection:
            _forget_until(connection, _seq(connection) + 1)

    def sweep(self, orphaned_before: int) -> int:
        """Delete blobs that have been orphaned since before that second; returns their number."""
        with self._connections.write(erase=True) as connection:
            return connection.execute(
                "DELETE FROM blobs WHERE orphaned_at < ?", (orphaned_before,)
            ).rowcount

    def finish(
        self,
        source: int,
        stamp: str,
        files: int,
        seconds: float,
        skipped: Sequence[tuple[str, str]],
    ) -> None:
        """Record a complete run over a source: time, chunker and the files left out by name."""
        with self._connections.write() as connection:
            _kind_of(connection, source)
            connection.execute("DELETE FROM left_out WHERE source = ?", (source,))
            connection.executemany(
                "INSERT OR IGNORE INTO left_out VALUES (?, ?, ?)",
                [(source, path, reason) for path, reason in skipped],
            )
            facts = {
                "stamp": stamp,
                "files": str(files),
                "seconds": str(seconds),
                "indexed": str(int(time.time())),
            }
            connection.executemany(
                "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)",
                [(f"{key}:{source}", value) for key, value in facts.items()],
            )

    def get(self, key: str, default: str = "") -> str:
        """Value of a key in the store's metadata."""
        row = self._connections.row("SELECT value FROM meta WHERE key = ?", (key,))
        return default if row is None else row[0]

    def number(self, key: str) -> int:
        """Number of a key in the store's metadata, 0 where it has none."""
        return int(self.get(key) or "0")

    def indexed_at(self, source: int) -> int:
        """Second of the last complete run over a source, 0 before the first."""
        return self.number(f"indexed:{source}")

    def set(self, values: Mapping[str, str]) -> None:
        """Set keys in the store's metadata."""
        with self._connections.write() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", list(values.items())
            )

    def remember_recent(self, source: int, state: str, paths: Sequence[str]) -> None:
        """Store the recently changed files, newest first, for a state of the history."""
        self.set({f"recent:{source}": "\0".join(paths), f"recent-state:{source}": state})

    def seq(self) -> int:
        return self.number("seq")

    def skipped(self, source: int) -> tuple[Skipped, ...]:
        """Files of a source that are not in the index, with the reasons, by path."""
        rows = self._connections.rows(
            "SELECT path, reason FROM skips WHERE source = ?1 UNION SELECT path, reason "
            "FROM left_out WHERE source = ?1 "
            "ORDER BY path",
            (source,),
        )
        return tuple(Skipped(path, reason) for path, reason in rows)


def _find_source(connection: Connection, kind: str, name: str, root: str) -> tuple[int] | None:
    return connection.execute(
        "SELECT id FROM sources WHERE kind = ? AND name = ? AND root = ?", (kind, name, root)
    ).fetchone()


def _kind_of(connection: Connection, source: int) -> str:
    """Kind of a source.

    Raises: Cancelled if the source was removed while it was being read.
    """
    row = connection.execute("SELECT kind FROM sources WHERE id = ?", (source,)).fetchone()
    if row is None:
        raise Cancelled("the source was removed")
    return row[0]


def _no_role(path: str) -> str:
    """Return no role: a folder's name makes no document or record a test or an example."""
    return ""


def next_seq(connection: Connection) -> int:
    """Start a new state of the store and return its `seq`."""
    connection.execute("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'seq'")
    return _seq(connection)


def _forget_until(connection: Connection, seq: int) -> None:
    """Record that removals up to `seq` may no longer be listed."""
    connection.execute(
        "INSERT INTO meta VALUES ('forgotten', ?1) ON CONFLICT (key) DO UPDATE "
        "SET value = max(CAST(value AS INTEGER), ?1)",
        (seq,),
    )


def _seq(connection: Connection) -> int:
    return int(connection.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone()[0])


def forget_source(connection: Connection, source: int) -> int:
    """Remove a source with its docs and unshared content; returns the number of docs."""
    seq = next_seq(connection)
    docs = connection.execute("SELECT path, blob FROM docs WHERE source = ?", (source,)).fetchall()
    for path, blob in docs:
        remove_doc(connection, source, path, seq)
        forget_blob(connection, blob)
    connection.execute("DELETE FROM sources WHERE id = ?", (source,))
    # Metadata of the source.
    connection.execute("DELETE FROM meta WHERE key LIKE '%:' || ?", (source,))
    forget_rest(connection)
    return len(docs)


def forget_rest(connection: Connection) -> None:
    """Remove the rest of permanently removed docs: earlier versions, vectors, lexical rows."""
    # Earlier versions of removed docs are among the orphaned blobs and can't be distinguished from
    # the others.
    connection.execute("DELETE FROM blobs WHERE orphaned_at IS NOT NULL")
    connection.execute(
        "DELETE FROM vectors WHERE NOT EXISTS "
        "(SELECT 1 FROM chunks WHERE chunks.hash = vectors.hash)"
    )
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('dead', ?)", (str(ALL_DEAD),))


def put_blob(connection: Connection, content_hash: bytes, cut: Cut, *, meaning: bool = True) -> int:
    """Id of the blob with this content, created if it is new.

    Without `meaning` no vectors are made of it.
    """
    row = connection.execute("SELECT id FROM blobs WHERE hash = ?", (content_hash,)).fetchone()
    # The same content twice in one change.
    if row is not None:
        connection.execute("UPDATE blobs SET orphaned_at = NULL WHERE id = ?", row)
        return row[0]
    (last,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'chunks'"
    ).fetchone()
    first = last + 1
    blob = connection.execute(
        "INSERT INTO blobs (hash, language, characters, lines, first_chunk, last_chunk, text, "
        "private) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            content_hash,
            cut.language,
            len(cut.text),
            cut.text.count("\n") + (not cut.text.endswith("\n") and bool(cut.text)),
            first,
            first + len(cut.chunks) - 1,
            zlib.compress(cut.text.encode("utf-8"), COMPRESSION),
            not meaning,
        ),
    ).lastrowid
    assert blob is not None
    _put_chunks_and_symbols(connection, blob, first, cut)
    put_leaks(connection, blob, cut.leaks)
    return blob


def _put_chunks_and_symbols(connection: Connection, blob: int, first: int, cut: Cut) -> None:
    """Write a new blob's chunks, with ids from `first` on, and its symbols."""
    connection.executemany(
        "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        [
            (
                first + offset,
                blob,
                c.ordinal,
                c.start,
                c.end,
                c.start_line,
                c.end_line,
                c.kind,
                c.name,
                c.qualified,
                c.signature,
                c.doc,
            )
            for offset, c in enumerate(cut.chunks)
        ],
    )
    connection.executemany(
        "INSERT INTO symbols VALUES (?, ?, ?, ?, ?, ?)",
        [(blob, s.name, s.qualified, s.kind, s.start_line, s.end_line) for s in cut.symbols],
    )


def put_doc(
    connection: Connection, source: int, file: ScannedFile, blob: int, role: str, seq: int, now: int
) -> int:
    """Write a doc with this path and content, replacing the one at that path."""
    remove_doc(connection, source, file.path, seq, keep=blob)
    connection.execute("DELETE FROM skips WHERE source = ? AND path = ?", (source, file.path))
    doc = connection.execute(
        "INSERT INTO docs (source, path, blob, size, mtime_ns, role, seq, checked_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (source, file.path, blob, file.size, file.mtime_ns, role, seq, now),
    ).lastrowid
    assert doc is not None
    return doc


def forget_blob(connection: Connection, blob: int) -> None:
    """Delete an orphaned content, with the vectors of texts that no other chunk has."""
    hashes = connection.execute(
        "SELECT hash FROM chunks WHERE blob = ? AND hash IS NOT NULL", (blob,)
    ).fetchall()
    if connection.execute(
        "DELETE FROM blobs WHERE id = ? AND orphaned_at IS NOT NULL", (blob,)
    ).rowcount:
        connection.executemany(
            "DELETE FROM vectors WHERE hash = ?1 AND NOT EXISTS "
            "(SELECT 1 FROM chunks WHERE hash = ?1)",
            hashes,
        )


def remove_doc(connection: Connection, source: int, path: str, seq: int, keep: int = 0) -> None:
    """Remove the doc at this path, if there is one; `keep` is a blob that stays in use."""
    row = connection.execute(
        "SELECT docs.id, blob, first_chunk, last_chunk FROM docs JOIN blobs ON blobs.id = blob "
        "WHERE source = ? AND path = ?",
        (source, path),
    ).fetchone()
    if row is None:
        return
    doc, blob, first_chunk, last_chunk = row
    connection.execute("DELETE FROM docs WHERE id = ?", (doc,))
    connection.execute("INSERT INTO gone VALUES (?, ?, ?, ?)", (doc, first_chunk, last_chunk, seq))
    if blob != keep:
        connection.execute(
            "UPDATE blobs SET orphaned_at = ? WHERE id = ? AND NOT EXISTS "
            "(SELECT 1 FROM docs WHERE blob = blobs.id)",
            (int(time.time()), blob),
        )
