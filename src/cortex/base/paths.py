"""Locations on disk: project roots, store folders, and paths that must stay inside a root.

Knows nothing of settings or stores: the user's home and Cortex's home are arguments. Git's files
are read directly, because starting `git` to find one folder costs more than everything else at
start-up.
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
# Largest file that holds a single path, or the few lines that Cortex writes.
MAX_POINTER_CHARACTERS = MAX_PATH_CHARACTERS + 16
STORE_FOLDER = ".cortex"
# In the home: the roots of projects that hold their own store, one per line.
PROJECTS_NOTE = "projects.txt"
# In the home: the last readable version of each settings file.
LAST_SETTINGS_FOLDER = "last-settings"
# In the home: snapshots of what a person wrote.
SNAPSHOTS_FOLDER = "backups"

MARKERS = frozenset({
    ".git", ".hg", ".svn", "package.json", "deno.json", "pyproject.toml", "setup.py", "setup.cfg",
    "requirements.txt", "Pipfile", "Cargo.toml", "go.mod", "go.work", "pom.xml", "build.gradle",
    "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "build.sbt", "composer.json",
    "Gemfile", "mix.exs", "rebar.config", "stack.yaml", "cabal.project", "Package.swift",
    "pubspec.yaml", "CMakeLists.txt", "meson.build", "WORKSPACE", "MODULE.bazel", "dune-project",
    "project.clj", "deps.edn", "flake.nix", "codeindex.config.json",
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
# Cortex's own files in a project or in the home.
_KEPT_NAME = re.compile(_OWN_NAME.pattern + r"|projects\.txt$|logs$")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")


def find_project_root(start: Path, user_home: Path) -> Path | None:
    """Return the repository around `start`, else the nearest folder that looks like a project.

    Never returns the home folder or a filesystem root.
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
    """Return whether `root` directly holds a project marker: a repository or a build file."""
    try:
        names = os.listdir(root)
    except OSError:
        return False
    return any(name in MARKERS or name.endswith(MARKER_ENDINGS) for name in names)


def store_dir(root: Path, cortex_home: Path, *, in_project: bool = True) -> Path:
    """Return the folder of `root`'s store: in the project, else under `cortex_home`.

    A linked worktree uses the store of its main worktree. The store is also under `cortex_home`
    where a foreign file has the name of one of ours, and where the project's folder is a home: a
    home's database is the only copy of what a person wrote, a project's can be rebuilt.
    """
    root = root.resolve()
    root = main_worktree(root) or root
    in_root, under_home = (
        root / STORE_FOLDER,
        cortex_home / "projects" / hash_bytes(os.fsencode(root)).hex(),
    )
    if not in_project or not is_project(root) or _is_occupied(in_root):
        return under_home
    if _is_same(in_root, cortex_home) or is_home(in_root):
        return under_home
    # Where neither place is writable, an existing store in the project is read.
    readable = is_frozen(in_root) and not in_root.is_symlink() and not _can_create(under_home)
    return in_root if _is_writable(root) or readable else under_home


def is_home(folder: Path) -> bool:
    """Return whether a folder has what only a home has: snapshots, or the list of projects."""
    return any((folder / name).exists() for name in (SNAPSHOTS_FOLDER, PROJECTS_NOTE))


def is_frozen(folder: Path) -> bool:
    """Return whether a store's folder holds a database that can be read but not written."""
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


def _can_create(folder: Path) -> bool:
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), folder)
    return os.access(existing, os.W_OK | os.X_OK)


def _is_occupied(folder: Path) -> bool:
    """Return whether a link, a pipe or another user's file has one of our names.

    Opening it would reach beyond the folder.
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
    """Return the root of the main worktree where `root` is a linked git worktree, else None."""
    pointer = root / ".git"
    if not pointer.is_file():
        return None
    git_dir = _read_path(pointer, "gitdir: ", root)
    common = _read_path(git_dir / "commondir", "", git_dir) if git_dir else None
    back = _read_path(git_dir / "gitdir", "", git_dir) if git_dir else None
    if common is None or common.name != ".git" or not common.is_dir():
        return None
    # Both sides must name each other: a pointer in an untrusted archive could name any folder.
    if back is None or back.resolve() != pointer.resolve():
        return None
    return common.parent


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents for their owner only.

    Folders that exist keep their mode.
    """
    for parent in reversed(folder.parents):
        if not parent.exists():
            parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def open_private(path: str, flags: int) -> int:
    """Open a file so that a new one is readable by its owner only; for use as an `opener`."""
    return os.open(path, flags, 0o600)


def keep_private(folder: Path, names: re.Pattern[str] | None = None) -> None:
    """Remove access by others from the files of a folder, whichever program wrote them.

    With `names` only matching files are changed, else all files and the folder itself. The library
    of the lexical index, and older versions of Cortex, write files as the umask allows.
    """
    if os.name == "nt":
        return
    with suppress(OSError):
        if names is None and os.lstat(folder).st_mode & 0o077:
            os.chmod(folder, 0o700)
        with os.scandir(folder) as entries:
            for entry in entries:
                if (names is None or names.match(entry.name)) and not entry.is_symlink():
                    _restrict(entry)


def _restrict(entry: os.DirEntry[str]) -> None:
    # A file that vanishes meanwhile, or belongs to another user, is left alone.
    with suppress(OSError):
        if entry.stat(follow_symlinks=False).st_mode & 0o077:
            os.chmod(entry.path, 0o700 if entry.is_dir(follow_symlinks=False) else 0o600)


def ensure_store_dir(folder: Path) -> None:
    """Create a store's folder for its owner only.

    In a project it gets a .gitignore of Cortex's own files, unless another .gitignore is there.

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
    """Return the size of a file, or of everything below a folder.

    Links are not followed; files that vanish meanwhile count as 0.
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
    """Add a project that holds its own store to the list in the home.

    The list is used to find such stores again when everything is to be removed.
    """
    try:
        if root in known_projects(home):
            return
        make_private(home)
        with open(home / PROJECTS_NOTE, "a", encoding="utf-8", opener=open_private) as file:
            file.write(f"{root}\n")
    except (OSError, FileError, UnicodeError):
        # The home isn't writable, or the name isn't text. Nothing else depends on the list.
        pass


def known_projects(home: Path) -> list[Path]:
    """Return the projects with a store of their own that were opened with this home."""
    try:
        lines = (home / PROJECTS_NOTE).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError):
        return []
    return [Path(line) for line in dict.fromkeys(lines) if line]


def root_text(root: Path) -> str:
    """Return a root as text that can be stored and shown.

    Raises: FileError FILE_UNREADABLE where a name in it isn't UTF-8.
    """
    text = str(root)
    shown = _displayable(text)
    if shown != text:
        raise FileError(
            "FILE_UNREADABLE",
            f"the folder {shown} has a name that isn't UTF-8",
            context={"path": shown},
            suggestions=("Rename the folder.",),
        )
    return text


def resolve_inside(root: Path, relative: str) -> Path:
    """Resolve `relative` (or an absolute path inside `root`) with every symlink followed.

    Raises: FileError PATH_OUTSIDE for a path that isn't in `root` or isn't a path at all.
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
    # The path is on another drive, or isn't a path at all (a lone surrogate).
    except (ValueError, OSError) as error:
        raise _outside(relative) from error
    return Path(real)


def relative_of(root: Path, path: Path) -> str:
    """Return `path` relative to `root`, with "/" on every platform; "" for the root itself.

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
    shown = _displayable(path[:200]).replace("\0", "\\0")
    return FileError(
        "PATH_OUTSIDE", f"the path '{shown}' is not inside the workspace", context={"path": shown}
    )


def _displayable(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _is_writable(root: Path) -> bool:
    folder = root / STORE_FOLDER
    # An untrusted repository could point the link anywhere.
    if folder.is_symlink():
        return False
    if folder.exists():
        return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    # Also false on a filesystem that is mounted read-only.
    return os.access(root, os.W_OK | os.X_OK)


def _read_path(file: Path, prefix: str, base: Path) -> Path | None:
    """Return the path that one of git's pointer files holds."""
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
    """Return the beginning of a regular file, None for anything else.

    A pipe could block and a device might never end.
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
    """Open a file without blocking, for use as an `opener`.

    A pipe that has no writer reads as empty.
    """
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


def _open_directly(path: str, flags: int) -> int:
    """Open without following a link or waiting for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o600)
