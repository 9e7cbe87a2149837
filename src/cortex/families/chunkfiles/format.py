"""Streaming reader for chunk files, the JSON that an indexer writes for a project.

The indexer may be Cortex or another program. There is one file for each kind of chunk, either this
object or only its list:

    {"_metadata": {"model": "BAAI/bge-small-en-v1.5", "dimensions": 384, ...},
     "chunks": [{"id": ..., "text": ..., ...}, ...]}

A file is read entry by entry: as a whole, 100,000 chunks would take 2 GB. A malformed chunk is
skipped and reported in `warnings`; malformed JSON makes the whole file unreadable. Knows no store
and no search. The standard library finds the end of an entry; pydantic's JSON parser reads the
numbers in a fifth of its time, and nine tenths of a file are numbers.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pydantic_core import from_json

from cortex.base.errors import FileError
from cortex.base.text import is_text
from cortex.base.types import Entry

# numpy is imported where a vector is read, so that projects without chunk files don't load it.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ENDING = ".json"
# An indexer's own notes, which it keeps beside its chunks.
IGNORED = frozenset({"generator-output.json"})
# Bytes per read.
BLOCK = 1 << 20
# Characters of one JSON value: a longer one is no chunk.
MAX_CHARACTERS = 64 << 20
# Digits of an integer: Python refuses to parse much longer ones.
MAX_DIGITS = 400
# Per file.
MAX_WARNINGS = 20
MAX_DIMENSIONS = 100_000
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBERS = re.compile(r'"embedding"\s*:\s*(?=\[)')
# Characters of an entry that are searched for its end after the numbers.
_TAIL = 32_768
# Placeholder in an entry for its numbers, which are parsed separately.
_PLACEHOLDER = "\0numbers"
_PLACEHOLDER_JSON = json.dumps(_PLACEHOLDER)
# A parse error this close to the end of the buffer may only mean that there is more to read.
_CUT_MARGIN = 16

# Modification time, size and inode: another content has another signature.
Signature = tuple[int, int, int]
Vector: TypeAlias = "NDArray[np.float32]"


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """A file that may hold chunks."""

    path: Path
    signature: Signature

    @property
    def name(self) -> str:
        return self.path.name


@dataclass(frozen=True, slots=True)
class WrittenChunk:
    """One chunk as written in a file, with its vector if it has one."""

    entry: Entry
    embedding: Vector | None


@dataclass(frozen=True, slots=True)
class Listing:
    """Chunk files of a folder, sorted by name, and warnings about files that don't qualify."""

    files: tuple[ChunkFile, ...]
    warnings: tuple[str, ...]


def list_chunk_files(directory: Path) -> Listing:
    """List the chunk files in a folder, not in its subfolders.

    Raises: FileError FILE_NOT_FOUND or PERMISSION_DENIED.
    """
    files: list[ChunkFile] = []
    warnings: list[str] = []
    try:
        with os.scandir(directory) as entries:
            candidates = sorted(
                (entry for entry in entries if entry.name.endswith(ENDING)),
                key=lambda entry: entry.name,
            )
        for entry in candidates:
            if entry.name in IGNORED:
                continue
            status = entry.stat(follow_symlinks=False)
            # A link may lead out of the project, and a pipe never ends.
            if not stat.S_ISREG(status.st_mode):
                warnings.append(f"{shown(entry.name)} is no ordinary file (left out)")
            elif not is_text(entry.name):
                warnings.append(f"{shown(entry.name)} has a name that isn't UTF-8 (left out)")
            else:
                files.append(
                    ChunkFile(
                        directory / entry.name, (status.st_mtime_ns, status.st_size, status.st_ino)
                    )
                )
    except OSError as error:
        raise _unreadable(directory, error) from error
    return Listing(tuple(files), tuple(warnings))


def shown(name: str) -> str:
    """Quote a name of unknown origin for a message if it isn't printable."""
    return name if name.isprintable() else json.dumps(name)


class ChunkFileReader:
    """One pass over a chunk file.

    `model` and `dimensions` come from its `_metadata`, or are "" and 0.

    Raises: FileError FILE_UNREADABLE, PERMISSION_DENIED or FILE_NOT_FOUND, possibly after some
    entries.
    """

    def __init__(self, path: Path) -> None:
        self.name = shown(path.name)
        self.warnings: list[str] = []
        self._path = path
        self._more_warnings = 0
        self.model, self.dimensions = self._read_metadata()

    def __iter__(self) -> Iterator[WrittenChunk]:
        """Yield the well-formed chunks in order; `warnings` names the others."""
        position = 0
        for position, value in enumerate(self._values(), start=1):
            try:
                yield self._parse_chunk(value)
            except (ValueError, RecursionError) as error:
                reason = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
                self._warn(f"{self.name}: chunk {position}{_id_suffix(value)} {reason} (left out)")
        if self._more_warnings:
            self.warnings.append(f"{self.name}: {self._more_warnings} more chunks are malformed")

    def _warn(self, warning: str) -> None:
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(warning)
        else:
            self._more_warnings += 1

    def _read_metadata(self) -> tuple[str, int]:
        """Read model and dimensions from the metadata.

        It mostly stands before the chunks; otherwise the chunks are skipped over in an extra pass.
        """
        metadata: object = {}
        with _opened(self._path) as text:
            if text.peek() == "{":
                for key in _keys(text):
                    if key == "_metadata":
                        metadata = text.value()
                        break
                    _skip(text)
        fields = metadata if isinstance(metadata, Mapping) else {}
        model, dimensions = fields.get("model"), fields.get("dimensions")
        if dimensions is not None and not (
            type(dimensions) is int and 0 < dimensions <= MAX_DIMENSIONS
        ):
            self._warn(f"{self.name}: its dimensions are no number of dimensions (ignored)")
            dimensions = None
        return (model if isinstance(model, str) and is_text(model) else ""), dimensions or 0

    def _values(self) -> Iterator[object]:
        with _opened(self._path) as text:
            if text.peek() == "{":
                has_chunks = False
                for key in _keys(text):
                    if key == "chunks" and text.peek() == "[":
                        has_chunks = True
                        yield from _items(text, text.entry)
                    else:
                        # A null means that there are no chunks.
                        has_chunks = has_chunks or key == "chunks"
                        text.value()
                if not has_chunks:
                    self._warn(f"{self.name} holds no chunks")
            else:
                yield from _items(text, text.entry)
            if text.peek():
                raise text.mistake("goes on after its end")

    def _parse_chunk(self, value: object) -> WrittenChunk:
        """Validate one chunk.

        Raises: ValueError that says what is wrong.
        """
        if not isinstance(value, Mapping):
            raise ValueError("is no object")
        embedding = self._parse_vector(value.get("embedding"))
        tags, metadata, text = value.get("tags"), value.get("metadata"), value.get("text")
        if tags is not None and not (
            isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)
        ):
            raise ValueError("has tags that are no list of texts")
        if metadata is not None and not isinstance(metadata, Mapping):
            raise ValueError("has metadata that is no object")
        if not isinstance(text, str) or not text:
            raise ValueError("has no text")
        entry = Entry(
            id=_text(value, "id") or "",
            chunk_type=_text(value, "chunk_type"),
            title=_text(value, "title"),
            text=_well_formed(text),
            tags=None if tags is None else tuple(_well_formed(tag) for tag in tags),
            metadata=None
            if metadata is None
            else {_well_formed(key): _sanitize(part) for key, part in metadata.items()},
            created_at=_text(value, "created_at"),
            updated_at=_text(value, "updated_at"),
        )
        if not entry.id:
            raise ValueError("has no id")
        return WrittenChunk(entry, embedding)

    def _parse_vector(self, value: object) -> Vector | None:
        if value is None or value == []:
            return None
        if not isinstance(value, list):
            raise ValueError("has an embedding that is no list")
        if self.dimensions and len(value) != self.dimensions:
            raise ValueError(
                f"has an embedding of {len(value)} numbers instead of {self.dimensions}"
            )
        import numpy as np

        try:
            wide = np.asarray(value)
        except ValueError:
            # The value holds lists of different lengths.
            wide = np.empty(0, dtype=object)
        if wide.ndim != 1 or wide.dtype.kind not in "fiu":
            raise ValueError("has an embedding that is no list of numbers")
        with np.errstate(over="ignore"):
            vector = wide.astype(np.float32)
        if not np.isfinite(vector).all():
            raise ValueError("has an embedding with a value that is no finite number")
        self.dimensions = self.dimensions or len(value)
        return vector


class _Text:
    """A file as JSON text that is read only as far as needed."""

    def __init__(self, file: FileIO, name: str) -> None:
        self._file = file
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("strict")
        self._json = json.JSONDecoder(parse_int=_parse_integer)
        self._text = ""
        self._at = 0
        # Number of characters already dropped from the buffer.
        self._before = 0
        self._ended = False
        # Start of the next list of numbers; -1 while it is not known.
        self._numbers = -1

    def peek(self) -> str:
        """Return the next character that is no white space, "" at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._read_on()

    def take(self, characters: str) -> str:
        """Consume the next character, which must be one of these."""
        character = self.peek()
        if not character or character not in characters:
            raise self.mistake(f"has no {' or '.join(characters)} where one belongs")
        self._at += 1
        return character

    def value(self) -> object:
        """Parse the next value completely."""
        self.peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = (
                    error.msg.startswith("Unterminated")
                    or error.pos >= len(self._text) - _CUT_MARGIN
                )
                if self._ended or not cut:
                    self._at = error.pos
                    raise self.mistake("isn't valid JSON") from None
                if len(self._text) - self._at > MAX_CHARACTERS:
                    raise self.mistake("holds a value that is too long") from None
                self._read_on()
                continue
            except RecursionError:
                raise self.mistake("is nested too deeply") from None
            # A number may continue in the next block.
            if end == len(self._text) and not self._ended:
                self._read_on()
                continue
            self._at = end
            return value

    def entry(self) -> object:
        """Parse the next value with the fast path for its numbers, if that is possible."""
        self.peek()
        if self._numbers < self._at:
            match = _NUMBERS.search(self._text, self._at)
            self._numbers = match.end() if match else len(self._text)
        start, end = self._numbers, self._text.find("]", self._numbers) + 1
        if end:
            try:
                head = self._text[self._at : start] + _PLACEHOLDER_JSON
                value, length = self._json.raw_decode(head + self._text[end : end + _TAIL])
                if (
                    isinstance(value, dict)
                    and value.get("embedding") == _PLACEHOLDER
                    and length > len(head)
                ):
                    value["embedding"] = from_json(self._text[start:end])
                    self._at = end + length - len(head)
                    return value
            except (ValueError, RecursionError):
                # The entry is longer, or malformed: the slow path finds out.
                pass
        return self.value()

    def mistake(self, what: str) -> FileError:
        where = f"at character {self._before + self._at}"
        return FileError(
            "FILE_UNREADABLE",
            f"{shown(self._name)} {what} ({where})",
            context={"file": self._name, "what": what},
        )

    def _read_on(self) -> None:
        raw = self._file.read(max(BLOCK, len(self._text) - self._at))
        try:
            more = self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError:
            raise self.mistake("isn't UTF-8") from None
        self._before += self._at
        self._text, self._at, self._ended = self._text[self._at :] + more, 0, not raw
        self._numbers = -1


@contextmanager
def _opened(path: Path) -> Iterator[_Text]:
    """Open a file for one pass; OSError becomes FileError."""
    try:
        with open(path, "rb", buffering=0, opener=_open_regular) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FileError("FILE_UNREADABLE", f"{shown(path.name)} is no ordinary file")
            yield _Text(file, path.name)
    except OSError as error:
        raise _unreadable(path, error) from error


def _open_regular(path: str, flags: int) -> int:
    """Open without following links or blocking on a pipe that appeared after the listing."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _keys(text: _Text) -> Iterator[str]:
    """Yield the keys of an object; the caller consumes the value after each."""
    text.take("{")
    if text.peek() == "}":
        text.take("}")
        return
    while True:
        if text.peek() != '"':
            raise text.mistake('has no " where one belongs')
        key = str(text.value())
        text.take(":")
        yield key
        if text.take(",}") == "}":
            return


def _items(text: _Text, read: Callable[[], object]) -> Iterator[object]:
    """Yield the values of a list, each parsed by `read`."""
    text.take("[")
    if text.peek() == "]":
        text.take("]")
        return
    while True:
        yield read()
        if text.take(",]") == "]":
            return


def _skip(text: _Text) -> None:
    """Skip a value, a list item by item."""
    if text.peek() == "[":
        for _ in _items(text, text.value):
            pass
    else:
        text.value()


def _text(value: Mapping[str, object], name: str) -> str | None:
    text = value.get(name)
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f"has a {name} that is no text")
    return _well_formed(text)


def _sanitize(value: object) -> object:
    """Make a value safe to write as JSON again.

    Raises: ValueError.
    """
    match value:
        case str():
            return _well_formed(value)
        case float() if not math.isfinite(value):
            raise ValueError("has metadata with a number that is too large or none")
        case list():
            return [_sanitize(part) for part in value]
        case dict():
            return {_well_formed(key): _sanitize(part) for key, part in value.items()}
    return value


def _well_formed(text: str) -> str:
    """Replace lone surrogates, which JSON can hold and UTF-8 can't."""
    if is_text(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _parse_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_DIGITS else math.inf


def _id_suffix(value: object) -> str:
    """Format the id of a malformed chunk for a message, or ""."""
    name = value.get("id") if isinstance(value, Mapping) else None
    return f" ({shown(_well_formed(name)[:120])})" if isinstance(name, str) and name else ""


def _unreadable(path: Path, error: OSError) -> FileError:
    code = {FileNotFoundError: "FILE_NOT_FOUND", PermissionError: "PERMISSION_DENIED"}.get(
        type(error), "FILE_UNREADABLE"
    )
    return FileError(
        code,
        f"{shown(str(path))} can't be read: {error.strerror}",
        context={"path": str(path)},
        instead=("Check that the chunk files are there and may be read.",),
    )
