"""Watcher that reports changed paths below a root, a moment after the change.

It only says where to look; `scan_paths` decides on the files. A change that can alter the verdict
on any file (an ignore file, git's index or HEAD) is reported as the path "", meaning everything. On
Linux each folder is watched by itself, without those that package managers fill: a recursive watch
would follow links out of the tree, give up at the first unreadable folder and spend a watch on
every folder in node_modules. Road not taken: `watchfiles.watch`, which hides the moment at which
watching begins, and its failure.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.engine.sources.file_kinds import PRUNED_FOLDERS
from cortex.engine.sources.scanner import IGNORE_FILE

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

QUIET_MS = 100
# Changes that never pause are delivered in pieces.
LONGEST_WAIT_MS = 400
# Time after which the native loop returns without changes.
IDLE_MS = 60_000
CLOSE_SECONDS = 1.0
# Pause before a watcher that failed is replaced, and before watching that the system refused is
# tried again.
RESTART_SECONDS = 5.0
WATCH_AGAIN_SECONDS = 300.0
_MODIFIED = 2  # watchfiles.Change.modified

_IGNORE_FILES = frozenset({".gitignore", IGNORE_FILE})
# Other systems watch a tree with one handle.
_BY_FOLDER = sys.platform.startswith("linux")
_GIT_SIGNALS = frozenset({"HEAD", "index", "info/exclude"})
_log = logging.getLogger(__name__)


class Watcher:
    """Calls `on_change` from its own thread with the changed relative paths, when quiet."""

    def __init__(
        self, root: Path, on_change: Callable[[set[str]], None], *, quiet_ms: int = QUIET_MS
    ) -> None:
        self._root = Path(os.path.realpath(root))
        self._on_change = on_change
        self._quiet_ms = quiet_ms
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        """True while changes are seen; false before `start`, after `close` and a failure."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> bool:
        """Begin to watch; all changes after the return are delivered.

        False where watching is impossible.
        """
        if _is_foreign_drive(self._root):
            _log.warning(
                "changes in %s can't be watched: it is a Windows drive seen from Linux", self._root
            )
            return False
        notify = self._open()
        if notify is None:
            return False
        self._thread = threading.Thread(
            target=self._run, args=(notify,), name="cortex-watch", daemon=True
        )
        self._thread.start()
        return True

    def close(self) -> None:
        """Stop watching, within a second."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECONDS)

    def _open(self) -> RustNotify | None:
        """Set up watches on all current folders; None where the system refuses."""
        # Imported on use, because that takes 40 ms.
        from watchfiles._rust_notify import RustNotify

        for last_try in (False, False, True):
            try:
                folders = _folders(str(self._root)) if _BY_FOLDER else [str(self._root)]
                return RustNotify(folders, False, False, 300, not _BY_FOLDER, False)
            except (OSError, RuntimeError, ValueError) as error:
                # No such folder, or no more inotify watches.
                if last_try or not isinstance(error, FileNotFoundError) or not self._root.is_dir():
                    _log.warning("changes in %s can't be watched: %s", self._root, error)
                    return None
        return None

    def _run(self, notify: RustNotify) -> None:
        while not self._stop.is_set():
            try:
                changes = notify.watch(LONGEST_WAIT_MS, self._quiet_ms, IDLE_MS, self._stop)
                # This is "timeout", "stop" or "signal".
                if isinstance(changes, str):
                    continue
                paths = relevant_paths(str(self._root), changes)
                if _BY_FOLDER and (
                    "" in paths or any(os.path.isdir(self._root / path) for path in paths)
                ):
                    # Opened before the delivery, so that a scan on delivery misses nothing.
                    fresh = self._open()
                    if fresh is None:
                        self._deliver({""})
                        break
                    rest = notify.watch(1, 1, 1, None)
                    notify.close()
                    notify = fresh
                    paths |= (
                        set() if isinstance(rest, str) else relevant_paths(str(self._root), rest)
                    )
            except RuntimeError:
                _log.exception("watching %s broke down", self._root)
                break
            if paths and not self._stop.is_set():
                self._deliver({""} if "" in paths else paths)
        notify.close()

    def _deliver(self, paths: set[str]) -> None:
        try:
            self._on_change(paths)
        except Exception:
            # Last handler of the thread: one failed update must not end the watching.
            _log.exception("a change of %d paths in %s was not taken up", len(paths), self._root)


class FolderWatch:
    """Watch of a folder that is renewed when it failed, or when the folder was away."""

    def __init__(
        self, root: Path, on_change: Callable[[set[str]], None], *, enabled: bool = True
    ) -> None:
        self._root, self._on_change, self._enabled = root, on_change, enabled
        self._watcher: Watcher | None = None
        self._next_try = 0.0

    @property
    def active(self) -> bool:
        """True while changes are seen."""
        return self._watcher is not None and self._watcher.alive

    def renew(self) -> bool:
        """Watch where that is wanted, possible and due; true if there may be unseen changes."""
        now = time.monotonic()
        if not self._enabled or self.active or now < self._next_try or not self._root.is_dir():
            return False
        # A file name that isn't text ends a watcher; a full scan finds the changes since.
        self.close()
        watcher = Watcher(self._root, self._on_change)
        if watcher.start():
            self._watcher, self._next_try = watcher, now + RESTART_SECONDS
            return True
        if not self._next_try:
            _log.warning(
                "%s can't be watched; it is compared every few seconds instead", self._root
            )
        self._next_try = now + WATCH_AGAIN_SECONDS
        return False

    def close(self) -> None:
        """Stop watching."""
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None


def watches_needed(root: Path) -> int:
    """Number of system watches that a folder takes. Raises: OSError."""
    return len(_folders(os.path.realpath(root))) if _BY_FOLDER else 1


def relevant_paths(root: str, changes: Iterable[tuple[int, str]]) -> set[str]:
    """Changed relative paths that may matter to the index; {""} for everything."""
    paths: set[str] = set()
    for change, absolute in changes:
        path = _relevant_path(root, change, absolute)
        if path == "":
            return {""}
        if path is not None:
            paths.add(path)
    return paths


def _relevant_path(root: str, change: int, absolute: str) -> str | None:
    path = os.path.relpath(absolute, root).replace(os.sep, "/")
    if path == ".":
        return None if change == _MODIFIED else ""
    parts = path.split("/")
    if ".git" in parts:
        at = parts.index(".git")
        inner = "/".join(parts[at + 1 :])
        begins_or_ends = not inner and change != _MODIFIED
        wanted = PRUNED_FOLDERS.isdisjoint(parts[:at]) and (begins_or_ends or inner in _GIT_SIGNALS)
        return "" if wanted else None
    if not PRUNED_FOLDERS.isdisjoint(parts):
        return None
    if parts[-1] in _IGNORE_FILES:
        return ""
    # Some systems report a folder as modified whenever something in it is; that has its own event.
    if change == _MODIFIED and os.path.isdir(absolute):
        return None
    return path


def _folders(root: str) -> list[str]:
    """Folders to watch one by one, including the parts of .git with its signals.

    Raises: OSError for the root.
    """
    folders: list[str] = []
    stack = [root]
    while stack:
        folder = stack.pop()
        try:
            with os.scandir(folder) as listing:
                inner = [
                    entry.name
                    for entry in listing
                    if entry.is_dir(follow_symlinks=False) or entry.name == "pyvenv.cfg"
                ]
            folder.encode("utf-8")
        except (OSError, UnicodeEncodeError):
            if folder == root:
                raise
            continue
        if "pyvenv.cfg" in inner and folder != root:
            continue
        folders.append(folder)
        stack.extend(
            os.path.join(folder, name)
            for name in inner
            if name not in PRUNED_FOLDERS and name != "pyvenv.cfg"
        )
        if ".git" in inner:
            own = os.path.join(folder, ".git")
            folders += [
                path
                for path in (own, os.path.join(own, "info"))
                if os.access(path, os.R_OK | os.X_OK)
            ]
    return folders


def _is_foreign_drive(root: Path) -> bool:
    """True for Windows drives in WSL, for which Linux gets no events."""
    return "microsoft" in platform.uname().release.lower() and str(root).startswith("/mnt/")
