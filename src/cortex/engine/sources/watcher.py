"""Tells which paths below a root changed, a moment after they did.

Only says where to look: what belongs in the index is for `scan_paths` to say. A change that can
alter the verdict on any file (an ignore file, git's index or HEAD) is the path "", meaning
everything. On Linux each folder is watched by itself, without those that package managers fill:
watching a tree as a whole would follow links out of it, give up at the first unreadable folder and
spend a watch on every folder in node_modules. Not taken: `watchfiles.watch`, which hides the moment
when watching begins, and whether it can.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.engine.sources.file_kinds import PRUNED_FOLDERS
from cortex.engine.sources.scanner import IGNORE_FILE

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

QUIET_MS = 100
LONGEST_WAIT_MS = 400  # changes that never pause are delivered in pieces
IDLE_MS = 60_000  # how long the native loop waits before it comes back without changes
CLOSE_SECONDS = 1.0
_MODIFIED = 2  # watchfiles.Change.modified

_IGNORE_FILES = frozenset({".gitignore", IGNORE_FILE})
_BY_FOLDER = sys.platform.startswith("linux")  # the others watch a tree with one handle
_GIT_SIGNALS = frozenset({"HEAD", "index", "info/exclude"})
_log = logging.getLogger(__name__)


class Watcher:
    """Calls `on_change` from a thread of its own with the relative paths of what changed, after a
    quiet moment.
    """

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
        """Whether changes are being seen; False before `start`, after `close`, and when watching
        broke down.
        """
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> bool:
        """Begin to watch; everything that changes after the return is delivered.

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
        """Watches on all that is there now; None where the system refuses."""
        from watchfiles._rust_notify import RustNotify  # 40 ms to import: only when it is used

        for last_try in (False, False, True):
            try:
                folders = _folders(str(self._root)) if _BY_FOLDER else [str(self._root)]
                return RustNotify(folders, False, False, 300, not _BY_FOLDER, False)
            # No such folder, or no more inotify watches
            except (OSError, RuntimeError, ValueError) as error:
                if last_try or not isinstance(error, FileNotFoundError) or not self._root.is_dir():
                    _log.warning("changes in %s can't be watched: %s", self._root, error)
                    return None
        return None

    def _run(self, notify: RustNotify) -> None:
        while not self._stop.is_set():
            try:
                changes = notify.watch(LONGEST_WAIT_MS, self._quiet_ms, IDLE_MS, self._stop)
                if isinstance(changes, str):  # "timeout", "stop" or "signal"
                    continue
                paths = relevant_paths(str(self._root), changes)
                if _BY_FOLDER and (
                    "" in paths or any(os.path.isdir(self._root / path) for path in paths)
                ):
                    fresh = self._open()  # before the delivery: who looks then has missed nothing
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
        # The thread's outermost frame: one failed update must not end the watching
        except Exception:
            _log.exception("a change of %d paths in %s was not taken up", len(paths), self._root)


def watches_needed(root: Path) -> int:
    """How many of the system's watches a folder takes. Raises: OSError."""
    return len(_folders(os.path.realpath(root))) if _BY_FOLDER else 1


def relevant_paths(root: str, changes: Iterable[tuple[int, str]]) -> set[str]:
    """The relative paths that the index may care about; {""} where everything has to be looked at."""
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
    # Some systems call a folder modified whenever something in it is; that has an event of its own.
    if change == _MODIFIED and os.path.isdir(absolute):
        return None
    return path


def _folders(root: str) -> list[str]:
    """The folders to watch one by one, with git's own where its signals are.

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
    """Windows' drives in WSL, for which Linux gets no events."""
    return "microsoft" in platform.uname().release.lower() and str(root).startswith("/mnt/")
