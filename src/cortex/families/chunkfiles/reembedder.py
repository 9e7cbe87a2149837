"""Chunk files of a model that can't be asked here get the vectors of one that can; all else in them
stays as it is.

For `cortex chunks reembed`: whoever's files they are, only `_metadata.model`, its `dimensions` and
the vectors become others. A file that can't be understood, or holds no chunks, is left alone and
named. Numbers keep the form in which they were written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cortex.base.errors import Cancelled, FileError
from cortex.base.types import Cancel, Progress, ProgressCallback
from cortex.engine.embedders.circuit_breaker import CircuitBreaker
from cortex.families.chunkfiles import export_files
from cortex.families.chunkfiles.format import list_chunk_files

log = logging.getLogger(__name__)

BATCH = 64
MAX_BYTES = 2_000_000_000  # of one file

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Reembedded:
    """What became of one file."""

    name: str
    chunks: int  # that have new vectors
    before: str  # the model that it had, "" where it didn't say
    problem: str = ""  # why it was left alone; "" where it was written, or has this model already


class _Number(str):
    """A number as it stood in the file."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A list of numbers as it stood in the file: as one text it takes a twentieth of the memory."""

    text: str
    count: int


def reembed(
    folder: Path,
    embedder: CircuitBreaker,
    *,
    progress: ProgressCallback = lambda progress: None,
    cancel: Cancel | None = None,
) -> list[Reembedded]:
    """Give every chunk file in `folder` the vectors of `embedder`; one that has them already is
    left alone.

    Raises: FileError FILE_NOT_FOUND, where there is no such folder, or another, where it can't be
    written; CortexError, where the embedder fails; LimitError INDEX_BUSY; Cancelled. What was
    written until then is complete.
    """
    if not folder.is_dir():
        raise FileError("FILE_NOT_FOUND", f"there is no folder {folder}")
    stamp = embedder.stamp or embedder.connect()
    model = export_files.ExportModel(stamp.model, stamp.dimensions)
    cancel = Cancel() if cancel is None else cancel
    with export_files.writing(folder):
        listing = list_chunk_files(folder)  # without links and pipes
        for warning in listing.warnings:
            log.warning("%s", warning)
        return [
            _reembed_file(folder, file.name, embedder, model, progress, cancel)
            for file in listing.files
        ]


def _reembed_file(
    folder: Path,
    name: str,
    embedder: CircuitBreaker,
    model: export_files.ExportModel,
    progress: ProgressCallback,
    cancel: Cancel,
) -> Reembedded:
    try:
        content = _read(folder / name)
        head, chunks = _parts_of(content)
    except (OSError, ValueError, RecursionError) as error:
        return Reembedded(name, 0, "", f"can't be read as a chunk file: {error}")
    before = str(head.get("model", ""))
    if before == model.name and all(_has_vector(one, model) for one in chunks):
        return Reembedded(name, 0, before)
    texts = [str(chunk["text"]) for chunk in chunks]
    rows: list[np.ndarray] = []
    for start in range(0, len(texts), BATCH):
        if cancel:
            raise Cancelled
        rows.extend(embedder.passages(texts[start : start + BATCH]))
        progress(Progress("embedding", len(rows), len(texts)))
    for one, row in zip(chunks, rows, strict=True):
        if not row.any():  # readers divide by its length
            row = embedder.passages([f"{one.get('title', '')}\n{one['text']}"])[0]
        one["embedding"] = row
    renamed = {**head, "model": model.name, "dimensions": _Number(model.dimensions)}
    shape: Json = (
        {**content, "_metadata": renamed}
        if isinstance(content, dict)
        else {"_metadata": renamed, "chunks": chunks}
    )
    if "_metadata" not in content:  # what says whose vectors they are comes first
        shape = {"_metadata": renamed, **shape}
    export_files.replace(folder, name, _render(shape))
    return Reembedded(name, len(chunks), before)


def _read(path: Path) -> Json | list[object]:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError("it is too large")
    with open(path, encoding="utf-8-sig") as file:
        return json.load(
            file,
            parse_float=_Number,
            parse_int=_Number,
            parse_constant=_refuse,
            object_pairs_hook=_packed,
        )


def _packed(pairs: list[tuple[str, object]]) -> Json:
    """An object without the many small texts of its vector."""
    found: Json = dict(pairs)
    vector = found.get("embedding")
    if isinstance(vector, list) and all(type(one) is _Number for one in vector):
        found["embedding"] = _Numbers(f"[{','.join(vector)}]", len(vector))
    return found


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no number")


def _parts_of(content: Json | list[object]) -> tuple[Json, list[Json]]:
    """What a chunk file says of itself, and its chunks. Raises: ValueError."""
    chunks = content.get("chunks") if isinstance(content, dict) else content
    head = content.get("_metadata", {}) if isinstance(content, dict) else {}
    if not isinstance(chunks, list) or not isinstance(head, dict):
        raise ValueError("it holds no chunks")
    found: list[Json] = []
    for number, one in enumerate(chunks):
        if (
            not isinstance(one, dict)
            or not isinstance(one.get("text"), str)
            or isinstance(one["text"], _Number)
        ):
            raise ValueError(f"chunk {number} has no text")
        found.append(one)
    return head, found


def _has_vector(one: Mapping[str, object], model: export_files.ExportModel) -> bool:
    vector = one.get("embedding")
    return isinstance(vector, _Numbers) and vector.count == model.dimensions


def _render(value: object) -> Iterator[str]:
    """JSON of what was read, numbers as they were, vectors as this program writes them."""
    if isinstance(value, _Number):
        yield str(value)
    elif isinstance(value, _Numbers):
        yield value.text
    elif isinstance(value, dict):
        yield "{"
        for number, (key, inner) in enumerate(value.items()):
            yield f"{',' if number else ''}{export_files.compact(key)}:"
            yield from _render(inner)
        yield "}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield "["
        for number, inner in enumerate(value):
            yield "," if number else ""
            yield from _render(inner)
        yield "]"
    elif isinstance(value, np.ndarray):
        yield export_files.numbers(value)
    else:
        yield export_files.compact(value)
