"""Check the machine: git, plugins, disk space, folder permissions and file watching."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from cortex.base.paths import STORE_FOLDER
from cortex.base.settings import Settings
from cortex.engine.sources.watcher import watches_needed
from cortex.interfaces.cli.checks import Finding, error, ok, warning
from cortex.plugins.registry import known_names
from cortex.toolkit.terminal.workspace import can_write, nearest

LEAST_FREE, LITTLE_FREE = 200 << 20, 1 << 30
WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")
WATCHES_WANTED = 524_288


def check_git() -> Finding:
    """Check that git is installed."""
    if program := shutil.which("git"):
        return ok("git", program)
    text = "git is not installed: ignore files are read by Cortex itself, submodules are not seen"
    return warning("git", text, "Install git.")


def check_plugins(settings: Settings) -> Finding:
    """Check that the enabled plugins are installed."""
    known = known_names()
    unknown = [name for name in settings.team.plugins if name not in known]
    if not unknown:
        return ok("plugins", ", ".join(settings.team.plugins) or "none is on")
    text = (
        f"team.plugins ({settings.origin('team.plugins')}) has {', '.join(unknown)}; known: "
        f"{', '.join(known)}"
    )
    return warning(
        "plugins",
        text,
        "Install what is missing beside Cortex, or name only plugins that are known.",
    )


def check_disk(folder: Path) -> Finding:
    """Check the free disk space of a store."""
    there = nearest(folder)
    try:
        free = shutil.disk_usage(there).free
    # The drive doesn't exist.
    except OSError as refused:
        return error("disk", f"{there}: {refused.strerror}", f"Make {there} accessible.")
    if free < LITTLE_FREE:
        level = error if free < LEAST_FREE else warning
        return level(
            "disk", f"only {free >> 20} MB of disk are free at {there}", "Free some disk space."
        )
    return ok("disk", f"{free >> 30} GB are free at {there}")


def check_folder(folder: Path, user_home: Path) -> Iterator[Finding]:
    """Check that a folder of Cortex is private to its owner and writable."""
    try:
        status = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        there = nearest(folder)
        if not can_write(there):
            yield _unwritable(f"{folder} can't be made", there)
        return
    except OSError as refused:
        yield error("permissions", f"{folder}: {refused.strerror}", f"Make {folder} yours.")
        return
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        text = f"{folder} belongs to user {status.st_uid}, not to you: was a command run with sudo?"
        yield error("permissions", text, f"sudo chown -R $(id -u) {folder}")
    elif not can_write(folder):
        yield _unwritable(f"{folder} can't be written", folder)
    elif (
        os.name != "nt"
        and stat.S_IMODE(status.st_mode) & 0o077
        and not user_home.is_relative_to(folder)
    ):
        text = f"others can enter {folder}, which holds what was indexed"
        yield warning("permissions", text, f"chmod 700 {folder}", lambda: _change(folder, 0o700))
    else:
        yield ok(
            "permissions",
            f"{folder} is yours only" if os.name != "nt" else f"{folder} can be written",
        )


def _unwritable(text: str, folder: Path) -> Finding:
    if hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY:
        fix = "Mount it so that it can be written, or set CORTEX_HOME to a folder that can."
        return error("permissions", f"{text}: the file system is mounted read-only", fix)
    if not folder.is_dir():
        return error(
            "permissions",
            f"{text}: {folder} is no folder",
            "Move it away, or set CORTEX_HOME elsewhere.",
        )
    return error("permissions", text, f"chmod u+rwx {folder}", lambda: _change(folder, 0o700))


def check_watches(root: Path) -> Iterator[Finding]:
    """Check that the system can watch all folders of a project."""
    try:
        limit = int(WATCHES.read_text(encoding="ascii"))
        wanted = watches_needed(root)
    # Other systems have no such limit.
    except (OSError, ValueError):
        return
    if wanted < limit * 0.9:
        yield ok("watching", f"{wanted} folders, of {limit} that may be watched")
        return
    text = (
        f"{root} has {wanted} folders, and you may watch {limit}: it is compared again and "
        "again instead, which is slower"
    )
    fix = (
        f"sudo sysctl fs.inotify.max_user_watches={WATCHES_WANTED}, or leave folders out with "
        f"{STORE_FOLDER}/config.yml"
    )
    yield warning("watching", text, fix)


def _change(folder: Path, mode: int) -> str:
    folder.chmod(mode)
    return f"{folder} is yours only"
