"""What was there before: for every file that we changed a record, and a copy of its bytes, in a
folder of Cortex's home.

One record per file, so that two commands at once never write the same one. The copies are not
beside the files: some hold other programs' keys, and a copy in a project would be committed. A lost
record costs exactness only: then what is ours is cut out.
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
    """A file of another program that has something of ours in it."""

    file: Path
    root: Path | None  # the project that it belongs to
    clients: tuple[str, ...]
    existed: bool
    written: str  # the hash of what we wrote
    folders: tuple[Path, ...]  # that we made
    made: tuple[Keys, ...]  # keys that we made around ours


def digest(content: bytes) -> str:
    """What tells whether a file is as we left it."""
    return hashlib.sha256(content).hexdigest()


def read_record(home: Path, file: Path) -> InstallRecord | None:
    """The record of a file, None where there is none that can be read."""
    return _read(_place(home, file))


def read_records(home: Path) -> Iterator[InstallRecord]:
    """All records, in a fixed order."""
    for place in sorted((home / FOLDER).glob("*.json")):
        record = _read(place)
        if record is not None:
            yield record


def read_backup(home: Path, file: Path) -> bytes | None:
    """The bytes that a file had before us."""
    return safe_files.read(_place(home, file).with_suffix(".backup"))


def write_record(home: Path, record: InstallRecord, before: bytes | None) -> Path | None:
    """Remember a file before it is changed; gives the place of the copy."""
    place = _place(home, record.file)
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
    """Forget a file, and its copy."""
    place = _place(home, file)
    safe_files.delete(place)
    safe_files.delete(place.with_suffix(".backup"))
    safe_files.remove_folders((place.parent,))


def _place(home: Path, file: Path) -> Path:
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
            folders=tuple(Path(one) for one in body["folders"]),
            made=tuple(tuple(one) for one in body["made"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
