"""The chunk files of one directory, searchable: loaded, watched, and replaced as a whole when they
change.

A question is answered by one generation from beginning to end (`generations.py`); a change is built
aside (`building.py`) and takes its place in one step, so nobody waits for a reload or sees half of
one. Who embeds questions is in `asking.py`. Knows no tool and no protocol. Road not taken: keeping
the chunks in memory; from the disk they are there at once after a restart, and 100,000 of them take
10 MB more than one.
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
from cortex.families.chunkfiles.loader import DAMAGES, Loading
from cortex.families.chunkfiles.preflight import check_files
from cortex.families.chunkfiles.query_embedding import Asker, EmbedderChoice
from cortex.families.chunkfiles.watcher import Follower

__all__ = ["ChunkHit", "ChunkIndex", "ChunkQuery", "ShelfState", "chunks_dir"]

RETRY_SECONDS = 5.0  # after a build that failed for another reason than its files
READY_SECONDS = 30.0  # that a question waits for the first generation
FILTERS = 16  # whose docs are remembered
POLL_SECONDS = 0.05
NOTES = 5  # problems that an answer tells
RELOAD = "reload"  # the problem that isn't a file's

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChunkQuery:
    """A question to a shelf: of any of these types (none: of every type), with all of these tags."""

    text: str
    limit: int = 15
    min_score: float = 0.0
    tags: tuple[str, ...] = ()
    chunk_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkHit:
    """Entries with their relevance, best first; by words or also by meaning; and what a reader
    should know.
    """

    results: tuple[tuple[Entry, float], ...]
    mode: Mode
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShelfState:
    """What there is to know of a shelf."""

    directory: Path
    chunks: int
    files: States
    problems: tuple[str, ...]
    generation: int  # 0 while there is none


def chunks_dir(root: Path, settings: Settings) -> Path:
    """Where a workspace's chunk files are.

    Raises: FileError PATH_OUTSIDE, where a folder in it leads out of it, or its own settings name
    one outside: a stranger made that.
    """
    if refused := settings.warning_about("server.chunksDir"):
        raise FileError(
            "PATH_OUTSIDE",
            refused.removesuffix(" (ignored)"),
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
    """The chunk files of one directory.

    Opened by `start`, which looks only as far as it takes to know that there is something to serve.
    """

    def __init__(self, directory: Path, settings: Settings, *, watch: bool = True) -> None:
        self.directory = directory
        self.warning = ""  # what whoever started it should know
        self._settings = settings
        self._asker = Asker(settings)
        self._loading = Loading(directory, settings.home)
        self._ready = threading.Event()
        self._follower = Follower(
            directory, begin=self._begin, look=self._look, rest=self._loading.reap, watch=watch
        )

    def start(self) -> None:
        """Begin to load and to follow the files, in the background.

        Raises: FileError and ConfigError, where there is nothing to serve or it isn't what is
        configured; NetworkError, where an embedder is required and can't be asked.
        """
        why = self._asker.start(check_files(self.directory, self._settings))
        if why:
            self.warning = f"{self.directory} is searched by words: {why}"
            log.debug("%s", self.warning)
        self._follower.start()

    def _begin(self) -> None:
        """In the follower's thread: what is left of an earlier process answers at once, until the
        files have been looked at.
        """
        try:
            if self._loading.adopt():
                self._ready.set()
            self._loading.load()
        except Exception as error:  # each question is told
            self._loading.failure = explained(error, "loading the chunk files")
            log.warning(
                "%s", self._loading.failure.message, exc_info=not isinstance(error, CortexError)
            )
        self._ready.set()

    def _look(self) -> None:
        try:
            self._loading.reload()
            self._loading.tidy()
        # The thread's last line of defence: what is there goes on to answer
        except Exception as error:
            told = explained(error, "loading the chunk files")
            self._loading.problem(RELOAD, f"{told.message}; what was there before is served")
            log.debug("a reload failed", exc_info=error)
            self._follower.pause(RETRY_SECONDS)
            self._follower.look_again()
        else:
            self._loading.solved(RELOAD)

    def search(self, wanted: ChunkQuery, *, cancel: Cancel | None = None) -> ChunkHit:
        """Answer a question.

        Raises: InputError, LimitError SEARCH_TIMEOUT or INDEX_BUSY, NetworkError where an embedder
        is required and fails, Cancelled.
        """
        cancel = Cancel() if cancel is None else cancel
        query = Query(wanted.text, limit=wanted.limit, threshold=wanted.min_score, snippets=(0,))
        check_query(query)
        self._await_ready(cancel)
        try:
            return self._search(wanted, query, cancel)
        except StoreError as error:
            if error.code not in DAMAGES:
                raise
            before = self._loading.current
        self._await_rebuilt(before, cancel)
        return self._search(wanted, query, cancel)

    def _search(self, wanted: ChunkQuery, query: Query, cancel: Cancel) -> ChunkHit:
        with self._using() as generation:
            stamps = generation.stamps
            choice = self._choose(generation)
            docs = self._docs(generation, wanted)
            try:
                page = self._ask(generation, query, choice, docs, cancel)
            except NetworkError as error:
                if self._asker.required:
                    raise
                page = self._ask(
                    generation, query, EmbedderChoice(None, error.message), docs, cancel
                )
            entries = generation.store.entries.read([hit.doc for hit in page.hits])
            if generation.store.indexes.damaged:
                self._spoil(generation)
        found = [(entries[hit.doc], hit.relevance) for hit in page.hits if hit.doc in entries]
        shown = [(self._shown(entry), relevance) for entry, relevance in found]
        redacted = note_of((entry.id, line) for (entry, lines), _ in shown for line in lines)
        results = tuple((entry, relevance) for (entry, _), relevance in shown)
        return ChunkHit(results, page.mode, (*self._notes(page, choice, stamps), *redacted))

    def _shown(self, entry: Entry) -> tuple[Entry, tuple[Redacted, ...]]:
        """An entry as it is told, and the redacted lines of its text."""
        return (entry, ()) if self._settings.security.redact == "off" else redact_entry(entry)

    def entry(self, name: str) -> Entry | None:
        """The chunk with this id, if there is one. Raises: LimitError INDEX_BUSY."""
        self._await_ready(Cancel())
        with self._using() as generation:
            entry = generation.store.entries.called(name)
        return None if entry is None else self._shown(entry)[0]

    @contextmanager
    def _using(self) -> Iterator[Generation]:
        """The current generation; one that turns out to be damaged is loaded anew."""
        with self._loading.using() as generation:
            try:
                yield generation
            except StoreError as error:
                if error.code in DAMAGES:
                    self._spoil(generation)
                raise

    def _spoil(self, generation: Generation) -> None:
        self._loading.spoil(generation)
        self._follower.look_again()

    def _await_rebuilt(self, before: Generation | None, cancel: Cancel) -> None:
        """Wait until another generation has taken the place of a damaged one, or for so long as a
        first one.
        """
        deadline = time.monotonic() + READY_SECONDS
        while self._loading.current is before and time.monotonic() < deadline:
            if cancel:
                raise Cancelled()
            time.sleep(POLL_SECONDS)

    def _choose(self, generation: Generation) -> EmbedderChoice:
        """Whose vectors answer. Raises: NetworkError, where none can and one is required."""
        choice = self._asker.choose(generation.stamps)
        if choice.meaning is None:
            if self._asker.required and generation.stamps:
                raise choice.error("the question can't be embedded")
            return choice
        room = self._settings.limits.memory.embeddings
        if generation.store.indexes.vectors(choice.meaning[0]).memory > room:
            return EmbedderChoice(None, "limits.memory.embeddings leaves no room for all vectors")
        return choice

    def _ask(
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
            meaning=choice.meaning,
            cancel=cancel,
            deadline=deadline,
            why_words=choice.why,
            docs=docs,
        )

    def _docs(self, generation: Generation, wanted: ChunkQuery) -> frozenset[int] | None:
        """The docs that a question's filters leave; None without a filter. Remembered, since who
        filters does so again.
        """
        if not wanted.tags and not wanted.chunk_types:
            return None
        key = (wanted.chunk_types, wanted.tags)
        found = generation.filters.get(key)
        if found is None:
            found = generation.store.entries.having(*key)
            if len(generation.filters) >= FILTERS:
                generation.filters = {}
            generation.filters[key] = found
        return found

    def _notes(
        self, page: Page, choice: EmbedderChoice, stamps: Sequence[Stamp]
    ) -> tuple[str, ...]:
        notes = list(page.notes)
        if choice.meaning is not None and page.mode is not Mode.WORDS and len(stamps) > 1:
            others = ", ".join(
                dict.fromkeys(stamp.model or "?" for stamp in stamps if stamp != choice.meaning[0])
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
        """Whether there is something to ask."""
        return self._ready.is_set() and self._loading.loaded

    def reload(self) -> None:
        """Have the files looked at soon, as after a change."""
        self._follower.look_again()

    def state(self) -> ShelfState:
        """What there is to know of it."""
        states, problems = dict(self._loading.states), self._loading.problems
        if not self._loading.loaded:
            return ShelfState(self.directory, 0, states, problems, 0)
        with self._loading.using() as generation:
            chunks = generation.store.truth.size(generation.source.id)
            return ShelfState(self.directory, chunks, states, problems, int(generation.path.name))

    def close(self) -> None:
        """End everything; the generation stays for the next start."""
        self._follower.close()
        self._loading.close(ConfigError("WORKSPACE_MISSING", "the server is ending"))
        self._ready.set()
        self._asker.close()
