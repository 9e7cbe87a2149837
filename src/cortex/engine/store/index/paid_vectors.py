"""Vectors that are worth paying for once: kept in SQLite by model and by the hash of the text that
they are of.

Hashes, not chunk ids: an edited file, another branch or another way of cutting only costs what no
chunk has said before. Knows no embedder and no index; which chunks still wait, and in which order
they are worth it, is decided here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from cortex.base.text import hash_bytes
from cortex.base.types import Stamp
from cortex.engine.store.connections import Connections
from cortex.engine.store.content.blobs import unpack
from cortex.engine.store.content.redactions import Redactions
from cortex.engine.store.sql import marks, parts

if TYPE_CHECKING:
    import numpy as np

Embed = Callable[[list[str]], "np.ndarray"]

PART = 500  # values in one statement

# Ordinary code first, then what explains it, what uses it, what tests it; the rest is seldom asked
# for.
_ORDER = "CASE role WHEN '' THEN 0 WHEN 'docs' THEN 1 WHEN 'example' THEN 2 WHEN 'test' THEN 3 ELSE 4 END"
_WAITS = "(hash IS NULL OR NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.model = ? AND vectors.hash = chunks.hash))"
# Where tables are joined, SQLite would begin with all vectors of a model: CROSS JOIN keeps the
# order that is written.
_USED = "EXISTS (SELECT 1 FROM docs WHERE docs.blob = chunks.blob)"
# Vectors may be made of it
_OPEN = "NOT EXISTS (SELECT 1 FROM blobs WHERE blobs.id = {} AND private)"


@dataclass(frozen=True, slots=True)
class EmbeddingJob:
    """An embedder's vectors that are to follow the truth: made by `embed`, or where that is None,
    paid for elsewhere and only copied.
    """

    stamp: Stamp
    embed: Embed | None


@dataclass(frozen=True, slots=True)
class PendingVectors:
    """A text, by its hash, that a model hasn't embedded, or that it had embedded before for another
    chunk.
    """

    hash: bytes
    text: str
    known: bool


class EmbeddingCache:
    """The models of a store that are paid for, and their vectors."""

    def __init__(self, connections: Connections, redactions: Redactions) -> None:
        self._connections = connections
        self.redactions = redactions  # no embedder gets a secret

    def model(self, stamp: Stamp) -> int:
        """The number of a model, made if it is new; it counts as used today."""
        with self._connections.write() as connection:
            connection.execute(
                "INSERT INTO models (provider, model, dimensions, prefix, complete, used_at) VALUES (?, ?, ?, ?, 0, ?) "
                "ON CONFLICT DO UPDATE SET used_at = excluded.used_at",
                (*astuple(stamp), int(time.time())),
            )
        number = self.find(stamp)
        assert number is not None
        return number

    def find(self, stamp: Stamp) -> int | None:
        """The number of a model, None where nothing was paid for it."""
        with self._connections.read() as connection:
            row = connection.execute(
                "SELECT id FROM models WHERE (provider, model, dimensions, prefix) = (?, ?, ?, ?)",
                astuple(stamp),
            ).fetchone()
            return None if row is None else row[0]

    def models(self) -> list[tuple[Stamp, bool, int]]:
        """Every model that was paid for, whether it had embedded everything, and how many vectors
        it made.
        """
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT provider, model, dimensions, prefix, complete, (SELECT count(*) FROM vectors WHERE model = models.id) "
                "FROM models ORDER BY id"
            )
            return [(Stamp(*fields), bool(complete), count) for *fields, complete, count in rows]

    def is_complete(self, stamp: Stamp | None = None) -> bool:
        """Whether a model, or any, once had embedded everything: what came later is little."""
        with self._connections.read() as connection:
            if stamp is None:
                row = connection.execute("SELECT 1 FROM models WHERE complete").fetchone()
            else:
                row = connection.execute(
                    "SELECT 1 FROM models WHERE complete AND (provider, model, dimensions, prefix) = (?, ?, ?, ?)",
                    astuple(stamp),
                ).fetchone()
            return row is not None

    def set_complete(self, model: int, complete: bool) -> None:
        """Remember whether a model has embedded everything."""
        with self._connections.write() as connection:
            connection.execute("UPDATE models SET complete = ? WHERE id = ?", (complete, model))

    def plan(self, model: int) -> list[int]:
        """The contents in use that hold a text without a vector, the most useful first."""
        with self._connections.read() as connection:
            rows = connection.execute(
                f"SELECT blob FROM docs WHERE EXISTS (SELECT 1 FROM chunks WHERE chunks.blob = docs.blob AND {_WAITS}) "
                f"AND {_OPEN.format('docs.blob')} "
                f"GROUP BY blob ORDER BY min({_ORDER}), max(mtime_ns) DESC, blob",
                (model,),
            )
            return [row[0] for row in rows]

    def waiting(self, model: int, blobs: Sequence[int]) -> Iterator[PendingVectors]:
        """The texts of these contents that have no vector; each chunk's hash is remembered on the
        way.
        """
        for blob in blobs:
            with self._connections.read() as connection:
                row = connection.execute("SELECT text FROM blobs WHERE id = ?", (blob,)).fetchone()
                chunks = connection.execute(
                    f"SELECT id, start, end, hash FROM chunks WHERE blob = ? AND {_WAITS} ORDER BY id",
                    (blob, model),
                ).fetchall()
                text = unpack(row[0]) if row is not None and chunks else None
            if text is None:  # removed meanwhile, or said by another content, too
                continue
            slices = self.redactions.of(blob, text).slices(
                text, [(start, end) for _, start, end, _ in chunks]
            )
            texts = [
                (number, text, made)
                for (number, _, _, made), text in zip(chunks, slices, strict=True)
            ]
            yield from self._hashed(model, texts)

    def _hashed(
        self, model: int, chunks: Sequence[tuple[int, str, bytes | None]]
    ) -> list[PendingVectors]:
        hashes = [made or hash_bytes(text.encode("utf-8")) for _, text, made in chunks]
        fresh = [
            (digest, number)
            for digest, (number, _, made) in zip(hashes, chunks, strict=True)
            if made is None
        ]
        if fresh:
            with self._connections.write() as connection:
                connection.executemany("UPDATE chunks SET hash = ? WHERE id = ?", fresh)
        known = self._known(model, hashes)
        return [
            PendingVectors(digest, text, digest in known)
            for digest, (_, text, _) in zip(hashes, chunks, strict=True)
        ]

    def _known(self, model: int, hashes: Sequence[bytes]) -> set[bytes]:
        with self._connections.read() as connection:
            return {
                row[0]
                for part in parts(hashes, PART)
                for row in connection.execute(
                    f"SELECT hash FROM vectors WHERE model = ? AND hash IN ({marks(part)})",
                    (model, *part),
                )
            }

    def put(self, model: int, rows: Mapping[bytes, bytes]) -> None:
        """Keep vectors, by the hash of their text: on the disk when this returns, for they can't be
        made again for nothing.
        """
        with self._connections.write(durable=True) as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO vectors (model, hash, vector) VALUES (?, ?, ?)",
                [(model, digest, row) for digest, row in rows.items()],
            )

    def chunks_of(self, hashes: Sequence[bytes]) -> list[int]:
        """The chunks in use that say these texts."""
        with self._connections.read() as connection:
            return [
                row[0]
                for part in parts(hashes, PART)
                for row in connection.execute(
                    f"SELECT id FROM chunks WHERE hash IN ({marks(part)}) AND {_USED}", part
                )
            ]

    def embedded(self, stamp: Stamp, after: int = -1) -> list[int]:
        """The chunks in use, of docs that changed after that `seq`, whose text has a vector."""
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT DISTINCT chunks.id FROM docs CROSS JOIN chunks ON chunks.blob = docs.blob "
                "CROSS JOIN vectors ON vectors.model = ? AND vectors.hash = chunks.hash WHERE docs.seq > ?",
                (self.find(stamp), after),
            )
            return [row[0] for row in rows]

    def rows(self, stamp: Stamp, chunks: Sequence[int]) -> Iterator[list[tuple[int, bytes]]]:
        """These chunks' vectors, those that there are, some at a time."""
        model = self.find(stamp)
        for part in parts(chunks, PART):
            with self._connections.read() as connection:
                yield connection.execute(
                    "SELECT chunks.id, vector FROM chunks CROSS JOIN vectors ON vectors.model = ? AND vectors.hash = chunks.hash "
                    f"WHERE chunks.id IN ({marks(part)}) ORDER BY chunks.id",
                    (model, *part),
                ).fetchall()

    def sweep(self, unused_before: int, keep: Stamp | None) -> None:
        """Drop models but `keep` that nobody has wanted since that second, and vectors of what no
        chunk says any more.
        """
        kept = None if keep is None else self.find(keep)
        with self._connections.write() as connection:
            connection.execute(
                "DELETE FROM models WHERE used_at < ? AND id IS NOT ?", (unused_before, kept)
            )
            # A chunk without a hash may turn out to say what a vector is kept for.
            if (
                connection.execute(
                    f"SELECT 1 FROM chunks WHERE hash IS NULL AND {_USED} AND {_OPEN.format('chunks.blob')}"
                ).fetchone()
                is None
            ):
                connection.execute(
                    "DELETE FROM vectors WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.hash = vectors.hash)"
                )
