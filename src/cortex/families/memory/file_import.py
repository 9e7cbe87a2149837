"""Memories that lie in files: exports of claude-mem and our own, Markdown and text files, one
memory each.

Only reads, and knows no store: what is kept, under which id and in which state, is decided where it
is written. A file or a row that can't be taken is told and costs nothing but itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cortex.base.errors import FileError
from cortex.base.types import Citation, Memory, MemoryState, ScannedFile, Skipped, UnreadableFile
from cortex.engine.readers.plain import decoded
from cortex.engine.sources.scanner import Rules, read_bytes, scan
from cortex.engine.sources.secret_filenames import is_secret
from cortex.families.memory.adapters.coerce import (
    day,
    entries,
    first_line,
    line,
    milliseconds,
    unique,
)
from cortex.families.memory.markdown_notes import read_note

OURS = "cortex"  # the key of what only we say, in a row of an export
MAX_EXPORT_BYTES = 200_000_000
MAX_NOTE_BYTES = 1_000_000
MAX_NOTES = 100_000
NOTES = ("md", "markdown", "mdx", "mdc", "txt")  # endings
EXPORT, NOTE = "export", "note"  # provenances

Tell = Callable[[Skipped], None]

_RULES = Rules(
    include=tuple("*." + "".join(f"[{one}{one.upper()}]" for one in ending) for ending in NOTES),
    exclude=(".*/",),
    max_file_size=MAX_NOTE_BYTES,
    max_files=MAX_NOTES,
    # A folder that somebody names is meant, whatever a repository around it ignores
    documents=True,
)
_STATES = {str(state): state for state in MemoryState}
_NUMBER = re.compile(r"(\d+)")
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Brought:
    """A memory as a file has it; its key is the file's own, or empty."""

    memory: Memory
    state: MemoryState | None = None  # that the file says; None: nothing
    scope: str = ""
    citations: tuple[Citation, ...] = ()
    successor: str = ""  # the key of what took its place


def read(path: Path, *, project: str = "", tell: Tell = lambda skipped: None) -> Iterator[Brought]:
    """The memories of an export (a .json file), or of a Markdown or text file or a folder of them.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
    """
    as_export = path.suffix.lower() == ".json" and not path.is_dir()
    return (read_export if as_export else read_markdown)(path, project=project, tell=tell)


# -- exports
# -----------------------------------------------------------------------------------------------------------

Row = Mapping[str, object]


def read_export(
    path: Path, *, project: str = "", tell: Tell = lambda skipped: None
) -> Iterator[Brought]:
    """The memories of an export as claude-mem writes it, or as we do; summaries and prompts in it
    are none.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
    """
    said = _load(path)
    rows = said.get("observations") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(rows, list):
        raise _unreadable(path, "it is no export of memories: it has no list `observations`")
    sessions = {
        one["memory_session_id"]: one
        for one in _list(said.get("sessions"))
        if isinstance(one, dict) and isinstance(one.get("memory_session_id"), str)
    }
    for number, row in enumerate(rows):
        brought = _brought(row, sessions, project) if isinstance(row, dict) else None
        if brought is None:
            tell(
                Skipped(
                    f"observations[{number}]",
                    "it says nothing" if isinstance(row, dict) else "it is no object",
                )
            )
        else:
            yield brought


def _load(path: Path) -> object:
    if not path.is_file():
        raise FileError("FILE_NOT_FOUND", f"there is no file {path}", context={"path": str(path)})
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_EXPORT_BYTES + 1)
        if len(raw) > MAX_EXPORT_BYTES:
            raise _unreadable(
                path, f"it is larger than {MAX_EXPORT_BYTES:,} bytes: export less at a time"
            )
        return json.loads(raw.decode("utf-8-sig"))
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, f"it is no JSON ({str(error)[:100]}): export it again") from None


def _brought(row: Row, sessions: Mapping[str, Row], project: str) -> Brought | None:
    memory = _memory(row, sessions.get(line(row.get("memory_session_id")), {}))
    if not memory.title:
        return None
    ours = row.get(OURS)
    if not isinstance(ours, dict):
        state = row.get("status")
        memory = _in_project(memory, project)
        return Brought(memory, _STATES.get(state) if isinstance(state, str) else None)
    return Brought(
        _in_project(_as_ours(memory, ours), project),
        _STATES.get(line(ours.get("state"))),
        line(ours.get("scope")),
        tuple(
            cited for one in _list(ours.get("citations")) if (cited := _citation(one)) is not None
        ),
        line(ours.get("superseded_by")),
    )


def _memory(row: Row, session: Row) -> Memory:
    told = _story(row.get("narrative")) or _story(row.get("text"))
    facts, subtitle = _entries(row, "facts", "\n"), line(row.get("subtitle"))
    created = milliseconds(row.get("created_at_epoch"), row.get("created_at"))
    started = milliseconds(session.get("started_at_epoch"), session.get("started_at"))
    number = row.get("id")
    return Memory(
        key=line(row.get("document_id"))
        or (f"obs_{number}" if isinstance(number, int) else line(number)),
        title=line(row.get("title"))
        or first_line(told)
        or subtitle
        or first_line(facts[0] if facts else ""),
        subtitle=subtitle,
        facts=facts,
        concepts=_entries(row, "concepts", ","),
        files=unique((*_entries(row, "files_read", ","), *_entries(row, "files_modified", ","))),
        text=told,
        project=line(row.get("merged_into_project")) or line(row.get("project")),
        session=line(session.get("content_session_id")) or line(row.get("memory_session_id")),
        date=day(started or created),
        created=created,
        kind=line(row.get("type")),
        provenance=EXPORT,
    )


def _as_ours(memory: Memory, ours: Row) -> Memory:
    """The memory with what claude-mem's columns can't say."""
    told = {
        name: line(ours[name])
        for name in ("key", "kind", "session", "date", "provenance")
        if isinstance(ours.get(name), str)
    }
    return replace(memory, **told)


def _in_project(memory: Memory, project: str) -> Memory:
    return replace(memory, project=project) if project else memory


def _citation(said: object) -> Citation | None:
    if not isinstance(said, dict):
        return None
    names = ("root", "path", "symbol", "commit")
    root, path, symbol, commit = (line(said.get(name)) for name in names)
    try:
        hashes = [bytes.fromhex(line(said.get(name))) for name in ("file_hash", "body_hash")]
    except ValueError:
        return None
    return (
        Citation(root, path, symbol, hashes[0], hashes[1], commit) if path and hashes[0] else None
    )


def _entries(row: Row, name: str, separator: str) -> tuple[str, ...]:
    """A list, as JSON in a text as the table has it, or as itself."""
    value = row.get(name)
    return unique(value) if isinstance(value, list) else entries(value, separator)


def _story(value: object) -> str:
    return _NOT_TEXT.sub("", value).strip() if isinstance(value, str) else ""


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


# -- Markdown and text files
# -------------------------------------------------------------------------------------------


def read_markdown(
    path: Path, *, project: str = "", tell: Tell = lambda skipped: None
) -> Iterator[Brought]:
    """One memory for each Markdown or text file in a folder, in the natural order of their names;
    or of one file.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
    """
    real = Path(os.path.realpath(path))
    if real.is_dir():
        found = scan(real, _RULES)
        for skipped in found.skipped:
            tell(skipped)
        for file in sorted(found.files, key=lambda file: natural(file.path)):
            note = _note(real, file, project or real.name)
            if isinstance(note, Skipped):
                tell(note)
            else:
                yield note
        return
    yield _single(path, real, project)


def natural(path: str) -> list[tuple[tuple[bool, int, str], ...]]:
    """What to sort paths by so that "9" comes before "10", folder by folder."""
    return [
        tuple(
            (not place % 2, int(part) if place % 2 else 0, part)
            for place, part in enumerate(_NUMBER.split(name))
        )
        for name in path.casefold().split("/")
    ]


def _single(path: Path, real: Path, project: str) -> Brought:
    """The one file that somebody named, through whatever links."""
    try:
        seen = os.stat(real)
    except (OSError, ValueError):
        raise FileError(
            "FILE_NOT_FOUND", f"there is no file or folder {path}", context={"path": str(path)}
        ) from None
    if real.suffix and real.suffix[1:].lower() not in NOTES:
        raise _unreadable(
            path, f"it is no Markdown or text file ({', '.join(NOTES)}), and no export (json)"
        )
    if is_secret(path.name) or is_secret(f"{real.parent.name}/{real.name}"):
        raise _unreadable(path, "by its name it holds secrets")
    note = _note(
        real.parent,
        ScannedFile(real.name, seen.st_size, seen.st_mtime_ns),
        project or real.parent.name,
    )
    if isinstance(note, Skipped):
        raise _unreadable(path, f"it is left out: {note.reason}")
    return note


def _note(root: Path, file: ScannedFile, project: str) -> Brought | Skipped:
    raw = read_bytes(root, file.path, MAX_NOTE_BYTES)
    text = raw if isinstance(raw, UnreadableFile) else decoded(raw)
    if isinstance(text, UnreadableFile):
        return Skipped(file.path, text.reason)
    note = read_note(_NOT_TEXT.sub("", text), file.path)
    if note is None:
        return Skipped(file.path, "empty")
    created = note.created or file.mtime_ns // 1_000_000
    memory = Memory(
        key="",
        title=note.title,
        subtitle=note.subtitle,
        concepts=note.tags,
        text=note.text,
        project=project,
        session=file.path.rpartition("/")[0] or root.name,
        date=day(created),
        created=created,
        kind=note.kind,
        provenance=NOTE,
    )
    return Brought(memory)


def _unreadable(path: Path, why: str) -> FileError:
    return FileError(
        "IMPORT_UNREADABLE", f"{path} can't be imported: {why}", context={"path": str(path)}
    )
