"""Read a Conduit knowledge base: sources, documents, chunks, vectors and their stamp.

Two generations are recognised by their tables: the first keeps its vectors in a Qdrant of its own,
the second in the same file. Missing columns of an older or newer version are empty, never an error.
Only reads; the import is in conduit_import.py.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.types import Stamp
from cortex.engine.sources.sqlite_snapshot import File, columns, opened, select

if TYPE_CHECKING:
    import numpy as np

PRODUCT = "Conduit"
FILE = "conduit.db"
MAX_DIMENSIONS = 100_000


@dataclass(frozen=True, slots=True)
class ConduitFolder:
    """Source: a folder that was added."""

    id: str
    name: str
    path: str
    patterns: tuple[str, ...]
    excludes: tuple[str, ...]
    # "watch" or "manual".
    sync_mode: str

    @property
    def watch(self) -> bool:
        """True if changes are to be followed."""
        return self.sync_mode != "manual"


@dataclass(frozen=True, slots=True)
class ConduitDocument:
    """Indexed file of a source."""

    id: str
    source: str
    path: str
    title: str
    mime_type: str
    hash: str


@dataclass(frozen=True, slots=True)
class ConduitChunk:
    """Chunk of a document."""

    id: str
    document: str
    ordinal: int
    text: str
    # Character offsets, -1 if unknown.
    start: int
    end: int


class ConduitBase:
    """Open knowledge base."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.version = file.read(_version)

    def folders(self) -> list[ConduitFolder]:
        """All sources in the order in which they were added."""
        wanted = ("source_id", "name", "path", "patterns", "excludes", "sync_mode")
        rows = self._rows("kb_sources", wanted, "ORDER BY rowid")
        return [
            ConduitFolder(
                _text(key),
                _text(name),
                _text(path),
                _list(patterns),
                _list(excludes),
                _text(mode) or "watch",
            )
            for key, name, path, patterns, excludes, mode in rows
            if key and path
        ]

    def documents(self, source: str | None = None) -> list[ConduitDocument]:
        """Documents of a source, or of all."""
        wanted = ("document_id", "source_id", "path", "title", "mime_type", "hash")
        documents = [
            ConduitDocument(*map(_text, row))
            for row in self._rows("kb_documents", wanted, "ORDER BY path")
        ]
        return [document for document in documents if source is None or document.source == source]

    def texts(self) -> list[ConduitChunk]:
        """All chunks, ordered by document."""
        wanted = ("chunk_id", "document_id", "chunk_index", "content", "start_char", "end_char")
        return [
            ConduitChunk(
                _text(name),
                _text(document),
                _integer(ordinal),
                _text(text),
                _integer(start),
                _integer(end),
            )
            for name, document, ordinal, text, start, end in self._rows(
                "kb_chunks", wanted, "ORDER BY document_id, chunk_index"
            )
        ]

    def stamp(self) -> Stamp | None:
        """Stamp of the vectors' model, None if the file has none."""
        return self._file.read(_stamp)

    def vectors(self) -> list[tuple[str, np.ndarray]]:
        """Pairs of chunk text and unit vector; damaged vectors are left out."""
        return self._file.read(_vectors)

    def _rows(self, table: str, wanted: tuple[str, ...], rest: str) -> list[tuple[object, ...]]:
        return self._file.read(
            lambda connection: select(connection, table, wanted, rest).fetchall()
        )


@contextmanager
def open_base(path: Path) -> Iterator[ConduitBase]:
    """Open the knowledge base in a file, or in the folder that holds one.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE, also while it is read.
    """
    file = path / FILE if path.is_dir() else path
    with opened(file, PRODUCT) as opened_file:
        yield ConduitBase(opened_file)


def _version(connection: sqlite3.Connection) -> int:
    """Generation of the database. Raises: sqlite3.DatabaseError if it is no knowledge base."""
    if not columns(connection, "kb_sources"):
        raise sqlite3.DatabaseError("it has no table kb_sources")
    return (
        2 if columns(connection, "kb_vectors") or columns(connection, "kb_embedding_stamp") else 1
    )


def _stamp(connection: sqlite3.Connection) -> Stamp | None:
    wanted = ("provider", "canonical_model", "dimensions", "prefix_scheme")
    if not columns(connection, "kb_embedding_stamp"):
        return None
    row = select(connection, "kb_embedding_stamp", wanted, "LIMIT 1").fetchone()
    if row is None or not row[1] or not 0 < _integer(row[2]) <= MAX_DIMENSIONS:
        return None
    return Stamp(_text(row[0]), _text(row[1]), _integer(row[2]), _text(row[3]))


def _vectors(connection: sqlite3.Connection) -> list[tuple[str, np.ndarray]]:
    import numpy as np

    stamp = _stamp(connection)
    if stamp is None or not {"chunk_id", "embedding"} <= columns(connection, "kb_vectors"):
        return []
    vectors: list[tuple[str, np.ndarray]] = []
    for text, blob in connection.execute(
        "SELECT content, embedding FROM kb_vectors JOIN kb_chunks USING (chunk_id) ORDER BY "
        "kb_chunks.rowid"
    ):
        if not isinstance(blob, bytes) or len(blob) != 4 * stamp.dimensions:
            continue
        vector = np.frombuffer(blob, dtype="<f4").astype(np.float32)
        length = float(np.linalg.norm(vector))
        if np.isfinite(length) and length > 0:
            vectors.append((_text(text), vector / length))
    return vectors


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _integer(value: object) -> int:
    return value if isinstance(value, int) else -1


def _list(value: object) -> tuple[str, ...]:
    """Parse stored patterns: a JSON array, or a comma-separated text."""
    text = _text(value).strip()
    if text.startswith("["):
        try:
            parts = json.loads(text)
        except (ValueError, RecursionError):
            return ()
        return tuple(part for part in parts if isinstance(part, str) and part)
    return tuple(
        part.strip() for part in text.split(",") if part.strip() and part.strip() != "null"
    )
