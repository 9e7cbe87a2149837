"""Undo log: a record and a copy of the earlier bytes of every changed file.

One record per file, so that two commands at once never write the same one. The copies are not
beside the files: some hold keys of other programs, and a copy in a project would be committed. If a
record is lost, only our part is cut out of the file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from cortex.base.text import hash_bytes
from cortex.interfaces.install import safe_files
from cortex.interfaces.install.jsonc_edit import Keys

FOLDER = "installed"


@dataclass(frozen=True, slots=True)
class InstallRecord:
    """A file of another program that has an entry of ours."""

    file: Path
    # The project that it belongs to.
    root: Path | None
    clients: tuple[str, ...]
    existed: bool
    # Hash of the content that we wrote.
    written: str
    # Folders that we created.
    folders: tuple[Path, ...]
    # Keys that we created around ours.
    made: tuple[Keys, ...]


def digest(content: bytes) -> str:
    """Return the hash that shows if a file is as we left it."""
    return hashlib.sha256(content).hexdigest()


def read_record(home: Path, file: Path) -> InstallRecord | None:
    """Return the record of a file, None where there is no readable one."""
    return _read(_record_path(home, file))


def read_records(home: Path) -> Iterator[InstallRecord]:
    """Yield all records, in a fixed order."""
    for place in sorted((home / FOLDER).glob("*.json")):
        record = _read(place)
        if record is not None:
            yield record


def read_backup(home: Path, file: Path) -> bytes | None:
    """Return the bytes that a file had before our change."""
    return safe_files.read(_record_path(home, file).with_suffix(".backup"))


def write_record(home: Path, record: InstallRecord, before: bytes | None) -> Path | None:
    """Record a file before it is changed; return the path of the backup."""
    place = _record_path(home, record.file)
    backup = place.with_suffix(".backup")
    if before is not None:
        safe_files.write(backup, before, private=True)
    body = asdict(record) | {
        "file": str(record.file),
        "root": str(record.root) if record.root else None,
        "folders": [str(folder) for folder in record.folders],
    }
    safe_files.write(place, json.dumps(body, indent=2).encode(), private=True)
    return backup if before is not None else None


def drop_record(home: Path, file: Path) -> None:
    """Remove the record of a file and its backup."""
    place = _record_path(home, file)
    safe_files.delete(place)
    safe_files.delete(place.with_suffix(".backup"))
    safe_files.remove_folders((place.parent,))


def _record_path(home: Path, file: Path) -> Path:
    return home / FOLDER / f"{hash_bytes(os.fsencode(os.path.abspath(file))).hex()}.json"


def _read(place: Path) -> InstallRecord | None:
    content = safe_files.read(place)
    if content is None:
        return None
    try:
        body = json.loads(content)
        return InstallRecord(
            file=Path(body["file"]),
            root=Path(body["root"]) if body["root"] else None,
            clients=tuple(body["clients"]),
            existed=bool(body["existed"]),
            written=str(body["written"]),
            folders=tuple(Path(folder) for folder in body["folders"]),
            made=tuple(tuple(keys) for keys in body["made"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
