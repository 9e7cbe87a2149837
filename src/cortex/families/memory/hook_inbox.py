"""The inbox of a home: what hooks brought, one file for each event, until it is remembered.

`interfaces/daemon/hook.py` writes the files, without any of this; whoever has the library open
takes them in. A file goes only after all that it holds was remembered, which may happen twice:
remembering the same twice is one memory. What can't be understood is put aside, where a person
finds it, and is not tried again. Knows neither store nor library: `remember` is given.
"""

from __future__ import annotations

import json
import logging
import math
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

REFUSED = "refused"  # in the inbox, for what isn't tried again
MOST_FILES = 500  # in one call; what is left is for the next one
MOST_BYTES = 2 << 20  # of a file
MOST_CANDIDATES = 20  # in a file
MOST_CHARACTERS = 4_000  # of a text
MOST_STRINGS = 50  # of a list
LEFT_SECONDS = 60.0  # after which a file that isn't finished was left by a process that was killed
_NAME = re.compile(r"(\.?)(\d{20})-\d+-[0-9a-f]{8}\.json")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HookNote:
    """What somebody wants to be remembered, before anybody has looked at it."""

    title: str
    text: str = ""
    facts: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    kind: str = ""  # "note", "decision", "gotcha", or what was given
    project_path: str = ""  # the folder of the session
    session: str = ""
    at: int = 0  # milliseconds since 1970
    client: str = ""  # which program brought it, "" where it can't be told


class _Unreadable(Exception):
    """Why a file is put aside."""


def take_in(home: Path, remember: Callable[[HookNote], None]) -> int:
    """Hand over every candidate in the inbox, oldest first; gives how many were taken.

    What `remember` refuses (InputError) is done with; any other error of ours leaves the file, and
    those after it, for the next time.
    """
    taken = 0
    folder = os.path.join(home, INBOX)
    for name in _names(folder)[:MOST_FILES]:
        path = os.path.join(folder, name)
        try:
            candidates = _read(path, name)
        except FileNotFoundError:
            continue  # somebody else has taken it
        except _Unreadable as reason:
            _put_aside(folder, name, str(reason))
            continue
        try:
            for candidate in candidates:
                taken += _hand_over(candidate, remember)
        except (CortexError, OSError) as error:
            log.warning(
                "the inbox waits: %s",
                error.message if isinstance(error, CortexError) else error.strerror,
            )
            break
        except Exception:  # whatever it is would happen again, and keep all the others waiting
            log.exception("a file of the inbox could not be remembered")
            _put_aside(folder, name, "it could not be remembered")
        else:
            with suppress(FileNotFoundError):
                os.unlink(path)
    return taken


def is_waiting(home: Path) -> bool:
    """Whether there is something to take in; looks at names only."""
    return bool(_names(os.path.join(home, INBOX)))


def _hand_over(candidate: HookNote, remember: Callable[[HookNote], None]) -> int:
    try:
        remember(candidate)
    except InputError as error:  # a secret, a text that says nothing: it would be refused again
        log.warning(
            "a candidate of session %s is refused: %s",
            candidate.session or "unknown",
            error.message,
        )
        return 0
    return 1


def _names(folder: str) -> list[str]:
    """The files of hooks, oldest first, also those that a killed hook left; nothing of anybody
    else.
    """
    found: list[tuple[str, str]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            known = _NAME.fullmatch(entry.name)
            with suppress(OSError):
                if (
                    known
                    and entry.is_file(follow_symlinks=False)
                    and (not known[1] or _is_left(entry))
                ):
                    found.append((known[2], entry.name))
    return [name for _, name in sorted(found)]


def _is_left(entry: os.DirEntry[str]) -> bool:
    return abs(time.time() - entry.stat(follow_symlinks=False).st_mtime) > LEFT_SECONDS


def _read(path: str, name: str) -> list[HookNote]:
    """The candidates of a file. Raises: _Unreadable; FileNotFoundError."""
    try:
        note = json.loads(_bytes_of(path))
    except (ValueError, RecursionError):
        raise _Unreadable("it is not JSON") from None
    if not isinstance(note, dict) or note.get("format") != 1:
        raise _Unreadable("its format is unknown")
    listed = note.get("candidates")
    if not isinstance(listed, list):
        raise _Unreadable("it has no list of candidates")
    found = [
        _candidate(one, note, name) for one in listed[:MOST_CANDIDATES] if isinstance(one, dict)
    ]
    return [one for one in found if one.title]


def _bytes_of(path: str) -> bytes:
    """What a file of the inbox holds. Raises: _Unreadable; FileNotFoundError."""
    flags = (
        os.O_RDONLY
        | getattr(os, "O_NOFOLLOW", 0)
        | getattr(os, "O_NONBLOCK", 0)
        | getattr(os, "O_BINARY", 0)
    )
    try:
        with open(os.open(path, flags), "rb") as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise _Unreadable("it is no file")
            raw = source.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:  # not left where it is: it would be tried for ever
        raise _Unreadable(f"it can't be read: {error.strerror}") from None
    if len(raw) > MOST_BYTES:
        raise _Unreadable("it is too large")
    return raw


def _candidate(one: Mapping[str, object], note: Mapping[str, object], name: str) -> HookNote:
    at = note.get("at")
    known = (
        isinstance(at, int | float)
        and not isinstance(at, bool)
        and math.isfinite(at)
        and 0 < at < 1e11
    )
    return HookNote(
        title=" ".join(_text(one.get("title")).split()),
        text=_text(one.get("text")),
        facts=_texts(one.get("facts")),
        concepts=_texts(one.get("concepts")),
        files=_texts(one.get("files")),
        kind=_text(one.get("kind")),
        project_path=_text(note.get("cwd")),
        session=_text(note.get("session")),
        at=int(at * 1000)
        if known and isinstance(at, int | float)
        else int(name.lstrip(".")[:20]) // 1_000_000,
        client=_text(note.get("client")),
    )


def _texts(value: object) -> tuple[str, ...]:
    strings: Iterable[object] = value[:MOST_STRINGS] if isinstance(value, list) else ()
    return tuple(text for string in strings if (text := _text(string)))


def _text(value: object) -> str:
    """A text that can be stored: without halves of characters and what ends a string."""
    if not isinstance(value, str):
        return ""
    return value[:MOST_CHARACTERS].encode("utf-8", "replace").decode().replace("\0", "").strip()


def _put_aside(folder: str, name: str, reason: str) -> None:
    """Keep a file where it isn't tried again."""
    log.warning("%s in the inbox is put aside: %s", name, reason)
    place = os.path.join(folder, REFUSED)
    try:
        os.makedirs(place, 0o700, exist_ok=True)
        os.replace(os.path.join(folder, name), os.path.join(place, name.lstrip(".")))
    except OSError as error:
        log.warning("%s could not be put aside: %s", name, error.strerror)
