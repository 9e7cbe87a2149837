"""Read and write files of other programs: atomically, through links, within a project.

Knows nothing of clients. Bytes in, bytes out: line ends and byte order marks are kept, and so is
the file mode.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from cortex.base.errors import ConfigError, CortexError, FileError, code_of, error_of
from cortex.base.runtime.atomic_file import replace_file

# Claude Code keeps the history of every project in its file.
MAX_BYTES = 64_000_000


def read(file: Path, within: Path | None = None) -> bytes | None:
    """Return the content of a file, None where there is none.

    Raises: FileError for an unreadable file, a non-file, or a link out of `within`.
    """
    real = _target(file, within)
    try:
        if not stat.S_ISREG(os.stat(real).st_mode):
            raise FileError("FILE_UNREADABLE", f"{file} is not a file", context={"path": str(file)})
        with open(real, "rb") as source:
            content = source.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise FileError(
            "FILE_UNREADABLE", f"a file stands in the way of {file}", context={"path": str(file)}
        ) from error
    except OSError as error:
        raise _refused(file, error) from error
    if len(content) > MAX_BYTES:
        raise FileError(
            "FILE_UNREADABLE",
            f"{file} is larger than {MAX_BYTES:,} bytes",
            context={"path": str(file)},
        )
    return content


def read_text(file: Path, content: bytes) -> str:
    """Decode a file's bytes, with all line ends as they are.

    Raises: ConfigError (CLIENT_FILE_INVALID).
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        message = f"{file}, line {line}, column {column}: not UTF-8"
        context = {"path": str(file), "line": line, "column": column}
        raise ConfigError("CLIENT_FILE_INVALID", message, context=context) from None


def write(file: Path, content: bytes, within: Path | None = None, *, private: bool = False) -> None:
    """Replace the content of a file atomically; links and the mode stay.

    Missing folders are created.

    Raises: FileError, including PERMISSION_DENIED and DISK_FULL; the file is unchanged then.
    """
    real = _target(file, within)
    try:
        os.makedirs(real.parent, mode=0o700 if private else 0o777, exist_ok=True)
        mode = 0o600 if private else 0o666 & ~_umask()
        replace_file(real, content, mode=mode, keep_mode=True)
    except OSError as error:
        raise _refused(file, error) from error


def delete(file: Path, within: Path | None = None) -> None:
    """Remove a file that we created; a link to it stays."""
    try:
        os.unlink(_target(file, within))
    except FileNotFoundError:
        return
    except OSError as error:
        raise _refused(file, error) from error


def missing_folders(file: Path) -> tuple[Path, ...]:
    """Return the folders that writing a file will create, outermost first."""
    folders: list[Path] = []
    folder = Path(os.path.realpath(file)).parent
    while not folder.exists():
        folders.append(folder)
        folder = folder.parent
    return tuple(reversed(folders))


def remove_folders(folders: Iterable[Path]) -> None:
    """Remove those of the folders that are empty, innermost first."""
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        # The folder isn't empty, or it is gone.
        with suppress(OSError):
            os.rmdir(folder)


def _target(file: Path, within: Path | None) -> Path:
    """Resolve a file through links.

    Raises: FileError (PATH_OUTSIDE).
    """
    real = Path(os.path.realpath(file))
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        message = f"{file} is a link that leaves the project"
        raise FileError(
            "PATH_OUTSIDE", message, context={"path": str(file)}, suggestions=("Remove the link.",)
        )
    return real


def _umask() -> int:
    # Setting the mask is the only way to read it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _refused(file: Path, error: OSError) -> CortexError:
    message = f"{file}: {error.strerror or error}"
    return error_of(code_of(error, "PERMISSION_DENIED"), message, {"path": str(file)})
