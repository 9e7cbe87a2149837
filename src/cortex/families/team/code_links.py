"""Code that a record speaks of: as it was when somebody wrote about it, and what became of it
since.

A link is kept as it was told where the file isn't there to be looked at: what somebody saw
elsewhere may still be true. A path that leaves its repository is refused, whether or not anything
is there. `cortex.engine.citations` compares; nothing here reads a file itself.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cortex.base.errors import CortexError, FileError, InputError
from cortex.base.record_model import CodeLink
from cortex.base.types import Citation
from cortex.engine.citations import check, cite, look
from cortex.engine.library import Library
from cortex.families.team.validation import check_secrets

LOOK_SECONDS = 1.0  # for which a write, or an answer, looks into files
_ABSOLUTE = re.compile(r"[A-Za-z]:|[\\/]|~[\\/]")


def cited(library: Library, root: Path | None, links: Sequence[CodeLink]) -> tuple[CodeLink, ...]:
    """The links with what their files and symbols are now, where those are below `root`; others as
    they were told.

    Raises: InputError RECORD_INVALID for paths that leave the repository and for what is no path,
    all of them; SENSITIVE_BLOCKED.
    """
    # As it was told: of an address with a password a path is made that hides it
    for number, link in enumerate(links):
        check_secrets(link, f"code_links[{number}].")
    until = time.monotonic() + LOOK_SECONDS
    kept: list[CodeLink] = []
    bad: list[str] = []
    for link in links:
        try:
            kept.append(_cited(library, root, link, late=time.monotonic() >= until))
        except _NoPath:
            bad.append(link.path or f"#{link.symbol}")
    if bad:
        raise _refused(bad)
    return tuple(kept)


def absent(root: Path | None, links: Sequence[CodeLink]) -> str:
    """Which links name no file of this project, as a warning; "" where all do, or nobody can tell."""
    gone = [
        link.path
        for link in links
        if root and not link.file_hash and not _is_there(root, link.path)
    ]
    return f"no file {', '.join(dict.fromkeys(gone))} in this project: kept as told" if gone else ""


def _is_there(root: Path, path: str) -> bool:
    try:
        return (root / path).exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


class _NoPath(Exception):
    """A text that names no file of a repository."""


def _cited(library: Library, root: Path | None, link: CodeLink, *, late: bool) -> CodeLink:
    told = replace(link, path=_plain(link.path, root), root="", file_hash="", body_hash="")
    if root is None or late:
        return told
    view = library.view_in(root)
    for target in dict.fromkeys(
        (f"{told.path}#{told.symbol}" if told.symbol else told.path, told.path)
    ):
        try:
            found = cite(root, target, view)
        except FileError as error:
            if error.code == "PATH_OUTSIDE":  # by a symbolic link
                raise _NoPath from error
            return told
        # A symbol that isn't there, or is one of several: then the file is cited
        except CortexError:
            continue
        return replace(
            told,
            path=found.path,
            symbol=found.symbol or told.symbol,
            root=found.root,
            file_hash=found.file_hash.hex(),
            body_hash=found.body_hash.hex(),
            commit=told.commit or found.commit,
        )
    return told


def changes_in(library: Library, seconds: float = LOOK_SECONDS) -> Callable[[CodeLink], str]:
    """How to tell what changed in code since it was linked, "" where nobody can: from so many
    seconds on files are only glanced at.

    Where a library has no files, what was linked lies on the machines of others: a path of theirs
    means nothing here, or something else.
    """
    until = time.monotonic() + seconds
    known: dict[CodeLink, str] = {}

    def changes_of(link: CodeLink) -> str:
        if link not in known and library.has_files:
            known[link] = _changes(library, link, late=time.monotonic() >= until)
        return known.get(link, "")

    return changes_of


def _changes(library: Library, link: CodeLink, *, late: bool) -> str:
    if not (link.root and link.file_hash):
        return ""
    try:
        # Without a hash of its body a symbol can't be compared: then it is the file that is.
        symbol, body = (link.symbol, bytes.fromhex(link.body_hash)) if link.body_hash else ("", b"")
        citation = Citation(
            link.root, link.path, symbol, bytes.fromhex(link.file_hash), body, link.commit
        )
        return look(citation) if late else check(citation, library.view_in(Path(link.root)))
    except (CortexError, ValueError, OSError):
        return ""


def _plain(path: str, root: Path | None) -> str:
    """A path relative to its repository, with "/" between its parts."""
    path = path.strip()
    if root is not None and Path(path).is_absolute():
        for base in (root, root.resolve()):
            try:
                path = Path(path).relative_to(base).as_posix()
                break
            except ValueError:
                continue
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if not parts or _ABSOLUTE.match(path) or ".." in parts or "\0" in path:
        raise _NoPath
    # Words, unless a file is called so
    prose = len(parts) == 1 and "." not in path and len(path.split()) > 1
    if prose and not (root and _is_there(root, path)):
        raise _NoPath
    return "/".join(parts)


def _refused(paths: Sequence[str]) -> InputError:
    most = 200 if len(paths) == 1 else 60  # characters of each
    shown = ", ".join(ascii(path[:most]) for path in paths)
    return InputError(
        "RECORD_INVALID",
        f"code_links: {shown} {'is no path' if len(paths) == 1 else 'are no paths'} inside a repository",
        context={"field": "code_links", "path": paths[0][:200]},
        suggestions=("Give the path relative to the repository's root.",),
    )
