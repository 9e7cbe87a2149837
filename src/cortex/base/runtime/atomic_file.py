"""A file that a command writes: aside, then renamed, so that a reader sees the old one or the new
one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cortex.base.errors import FileError, code_of, error_of


@contextmanager
def written_aside(file: Path) -> Iterator[Path]:
    """Where to write a file that nobody else can read and that is there once it is whole.

    Raises: FileError.
    """
    temporary = ""
    try:
        # For us alone
        number, temporary = tempfile.mkstemp(
            dir=file.parent, prefix=f".{file.name[:40]}-", suffix=".tmp"
        )
        os.close(number)
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
