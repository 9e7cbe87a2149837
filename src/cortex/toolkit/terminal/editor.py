"""Editing of a text in the user's editor ($VISUAL or $EDITOR).

Typed text is never lost: where it is rejected, its file stays, and the message names the command
that takes it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import typer

from cortex.base.errors import CortexError, FileError, InputError
from cortex.base.settings import environment
from cortex.toolkit.terminal.output import say

EDITORS = ("notepad",) if os.name == "nt" else ("sensible-editor", "nano", "vi")
MAX_BYTES = 1_000_000

T = TypeVar("T")


def in_editor(name: str, text: str, take: Callable[[str], T], *, again: str, instead: str) -> T:
    """Let the user edit a text, and pass the result to `take`.

    `name` is a part of the file's name. `again` is the command that takes the file, to which its
    path is added; `instead` says what to do where there is no terminal.

    Raises: InputError ARGUMENT_INVALID; any error of `take`, with the path of the file in its
    suggestions.
    """
    if not sys.stdin.isatty():
        raise InputError("ARGUMENT_INVALID", f"there is no terminal to edit on: {instead}")
    # An id of another product may contain characters that a file name can't have.
    safe_name = re.sub(r"[^\w.-]", "_", name[:40])
    handle, file_name = tempfile.mkstemp(prefix=f"cortex-{safe_name}-", suffix=".md")
    path = Path(file_name)
    with open(handle, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    try:
        _run(path)
        result = take(read_file(path))
    except typer.Exit:
        say(
            f"What you wrote is in {path}: `{again} {shlex.quote(file_name)}` takes it.", error=True
        )
        raise
    except CortexError as error:
        # The user didn't change anything.
        if _holds(path, text):
            path.unlink(missing_ok=True)
            raise
        error.suggestions = (
            f"What you wrote is in {path}: `{again} {shlex.quote(file_name)}` takes it.",
            *error.suggestions,
        )
        raise
    with suppress(OSError):
        path.unlink()
    return result


def read_file(path: Path) -> str:
    """Read a text file of the user.

    Raises: FileError FILE_NOT_FOUND; InputError ARGUMENT_INVALID.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FileError("FILE_NOT_FOUND", f"{path} can't be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise InputError("ARGUMENT_INVALID", f"{path} is larger than {MAX_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise InputError("ARGUMENT_INVALID", f"{path} is no UTF-8 text") from None


def _holds(path: Path, text: str) -> bool:
    try:
        return read_file(path).strip() == text.strip()
    except CortexError:
        return False


def _run(path: Path) -> None:
    variables = environment()
    chosen = (
        variables.get("VISUAL")
        or variables.get("EDITOR")
        or next(filter(shutil.which, EDITORS), EDITORS[-1])
    )
    # On Windows a backslash is part of a path, and shlex keeps the quotes around a word.
    words = (
        shlex.split(chosen)
        if os.name != "nt"
        else [word.strip('"') for word in shlex.split(chosen, posix=False)]
    )
    try:
        # No timeout: the user may take any time.
        code = subprocess.run([*words, str(path)], check=False).returncode
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(
            "ARGUMENT_INVALID", f"the editor {chosen!r} can't be started: {why}; set EDITOR"
        ) from None
    if code:
        raise InputError(
            "ARGUMENT_INVALID", f"the editor {chosen!r} ended with {code}: nothing was changed"
        )
