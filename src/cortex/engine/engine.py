"""The three verbs.

`index` brings a source up to date, `put` and `forget` take what is written, `search` answers.

An Engine is one store with one folder of files as its main source, open in this process. Whoever
holds the store's lease writes; an engine without it reads, and asks the holder to index. Keeping a
folder fresh in the background is `engine/auto_indexer.py`'s work, how a run goes is
`engine/indexer.py`'s, how an answer is found is `engine/search/`'s. It knows no tool, protocol or
command.
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
from cortex.engine.store_stats import vitals_of
from cortex.engine.worker import Pool

# Above this, reading everything for one answer takes longer than indexing it once
FULL_MODE_FILES = 2_500
# How long a query waits for a first index before it answers from what is there
FIRST_ANSWER_SECONDS = 8.0
SHORT_RUN_FILES = 100  # that take a moment
POLL_SECONDS = 0.05
RETRY_SECONDS = 5.0  # after the indexes could not follow
ORPHAN_DAYS = 14
NOT_ALL = "this folder is not fully indexed yet: answered from what is there"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Opened:
    """What belongs to one opening of the store."""

    store: Store
    source: Source
    embedding: EmbeddingCoordinator
    runs: RunQueue

    def close(self) -> None:
        """End what works on the store, and close it."""
        self.runs.close()
        self.embedding.close()
        self.store.close()


@dataclass(frozen=True, slots=True)
class Followed:
    """A source that is kept fresh, by watching its folder or by comparing it from time to time."""

    source: Source
    watch: bool


class Engine:
    """One open store and the folder it indexes."""

    # Everything in a project's store can be read again from its files; a home's is never set aside.
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
        """`embedder`, or `embedders`, take the place of those that the settings choose.

        A project's database that is damaged or of a newer version is set aside and begun anew,
        unless `keep_damaged`.
        """
        self.root = root.resolve()
        self.settings = settings
        self.followed_settings = FollowedSettings(settings)
        self._healing = Healing(
            self._is_damaged, self._repair, lambda: self.store.lease.holder() != 0
        )
        self._lent_embedders = embedders is not None  # whoever lends them closes them
        self._embedders = embedders or (
            Embedders(embedder) if embedder is not None else open_embedders(settings)
        )
        self._pool = self._make_pool(settings.indexing.workers or default_workers())
        # For one file between the runs; a process only when it is used
        self._single = self._make_pool(1)
        self._cache = _make_cache(settings)
        directory = None if in_memory else self._find_directory()
        self.read_only = read_only or (directory is not None and is_frozen(directory))
        self._follows = not (in_memory or self.read_only)
        self._replacement = Replacement(
            self.root, allowed=self.is_disposable and not (self.read_only or keep_damaged)
        )
        self._opened = self._open(directory)
        self._reopening = threading.Lock()
        self._closed = False
        self._searches = (0, 0.0)  # count, seconds
        self._not_before = 0.0  # that the indexes are tried to follow again
        self._scratch = AdhocSearch(
            lambda: Engine(self.root, self.settings, in_memory=True, embedders=Embedders(None))
        )
        self.kept = False  # a keeper is at work, so that a first run is under way or will soon be
        self.follow_settings()

    # -- the store
    # -----------------------------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """The open store."""
        return self._current().store

    @property
    def source(self) -> Source:
        """The folder as a source of the open store."""
        return self._current().source

    @property
    def embedding(self) -> EmbeddingCoordinator:
        """Whose vectors the open store has, and whose answer."""
        return self._current().embedding

    @property
    def _runs(self) -> RunQueue:
        return self._current().runs

    def _open(self, directory: Path | None) -> _Opened:
        return self._replacement.open(directory, self._open_once)

    def start_anew(self, error: CortexError) -> bool:
        """Set the database of a project aside that turned out to be damaged, and begin an empty
        one; true where done.
        """
        before = self._opened
        if self._closed or not self._replacement.may_replace(before.store, error):
            return False
        with self._reopening:
            if self._opened is before:
                before.embedding.close()
                self._replacement.discard(before.store, error)
                self._opened = self._open(before.store.directory)
                self._cache = _make_cache(self.settings)
        return True

    def _open_once(self, directory: Path | None) -> _Opened:
        root = root_text(self.root)
        if directory is not None and not self.read_only:
            ensure_store_dir(directory)
            if directory.parent == self.root:
                remember_project(self.settings.home, self.root)
        store = self._open_store(directory, root)
        store.lookup.redacts(self.settings.security.redact != "off")
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
        return store.truth.source("files", self.root.name or root, root)

    def _make_pool(self, size: int) -> Pool:
        return Pool(
            size,
            timeout_seconds=self._file_seconds(),
            memory_bytes=self.settings.limits.memory.heap,
        )

    def _file_seconds(self) -> float:
        return self.settings.limits.processing.chunk_timeout

    def settings_of(self, source: Source) -> Settings:
        """What holds for a source of this store; here the same for each."""
        return self.settings

    def followed(self) -> list[Followed]:
        """What a keeper follows."""
        return [Followed(self.source, self.settings.workspace.watch_files)]

    def _current(self) -> _Opened:
        """What is open, opened anew where somebody removed the store's files: nobody else could see
        what is written to them.
        """
        before = self._opened
        if self._closed or not before.store.replaced:
            return before
        with self._reopening:
            directory = before.store.directory
            if self._opened is not before or directory is None or has_lost_project(directory):
                return self._opened
            log.warning("the files of %s were removed or replaced: it is opened anew", directory)
            self._opened = self._open(directory)
            self._cache = _make_cache(self.settings)
            before.embedding.close()
            before.store.close()  # which ends a run under way at its next step
        return self._opened

    # -- index
    # ---------------------------------------------------------------------------------------------------------

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
        """Bring the folder (or another source), or only these files and folders of it, up to date;
        without the lease, by asking its holder.

        A run waits for the one under way; a forced one of the whole folder joins another that is.
        `limited` refuses a second forced run within a minute. Raises: LimitError, Cancelled,
        FileError DISK_FULL, StoreError.
        """
        self.follow_settings(settle_seconds=0.0)
        wanted = None if paths is None else tuple(sorted({path.strip("/") for path in paths}))
        cancel = Cancel() if cancel is None else cancel
        now = self._current()
        try:
            return now.runs.index(
                IndexRequest(source or now.source, force, wanted, limited, progress, cancel)
            )
        except StoreError as error:
            # A source of the old store means nothing in the new one: its keeper begins anew.
            if not self.start_anew(error) or source is not None:
                raise
        now = self._current()
        return now.runs.index(IndexRequest(now.source, force, wanted, limited, progress, cancel))

    def serve_requests(self) -> None:
        """As the lease holder, do what other processes asked for, and let the indexes forget what
        they removed for good.
        """
        self.follow_settings()
        if self._replacement.is_due(self.store.directory):
            self.start_anew(reported_damage(self.store))
        self._runs.serve_requests()
        if time.monotonic() < self._not_before:
            return
        try:
            self.catch_up()
        except CortexError as error:
            log.warning("the indexes of %s don't follow: %s", self.root, error.message)
            self._not_before = time.monotonic() + RETRY_SECONDS

    def catch_up(self) -> None:
        """Have the indexes follow, where this process may, what somebody wrote who ended before
        they did, or what was copied without them.
        """
        if not self.store.lease.take():
            return
        behind = (
            self.store.truth.words_linger or self.store.indexes.state()[1] < self.store.truth.seq()
        )
        if behind or (not self.running and self.embedding.lags):
            with self._runs.alive():
                self.embedding.catch_up()
                self.store.indexes.tidy()

    # -- put and forget
    # ------------------------------------------------------------------------------------------------

    def put(self, notes: Iterable[Note]) -> list[int]:
        """Take texts that were written, so that they are found at once; returns their doc ids.

        Raises: StoreError STORE_LOCKED when another process holds the lease.
        """
        self._need_lease()
        size, texts = self.settings.indexing.chunk_size, []
        for note in notes:
            source = self.store.truth.source("records", note.source, "")
            cut = chunkers.cut(note.text, note.path, note.language, size, 0)
            raw = note.text.encode("utf-8")
            file = ScannedFile(note.path, len(raw), time.time_ns())
            key = hash_bytes(
                b"put", f"{chunkers.VERSION}:{size}".encode(), note.language.encode(), raw
            )
            texts.append((source.id, file, key, cut))
        ids = self.store.truth.put(texts)
        self.embedding.catch_up()
        return ids

    def forget(self, docs: Iterable[int]) -> None:
        """Remove docs and their content at once and for good."""
        self._need_lease()
        gone = list(docs)
        self.store.truth.forget(gone)
        self.store.lookup.drop_recent()
        self.embedding.catch_up()
        self.store.log.record("delete", {"docs": len(gone)})

    def _need_lease(self) -> None:
        if not self.store.lease.take():
            raise StoreError(
                "STORE_LOCKED",
                f"process {self.store.lease.holder()} holds the store of {self.root}",
            )

    # -- search
    # --------------------------------------------------------------------------------------------------------

    def search(
        self,
        query: Query,
        *,
        cancel: Cancel | None = None,
        sources: Sequence[Source] | None = None,
        docs: frozenset[int] | None = None,
    ) -> Page:
        """Answer a query from the folder, or from other sources of the store; `docs` are all of
        them that may answer.

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
        indexed = sources is None and query.mode not in (Mode.EXACT, Mode.FULL)
        if indexed:
            self._await_first_index(query, cancel)
        cancel = Cancel() if cancel is None else cancel  # an unraised flag is false
        deadline = started + self.settings.search.timeout
        where = (self.source,) if sources is None else tuple(sources)
        state = self._state()
        caching = self.settings.search.enable_caching and query.mode not in (Mode.EXACT, Mode.FULL)
        # Not the docs themselves: of 100,000 each would hold some 8 MB that the cache knows nothing
        # of.
        key = (
            where,
            query,
            state,
            docs if docs is None else (len(docs), hash(docs)),
            self.store.viewer,
        )
        page = self._cache.get(key) if caching else None
        if page is None:
            page = self._answer(query, where, docs, cancel, deadline)
            page = self.state.without_excluded(page) if indexed else page
            # Else an embedder failed on the way, or something was written
            if caching and self._state() == state:
                self._cache.put(key, page, 2 * len(query.text) + 8 * len(query.snippets))
        else:
            page = replace(page, cached=True)
        count, seconds = self._searches
        self._searches = (count + 1, seconds + time.monotonic() - started)
        page = self._with_progress(page) if indexed else page
        return (
            page
            if sources is not None
            else replace(page, notes=(*self.state.shortcomings(), *page.notes))
        )

    def _state(self) -> tuple[object, ...]:
        """All that an answer depends on besides its query."""
        return self.store.truth.seq(), self.store.indexes.state(), self.embedding.state()

    def _is_damaged(self) -> bool:
        return self.store.indexes.damaged or self.embedding.damaged

    def _repair(self) -> bool:
        """Build damaged indexes anew in this thread; false where a keeper or another process does
        it.
        """
        if self.kept or self.read_only or not self.store.lease.take():
            return False
        self.embedding.catch_up()
        return True

    def _with_progress(self, page: Page) -> Page:
        """The page, saying which files it doesn't know yet, and not, during a first run, that there
        is nothing.
        """
        if self.store.truth.get(f"indexed:{self.source.id}"):
            note = self._runs.progress_note(SHORT_RUN_FILES)
            return replace(page, notes=(*page.notes, note)) if note else page
        note = self._runs.unread() if self._is_indexing() else NOT_ALL
        notes = (note, *(other for other in page.notes if not other.startswith(BELOW_THRESHOLD)))
        notes = (self._replacement.notice, *notes) if self._replacement.notice else notes
        return replace(page, notes=notes, is_partial=True)

    def _is_indexing(self) -> bool:
        """Whether a run is under way or will soon be, here or where the lease is held."""
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
        tried = not self._healing.heal()
        while True:
            now = self.embedding.answering()
            meaning = (now.stamp, now.embedder.query) if now.embedder and now.stamp else None
            try:
                page = search(
                    self.store,
                    sources,
                    query,
                    meaning=meaning,
                    cancel=cancel,
                    deadline=deadline,
                    why_words=now.why or NO_EMBEDDER,
                    docs=docs,
                )
            except CortexError as error:
                if now.embedder is None or not (now.embedder.rests or self.store.indexes.sets.away):
                    raise
                log.warning("%s could not answer a question: %s", now.embedder.name, error.message)
                continue  # it rests now: the next one answers, or words do
            if not tried and self._is_damaged():
                # It turned out on the way.
                tried = True
                if self._healing.heal():
                    continue
            stands_in = meaning is not None and now.why and page.mode is not Mode.WORDS
            return replace(page, notes=(*page.notes, now.why)) if stands_in else page

    def _search_full(self, query: Query, cancel: Cancel, deadline: float) -> Page:
        """Read the files as they are, cut and rank every chunk, without the index."""
        count = len(self.files(cancel))
        if count > FULL_MODE_FILES:
            page = self._answer(
                replace(query, mode=Mode.HYBRID), (self.source,), None, cancel, deadline
            )
            note = f"fullworkspace reads at most {FULL_MODE_FILES} files, this workspace has {count}: answered from the index"
            return self._with_progress(replace(page, notes=(note, *page.notes)))
        page = self._scratch.search(query, cancel, deadline)
        return replace(
            page,
            mode=Mode.FULL,
            hits=tuple(replace(hit, source=self.source.id) for hit in page.hits),
        )

    def _await_first_index(self, query: Query, cancel: Cancel | None) -> None:
        """Where nothing is indexed yet, wait a little for the files that fit the query; where the
        run is short, for all of it.
        """
        deadline = time.monotonic() + FIRST_ANSWER_SECONDS
        preference: Preference | None = None
        while (
            time.monotonic() < deadline
            and not cancel
            and not self.store.truth.get(f"indexed:{self.source.id}")
            and not self._runs.error
            and self._is_indexing()
        ):
            queue = self._runs.queue
            if preference is None and queue is not None:
                preference = queue.prefer(parse(query.text, query.code).keywords)
            # Words of some files are there, and of all that fit, or what fits isn't known in this
            # process.
            fitting = not self.running or (preference is not None and preference.is_searchable)
            if fitting and self.store.indexes.state()[1] >= 1 and not self._is_short_run:
                return
            time.sleep(POLL_SECONDS)

    @property
    def _is_short_run(self) -> bool:
        return self.running and self._runs.step.total <= SHORT_RUN_FILES

    # -- settings
    # ------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> IndexState:
        """What the index was made with, against what the settings say now."""
        return IndexState(self.store, self.source, self.root, self.settings, self.kept)

    def follow_settings(self, *, settle_seconds: float = SETTLE_SECONDS) -> None:
        """Work with what the settings files, and a tool's changes, say now; a file that was just
        written is given time.
        """
        if self._follows and not self._closed:
            self.followed_settings.look(self.store, self.settings, self.reconfigure, settle_seconds)

    # -- files and health
    # ----------------------------------------------------------------------------------------------

    def files(self, cancel: Cancel | None = None) -> tuple[ScannedFile, ...]:
        """The files that belong in the index, as they are on disk now."""
        return scan(self.root, indexer.rules_of(self.settings, self.root), cancel).files

    def view(self, path: str) -> FileView:
        """A file as it is now, with its chunks and symbols.

        Raises: FileError PATH_OUTSIDE, FILE_NOT_FOUND or FILE_UNREADABLE.
        """
        return self._views().view(path)

    def explain(self, path: str) -> str:
        """Why a file is or isn't in the index."""
        return self._views().explain(path)

    def relative(self, path: str) -> str:
        """The path relative to the root, with "/". Raises: FileError PATH_OUTSIDE."""
        return self._views().relative(path)

    def _views(self) -> FileViews:
        return FileViews(self.root, self.store, self.source, self.settings, self._single)

    def knows(self, path: str) -> bool:
        """Whether anything at or below this relative path is in the index."""
        return self.store.lookup.knows(self.source.id, path)

    def holds(self) -> bool:
        """Whether this process is, or can become, the one that indexes."""
        return self.store.lease.take()

    @property
    def meaning(self) -> bool:
        """Whether there is an embedder."""
        return self._embedders.wanted is not None

    def embedding_of_index(self) -> dict[str, str] | None:
        """Whose vectors of the chunks are searched and when they were made, None where there are
        none.
        """
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
        """Whether an index run is under way."""
        return self._runs.running.is_set()

    def freshness(self) -> Freshness:
        """How far the index follows the folder."""
        return self._runs.freshness()

    def vitals(self) -> StoreStats:
        """How the store is."""
        return vitals_of(
            self.store,
            self.source,
            self.freshness(),
            self._runs,
            self.embedding,
            self._cache,
            self._searches,
        )

    def operations(self, limit: int = 20) -> list[Operation]:
        """The last lines of the operations log."""
        return self.store.log.recent(limit)

    # -- life
    # ----------------------------------------------------------------------------------------------------------

    def reconfigure(self, settings: Settings) -> None:
        """Work with other settings from now on."""
        before, self.settings = self.settings, settings
        self._cache = _make_cache(settings)
        self.store.lookup.redacts(settings.security.redact != "off")
        if who_embeds(before) != who_embeds(settings):
            old, self._embedders = self._embedders, open_embedders(settings)
            self.embedding.use(self._embedders)
            if not self._lent_embedders:
                old.close()
            self._lent_embedders = False
        for pool in (self._pool, self._single):
            pool.limit(self._file_seconds(), settings.limits.memory.heap)
        self._scratch.reconfigure(settings)

    def clean_up(self) -> None:
        """Drop what is older than it is to be kept: orphaned blobs, log lines; cached answers end
        by themselves.
        """
        now = int(time.time())
        with self._runs.alive():
            # A run may be about to use a blob that nothing else does.
            self._runs.between(lambda: self.store.truth.sweep(now - ORPHAN_DAYS * 86_400))
            self.embedding.sweep(now - ORPHAN_DAYS * 86_400)
            self.store.lookup.drop_recent()
            if not self.store.indexes.verify():
                self.store.indexes.tidy()
            self.store.log.purge(
                now - self.settings.retention.days * 86_400, self.settings.limits.disk.logs
            )
            self.store.truth.set({"cleanup": str(now)})
            self.store.checkpoint()

    def rest(self, idle_seconds: float) -> None:
        """Let go of worker processes, and of what was read for searches without the index, when
        unused for that long.
        """
        self._pool.close_if_idle(idle_seconds)
        self._single.close_if_idle(idle_seconds)
        self._scratch.rest(idle_seconds)

    def close(self) -> None:
        """End workers and a run under way, close the store, give the lease back."""
        self._closed = True
        self._scratch.close()
        self._single.close()
        self._opened.embedding.stop()  # before its embedder fails because it is closed
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
