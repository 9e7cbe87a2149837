"""Folder of a project's store: its location, and if it may be used."""

from __future__ import annotations

from pathlib import Path

from cortex.base.paths import STORE_FOLDER, store_dir
from cortex.base.settings import Settings
from cortex.engine.sources import git
from cortex.engine.store import STORE_NAME, set_aside

# Cortex's own files in the folder of a store.
OWN_PATTERNS = ("cortex.db*", "lease", "words*", "vectors*")


def find_store(root: Path, home: Path) -> Path:
    """Find the folder of a root's store.

    A store that came with the repository isn't used: it could answer with anything.
    """
    folder = store_dir(root, home)
    if (folder / STORE_NAME).exists() and git.tracks(folder, *OWN_PATTERNS):
        return store_dir(root, home, in_project=False)
    return folder


def has_lost_project(directory: Path) -> bool:
    """True where the folder around a project's store is gone, too.

    It was moved or unmounted, and must not be made anew.
    """
    return directory.name == STORE_FOLDER and not directory.parent.is_dir()


def rebuild_damaged(root: Path, settings: Settings) -> Path:
    """Set a damaged store aside, so that the next engine begins anew; return the old file."""
    return set_aside(find_store(root.resolve(), settings.home))
