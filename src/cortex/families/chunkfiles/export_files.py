"""The chunk files on disk: reading back what was written before, and writing so that a reader sees
the old file or the new one.

Written as the known readers have it: a wrapper with `_metadata`, keys in a fixed order, compact
JSON, numbers in the shortest form that reads back as the same 32 bits, first in `.tmp/`, then
renamed. `generator-output.json` says who wrote them: files of another program are never replaced
unasked. Knows no engine; what goes into an entry is decided in `entries.py`.
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
from typing import TYPE_CHECKING, TextIO

from cortex.base.errors import ConfigError, FileError, LimitError, explained
from cortex.base.runtime.file_lock import lock_file
from cortex.families.chunkfiles.export_entries import DATA, DEFINITIONS, DOCUMENTATION, SYMBOLS
from cortex.families.chunkfiles.format import Reading, WrittenFile

if TYPE_CHECKING:
    import numpy as np

NAMES = {
    SYMBOLS: "code-symbols.json",
    DEFINITIONS: "code-definitions.json",
    DATA: "code-data.json",
    DOCUMENTATION: "doc-chunks.json",
}
OUTPUT = "generator-output.json"
VERSION = "2.0.0"  # of the format
GENERATOR = "cortex-context"


@dataclass(frozen=True, slots=True)
class ExportModel:
    """Whose vectors a chunk file has."""

    name: str
    dimensions: int


def now() -> str:
    """This moment as chunk files say it: with microseconds and the offset of this place."""
    return datetime.now().astimezone().isoformat(timespec="microseconds")


def moment(nanoseconds: int) -> str:
    """A file's time in the same form."""
    return datetime.fromtimestamp(nanoseconds / 1e9).astimezone().isoformat(timespec="microseconds")


def is_ours(folder: Path) -> bool:
    """Whether the chunk files in `folder` were written by this program, or there are none."""
    if not any((folder / name).exists() for name in (*NAMES.values(), OUTPUT)):
        return True
    return _read_output(folder).get("generator") == GENERATOR


def read_told(folder: Path) -> tuple[object, object]:
    """The checksums and times of files that generator-output.json names."""
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
    """Raises: ConfigError CHUNKS_FOREIGN, where another program's chunk files are in `folder`."""
    if not is_ours(folder):
        raise ConfigError(
            "CHUNKS_FOREIGN",
            f"the chunk files in {folder} were written by another program",
            context={"path": str(folder)},
        )


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Be the only one who writes into `folder`.

    Raises: LimitError INDEX_BUSY, where somebody else does; FileError, where it can't be written.
    """
    aside = folder / ".tmp"
    try:
        aside.mkdir(parents=True, exist_ok=True)
        if aside.is_symlink():
            raise FileError(
                "PERMISSION_DENIED", f"{aside} is a link: nothing is written through it"
            )
        handle = os.open(
            aside / "lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600
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
    """Write a file aside, then put it in its place. Raises: FileError."""
    aside = folder / ".tmp" / name
    try:
        aside.unlink(missing_ok=True)  # never write through a link that somebody left there
        with open(aside, "x", encoding="utf-8", newline="\n") as file:
            _write(file, pieces)
        os.replace(aside, folder / name)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise explained(error, f"writing {folder / name}") from error


def _write(file: TextIO, pieces: Iterable[str]) -> None:
    for piece in pieces:
        file.write(piece)
    file.flush()
    os.fsync(file.fileno())


def render(
    kind: str, model: ExportModel, generated: str, written: Iterable[WrittenFile]
) -> Iterator[str]:
    """A chunk file, piece by piece."""
    head = {
        "model": model.name,
        "dimensions": model.dimensions,
        "chunk_type": kind,
        "generated": generated,
        "version": VERSION,
    }
    yield f'{{"_metadata":{compact(head)},"chunks":['
    for number, one in enumerate(written):
        yield f"{',' if number else ''}{_render_one(one)}"
    yield "]}"


def _render_one(one: WrittenFile) -> str:
    entry = one.entry
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
    vector = "" if one.embedding is None else f'"embedding":{numbers(one.embedding)},'
    return f"{compact(before)[:-1]},{vector}{compact(after)[1:]}"


def compact(value: object) -> str:
    """JSON without spaces. Halves of characters, which no UTF-8 can say, are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if _is_writable(text) else json.dumps(value, separators=(",", ":"))


def indented(value: object) -> str:
    """JSON for people."""
    return json.dumps(value, indent=2)


def _is_writable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def numbers(vector: np.ndarray) -> str:
    """A vector of 32-bit numbers as a JSON array, each in its shortest form."""
    return f"[{','.join(vector.astype('float32').astype(str).tolist())}]"


def read_written(folder: Path, kind: str, model: ExportModel) -> dict[str, WrittenFile]:
    """What was written before, by id; nothing where that isn't of this model, or can't be read."""
    try:
        reading = Reading(folder / NAMES[kind])
        if (reading.model, reading.dimensions) != (model.name, model.dimensions):
            return {}
        return {one.entry.id: one for one in reading if one.embedding is not None}
    except FileError:
        return {}
