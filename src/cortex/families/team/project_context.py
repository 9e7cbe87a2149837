"""What a project's own file says about where its contributions belong: three keys in
`<root>/.cortex/config.json`, read and written.

Everything else in the file is somebody else's and stays, and so does every other file there. Not
taken: changing the text in place; the file is JSON without comments, so only its blanks could be
lost, and its indentation is kept.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from cortex.base.errors import ConfigError, CortexError, code_of, error_of
from cortex.base.paths import STORE_FOLDER, make_private
from cortex.base.settings.registry import normalise

FILE = "config.json"
MAX_FILE_BYTES = 1_000_000
NAMES: Mapping[str, str] = {
    "thread": "default_thread_id",
    "task": "default_task_id",
    "subcortex": "default_subcortex_slug",
}
MARK = "\ufeff"  # that some editors put before a text
_INDENT = re.compile(r"^\s*\{\r?\n([ \t]+)\"")


@dataclass(frozen=True, slots=True)
class ProjectContext:
    """What a project says, as it is written; nobody has looked whether it is there."""

    thread: str = ""
    task: str = ""
    subcortex: str = ""


def context_file(root: Path) -> Path:
    """Where a project says it."""
    return root / STORE_FOLDER / FILE


def read_context(root: Path) -> ProjectContext:
    """What the project's file says; nothing where there is no file.

    Raises: ConfigError CONFIG_INVALID for a file that isn't a JSON object or a link that leaves the
    project; FileError.
    """
    text = _read(_target(root), context_file(root))
    return _context_of(_parse(text, context_file(root)))


def write_context(
    root: Path, *, thread: str | None = None, task: str | None = None, subcortex: str | None = None
) -> ProjectContext:
    """Say something else in the project's file: None leaves what is there, "" takes it out. Returns
    what it says now.

    Raises: ConfigError CONFIG_INVALID, also for a file that is a link, FileError PERMISSION_DENIED
    or DISK_FULL; then the file is as it was.
    """
    told = {"thread": thread, "task": task, "subcortex": subcortex}
    file, target = context_file(root), _target(root)
    text = _read(target, file)
    content = _parse(text, file)
    before = dict(content)
    for name, value in told.items():
        if value is not None:
            _set(content, NAMES[name], value)
    if content != before:
        # It may be any file of the project, and whoever writes it means only this one
        if file.is_symlink():
            _refuse(file, "is a link, which is read but never written through")
        _replace(target, _render(content, text), file)
    return _context_of(content)


def clear_context(
    root: Path, *, thread: bool = True, task: bool = True, subcortex: bool = True
) -> ProjectContext:
    """Take what the project's file says out of it, all or some. Raises as `write_context` does."""
    return write_context(
        root,
        thread="" if thread else None,
        task="" if task else None,
        subcortex="" if subcortex else None,
    )


def _target(root: Path) -> Path:
    """The real file behind links, which must lie in the project."""
    file = context_file(root)
    real = Path(os.path.realpath(file))
    if not real.is_relative_to(os.path.realpath(root)):
        _refuse(file, "is a link that leaves the project")
    return real


def _read(target: Path, file: Path) -> str:
    try:
        if not stat.S_ISREG(os.stat(target).st_mode):  # from a pipe nobody may ever answer
            _refuse(file, "isn't a file")
        with open(target, "rb") as source:
            content = source.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _denied(file, error, "FILE_UNREADABLE") from error
    if len(content) > MAX_FILE_BYTES:
        _refuse(file, f"is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        _refuse(file, "isn't UTF-8")


def _parse(text: str, file: Path) -> dict[str, object]:
    """The keys of a file, none of an empty one.

    Its text is never quoted: a link may point anywhere in the project.
    """
    if not (text := text.removeprefix(MARK)).strip():
        return {}
    try:
        content = json.loads(text, parse_constant=_no_number, parse_float=_number)
    except json.JSONDecodeError as error:
        _refuse(file, f"isn't valid JSON at line {error.lineno}")
    except RecursionError:
        _refuse(file, "is nested too deeply")
    except ValueError:
        _refuse(file, "holds a number that JSON can't say")
    if not isinstance(content, dict):
        _refuse(file, "holds no keys with values")
    return content


def _number(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _refuse(file: Path, reason: str) -> NoReturn:
    raise ConfigError(
        "CONFIG_INVALID",
        f"{file}: {reason}",
        context={"file": str(file)},
        instead=("Correct that file first.",),
    )


def _context_of(content: Mapping[str, object]) -> ProjectContext:
    context = ProjectContext()
    for name, key in NAMES.items():
        values = [value for known, value in content.items() if normalise(known) == normalise(key)]
        if values and isinstance(values[-1], str):
            context = replace(context, **{name: values[-1].strip()})
    return context


def _set(content: dict[str, object], key: str, value: str) -> None:
    """Put a value under a key in whatever spelling it is there, or take all of these out."""
    present = [known for known in content if normalise(known) == normalise(key)]
    for known in present if not value else present[:-1]:
        del content[known]
    if value:
        content[present[-1] if present else key] = value


def _render(content: Mapping[str, object], before: str) -> bytes:
    """The keys as a text that is laid out as the one before was."""
    mark = MARK if before.startswith(MARK) else ""
    before = before.removeprefix(MARK)
    found = _INDENT.match(before)
    indent = found[1] if found else None if before.strip(" \r\n\t{}") else 2
    end = "\r\n" if "\r\n" in before else "\n"
    last = end if before.endswith("\n") or not before.strip() else ""
    plain = bool(before.strip()) and before.isascii()
    text = json.dumps(content, indent=indent, ensure_ascii=plain)
    with suppress(UnicodeEncodeError):
        return (mark + text.replace("\n", end) + last).encode("utf-8")
    return (mark + json.dumps(content, indent=indent).replace("\n", end) + last).encode("utf-8")


def _replace(target: Path, content: bytes, file: Path) -> None:
    """Write aside, then rename: a reader sees the old file or the new one."""
    temporary = ""
    try:
        make_private(target.parent)  # a store may come to lie beside the file
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        number, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{FILE}.", suffix=".tmp")
        with os.fdopen(number, "wb") as made:
            made.write(content)
            made.flush()
            os.fsync(made.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except OSError as error:
        raise _denied(file, error, "PERMISSION_DENIED") from error
    finally:
        if temporary:
            with suppress(OSError):
                os.unlink(temporary)


def _denied(file: Path, error: OSError, code: str) -> CortexError:
    reason = "can't be read" if code == "FILE_UNREADABLE" else "can't be written"
    message = f"{file}: {reason} ({error.strerror or error})"
    return error_of(code_of(error, code), message, {"file": str(file)})
