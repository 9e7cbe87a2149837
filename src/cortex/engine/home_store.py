"""Store of a person's home: its setup, and quick checks of its content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import CortexError
from cortex.base.settings import Settings
from cortex.base.settings.groups import DEFAULT_EXCLUDES
from cortex.base.types import Source
from cortex.engine.store import OWN, STORE_NAME, Store, check_present
from cortex.engine.store_setup import Followed, StoreSetup

if TYPE_CHECKING:
    from cortex.engine.store.index.vector_index import VectorServer

# The records source that always exists.
PERSON = "person"
EVERYTHING = ("**/*",)

# Opens a home's store, given its directory, its root, whether it is read-only, and the server for
# its vectors; without a server they are in files.
HomeOpener = Callable[[Path, str, bool, "VectorServer | None"], Store]


def home_setup(
    home: Path, vector_server: VectorServer | None, open_store: HomeOpener
) -> StoreSetup:
    """Return the setup of a home's store, the only copy of memories and records."""

    def open_home(directory: Path | None, root: str, read_only: bool) -> Store:
        return open_store(directory or home, root, read_only, vector_server)

    return StoreSetup(home, open_home, DocumentFolders(), is_disposable=False)


def open_home_store(
    home: Path, root: str, read_only: bool, vector_server: VectorServer | None
) -> Store:
    """Open the store of a home. Raises: StoreError STORE_LOST where it has vanished."""
    check_present(home)
    return Store(home, root, read_only=read_only, vector_server=vector_server)


class DocumentFolders:
    """A person's folders of documents, each with patterns of its own."""

    def main(self, store: Store, read_only: bool) -> Source:
        """Source of the person's records."""
        return (
            Source(0, "records", PERSON, "")
            if read_only
            else store.content.source("records", PERSON, "")
        )

    def followed(self, store: Store, settings: Settings) -> list[Followed]:
        """Folders to watch; the others are compared on request."""
        return [Followed(folder.source, True) for folder in store.folders.all() if folder.watch]

    def settings_of(self, source: Source, store: Store, settings: Settings) -> Settings:
        """Return the person's settings, with the patterns of the folder."""
        folder = store.folders.of(source.id)
        if folder is None:
            return settings
        chosen = {
            "include_patterns": folder.include or EVERYTHING,
            "exclude_patterns": (*_own_patterns(settings), *folder.exclude),
            "max_file_size": settings.kb.max_file_size,
            "max_files": settings.limits.processing.max_files,
        }
        return settings.model_copy(
            update={"workspace": settings.workspace.model_copy(update=chosen)}
        )

    def read_timeout(self, settings: Settings) -> float:
        """Seconds that reading and chunking one document may take."""
        return settings.kb.read_timeout


def _own_patterns(settings: Settings) -> tuple[str, ...]:
    """The person's own exclude patterns, without the defaults.

    The defaults are for build output of code; among documents `build` is an ordinary word.
    """
    return tuple(
        pattern
        for pattern in settings.workspace.exclude_patterns
        if pattern not in DEFAULT_EXCLUDES
    )


def has_folders(home: Path) -> bool:
    """True if a home has document folders; false for a store that can't be read."""
    return _has(home, lambda store: bool(store.folders.all()))


def has_own_memories(home: Path) -> bool:
    """True if a person has written a memory; false for a store that can't be read."""
    return _has(home, lambda store: store.memories.has(OWN))


def has_records(home: Path) -> bool:
    """True if there is a record; false for a store that can't be read."""
    return _has(home, lambda store: store.records.has())


def has_unsent(home: Path) -> bool:
    """True if the outbox has entries that wait or were rejected by a Core.

    False for a store that can't be read.
    """
    return _has(home, lambda store: any(store.outbox.count()))


def _has(home: Path, question: Callable[[Store], bool]) -> bool:
    if not (home / STORE_NAME).is_file():
        return False
    try:
        store = Store(home, read_only=True)
    except CortexError:
        return False
    try:
        return question(store)
    except CortexError:
        return False
    finally:
        store.close()
