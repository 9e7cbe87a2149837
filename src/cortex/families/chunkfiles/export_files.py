"""Chunk files on disk: reading the existing ones and replacing them atomically.

Written as the known readers expect: a wrapper with `_metadata`, keys in a fixed order, compact
JSON, numbers in the shortest form that reads back as the same 32 bits; first to `.tmp/`, then
renamed. `generator-output.json` names the writer: files of another program are never replaced
unasked. Knows no engine; `export_entries.py` decides the contents of an entry.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import ConfigError, FileError, LimitError, explained
from cortex.base.runtime.file_lock import lock_file
from cortex.families.chunkfiles.export_entries import DATA, DEFINITIONS, DOCUMENTATION, SYMBOLS
from cortex.families.chunkfiles.format import ChunkFileReader, WrittenChunk

if TYPE_CHECKING:
    import numpy as np

NAMES = {
    SYMBOLS: "code-symbols.json",
    DEFINITIONS: "code-definitions.json",
    DATA: "code-data.json",
    DOCUMENTATION: "doc-chunks.json",
}
OUTPUT = "generator-output.json"
# Version of the file format.
VERSION = "2.0.0"
GENERATOR = "cortex-context"


@dataclass(frozen=True, slots=True)
class ExportModel:
    """Model of a chunk file's vectors."""

    name: str
    dimensions: int


def now() -> str:
    """Format the current local time with microseconds and offset, as in chunk files."""
    return datetime.now().astimezone().isoformat(timespec="microseconds")


def moment(nanoseconds: int) -> str:
    """Format a file's time in the same form."""
    return datetime.fromtimestamp(nanoseconds / 1e9).astimezone().isoformat(timespec="microseconds")


def is_ours(folder: Path) -> bool:
    """True if the chunk files in `folder` were written by this program, or there are none."""
    if not any((folder / name).exists() for name in (*NAMES.values(), OUTPUT)):
        return True
    return _read_output(folder).get("generator") == GENERATOR


def read_told(folder: Path) -> tuple[object, object]:
    """Read the checksums and times of files from generator-output.json."""
    output = _read_output(folder)
    return output.get("file_checksums", {}), output.get("file_mtimes", {})


def _read_output(folder: Path) -> Mapping[str, object]:
    try:
        if not stat.S_ISREG(os.lstat(folder / OUTPUT).st_mode):
            return {}
        with open(folder / OUTPUT, encoding="utf-8") as file:
            output = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return output if isinstance(output, dict) else {}


def check_ours(folder: Path) -> None:
    """Check that `folder` holds no chunk files of another program.

    Raises: ConfigError CHUNKS_FOREIGN.
    """
    if not is_ours(folder):
        raise ConfigError(
            "CHUNKS_FOREIGN",
            f"the chunk files in {folder} were written by another program",
            context={"path": str(folder)},
        )


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Hold the write lock of `folder`.

    Raises: LimitError INDEX_BUSY if another process holds it; FileError if the folder can't be
    written.
    """
    temporary = folder / ".tmp"
    try:
        temporary.mkdir(parents=True, exist_ok=True)
        if temporary.is_symlink():
            raise FileError(
                "PERMISSION_DENIED", f"{temporary} is a link: nothing is written through it"
            )
        handle = os.open(
            temporary / "lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600
        )
    except OSError as error:
        raise explained(error, f"writing to {folder}") from error
    try:
        if not lock_file(handle):
            raise LimitError(
                "INDEX_BUSY", f"another process is writing the chunk files in {folder}"
            )
        yield
    finally:
        os.close(handle)


def replace(folder: Path, name: str, pieces: Iterable[str]) -> None:
    """Write a file to `.tmp/`, then rename it into place.

    Raises: FileError.
    """
    temporary = folder / ".tmp" / name
    try:
        # Never write through a link that was left there.
        temporary.unlink(missing_ok=True)
        with open(temporary, "x", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / name)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise explained(error, f"writing {folder / name}") from error


def render(
    kind: str, model: ExportModel, generated: str, written: Iterable[WrittenChunk]
) -> Iterator[str]:
    """Render a chunk file piece by piece."""
    head = {
        "model": model.name,
        "dimensions": model.dimensions,
        "chunk_type": kind,
        "generated": generated,
        "version": VERSION,
    }
    yield f'{{"_metadata":{compact(head)},"chunks":['
    for position, chunk in enumerate(written):
        yield f"{',' if position else ''}{_render_chunk(chunk)}"
    yield "]}"


def _render_chunk(chunk: WrittenChunk) -> str:
    entry = chunk.entry
    before = {
        "id": entry.id,
        "chunk_type": entry.chunk_type,
        "title": entry.title,
        "text": entry.text,
    }
    after = {
        "tags": entry.tags,
        "metadata": entry.metadata,
        "created_at": entry.created_at,
        "updated_at": entry.updated_at,
    }
    vector = "" if chunk.embedding is None else f'"embedding":{numbers(chunk.embedding)},'
    return f"{compact(before)[:-1]},{vector}{compact(after)[1:]}"


def compact(value: object) -> str:
    """Encode as JSON without spaces; lone surrogates, which UTF-8 can't hold, are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def indented(value: object) -> str:
    """Encode as indented JSON for people."""
    return json.dumps(value, indent=2)


def numbers(vector: np.ndarray) -> str:
    """Format a vector of 32-bit numbers as a JSON array, each in its shortest form."""
    return f"[{','.join(vector.astype('float32').astype(str).tolist())}]"


def read_written(folder: Path, kind: str, model: ExportModel) -> dict[str, WrittenChunk]:
    """Read the existing chunks by id; empty if they are of another model or unreadable."""
    try:
        reading = ChunkFileReader(folder / NAMES[kind])
        if (reading.model, reading.dimensions) != (model.name, model.dimensions):
            return {}
        return {chunk.entry.id: chunk for chunk in reading if chunk.embedding is not None}
    except FileError:
        return {}
