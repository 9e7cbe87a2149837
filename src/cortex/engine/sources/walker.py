"""All files below a root that exist and aren't ignored: listed by git, or walked without it.

Names and `lstat` only; scanner.py decides which of them belong in the index. Nested repositories
(submodules, and others that merely lie there) are listed by their own rules, and a repository that
git refuses is walked. Links are never followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from cortex.base.errors import Cancelled
from cortex.base.types import Cancel, Skipped
from cortex.engine.sources import git
from cortex.engine.sources.gitignore import IgnoreTree

# Path relative to the root, and its lstat.
Entry = tuple[str, os.stat_result]
# True for a folder, relative to the root, that isn't scanned.
Prune = Callable[[str], bool]
# Only these paths, or everything.
Wanted = Collection[str] | None


def list_entries(
    root: Path,
    prune: Prune,
    only: Wanted = None,
    cancel: Cancel | None = None,
    *,
    apart: bool = False,
) -> Iterator[Entry | Skipped]:
    """List files (and links, pipes, ...) below `root`, in no order.

    With `only`, those at or below the given relative paths. `apart` ignores the rules of a
    repository around the folder.
    """
    # Not recursive: repositories may be nested a thousand deep.
    pending: list[tuple[str, bool, Wanted]] = [("", not apart and git.in_repository(root), only)]
    while pending:
        folder, is_repository, wanted = pending.pop()
        inner: dict[str, set[str]] = {}
        if wanted is not None:
            wanted, inner = _split_by_repository(root, folder, wanted)
        entries = _list_repository(root, folder, wanted, inner) if is_repository else None
        if entries is None:
            entries = _walk(root, folder, prune, wanted, inner, cancel)
        for entry in entries:
            if cancel:
                raise Cancelled
            if isinstance(entry, str):
                if not prune(entry):
                    below = inner.get(entry)
                    pending.append((entry, True, None if not below or "" in below else below))
            else:
                yield entry


def _split_by_repository(
    root: Path, folder: str, wanted: Collection[str]
) -> tuple[list[str], dict[str, set[str]]]:
    """Split wanted paths into those of `folder`'s own repository and of nested ones."""
    own: list[str] = []
    inner: dict[str, set[str]] = {}
    for path in sorted(wanted):
        parts = path[len(folder) + 1 if folder else 0 :].split("/")
        for count in range(1, len(parts) + 1):
            ancestor = _join(folder, "/".join(parts[:count]))
            if os.path.lexists(root / ancestor / ".git"):
                inner.setdefault(ancestor, set()).add("" if count == len(parts) else path)
                break
        else:
            own.append(path)
    return own, inner


def _list_repository(
    root: Path, folder: str, wanted: Wanted, inner: Collection[str]
) -> list[Entry | Skipped | str] | None:
    """Entries that git lists; a nested repository is a bare path. None where git fails."""
    start = len(folder) + 1 if folder else 0
    only = [] if wanted is None else [path[start:] for path in (*wanted, *inner)]
    if wanted is not None and not only:
        return []
    names = git.list_files(root / folder, only)
    if names is None:
        return None
    entries: list[Entry | Skipped | str] = []
    prefix = os.path.join(root, "")
    for name in names:
        path = _join(folder, name)
        try:
            status = os.lstat(prefix + path)
        except (FileNotFoundError, NotADirectoryError):
            # Tracked, but deleted or not checked out.
            continue
        except OSError as error:
            entries.append(Skipped(path, _reason(error)))
            continue
        if not stat.S_ISDIR(status.st_mode):
            entries.append((path, status))
        elif os.path.lexists(prefix + path + "/.git"):
            # A folder without .git is a submodule that isn't checked out.
            entries.append(path)
    return entries


def _walk(
    root: Path,
    base: str,
    prune: Prune,
    wanted: Wanted,
    inner: Collection[str],
    cancel: Cancel | None,
) -> Iterator[Entry | Skipped | str]:
    """Entries below `base` by its .gitignore files; a nested repository is a bare path."""
    tree = IgnoreTree(root / base, ".gitignore")
    start = len(base) + 1 if base else 0
    for path in inner:
        if not tree.ignores_folder(path[start:]):
            yield path
    if wanted is None:
        yield from _walk_folder(root, base, base, tree, prune, cancel)
        return
    for path in wanted:
        try:
            status = os.lstat(root / path)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            if not prune(path) and not tree.ignores_folder(path[start:]):
                yield from _walk_folder(root, base, path, tree, prune, cancel)
        elif not tree.ignores_file(path[start:]):
            yield path, status


def _walk_folder(
    root: Path, base: str, top: str, tree: IgnoreTree, prune: Prune, cancel: Cancel | None
) -> Iterator[Entry | Skipped | str]:
    start = len(base) + 1 if base else 0
    stack = [top]
    while stack:
        if cancel:
            raise Cancelled
        folder = stack.pop()
        try:
            with os.scandir(root / folder) as listing:
                entries = list(listing)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                yield Skipped(folder or ".", _reason(error))
            continue
        if folder != base and any(entry.name == ".git" for entry in entries):
            yield folder
            continue
        for entry in entries:
            path = _join(folder, entry.name)
            if entry.is_dir(follow_symlinks=False) and not _is_junction(entry):
                if not prune(path) and not tree.ignores_folder(path[start:]):
                    stack.append(path)
            elif not tree.ignores_file(path[start:]):
                try:
                    yield path, entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    # Deleted meanwhile.
                    continue
                except OSError as error:
                    yield Skipped(path, _reason(error))


def _reason(error: OSError) -> str:
    return "path too long" if error.errno == errno.ENAMETOOLONG else "unreadable"


def _is_junction(entry: os.DirEntry[str]) -> bool:
    """True for a Windows junction: a link that counts as a folder.

    It may lead out of the root or round in circles.
    """
    if os.name != "nt":
        return False
    tag = getattr(entry.stat(follow_symlinks=False), "st_reparse_tag", 0)
    return tag == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
