"""Every file below a root that is there and not ignored: asked of git where there is a repository,
walked elsewhere.

Names and `lstat` only; which of them belong in the index is for files.py to judge. Repositories
within (submodules, and others that merely lie there) are listed by their own rules, and a
repository that git won't speak about is walked. Links are never followed.
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

Entry = tuple[str, os.stat_result]  # path relative to the root, and what lstat says
Prune = Callable[[str], bool]  # whether a folder, given relative to the root, isn't looked into
Wanted = Collection[str] | None  # only these paths, or everything


def list_entries(
    root: Path,
    prune: Prune,
    only: Wanted = None,
    cancel: Cancel | None = None,
    *,
    apart: bool = False,
) -> Iterator[Entry | Skipped]:
    """Files (and links, pipes, ...) below `root`, in no order; with `only`, those at or below the
    given relative paths.

    `apart` takes the folder for itself, whatever the repository around it ignores.
    """
    # Not recursive, so that repositories nested a thousand deep don't end in a RecursionError.
    pending: list[tuple[str, bool, Wanted]] = [("", not apart and git.in_repository(root), only)]
    while pending:
        folder, is_repository, wanted = pending.pop()
        inner: dict[str, set[str]] = {}
        if wanted is not None:
            wanted, inner = _split_by_repository(root, folder, wanted)
        found = _list_repository(root, folder, wanted, inner) if is_repository else None
        if found is None:
            found = _walk(root, folder, prune, wanted, inner, cancel)
        for entry in found:
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
    """The wanted paths that belong to `folder`'s own repository, and for each repository within
    what is wanted of it.
    """
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
    """What git lists; a repository within as its bare path. None where git can't tell."""
    start = len(folder) + 1 if folder else 0
    only = [] if wanted is None else [path[start:] for path in (*wanted, *inner)]
    if wanted is not None and not only:
        return []
    names = git.list_files(root / folder, only)
    if names is None:
        return None
    found: list[Entry | Skipped | str] = []
    prefix = os.path.join(root, "")
    for name in names:
        path = _join(folder, name)
        try:
            seen = os.lstat(prefix + path)
        except (FileNotFoundError, NotADirectoryError):
            continue  # tracked, but deleted or not checked out
        except OSError as error:
            found.append(Skipped(path, _reason(error)))
            continue
        if not stat.S_ISDIR(seen.st_mode):
            found.append((path, seen))
        elif os.path.lexists(prefix + path + "/.git"):  # else a submodule that isn't checked out
            found.append(path)
    return found


def _walk(
    root: Path,
    base: str,
    prune: Prune,
    wanted: Wanted,
    inner: Collection[str],
    cancel: Cancel | None,
) -> Iterator[Entry | Skipped | str]:
    """What lies below `base` by its .gitignore files; a repository within as its bare path."""
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
            seen = os.lstat(root / path)
        except OSError:
            continue
        if stat.S_ISDIR(seen.st_mode):
            if not prune(path) and not tree.ignores_folder(path[start:]):
                yield from _walk_folder(root, base, path, tree, prune, cancel)
        elif not tree.ignores_file(path[start:]):
            yield path, seen


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
                    continue  # deleted meanwhile
                except OSError as error:
                    yield Skipped(path, _reason(error))


def _reason(error: OSError) -> str:
    return "path too long" if error.errno == errno.ENAMETOOLONG else "unreadable"


def _is_junction(entry: os.DirEntry[str]) -> bool:
    """A link to a folder that Windows calls a folder; it may lead out of the root or round in
    circles.
    """
    if os.name != "nt":
        return False
    tag = getattr(entry.stat(follow_symlinks=False), "st_reparse_tag", 0)
    return tag == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
