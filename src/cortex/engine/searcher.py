"""Searcher: answers the queries of one engine.

Chooses the way to answer by the query's mode, caches answers, waits for a first index, and retries
when an embedder or an index fails. Retrieval and ranking are in `engine/search/`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cortex.base.errors import CortexError
from cortex.base.runtime.lru_cache import Cache
from cortex.base.settings import Settings
from cortex.base.types import Cancel, Mode, Page, Query, Source
from cortex.engine.adhoc_search import AdhocSearch, Reader, search_files
from cortex.engine.file_queue import Preference
from cortex.engine.index_repair import Healing
from cortex.engine.index_settings import IndexState
from cortex.engine.indexer import scan_files
from cortex.engine.opened_store import OpenedStore
from cortex.engine.search import BELOW_THRESHOLD, NO_EMBEDDER, check_query, parse, search

# With more files, reading all of them for one answer takes longer than indexing them once.
FULL_MODE_FILES = 2_500
# Time that a query waits for a first index before it answers from a partial one.
FIRST_ANSWER_SECONDS = 8.0
# A run over at most this many files takes only a moment.
SHORT_RUN_FILES = 100
POLL_SECONDS = 0.05
NOT_ALL = "this folder is not fully indexed yet: answered from what is there"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Request:
    """A query, with the sources and docs that may answer it."""

    query: Query
    sources: tuple[Source, ...]
    # The only docs that may be returned; None for all docs of the sources.
    docs: frozenset[int] | None
    cancel: Cancel
    deadline: float
    # True if the index of the engine's own folder is searched.
    is_of_folder: bool


class Searcher:
    """Answers queries from the open store, or from the files themselves."""

    def __init__(
        self,
        opened: Callable[[], OpenedStore],
        state: Callable[[], IndexState],
        open_reader: Callable[[], Reader],
        repair: Callable[[], bool],
        notice: Callable[[], str],
    ) -> None:
        """Answer from the store that `opened` returns.

        In full mode an engine in memory answers, which `open_reader` opens. `repair` is as in
        `Healing`; `notice` returns the reason for which the store was replaced, or "".
        """
        self._opened = opened
        self._state = state
        self._healing = Healing(
            lambda: opened().damaged, repair, lambda: opened().store.lease.holder() != 0
        )
        self._adhoc = AdhocSearch(open_reader)
        self._notice = notice
        self.reset_cache(state().settings)
        # Number of searches, and their seconds.
        self.totals = (0, 0.0)

    def reset_cache(self, settings: Settings) -> None:
        """Replace the cache by an empty one of the size that the settings allow."""
        self.cache = Cache(
            min(settings.search.cache_size, settings.limits.memory.cache),
            settings.retention.days * 86_400,
        )

    def reconfigure(self, settings: Settings) -> None:
        """Apply other settings from now on."""
        self.reset_cache(settings)
        self._adhoc.reconfigure(settings)

    def release_idle(self, idle_seconds: float) -> None:
        """Close the engine in memory if it was unused for that long."""
        self._adhoc.release_idle(idle_seconds)

    def close(self) -> None:
        """Close the engine in memory; a search under way ends at its next file."""
        self._adhoc.close()

    def search(
        self,
        query: Query,
        cancel: Cancel,
        sources: Sequence[Source] | None,
        docs: frozenset[int] | None,
    ) -> Page:
        """Answer a query from the folder, or from other sources of the store."""
        started = time.monotonic()
        check_query(query)
        uses_index = query.mode not in (Mode.EXACT, Mode.FULL)
        is_of_folder = sources is None and uses_index
        if is_of_folder:
            self._await_first_index(query, cancel)
        state = self._state()
        searched = (state.source,) if sources is None else tuple(sources)
        deadline = started + state.settings.search.timeout
        request = _Request(query, searched, docs, cancel, deadline, is_of_folder)
        if state.settings.search.enable_caching and uses_index:
            page = self._answer_cached(request)
        else:
            page = self._answer(request)
        count, seconds = self.totals
        self.totals = (count + 1, seconds + time.monotonic() - started)
        if is_of_folder:
            page = self._with_progress(page)
        if sources is None:
            page = replace(page, notes=(*self._state().shortcomings(), *page.notes))
        return page

    def _answer_cached(self, request: _Request) -> Page:
        """Answer from the cache, or cache the answer."""
        query, docs, version = request.query, request.docs, self._version()
        # The key has a digest of the docs: 100,000 ids take some 8 MB, which the cache would not
        # count.
        digest = docs if docs is None else (len(docs), hash(docs))
        key = (request.sources, query, version, digest, self._opened().store.viewer)
        if (page := self.cache.get(key)) is not None:
            return replace(page, cached=True)
        page = self._answer(request)
        # The version differs if an embedder failed or a write happened meanwhile.
        if self._version() == version:
            self.cache.put(key, page, 2 * len(query.text) + 8 * len(query.snippets))
        return page

    def _version(self) -> tuple[object, ...]:
        """State of the store, its indexes and its embedder, on which an answer depends."""
        opened = self._opened()
        store = opened.store
        return store.content.seq(), store.indexes.state(), opened.embedding.state()

    def _answer(self, request: _Request) -> Page:
        match request.query.mode:
            case Mode.EXACT:
                return self._search_exact(request)
            case Mode.FULL:
                return self._search_full(request)
            case _:
                page = self._search_index(request)
                return self._state().without_excluded(page) if request.is_of_folder else page

    def _search_exact(self, request: _Request) -> Page:
        state = self._state()
        files = scan_files(state.root, state.settings, request.cancel)
        return search_files(
            request.query, state.source, files, state.settings, request.deadline, request.cancel
        )

    def _search_full(self, request: _Request) -> Page:
        """Read the files as they are, then chunk and rank them without the index."""
        state, query = self._state(), request.query
        count = len(scan_files(state.root, state.settings, request.cancel))
        if count > FULL_MODE_FILES:
            page = self._search_index(
                replace(
                    request,
                    query=replace(query, mode=Mode.HYBRID),
                    sources=(state.source,),
                    docs=None,
                )
            )
            note = (
                f"fullworkspace reads at most {FULL_MODE_FILES} files, this workspace has "
                f"{count}: answered from the index"
            )
            return self._with_progress(replace(page, notes=(note, *page.notes)))
        page = self._adhoc.search(query, request.cancel, request.deadline)
        hits = tuple(replace(hit, source=state.source.id) for hit in page.hits)
        return replace(page, mode=Mode.FULL, hits=hits)

    def _search_index(self, request: _Request) -> Page:
        """Answer from the index; try the next embedder if one fails, and repair damage once."""
        tried_repair = not self._healing.heal()
        while True:
            opened = self._opened()
            answering = opened.embedding.answering()
            embedder, stamp = answering.embedder, answering.stamp
            model = (stamp, embedder.query) if embedder and stamp else None
            try:
                page = search(
                    opened.store,
                    request.sources,
                    request.query,
                    model=model,
                    cancel=request.cancel,
                    deadline=request.deadline,
                    lexical_reason=answering.why or NO_EMBEDDER,
                    docs=request.docs,
                )
            except CortexError as error:
                if embedder is None or not (embedder.rests or opened.store.indexes.sets.away):
                    raise
                log.warning("%s could not embed a query: %s", embedder.name, error.message)
                # This embedder is skipped for a while: the next one answers, or lexical search.
                continue
            if not tried_repair and opened.damaged:
                # This search has discovered the damage.
                tried_repair = True
                if self._healing.heal():
                    continue
            stands_in = model is not None and answering.why and page.mode is not Mode.WORDS
            return replace(page, notes=(*page.notes, answering.why)) if stands_in else page

    def _with_progress(self, page: Page) -> Page:
        """Add a note about files that aren't indexed yet.

        During a first run it replaces the note that nothing reaches the threshold.
        """
        opened, state = self._opened(), self._state()
        if state.indexed:
            note = opened.runs.progress_note(SHORT_RUN_FILES)
            return replace(page, notes=(*page.notes, note)) if note else page
        note = opened.runs.unread() if self._is_indexing(opened) else NOT_ALL
        notes = (note, *(other for other in page.notes if not other.startswith(BELOW_THRESHOLD)))
        notice = self._notice()
        return replace(page, notes=(notice, *notes) if notice else notes, is_partial=True)

    def _is_indexing(self, opened: OpenedStore) -> bool:
        """True if a run is under way or due soon, here or in the process with the lease."""
        lease = opened.store.lease
        return (
            opened.runs.running.is_set()
            or self._state().is_auto_indexed
            or (not lease.held and lease.holder() > 0)
        )

    def _await_first_index(self, query: Query, cancel: Cancel) -> None:
        """Wait briefly for the first index: for the end of a short run, or for matching files."""
        deadline = time.monotonic() + FIRST_ANSWER_SECONDS
        preference: Preference | None = None
        while time.monotonic() < deadline and not cancel and not self._state().indexed:
            opened = self._opened()
            runs = opened.runs
            if runs.error or not self._is_indexing(opened):
                return
            if preference is None and runs.queue is not None:
                preference = runs.queue.prefer(parse(query.text, query.code).keywords)
            is_running = runs.running.is_set()
            is_short = is_running and runs.step.total <= SHORT_RUN_FILES
            # Matching files are searchable, or another process indexes and only it knows them.
            is_answerable = not is_running or (preference is not None and preference.is_searchable)
            if is_answerable and not is_short and opened.store.indexes.state()[1] >= 1:
                return
            time.sleep(POLL_SECONDS)
