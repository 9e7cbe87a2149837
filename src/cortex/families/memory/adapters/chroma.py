"""Read vectors from a Chroma store on disk, and those of another product's memories in it.

Chroma keeps the last few hundred changes in SQLite and everything older in files beside it, one
folder per collection, with rows of links, vector and label (`chroma_segments`). Both are read
directly, without chromadb or a server. A damaged row, file or folder is left out. Knows no model
and no text.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import FileError
from cortex.engine.sources.sqlite_snapshot import columns, opened, reading
from cortex.families.memory.adapters.chroma_segments import (
    MAX_DIMENSIONS,
    MAX_ID,
    MAX_VECTORS,
    flushed,
    labels_of,
    unit_of,
)

if TYPE_CHECKING:
    import numpy as np

PRODUCT = "Chroma"
FILE = "chroma.sqlite3"
# Operation codes in the queue.
ADD, UPDATE, UPSERT, DELETE = 0, 1, 2, 3

_SEGMENT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PART = re.compile(r"(obs_\d+)_(?:narrative|text|fact_\d+)")
_FACT = re.compile(r"_fact_\d{1,6}$")
# Collection of claude-mem's third generation: ids of memories and of their facts.
_MEMORIES = "claude_memories"
# Prefix of later collections, before the project's name.
_OBSERVATIONS = "cm__"


@dataclass(frozen=True, slots=True)
class ChromaCollection:
    """Collection of vectors."""

    name: str
    # 0 before the first vector.
    dimensions: int
    count: int


@dataclass(frozen=True, slots=True)
class _Segment:
    """Location of a collection's vectors."""

    # Id of the collection.
    collection: str
    dimensions: int
    folder: Path
    # Sequence number of the last change that the files contain.
    flushed: int


def collections(folder: Path) -> list[ChromaCollection]:
    """List the collections of a store by name.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
    """
    with opened(folder / FILE, PRODUCT) as file:
        return file.read(lambda connection: _collections(connection, folder))


def vectors(folder: Path, collection: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the ids of a collection, each once, with float32 vectors of length 1.

    Yields nothing for an unknown collection.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE, also during iteration, and at the end if
    Chroma wrote meanwhile.
    """
    with reading(folder / FILE, PRODUCT) as connection:
        _check_schema(connection, folder)
        yield from _vectors(connection, folder, collection)


def memory_vectors(folder: Path) -> dict[str, np.ndarray]:
    """Map the memories of a store to the centroids of their parts' vectors.

    Summaries and prompts are left out. The narrative weighs as much as all facts together: on 200
    commit messages as memories, the cosine of that centroid with the vector of the whole text was
    0.92, and 0.89 with equal weights for the narrative and every fact.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
    """
    with opened(folder / FILE, PRODUCT) as file:
        sums = file.read(lambda connection: _sums(connection, folder))
    centres: dict[str, np.ndarray] = {}
    for (key, _), total in sums.items():
        unit, other = unit_of(total), centres.get(key)
        if unit is not None and (other is None or other.shape == unit.shape):
            centres[key] = unit if other is None else other + unit
    return {key: unit for key, centre in centres.items() if (unit := unit_of(centre)) is not None}


def _sums(connection: sqlite3.Connection, folder: Path) -> dict[tuple[str, bool], np.ndarray]:
    """Sums of the narrative's vectors and of the facts' vectors, for each memory."""
    sums: dict[tuple[str, bool], np.ndarray] = {}
    for name in sorted({collection.name for collection in _collections(connection, folder)}):
        if name != _MEMORIES and not name.startswith(_OBSERVATIONS):
            continue
        for part, vector in _vectors(connection, folder, name):
            key = _key(part, name)
            known = sums.get(key)
            if key[0] and (known is None or known.shape == vector.shape):
                sums[key] = vector if known is None else known + vector
    return sums


def _key(part: str, collection: str) -> tuple[str, bool]:
    """Key of the memory that a part belongs to ("" for none), and whether it is a fact."""
    if collection == _MEMORIES:
        key = _FACT.sub("", part)
        return key, key != part
    match = _PART.fullmatch(part)
    return (match[1], "_fact_" in part) if match else ("", False)


# -- SQLite


def _check_schema(connection: sqlite3.Connection, folder: Path) -> None:
    wanted = {
        "collections": {"id", "name", "dimension"},
        "segments": {"id", "scope", "collection"},
        "embeddings": {"segment_id"},
        "embeddings_queue": {"seq_id", "operation", "topic", "id", "vector", "encoding"},
        "max_seq_id": {"segment_id", "seq_id"},
    }
    lacking = [table for table, names in wanted.items() if not names <= columns(connection, table)]
    if lacking:
        message = (
            f"{folder / FILE} is no {PRODUCT} store that can be read: its table "
            f"{lacking[0]} is missing or another one"
        )
        raise FileError("IMPORT_UNREADABLE", message, context={"path": str(folder / FILE)})


def _collections(connection: sqlite3.Connection, folder: Path) -> list[ChromaCollection]:
    _check_schema(connection, folder)
    rows = connection.execute(
        "SELECT name, dimension, (SELECT count(*) FROM embeddings JOIN segments ON segments.id "
        "= embeddings.segment_id "
        "WHERE segments.collection = collections.id) FROM collections ORDER BY name"
    )
    return [ChromaCollection(str(name), _dimensions(size), count) for name, size, count in rows]


def _vectors(
    connection: sqlite3.Connection, folder: Path, collection: str
) -> Iterator[tuple[str, np.ndarray]]:
    for segment in _segments(connection, folder, collection):
        labels = labels_of(segment.folder)
        latest = _latest(connection, segment, frozenset(labels.values()))
        for label, vector in flushed(segment.folder, segment.dimensions) if labels else ():
            # A row without a known label was deleted.
            name = labels.pop(label, None)
            if name is not None and name not in latest:
                yield name, vector
        yield from _queued(connection, segment, latest)


def _segments(connection: sqlite3.Connection, folder: Path, collection: str) -> list[_Segment]:
    rows = connection.execute(
        "SELECT collections.id, dimension, segments.id, max_seq_id.seq_id FROM collections "
        "JOIN segments ON segments.collection = collections.id AND segments.scope = 'VECTOR' "
        "LEFT JOIN max_seq_id ON max_seq_id.segment_id = segments.id WHERE name = ? ORDER BY "
        "collections.id",
        (collection,),
    ).fetchall()
    return [
        _Segment(key, _dimensions(size), folder / segment, _sequence_of(flushed))
        for key, size, segment, flushed in rows
        if isinstance(key, str)
        and isinstance(segment, str)
        and _SEGMENT.fullmatch(segment)
        and _dimensions(size)
    ]


def _latest(
    connection: sqlite3.Connection, segment: _Segment, known: frozenset[str]
) -> dict[str, int | None]:
    """Map ids to the queued change with their latest vector; None for deleted ids."""
    latest: dict[str, int | None] = {}
    for sequence, operation, name, has_vector in _queue(connection, segment, "vector IS NOT NULL"):
        exists = latest[name] is not None if name in latest else name in known
        if operation == DELETE:
            latest[name] = None
        elif has_vector and (
            operation == UPSERT or (operation in (ADD, UPDATE) and (operation == UPDATE) == exists)
        ):
            latest[name] = sequence
        if len(latest) > MAX_VECTORS:
            break
    return latest


def _queued(
    connection: sqlite3.Connection, segment: _Segment, latest: dict[str, int | None]
) -> Iterator[tuple[str, np.ndarray]]:
    import numpy as np

    sized = (
        f"CASE WHEN encoding = 'FLOAT32' AND length(vector) = {4 * segment.dimensions} THEN "
        "vector END"
    )
    for sequence, _, name, blob in _queue(connection, segment, sized):
        if latest.get(name) == sequence and isinstance(blob, bytes):
            unit = unit_of(np.frombuffer(blob, dtype="<f4"))
            if unit is not None:
                yield name, unit


def _queue(connection: sqlite3.Connection, segment: _Segment, expression: str) -> sqlite3.Cursor:
    return connection.execute(
        f"SELECT seq_id, operation, id, {expression} FROM embeddings_queue WHERE topic LIKE "
        "'%/' || ? AND seq_id > ? "
        "AND typeof(id) = 'text' AND length(id) <= ? ORDER BY seq_id",
        (segment.collection, segment.flushed, MAX_ID),
    )


def _dimensions(value: object) -> int:
    return value if isinstance(value, int) and 0 < value <= MAX_DIMENSIONS else 0


def _sequence_of(value: object) -> int:
    """Position in the queue; earlier versions stored it as bytes."""
    if isinstance(value, bytes) and len(value) <= 8:
        return int.from_bytes(value, "big")
    return value if isinstance(value, int) else -1
