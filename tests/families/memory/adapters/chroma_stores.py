"""Chroma stores as that product lays them out, made by hand for tests."""

from __future__ import annotations

import pickle
import sqlite3
import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cortex.families.memory.adapters.chroma import vectors

SCHEMA = """
CREATE TABLE collections (id TEXT PRIMARY KEY, name TEXT NOT NULL, dimension INTEGER, database_id TEXT NOT NULL, config_json_str TEXT, UNIQUE (name, database_id));
CREATE TABLE segments (id TEXT PRIMARY KEY, type TEXT NOT NULL, scope TEXT NOT NULL, collection TEXT NOT NULL);
CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id TEXT NOT NULL, embedding_id TEXT NOT NULL, seq_id BLOB NOT NULL, UNIQUE (segment_id, embedding_id));
CREATE TABLE embeddings_queue (seq_id INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, operation INTEGER NOT NULL, topic TEXT NOT NULL, id TEXT NOT NULL, vector BLOB, encoding TEXT, metadata TEXT);
CREATE TABLE max_seq_id (segment_id TEXT PRIMARY KEY, seq_id INTEGER);
"""
ADD, UPDATE, UPSERT, DELETE = 0, 1, 2, 3
EAST, NORTH, UP, WEST = [1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0], [-1.0, 0, 0, 0]
Numbers = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class MadeCollection:
    """A collection in a store that is being made."""

    store: Path
    id: str
    segment: str
    dimensions: int

    @property
    def folder(self) -> Path:
        """The folder of the flushed vectors."""
        return self.store / self.segment

    def sql(self, statement: str, values: Sequence[object] = ()) -> None:
        connection = sqlite3.connect(self.store / "chroma.sqlite3")
        connection.execute(statement, tuple(values))
        connection.commit()
        connection.close()

    def queue(
        self, operation: int, name: str, vector: Numbers | None = None, encoding: str = "FLOAT32"
    ) -> None:
        """A change that isn't flushed."""
        raw = None if vector is None else np.asarray(vector, "<f4").tobytes()
        self.sql(
            "INSERT INTO embeddings_queue (operation, topic, id, vector, encoding) VALUES (?, ?, ?, ?, ?)",
            (operation, f"persistent://default/default/{self.id}", name, raw, encoding),
        )

    def flush(
        self,
        rows: Sequence[tuple[int, Numbers]],
        labels: Mapping[int, str],
        *,
        links: int = 16,
        count: int | None = None,
        upto: int = 0,
    ) -> None:
        """Write rows of label and vector, and the ids of the labels; `links` is M of the index."""
        vector = 4 + 4 * 2 * links
        label = vector + 4 * self.dimensions
        number = len(rows) if count is None else count
        header = struct.pack("<iQQQQQQ", 1, 0, 1000, number, label + 8, label, vector)
        content = b"".join(
            b"\1" * vector + np.asarray(numbers, "<f4").tobytes() + struct.pack("<Q", name)
            for name, numbers in rows
        )
        self.folder.mkdir(exist_ok=True)
        (self.folder / "header.bin").write_bytes(
            header + struct.pack("<iIQQQdQ", 1, 0, 16, 32, 16, 0.36, 100)
        )
        (self.folder / "data_level0.bin").write_bytes(content)
        metadata = {
            "dimensionality": None,
            "label_to_id": dict(labels),
            "id_to_label": {label_id: key for key, label_id in labels.items()},
        }
        (self.folder / "index_metadata.pickle").write_bytes(pickle.dumps(metadata, protocol=2))
        self.sql("INSERT OR REPLACE INTO max_seq_id VALUES (?, ?)", (self.segment, upto))


def make_collection(store: Path, name: str, dimensions: int = 4) -> MadeCollection:
    """An empty collection, in a store that is made where there is none."""
    store.mkdir(parents=True, exist_ok=True)
    made = MadeCollection(store, str(uuid.uuid4()), str(uuid.uuid4()), dimensions)
    if not (store / "chroma.sqlite3").exists():
        connection = sqlite3.connect(store / "chroma.sqlite3")
        connection.executescript(SCHEMA)
        connection.close()
    made.sql(
        "INSERT INTO collections VALUES (?, ?, ?, 'default', '{}')", (made.id, name, dimensions)
    )
    made.sql("INSERT INTO segments VALUES (?, 'urn:chroma:segment/vector/hnsw-local-persisted', 'VECTOR', ?)", (made.segment, made.id))  # fmt: skip
    return made


def read_vectors(made: MadeCollection, name: str = "notes") -> dict[str, list[float]]:
    """The vectors read from a collection, each id once."""
    rows = list(vectors(made.store, name))
    assert len({key for key, _ in rows}) == len(rows)
    assert all(vector.dtype == np.float32 for _, vector in rows)
    return {key: vector.tolist() for key, vector in rows}
