"""Engine: one store with one folder of files as its main source, open in this process.

`index` brings a source up to date, `put` and `forget` write and remove texts, `search` answers
queries. The process with the store's lease writes; an engine without it reads, and asks the holder
to index. It knows no tool, protocol or command. Background indexing is in `engine/auto_indexer.py`,
a single run in `engine/indexer.py`, retrieval and ranking in `engine/search/`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from cortex.base.errors import CortexError, StoreError
from cortex.base.paths import ensure_store_dir, is_frozen, remember_project, root_text
from cortex.base.runtime.lru_cache import Cache
from cortex.base.runtime.process_stats import default_workers
from cortex.base.settings import Settings
from cortex.base.text import hash_bytes
from cortex.base.types import (
    Cancel,
    FileView,
    Freshness,
    IndexReport,
    Mode,
    Note,
    Page,
    ProgressCallback,
    Query,
    ScannedFile,
    Source,
    StoreStats,
)
from cortex.engine import chunkers, indexer
from cortex.engine.adhoc_search import AdhocSearch, search_files
from cortex.engine.embedders import Embedder
from cortex.engine.embedders.circuit_breaker import Embedders, open_embedders, who_embeds
from cortex.engine.embedding_coordinator import EmbeddingCoordinator
from cortex.engine.file_queue import Preference
from cortex.engine.file_view import FileViews
from cortex.engine.index_repair import Healing, Replacement, reported_damage
from cortex.engine.index_settings import SETTLE_SECONDS, FollowedSettings, IndexState
from cortex.engine.run_queue import IndexRequest, RunQueue
from cortex.engine.search import BELOW_THRESHOLD, NO_EMBEDDER, check_query, parse, search
from cortex.engine.sources.scanner import scan
from cortex.engine.store import Operation, Store
from cortex.engine.store_folder import find_store, has_lost_project
from cortex.engine.store_stats import collect_stats
from cortex.engine.worker.pool import Pool

# Above this, reading everything for one answer takes longer than indexing it once.
FULL_MODE_FILES = 2_500
# Time that a query waits for a first index before it answers from a partial one.
FIRST_ANSWER_SECONDS = 8.0
# A run over this many files takes a moment.
SHORT_RUN_FILES = 100
POLL_SECONDS = 0.05
# Pause after the indexes failed to catch up.
RETRY_SECONDS = 5.0
# Age at which content without a document is removed.
ORPHAN_DAYS = 14
NOT_ALL = "this folder is not fully indexed yet: answered from what is there"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Opened:
    """Everything that belongs to one opening of the store."""

    store: Store
    source: Source
    embedding: EmbeddingCoordinator
    runs: RunQueue

    def close(self) -> None:
        """Stop the work on the store, and close it."""
        self.runs.close()
        self.embedding.close()
        self.store.close()


@dataclass(frozen=True, slots=True)
class Followed:
    """A source to keep fresh, by watching its folder or by periodic scans."""

    source: Source
    watch: bool


class Engine:
    """One open store and the folder it indexes."""

    # A project's store can be rebuilt from its files. The store of a home can't, and is never set
    # aside.
    is_disposable = True

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
    ) -> None:
        """Open the store of a folder.

        `embedder` or `embedders` replace those of the settings; the owner of lent `embedders`
        closes them. A project's database that is damaged or of a newer version is set aside and
        begun anew, unless `keep_damaged`.
        """
        self.root = root.resolve()
        self.settings = settings
        self.followed_settings = FollowedSettings(settings)
        self._healing = Healing(
            self._is_damaged, self._repair, lambda: self.store.lease.holder() != 0
        )
        self._lent_embedders = embedders is not None
        self._embedders = embedders or (
            Embedders(embedder) if embedder is not None else open_embedders(settings)
        )
        self._pool = self._make_pool(settings.indexing.workers or default_workers())
        # For single files between runs; its process starts on first use.
        self._single_file_pool = self._make_pool(1)
        self._cache = _make_cache(settings)
        directory = None if in_memory else self._find_directory()
        self.read_only = read_only or (directory is not None and is_frozen(directory))
        self._follows_settings = not (in_memory or self.read_only)
        self._replacement = Replacement(
            self.root, allowed=self.is_disposable and not (self.read_only or keep_damaged)
        )
        self._opened = self._open(directory)
        self._reopen_lock = threading.Lock()
        self._closed = False
        # Count of searches, and their seconds.
        self._search_totals = (0, 0.0)
        # Time of the next attempt after the indexes failed to catch up.
        self._catch_up_after = 0.0
        self._adhoc_search = AdhocSearch(
            lambda: Engine(self.root, self.settings, in_memory=True, embedders=Embedders(None))
        )
        # An auto-indexer is at work, so a first run is under way or will soon be.
        self.kept = False
        self.follow_settings()

    # -- the store

    @property
    def store(self) -> Store:
        """The open store."""
        return self._current().store

    @property
    def source(self) -> Source:
        """Main source: the folder."""
        return self._current().source

    @property
    def embedding(self) -> EmbeddingCoordinator:
        """Embedding coordinator of the open store."""
        return self._current().embedding

    @property
    def _runs(self) -> RunQueue:
        return self._current().runs

    def _open(self, directory: Path | None) -> _Opened:
        return self._replacement.open(directory, self._open_once)

    def start_anew(self, error: CortexError) -> bool:
        """Set a project's damaged database aside and begin an empty one; true where done."""
        opened = self._opened
        if self._closed or not self._replacement.may_replace(opened.store, error):
            return False
        with self._reopen_lock:
            if self._opened is opened:
                opened.embedding.close()
                self._replacement.discard(opened.store, error)
                self._opened = self._open(opened.store.directory)
                self._cache = _make_cache(self.settings)
        return True

    def _open_once(self, directory: Path | None) -> _Opened:
        root = root_text(self.root)
        if directory is not None and not self.read_only:
            ensure_store_dir(directory)
            if directory.parent == self.root:
                remember_project(self.settings.home, self.root)
        store = self._open_store(directory, root)
        store.content.redacts(self.settings.security.redact != "off")
        try:
            source = self._main_source(store)
        except BaseException:
            store.close()
            raise
        embedding = EmbeddingCoordinator(store, self._embedders, lambda: self.settings)
        runs = RunQueue(store, source, self._pool, self.settings_of, embedding.makings)
        return _Opened(store, source, embedding, runs)

    def _open_store(self, directory: Path | None, root: str) -> Store:
        return Store(directory, root, read_only=self.read_only)

    def _find_directory(self) -> Path:
        return find_store(self.root, self.settings.home)

    def _main_source(self, store: Store) -> Source:
        root = root_text(self.root)
        return store.content.source("files", self.root.name or root, root)

    def _make_pool(self, size: int) -> Pool:
        return Pool(
            size,
            timeout_seconds=self._file_seconds(),
            memory_bytes=self.settings.limits.memory.heap,
        )

    def _file_seconds(self) -> float:
        return self.settings.limits.processing.chunk_timeout

    def settings_of(self, source: Source) -> Settings:
        """Settings for a source of this store; here the same for each."""
        return self.settings

    def followed(self) -> list[Followed]:
        """Sources to keep fresh."""
        return [Followed(self.source, self.settings.workspace.watch_files)]

    def _current(self) -> _Opened:
        """Return the open store; reopen it where its files were removed.

        No other process could see what is written to removed files.
        """
        opened = self._opened
        if self._closed or not opened.store.replaced:
            return opened
        with self._reopen_lock:
            directory = opened.store.directory
            if self._opened is not opened or directory is None or has_lost_project(directory):
                return self._opened
            log.warning("the files of %s were removed or replaced: it is opened anew", directory)
            self._opened = self._open(directory)
            self._cache = _make_cache(self.settings)
            opened.embedding.close()
            # This also ends a run under way, at its next step.
            opened.store.close()
        return self._opened

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

        Without the lease the holder does it. A run waits for the one under way; a forced run of the
        whole folder joins another one. `limited` rejects a second forced run within a minute.

        Raises: LimitError, Cancelled, FileError DISK_FULL, StoreError.
        """
        self.follow_settings(settle_seconds=0.0)
        wanted = None if paths is None else tuple(sorted({path.strip("/") for path in paths}))
        cancel = Cancel() if cancel is None else cancel
        opened = self._current()
        try:
            return opened.runs.index(
                IndexRequest(source or opened.source, force, wanted, limited, progress, cancel)
            )
        except StoreError as error:
            # A source of the old store is unknown in the new one: its auto-indexer begins anew.
            if not self.start_anew(error) or source is not None:
                raise
        opened = self._current()
        return opened.runs.index(
            IndexRequest(opened.source, force, wanted, limited, progress, cancel)
        )

    def serve_requests(self) -> None:
        """As the lease holder, run other processes' requests, and update the indexes."""
        self.follow_settings()
        if self._replacement.is_due(self.store.directory):
            self.start_anew(reported_damage(self.store))
        self._runs.serve_requests()
        if time.monotonic() < self._catch_up_after:
            return
        try:
            self.catch_up()
        except CortexError as error:
            log.warning("the indexes of %s don't follow: %s", self.root, error.message)
            self._catch_up_after = time.monotonic() + RETRY_SECONDS

    def catch_up(self) -> None:
        """Bring the indexes up to date with the database, if this process can hold the lease.

        They lag where a writer ended before they followed, or where the database was copied without
        them.
        """
        if not self.store.lease.take():
            return
        behind = (
            self.store.content.words_linger
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
        """Remove docs and their content at once and for good."""
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
                f"process {self.store.lease.holder()} holds the store of {self.root}",
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

        Only `docs` may be returned, where they are given.

        Raises: InputError, LimitError SEARCH_TIMEOUT or REGEX_TIMEOUT, Cancelled, StoreError.
        """
        try:
            return self._search(query, cancel, sources, docs)
        except StoreError as error:
            if not self.start_anew(error) or sources is not None:
                raise
        if not self.kept:
            self.index(cancel=cancel)
        return self._search(query, cancel, sources, docs)

    def _search(
        self,
        query: Query,
        cancel: Cancel | None,
        sources: Sequence[Source] | None,
        docs: frozenset[int] | None,
    ) -> Page:
        started = time.monotonic()
        check_query(query)
        uses_index = query.mode not in (Mode.EXACT, Mode.FULL)
        searches_folder = sources is None and uses_index
        if searches_folder:
            self._await_first_index(query, cancel)
        cancel = Cancel() if cancel is None else cancel
        deadline = started + self.settings.search.timeout
        searched = (self.source,) if sources is None else tuple(sources)
        state = self._state()
        is_cacheable = self.settings.search.enable_caching and uses_index
        # A digest of the docs: 100,000 of them are some 8 MB, which the cache would not count.
        digest = docs if docs is None else (len(docs), hash(docs))
        key = (searched, query, state, digest, self.store.viewer)
        page = self._cache.get(key) if is_cacheable else None
        if page is None:
            page = self._answer(query, searched, docs, cancel, deadline)
            page = self.state.without_excluded(page) if searches_folder else page
            # The state differs where an embedder failed meanwhile, or a write came between.
            if is_cacheable and self._state() == state:
                self._cache.put(key, page, 2 * len(query.text) + 8 * len(query.snippets))
        else:
            page = replace(page, cached=True)
        count, seconds = self._search_totals
        self._search_totals = (count + 1, seconds + time.monotonic() - started)
        if searches_folder:
            page = self._with_progress(page)
        if sources is None:
            page = replace(page, notes=(*self.state.shortcomings(), *page.notes))
        return page

    def _state(self) -> tuple[object, ...]:
        """All that an answer depends on besides its query."""
        return self.store.content.seq(), self.store.indexes.state(), self.embedding.state()

    def _is_damaged(self) -> bool:
        return self.store.indexes.damaged or self.embedding.damaged

    def _repair(self) -> bool:
        """Rebuild damaged indexes in this thread.

        False where an auto-indexer or another process does it.
        """
        if self.kept or self.read_only or not self.store.lease.take():
            return False
        self.embedding.catch_up()
        return True

    def _with_progress(self, page: Page) -> Page:
        """Add a note about files that are not indexed yet.

        During a first run it replaces the note that nothing was found.
        """
        if self.store.content.get(f"indexed:{self.source.id}"):
            note = self._runs.progress_note(SHORT_RUN_FILES)
            return replace(page, notes=(*page.notes, note)) if note else page
        note = self._runs.unread() if self._is_indexing() else NOT_ALL
        notes = (note, *(other for other in page.notes if not other.startswith(BELOW_THRESHOLD)))
        notes = (self._replacement.notice, *notes) if self._replacement.notice else notes
        return replace(page, notes=notes, is_partial=True)

    def _is_indexing(self) -> bool:
        """True where a run is under way or will soon be, here or in the lease holder."""
        return (
            self.running
            or self.kept
            or (not self.store.lease.held and self.store.lease.holder() > 0)
        )

    def _answer(
        self,
        query: Query,
        sources: Sequence[Source],
        docs: frozenset[int] | None,
        cancel: Cancel,
        deadline: float,
    ) -> Page:
        match query.mode:
            case Mode.EXACT:
                return search_files(
                    query, self.source, self.files(cancel), self.settings, deadline, cancel
                )
            case Mode.FULL:
                return self._search_full(query, cancel, deadline)
            case _:
                return self._search_index(query, sources, docs, cancel, deadline)

    def _search_index(
        self,
        query: Query,
        sources: Sequence[Source],
        docs: frozenset[int] | None,
        cancel: Cancel,
        deadline: float,
    ) -> Page:
        tried_repair = not self._healing.heal()
        while True:
            answering = self.embedding.answering()
            embedder, stamp = answering.embedder, answering.stamp
            meaning = (stamp, embedder.query) if embedder and stamp else None
            try:
                page = search(
                    self.store,
                    sources,
                    query,
                    meaning=meaning,
                    cancel=cancel,
                    deadline=deadline,
                    why_words=answering.why or NO_EMBEDDER,
                    docs=docs,
                )
            except CortexError as error:
                if embedder is None or not (embedder.rests or self.store.indexes.sets.away):
                    raise
                log.warning("%s could not answer a question: %s", embedder.name, error.message)
                # This embedder rests now: the next one answers, or lexical search does.
                continue
            if not tried_repair and self._is_damaged():
                # The damage was discovered by this search.
                tried_repair = True
                if self._healing.heal():
                    continue
            stands_in = meaning is not None and answering.why and page.mode is not Mode.WORDS
            return replace(page, notes=(*page.notes, answering.why)) if stands_in else page

    def _search_full(self, query: Query, cancel: Cancel, deadline: float) -> Page:
        """Read the files as they are, then chunk and rank them without the index."""
        count = len(self.files(cancel))
        if count > FULL_MODE_FILES:
            page = self._answer(
                replace(query, mode=Mode.HYBRID), (self.source,), None, cancel, deadline
            )
            note = (
                f"fullworkspace reads at most {FULL_MODE_FILES} files, this workspace has "
                f"{count}: answered from the index"
            )
            return self._with_progress(replace(page, notes=(note, *page.notes)))
        page = self._adhoc_search.search(query, cancel, deadline)
        return replace(
            page,
            mode=Mode.FULL,
            hits=tuple(replace(hit, source=self.source.id) for hit in page.hits),
        )

    def _await_first_index(self, query: Query, cancel: Cancel | None) -> None:
        """Wait a little for the first index.

        Waits for the files that match the query; where the run is short, for all of it.
        """
        deadline = time.monotonic() + FIRST_ANSWER_SECONDS
        preference: Preference | None = None
        while (
            time.monotonic() < deadline
            and not cancel
            and not self.store.content.get(f"indexed:{self.source.id}")
            and not self._runs.error
            and self._is_indexing()
        ):
            queue = self._runs.queue
            if preference is None and queue is not None:
                preference = queue.prefer(parse(query.text, query.code).keywords)
            # The matching files are searchable, or only the process that indexes knows them.
            is_answerable = not self.running or (
                preference is not None and preference.is_searchable
            )
            if is_answerable and self.store.indexes.state()[1] >= 1 and not self._is_short_run:
                return
            time.sleep(POLL_SECONDS)

    @property
    def _is_short_run(self) -> bool:
        return self.running and self._runs.step.total <= SHORT_RUN_FILES

    # -- settings

    @property
    def state(self) -> IndexState:
        """Settings that the index was made with, compared to the current ones."""
        return IndexState(self.store, self.source, self.root, self.settings, self.kept)

    def follow_settings(self, *, settle_seconds: float = SETTLE_SECONDS) -> None:
        """Apply changes of the settings files and of tools.

        A file that was just written is given `settle_seconds`.
        """
        if self._follows_settings and not self._closed:
            self.followed_settings.look(self.store, self.settings, self.reconfigure, settle_seconds)

    # -- files and health

    def files(self, cancel: Cancel | None = None) -> tuple[ScannedFile, ...]:
        """Files that belong in the index, as they are on disk now."""
        return scan(self.root, indexer.rules_of(self.settings, self.root), cancel).files

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
        """True where anything at or below this relative path is in the index."""
        return self.store.content.knows(self.source.id, path)

    def holds(self) -> bool:
        """True where this process holds the lease, or could take it just now."""
        return self.store.lease.take()

    @property
    def meaning(self) -> bool:
        """True where an embedder is configured."""
        return self._embedders.wanted is not None

    def embedding_of_index(self) -> dict[str, str] | None:
        """Model and time of the vectors that are searched; None without any."""
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
        return collect_stats(
            self.store,
            self.source,
            self.freshness(),
            self._runs,
            self.embedding,
            self._cache,
            self._search_totals,
        )

    def operations(self, limit: int = 20) -> list[Operation]:
        """Last entries of the operations log."""
        return self.store.log.recent(limit)

    # -- life cycle

    def reconfigure(self, settings: Settings) -> None:
        """Apply other settings from now on."""
        before, self.settings = self.settings, settings
        self._cache = _make_cache(settings)
        self.store.content.redacts(settings.security.redact != "off")
        if who_embeds(before) != who_embeds(settings):
            old, self._embedders = self._embedders, open_embedders(settings)
            self.embedding.use(self._embedders)
            if not self._lent_embedders:
                old.close()
            self._lent_embedders = False
        for pool in (self._pool, self._single_file_pool):
            pool.limit(self._file_seconds(), settings.limits.memory.heap)
        self._adhoc_search.reconfigure(settings)

    def clean_up(self) -> None:
        """Drop orphaned content and log entries past their retention."""
        now = int(time.time())
        with self._runs.alive():
            # Between runs, because a run may be about to use a blob that nothing else does.
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

    def rest(self, idle_seconds: float) -> None:
        """Release worker processes and ad-hoc search data that were unused for that long."""
        self._pool.close_if_idle(idle_seconds)
        self._single_file_pool.close_if_idle(idle_seconds)
        self._adhoc_search.rest(idle_seconds)

    def close(self) -> None:
        """Stop workers and a run under way, close the store, release the lease."""
        self._closed = True
        self._adhoc_search.close()
        self._single_file_pool.close()
        # Stopped first, or its embedder would fail because it is closed.
        self._opened.embedding.stop()
        if not self._lent_embedders:
            self._embedders.close()
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _make_cache(settings: Settings) -> Cache:
    return Cache(
        min(settings.search.cache_size, settings.limits.memory.cache),
        settings.retention.days * 86_400,
    )
