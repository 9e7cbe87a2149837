"""Files in the home for data that would be lost otherwise.

Only the person can read them, and Cortex never removes them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cortex.base.errors import explained
from cortex.base.record_model import Record
from cortex.engine.store import VersionedRecord
from cortex.families.team.wire.codec import record_to


def record_lines(records: Iterable[Record[Any]]) -> str:
    """Encode records as lines of JSON, as they are on the wire."""
    return "".join(
        json.dumps(record_to(VersionedRecord(record, 0)), ensure_ascii=False) + "\n"
        for record in records
    )


def write_new(folder: Path, ending: str, text: str) -> Path:
    """Write a new file, named by the time. Raises: FileError."""
    stem = time.strftime("%Y%m%d-%H%M%S")
    for suffix in range(1, 1_000):
        target = folder / f"{stem}-{suffix}{ending}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            _write(target, os.O_CREAT | os.O_EXCL, text)
        except FileExistsError:
            continue
        except OSError as error:
            raise explained(error, f"writing {target}") from error
        return target
    raise explained(FileExistsError(str(folder)), f"writing to {folder}")


def append(target: Path, text: str) -> None:
    """Append to a file. Raises: FileError."""
    try:
        _write(target, os.O_APPEND, text)
    except OSError as error:
        raise explained(error, f"writing {target}") from error


def _write(target: Path, flags: int, text: str) -> None:
    """Write a text and fsync it."""
    descriptor = os.open(target, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | flags, 0o600)
    with open(descriptor, "a" if flags & os.O_APPEND else "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
