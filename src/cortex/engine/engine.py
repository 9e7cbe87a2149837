"""Engine: one store with one folder of files as its main source, open in this process.

`index` brings a source up to date, `put` and `forget` write and remove texts, `search` answers
queries. The process with the store's lease writes; an engine without it reads, and asks the holder
to index. It knows no tool, protocol or command. Background indexing is in `engine/auto_indexer.py`,
a single run in `engine/indexer.py`, and answering a query in `engine/searcher.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Self

from cortex.base.errors import CortexError, StoreError
from cortex.base.paths import ensure_store_dir, is_frozen, remember_project, root_text
from cortex.base.runtime.process_stats import default_workers
from cortex.base.settings import Settings
from cortex.base.text import hash_bytes
from cortex.base.types import (
    Cancel,
    FileView,
    Freshness,
    IndexReport,
    Note,
    Page,
    ProgressCallback,
    Query,
    ScannedFile,
    Source,
    StoreStats,
)
from cortex.engine import chunkers
from cortex.engine.embedders import Embedder
from cortex.engine.embedders.circuit_breaker import Embedders, embedder_settings, open_embedders
from cortex.engine.embedding_coordinator import EmbeddingCoordinator
from cortex.engine.file_view import FileViews
from cortex.engine.index_repair import Replacement
from cortex.engine.index_settings import SETTLE_SECONDS, FollowedSettings, IndexState
from cortex.engine.indexer import scan_files
from cortex.engine.opened_store import OpenedStore, StoreHandle
from cortex.engine.run_queue import IndexRequest, RunQueue
from cortex.engine.searcher import Searcher
from cortex.engine.store import Operation, Store
from cortex.engine.store_setup import Followed, StoreSetup, project_setup
from cortex.engine.store_stats import collect_stats
from cortex.engine.worker.pool import Pool

# Pause after the indexes failed to catch up.
RETRY_SECONDS = 5.0
# Age at which content without a document is removed.
ORPHAN_DAYS = 14

log = logging.getLogger(__name__)


class Engine:
    """One open store and the folder it indexes."""

    def __init__(
        self,
        root: Path,
        settings: Settings,
        *,
        in_memory: bool = False,
        embedder: Embedder | None = None,
        embedders: Embedders | None = None,
        read_only: bool = False,
        keep_damaged: bool = False,
        setup: StoreSetup | None = None,
        repair: Callable[[], bool] | None = None,
    ) -> None:
        """Open the store of a folder.

        `embedder` or `embedders` replace those of the settings; the caller closes `embedders`
        that it passes. A project's database that is damaged or of a newer version is set aside and
        replaced by an empty one, unless `keep_damaged`. A store that isn't a project's comes with
        its `setup`. `repair` rebuilds damaged indexes on behalf of a read-only engine.
        """
        self.root = root.resolve()
        self.settings = settings
        self.followed_settings = FollowedSettings(settings)
        self._lent_embedders = embedders is not None
        lent = Embedders(embedder) if embedder is not None else embedders
        self.embedders = lent or open_embedders(settings)
        self._setup = setup or project_setup(self.root, settings, in_memory=in_memory)
        directory = self._setup.directory
        self.read_only = read_only or (directory is not None and is_frozen(directory))
        self._follows_settings = not (in_memory or self.read_only)
        self._pool = self._make_pool(settings.indexing.workers or default_workers())
        # For single files between runs; its process starts on first use.
        self._single_file_pool = self._make_pool(1)
        # True while an auto-indexer keeps the index fresh: a first run is under way, or due soon.
        self.is_auto_indexed = False
        # Other periodic work that the lease holder does.
        self.chores: list[Callable[[], object]] = []
        # Time of the next attempt after the indexes failed to catch up.
        self._catch_up_after = 0.0
        may_replace = self._setup.is_disposable and not (self.read_only or keep_damaged)
        self._replacement = Replacement(self.root, allowed=may_replace)
        self._handle = StoreHandle(directory, self._open, self._replacement, self._on_reopened)
        self._searcher = Searcher(
            self._handle.current,
            lambda: self.state,
            lambda: Engine(self.root, self.settings, in_memory=True, embedders=Embedders(None)),
            repair or self.repair,
            lambda: self._replacement.notice,
        )
        self.follow_settings()

    # -- the store

    @property
    def store(self) -> Store:
        """The open store."""
        return self._handle.current().store

    @property
    def source(self) -> Source:
        """Main source: the folder."""
        return self._handle.current().source

    @property
    def embedding(self) -> EmbeddingCoordinator:
        """Embedding coordinator of the open store."""
        return self._handle.current().embedding

    @property
    def damaged(self) -> bool:
        """True if an index has to be rebuilt."""
        return self._handle.current().damaged

    @property
    def _runs(self) -> RunQueue:
        return self._handle.current().runs

    def start_anew(self, error: CortexError) -> bool:
        """Replace a project's damaged database by an empty one; true if that was done."""
        return self._handle.start_anew(error)

    def _open(self, directory: Path | None) -> OpenedStore:
        root = root_text(self.root)
        if directory is not None and not self.read_only:
            ensure_store_dir(directory)
            if directory.parent == self.root:
                remember_project(self.settings.home, self.root)
        store = self._setup.open(directory, root, self.read_only)
        store.content.redacts(self.settings.security.redact != "off")
        try:
            source = self._setup.sources.main(store, self.read_only)
        except BaseException:
            store.close()
            raise
        embedding = EmbeddingCoordinator(store, self.embedders, lambda: self.settings)

        def settings_of(source: Source) -> Settings:
            return self._setup.sources.settings_of(source, store, self.settings)

        runs = RunQueue(store, source, self._pool, settings_of, embedding.jobs)
        return OpenedStore(store, source, embedding, runs)

    def _on_reopened(self) -> None:
        self._searcher.reset_cache(self.settings)

    def _make_pool(self, size: int) -> Pool:
        return Pool(
            size,
            timeout_seconds=self._setup.sources.read_timeout(self.settings),
            memory_bytes=self.settings.limits.memory.heap,
        )

    def followed(self) -> list[Followed]:
        """Sources to keep fresh."""
        return self._setup.sources.followed(self.store, self.settings)

    # -- index

    def index(
        self,
        *,
        source: Source | None = None,
        force: bool = False,
        paths: Iterable[str] | None = None,
        progress: ProgressCallback = lambda progress: None,
        cancel: Cancel | None = None,
        limited: bool = False,
    ) -> IndexReport:
        """Bring a source up to date, or only some of its files and folders.

        Without the lease, this asks the holder to index. A run waits for the one under way; a
        forced run of the whole folder joins another forced run. `limited` rejects a second forced
        run within a minute.

        Raises: LimitError, Cancelled, FileError DISK_FULL, StoreError.
        """
        self.follow_settings(settle_seconds=0.0)
        wanted = None if paths is None else tuple(sorted({path.strip("/") for path in paths}))
        cancel = Cancel() if cancel is None else cancel

        def run() -> IndexReport:
            opened = self._handle.current()
            return opened.runs.index(
                IndexRequest(source or opened.source, force, wanted, limited, progress, cancel)
            )

        try:
            return run()
        except StoreError as error:
            # The new store doesn't know a source of the old one; its auto-indexer registers it.
            if not self.start_anew(error) or source is not None:
                raise
        return run()

    def serve_requests(self) -> None:
        """As the lease holder, run other processes' requests and chores, and update the indexes."""
        self.follow_settings()
        self._handle.replace_reported()
        self._runs.serve_requests()
        self._try_catch_up()
        if self.chores:
            with self._runs.alive():
                for chore in self.chores:
                    chore()

    def _try_catch_up(self) -> None:
        if time.monotonic() < self._catch_up_after:
            return
        try:
            self.catch_up()
        except CortexError as error:
            log.warning("could not update the indexes of %s: %s", self.root, error.message)
            self._catch_up_after = time.monotonic() + RETRY_SECONDS

    def catch_up(self) -> None:
        """Bring the indexes up to date with the database, if this process can hold the lease.

        They lag if a writer ended before it had updated them, or if the database was copied
        without them.
        """
        if not self.store.lease.take():
            return
        behind = (
            self.store.content.keeps_deleted_words
            or self.store.indexes.state()[1] < self.store.content.seq()
        )
        if behind or (not self.running and self.embedding.lags):
            with self._runs.alive():
                self.embedding.catch_up()
                self.store.indexes.tidy()

    # -- put and forget

    def put(self, notes: Iterable[Note]) -> list[int]:
        """Store texts, searchable at once; return their doc ids.

        Raises: StoreError STORE_LOCKED when another process holds the lease.
        """
        self._require_lease()
        size, texts = self.settings.indexing.chunk_size, []
        for note in notes:
            source = self.store.content.source("records", note.source, "")
            cut = chunkers.cut(note.text, note.path, note.language, size, 0)
            raw = note.text.encode("utf-8")
            file = ScannedFile(note.path, len(raw), time.time_ns())
            key = hash_bytes(
                b"put", f"{chunkers.VERSION}:{size}".encode(), note.language.encode(), raw
            )
            texts.append((source.id, file, key, cut))
        ids = self.store.content.put(texts)
        self.embedding.catch_up()
        return ids

    def forget(self, docs: Iterable[int]) -> None:
        """Remove docs and their content immediately and permanently."""
        self._require_lease()
        doc_ids = list(docs)
        self.store.content.forget(doc_ids)
        self.store.content.drop_recent()
        self.embedding.catch_up()
        self.store.log.record("delete", {"docs": len(doc_ids)})

    def _require_lease(self) -> None:
        if not self.store.lease.take():
            raise StoreError(
                "STORE_LOCKED",
                f"process {self.store.lease.holder()} is writing to the store of {self.root}",
            )

    # -- search

    def search(
        self,
        query: Query,
        *,
        cancel: Cancel | None = None,
        sources: Sequence[Source] | None = None,
        docs: frozenset[int] | None = None,
    ) -> Page:
        """Answer a query from the folder, or from other sources of the store.

        With `docs`, only these may be returned.

        Raises: InputError, LimitError SEARCH_TIMEOUT or REGEX_TIMEOUT, Cancelled, StoreError.
        """
        cancel = Cancel() if cancel is None else cancel
        try:
            return self._searcher.search(query, cancel, sources, docs)
        except StoreError as error:
            if not self.start_anew(error) or sources is not None:
                raise
        if not self.is_auto_indexed:
            self.index(cancel=cancel)
        return self._searcher.search(query, cancel, sources, docs)

    def repair(self) -> bool:
        """Rebuild damaged indexes in this thread; false if it is up to another thread or process.

        That is an auto-indexer, or the process that holds the lease.
        """
        if self.is_auto_indexed or self.read_only or not self.store.lease.take():
            return False
        self.embedding.catch_up()
        return True

    # -- settings

    @property
    def state(self) -> IndexState:
        """Comparison of the index's settings with the current ones."""
        opened = self._handle.current()
        return IndexState(
            opened.store, opened.source, self.root, self.settings, self.is_auto_indexed
        )

    def follow_settings(self, *, settle_seconds: float = SETTLE_SECONDS) -> None:
        """Apply changes made in settings files or by tools.

        A file is read only once it has been unchanged for `settle_seconds`.
        """
        if self._follows_settings and not self._handle.closed:
            self.followed_settings.look(self.store, self.settings, self.reconfigure, settle_seconds)

    # -- files and health

    def files(self, cancel: Cancel | None = None) -> tuple[ScannedFile, ...]:
        """Files that belong in the index, as they are on disk now."""
        return scan_files(self.root, self.settings, cancel)

    def view(self, path: str) -> FileView:
        """Read a file as it is now, with its chunks and symbols.

        Raises: FileError PATH_OUTSIDE, FILE_NOT_FOUND or FILE_UNREADABLE.
        """
        return self._views().view(path)

    def explain(self, path: str) -> str:
        """Explain why a file is or isn't in the index."""
        return self._views().explain(path)

    def relative(self, path: str) -> str:
        """Path relative to the root, with "/". Raises: FileError PATH_OUTSIDE."""
        return self._views().relative(path)

    def _views(self) -> FileViews:
        return FileViews(self.root, self.store, self.source, self.settings, self._single_file_pool)

    def knows(self, path: str) -> bool:
        """True if the index has anything at or below this relative path."""
        return self.store.content.knows(self.source.id, path)

    def holds_lease(self) -> bool:
        """Take the lease if it is free; true if this process holds it."""
        return self.store.lease.take()

    @property
    def has_embedder(self) -> bool:
        """True if an embedder is configured."""
        return self.embedders.wanted is not None

    def embedding_of_index(self) -> dict[str, str] | None:
        """Model and time of the vectors in use, None if there are none."""
        stamp = self.embedding.answering().stamp
        if stamp is None:
            return None
        return {
            "provider": stamp.provider,
            "model": stamp.model,
            "generated": self.freshness().last_indexed,
        }

    @property
    def running(self) -> bool:
        """True while an index run is under way."""
        return self._runs.running.is_set()

    def freshness(self) -> Freshness:
        """State and progress of the index."""
        return self._runs.freshness()

    def vitals(self) -> StoreStats:
        """Figures about the store."""
        return collect_stats(self._handle.current(), self.freshness(), self._searcher)

    def operations(self, limit: int = 20) -> list[Operation]:
        """Last entries of the operations log."""
        return self.store.log.recent(limit)

    # -- life cycle

    def reconfigure(self, settings: Settings) -> None:
        """Apply other settings from now on."""
        before, self.settings = self.settings, settings
        self._searcher.reconfigure(settings)
        self.store.content.redacts(settings.security.redact != "off")
        if embedder_settings(before) != embedder_settings(settings):
            old, self.embedders = self.embedders, open_embedders(settings)
            self.embedding.use(self.embedders)
            if not self._lent_embedders:
                old.close()
            self._lent_embedders = False
        for pool in (self._pool, self._single_file_pool):
            pool.limit(self._setup.sources.read_timeout(settings), settings.limits.memory.heap)

    def clean_up(self) -> None:
        """Drop orphaned content and log entries past their retention."""
        now = int(time.time())
        with self._runs.alive():
            # Between runs, because a run may be about to use a blob that is still orphaned.
            self._runs.between(lambda: self.store.content.sweep(now - ORPHAN_DAYS * 86_400))
            self.embedding.sweep(now - ORPHAN_DAYS * 86_400)
            self.store.content.drop_recent()
            if not self.store.indexes.verify():
                self.store.indexes.tidy()
            self.store.log.purge(
                now - self.settings.retention.days * 86_400, self.settings.limits.disk.logs
            )
            self.store.content.set({"cleanup": str(now)})
            self.store.checkpoint()

    def release_idle(self, idle_seconds: float) -> None:
        """Release worker processes and ad-hoc search data that were unused for that long."""
        self._pool.close_if_idle(idle_seconds)
        self._single_file_pool.close_if_idle(idle_seconds)
        self._searcher.release_idle(idle_seconds)

    def close(self) -> None:
        """Stop workers and a run under way, close the store, release the lease."""
        # Stop embedding first: it would fail with a closed embedder.
        self._handle.stop()
        self._searcher.close()
        self._single_file_pool.close()
        if not self._lent_embedders:
            self.embedders.close()
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
