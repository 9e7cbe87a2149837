"""Folder with the vector indexes of one store, a directory for each embedder.

Knows nothing of chunks, and doesn't decide which index is needed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path

from cortex.base.text import hash_bytes
from cortex.base.types import Stamp
from cortex.engine.store.index.vector_file import Vectors
from cortex.engine.store.index.vector_log import Manifest, read_manifest

# Prefix of a directory that is being removed.
REMOVED = ".removed-"


class VectorFolder:
    """Vector indexes in files; without a folder, in memory only."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def open(self, stamp: Stamp) -> Vectors:
        """Open the index of an embedder."""
        return Vectors.open(self._path_of(stamp), stamp)

    def paths(self) -> list[Path]:
        """Directories of indexes, also of those that no longer answer."""
        if self._folder is None or not self._folder.is_dir():
            return []
        return sorted(
            path
            for path in self._folder.iterdir()
            if path.is_dir() and not path.name.startswith(REMOVED)
        )

    def manifests(self) -> list[Manifest | None]:
        """Manifest of each directory, None for one without a readable manifest."""
        return [read_manifest(path) for path in self.paths()]

    def is_there(self, stamp: Stamp) -> bool:
        """True if something is in the place of this embedder's directory."""
        path = self._path_of(stamp)
        return path is not None and os.path.lexists(path)

    def manifest(self, stamp: Stamp) -> Manifest | None:
        """Manifest of an embedder's index, None without a readable one."""
        path = self._path_of(stamp)
        return None if path is None else read_manifest(path)

    def keep_only(self, stamps: Collection[Stamp]) -> None:
        """Remove the indexes of all other embedders, and what interrupted removals have left."""
        kept = {self._path_of(stamp) for stamp in stamps}
        for path in self.paths():
            if path not in kept:
                remove(path)
        if self._folder is not None:
            for path in self._folder.glob(f"{REMOVED}*"):
                shutil.rmtree(path, ignore_errors=True)

    def discard(self, stamp: Stamp) -> None:
        """Remove a damaged index, or a file in the place of the folder."""
        path = self._path_of(stamp)
        if self._folder is not None and not self._folder.is_dir():
            remove(self._folder)
        elif path is not None:
            remove(path)

    def remove_siblings(self) -> None:
        """Remove the folders of other stores, such as deleted ones: their ids mean other chunks."""
        if self._folder is not None:
            for path in self._folder.parent.glob("vectors*"):
                if path != self._folder:
                    shutil.rmtree(path, ignore_errors=True)

    def _path_of(self, stamp: Stamp) -> Path | None:
        if self._folder is None:
            return None
        name = re.sub(r"[^a-z0-9]+", "-", f"{stamp.provider} {stamp.model}".lower()).strip("-")[:40]
        digest = hash_bytes(*(str(part).encode() for part in astuple(stamp))).hex()[:12]
        return self._folder / f"{name}-{digest}"


def remove(path: Path) -> None:
    """Remove an index atomically: one without its rows must never be found in its place."""
    aside = path.with_name(REMOVED + path.name)
    shutil.rmtree(aside, ignore_errors=True)
    # Files that another process has open (Windows) are removed the next time.
    with suppress(OSError):
        if path.is_dir():
            os.replace(path, aside)
            shutil.rmtree(aside, ignore_errors=True)
        else:
            path.unlink()
