"""The vectors of a Chroma store on disk, and those of another product's memories in it.

Chroma keeps the last some hundred changes in SQLite and everything older in files beside it, one
folder per collection: rows of links, vector and label (`chromafiles`). Both are read as plain
bytes: no chromadb, no process. A row, a file or a folder that is damaged is left out. Knows no
model and no text.
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
ADD, UPDATE, UPSERT, DELETE = 0, 1, 2, 3  # what the queue calls them

_SEGMENT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PART = re.compile(r"(obs_\d+)_(?:narrative|text|fact_\d+)")
_FACT = re.compile(r"_fact_\d{1,6}$")
_MEMORIES = "claude_memories"  # of the third generation: a memory's own id, and its facts'
_OBSERVATIONS = "cm__"  # of the later ones, before a project


@dataclass(frozen=True, slots=True)
class ChromaCollection:
    """Vectors that belong together."""

    name: str
    dimensions: int  # 0 before the first vector
    count: int


@dataclass(frozen=True, slots=True)
class _Segment:
    """Where a collection's vectors are."""

    collection: str  # id
    dimensions: int
    folder: Path
    flushed: int  # the last change in the queue that the files have


def collections(folder: Path) -> list[ChromaCollection]:
    """The collections of a store, by name.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
    """
    with opened(folder / FILE, PRODUCT) as file:
        return file.read(lambda connection: _collections(connection, folder))


def vectors(folder: Path, collection: str) -> Iterator[tuple[str, np.ndarray]]:
    """The ids of a collection, each once, and their vectors as float32 of length 1; none where
    there is no such collection.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE, also while it is read, and at the end
    where Chroma wrote meanwhile.
    """
    with reading(folder / FILE, PRODUCT) as connection:
        _check(connection, folder)
        yield from _vectors(connection, folder, collection)


def memory_vectors(folder: Path) -> dict[str, np.ndarray]:
    """The memories of a store by key, each with the centre of the vectors of its parts; summaries
    and prompts are none.

    What is told counts as much as all facts together: on 200 commit messages as memories, that
    centre's cosine with the vector of the whole text was 0.92, and 0.89 where every fact counted as
    much as the story.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
    """
    with opened(folder / FILE, PRODUCT) as file:
        sums = file.read(lambda connection: _sums(connection, folder))
    centres: dict[str, np.ndarray] = {}
    for (key, _), one in sums.items():
        unit, other = unit_of(one), centres.get(key)
        if unit is not None and (other is None or other.shape == unit.shape):
            centres[key] = unit if other is None else other + unit
    return {key: unit for key, one in centres.items() if (unit := unit_of(one)) is not None}


def _sums(connection: sqlite3.Connection, folder: Path) -> dict[tuple[str, bool], np.ndarray]:
    """The sum of what is told, and that of the facts, of each memory."""
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
    """Whose part this is, "" where it is no memory's, and whether it is one of its facts."""
    if collection == _MEMORIES:
        key = _FACT.sub("", part)
        return key, key != part
    found = _PART.fullmatch(part)
    return (found[1], "_fact_" in part) if found else ("", False)


# -- SQLite
# ------------------------------------------------------------------------------------------------------------


def _check(connection: sqlite3.Connection, folder: Path) -> None:
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
    _check(connection, folder)
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
            name = labels.pop(label, None)  # a row whose label nobody has is a deleted one
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
        _Segment(key, _dimensions(size), folder / segment, _sequence(flushed))
        for key, size, segment, flushed in rows
        if isinstance(key, str)
        and isinstance(segment, str)
        and _SEGMENT.fullmatch(segment)
        and _dimensions(size)
    ]


def _latest(
    connection: sqlite3.Connection, segment: _Segment, known: frozenset[str]
) -> dict[str, int | None]:
    """Which change in the queue gives an id its vector; None where it was deleted."""
    latest: dict[str, int | None] = {}
    for number, operation, name, has_vector in _queue(connection, segment, "vector IS NOT NULL"):
        exists = latest[name] is not None if name in latest else name in known
        if operation == DELETE:
            latest[name] = None
        elif has_vector and (
            operation == UPSERT or (operation in (ADD, UPDATE) and (operation == UPDATE) == exists)
        ):
            latest[name] = number
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
    for number, _, name, blob in _queue(connection, segment, sized):
        if latest.get(name) == number and isinstance(blob, bytes):
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


def _sequence(value: object) -> int:
    """A place in the queue; earlier versions wrote the bytes of the number."""
    if isinstance(value, bytes) and len(value) <= 8:
        return int.from_bytes(value, "big")
    return value if isinstance(value, int) else -1
