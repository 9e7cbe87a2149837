"""Which folders may not be a source of documents: whole disks and homes, the system's, those of
keys and of programs' own files.

A folder is judged by what it is, not only by how it is written: another spelling on a disk that
takes both, and a mount of the same folder elsewhere, are the same folder. Knows nothing of sources
that there are already.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from cortex.engine.sources.secret_filenames import in_secret_folder

# Below a home: folders of keys, passwords and what programs keep for themselves.
_PRIVATE = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".config/gcloud", ".config/gh", ".config/op",
    ".local/share/keyrings", "Library/Keychains", ".mozilla", ".config/google-chrome", ".config/chromium", "AppData",
)  # fmt: skip
_SYSTEM = (
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/boot",
    "/etc",
    "/System",
    "C:\\Windows",
    "C:\\Program Files",
)
# As a whole; folders in them may be sources
_TOO_MUCH = ("/home", "/root", "/Users", "/var", "/usr", "C:\\Users")

Identity = tuple[int, int]


def reason_against(root: Path, user: Path, own: Path) -> str:
    """Why the folder can't be a source, or ""; `user` is the person's home, `own` is where Cortex
    keeps its files.
    """
    if root == Path(root.anchor):
        return "it is the whole disk"
    if _is_around(root, user):
        return "it holds all that you have; choose the folder of your documents in it"
    for part in _PRIVATE:
        if _is_around(user / part, root):
            return f"~/{part} holds keys, passwords or programs' own files"
        if _is_around(root, user / part) and (user / part).exists():
            return f"~/{part}, which lies in it, holds keys, passwords or programs' own files"
    if in_secret_folder(root.as_posix()):
        return "by its name it holds keys or passwords"
    for part in _SYSTEM:
        if _is_around(Path(part), root):
            return f"{part} is the system's"
    if any(_is_same(root, Path(part)) for part in _TOO_MUCH):
        return "it holds more than documents; choose a folder in it"
    return (
        "Cortex keeps its own files there" if _is_around(own, root) or _is_around(root, own) else ""
    )


def _is_around(outer: Path, inner: Path) -> bool:
    """Whether `inner` is `outer` or lies in it."""
    around = [inner, *inner.parents]
    return outer in around or _identity(outer) in _identities(around)


def _is_same(one: Path, other: Path) -> bool:
    return one == other or _identity(one) in _identities([other])


def _identities(paths: Iterable[Path]) -> set[Identity]:
    return {found for path in paths if (found := _identity(path)) is not None}


def _identity(path: Path) -> Identity | None:
    """What the system knows a folder by; None where there is none."""
    try:
        seen = os.stat(path)
    except (OSError, ValueError):
        return None
    return seen.st_dev, seen.st_ino
