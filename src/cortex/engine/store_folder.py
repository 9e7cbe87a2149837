"""Folder of a project's store: where it is, and whether it may be used."""

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

    A store that came with the repository isn't used, because its content can't be trusted.
    """
    folder = store_dir(root, home)
    if (folder / STORE_NAME).exists() and git.tracks(folder, *OWN_PATTERNS):
        return store_dir(root, home, in_project=False)
    return folder


def has_lost_project(directory: Path) -> bool:
    """True if the project itself is gone: moved or unmounted, so it must not be created again."""
    return directory.name == STORE_FOLDER and not directory.parent.is_dir()


def rebuild_damaged(root: Path, settings: Settings) -> Path:
    """Set a damaged store aside, so that the next engine starts empty; return the old file."""
    return set_aside(find_store(root.resolve(), settings.home))
