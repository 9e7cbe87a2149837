"""Chunk files: what an indexer, ours or another's, wrote of a project, one JSON file for each kind
of chunk.

    {"_metadata": {"model": "BAAI/bge-small-en-v1.5", "dimensions": 384, ...}, "chunks": [{"id": ..., "text": ..., ...}, ...]}

or only the list. A file is read entry by entry: as a whole, 100,000 chunks would take 2 GB. What is
wrong with one chunk costs that chunk and is told in `warnings`; what is wrong with the JSON costs
the file. Knows no store and no search. The standard library finds where an entry ends, and
pydantic's JSON reader reads the numbers in a fifth of its time; nine tenths of a file are numbers.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from pydantic_core import from_json

from cortex.base.errors import FileError
from cortex.base.text import is_text
from cortex.base.types import Entry

if TYPE_CHECKING:  # numpy is loaded where a vector is read: whoever has no chunk files needs none
    import numpy as np
    from numpy.typing import NDArray

ENDING = ".json"
# An indexer's own notes, which it keeps beside its chunks
IGNORED = frozenset({"generator-output.json"})
BLOCK = 1 << 20  # bytes that are read at once
MAX_CHARACTERS = 64 << 20  # of one value: what is longer is no chunk
MAX_DIGITS = 400  # of a whole number; Python refuses to read much longer ones
MAX_WARNINGS = 20  # of one file
MAX_DIMENSIONS = 100_000
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBERS = re.compile(r'"embedding"\s*:\s*(?=\[)')
_TAIL = 32_768  # characters of an entry after its numbers
_ASIDE = "\0numbers"  # stands in an entry for the numbers that are read by themselves
_ASIDE_JSON = json.dumps(_ASIDE)
# Characters before the end of what was read, where a mistake may only be that there is more
_CUT = 16

Signature = tuple[int, int, int]  # time, size and number of a file: another content has another one
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
class WrittenFile:
    """A chunk as it is written in a file, with its vector where it has one."""

    entry: Entry
    embedding: Vector | None


@dataclass(frozen=True, slots=True)
class Listing:
    """The chunk files of a folder, by name, and what is wrong with others."""

    files: tuple[ChunkFile, ...]
    warnings: tuple[str, ...]


def list_chunk_files(directory: Path) -> Listing:
    """The chunk files in a folder, not in those below it.

    Raises: FileError FILE_NOT_FOUND or PERMISSION_DENIED.
    """
    files: list[ChunkFile] = []
    warnings: list[str] = []
    try:
        with os.scandir(directory) as entries:
            found = sorted(
                (entry for entry in entries if entry.name.endswith(ENDING)),
                key=lambda entry: entry.name,
            )
        for entry in found:
            if entry.name in IGNORED:
                continue
            about = entry.stat(follow_symlinks=False)
            # A link may lead to what isn't the project's, a pipe never ends
            if not stat.S_ISREG(about.st_mode):
                warnings.append(f"{shown(entry.name)} is no ordinary file (left out)")
            elif not is_text(entry.name):
                warnings.append(f"{shown(entry.name)} has a name that isn't UTF-8 (left out)")
            else:
                files.append(
                    ChunkFile(
                        directory / entry.name, (about.st_mtime_ns, about.st_size, about.st_ino)
                    )
                )
    except OSError as error:
        raise _unreadable(directory, error) from error
    return Listing(tuple(files), tuple(warnings))


def shown(name: str) -> str:
    """A name that a stranger chose, in a message."""
    return name if name.isprintable() else json.dumps(name)


class Reading:
    """One pass over a chunk file.

    `model` and `dimensions` are what its `_metadata` says, "" and 0 where it doesn't.

    Raises: FileError FILE_UNREADABLE, PERMISSION_DENIED or FILE_NOT_FOUND; after some entries, too.
    """

    def __init__(self, path: Path) -> None:
        self.name = shown(path.name)
        self.warnings: list[str] = []
        self._path = path
        self._more_warnings = 0
        self.model, self.dimensions = self._read_about()

    def __iter__(self) -> Iterator[WrittenFile]:
        """The chunks that are well formed, in order; `warnings` names the others."""
        number = 0
        for number, value in enumerate(self._values(), start=1):
            try:
                yield self._written(value)
            except (ValueError, RecursionError) as error:
                reason = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
                self._warn(f"{self.name}: chunk {number}{_called(value)} {reason} (left out)")
        if self._more_warnings:
            self.warnings.append(f"{self.name}: {self._more_warnings} more chunks are malformed")

    def _warn(self, warning: str) -> None:
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(warning)
        else:
            self._more_warnings += 1

    def _read_about(self) -> tuple[str, int]:
        """Model and dimensions; they mostly stand before the chunks, else the chunks are passed
        over once more.
        """
        about: object = {}
        with _opened(self._path) as text:
            if text.peek() == "{":
                for key in _keys(text):
                    if key == "_metadata":
                        about = text.value()
                        break
                    _skip(text)
        told = about if isinstance(about, Mapping) else {}
        model, dimensions = told.get("model"), told.get("dimensions")
        if dimensions is not None and not (
            type(dimensions) is int and 0 < dimensions <= MAX_DIMENSIONS
        ):
            self._warn(f"{self.name}: its dimensions are no number of dimensions (ignored)")
            dimensions = None
        return (model if isinstance(model, str) and is_text(model) else ""), dimensions or 0

    def _values(self) -> Iterator[object]:
        with _opened(self._path) as text:
            if text.peek() == "{":
                known = False
                for key in _keys(text):
                    if key == "chunks" and text.peek() == "[":
                        known = True
                        yield from _parts(text, text.entry)
                    else:
                        known = known or key == "chunks"  # null: there are none
                        text.value()
                if not known:
                    self._warn(f"{self.name} holds no chunks")
            else:
                yield from _parts(text, text.entry)
            if text.peek():
                raise text.mistake("goes on after its end")

    def _written(self, value: object) -> WrittenFile:
        """Raises: ValueError with what is wrong."""
        if not isinstance(value, Mapping):
            raise ValueError("is no object")
        embedding = self._vector(value.get("embedding"))
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
            else {_well_formed(key): _plain(part) for key, part in metadata.items()},
            created_at=_text(value, "created_at"),
            updated_at=_text(value, "updated_at"),
        )
        if not entry.id:
            raise ValueError("has no id")
        return WrittenFile(entry, embedding)

    def _vector(self, value: object) -> Vector | None:
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
        except ValueError:  # lists of different lengths
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
    """The text of a file, read as far as it is needed."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("strict")
        self._json = json.JSONDecoder(parse_int=_whole)
        self._text = ""
        self._at = 0
        self._before = 0  # characters that are no longer kept
        self._ended = False
        self._numbers = -1  # where the next list of numbers may begin; not looked for: -1

    def peek(self) -> str:
        """The next character that is no white space, "" at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._read_on()

    def take(self, characters: str) -> str:
        """The next character, which must be one of these."""
        found = self.peek()
        if not found or found not in characters:
            raise self.mistake(f"has no {' or '.join(characters)} where one belongs")
        self._at += 1
        return found

    def value(self) -> object:
        """The next value, whole."""
        self.peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _CUT
                if self._ended or not cut:
                    self._at = error.pos
                    raise self.mistake("isn't valid JSON") from None
                if len(self._text) - self._at > MAX_CHARACTERS:
                    raise self.mistake("holds a value that is too long") from None
                self._read_on()
                continue
            except RecursionError:
                raise self.mistake("is nested too deeply") from None
            if end == len(self._text) and not self._ended:  # a number may go on
                self._read_on()
                continue
            self._at = end
            return value

    def entry(self) -> object:
        """The next value, whose numbers are read by themselves where that can be."""
        self.peek()
        if self._numbers < self._at:
            found = _NUMBERS.search(self._text, self._at)
            self._numbers = found.end() if found else len(self._text)
        start, end = self._numbers, self._text.find("]", self._numbers) + 1
        if end:
            try:
                head = self._text[self._at : start] + _ASIDE_JSON
                value, length = self._json.raw_decode(head + self._text[end : end + _TAIL])
                if (
                    isinstance(value, dict)
                    and value.get("embedding") == _ASIDE
                    and length > len(head)
                ):
                    value["embedding"] = from_json(self._text[start:end])
                    self._at = end + length - len(head)
                    return value
            except (ValueError, RecursionError):
                pass  # it is longer, or something is wrong: the slow way finds out
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


class _opened:
    """A file's text for one pass; what the system says about it becomes one of our errors."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> _Text:
        try:
            self._file = open(self._path, "rb", buffering=0, opener=_open_plain)
        except OSError as error:
            raise _unreadable(self._path, error) from error
        if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            self._file.close()
            raise FileError("FILE_UNREADABLE", f"{shown(self._path.name)} is no ordinary file")
        return _Text(self._file, self._path.name)  # type: ignore[arg-type]

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._file.close()
        if isinstance(error, OSError):
            raise _unreadable(self._path, error) from error


def _open_plain(path: str, flags: int) -> int:
    """Follows no link and waits for no pipe, also one that was put there since the folder was
    listed.
    """
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _keys(text: _Text) -> Iterator[str]:
    """The keys of an object; who asks takes the value of each."""
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


def _parts(text: _Text, read: Callable[[], object]) -> Iterator[object]:
    """The values of a list, each by `read`."""
    text.take("[")
    if text.peek() == "]":
        text.take("]")
        return
    while True:
        yield read()
        if text.take(",]") == "]":
            return


def _skip(text: _Text) -> None:
    """Pass over a value, a list part by part."""
    if text.peek() == "[":
        for _ in _parts(text, text.value):
            pass
    else:
        text.value()


def _text(value: Mapping[str, object], name: str) -> str | None:
    found = value.get(name)
    if found is None:
        return None
    if not isinstance(found, str):
        raise ValueError(f"has a {name} that is no text")
    return _well_formed(found)


def _plain(value: object) -> object:
    """A value that can be written as JSON again. Raises: ValueError."""
    match value:
        case str():
            return _well_formed(value)
        case float() if not math.isfinite(value):
            raise ValueError("has metadata with a number that is too large or none")
        case list():
            return [_plain(part) for part in value]
        case dict():
            return {_well_formed(key): _plain(part) for key, part in value.items()}
    return value


def _well_formed(text: str) -> str:
    """The text with a mark in place of each half character, which JSON can hold and nothing else
    can.
    """
    if is_text(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_DIGITS else math.inf


def _called(value: object) -> str:
    """A malformed chunk's id, where it has one."""
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
