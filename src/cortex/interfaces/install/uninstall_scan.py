"""Find and remove everything of ours: client entries and hooks, the home, project stores.

By file name, never a whole folder: any other file between ours stays, and so do links, since their
targets aren't ours. Settings that a project shares (.cortex/config.yml) belong to the project, and
the records of a Core served from here to a team. Where CORTEX_HOME is the user's home folder or a
parent of it, file names aren't proof enough, and only our store is removed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from cortex.base.errors import ConfigError, FileError
from cortex.base.paths import LAST_SETTINGS_FOLDER, STORE_FOLDER, bytes_on_disk
from cortex.base.runtime.home import INBOX
from cortex.interfaces.install import plans, undo_log
from cortex.interfaces.install.clients import CLIENTS, Machine
from cortex.interfaces.install.plans import Edit
from cortex.interfaces.install.project_files import plan_ignore_removals

IGNORE_MARK = b"# Written by Cortex"
STORE_FILES = ("cortex.db", "cortex.db-*", "cortex.db.damaged-*", "lease", "*.log")
STORE_FOLDERS = ("words*", "vectors*")
HOME_FILES = (
    "cortex.db",
    "cortex.db-*",
    "cortex.db.damaged-*",
    "cortex.db.replaced-*",
    "lease",
    "config.yml",
    "projects.txt",
    "cortexd*",
    "core-token*",
    "sync.lock",
    # What a killed process leaves of an atomic write.
    *(f".{name}-????????.tmp" for name in ("config.yml", "cortexd*", "core-token")),
)
HOME_FOLDERS = (
    *STORE_FOLDERS,
    undo_log.FOLDER,
    INBOX,
    "refused",
    "replaced",
    "backups",
    LAST_SETTINGS_FOLDER,
)
# Folders of stores, each named by a hash.
STORES_OF_FOLDERS = ("projects", "chunks")
OF_A_CORE = ("core", "core-replica")
_HASHED = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Trace:
    """A file or folder of ours."""

    # home, store or other.
    kind: str
    path: Path
    bytes: int


@dataclass(frozen=True, slots=True)
class Traces:
    """Everything of ours on a machine."""

    # Changes of clients' files.
    edits: tuple[Edit, ...]
    places: tuple[Trace, ...]
    # Folders that are removed if they are empty then.
    folders: tuple[Path, ...]
    # Messages about unreadable files.
    failed: tuple[str, ...] = ()
    # Stores of a Core, which are kept.
    kept: tuple[Path, ...] = ()


def find_profiles(home: Path) -> list[Path]:
    """Return the homes of all profiles, without links."""
    return [home / "profiles" / name for name in _folder_names(home / "profiles")]


def find_traces(
    machine: Machine, home: Path, projects: Iterable[Path] = (), others: Iterable[Path] = ()
) -> Traces:
    """Find everything of ours.

    `projects` are additional project roots, `others` files elsewhere (sockets, logs).
    """
    known = list(undo_log.read_records(home))
    failed: list[str] = []
    edits = plans.plan_uninstall(CLIENTS, machine, None, home, failed)
    roots = dict.fromkeys(
        [*(record.root for record in known if record.root), *(root.resolve() for root in projects)]
    )
    for root in roots:
        edits += plans.plan_uninstall(CLIENTS, machine, root, home, failed)
    edits += plan_ignore_removals(home, failed)
    folders: list[Path] = []
    places: list[Trace] = []
    for root in roots:
        places += _find(root / STORE_FOLDER, STORE_FILES, STORE_FOLDERS, "store", folders)
    places += _find_home(home, machine, folders)
    places += [
        Trace("other", other, bytes_on_disk(other))
        for other in others
        if os.path.lexists(other) and not (other.is_dir() and _contains_user_home(home, machine))
    ]
    kept = [profile / name for profile in (home, *find_profiles(home)) for name in OF_A_CORE]
    team_stores = (store for store in kept if (store / "cortex.db").is_file())
    return Traces(tuple(edits), tuple(places), tuple(folders), tuple(failed), tuple(team_stores))


def remove_traces(traces: Traces, home: Path, stop: Callable[[], None]) -> list[str]:
    """Remove the traces; return messages about failures.

    `stop` ends the process that uses the stores.
    """
    stop()
    failed = list(traces.failed)
    for edit in traces.edits:
        try:
            plans.uninstall([edit], home)
        except (ConfigError, FileError) as error:
            failed.append(error.message)
    for trace in traces.places:
        try:
            if trace.path.is_dir() and not trace.path.is_symlink():
                # Never follows a link.
                shutil.rmtree(trace.path)
            else:
                trace.path.unlink(missing_ok=True)
        except OSError as error:
            failed.append(f"{trace.path}: {error.strerror or error}")
    for folder in traces.folders:
        _remove_if_empty(folder)
    return failed


def _find_home(home: Path, machine: Machine, folders: list[Path]) -> list[Trace]:
    """Find our files in Cortex's home, and in those of its profiles."""
    if _contains_user_home(home, machine):
        return _find(home, ("cortex.db", "cortex.db-*"), (undo_log.FOLDER,), "home", [])
    traces: list[Trace] = []
    for profile in find_profiles(home):
        traces += _find_home(profile, machine, folders)
    for kind in STORES_OF_FOLDERS:
        stores = [
            home / kind / name for name in _folder_names(home / kind) if _HASHED.fullmatch(name)
        ]
        traces += [Trace("store", store, bytes_on_disk(store)) for store in stores]
    folders += [home / name for name in ("profiles", *STORES_OF_FOLDERS)]
    return traces + _find(home, HOME_FILES, HOME_FOLDERS, "home", folders)


def _contains_user_home(home: Path, machine: Machine) -> bool:
    """True if CORTEX_HOME is the user's home folder, or a parent of it."""
    return machine.home.resolve().is_relative_to(home.resolve())


def _folder_names(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, without links."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))


def _find(
    folder: Path, names: Sequence[str], folder_names: Sequence[str], kind: str, folders: list[Path]
) -> list[Trace]:
    """Find our files in one folder of ours; none where that folder is a link."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    folders.append(folder)
    traces = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda item: item.name):
            if entry.is_symlink():
                continue
            wanted = folder_names if entry.is_dir(follow_symlinks=False) else names
            path = Path(entry.path)
            if any(fnmatchcase(entry.name, pattern) for pattern in wanted) or (
                entry.name == ".gitignore" and _is_our_list(path)
            ):
                traces.append(Trace(kind, path, bytes_on_disk(path)))
    return traces


def _is_our_list(file: Path) -> bool:
    try:
        with open(file, "rb") as source:
            return source.read(len(IGNORE_MARK)) == IGNORE_MARK
    except OSError:
        return False


def _remove_if_empty(folder: Path) -> None:
    try:
        os.rmdir(folder)
    # The folder has files of others.
    except OSError:
        return
