"""Default thread, task and subcortex of a project, in `<root>/.cortex/config.json`.

Reads and writes three keys; everything else in the file stays, and so does every other file there.
Road not taken: editing the text in place. The file is JSON without comments, so only its spacing
could be lost, and its indentation is kept.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from cortex.base.errors import ConfigError, CortexError, code_of, error_of
from cortex.base.paths import STORE_FOLDER, make_private
from cortex.base.runtime.atomic_file import replace_file
from cortex.base.settings.registry import normalise

FILE = "config.json"
MAX_FILE_BYTES = 1_000_000
NAMES: Mapping[str, str] = {
    "thread": "default_thread_id",
    "task": "default_task_id",
    "subcortex": "default_subcortex_slug",
}
# Byte order mark, which some editors write.
MARK = "\ufeff"
_INDENT = re.compile(r"^\s*\{\r?\n([ \t]+)\"")


@dataclass(frozen=True, slots=True)
class ProjectContext:
    """The defaults of a project, as written; the records may not exist."""

    thread: str = ""
    task: str = ""
    subcortex: str = ""


def context_file(root: Path) -> Path:
    """Return the path of the project's file."""
    return root / STORE_FOLDER / FILE


def read_context(root: Path) -> ProjectContext:
    """Read the project's file; without a file all defaults are empty.

    Raises: ConfigError CONFIG_INVALID for a file that isn't a JSON object, or a link out of the
    project; FileError.
    """
    text = _read(_target(root), context_file(root))
    return _context_of(_parse(text, context_file(root)))


def write_context(
    root: Path, *, thread: str | None = None, task: str | None = None, subcortex: str | None = None
) -> ProjectContext:
    """Change the project's file and return its new content; None keeps a key, "" removes it.

    Raises: ConfigError CONFIG_INVALID, also for a file that is a link, FileError PERMISSION_DENIED
    or DISK_FULL; then the file is unchanged.
    """
    values = {"thread": thread, "task": task, "subcortex": subcortex}
    file, target = context_file(root), _target(root)
    text = _read(target, file)
    content = _parse(text, file)
    before = dict(content)
    for name, value in values.items():
        if value is not None:
            _set(content, NAMES[name], value)
    if content != before:
        # A link may point to any file of the project, and the caller means only this one.
        if file.is_symlink():
            _reject(file, "is a link, which is read but never written through")
        _replace(target, _render(content, text), file)
    return _context_of(content)


def clear_context(
    root: Path, *, thread: bool = True, task: bool = True, subcortex: bool = True
) -> ProjectContext:
    """Remove all or some defaults from the project's file. Raises as `write_context` does."""
    return write_context(
        root,
        thread="" if thread else None,
        task="" if task else None,
        subcortex="" if subcortex else None,
    )


def _target(root: Path) -> Path:
    """Resolve links to the real file, which must be inside the project."""
    file = context_file(root)
    real = Path(os.path.realpath(file))
    if not real.is_relative_to(os.path.realpath(root)):
        _reject(file, "is a link that leaves the project")
    return real


def _read(target: Path, file: Path) -> str:
    """Read the file; "" if there is none."""
    try:
        # Reading from a pipe could block forever.
        if not stat.S_ISREG(os.stat(target).st_mode):
            _reject(file, "isn't a file")
        with open(target, "rb") as source:
            content = source.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _file_error(file, error, "FILE_UNREADABLE") from error
    if len(content) > MAX_FILE_BYTES:
        _reject(file, f"is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        _reject(file, "isn't UTF-8")


def _parse(text: str, file: Path) -> dict[str, object]:
    """Parse the keys of a file; an empty one has none.

    Errors never quote its text: a link may point to any file of the project.
    """
    if not (text := text.removeprefix(MARK)).strip():
        return {}
    try:
        content = json.loads(text, parse_constant=_reject_constant, parse_float=_parse_float)
    except json.JSONDecodeError as error:
        _reject(file, f"isn't valid JSON at line {error.lineno}")
    except RecursionError:
        _reject(file, "is nested too deeply")
    except ValueError:
        _reject(file, "holds a number that JSON can't say")
    if not isinstance(content, dict):
        _reject(file, "holds no keys with values")
    return content


def _parse_float(text: str) -> float:
    """Parse a float. Raises: ValueError for infinity."""
    value = float(text)
    return value if math.isfinite(value) else _reject_constant(text)


def _reject_constant(text: str) -> NoReturn:
    """Reject NaN and infinity, which are not JSON."""
    raise ValueError(text)


def _reject(file: Path, reason: str) -> NoReturn:
    """Raise ConfigError for a file that can't be used."""
    raise ConfigError(
        "CONFIG_INVALID",
        f"{file}: {reason}",
        context={"file": str(file)},
        instead=("Correct that file first.",),
    )


def _context_of(content: Mapping[str, object]) -> ProjectContext:
    """Extract the defaults from the keys of a file."""
    context = ProjectContext()
    for name, key in NAMES.items():
        values = [value for known, value in content.items() if normalise(known) == normalise(key)]
        if values and isinstance(values[-1], str):
            context = replace(context, **{name: values[-1].strip()})
    return context


def _set(content: dict[str, object], key: str, value: str) -> None:
    """Set a key in the spelling that is present; an empty value removes all spellings."""
    present = [known for known in content if normalise(known) == normalise(key)]
    for known in present if not value else present[:-1]:
        del content[known]
    if value:
        content[present[-1] if present else key] = value


def _render(content: Mapping[str, object], before: str) -> bytes:
    """Serialize the keys in the layout of the previous text."""
    mark = MARK if before.startswith(MARK) else ""
    before = before.removeprefix(MARK)
    match = _INDENT.match(before)
    indent = match[1] if match else None if before.strip(" \r\n\t{}") else 2
    end = "\r\n" if "\r\n" in before else "\n"
    last = end if before.endswith("\n") or not before.strip() else ""
    is_ascii = bool(before.strip()) and before.isascii()
    text = json.dumps(content, indent=indent, ensure_ascii=is_ascii)
    with suppress(UnicodeEncodeError):
        return (mark + text.replace("\n", end) + last).encode("utf-8")
    return (mark + json.dumps(content, indent=indent).replace("\n", end) + last).encode("utf-8")


def _replace(target: Path, content: bytes, file: Path) -> None:
    """Write a temporary file and rename it: a reader sees the old file or the new one."""
    try:
        # A store may be created beside the file later.
        make_private(target.parent)
        replace_file(target, content, mode=0o644, keep_mode=True)
    except OSError as error:
        raise _file_error(file, error, "PERMISSION_DENIED") from error


def _file_error(file: Path, error: OSError, code: str) -> CortexError:
    """Convert an OSError to an error with the file's path."""
    reason = "can't be read" if code == "FILE_UNREADABLE" else "can't be written"
    message = f"{file}: {reason} ({error.strerror or error})"
    return error_of(code_of(error, code), message, {"file": str(file)})
