"""The vectors of a Chroma store on disk, and those of another product's memories in it.

Chroma keeps the last some hundred changes in SQLite and everything older in files beside it, one folder per collection: rows of links,
vector and label, and a pickle that says which label is whose. Both are read here as plain bytes: no chromadb, no process, and of the
pickle only texts, numbers and dicts. A row, a file or a folder that is damaged is left out. Knows no model and no text.
Not taken: mapping the file into memory, since one that shrinks meanwhile would end this process.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import pickletools
import re
import sqlite3
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from cortex.errors import FileError
from cortex.sources.foreign.readonly import columns, reading

if TYPE_CHECKING:
    import numpy as np

PRODUCT = "Chroma"
FILE = "chroma.sqlite3"
MAX_DIMENSIONS = 16_384
MAX_VECTORS = 1_000_000  # of a collection
MAX_LABELS = 100_000_000  # bytes of the pickle: some 50 for each vector
MAX_ID = 500  # characters
MAX_STRIDE = 4 * MAX_DIMENSIONS + 100_000  # bytes of a row
BLOCK_BYTES = 4_000_000  # of a file that are read at once
ADD, UPDATE, UPSERT, DELETE = 0, 1, 2, 3  # what the queue calls them

log = logging.getLogger(__name__)

_HEADER = struct.Struct(
    "<iQQQQQQ"
)  # version, offset, room, rows, bytes of a row, where its label is, where its vector is
_SEGMENT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PART = re.compile(r"(obs_\d+)_(?:narrative|text|fact_\d+)")
_FACT = re.compile(r"_fact_\d{1,6}$")
_MEMORIES = "claude_memories"  # of the third generation: a memory's own id, and its facts'
_OBSERVATIONS = "cm__"  # of the later ones, before a project
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_PLAIN = _PUTS | frozenset({
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "INT", "LONG", "BININT", "BININT1", "BININT2", "LONG1", "LONG4",
    "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "MEMOIZE", "GET", "BINGET",
    "LONG_BINGET",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Collection:
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


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a file of vectors is laid out."""

    rows: int
    stride: int
    vector: int  # offsets in a row
    label: int
    dimensions: int


def collections(folder: Path) -> list[Collection]:
    """The collections of a store, by name.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
    """
    with reading(folder / FILE, PRODUCT) as connection:
        _check(connection, folder)
        rows = connection.execute(
            "SELECT name, dimension, (SELECT count(*) FROM embeddings JOIN segments ON segments.id = embeddings.segment_id "
            "WHERE segments.collection = collections.id) FROM collections ORDER BY name"
        )
        return [Collection(str(name), _dimensions(size), count) for name, size, count in rows]


def vectors(folder: Path, collection: str) -> Iterator[tuple[str, np.ndarray]]:
    """The ids of a collection, each once, and their vectors as float32 of length 1; none where there is no such collection.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE, also while it is read.
    """
    with reading(folder / FILE, PRODUCT) as connection:
        _check(connection, folder)
        for segment in _segments(connection, folder, collection):
            yield from _vectors(connection, segment)


def memory_vectors(folder: Path) -> dict[str, np.ndarray]:
    """The memories of a store by key, each with the centre of the vectors of its parts; summaries and prompts are none.

    What is told counts as much as all facts together: on 200 commit messages as memories, that centre's cosine with the vector of the
    whole text was 0.92, and 0.89 where every fact counted as much as the story.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
    """
    sums: dict[tuple[str, bool], np.ndarray] = {}
    for name in sorted({one.name for one in collections(folder)}):
        if name != _MEMORIES and not name.startswith(_OBSERVATIONS):
            continue
        for part, vector in vectors(folder, name):
            key, known = _key(part, name), sums.get(_key(part, name))
            if key[0] and (known is None or known.shape == vector.shape):
                sums[key] = vector if known is None else known + vector
    centres: dict[str, np.ndarray] = {}
    for (key, _), one in sums.items():
        unit, other = _unit(one), centres.get(key)
        if unit is not None and (other is None or other.shape == unit.shape):
            centres[key] = unit if other is None else other + unit
    return {key: unit for key, one in centres.items() if (unit := _unit(one)) is not None}


def _key(part: str, collection: str) -> tuple[str, bool]:
    """Whose part this is, "" where it is no memory's, and whether it is one of its facts."""
    if collection == _MEMORIES:
        key = _FACT.sub("", part)
        return key, key != part
    found = _PART.fullmatch(part)
    return (found[1], "_fact_" in part) if found else ("", False)


# -- SQLite ------------------------------------------------------------------------------------------------------------


def _check(connection: sqlite3.Connection, folder: Path) -> None:
    wanted = {
        "collections": {"id", "name", "dimension"},
        "segments": {"id", "scope", "collection"},
        "embeddings": {"segment_id"},
        "embeddings_queue": {"seq_id", "operation", "topic", "id", "vector", "encoding"},
        "max_seq_id": {"segment_id", "seq_id"},
    }
    try:
        lacking = [table for table, names in wanted.items() if not names <= columns(connection, table)]
    except UnicodeDecodeError:  # of SQLite's complaint about a schema that is no text
        lacking = ["sqlite_master"]
    if lacking:
        message = (
            f"{folder / FILE} is no {PRODUCT} store that can be read: its table {lacking[0]} is missing or another one"
        )
        raise FileError("IMPORT_UNREADABLE", message, context={"path": str(folder / FILE)})


def _segments(connection: sqlite3.Connection, folder: Path, collection: str) -> list[_Segment]:
    rows = connection.execute(
        "SELECT collections.id, dimension, segments.id, max_seq_id.seq_id FROM collections "
        "JOIN segments ON segments.collection = collections.id AND segments.scope = 'VECTOR' "
        "LEFT JOIN max_seq_id ON max_seq_id.segment_id = segments.id WHERE name = ? ORDER BY collections.id",
        (collection,),
    ).fetchall()
    return [
        _Segment(key, _dimensions(size), folder / segment, _sequence(flushed))
        for key, size, segment, flushed in rows
        if isinstance(key, str) and isinstance(segment, str) and _SEGMENT.fullmatch(segment) and _dimensions(size)
    ]


def _vectors(connection: sqlite3.Connection, segment: _Segment) -> Iterator[tuple[str, np.ndarray]]:
    labels = _labels(segment.folder)
    latest = _latest(connection, segment, frozenset(labels.values()))
    for label, vector in _flushed(segment) if labels else ():
        name = labels.pop(label, None)  # a row whose label nobody has is a deleted one
        if name is not None and name not in latest:
            yield name, vector
    yield from _queued(connection, segment, latest)


def _latest(connection: sqlite3.Connection, segment: _Segment, flushed: frozenset[str]) -> dict[str, int | None]:
    """Which change in the queue gives an id its vector; None where it was deleted."""
    latest: dict[str, int | None] = {}
    for number, operation, name, has_vector in _queue(connection, segment, "vector IS NOT NULL"):
        exists = latest[name] is not None if name in latest else name in flushed
        if operation == DELETE:
            latest[name] = None
        elif has_vector and (operation == UPSERT or (operation in (ADD, UPDATE) and (operation == UPDATE) == exists)):
            latest[name] = number
        if len(latest) > MAX_VECTORS:
            break
    return latest


def _queued(
    connection: sqlite3.Connection, segment: _Segment, latest: dict[str, int | None]
) -> Iterator[tuple[str, np.ndarray]]:
    import numpy as np

    sized = f"CASE WHEN encoding = 'FLOAT32' AND length(vector) = {4 * segment.dimensions} THEN vector END"
    for number, _, name, blob in _queue(connection, segment, sized):
        if latest.get(name) == number and isinstance(blob, bytes):
            unit = _unit(np.frombuffer(blob, dtype="<f4"))
            if unit is not None:
                yield name, unit


def _queue(connection: sqlite3.Connection, segment: _Segment, expression: str) -> sqlite3.Cursor:
    return connection.execute(
        f"SELECT seq_id, operation, id, {expression} FROM embeddings_queue WHERE topic LIKE '%/' || ? AND seq_id > ? "
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


# -- files -------------------------------------------------------------------------------------------------------------


def _flushed(segment: _Segment) -> Iterator[tuple[int, np.ndarray]]:
    """The labels and vectors that are in the files."""
    import numpy as np

    shape = _shape(segment.folder)
    if shape is None or shape.dimensions != segment.dimensions:
        return
    row = np.dtype({
        "names": ["vector", "label"],
        "formats": [("<f4", (shape.dimensions,)), "<u8"],
        "offsets": [shape.vector, shape.label],
        "itemsize": shape.stride,
    })  # fmt: skip
    try:
        with _open(segment.folder / "data_level0.bin") as file:
            left = min(shape.rows, MAX_VECTORS)
            while left > 0:
                raw = file.read(min(left, max(1, BLOCK_BYTES // shape.stride)) * shape.stride)
                block = np.frombuffer(raw, row, len(raw) // shape.stride)
                for vector, label in zip(block["vector"], block["label"].tolist(), strict=True):
                    unit = _unit(vector)
                    if unit is not None:
                        yield label, unit
                left = left - len(block) if len(block) else 0
    except OSError as error:
        log.warning("vectors in %s are left out: %s", segment.folder, error.strerror or error)


def _shape(folder: Path) -> _Shape | None:
    """What the header says of the rows, None where that can't be."""
    try:
        with _open(folder / "header.bin") as file:
            raw = file.read(_HEADER.size)
    except FileNotFoundError:  # nothing was flushed yet
        return None
    except OSError as error:
        log.warning("vectors in %s are left out: %s", folder, error.strerror or error)
        return None
    if len(raw) < _HEADER.size:
        return None
    version, start, _, rows, stride, label, vector = _HEADER.unpack(raw)
    dimensions = (label - vector) // 4
    fits = vector + 4 * dimensions == label and label + 8 == stride <= MAX_STRIDE and 0 < dimensions <= MAX_DIMENSIONS
    if version != 1 or start != 0 or not fits:
        log.warning("vectors in %s are left out: their layout isn't known", folder)
        return None
    return _Shape(rows, stride, vector, label, dimensions)


def _labels(folder: Path) -> dict[int, str]:
    """The id of each label, as the pickle tells it."""
    try:
        with _open(folder / "index_metadata.pickle") as file:
            raw = file.read(MAX_LABELS + 1)
        if len(raw) > MAX_LABELS:
            raise ValueError("the list of their names is too large")
        if not _is_plain(raw):
            raise ValueError(
                "the list of their names holds more than texts and numbers (a Chroma before 1.0 wrote it so)"
            )
        found = _Plain(io.BytesIO(raw)).load()
    except FileNotFoundError:  # nothing was flushed yet
        return {}
    except (
        OSError,
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        OverflowError,
    ) as error:
        log.warning("vectors in %s are left out: %s", folder, error)
        return {}
    labels = found.get("label_to_id") if isinstance(found, dict) else None
    if not isinstance(labels, dict):
        log.warning("vectors in %s are left out: nothing tells whose they are", folder)
        return {}
    return {
        label: name
        for label, name in labels.items()
        if isinstance(label, int) and isinstance(name, str) and 0 < len(name) <= MAX_ID
    }


class _Plain(pickle.Unpickler):
    """Reads what needs no class."""

    def find_class(self, module: str, name: str, /) -> object:
        raise pickle.UnpicklingError(f"the list of their names asks for {module}.{name}")


def _is_plain(raw: bytes) -> bool:
    """Whether a pickle makes nothing but texts, numbers and dicts, and asks for no more memory than its own size deserves.

    `find_class` alone would let a number of four bytes claim 32 GB for what is remembered on the way.
    """
    return all(
        opcode.name in _PLAIN and (opcode.name not in _PUTS or int(argument or 0) <= len(raw))
        for opcode, argument, _ in pickletools.genops(raw)
    )


def _open(path: Path) -> BinaryIO:
    """A regular file in a folder of the store, where neither is a link. Raises: OSError."""
    if not stat.S_ISDIR(os.lstat(path.parent).st_mode) or not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(f"{path} is a link, or no file")
    return open(path, "rb")


def _unit(vector: np.ndarray) -> np.ndarray | None:
    """The vector with length 1; None where it has no direction."""
    import numpy as np

    with np.errstate(invalid="ignore"):  # there are NaNs that complain when they are converted
        exact = vector.astype(np.float64)
    length = float(np.sqrt(exact @ exact))
    return (exact / length).astype(np.float32) if np.isfinite(length) and length > 1e-6 else None
