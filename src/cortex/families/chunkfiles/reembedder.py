"""Reembedding: give chunk files the vectors of an embedder that can be queried here.

For `cortex chunks reembed`, on the files of any program. Only `_metadata.model`, its `dimensions`
and the vectors change; numbers keep the form in which they were written. A file that can't be
understood, or holds no chunks, is left alone and named.
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

# Texts per call of the embedder.
BATCH = 64
# Per file.
MAX_BYTES = 2_000_000_000

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Reembedded:
    """Outcome for one file."""

    name: str
    # Chunks that have new vectors.
    chunks: int
    # The model that it had, "" if it didn't say.
    before: str
    # Why it was left alone; "" if it was written, or has this model already.
    problem: str = ""


class _Number(str):
    """A number as written in the file."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A list of numbers as written in the file: one text takes a twentieth of the memory."""

    text: str
    count: int


def reembed(
    folder: Path,
    embedder: CircuitBreaker,
    *,
    progress: ProgressCallback = lambda progress: None,
    cancel: Cancel | None = None,
) -> list[Reembedded]:
    """Give every chunk file in `folder` the vectors of `embedder`, except where it has them.

    Raises: FileError FILE_NOT_FOUND if there is no such folder, or another code if it can't be
    written; CortexError if the embedder fails; LimitError INDEX_BUSY; Cancelled. Files written
    until then are complete.
    """
    if not folder.is_dir():
        raise FileError("FILE_NOT_FOUND", f"there is no folder {folder}")
    stamp = embedder.stamp or embedder.connect()
    model = export_files.ExportModel(stamp.model, stamp.dimensions)
    cancel = Cancel() if cancel is None else cancel
    with export_files.writing(folder):
        # The listing leaves out links and pipes.
        listing = list_chunk_files(folder)
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
        head, chunks = _split(content)
    except (OSError, ValueError, RecursionError) as error:
        return Reembedded(name, 0, "", f"can't be read as a chunk file: {error}")
    before = str(head.get("model", ""))
    if before == model.name and all(_has_vector(chunk, model) for chunk in chunks):
        return Reembedded(name, 0, before)
    texts = [(str(chunk["text"]), f"{chunk.get('title', '')}\n{chunk['text']}") for chunk in chunks]
    for chunk, row in zip(chunks, embed_texts(texts, embedder, progress, cancel), strict=True):
        chunk["embedding"] = row
    renamed = {**head, "model": model.name, "dimensions": _Number(model.dimensions)}
    shape: Json = (
        {**content, "_metadata": renamed}
        if isinstance(content, dict)
        else {"_metadata": renamed, "chunks": chunks}
    )
    # The metadata that names the model comes first.
    if "_metadata" not in content:
        shape = {"_metadata": renamed, **shape}
    export_files.replace(folder, name, _render(shape))
    return Reembedded(name, len(chunks), before)


def embed_texts(
    texts: Sequence[tuple[str, str]],
    embedder: CircuitBreaker,
    progress: ProgressCallback,
    cancel: Cancel,
) -> list[np.ndarray]:
    """Embed texts, each with another one for where the model gives a vector of length 0.

    Readers divide by a vector's length.
    """
    rows: list[np.ndarray] = []
    for start in range(0, len(texts), BATCH):
        if cancel:
            raise Cancelled
        batch = texts[start : start + BATCH]
        for row, (_, other) in zip(
            embedder.passages([text for text, _ in batch]), batch, strict=True
        ):
            rows.append(row if row.any() else embedder.passages([other])[0])
        progress(Progress("embedding", len(rows), len(texts)))
    return rows


def _read(path: Path) -> Json | list[object]:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError("it is too large")
    with open(path, encoding="utf-8-sig") as file:
        return json.load(
            file,
            parse_float=_Number,
            parse_int=_Number,
            parse_constant=_reject_constant,
            object_pairs_hook=_pack_vector,
        )


def _pack_vector(pairs: list[tuple[str, object]]) -> Json:
    """Build an object with its vector as one text instead of many small ones."""
    fields: Json = dict(pairs)
    vector = fields.get("embedding")
    if isinstance(vector, list) and all(type(number) is _Number for number in vector):
        fields["embedding"] = _Numbers(f"[{','.join(vector)}]", len(vector))
    return fields


def _reject_constant(constant: str) -> object:
    raise ValueError(f"{constant} is no number")


def _split(content: Json | list[object]) -> tuple[Json, list[Json]]:
    """Split a chunk file into its metadata and its chunks.

    Raises: ValueError.
    """
    chunks = content.get("chunks") if isinstance(content, dict) else content
    head = content.get("_metadata", {}) if isinstance(content, dict) else {}
    if not isinstance(chunks, list) or not isinstance(head, dict):
        raise ValueError("it holds no chunks")
    valid: list[Json] = []
    for position, chunk in enumerate(chunks):
        if (
            not isinstance(chunk, dict)
            or not isinstance(chunk.get("text"), str)
            or isinstance(chunk["text"], _Number)
        ):
            raise ValueError(f"chunk {position} has no text")
        valid.append(chunk)
    return head, valid


def _has_vector(chunk: Mapping[str, object], model: export_files.ExportModel) -> bool:
    vector = chunk.get("embedding")
    return isinstance(vector, _Numbers) and vector.count == model.dimensions


def _render(value: object) -> Iterator[str]:
    """Render the parsed JSON: numbers as they were, new vectors as this program writes them."""
    if isinstance(value, _Number):
        yield str(value)
    elif isinstance(value, _Numbers):
        yield value.text
    elif isinstance(value, dict):
        yield "{"
        for position, (key, inner) in enumerate(value.items()):
            yield f"{',' if position else ''}{export_files.compact(key)}:"
            yield from _render(inner)
        yield "}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield "["
        for position, inner in enumerate(value):
            yield "," if position else ""
            yield from _render(inner)
        yield "]"
    elif isinstance(value, np.ndarray):
        yield export_files.numbers(value)
    else:
        yield export_files.compact(value)
