"""Library: the store of a person's home as an engine over folders of documents.

Each folder is a source with patterns of its own. Folders are added, indexed and removed only here.
Agents get `reader`, the same library opened read-only, so that nothing they call can write. Knows
no tool and no command.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import ConfigError, CortexError, InputError, explained
from cortex.base.paths import root_text
from cortex.base.settings import Settings
from cortex.base.settings.groups import DEFAULT_EXCLUDES
from cortex.base.text import rfc3339
from cortex.base.types import Doc, FileView, Freshness, Skipped, Source
from cortex.engine.embedders import Embedder
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.engine import Engine, Followed
from cortex.engine.file_view import FileViews
from cortex.engine.sources.forbidden_roots import reason_against
from cortex.engine.store import OWN, STORE_NAME, Counts, Folder, Store, check_present
from cortex.engine.store.index.vector_servers import open_vector_server
from cortex.engine.store.snapshots import DAILY, is_due, is_under_way, make_snapshot

if TYPE_CHECKING:
    from cortex.engine.store.index.vector_index import VectorServer

# The records source that always exists.
PERSON = "person"
EVERYTHING = ("**/*",)
# Keys of folders appear in answers.
KEY = re.compile(r"[\w.-]{1,64}")
MAX_NAME = 200
# Time that a writer waits for the lease holder to update the indexes.
FOLLOW_SECONDS = 10.0
POLL_SECONDS = 0.02
# Time between two checks for a due snapshot.
LOOK_SECONDS = 300.0
# Time that closing waits for a snapshot under way; the next one begins anew.
BACK_UP_SECONDS = 10.0
_OUTSTANDING = {False: ("written", "found"), True: ("deleted", "gone from the indexes")}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FolderState:
    """A folder, and the library's figures about it."""

    folder: Folder
    counts: Counts
    # Bytes of its files.
    size: int
    # RFC 3339, "" before the first run.
    indexed_at: str
    # Files that could not or must not be read.
    skipped: tuple[Skipped, ...]
    # The folder exists.
    present: bool


class Library(Engine):
    """One person's documents."""

    # The home's database is the only copy of memories and records.
    is_disposable = False
    # Cited code may be on this machine.
    has_files = True

    def __init__(
        self,
        settings: Settings,
        *,
        embedder: Embedder | None = None,
        embedders: Embedders | None = None,
        read_only: bool = False,
        vector_server: VectorServer | None = None,
    ) -> None:
        """Open the library of a home.

        `embedder` or `embedders`, and `vector_server`, replace those of the settings; the owner
        of lent `embedders` or `vector_server` closes them.
        """
        self._lent_server = vector_server is not None
        self._vector_server = vector_server or open_vector_server(settings)
        self._reader: Library | None = None
        # Of a reader: the library that may write.
        self._owner: Library | None = None
        self._reader_lock = threading.Lock()
        # Further periodic work of the lease holder.
        self.chores: tuple[Callable[[Library], None], ...] = ()
        self._documents_by_id: tuple[int, dict[str, tuple[Folder, str]]] = (-1, {})
        self._backing_up: threading.Thread | None = None
        # Time of the next check for a due snapshot.
        self._back_up_at = 0.0
        # Lease holder that was waited for in vain, and its watermark then.
        self._stalled_holder = (0, -1)
        # Called on close.
        self._close_callbacks: list[Callable[[], None]] = []
        super().__init__(
            settings.home, settings, embedder=embedder, embedders=embedders, read_only=read_only
        )

    # -- hooks of the engine

    def _find_directory(self) -> Path:
        return self.settings.home

    def _open_store(self, directory: Path | None, root: str) -> Store:
        if directory is not None:
            check_present(directory)
        return Store(directory, root, read_only=self.read_only, vector_server=self._vector_server)

    def _main_source(self, store: Store) -> Source:
        return (
            Source(0, "records", PERSON, "")
            if self.read_only
            else store.content.source("records", PERSON, "")
        )

    def _file_seconds(self) -> float:
        return self.settings.kb.read_timeout

    def settings_of(self, source: Source) -> Settings:
        """The person's settings, with the patterns of the folder."""
        folder = self.store.folders.of(source.id)
        if folder is None:
            return self.settings
        settings, kb = self.settings, self.settings.kb
        limits = settings.limits
        chosen = {
            "include_patterns": folder.include or EVERYTHING,
            "exclude_patterns": (*_own_patterns(settings), *folder.exclude),
            "max_file_size": kb.max_file_size,
            "max_files": limits.processing.max_files,
        }
        return settings.model_copy(
            update={"workspace": settings.workspace.model_copy(update=chosen)}
        )

    def followed(self) -> list[Followed]:
        """Folders to watch; the others are compared on request."""
        return [Followed(folder.source, True) for folder in self.folders() if folder.watch]

    def serve_requests(self) -> None:
        """As the lease holder, run requests, the daily snapshot and the chores."""
        super().serve_requests()
        if time.monotonic() >= self._back_up_at:
            self._back_up_at = time.monotonic() + LOOK_SECONDS
            self.back_up()
        with self._runs.alive():
            for chore in self.chores:
                chore(self)

    def back_up(self, wait_seconds: float = 0.0) -> None:
        """Begin the day's snapshot in the background, if it is due and this process writes.

        Only `close` waits for it longer than `wait_seconds`. Failures are logged; `cortex doctor`
        shows a missing snapshot.
        """
        if self.store.directory is not None and self.store.lease.held:
            self._backing_up = back_up_soon(self.store.directory) or self._backing_up
        if self._backing_up is not None:
            self._backing_up.join(wait_seconds)

    def _repair(self) -> bool:
        return super()._repair() if self._owner is None else self._owner._repair()

    def follow(self, *, forget: bool = False) -> bool:
        """Bring the indexes up to date with the last write; true where they are.

        With `forget`, deleted text must be gone from them, too. The lease holder does the work. The
        write itself is durable before this call and stays so, even where the indexes can't follow
        yet.
        """
        try:
            return self._follow(forget)
        except (CortexError, MemoryError, OSError) as error:
            # A full disk, or another writer: the auto-indexer tries again.
            message = explained(error, "indexing").message
            log.warning("what was %s isn't %s yet: %s", *_OUTSTANDING[forget], message)
            return False

    def _follow(self, forget: bool) -> bool:
        store = self.store
        store.content.drop_recent()
        # Later writes are for their own writers to wait for.
        written = store.content.seq()
        deadline = time.monotonic() + FOLLOW_SECONDS
        if self.holds():
            self.embedding.catch_up()
            if forget:
                store.indexes.tidy()
        while (watermark := store.indexes.state()[1]) < written or (
            forget and store.content.words_linger
        ):
            if self.holds() or not (holder := store.lease.holder()):
                return False
            # The holder is stopped or busy: only the first caller waits for that.
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

        Raises: ConfigError SOURCE_REFUSED for a path that is no folder, private, the system's, or
        within another source.
        """
        root = Path(os.path.realpath(path.expanduser()))
        known = self.folders()
        _check_root(root, path, self.settings.home)
        _check_unused(root, path, name, key, known)
        if (name and not name.strip()) or not name.isprintable() or len(name) > MAX_NAME:
            raise ConfigError(
                "SOURCE_REFUSED",
                f"the name of a source is one line of text, of at most {MAX_NAME} characters",
            )
        if key and not KEY.fullmatch(key):
            raise ConfigError(
                "SOURCE_REFUSED",
                "the id of a source is made of at most 64 letters, digits, dots and dashes",
            )
        chosen = name or _free_name(
            root.name or "documents", {folder.name.casefold() for folder in known}
        )
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
            _check_unused(root, path, chosen, key, self.folders())
            raise
        try:
            before = [other for other in self.folders() if other.source.id < folder.source.id]
            _check_unused(root, path, chosen, folder.key, before)
        except ConfigError:
            self.store.folders.remove(folder)
            raise
        self.store.log.record("add", {"source": folder.name})
        return folder

    def remove_folder(self, folder: Folder) -> int:
        """Remove a folder, its documents, texts and vectors, at once and for good.

        Returns the number of documents.
        """
        is_holder = self.store.lease.take()
        # A run over this folder ends at its next step.
        count = self.store.folders.remove(folder)
        if self._vector_server is not None:
            # It may be unreachable now; the vectors are removed later.
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
        """Figures of the library about a folder."""
        content, source = self.store.content, folder.source
        indexed = content.get(f"indexed:{source.id}")
        return FolderState(
            folder,
            self.store.counts(source.id),
            self.store.content.size(source.id),
            rfc3339(int(indexed)) if indexed else "",
            content.skipped(source.id),
            Path(source.root).is_dir(),
        )

    def freshness(self) -> Freshness:
        """State of the library: that of the folder compared longest ago."""
        state = super().freshness()
        compared = [
            self.store.content.get(f"indexed:{folder.source.id}") for folder in self.folders()
        ]
        oldest = min(map(int, compared), default=0) if all(compared) else 0
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
                    embedders=self._embedders,
                    read_only=True,
                    vector_server=self._vector_server,
                )
                self._reader._owner = self
            return self._reader

    def reconfigure(self, settings: Settings) -> None:
        """Apply other settings from now on, to the reader, too."""
        super().reconfigure(settings)
        with self._reader_lock:
            if self._reader is not None:
                self._reader.settings = settings
                if self._reader._embedders is not self._embedders:
                    self._reader._embedders = self._embedders
                    self._reader.embedding.use(self._embedders)

    def rest(self, idle_seconds: float) -> None:
        """Release worker processes that were unused for that long, the reader's too."""
        super().rest(idle_seconds)
        reader = self._reader
        if reader is not None:
            reader.rest(idle_seconds)

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
        if self._backing_up is not None:
            self._backing_up.join(BACK_UP_SECONDS)
        super().close()
        if self._vector_server is not None and not self._lent_server:
            self._vector_server.close()


def back_up_soon(home: Path) -> threading.Thread | None:
    """Begin the day's snapshot of a home in a thread; None if not due or under way."""
    database = home / STORE_NAME
    if not is_due(database) or is_under_way(home):
        return None
    thread = threading.Thread(target=_back_up, args=(database,), name="snapshot", daemon=True)
    thread.start()
    return thread


def _back_up(database: Path) -> None:
    try:
        make_snapshot(database, DAILY)
    except Exception as error:
        # Last handler of the thread: a person's work goes on without a snapshot.
        log.warning(
            "no snapshot of %s could be made: %s", database, explained(error, "a snapshot").message
        )


def _wait(deadline: float) -> bool:
    time.sleep(POLL_SECONDS)
    return time.monotonic() < deadline


def _own_patterns(settings: Settings) -> tuple[str, ...]:
    """The person's own exclude patterns, without the defaults.

    The defaults are for build output of code; among documents `build` is an ordinary word.
    """
    return tuple(
        pattern
        for pattern in settings.workspace.exclude_patterns
        if pattern not in DEFAULT_EXCLUDES
    )


def id_of(folder: Folder, path: str) -> str:
    """Public id of a document, stable while its path doesn't change."""
    return (
        "doc_"
        + hashlib.sha256(f"{folder.key}\0{path}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    )


def has_folders(home: Path) -> bool:
    """True where a home has any documents; a store that can't be read has none."""
    return _has(home, lambda store: bool(store.folders.all()))


def has_own_memories(home: Path) -> bool:
    """True where a person wrote any memory; a store that can't be read has none."""
    return _has(home, lambda store: store.memories.has(OWN))


def has_records(home: Path) -> bool:
    """True where there is any record; a store that can't be read has none."""
    return _has(home, lambda store: store.records.has())


def has_unsent(home: Path) -> bool:
    """True where the outbox has entries that wait or were rejected by a Core.

    A store that can't be read has none.
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


def _refusal(given: Path, root: Path, why: str) -> ConfigError:
    return ConfigError(
        "SOURCE_REFUSED", f"{given} can't be a source: {why}", context={"path": str(root)}
    )


def _check_root(root: Path, given: Path, home: Path) -> None:
    why = reason_against(root, Path(os.path.realpath(Path.home())), Path(os.path.realpath(home)))
    # `isdir` is also false for a name that is too long for the system.
    if not why and not os.path.isdir(root):
        why = "it is no folder" if os.path.exists(root) else "there is no such folder"
    if why:
        raise _refusal(given, root, why)


def _check_unused(root: Path, given: Path, name: str, key: str, known: Sequence[Folder]) -> None:
    """Reject a root, name or key that another folder uses or covers."""
    for folder in known:
        other = Path(folder.source.root)
        if root == other:
            raise _refusal(given, root, "it is one already")
        if _is_within(root, other):
            raise _refusal(given, root, f"it lies in {other}, which is one already")
        if _is_within(other, root):
            raise _refusal(
                given, root, f"{other}, which lies in it, is one already; remove that one first"
            )
        if name and name.casefold() == folder.name.casefold():
            raise ConfigError(
                "SOURCE_REFUSED", f"there is a source {name!r} already; choose another --name"
            )
        if key and key == folder.key:
            raise ConfigError("SOURCE_REFUSED", f"there is a source with the id {key} already")


def _is_within(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def _free_name(name: str, taken: set[str]) -> str:
    wanted = "".join(character for character in name if character.isprintable()) or "documents"
    suffix = 2
    free = wanted
    while free.casefold() in taken:
        free, suffix = f"{wanted}-{suffix}", suffix + 1
    return free
