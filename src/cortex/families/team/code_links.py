"""Code links of records: recorded when written, and compared with the code later.

A link is kept unchanged if its file isn't available: it may be valid on another machine. A path
that leaves its repository is rejected, if it exists or not. `cortex.engine.citations` compares;
this module reads no file itself.
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

# Time limit of a write, or an answer, for reading files.
LOOK_SECONDS = 1.0
_ABSOLUTE = re.compile(r"[A-Za-z]:|[\\/]|~[\\/]")


def cited(library: Library, root: Path | None, links: Sequence[CodeLink]) -> tuple[CodeLink, ...]:
    """Add the current hashes of files and symbols below `root`; other links stay as they are.

    Raises: InputError RECORD_INVALID with all paths that leave the repository or are none;
    SENSITIVE_BLOCKED.
    """
    # Before normalization: the path made from a URL with a password would hide the password.
    for index, link in enumerate(links):
        check_secrets(link, f"code_links[{index}].")
    deadline = time.monotonic() + LOOK_SECONDS
    kept: list[CodeLink] = []
    bad: list[str] = []
    for link in links:
        try:
            kept.append(_cited(library, root, link, late=time.monotonic() >= deadline))
        except _NoPath:
            bad.append(link.path or f"#{link.symbol}")
    if bad:
        raise _invalid_paths(bad)
    return tuple(kept)


def absent(root: Path | None, links: Sequence[CodeLink]) -> str:
    """Return a warning about links without a file in this project; "" if there are none."""
    gone = [
        link.path for link in links if root and not link.file_hash and not _exists(root, link.path)
    ]
    return (
        f"no file {', '.join(dict.fromkeys(gone))} in this project: kept as given" if gone else ""
    )


def _exists(root: Path, path: str) -> bool:
    """True if the path exists."""
    try:
        return (root / path).exists()
    # No file can have such a name.
    except (OSError, ValueError):
        return False


class _NoPath(Exception):
    """A text that is not a path inside a repository."""


def _cited(library: Library, root: Path | None, link: CodeLink, *, late: bool) -> CodeLink:
    """Normalize one link and add its hashes; if `late`, without reading files."""
    normalized = replace(
        link, path=_normalize(link.path, root), root="", file_hash="", body_hash=""
    )
    if root is None or late:
        return normalized
    view = library.view_in(root)
    for target in dict.fromkeys(
        (
            f"{normalized.path}#{normalized.symbol}" if normalized.symbol else normalized.path,
            normalized.path,
        )
    ):
        try:
            citation = cite(root, target, view)
        except FileError as error:
            # The path leads out of the repository by a symbolic link.
            if error.code == "PATH_OUTSIDE":
                raise _NoPath from error
            return normalized
        # The symbol doesn't exist or is ambiguous: cite the file.
        except CortexError:
            continue
        return replace(
            normalized,
            path=citation.path,
            symbol=citation.symbol or normalized.symbol,
            root=citation.root,
            file_hash=citation.file_hash.hex(),
            body_hash=citation.body_hash.hex(),
            commit=normalized.commit or citation.commit,
        )
    return normalized


def changes_in(library: Library, seconds: float = LOOK_SECONDS) -> Callable[[CodeLink], str]:
    """Return a function that describes the change of linked code, "" if it is unknown.

    After `seconds`, files are only checked superficially. In a library without files, links are
    from other machines, so their paths mean nothing here.
    """
    deadline = time.monotonic() + seconds
    known: dict[CodeLink, str] = {}

    def changes_of(link: CodeLink) -> str:
        if link not in known and library.has_files:
            known[link] = _changes(library, link, late=time.monotonic() >= deadline)
        return known.get(link, "")

    return changes_of


def _changes(library: Library, link: CodeLink, *, late: bool) -> str:
    """Describe the change of one link since it was recorded."""
    if not (link.root and link.file_hash):
        return ""
    try:
        # Without a hash of its body a symbol can't be compared, so the file is.
        symbol, body = (link.symbol, bytes.fromhex(link.body_hash)) if link.body_hash else ("", b"")
        citation = Citation(
            link.root, link.path, symbol, bytes.fromhex(link.file_hash), body, link.commit
        )
        return look(citation) if late else check(citation, library.view_in(Path(link.root)))
    except (CortexError, ValueError, OSError):
        return ""


def _normalize(path: str, root: Path | None) -> str:
    """Return a path relative to its repository, with forward slashes. Raises: _NoPath."""
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
    # Several words are prose, unless a file has that name.
    is_prose = len(parts) == 1 and "." not in path and len(path.split()) > 1
    if is_prose and not (root and _exists(root, path)):
        raise _NoPath
    return "/".join(parts)


def _invalid_paths(paths: Sequence[str]) -> InputError:
    """Return the error for invalid paths."""
    # Most characters of each path.
    most = 200 if len(paths) == 1 else 60
    shown = ", ".join(ascii(path[:most]) for path in paths)
    return InputError(
        "RECORD_INVALID",
        f"code_links: {shown} {'is no path' if len(paths) == 1 else 'are no paths'} inside a "
        f"repository",
        context={"field": "code_links", "path": paths[0][:200]},
        suggestions=("Give the path relative to the repository's root.",),
    )
