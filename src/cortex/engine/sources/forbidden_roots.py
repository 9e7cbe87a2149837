"""Folders that may not be a source of documents.

Whole disks and homes, the system's folders, and those of keys and of programs' own files. Folders
are compared by identity as well as by path: another spelling on a case-insensitive disk, or a
second mount, is the same folder. Knows nothing of existing sources.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from cortex.engine.sources.secret_filenames import in_secret_folder

# Below a home: folders of keys, passwords and programs' own files.
_PRIVATE = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".config/gcloud",
    ".config/gh", ".config/op", ".local/share/keyrings", "Library/Keychains", ".mozilla",
    ".config/google-chrome", ".config/chromium", "AppData",
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
# Forbidden as a whole; folders in them may be sources.
_TOO_MUCH = ("/home", "/root", "/Users", "/var", "/usr", "C:\\Users")

Identity = tuple[int, int]


def reason_against(root: Path, user: Path, own: Path) -> str:
    """Reason that the folder can't be a source, or "".

    `user` is the person's home, `own` the folder of Cortex's files.
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
    """True if `inner` is `outer` or lies in it."""
    around = [inner, *inner.parents]
    return outer in around or _identity(outer) in _identities(around)


def _is_same(path: Path, other: Path) -> bool:
    return path == other or _identity(path) in _identities([other])


def _identities(paths: Iterable[Path]) -> set[Identity]:
    return {identity for path in paths if (identity := _identity(path)) is not None}


def _identity(path: Path) -> Identity | None:
    """Device and inode of a folder; None where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
