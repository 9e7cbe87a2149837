"""Everything of ours on a machine, and removing it: entries and hooks in clients' files, Cortex's
home, the stores in projects.

By name, never a folder as it stands: whatever lies between our files and isn't called like one of
them stays, and so do links, since what they point to isn't ours. Settings that a project shares
(.cortex/config.yml) are the project's, and the records of a Core that is served from here are a
team's. Where CORTEX_HOME is the person's home folder or one around it, names aren't proof enough,
and nothing in it is touched but our store.
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
STORES_OF_FOLDERS = ("projects", "chunks")  # each named by a hash
OF_A_CORE = ("core", "core-replica")
_HASHED = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Trace:
    """A file or folder of ours."""

    kind: str  # home, store, other
    path: Path
    bytes: int


@dataclass(frozen=True, slots=True)
class Traces:
    """Everything of ours that was found."""

    edits: tuple[Edit, ...]  # clients' files
    places: tuple[Trace, ...]
    folders: tuple[Path, ...]  # that go where nothing else is left in them
    failed: tuple[str, ...] = ()  # files that can't be read
    kept: tuple[Path, ...] = ()  # what a team has here


def find_profiles(home: Path) -> list[Path]:
    """The homes of a home's profiles, links left out."""
    return [home / "profiles" / name for name in _names(home / "profiles")]


def find_traces(
    machine: Machine, home: Path, projects: Iterable[Path] = (), others: Iterable[Path] = ()
) -> Traces:
    """Look for everything of ours: `projects` are further roots to look at, `others` files
    elsewhere (sockets, logs).
    """
    known = list(undo_log.read_records(home))
    failed: list[str] = []
    edits = plans.plan_uninstall(CLIENTS, machine, None, home, failed)
    roots = dict.fromkeys(
        [*(one.root for one in known if one.root), *(root.resolve() for root in projects)]
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
        if os.path.lexists(other) and not (other.is_dir() and _is_around(home, machine))
    ]
    kept = [profile / name for profile in (home, *find_profiles(home)) for name in OF_A_CORE]
    of_a_team = (one for one in kept if (one / "cortex.db").is_file())
    return Traces(tuple(edits), tuple(places), tuple(folders), tuple(failed), tuple(of_a_team))


def remove_traces(traces: Traces, home: Path, stop: Callable[[], None]) -> list[str]:
    """Remove what was found; gives what couldn't be, with the reason.

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
                shutil.rmtree(trace.path)  # never goes through a link
            else:
                trace.path.unlink(missing_ok=True)
        except OSError as error:
            failed.append(f"{trace.path}: {error.strerror or error}")
    for folder in traces.folders:
        _remove_if_empty(folder)
    return failed


def _find_home(home: Path, machine: Machine, folders: list[Path]) -> list[Trace]:
    """Our files in Cortex's home, and in those of its profiles."""
    if _is_around(home, machine):
        return _find(home, ("cortex.db", "cortex.db-*"), (undo_log.FOLDER,), "home", [])
    found: list[Trace] = []
    for profile in find_profiles(home):
        found += _find_home(profile, machine, folders)
    for kind in STORES_OF_FOLDERS:
        stores = [home / kind / name for name in _names(home / kind) if _HASHED.fullmatch(name)]
        found += [Trace("store", store, bytes_on_disk(store)) for store in stores]
    folders += [home / name for name in ("profiles", *STORES_OF_FOLDERS)]
    return found + _find(home, HOME_FILES, HOME_FOLDERS, "home", folders)


def _is_around(home: Path, machine: Machine) -> bool:
    """Whether CORTEX_HOME is the person's home folder, or a folder around it."""
    return machine.home.resolve().is_relative_to(home.resolve())


def _names(folder: Path) -> list[str]:
    """The folders in a folder, links left out."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))


def _find(
    folder: Path, names: Sequence[str], folder_names: Sequence[str], kind: str, folders: list[Path]
) -> list[Trace]:
    """Our files in one folder of ours; nothing where that folder is a link."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    folders.append(folder)
    found = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.is_symlink():
                continue
            wanted = folder_names if entry.is_dir(follow_symlinks=False) else names
            path = Path(entry.path)
            if any(fnmatchcase(entry.name, one) for one in wanted) or (
                entry.name == ".gitignore" and _is_our_list(path)
            ):
                found.append(Trace(kind, path, bytes_on_disk(path)))
    return found


def _is_our_list(file: Path) -> bool:
    try:
        with open(file, "rb") as source:
            return source.read(len(IGNORE_MARK)) == IGNORE_MARK
    except OSError:
        return False


def _remove_if_empty(folder: Path) -> None:
    try:
        os.rmdir(folder)
    except OSError:  # something that isn't ours is in it
        return
