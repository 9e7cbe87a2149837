"""Library: the store of a person's home as an engine over folders of documents.

Each folder is a source with patterns of its own. Folders are added, indexed and removed only here.
Agents get `reader`, the same library opened read-only, so that nothing they call can write. Knows
no tool and no command.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import ConfigError, CortexError, InputError, explained
from cortex.base.paths import root_text
from cortex.base.settings import Settings
from cortex.base.text import rfc3339
from cortex.base.types import Doc, FileView, Freshness, Skipped, Source
from cortex.engine.embedders import Embedder
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.engine import Engine
from cortex.engine.file_view import FileViews
from cortex.engine.home_store import HomeOpener, home_setup, open_home_store
from cortex.engine.sources.folder_rules import check_label, check_root, check_unused, free_name
from cortex.engine.store import Counts, Folder
from cortex.engine.store.daily_snapshot import DailySnapshot
from cortex.engine.store.index.vector_servers import open_vector_server

if TYPE_CHECKING:
    from cortex.engine.store.index.vector_index import VectorServer

# Time that a writer waits for the lease holder to update the indexes.
FOLLOW_SECONDS = 10.0
POLL_SECONDS = 0.02
_NOT_FOLLOWED = {
    False: "what was written can't be searched yet: %s",
    True: "what was deleted is still in the indexes: %s",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FolderState:
    """A folder, with its figures in the library."""

    folder: Folder
    counts: Counts
    # Bytes of its files.
    size: int
    # RFC 3339, "" before the first run.
    indexed_at: str
    # Files that could not or must not be read.
    skipped: tuple[Skipped, ...]
    # The folder exists on disk.
    present: bool


class Library(Engine):
    """One person's documents."""

    # False for a Core's replica: code that its records cite isn't on that machine.
    has_files = True

    def __init__(
        self,
        settings: Settings,
        *,
        embedder: Embedder | None = None,
        embedders: Embedders | None = None,
        read_only: bool = False,
        vector_server: VectorServer | None = None,
        open_store: HomeOpener = open_home_store,
        repair: Callable[[], bool] | None = None,
        snapshots: bool = True,
    ) -> None:
        """Open the library of a home.

        `embedder` or `embedders`, and `vector_server`, replace those of the settings; the caller
        closes `embedders` and the `vector_server` that it passes. `repair` is as in `Engine`.
        Without `snapshots` the home is backed up by other means.
        """
        self._lent_server = vector_server is not None
        self._vector_server = vector_server or open_vector_server(settings)
        self._reader: Library | None = None
        self._reader_lock = threading.Lock()
        self._documents_by_id: tuple[int, dict[str, tuple[Folder, str]]] = (-1, {})
        self._snapshot = DailySnapshot()
        # Lease holder that didn't update the indexes in time, and its watermark then.
        self._stalled_holder = (0, -1)
        # Called on close.
        self._close_callbacks: list[Callable[[], None]] = []
        super().__init__(
            settings.home,
            settings,
            embedder=embedder,
            embedders=embedders,
            read_only=read_only,
            setup=home_setup(settings.home, self._vector_server, open_store),
            repair=repair,
        )
        if snapshots:
            self.chores.append(lambda: self._snapshot.look(self.store))

    def back_up(self, wait_seconds: float) -> None:
        """Start the daily snapshot if it is due and this process holds the lease, then wait."""
        self._snapshot.begin(self.store, wait_seconds)

    def follow(self, *, forget: bool = False) -> bool:
        """Bring the indexes up to date with the last write; true once they are.

        With `forget`, deleted text must be gone from them, too. The lease holder does the work. The
        write itself is durable before this call, even if the indexes can't be updated yet.
        """
        try:
            return self._follow(forget)
        except (CortexError, MemoryError, OSError) as error:
            # A full disk, or another writer: the auto-indexer tries again.
            message = explained(error, "indexing").message
            log.warning(_NOT_FOLLOWED[forget], message)
            return False

    def _follow(self, forget: bool) -> bool:
        store = self.store
        store.content.drop_recent()
        # Later writes are for their own writers to wait for.
        written = store.content.seq()
        deadline = time.monotonic() + FOLLOW_SECONDS
        if self.holds_lease():
            self.embedding.catch_up()
            if forget:
                store.indexes.tidy()
        while (watermark := store.indexes.state()[1]) < written or (
            forget and store.content.keeps_deleted_words
        ):
            if self.holds_lease() or not (holder := store.lease.holder()):
                return False
            # The holder is stopped or busy. Only the first caller waits for it.
            if self._stalled_holder == (holder, watermark) or not _wait(deadline):
                self._stalled_holder = (holder, watermark)
                return False
        # The write-ahead log contains the text, too.
        while forget and not store.checkpoint():
            if not _wait(deadline):
                return False
        return True

    # -- folders

    def folders(self) -> list[Folder]:
        """All folders, by name."""
        return self.store.folders.all()

    def folder(self, key_or_name: str) -> Folder:
        """Find a folder by key or name. Raises: ConfigError SOURCE_UNKNOWN."""
        known = self.folders()
        for same in (
            lambda folder: folder.key == key_or_name,
            lambda folder: folder.name == key_or_name,
            lambda folder: folder.name.casefold() == key_or_name.casefold(),
        ):
            for folder in known:
                if same(folder):
                    return folder
        names = ", ".join(f"{folder.name} ({folder.key})" for folder in known) or "none yet"
        raise ConfigError("SOURCE_UNKNOWN", f"there is no source {key_or_name!r}; known: {names}")

    def add_folder(
        self,
        path: Path,
        *,
        name: str = "",
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        watch: bool = True,
        key: str = "",
    ) -> Folder:
        """Register a folder of documents; nothing is read yet.

        Raises: ConfigError SOURCE_REFUSED for a path that isn't a folder, is private or the
        system's, or overlaps another source.
        """
        root = Path(os.path.realpath(path.expanduser()))
        known = self.folders()
        check_root(root, path, self.settings.home)
        check_unused(root, path, name, key, known)
        check_label(name, key)
        taken = {folder.name.casefold() for folder in known}
        chosen = name or free_name(root.name or "documents", taken)
        try:
            folder = self.store.folders.add(
                key or uuid.uuid4().hex[:8],
                chosen,
                root_text(root),
                tuple(include),
                tuple(exclude),
                watch=watch,
            )
        except CortexError:
            # Another process may have added the same folder meanwhile.
            check_unused(root, path, chosen, key, self.folders())
            raise
        try:
            before = [other for other in self.folders() if other.source.id < folder.source.id]
            check_unused(root, path, chosen, folder.key, before)
        except ConfigError:
            self.store.folders.remove(folder)
            raise
        self.store.log.record("add", {"source": folder.name})
        return folder

    def remove_folder(self, folder: Folder) -> int:
        """Remove a folder with its documents, texts and vectors, immediately and permanently.

        Returns the number of documents.
        """
        is_holder = self.store.lease.take()
        # A run over this folder ends at its next step.
        count = self.store.folders.remove(folder)
        if self._vector_server is not None:
            # The server may be unreachable now; the vectors are removed later.
            self.store.content.set({"removed": str(self.store.content.seq())})
        self.store.content.drop_recent()
        # Without the lease, its holder does this.
        if is_holder:
            self.embedding.catch_up()
            self.store.indexes.tidy()
        # The write-ahead log contains the text, too.
        self.store.checkpoint()
        self.store.log.record("delete", {"docs": count, "source": folder.name})
        return count

    def state_of(self, folder: Folder) -> FolderState:
        """State of a folder: counts, size, last run and skipped files."""
        content, source = self.store.content, folder.source
        indexed = content.indexed_at(source.id)
        return FolderState(
            folder,
            self.store.counts(source.id),
            self.store.content.size(source.id),
            rfc3339(indexed) if indexed else "",
            content.skipped(source.id),
            Path(source.root).is_dir(),
        )

    def freshness(self) -> Freshness:
        """State of the library; its time is that of the folder compared longest ago."""
        state = super().freshness()
        compared = [self.store.content.indexed_at(folder.source.id) for folder in self.folders()]
        oldest = min(compared, default=0) if all(compared) else 0
        if state.state == "error" or self.running or not all(compared):
            return replace(state, last_indexed=rfc3339(oldest) if oldest else "")
        return Freshness("ready", 1.0, rfc3339(oldest) if oldest else "")

    # -- documents

    def document(self, document_id: str) -> tuple[Folder, Doc]:
        """Find a document by id. Raises: InputError DOCUMENT_UNKNOWN."""
        seq = self.store.content.seq()
        if self._documents_by_id[0] != seq:
            self._documents_by_id = (
                seq,
                {
                    id_of(folder, doc.path): (folder, doc.path)
                    for folder in self.folders()
                    for doc in self.store.content.docs(folder.source.id)
                },
            )
        entry = self._documents_by_id[1].get(document_id)
        doc = self.store.content.doc(entry[0].source.id, entry[1]) if entry else None
        if entry is None or doc is None:
            raise InputError("DOCUMENT_UNKNOWN", f"there is no document {document_id!r}")
        return entry[0], doc

    def view_in(self, root: Path) -> Callable[[str], FileView]:
        """Return a function that reads files of any project as they are now.

        It raises FileError PATH_OUTSIDE, FILE_NOT_FOUND or FILE_UNREADABLE.
        """
        return FileViews(
            root,
            self.store,
            Source(0, "files", root.name, str(root)),
            self.settings,
            self._single_file_pool,
        ).view

    # -- life cycle

    @property
    def reader(self) -> Library:
        """This library, opened a second time, read-only."""
        with self._reader_lock:
            if self._reader is None:
                self._reader = Library(
                    self.settings,
                    embedders=self.embedders,
                    read_only=True,
                    vector_server=self._vector_server,
                    repair=self.repair,
                )
            return self._reader

    def reconfigure(self, settings: Settings) -> None:
        """Apply other settings from now on, to the reader, too."""
        super().reconfigure(settings)
        with self._reader_lock:
            if self._reader is not None:
                self._reader.settings = settings
                if self._reader.embedders is not self.embedders:
                    self._reader.embedders = self.embedders
                    self._reader.embedding.use(self.embedders)

    def release_idle(self, idle_seconds: float) -> None:
        """Release worker processes that were unused for that long, the reader's too."""
        super().release_idle(idle_seconds)
        reader = self._reader
        if reader is not None:
            reader.release_idle(idle_seconds)

    def at_close(self, end: Callable[[], None]) -> None:
        """Register a callback for `close`."""
        self._close_callbacks.append(end)

    def close(self) -> None:
        """Close the library and its reader."""
        while self._close_callbacks:
            self._close_callbacks.pop()()
        with self._reader_lock:
            reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        self._snapshot.close()
        super().close()
        if self._vector_server is not None and not self._lent_server:
            self._vector_server.close()


def _wait(deadline: float) -> bool:
    time.sleep(POLL_SECONDS)
    return time.monotonic() < deadline


def id_of(folder: Folder, path: str) -> str:
    """Public id of a document, stable while its path doesn't change."""
    return (
        "doc_"
        + hashlib.sha256(f"{folder.key}\0{path}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    )
