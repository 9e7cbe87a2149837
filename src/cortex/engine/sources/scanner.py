"""Files of a folder that belong in the index, judged by name, kind and size; their bytes.

Ignored and excluded files are not reported at all (there may be a million); files left out for
another reason are reported with it. Knows nothing of content: binary, minified or generated files
without a telltale name are rejected by the readers.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from cortex.base.types import Cancel, Scan, ScannedFile, Skipped, UnreadableFile
from cortex.engine.sources import git
from cortex.engine.sources.file_kinds import PRUNED_FOLDERS, reason_by_name
from cortex.engine.sources.gitignore import IgnoreTree, Patterns
from cortex.engine.sources.inherited_rules import inherit
from cortex.engine.sources.secret_filenames import is_secret
from cortex.engine.sources.walker import Entry, list_entries

# Reason for a file beyond the limit.
OVER_LIMIT = "over maxFiles"
IGNORE_FILE = ".cortexignore"
# Above this number a full scan costs no more.
MAX_ASKED_PATHS = 200
EVERYTHING = ("**/*",)


@dataclass(frozen=True, slots=True)
class Rules:
    """File rules of a workspace; patterns are written as in a .gitignore at the root."""

    include: tuple[str, ...] = EVERYTHING
    exclude: tuple[str, ...] = ()
    # Bytes.
    max_file_size: int = 1_500_000
    max_files: int = 25_000
    # Include PDF, office files and books, even where a repository around the folder ignores them.
    documents: bool = False


def scan(root: Path, rules: Rules, cancel: Cancel | None = None) -> Scan:
    """Find all files below `root` that belong in the index; deterministic for the same tree.

    Raises: Cancelled.
    """
    file_filter = _FileFilter(root, rules)
    scanned = _filter_entries(
        file_filter, list_entries(root, file_filter.prunes, cancel=cancel, apart=rules.documents)
    )
    over = tuple(Skipped(file.path, OVER_LIMIT) for file in scanned.files[rules.max_files :])
    if not over:
        return scanned
    skipped = sorted((*scanned.skipped, *over), key=lambda skip: skip.path)
    return Scan(scanned.files[: rules.max_files], tuple(skipped))


def scan_paths(
    root: Path, rules: Rules, paths: Collection[str], cancel: Cancel | None = None
) -> Scan:
    """Find the files that belong in the index among these relative paths, files or folders.

    A path missing from the result doesn't belong. `max_files` can't be judged from a part; that is
    up to the caller.

    Raises: Cancelled.
    """
    wanted = {path for path in _outermost(paths) if _is_inside(root, path)}
    if not wanted:
        return Scan((), ())
    file_filter = _FileFilter(root, rules)
    few = (
        "" not in wanted
        and len(wanted) <= MAX_ASKED_PATHS
        and sum(map(len, wanted)) < git.MAX_ARGUMENT_CHARACTERS
    )
    entries = list_entries(
        root, file_filter.prunes, wanted if few else None, cancel, apart=rules.documents
    )
    if few or "" in wanted:
        return _filter_entries(file_filter, entries)
    return _filter_entries(
        file_filter, (entry for entry in entries if _is_below(_path_of(entry), wanted))
    )


def explain(root: Path, rules: Rules, path: str) -> str:
    """Explain by name, kind and size why a file is or isn't in the index."""
    path = path.strip("/")
    try:
        status = os.lstat(root / path)
    except (OSError, ValueError):
        return "there is no such file"
    if not _is_inside(root, path):
        return "left out: it lies outside the workspace or behind a symlink"
    file_filter = _FileFilter(root, rules)
    reason = file_filter.folder_reason(
        path if stat.S_ISDIR(status.st_mode) else path.rpartition("/")[0]
    )
    if reason:
        return f"left out: {reason}"
    if stat.S_ISDIR(status.st_mode):
        part = scan_paths(root, rules, [path])
        return (
            f"a folder: {len(part.files)} files in it belong in the index, "
            f"{len(part.skipped)} are left out"
        )
    part = scan_paths(root, rules, [path])
    if part.skipped:
        return f"left out: {part.skipped[0].reason}"
    if part.files:
        return "belongs in the index by its name and size"
    reason = (
        file_filter.file_reason(path)
        or git.ignoring_rule(root, path)
        or ("ignored by a .gitignore")
    )
    return f"left out: {reason}"


def matcher(root: Path, rules: Rules) -> Callable[[str], bool]:
    """Return a predicate for relative paths, by patterns and our own ignore files, without git."""
    file_filter = _FileFilter(root, rules)
    return lambda path: not file_filter.file_reason(path)


def read_bytes(root: Path, path: str, max_size: int) -> bytes | UnreadableFile:
    """Read a regular file without following a symlink below `root`; or the reason not to."""
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        return UnreadableFile("outside the root")
    try:
        handle = _open(root, parts)
        if isinstance(handle, UnreadableFile):
            return handle
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return UnreadableFile("not a regular file")
            raw = b"" if status.st_size > max_size else file.read(max_size + 1)
            return (
                UnreadableFile("too large")
                if status.st_size > max_size or len(raw) > max_size
                else raw
            )
    except (FileNotFoundError, NotADirectoryError):
        return UnreadableFile("vanished")
    except (OSError, ValueError) as error:
        return UnreadableFile(
            "symlink" if getattr(error, "errno", 0) == errno.ELOOP else "unreadable"
        )


class _FileFilter:
    """Filter by names and sizes; caches its verdicts on folders."""

    def __init__(self, root: Path, rules: Rules) -> None:
        self._root = root
        self._rules = rules
        self._include = (
            None if rules.include == EVERYTHING else Patterns(map(_plain, rules.include))
        )
        self._exclude = Patterns(_exclude_lines(rules.exclude))
        self._ignore = IgnoreTree(root, IGNORE_FILE)
        self._folders: dict[str, str] = {"": ""}
        self._included: dict[str, bool] = {"": False}

    def prunes(self, folder: str) -> bool:
        return bool(self.folder_reason(folder))

    def folder_reason(self, folder: str) -> str:
        """Reason to skip everything below the folder, or ""."""
        return inherit(self._folders, folder, self._folder_reason)

    def _folder_reason(self, folder: str, above: str) -> str:
        if above:
            return above
        name = folder.rpartition("/")[2]
        if name in PRUNED_FOLDERS:
            return f"folders named {name} are never indexed"
        if self._exclude.verdict(folder, True):
            return "excluded by a pattern in the settings"
        if self._ignore.ignores_folder(folder):
            return f"ignored by a {IGNORE_FILE}"
        if os.path.lexists(self._root / folder / "pyvenv.cfg"):
            return "it is in a virtual environment"
        return ""

    def file_reason(self, path: str) -> str:
        """Reason that a file is not wanted at all, or ""."""
        folder = path.rpartition("/")[0]
        reason = self.folder_reason(folder)
        if reason:
            return reason
        if self._exclude and self._exclude.verdict(path, False):
            return "excluded by a pattern in the settings"
        if self._include is not None and not self._is_included(path, folder):
            return "no include pattern in the settings matches"
        return f"ignored by a {IGNORE_FILE}" if self._ignore.ignores_file(path) else ""

    def _is_included(self, path: str, folder: str) -> bool:
        """True if an include pattern matches the file, or a folder that contains it."""
        verdict = self._include.verdict(path, False) if self._include else None
        return self._includes_folder(folder) if verdict is None else verdict

    def _includes_folder(self, folder: str) -> bool:
        return inherit(self._included, folder, self._decide_inclusion)

    def _decide_inclusion(self, folder: str, above: bool) -> bool:
        verdict = self._include.verdict(folder, True) if self._include else None
        return above if verdict is None else verdict

    def skip_reason(self, path: str, status: os.stat_result) -> str:
        """Reason that a wanted file can't be indexed, or ""."""
        # The root of documents may itself be called secrets, and a document may be packed.
        if is_secret(
            f"{self._root.name}/{path.removesuffix('.gz')}" if self._rules.documents else path
        ):
            return "secret"
        if stat.S_ISLNK(status.st_mode):
            # Its target is found under its own name, or is outside.
            return "symlink"
        if not stat.S_ISREG(status.st_mode):
            return "not a regular file"
        by_name = reason_by_name(path, self._rules.documents)
        return by_name or ("too large" if status.st_size > self._rules.max_file_size else "")


def _filter_entries(file_filter: _FileFilter, entries: Iterable[Entry | Skipped]) -> Scan:
    files: list[ScannedFile] = []
    skipped: list[Skipped] = []
    for entry in entries:
        if isinstance(entry, Skipped):
            skipped.append(Skipped(_printable(entry.path), entry.reason))
            continue
        path, status = entry
        if file_filter.file_reason(path):
            continue
        printable = _printable(path)
        reason = "name not UTF-8" if printable != path else file_filter.skip_reason(path, status)
        if reason:
            skipped.append(Skipped(printable, reason))
        else:
            files.append(ScannedFile(path, status.st_size, status.st_mtime_ns))
    files.sort(key=lambda file: file.path)
    skipped.sort(key=lambda skip: skip.path)
    return Scan(tuple(files), tuple(skipped))


def _exclude_lines(patterns: tuple[str, ...]) -> list[str]:
    """Write `x/**` as "the folder x", so that it isn't even entered.

    Not where a negated pattern may include something in it again.
    """
    plain = [_plain(pattern) for pattern in patterns]
    if any(pattern.startswith("!") for pattern in plain):
        return plain
    return [
        "/" + pattern.removeprefix("/").removesuffix("**")
        if pattern.endswith("/**") and len(pattern) > 3
        else pattern
        for pattern in plain
    ]


def _plain(pattern: str) -> str:
    return "/" + pattern[2:] if pattern.startswith("./") else pattern


def _printable(path: str) -> str:
    return path if path.isascii() else path.encode("utf-8", "backslashreplace").decode("utf-8")


def _path_of(entry: Entry | Skipped) -> str:
    return entry.path if isinstance(entry, Skipped) else entry[0]


def _outermost(paths: Collection[str]) -> set[str]:
    """Normalised paths without those below another one."""
    clean = {path.strip("/") for path in paths}
    return {path for path in clean if not path or not _is_below(path.rpartition("/")[0], clean)}


def _is_below(path: str, folders: Collection[str]) -> bool:
    while path not in folders:
        if not path:
            return False
        path = path.rpartition("/")[0]
    return True


def _is_inside(root: Path, path: str) -> bool:
    """True if the path stays below the root and passes no link.

    The last part may be anything, or missing.
    """
    parts = path.split("/") if path else []
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        return False
    return not any(os.path.islink(root / "/".join(parts[:count])) for count in range(1, len(parts)))


def _open(root: Path, parts: list[str]) -> int | UnreadableFile:
    """Open a file folder by folder, so that no link is followed, even one made meanwhile."""
    if os.open not in os.supports_dir_fd:
        real, given = (
            os.path.realpath(root / "/".join(parts)),
            os.path.join(os.path.realpath(root), *parts),
        )
        if os.path.normcase(real) != os.path.normcase(given):
            return UnreadableFile("symlink")
        if not os.path.isfile(real):
            return UnreadableFile("not a regular file" if os.path.exists(real) else "vanished")
        return os.open(real, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        mode = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode
        # Opening a pipe or a device can block or have effects.
        if not stat.S_ISREG(mode):
            return UnreadableFile("symlink" if stat.S_ISLNK(mode) else "not a regular file")
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
