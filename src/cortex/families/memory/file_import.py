"""Read memories from files: claude-mem exports, our own exports, Markdown and text files.

Only reads and knows no store: ids and states are decided by the writer. A file or row that can't be
imported is reported and doesn't affect the others.
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
    line,
    milliseconds,
    title_from,
    unique,
)
from cortex.families.memory.markdown_notes import read_note

# Key of our own fields in a row of an export.
OURS = "cortex"
MAX_EXPORT_BYTES = 200_000_000
MAX_NOTE_BYTES = 1_000_000
MAX_NOTES = 100_000
# File name extensions.
NOTES = ("md", "markdown", "mdx", "mdc", "txt")
# Provenances.
EXPORT, NOTE = "export", "note"

ReportSkipped = Callable[[Skipped], None]

_RULES = Rules(
    include=tuple(
        "*." + "".join(f"[{letter}{letter.upper()}]" for letter in ending) for ending in NOTES
    ),
    exclude=(".*/",),
    max_file_size=MAX_NOTE_BYTES,
    max_files=MAX_NOTES,
    # A folder named explicitly is imported even if the repository around it ignores it.
    documents=True,
)
_STATES = {str(state): state for state in MemoryState}
_NUMBER = re.compile(r"(\d+)")
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ImportedMemory:
    """Memory as read from a file; its key is the file's own, or empty."""

    memory: Memory
    # State in the file, None if it has none.
    state: MemoryState | None = None
    scope: str = ""
    citations: tuple[Citation, ...] = ()
    # Key of the memory that superseded it.
    successor: str = ""


def read(
    path: Path, *, project: str = "", report: ReportSkipped = lambda skipped: None
) -> Iterator[ImportedMemory]:
    """Read an export (a .json file), a Markdown or text file, or a folder of such files.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
    """
    as_export = path.suffix.lower() == ".json" and not path.is_dir()
    return (read_export if as_export else read_markdown)(path, project=project, report=report)


# -- exports

Row = Mapping[str, object]


def read_export(
    path: Path, *, project: str = "", report: ReportSkipped = lambda skipped: None
) -> Iterator[ImportedMemory]:
    """Read the memories of a claude-mem or Cortex export; summaries and prompts are ignored.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
    """
    document = _load(path)
    rows = document.get("observations") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(rows, list):
        raise _unreadable(path, "it is no export of memories: it has no list `observations`")
    sessions = {
        session["memory_session_id"]: session
        for session in _list(document.get("sessions"))
        if isinstance(session, dict) and isinstance(session.get("memory_session_id"), str)
    }
    for index, row in enumerate(rows):
        imported = _from_row(row, sessions, project) if isinstance(row, dict) else None
        if imported is None:
            reason = "it says nothing" if isinstance(row, dict) else "it is no object"
            report(Skipped(f"observations[{index}]", reason))
        else:
            yield imported


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


def _from_row(row: Row, sessions: Mapping[str, Row], project: str) -> ImportedMemory | None:
    memory = _memory(row, sessions.get(line(row.get("memory_session_id")), {}))
    if not memory.title:
        return None
    ours = row.get(OURS)
    memory = replace(memory, project=project or memory.project)
    if not isinstance(ours, dict):
        state = row.get("status")
        return ImportedMemory(memory, _STATES.get(state) if isinstance(state, str) else None)
    citations = map(_citation, _list(ours.get("citations")))
    return ImportedMemory(
        _with_extension(memory, ours),
        _STATES.get(line(ours.get("state"))),
        line(ours.get("scope")),
        tuple(citation for citation in citations if citation is not None),
        line(ours.get("superseded_by")),
    )


def _memory(row: Row, session: Row) -> Memory:
    body = _body(row.get("narrative")) or _body(row.get("text"))
    facts, subtitle = _entries(row, "facts", "\n"), line(row.get("subtitle"))
    created = milliseconds(row.get("created_at_epoch"), row.get("created_at"))
    started = milliseconds(session.get("started_at_epoch"), session.get("started_at"))
    row_id = row.get("id")
    return Memory(
        key=line(row.get("document_id"))
        or (f"obs_{row_id}" if isinstance(row_id, int) else line(row_id)),
        title=line(row.get("title")) or title_from(body, subtitle, facts),
        subtitle=subtitle,
        facts=facts,
        concepts=_entries(row, "concepts", ","),
        files=unique((*_entries(row, "files_read", ","), *_entries(row, "files_modified", ","))),
        text=body,
        project=line(row.get("merged_into_project")) or line(row.get("project")),
        session=line(session.get("content_session_id")) or line(row.get("memory_session_id")),
        date=day(started or created),
        created=created,
        kind=line(row.get("type")),
        provenance=EXPORT,
    )


def _with_extension(memory: Memory, ours: Row) -> Memory:
    """Add the fields that claude-mem's columns can't hold."""
    fields = {
        name: line(ours[name])
        for name in ("key", "kind", "session", "date", "provenance")
        if isinstance(ours.get(name), str)
    }
    return replace(memory, **fields)


def _citation(entry: object) -> Citation | None:
    if not isinstance(entry, dict):
        return None
    names = ("root", "path", "symbol", "commit")
    root, path, symbol, commit = (line(entry.get(name)) for name in names)
    try:
        hashes = [bytes.fromhex(line(entry.get(name))) for name in ("file_hash", "body_hash")]
    except ValueError:
        return None
    if not path or not hashes[0]:
        return None
    return Citation(root, path, symbol, hashes[0], hashes[1], commit)


def _entries(row: Row, name: str, separator: str) -> tuple[str, ...]:
    """Parse a list: either JSON in a text, as in the table, or a list."""
    value = row.get(name)
    return unique(value) if isinstance(value, list) else entries(value, separator)


def _body(value: object) -> str:
    return _NOT_TEXT.sub("", value).strip() if isinstance(value, str) else ""


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


# -- Markdown and text files


def read_markdown(
    path: Path, *, project: str = "", report: ReportSkipped = lambda skipped: None
) -> Iterator[ImportedMemory]:
    """Read one memory for each Markdown or text file in a folder, or from a single file.

    The files of a folder come in the natural order of their names.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE.
    """
    real = Path(os.path.realpath(path))
    if real.is_dir():
        scanned = scan(real, _RULES)
        for skipped in scanned.skipped:
            report(skipped)
        for file in sorted(scanned.files, key=lambda file: natural(file.path)):
            note = _note(real, file, project or real.name)
            if isinstance(note, Skipped):
                report(note)
            else:
                yield note
        return
    yield _single(path, real, project)


def natural(path: str) -> list[tuple[tuple[bool, int, str], ...]]:
    """Sort key for paths, folder by folder, so that "9" comes before "10"."""
    return [
        tuple(
            (not index % 2, int(part) if index % 2 else 0, part)
            for index, part in enumerate(_NUMBER.split(name))
        )
        for name in path.casefold().split("/")
    ]


def _single(path: Path, real: Path, project: str) -> ImportedMemory:
    """Read one file that was named explicitly, following links."""
    try:
        status = os.stat(real)
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
    file = ScannedFile(real.name, status.st_size, status.st_mtime_ns)
    note = _note(real.parent, file, project or real.parent.name)
    if isinstance(note, Skipped):
        raise _unreadable(path, f"it is left out: {note.reason}")
    return note


def _note(root: Path, file: ScannedFile, project: str) -> ImportedMemory | Skipped:
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
    return ImportedMemory(memory)


def _unreadable(path: Path, why: str) -> FileError:
    return FileError(
        "IMPORT_UNREADABLE", f"{path} can't be imported: {why}", context={"path": str(path)}
    )
