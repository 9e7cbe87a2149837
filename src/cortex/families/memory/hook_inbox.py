"""Inbox for notes from hooks: one file for each event, until its notes are remembered.

`interfaces/daemon/hook.py` writes the files without importing this module; a process that has the
library open consumes them. A file is deleted only after all its notes were remembered. That may
happen twice, which is harmless: the same note twice is one memory. Invalid files are moved aside
for a person to inspect and are not retried. Knows neither store nor library: `remember` is passed
in.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cortex.base.errors import CortexError, InputError
from cortex.base.runtime.home import INBOX

# Folder in the inbox for files that are not retried.
REFUSED = "refused"
# Files per call; the rest is left for the next call.
MOST_FILES = 500
# Size limit of a file.
MOST_BYTES = 2 << 20
# Notes per file.
MOST_CANDIDATES = 20
# Characters of a text.
MOST_CHARACTERS = 4_000
# Entries of a list.
MOST_STRINGS = 50
# Age at which an unfinished file counts as left behind by a killed process.
LEFT_SECONDS = 60.0
# Not every system has each of the others.
_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")
)
_NAME = re.compile(r"(\.?)(\d{20})-\d+-[0-9a-f]{8}\.json")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HookNote:
    """Note from a hook, not reviewed yet."""

    title: str
    text: str = ""
    facts: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    # "note", "decision", "gotcha", or any other given kind.
    kind: str = ""
    # Working directory of the session.
    project_path: str = ""
    session: str = ""
    # Milliseconds since 1970.
    at: int = 0
    # Program that sent it, "" if unknown.
    client: str = ""


class _Unreadable(Exception):
    """Reason for moving a file aside."""


def take_in(home: Path, remember: Callable[[HookNote], None]) -> int:
    """Pass every note in the inbox to `remember`, oldest first; return the number accepted.

    Notes that `remember` refuses (InputError) are dropped; any other Cortex error leaves this file
    and the following ones for the next call.
    """
    taken = 0
    folder = os.path.join(home, INBOX)
    for name in _names(folder)[:MOST_FILES]:
        path = os.path.join(folder, name)
        try:
            candidates = _read(path, name)
        except FileNotFoundError:
            # Another process has consumed it.
            continue
        except _Unreadable as reason:
            _put_aside(folder, name, str(reason))
            continue
        try:
            for candidate in candidates:
                taken += _hand_over(candidate, remember)
        except (CortexError, OSError) as error:
            reason = error.message if isinstance(error, CortexError) else error.strerror
            log.warning("the inbox waits: %s", reason)
            break
        except Exception:
            # It would fail again and block all other files.
            log.exception("a file of the inbox could not be remembered")
            _put_aside(folder, name, "it could not be remembered")
        else:
            with suppress(FileNotFoundError):
                os.unlink(path)
    return taken


def is_waiting(home: Path) -> bool:
    """True if the inbox has files; only looks at names."""
    return bool(_names(os.path.join(home, INBOX)))


def _hand_over(candidate: HookNote, remember: Callable[[HookNote], None]) -> int:
    try:
        remember(candidate)
    except InputError as error:
        # A secret or an empty text would be refused again.
        session = candidate.session or "unknown"
        log.warning("a candidate of session %s is refused: %s", session, error.message)
        return 0
    return 1


def _names(folder: str) -> list[str]:
    """Names of the hooks' files, oldest first, including those that a killed hook left behind."""
    names: list[tuple[str, str]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            with suppress(OSError):
                is_file = match and entry.is_file(follow_symlinks=False)
                if match and is_file and (not match[1] or _is_left(entry)):
                    names.append((match[2], entry.name))
    return [name for _, name in sorted(names)]


def _is_left(entry: os.DirEntry[str]) -> bool:
    return abs(time.time() - entry.stat(follow_symlinks=False).st_mtime) > LEFT_SECONDS


def _read(path: str, name: str) -> list[HookNote]:
    """Parse the notes of a file. Raises: _Unreadable; FileNotFoundError."""
    try:
        note = json.loads(_bytes_of(path))
    except (ValueError, RecursionError):
        raise _Unreadable("it is not JSON") from None
    if not isinstance(note, dict) or note.get("format") != 1:
        raise _Unreadable("its format is unknown")
    listed = note.get("candidates")
    if not isinstance(listed, list):
        raise _Unreadable("it has no list of candidates")
    objects = [entry for entry in listed[:MOST_CANDIDATES] if isinstance(entry, dict)]
    candidates = [_candidate(entry, note, name) for entry in objects]
    return [candidate for candidate in candidates if candidate.title]


def _bytes_of(path: str) -> bytes:
    """Read a file of the inbox. Raises: _Unreadable; FileNotFoundError."""
    try:
        with open(os.open(path, _FLAGS), "rb") as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise _Unreadable("it is no file")
            raw = source.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        # Moved aside, or it would be retried for ever.
        raise _Unreadable(f"it can't be read: {error.strerror}") from None
    if len(raw) > MOST_BYTES:
        raise _Unreadable("it is too large")
    return raw


def _candidate(entry: Mapping[str, object], note: Mapping[str, object], name: str) -> HookNote:
    return HookNote(
        title=" ".join(_text(entry.get("title")).split()),
        text=_text(entry.get("text")),
        facts=_texts(entry.get("facts")),
        concepts=_texts(entry.get("concepts")),
        files=_texts(entry.get("files")),
        kind=_text(entry.get("kind")),
        project_path=_text(note.get("cwd")),
        session=_text(note.get("session")),
        at=_milliseconds(note.get("at")) or int(name.lstrip(".")[:20]) // 1_000_000,
        client=_text(note.get("client")),
    )


def _milliseconds(seconds: object) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return 0
    # NaN is in no range.
    return int(seconds * 1000) if 0 < seconds < 1e11 else 0


def _texts(value: object) -> tuple[str, ...]:
    strings: Iterable[object] = value[:MOST_STRINGS] if isinstance(value, list) else ()
    return tuple(text for string in strings if (text := _text(string)))


def _text(value: object) -> str:
    """Text that can be stored: without lone surrogates and NUL characters."""
    if not isinstance(value, str):
        return ""
    return value[:MOST_CHARACTERS].encode("utf-8", "replace").decode().replace("\0", "").strip()


def _put_aside(folder: str, name: str, reason: str) -> None:
    """Move a file to where it isn't retried."""
    log.warning("%s in the inbox is put aside: %s", name, reason)
    target = os.path.join(folder, REFUSED)
    try:
        os.makedirs(target, 0o700, exist_ok=True)
        os.replace(os.path.join(folder, name), os.path.join(target, name.lstrip(".")))
    except OSError as error:
        log.warning("%s could not be put aside: %s", name, error.strerror)
