"""Cache of paid embeddings in SQLite, keyed by model and by the hash of the text.

Hashes instead of chunk ids: an edited file, another branch or another chunker only costs the texts
that no chunk had before. Knows no embedder and no index; decides which chunks are pending, and in
which order to embed them.
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

# Values in one statement.
PART = 500

# Ordinary code first, then docs, examples and tests; the rest is rarely searched for.
_ORDER = (
    "CASE role WHEN '' THEN 0 WHEN 'docs' THEN 1 WHEN 'example' THEN 2 "
    "WHEN 'test' THEN 3 ELSE 4 END"
)
_WAITS = (
    "(hash IS NULL OR NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.model = ? "
    "AND vectors.hash = chunks.hash))"
)
# In joins SQLite would begin with all vectors of a model: CROSS JOIN makes it keep the written
# order.
_USED = "EXISTS (SELECT 1 FROM docs WHERE docs.blob = chunks.blob)"
# Content that is not private, so that it may be embedded.
_OPEN = "NOT EXISTS (SELECT 1 FROM blobs WHERE blobs.id = {} AND private)"


@dataclass(frozen=True, slots=True)
class EmbeddingJob:
    """Vectors of one embedder to update: computed by `embed`, or only copied if that is None."""

    stamp: Stamp
    embed: Embed | None


@dataclass(frozen=True, slots=True)
class PendingVectors:
    """Text of a chunk without a vector; `known` if the model embedded it for another chunk."""

    hash: bytes
    text: str
    known: bool


class EmbeddingCache:
    """Paid models of a store and their vectors."""

    def __init__(self, connections: Connections, redactions: Redactions) -> None:
        self._connections = connections
        # No embedder receives a secret.
        self.redactions = redactions

    def model(self, stamp: Stamp) -> int:
        """Id of a model, created if it is new; also marks it as used today."""
        with self._connections.write() as connection:
            connection.execute(
                "INSERT INTO models (provider, model, dimensions, prefix, complete, used_at) "
                "VALUES (?, ?, ?, ?, 0, ?) "
                "ON CONFLICT DO UPDATE SET used_at = excluded.used_at",
                (*astuple(stamp), int(time.time())),
            )
        model_id = self.find(stamp)
        assert model_id is not None
        return model_id

    def find(self, stamp: Stamp) -> int | None:
        """Id of a model, None if nothing was paid for it."""
        with self._connections.read() as connection:
            row = connection.execute(
                "SELECT id FROM models WHERE (provider, model, dimensions, prefix) = (?, ?, ?, ?)",
                astuple(stamp),
            ).fetchone()
            return None if row is None else row[0]

    def models(self) -> list[tuple[Stamp, bool, int]]:
        """All paid models as (stamp, complete, number of vectors)."""
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT provider, model, dimensions, prefix, complete, "
                "(SELECT count(*) FROM vectors WHERE model = models.id) "
                "FROM models ORDER BY id"
            )
            return [(Stamp(*fields), bool(complete), count) for *fields, complete, count in rows]

    def is_complete(self, stamp: Stamp | None = None) -> bool:
        """True if this model, or any, has once embedded everything."""
        with self._connections.read() as connection:
            if stamp is None:
                row = connection.execute("SELECT 1 FROM models WHERE complete").fetchone()
            else:
                row = connection.execute(
                    "SELECT 1 FROM models WHERE complete "
                    "AND (provider, model, dimensions, prefix) = (?, ?, ?, ?)",
                    astuple(stamp),
                ).fetchone()
            return row is not None

    def set_complete(self, model: int, complete: bool) -> None:
        """Store whether a model has embedded everything."""
        with self._connections.write() as connection:
            connection.execute("UPDATE models SET complete = ? WHERE id = ?", (complete, model))

    def plan(self, model: int) -> list[int]:
        """Contents in use with a text without a vector, the most useful first."""
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT blob FROM docs WHERE EXISTS "
                f"(SELECT 1 FROM chunks WHERE chunks.blob = docs.blob AND {_WAITS}) "
                f"AND {_OPEN.format('docs.blob')} "
                f"GROUP BY blob ORDER BY min({_ORDER}), max(mtime_ns) DESC, blob",
                (model,),
            )
            return [row[0] for row in rows]

    def waiting(self, model: int, blobs: Sequence[int]) -> Iterator[PendingVectors]:
        """Yield the texts of these contents without a vector, storing each chunk's hash."""
        for blob in blobs:
            with self._connections.read() as connection:
                row = connection.execute("SELECT text FROM blobs WHERE id = ?", (blob,)).fetchone()
                chunks = connection.execute(
                    f"SELECT id, start, end, hash FROM chunks WHERE blob = ? AND {_WAITS} "
                    "ORDER BY id",
                    (blob, model),
                ).fetchall()
                text = unpack(row[0]) if row is not None and chunks else None
            # Removed meanwhile, or embedded with another content.
            if text is None:
                continue
            slices = self.redactions.of(blob, text).slices(
                text, [(start, end) for _, start, end, _ in chunks]
            )
            texts = [
                (chunk_id, text, digest)
                for (chunk_id, _, _, digest), text in zip(chunks, slices, strict=True)
            ]
            yield from self._to_pending(model, texts)

    def _to_pending(
        self, model: int, chunks: Sequence[tuple[int, str, bytes | None]]
    ) -> list[PendingVectors]:
        hashes = [stored or hash_bytes(text.encode("utf-8")) for _, text, stored in chunks]
        fresh = [
            (digest, chunk_id)
            for digest, (chunk_id, _, stored) in zip(hashes, chunks, strict=True)
            if stored is None
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
        """Store vectors by the hash of their text; durable, since remaking them costs money."""
        with self._connections.write(durable=True) as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO vectors (model, hash, vector) VALUES (?, ?, ?)",
                [(model, digest, row) for digest, row in rows.items()],
            )

    def chunks_of(self, hashes: Sequence[bytes]) -> list[int]:
        """Chunks in use with these texts."""
        with self._connections.read() as connection:
            return [
                row[0]
                for part in parts(hashes, PART)
                for row in connection.execute(
                    f"SELECT id FROM chunks WHERE hash IN ({marks(part)}) AND {_USED}", part
                )
            ]

    def embedded(self, stamp: Stamp, after: int = -1) -> list[int]:
        """Chunks in use with a vector, of docs that changed after that `seq`."""
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT DISTINCT chunks.id FROM docs CROSS JOIN chunks ON chunks.blob = docs.blob "
                "CROSS JOIN vectors ON vectors.model = ? AND vectors.hash = chunks.hash "
                "WHERE docs.seq > ?",
                (self.find(stamp), after),
            )
            return [row[0] for row in rows]

    def rows(self, stamp: Stamp, chunks: Sequence[int]) -> Iterator[list[tuple[int, bytes]]]:
        """Yield the existing vectors of these chunks in batches."""
        model = self.find(stamp)
        for part in parts(chunks, PART):
            with self._connections.read() as connection:
                yield connection.execute(
                    "SELECT chunks.id, vector FROM chunks CROSS JOIN vectors ON vectors.model = ? "
                    "AND vectors.hash = chunks.hash "
                    f"WHERE chunks.id IN ({marks(part)}) ORDER BY chunks.id",
                    (model, *part),
                ).fetchall()

    def sweep(self, unused_before: int, keep: Stamp | None) -> None:
        """Drop models unused since that second except `keep`, and vectors of unused texts."""
        kept = None if keep is None else self.find(keep)
        with self._connections.write() as connection:
            connection.execute(
                "DELETE FROM models WHERE used_at < ? AND id IS NOT ?", (unused_before, kept)
            )
            # A chunk without a hash may turn out to have the text of a stored vector.
            if (
                connection.execute(
                    f"SELECT 1 FROM chunks WHERE hash IS NULL AND {_USED} "
                    f"AND {_OPEN.format('chunks.blob')}"
                ).fetchone()
                is None
            ):
                connection.execute(
                    "DELETE FROM vectors WHERE NOT EXISTS "
                    "(SELECT 1 FROM chunks WHERE chunks.hash = vectors.hash)"
                )
