"""Atomic file replacement: write a temporary file, then rename it over the target.

A reader sees the old file or the new one, never a part.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cortex.base.errors import FileError, code_of, error_of


def replace_file(file: Path, content: bytes, *, mode: int = 0o600, keep_mode: bool = False) -> None:
    """Write a whole file, durably; with `keep_mode` one that exists keeps its own mode.

    Raises: OSError; the file is unchanged then.
    """
    if keep_mode:
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(os.stat(file).st_mode)
    with _temporary_beside(file) as temporary:
        with open(temporary, "wb") as target:
            target.write(content)
            target.flush()
            os.fsync(target.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, file)


@contextmanager
def atomic_write(file: Path) -> Iterator[Path]:
    """Yield a private temporary path that replaces `file` when the block ends without an error.

    Raises: FileError.
    """
    try:
        with _temporary_beside(file) as temporary:
            yield temporary
            os.replace(temporary, file)
    except OSError as error:
        why = f"{file} can't be written: {error.strerror}"
        if shortage := code_of(error, ""):
            raise error_of(shortage, why) from None
        code = "FILE_NOT_FOUND" if isinstance(error, FileNotFoundError) else "PERMISSION_DENIED"
        raise FileError(
            code, why, instead=("Name a file in a folder that is there and that you may write to.",)
        ) from None


@contextmanager
def _temporary_beside(file: Path) -> Iterator[Path]:
    """Create an empty file in the folder of `file` for this user only; remove what is left."""
    descriptor, name = tempfile.mkstemp(
        dir=file.parent, prefix=f".{file.name[:40]}-", suffix=".tmp"
    )
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        with suppress(OSError):
            os.unlink(name)
