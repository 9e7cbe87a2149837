"""Setup of an engine's store: its folder, the way to open it, and its sources.

`project_setup` is that of a folder of files; the person's library has one of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cortex.base.paths import root_text
from cortex.base.settings import Settings
from cortex.base.types import Source
from cortex.engine.store import Store
from cortex.engine.store_folder import find_store


@dataclass(frozen=True, slots=True)
class Followed:
    """A source to keep fresh, by watching its folder or by periodic scans."""

    source: Source
    watch: bool


class SourceSet(Protocol):
    """Sources of one store; `settings` are the current ones of its engine."""

    def main(self, store: Store, read_only: bool) -> Source:
        """Main source, created if it is new and may be."""
        ...

    def followed(self, store: Store, settings: Settings) -> list[Followed]:
        """Sources to keep fresh."""
        ...

    def settings_of(self, source: Source, store: Store, settings: Settings) -> Settings:
        """Settings to index a source with."""
        ...

    def read_timeout(self, settings: Settings) -> float:
        """Seconds that reading one file may take."""
        ...


@dataclass(frozen=True, slots=True)
class StoreSetup:
    """The store of an engine, before it is opened."""

    # None keeps everything in memory.
    directory: Path | None
    # Opens a store, given its directory, its root, and whether it is read-only.
    open: Callable[[Path | None, str, bool], Store]
    sources: SourceSet
    # The content can be read again from files, so a damaged database may be replaced.
    is_disposable: bool


def project_setup(root: Path, settings: Settings, *, in_memory: bool = False) -> StoreSetup:
    """Return the setup of a folder of files."""

    def open_store(directory: Path | None, root: str, read_only: bool) -> Store:
        return Store(directory, root, read_only=read_only)

    directory = None if in_memory else find_store(root, settings.home)
    return StoreSetup(directory, open_store, ProjectFiles(root), is_disposable=True)


class ProjectFiles:
    """The files of a project: one source, with the engine's settings."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def main(self, store: Store, read_only: bool) -> Source:
        """Source of the project's folder."""
        root = root_text(self._root)
        return store.content.source("files", self._root.name or root, root)

    def followed(self, store: Store, settings: Settings) -> list[Followed]:
        """Follow the folder by watching it, or by periodic scans only."""
        return [Followed(self.main(store, True), settings.workspace.watch_files)]

    def settings_of(self, source: Source, store: Store, settings: Settings) -> Settings:
        """Return the engine's own settings."""
        return settings

    def read_timeout(self, settings: Settings) -> float:
        """Seconds that reading and chunking one file may take."""
        return settings.limits.processing.chunk_timeout
