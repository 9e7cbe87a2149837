"""The files of a folder that belong in the index, judged by name, kind and size, and their bytes.

Ignored and excluded files are not reported at all (there may be a million); what is left out for
another reason is, with the reason. Knows nothing of content: binary, minified or generated files
that their names don't give away are refused by the readers.
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

OVER_LIMIT = "over maxFiles"  # why a file is left out
IGNORE_FILE = ".cortexignore"
MAX_ASKED_PATHS = 200  # above that a full scan costs no more
EVERYTHING = ("**/*",)


@dataclass(frozen=True, slots=True)
class Rules:
    """What a workspace's settings say about its files; patterns are written as in a .gitignore at
    the root.
    """

    include: tuple[str, ...] = EVERYTHING
    exclude: tuple[str, ...] = ()
    max_file_size: int = 1_500_000  # bytes
    max_files: int = 25_000
    # PDF, office files and books too, also where a repository around the folder ignores them
    documents: bool = False


def scan(root: Path, rules: Rules, cancel: Cancel | None = None) -> Scan:
    """All files below `root` that belong in the index; the same tree gives the same answer.

    Raises: Cancelled.
    """
    judge = _Judge(root, rules)
    judged = _judge_all(
        judge, list_entries(root, judge.prunes, cancel=cancel, apart=rules.documents)
    )
    over = tuple(Skipped(file.path, OVER_LIMIT) for file in judged.files[rules.max_files :])
    if not over:
        return judged
    skipped = sorted((*judged.skipped, *over), key=lambda skip: skip.path)
    return Scan(judged.files[: rules.max_files], tuple(skipped))


def scan_paths(
    root: Path, rules: Rules, paths: Collection[str], cancel: Cancel | None = None
) -> Scan:
    """What belongs in the index of the given relative paths, files or folders; whatever isn't in
    the answer doesn't.

    `max_files` can't be judged from a part: that is the caller's. Raises: Cancelled.
    """
    wanted = {path for path in _without_inner(paths) if _is_direct(root, path)}
    if not wanted:
        return Scan((), ())
    judge = _Judge(root, rules)
    few = (
        "" not in wanted
        and len(wanted) <= MAX_ASKED_PATHS
        and sum(map(len, wanted)) < git.MAX_ARGUMENT_CHARACTERS
    )
    entries = list_entries(
        root, judge.prunes, wanted if few else None, cancel, apart=rules.documents
    )
    if few or "" in wanted:
        return _judge_all(judge, entries)
    return _judge_all(judge, (entry for entry in entries if _is_below(_path_of(entry), wanted)))


def explain(root: Path, rules: Rules, path: str) -> str:
    """Why the file of this relative path is or isn't in the index, as far as its name, kind and
    size tell.
    """
    path = path.strip("/")
    try:
        seen = os.lstat(root / path)
    except (OSError, ValueError):
        return "there is no such file"
    if not _is_direct(root, path):
        return "left out: it lies outside the workspace or behind a symlink"
    judge = _Judge(root, rules)
    reason = judge.folder_reason(path if stat.S_ISDIR(seen.st_mode) else path.rpartition("/")[0])
    if reason:
        return f"left out: {reason}"
    if stat.S_ISDIR(seen.st_mode):
        part = scan_paths(root, rules, [path])
        return f"a folder: {len(part.files)} files in it belong in the index, {len(part.skipped)} are left out"
    part = scan_paths(root, rules, [path])
    if part.skipped:
        return f"left out: {part.skipped[0].reason}"
    if part.files:
        return "belongs in the index by its name and size"
    reason = judge.file_reason(path) or git.ignoring_rule(root, path) or "ignored by a .gitignore"
    return f"left out: {reason}"


def matcher(root: Path, rules: Rules) -> Callable[[str], bool]:
    """Whether patterns and our own ignore files let a relative path be indexed; asks no git."""
    judge = _Judge(root, rules)
    return lambda path: not judge.file_reason(path)


def read_bytes(root: Path, path: str, max_size: int) -> bytes | UnreadableFile:
    """The bytes of a regular file, reached without following any symlink below `root`; or why not."""
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        return UnreadableFile("outside the root")
    try:
        handle = _open(root, parts)
        if isinstance(handle, UnreadableFile):
            return handle
        with open(handle, "rb") as file:
            seen = os.fstat(handle)
            if not stat.S_ISREG(seen.st_mode):
                return UnreadableFile("not a regular file")
            raw = b"" if seen.st_size > max_size else file.read(max_size + 1)
            return (
                UnreadableFile("too large")
                if seen.st_size > max_size or len(raw) > max_size
                else raw
            )
    except (FileNotFoundError, NotADirectoryError):
        return UnreadableFile("vanished")
    except (OSError, ValueError) as error:
        return UnreadableFile(
            "symlink" if getattr(error, "errno", 0) == errno.ELOOP else "unreadable"
        )


class _Judge:
    """Decides about names and sizes; remembers its verdicts on folders."""

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
        """Why nothing below the folder is looked at, or ""."""
        return inherit(self._folders, folder, self._own_reason)

    def _own_reason(self, folder: str, above: str) -> str:
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
        """Why a file isn't wanted at all, or ""."""
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
        """Whether an include pattern matches the file, or else a folder that it is in."""
        verdict = self._include.verdict(path, False) if self._include else None
        return self._includes_folder(folder) if verdict is None else verdict

    def _includes_folder(self, folder: str) -> bool:
        return inherit(self._included, folder, self._own_inclusion)

    def _own_inclusion(self, folder: str, above: bool) -> bool:
        verdict = self._include.verdict(folder, True) if self._include else None
        return above if verdict is None else verdict

    def skip_reason(self, path: str, seen: os.stat_result) -> str:
        """Why a file that is wanted can't be taken, or ""."""
        # A folder of documents may itself be one that is called secrets, and a document be packed.
        if is_secret(
            f"{self._root.name}/{path.removesuffix('.gz')}" if self._rules.documents else path
        ):
            return "secret"
        if stat.S_ISLNK(seen.st_mode):
            return "symlink"  # its target is found under its own name, or isn't ours to read
        if not stat.S_ISREG(seen.st_mode):
            return "not a regular file"
        by_name = reason_by_name(path, self._rules.documents)
        return by_name or ("too large" if seen.st_size > self._rules.max_file_size else "")


def _judge_all(judge: _Judge, entries: Iterable[Entry | Skipped]) -> Scan:
    files: list[ScannedFile] = []
    skipped: list[Skipped] = []
    for entry in entries:
        if isinstance(entry, Skipped):
            skipped.append(Skipped(_printable(entry.path), entry.reason))
            continue
        path, seen = entry
        if judge.file_reason(path):
            continue
        printable = _printable(path)
        reason = "name not UTF-8" if printable != path else judge.skip_reason(path, seen)
        if reason:
            skipped.append(Skipped(printable, reason))
        else:
            files.append(ScannedFile(path, seen.st_size, seen.st_mtime_ns))
    files.sort(key=lambda file: file.path)
    skipped.sort(key=lambda skip: skip.path)
    return Scan(tuple(files), tuple(skipped))


def _exclude_lines(patterns: tuple[str, ...]) -> list[str]:
    """`x/**` as "the folder x", so that it isn't even entered; unless a negated pattern may want
    something of it back.
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


def _without_inner(paths: Collection[str]) -> set[str]:
    """The paths, clean, without those that lie below another one."""
    clean = {path.strip("/") for path in paths}
    return {path for path in clean if not path or not _is_below(path.rpartition("/")[0], clean)}


def _is_below(path: str, folders: Collection[str]) -> bool:
    while path not in folders:
        if not path:
            return False
        path = path.rpartition("/")[0]
    return True


def _is_direct(root: Path, path: str) -> bool:
    """Whether the path climbs nowhere and leads through no link; the last part may be anything, or
    missing.
    """
    parts = path.split("/") if path else []
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        return False
    return not any(os.path.islink(root / "/".join(parts[:count])) for count in range(1, len(parts)))


def _open(root: Path, parts: list[str]) -> int | UnreadableFile:
    """A handle of the file, opened folder by folder so that no link is followed, even one made
    meanwhile.
    """
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
        if not stat.S_ISREG(mode):  # opening a pipe or a device can block or do things
            return UnreadableFile("symlink" if stat.S_ISLNK(mode) else "not a regular file")
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
