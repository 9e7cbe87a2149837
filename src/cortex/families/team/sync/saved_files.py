"""Files in the home for data that would be lost otherwise.

Only the person can read them, and Cortex never removes them.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from cortex.base.errors import explained


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
