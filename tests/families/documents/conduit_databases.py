"""Conduit databases as that product makes them, for tests."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FIRST = """
CREATE TABLE kb_sources (source_id TEXT PRIMARY KEY, path TEXT NOT NULL UNIQUE, name TEXT NOT NULL, type TEXT NOT NULL DEFAULT 'folder', patterns TEXT, excludes TEXT,
  sync_mode TEXT NOT NULL DEFAULT 'watch', status TEXT NOT NULL DEFAULT 'active', last_sync TEXT, doc_count INTEGER DEFAULT 0, chunk_count INTEGER DEFAULT 0, size_bytes INTEGER DEFAULT 0,
  created_at TEXT NOT NULL DEFAULT (datetime('now')), updated_at TEXT NOT NULL DEFAULT (datetime('now')), error TEXT);
CREATE TABLE kb_documents (document_id TEXT PRIMARY KEY, source_id TEXT NOT NULL REFERENCES kb_sources(source_id) ON DELETE CASCADE, path TEXT NOT NULL UNIQUE, title TEXT, mime_type TEXT,
  size INTEGER, modified_at TEXT, indexed_at TEXT NOT NULL, hash TEXT, metadata TEXT, chunk_count INTEGER DEFAULT 0);
CREATE TABLE kb_chunks (chunk_id TEXT PRIMARY KEY, document_id TEXT NOT NULL REFERENCES kb_documents(document_id) ON DELETE CASCADE, chunk_index INTEGER NOT NULL, content TEXT NOT NULL, start_char INTEGER, end_char INTEGER, metadata TEXT);
CREATE VIRTUAL TABLE kb_fts USING fts5(document_id UNINDEXED, chunk_id UNINDEXED, content, title, path, tokenize='porter unicode61');
CREATE TABLE migrations (version INTEGER PRIMARY KEY, applied_at TEXT);
"""
SECOND = """
CREATE TABLE kb_vectors (chunk_id TEXT PRIMARY KEY REFERENCES kb_chunks(chunk_id) ON DELETE CASCADE, document_id TEXT NOT NULL, source_id TEXT NOT NULL DEFAULT '', dim INTEGER NOT NULL, norm REAL NOT NULL, embedding BLOB NOT NULL, created_at TEXT NOT NULL DEFAULT (datetime('now')));
CREATE TABLE kb_embedding_stamp (id INTEGER PRIMARY KEY CHECK (id = 1), canonical_model TEXT NOT NULL, observed_model TEXT NOT NULL, resolved INTEGER NOT NULL DEFAULT 0, dimensions INTEGER NOT NULL, prefix_scheme TEXT NOT NULL DEFAULT '', provider TEXT NOT NULL DEFAULT '', adopted INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL DEFAULT (datetime('now')), updated_at TEXT NOT NULL DEFAULT (datetime('now')));
"""


@dataclass(frozen=True)
class MadeDatabase:
    """A database that is being made."""

    path: Path
    connection: sqlite3.Connection

    def source(
        self,
        key: str,
        path: str,
        name: str,
        patterns: str | None = None,
        excludes: str | None = None,
        mode: str = "watch",
    ) -> None:
        self.connection.execute(
            "INSERT INTO kb_sources (source_id, path, name, patterns, excludes, sync_mode) VALUES (?, ?, ?, ?, ?, ?)",
            (key, path, name, patterns, excludes, mode),
        )  # fmt: skip
        self.connection.commit()

    def document(
        self,
        key: str,
        source: str,
        path: str,
        texts: Sequence[str],
        vectors: Sequence[Sequence[float]] = (),
    ) -> None:
        self.connection.execute(
            "INSERT INTO kb_documents (document_id, source_id, path, title, indexed_at) VALUES (?, ?, ?, ?, 'now')", (key, source, path, key)
        )  # fmt: skip
        for number, text in enumerate(texts):
            values = (f"{key}_{number}", key, number, text, 0, len(text))
            self.connection.execute("INSERT INTO kb_chunks VALUES (?, ?, ?, ?, ?, ?, NULL)", values)
        for number, vector in enumerate(vectors):
            blob = struct.pack(f"<{len(vector)}f", *vector)
            values = (f"{key}_{number}", key, source, len(vector), 1.0, blob)
            self.connection.execute(
                "INSERT INTO kb_vectors (chunk_id, document_id, source_id, dim, norm, embedding) VALUES (?, ?, ?, ?, ?, ?)",
                values,
            )
        self.connection.commit()

    def stamp(self, provider: str, model: str, dimensions: int, prefix: str = "") -> None:
        self.connection.execute(
            "INSERT INTO kb_embedding_stamp (id, canonical_model, observed_model, dimensions, prefix_scheme, provider) VALUES (1, ?, ?, ?, ?, ?)",
            (model, model, dimensions, prefix, provider),
        )
        self.connection.commit()


def make_base(path: Path, version: int = 2) -> MadeDatabase:
    """An empty database of a generation, in WAL mode as the product has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(FIRST + (SECOND if version == 2 else ""))
    return MadeDatabase(path, connection)
