"""Search index over the chunk files of one directory: loaded, watched, replaced as a whole.

A query is answered by one generation from beginning to end (`generations.py`). A change is built
aside (`builder.py`) and replaces the current generation in one step, so no query waits for a reload
or sees half of one. `query_embedder.py` embeds the queries. Knows no tool and no protocol.

Road not taken: keeping the chunks in memory. From disk they are available at once after a restart,
and 100,000 of them take 10 MB more than one.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cortex.base.errors import (
    Cancelled,
    ConfigError,
    CortexError,
    FileError,
    LimitError,
    NetworkError,
    StoreError,
    explained,
)
from cortex.base.redaction import Redacted, note_of, redact_entry
from cortex.base.settings import Settings
from cortex.base.types import Cancel, Entry, Mode, Page, Query, Stamp
from cortex.engine.search import check_query, search
from cortex.families.chunkfiles.builder import States
from cortex.families.chunkfiles.generations import Generation
from cortex.families.chunkfiles.loader import DAMAGES, GenerationLoader
from cortex.families.chunkfiles.preflight import check_files
from cortex.families.chunkfiles.query_embedder import EmbedderChoice, QueryEmbedders
from cortex.families.chunkfiles.watcher import ChunkFileWatcher

__all__ = ["ChunkIndex", "ChunkIndexState", "ChunkQuery", "ChunkSearchResult", "chunks_dir"]

# Delay after a build that failed for another reason than its files.
RETRY_SECONDS = 5.0
# Time that a query waits for the first generation.
READY_SECONDS = 30.0
# Cached filters per generation.
FILTERS = 16
POLL_SECONDS = 0.05
# Problems that an answer lists.
NOTES = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChunkQuery:
    """Query over chunk files.

    Results have any of the chunk types (none given: every type) and all of the tags.
    """

    text: str
    limit: int = 15
    min_score: float = 0.0
    tags: tuple[str, ...] = ()
    chunk_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkSearchResult:
    """Entries with their relevance, best first, with the search mode and notes for the reader."""

    results: tuple[tuple[Entry, float], ...]
    mode: Mode
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkIndexState:
    """State of a chunk index for status output."""

    directory: Path
    chunks: int
    files: States
    problems: tuple[str, ...]
    # 0 before the first generation is loaded.
    generation: int


def chunks_dir(root: Path, settings: Settings) -> Path:
    """Resolve the folder of a workspace's chunk files.

    Raises: FileError PATH_OUTSIDE if a folder in the project leads out of it, or the project's own
    settings name one outside: the project's author isn't trusted with that.
    """
    if warning := settings.warning_about("server.chunksDir"):
        raise FileError(
            "PATH_OUTSIDE",
            warning.removesuffix(" (ignored)"),
            suggestions=("Name a folder in the project there, or yours with CORTEX_CHUNKS_DIR.",),
        )
    folder = root / settings.server.chunks_dir
    inside = Path(os.path.realpath(folder)).is_relative_to(Path(os.path.realpath(root)))
    if not inside and not Path(settings.server.chunks_dir).is_absolute():
        raise FileError(
            "PATH_OUTSIDE", f"{folder} leads out of the project; name the folder itself"
        )
    return folder


class ChunkIndex:
    """Search index over the chunk files of one directory.

    `start` reads only as far as needed to know that there is something to serve.
    """

    def __init__(self, directory: Path, settings: Settings, *, watch: bool = True) -> None:
        self.directory = directory
        # A message for the process that started the index, or "".
        self.warning = ""
        self._settings = settings
        self._asker = QueryEmbedders(settings)
        self._loading = GenerationLoader(directory, settings.home)
        self._ready = threading.Event()
        self._watcher = ChunkFileWatcher(
            directory, begin=self._begin, look=self._reload, rest=self._loading.reap, watch=watch
        )

    def start(self) -> None:
        """Start to load and watch the files in the background.

        Raises: FileError or ConfigError if there is nothing to serve or it contradicts the
        configuration; NetworkError if an embedder is required and doesn't answer.
        """
        lexical_reason = self._asker.start(check_files(self.directory, self._settings))
        if lexical_reason:
            self.warning = f"{self.directory} is searched by words: {lexical_reason}"
            log.debug("%s", self.warning)
        self._watcher.start()

    def _begin(self) -> None:
        """Serve the generation of an earlier process at once, then load the current files.

        Runs in the watcher's thread.
        """
        try:
            if self._loading.adopt():
                self._ready.set()
            self._loading.load()
        except Exception as error:
            # Every query reports the failure.
            self._loading.failure = explained(error, "loading the chunk files")
            log.warning(
                "%s", self._loading.failure.message, exc_info=not isinstance(error, CortexError)
            )
        self._ready.set()

    def _reload(self) -> None:
        try:
            self._loading.reload()
            self._loading.tidy()
        # The thread's last line of defence: the current generation keeps answering.
        except Exception as error:
            explanation = explained(error, "loading the chunk files")
            problem = f"{explanation.message}; what was there before is served"
            self._loading.reload_problem = problem
            self._loading.log_problems()
            log.debug("a reload failed", exc_info=error)
            self._watcher.pause(RETRY_SECONDS)
            self._watcher.look_again()
        else:
            self._loading.reload_problem = ""
            self._loading.log_problems()

    def search(self, chunk_query: ChunkQuery, *, cancel: Cancel | None = None) -> ChunkSearchResult:
        """Answer a query.

        Raises: InputError; LimitError SEARCH_TIMEOUT or INDEX_BUSY; NetworkError if an embedder is
        required and fails; Cancelled.
        """
        cancel = Cancel() if cancel is None else cancel
        query = Query(
            chunk_query.text,
            limit=chunk_query.limit,
            threshold=chunk_query.min_score,
            snippets=(0,),
        )
        check_query(query)
        self._await_ready(cancel)
        try:
            return self._search(chunk_query, query, cancel)
        except StoreError as error:
            if error.code not in DAMAGES:
                raise
            before = self._loading.current
        self._await_rebuilt(before, cancel)
        return self._search(chunk_query, query, cancel)

    def _search(self, chunk_query: ChunkQuery, query: Query, cancel: Cancel) -> ChunkSearchResult:
        with self._using() as generation:
            stamps = generation.stamps
            choice = self._choose_embedder(generation)
            docs = self._matching_docs(generation, chunk_query)
            try:
                page = self._run_query(generation, query, choice, docs, cancel)
            except NetworkError as error:
                if self._asker.required:
                    raise
                page = self._run_query(
                    generation, query, EmbedderChoice(None, error.message), docs, cancel
                )
            entries = generation.store.entries.read([hit.doc for hit in page.hits])
            if generation.store.indexes.damaged:
                self._spoil(generation)
        matches = [(entries[hit.doc], hit.relevance) for hit in page.hits if hit.doc in entries]
        redacted_matches = [(self._redact(entry), relevance) for entry, relevance in matches]
        redaction_notes = note_of(
            (entry.id, line) for (entry, lines), _ in redacted_matches for line in lines
        )
        results = tuple((entry, relevance) for (entry, _), relevance in redacted_matches)
        return ChunkSearchResult(
            results, page.mode, (*self._notes(page, choice, stamps), *redaction_notes)
        )

    def _redact(self, entry: Entry) -> tuple[Entry, tuple[Redacted, ...]]:
        """Redact an entry as configured; also returns the redacted lines of its text."""
        return (entry, ()) if self._settings.security.redact == "off" else redact_entry(entry)

    def entry(self, chunk_id: str) -> Entry | None:
        """Return the chunk with this id, if there is one.

        Raises: LimitError INDEX_BUSY.
        """
        self._await_ready(Cancel())
        with self._using() as generation:
            entry = generation.store.entries.called(chunk_id)
        return None if entry is None else self._redact(entry)[0]

    @contextmanager
    def _using(self) -> Iterator[Generation]:
        """Borrow the current generation; one that turns out to be damaged is rebuilt."""
        with self._loading.using() as generation:
            try:
                yield generation
            except StoreError as error:
                if error.code in DAMAGES:
                    self._spoil(generation)
                raise

    def _spoil(self, generation: Generation) -> None:
        self._loading.spoil(generation)
        self._watcher.look_again()

    def _await_rebuilt(self, damaged: Generation | None, cancel: Cancel) -> None:
        """Wait until a damaged generation is replaced, at most as long as for a first one."""
        deadline = time.monotonic() + READY_SECONDS
        while self._loading.current is damaged and time.monotonic() < deadline:
            if cancel:
                raise Cancelled()
            time.sleep(POLL_SECONDS)

    def _choose_embedder(self, generation: Generation) -> EmbedderChoice:
        """Choose the vectors that answer.

        Raises: NetworkError if none can and an embedder is required.
        """
        choice = self._asker.choose(generation.stamps)
        if choice.model is None:
            if self._asker.required and generation.stamps:
                raise choice.error("the question can't be embedded")
            return choice
        room = self._settings.limits.memory.embeddings
        if generation.store.indexes.sets.state(choice.model[0]).memory > room:
            return EmbedderChoice(None, "limits.memory.embeddings leaves no room for all vectors")
        return choice

    def _run_query(
        self,
        generation: Generation,
        query: Query,
        choice: EmbedderChoice,
        docs: frozenset[int] | None,
        cancel: Cancel,
    ) -> Page:
        deadline = time.monotonic() + self._settings.search.timeout
        return search(
            generation.store,
            (generation.source,),
            query,
            model=choice.model,
            cancel=cancel,
            deadline=deadline,
            lexical_reason=choice.why,
            docs=docs,
        )

    def _matching_docs(
        self, generation: Generation, chunk_query: ChunkQuery
    ) -> frozenset[int] | None:
        """Docs that match the filters of a query; None without a filter.

        Cached, because callers tend to repeat a filter.
        """
        if not chunk_query.tags and not chunk_query.chunk_types:
            return None
        key = (chunk_query.chunk_types, chunk_query.tags)
        docs = generation.filters.get(key)
        if docs is None:
            docs = generation.store.entries.having(*key)
            if len(generation.filters) >= FILTERS:
                generation.filters = {}
            generation.filters[key] = docs
        return docs

    def _notes(
        self, page: Page, choice: EmbedderChoice, stamps: Sequence[Stamp]
    ) -> tuple[str, ...]:
        notes = list(page.notes)
        if choice.model is not None and page.mode is not Mode.WORDS and len(stamps) > 1:
            others = ", ".join(
                dict.fromkeys(stamp.model or "?" for stamp in stamps if stamp != choice.model[0])
            )
            notes.append(f"chunks with vectors of another model ({others}) are found by words only")
        problems = self._loading.problems
        notes += problems[:NOTES]
        if len(problems) > NOTES:
            notes.append(
                f"{len(problems) - NOTES} more problems with the chunk files are in the log"
            )
        return tuple(notes)

    def _await_ready(self, cancel: Cancel) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready.wait(0.05):
            if cancel:
                raise Cancelled()
            if time.monotonic() > deadline:
                raise LimitError(
                    "INDEX_BUSY", f"the chunk files in {self.directory} are still being loaded"
                )

    @property
    def ready(self) -> bool:
        """True when there is a generation to search."""
        return self._ready.is_set() and self._loading.loaded

    def reload(self) -> None:
        """Schedule a look at the files, as after a change."""
        self._watcher.look_again()

    def state(self) -> ChunkIndexState:
        """Describe the index for status output."""
        states, problems = dict(self._loading.states), self._loading.problems
        if not self._loading.loaded:
            return ChunkIndexState(self.directory, 0, states, problems, 0)
        with self._loading.using() as generation:
            chunks = generation.store.content.doc_count(generation.source.id)
            return ChunkIndexState(
                self.directory, chunks, states, problems, int(generation.path.name)
            )

    def close(self) -> None:
        """Stop everything; the generation stays on disk for the next start."""
        self._watcher.close()
        self._loading.close(ConfigError("WORKSPACE_MISSING", "the server is ending"))
        self._ready.set()
        self._asker.close()
