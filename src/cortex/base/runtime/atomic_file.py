"""Atomic file replacement: write a temporary file, then rename it over the target.

A reader sees the old file or the new one, never a part.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cortex.base.errors import FileError, code_of, error_of


@contextmanager
def atomic_write(file: Path) -> Iterator[Path]:
    """Yield a private temporary path that replaces `file` when the block ends without an error.

    Raises: FileError.
    """
    temporary = ""
    try:
        # mkstemp creates it with access for this user only.
        descriptor, temporary = tempfile.mkstemp(
            dir=file.parent, prefix=f".{file.name[:40]}-", suffix=".tmp"
        )
        os.close(descriptor)
        yield Path(temporary)
        os.replace(temporary, file)
    except OSError as error:
        why = f"{file} can't be written: {error.strerror}"
        if shortage := code_of(error, ""):
            raise error_of(shortage, why) from None
        code = "FILE_NOT_FOUND" if isinstance(error, FileNotFoundError) else "PERMISSION_DENIED"
        raise FileError(
            code, why, instead=("Name a file in a folder that is there and that you may write to.",)
        ) from None
    finally:
        with suppress(OSError):
            os.unlink(temporary)
