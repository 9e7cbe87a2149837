"""Where things live on disk: a project's root, its store's folder, and paths that must stay inside
a root.

Knows nothing of settings or stores: the user's home and Cortex's home come in as arguments. Git's
files are read directly, because starting `git` to find one folder costs more than everything else
at start-up.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from cortex.base.errors import FileError, code_of, error_of
from cortex.base.text import hash_bytes

MAX_PATH_CHARACTERS = 4096
# Of a file that holds one path, or our own few lines
MAX_POINTER_CHARACTERS = MAX_PATH_CHARACTERS + 16
STORE_FOLDER = ".cortex"
PROJECTS_NOTE = "projects.txt"  # in the home: roots with a store in themselves, a line each
LAST_SETTINGS_FOLDER = "last-settings"  # in the home: settings files as they could last be read
SNAPSHOTS_FOLDER = "backups"  # in the home: snapshots of what a person wrote

MARKERS = frozenset({
    ".git", ".hg", ".svn", "package.json", "deno.json", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile",
    "Cargo.toml", "go.mod", "go.work", "pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts",
    "build.sbt", "composer.json", "Gemfile", "mix.exs", "rebar.config", "stack.yaml", "cabal.project", "Package.swift", "pubspec.yaml",
    "CMakeLists.txt", "meson.build", "WORKSPACE", "MODULE.bazel", "dune-project", "project.clj", "deps.edn", "flake.nix",
    "codeindex.config.json",
})  # fmt: skip
MARKER_ENDINGS = (".sln", ".csproj", ".fsproj", ".vcxproj", ".xcodeproj", ".gemspec", ".cabal")

_IGNORE_MARK = "# Written by Cortex: its own files, nothing else."
_OWN_FILES = (
    "/.gitignore",
    "/cortex.db",
    "/cortex.db-wal",
    "/cortex.db-shm",
    "/cortex.db.damaged-*",
    "/cortex.db.replaced-*",
    "/backups/",
    "/last-settings/",
    "/projects/",
    "/words*/",
    "/vectors*/",
    "/lease",
    "/*.log",
)
_OWN_NAME = re.compile(r"cortex\.db|words|vectors|lease$|\.gitignore$")
# Ours in a project or in the home
_KEPT_NAME = re.compile(_OWN_NAME.pattern + r"|projects\.txt$|logs$")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")


def find_project_root(start: Path, user_home: Path) -> Path | None:
    """The repository around `start`, else the nearest folder that looks like a project; never the
    home folder or a filesystem root.
    """
    nearest: Path | None = None
    home = user_home.resolve()
    start = start.resolve()
    for folder in (start, *start.parents):
        if folder == home or folder == folder.parent:
            break
        if (folder / ".git").exists():
            return folder
        if nearest is None and is_project(folder):
            nearest = folder
    return nearest


def is_project(root: Path) -> bool:
    """Whether `root` itself holds a marker of a project: a repository, a package or a build file."""
    try:
        names = os.listdir(root)
    except OSError:
        return False
    return any(name in MARKERS or name.endswith(MARKER_ENDINGS) for name in names)


def store_dir(root: Path, cortex_home: Path, *, in_project: bool = True) -> Path:
    """The folder of `root`'s store: in the project (a linked worktree's is its main worktree's),
    else under `cortex_home`.

    Under `cortex_home` also where something that isn't ours stands in the place of our files, or a
    home does: its database is the only copy of what a person wrote, a project's can be made again.
    """
    root = root.resolve()
    root = main_worktree(root) or root
    own, other = root / STORE_FOLDER, cortex_home / "projects" / hash_bytes(os.fsencode(root)).hex()
    if not in_project or not is_project(root) or _is_occupied(own):
        return other
    if _is_same(own, cortex_home) or is_home(own):
        return other
    # Where neither can be written, the one that is there is read.
    readable = is_frozen(own) and not own.is_symlink() and not _can_be_made(other)
    return own if _is_writable(root) or readable else other


def is_home(folder: Path) -> bool:
    """Whether a folder has what only a home has: snapshots, or the list of projects."""
    return any((folder / name).exists() for name in (SNAPSHOTS_FOLDER, PROJECTS_NOTE))


def is_frozen(folder: Path) -> bool:
    """Whether a store's folder is there with a database, and can be read but not written."""
    try:
        there = os.stat(folder / "cortex.db").st_size > 0
    except OSError:
        return False
    return there and not os.access(folder, os.W_OK | os.X_OK)


def _is_same(folder: Path, other: Path) -> bool:
    try:
        return os.path.samefile(folder, other)
    except OSError:
        return os.path.realpath(folder) == os.path.realpath(other)


def _can_be_made(folder: Path) -> bool:
    there = next((parent for parent in (folder, *folder.parents) if parent.exists()), folder)
    return os.access(there, os.W_OK | os.X_OK)


def _is_occupied(folder: Path) -> bool:
    """Whether a link, a pipe or another person's file has one of our names: opening it would reach
    beyond the folder.
    """
    try:
        with os.scandir(folder) as entries:
            return any(_OWN_NAME.match(entry.name) and _is_foreign(entry) for entry in entries)
    except OSError:
        return False


def _is_foreign(entry: os.DirEntry[str]) -> bool:
    if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
        return True
    return hasattr(os, "getuid") and entry.stat(follow_symlinks=False).st_uid not in (
        os.getuid(),
        0,
    )


def main_worktree(root: Path) -> Path | None:
    """The main worktree's root where `root` is a linked git worktree, else None."""
    pointer = root / ".git"
    if not pointer.is_file():
        return None
    git_dir = _read_path(pointer, "gitdir: ", root)
    common = _read_path(git_dir / "commondir", "", git_dir) if git_dir else None
    back = _read_path(git_dir / "gitdir", "", git_dir) if git_dir else None
    if common is None or common.name != ".git" or not common.is_dir():
        return None
    # Only a link that is known on the other side counts: a stranger's archive could name any
    # folder.
    if back is None or back.resolve() != pointer.resolve():
        return None
    return common.parent


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, for their owner only; what is there
    already keeps its mode.
    """
    for parent in reversed(folder.parents):
        if not parent.exists():
            parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def open_private(path: str, flags: int) -> int:
    """Open a file (as an `opener`) that only its owner reads where it is new."""
    return os.open(path, flags, 0o600)


def keep_private(folder: Path, names: re.Pattern[str] | None = None) -> None:
    """Close what lies in a folder to others, whatever wrote it; only these names, or else all and
    the folder itself.

    The library of the word index writes its files as the umask says, and older versions of Cortex
    did so, too.
    """
    if os.name == "nt":
        return
    with suppress(OSError):
        if names is None and os.lstat(folder).st_mode & 0o077:
            os.chmod(folder, 0o700)
        with os.scandir(folder) as entries:
            for entry in entries:
                if (names is None or names.match(entry.name)) and not entry.is_symlink():
                    _close(entry)


def _close(entry: os.DirEntry[str]) -> None:
    # What vanishes meanwhile, or is another person's, is not ours to close.
    with suppress(OSError):
        if entry.stat(follow_symlinks=False).st_mode & 0o077:
            os.chmod(entry.path, 0o700 if entry.is_dir(follow_symlinks=False) else 0o600)


def ensure_store_dir(folder: Path) -> None:
    """Make a store's folder, for its owner only; in a project with a .gitignore of our own files,
    unless another one is there.

    Raises: FileError PERMISSION_DENIED or DISK_FULL, StoreError STORE_IO.
    """
    try:
        make_private(folder)
        if folder.name == STORE_FOLDER and is_project(folder.parent):
            _write_ignore_file(folder / ".gitignore")
        keep_private(folder, _KEPT_NAME)
    except OSError as error:
        message = f"can't make the folder {folder}: {error.strerror}"
        raise error_of(
            code_of(error, "PERMISSION_DENIED"), message, {"path": str(folder)}
        ) from error


def bytes_on_disk(path: Path) -> int:
    """What a file, or everything below a folder, takes; links are not followed, and what vanishes
    meanwhile takes nothing.
    """
    folders = (
        os.walk(path)
        if path.is_dir() and not path.is_symlink()
        else [(path.parent, (), (path.name,))]
    )
    total = 0
    for folder, _, names in folders:
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


def remember_project(home: Path, root: Path) -> None:
    """Note in the home that a project has its store in itself, so that it can be found again when
    all is to be removed.
    """
    try:
        if root in known_projects(home):
            return
        make_private(home)
        with open(home / PROJECTS_NOTE, "a", encoding="utf-8", opener=open_private) as file:
            file.write(f"{root}\n")
    except (OSError, FileError, UnicodeError):
        pass  # a home that can't be written, a name that isn't text: nothing else depends on it


def known_projects(home: Path) -> list[Path]:
    """The projects with a store in themselves that were opened with this home."""
    try:
        lines = (home / PROJECTS_NOTE).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError):
        return []
    return [Path(line) for line in dict.fromkeys(lines) if line]


def root_text(root: Path) -> str:
    """A root as text that can be stored and shown.

    Raises: FileError FILE_UNREADABLE where a name in it isn't UTF-8.
    """
    text = str(root)
    shown = _shown(text)
    if shown != text:
        raise FileError(
            "FILE_UNREADABLE",
            f"the folder {shown} has a name that isn't UTF-8",
            context={"path": shown},
            suggestions=("Rename the folder.",),
        )
    return text


def resolve_inside(root: Path, relative: str) -> Path:
    """The real path of `relative` (or of an absolute path inside `root`), every symlink followed.

    Raises: FileError PATH_OUTSIDE for whatever isn't in `root` or can't be a path.
    """
    if "\0" in relative or len(relative) > MAX_PATH_CHARACTERS:
        raise _outside(relative)
    given = Path(relative)
    if not given.is_absolute() and (
        given.drive or _DRIVE.match(relative) or relative.startswith(("/", "\\"))
    ):
        raise _outside(relative)
    parts = re.split(r"[\\/]", relative)
    if ".." in parts or (
        os.name == "nt"
        and any(":" in part for part in given.parts[1 if given.is_absolute() else 0 :])
    ):
        raise _outside(relative)
    try:
        real_root = os.path.realpath(root)
        real = os.path.realpath(os.path.join(root, relative))
        if os.path.commonpath([real_root, real]) != real_root:
            raise _outside(relative)
    except (ValueError, OSError) as error:  # another drive, or no path at all (a lone surrogate)
        raise _outside(relative) from error
    return Path(real)


def relative_of(root: Path, path: Path) -> str:
    """`path` relative to `root`, with "/" on every platform; "" for the root itself.

    Raises: FileError PATH_OUTSIDE.
    """
    for base, inner in ((root, path), (Path(os.path.realpath(root)), Path(os.path.realpath(path)))):
        try:
            relative = inner.relative_to(base).as_posix()
        except ValueError:
            continue
        if ".." not in relative.split("/"):
            return "" if relative == "." else relative
    raise _outside(str(path))


def _outside(path: str) -> FileError:
    shown = _shown(path[:200]).replace("\0", "\\0")
    return FileError(
        "PATH_OUTSIDE", f"the path '{shown}' is not inside the workspace", context={"path": shown}
    )


def _shown(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _is_writable(root: Path) -> bool:
    folder = root / STORE_FOLDER
    if folder.is_symlink():  # a stranger's repository could point it anywhere
        return False
    if folder.exists():
        return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    return os.access(root, os.W_OK | os.X_OK)  # false on a filesystem mounted read-only, too


def _read_path(file: Path, prefix: str, base: Path) -> Path | None:
    """The path that one of git's pointer files holds."""
    line = (_read_regular(file) or "").strip("\r\n")
    if not line.startswith(prefix) or "\0" in line or len(line) == len(prefix):
        return None
    return Path(os.path.normpath(base / line.removeprefix(prefix)))


def _write_ignore_file(file: Path) -> None:
    wanted = "\n".join((_IGNORE_MARK, *_OWN_FILES)) + "\n"
    if os.path.lexists(file):
        present = _read_regular(file)
        if present is None or present == wanted or not present.startswith(_IGNORE_MARK):
            return
    with open(file, "w", encoding="utf-8", newline="\n", opener=_open_directly) as target:
        target.write(wanted)


def _read_regular(file: Path) -> str | None:
    """The beginning of a regular file; None of anything else, which could keep us waiting (a pipe)
    or never end (a device).
    """
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):
            return None
        with open(
            file, encoding="utf-8", errors="surrogateescape", opener=_open_directly
        ) as source:
            return (
                source.read(MAX_POINTER_CHARACTERS)
                if stat.S_ISREG(os.fstat(source.fileno()).st_mode)
                else None
            )
    except OSError:
        return None


def without_waiting(path: str, flags: int) -> int:
    """Open a file (as an `opener`) even where a pipe has its name: one that nobody writes to is
    empty then.
    """
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


def _open_directly(path: str, flags: int) -> int:
    """Open without following a link or waiting for a pipe's other end."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o600)
