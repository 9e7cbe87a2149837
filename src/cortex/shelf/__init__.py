"""The chunk files of one directory, searchable: loaded, watched, and replaced as a whole when they change.

A question is answered by one generation from beginning to end (`generations.py`); a change is built aside (`building.py`) and takes its
place in one step, so nobody waits for a reload or sees half of one. Who embeds questions is in `asking.py`. Knows no tool and no
protocol. Road not taken: keeping the chunks in memory, as the original does; from the disk they are there at once after a restart, and
100,000 of them take no more memory than 1,000.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cortex.errors import (
    Cancelled,
    ConfigError,
    CortexError,
    FileError,
    LimitError,
    NetworkError,
    StoreError,
    explained,
)
from cortex.process import give_memory_back
from cortex.search import check_query, search
from cortex.settings import Settings
from cortex.shelf import generations
from cortex.shelf.asking import Asker, Choice
from cortex.shelf.building import Built, FileState, States, build, read_states, to_read
from cortex.shelf.generations import Generation
from cortex.sources.chunkfiles import ENDING, ChunkFile, Listing, Reading, Signature, list_chunk_files, shown
from cortex.sources.watch import Watcher
from cortex.types import Cancel, Entry, Mode, Page, Query, Stamp

__all__ = ["Found", "Shelf", "ShelfState", "Wanted", "chunks_dir"]

QUIET_SECONDS = 0.5  # without a change, before the files are read again: an indexer writes several
LONGEST_WAIT = 10.0  # for a directory that is never quiet
LOOK_SECONDS = 2.0  # between two looks where nothing can be watched, or nothing is there
SAFETY_SECONDS = 600.0  # between two looks while it is watched
REAP_SECONDS = 0.2  # between two looks whether a former generation is still in use
RETRY_SECONDS = 5.0  # after a build that failed for another reason than its files
READY_SECONDS = 30.0  # that a question waits for the first generation
CLOSE_SECONDS = 5.0
FILTERS = 16  # whose docs are remembered
NOTES = 5  # problems that an answer tells

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A question to a shelf: of any of these types (none: of every type), with all of these tags."""

    text: str
    limit: int = 15
    min_score: float = 0.0
    tags: tuple[str, ...] = ()
    chunk_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """Entries with their relevance, best first; by words or also by meaning; and what a reader should know."""

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
    """Where a workspace's chunk files are."""
    return root / settings.server.chunks_dir


class Shelf:
    """The chunk files of one directory. Opened by `start`, which looks only as far as it takes to know that there is something to serve."""

    def __init__(self, directory: Path, settings: Settings, *, watch: bool = True) -> None:
        self.directory = directory
        self._settings = settings
        self._watch = watch
        self._home = generations.home_of(directory.resolve(), settings.home)
        self._asker = Asker(settings)
        self._lock = threading.Lock()  # of which generation is current; held for moments
        self._current: Generation | None = None
        self._former: list[Generation] = []
        self._states: dict[str, FileState] = {}
        self._failed: dict[str, Signature] = {}
        self._problems: dict[str, str] = {}  # by file; "" is the directory
        self._strange: tuple[str, ...] = ()  # what is no chunk file though it is called like one
        self._changed_at = 0.0  # of the first and the last change that nobody has looked at, 0: none
        self._last_change = 0.0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._ready = threading.Event()
        self._failure: CortexError | None = None  # why there is no first generation
        self._thread = threading.Thread(target=self._keep, name=f"shelf {directory.name}", daemon=True)

    # -- asking --------------------------------------------------------------------------------------------------------

    def search(self, wanted: Wanted, *, cancel: Cancel | None = None) -> Found:
        """Answer a question.

        Raises: InputError, LimitError SEARCH_TIMEOUT or INDEX_BUSY, NetworkError where an embedder is required and fails, Cancelled.
        """
        cancel = Cancel() if cancel is None else cancel
        query = Query(wanted.text, limit=wanted.limit, threshold=wanted.min_score, snippets=(0,))
        check_query(query)
        self._await_ready(cancel)
        with self._using() as generation:
            stamps = generation.stamps
            choice = self._choose(generation)
            docs = self._docs(generation, wanted)
            try:
                page = self._ask(generation, query, choice, docs, cancel)
            except NetworkError as error:
                if self._asker.required:
                    raise
                page = self._ask(generation, query, Choice(None, error.message), docs, cancel)
            entries = generation.store.entries.read([hit.doc for hit in page.hits])
        results = tuple((entries[hit.doc], hit.relevance) for hit in page.hits if hit.doc in entries)
        return Found(results, page.mode, self._notes(page, choice, stamps))

    def _choose(self, generation: Generation) -> Choice:
        """Whose vectors answer. Raises: NetworkError, where none can and one is required."""
        choice = self._asker.choose(generation.stamps)
        if choice.meaning is None:
            if self._asker.required and generation.stamps:
                raise NetworkError("EMBEDDER_UNAVAILABLE", f"the question can't be embedded: {choice.why}")
            return choice
        room = self._settings.limits.memory.embeddings
        if generation.store.indexes.vectors(choice.meaning[0]).memory > room:
            return Choice(None, "limits.memory.embeddings leaves no room for all vectors")
        return choice

    def _ask(
        self, generation: Generation, query: Query, choice: Choice, docs: frozenset[int] | None, cancel: Cancel
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

    def _docs(self, generation: Generation, wanted: Wanted) -> frozenset[int] | None:
        """The docs that a question's filters leave; None without a filter. Remembered, since who filters does so again."""
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

    def _notes(self, page: Page, choice: Choice, stamps: Sequence[Stamp]) -> tuple[str, ...]:
        notes = list(page.notes)
        if choice.meaning is not None and page.mode is not Mode.WORDS and len(stamps) > 1:
            others = ", ".join(dict.fromkeys(stamp.model or "?" for stamp in stamps if stamp != choice.meaning[0]))
            notes.append(f"chunks with vectors of another model ({others}) are found by words only")
        problems = self.problems
        notes += problems[:NOTES]
        if len(problems) > NOTES:
            notes.append(f"{len(problems) - NOTES} more problems with the chunk files are in the log")
        return tuple(notes)

    @contextmanager
    def _using(self) -> Iterator[Generation]:
        """The current generation, which stays open for the block."""
        while True:
            with self._lock:
                generation = self._current
            if generation is None:
                raise self._failure or LimitError("INDEX_BUSY", "the chunk files are not loaded")
            with generation.use() as usable:
                if usable:
                    yield generation
                    return

    def _await_ready(self, cancel: Cancel) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready.wait(0.05):
            if cancel:
                raise Cancelled()
            if time.monotonic() > deadline:
                raise LimitError("INDEX_BUSY", f"the chunk files in {self.directory} are still being loaded")

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the files as they are now, one sentence each."""
        return (*(self._problems[name] for name in sorted(self._problems)), *self._strange)

    @property
    def ready(self) -> bool:
        """Whether there is something to ask."""
        return self._ready.is_set() and self._current is not None

    def state(self) -> ShelfState:
        """What there is to know of it."""
        with self._lock:
            generation, states = self._current, dict(self._states)
        number = chunks = 0
        if generation is not None:
            with generation.use() as usable:
                if usable:
                    number, chunks = int(generation.path.name), generation.store.truth.size(generation.source.id)
        return ShelfState(self.directory, chunks, states, self.problems, number)

    # -- loading -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to load and to follow the files, in the background.

        Raises: FileError and ConfigError, where there is nothing to serve or it isn't what is configured; NetworkError, where an embedder
        is required and can't be asked.
        """
        stamps = check_files(self.directory, self._settings)
        why = self._asker.start(stamps)
        if why:
            log.warning("%s is searched by words: %s", self.directory, why)
        self._thread.start()

    def reload(self) -> bool:
        """Look at the files now, and take up what changed; true where something did. Only for the shelf's own thread, and tests."""
        listing = self._list()
        if listing is None:
            return False
        present = {file.name for file in listing.files}
        for name in [name for name in self._problems if name.endswith(ENDING) and name not in present]:
            del self._problems[name]
        changed, gone = to_read(self._states, listing.files, self._failed)
        if not changed and not gone:
            return False
        if not listing.files and self._states:
            self._problem("", f"{self.directory} holds no chunk files any more; what was there before is served")
            return False
        return self._rebuild(listing.files, changed, gone)

    def _list(self) -> Listing | None:
        try:
            listing = list_chunk_files(self.directory)
        except FileError as error:
            self._problem("", f"{error.message}; what was there before is served")
            return None
        if listing.files:
            self._problems.pop("", None)
        for warning in listing.warnings:
            if warning not in self._strange:
                log.warning("%s", warning)
        self._strange = listing.warnings
        return listing

    def _rebuild(self, files: Sequence[ChunkFile], changed: set[str], gone: set[str]) -> bool:
        """Build the next generation and let it answer; what is damaged in the last one is left behind."""
        try:
            return self._rebuild_in(generations.begin(self._home, self._current), files, changed, gone)
        except StoreError as error:
            if error.code != "STORE_CORRUPT":
                raise
            log.warning("the chunks are loaded anew: %s", error.message)
        everything = {file.name for file in files}
        return self._rebuild_in(generations.begin(self._home, None, empty=True), files, everything, set())

    def _rebuild_in(self, fresh: Generation, files: Sequence[ChunkFile], changed: set[str], gone: set[str]) -> bool:
        started = time.monotonic()
        try:
            if self._current is None:  # what another process has may be of other files
                self._states = read_states(fresh.store)
                changed, gone = to_read(self._states, files, self._failed)
            built = build(fresh.store, fresh.source, files, changed, gone)
            self._note_built(built, {file.name: file.signature for file in files})
            if built.states == self._states and self._current is not None:  # nothing but files that can't be read
                fresh.retire()
                return False
            if not built.states and self._current is None:
                raise FileError("FILE_UNREADABLE", f"no chunk file in {self.directory} can be read")
            fresh.publish()
            self._warm(fresh, built.states)
        except BaseException:
            fresh.retire()
            raise
        self._swap(fresh, built.states)
        log.info("%s: %d chunks changed, loaded in %.2f s", self.directory, built.changes, time.monotonic() - started)
        return True

    def _note_built(self, built: Built, signatures: dict[str, Signature]) -> None:
        """Remember and log which files could not be read."""
        for name in list(self._problems):
            if name.endswith(ENDING) and name not in built.problems and self._failed.get(name) != signatures.get(name):
                del self._problems[name]
        for name, (signature, message) in built.problems.items():
            kept = "its chunks are those of before" if name in built.states else "left out"
            self._failed[name] = signature
            self._problem(name, f"{message}; {kept}")
        for name, state in built.states.items():
            if name not in built.problems:
                self._failed.pop(name, None)
            if self._states.get(name) != state:
                for warning in state.warnings:
                    log.warning("%s", warning)

    def _warm(self, generation: Generation, states: States) -> None:
        """Open what the first question needs, before there is one."""
        generation.stamps = stamps_of(states)
        generation.store.indexes.words()
        for stamp in generation.stamps:
            len(generation.store.indexes.vectors(stamp))

    def _swap(self, fresh: Generation, states: dict[str, FileState]) -> None:
        with self._lock:
            former, self._current = self._current, fresh
            self._states = states
            if former is not None:
                self._former.append(former)
        self._reap()

    def _reap(self) -> None:
        """Close the former generations that nobody uses any more."""
        before = len(self._former)
        self._former = [one for one in self._former if not one.retire()]
        if len(self._former) < before:
            gc.collect()  # a store and its parts know one another
            give_memory_back()

    def _problem(self, name: str, message: str) -> None:
        if self._problems.get(name) != message:
            log.warning("%s", message)
            self._problems[name] = message

    # -- following -----------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """The thread: load, then look whenever something changed, and now and then."""
        try:
            self._load()
        except Exception as error:  # each question is told
            self._failure = explained(error, "loading the chunk files")
            log.warning("%s", self._failure.message, exc_info=not isinstance(error, CortexError))
        self._ready.set()
        watcher: Watcher | None = None
        looked = time.monotonic()
        while not self._closing.is_set():
            if watcher is None or not watcher.alive:
                watcher, found = self._follow(watcher)
                if found:
                    self._note({""})
            watching = watcher is not None and watcher.alive
            if time.monotonic() - looked > (SAFETY_SECONDS if watching else LOOK_SECONDS) or self._is_quiet():
                self._changed_at, looked = 0.0, time.monotonic()
                self._try_reload()
            self._reap()
            self._wake.wait(self._pause(watching))
            self._wake.clear()
        if watcher is not None:
            watcher.close()

    def _load(self) -> None:
        adopted = generations.adopt(self._home)
        if adopted is not None:
            try:
                states = read_states(adopted.store)
                self._warm(adopted, states)
                self._swap(adopted, states)
                self._ready.set()  # what was there last answers until the files have been looked at
            except (CortexError, ValueError, KeyError, TypeError) as error:
                log.warning("the chunks kept in %s can't be used: %s", adopted.path, error)
                adopted.retire()
        generations.sweep(self._home)
        self.reload()

    def _follow(self, watcher: Watcher | None) -> tuple[Watcher | None, bool]:
        """A watcher that works, where one can; and whether something may have changed while nobody watched."""
        if watcher is not None:
            watcher.close()
        if not self._watch or not self.directory.is_dir():
            return None, False
        fresh = Watcher(self.directory, self._note)
        return (fresh, True) if fresh.start() else (None, False)

    def _note(self, paths: set[str]) -> None:
        """Something changed in the directory."""
        if any("/" not in path for path in paths):
            self._last_change = time.monotonic()
            self._changed_at = self._changed_at or self._last_change
            self._wake.set()

    def _is_quiet(self) -> bool:
        """Whether something changed, and then nothing for a while."""
        now, changed = time.monotonic(), self._changed_at
        return bool(changed) and (now - self._last_change >= QUIET_SECONDS or now - changed >= LONGEST_WAIT)

    def _pause(self, watching: bool) -> float:
        if self._changed_at:
            return max(0.01, self._last_change + QUIET_SECONDS - time.monotonic())
        if self._former:
            return REAP_SECONDS
        return SAFETY_SECONDS if watching else LOOK_SECONDS

    def _try_reload(self) -> None:
        try:
            self.reload()
            if self._current is not None:
                self._failure = None
        except Exception as error:  # the thread's last line of defence: what is there goes on to answer
            told = explained(error, "loading the chunk files")
            self._problem("reload", f"{told.message}; what was there before is served")
            log.debug("a reload failed", exc_info=error)
            self._closing.wait(RETRY_SECONDS)
            self._note({""})
        else:
            self._problems.pop("reload", None)

    def close(self) -> None:
        """End everything; the generation stays for the next start."""
        self._closing.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)
        with self._lock:
            current, self._current = self._current, None
        self._failure = self._failure or ConfigError("WORKSPACE_MISSING", "the server is ending")
        self._ready.set()
        for one in self._former:
            one.retire()
        if current is not None:
            current.close()
        self._asker.close()


def stamps_of(states: States) -> tuple[Stamp, ...]:
    """Whose vectors there are, the most first."""
    counts: dict[Stamp, int] = {}
    for state in states.values():
        if state.stamp is not None:
            counts[state.stamp] = counts.get(state.stamp, 0) + state.vectors
    return tuple(sorted(counts, key=lambda stamp: (-counts[stamp], stamp.model, stamp.dimensions)))


def check_files(directory: Path, settings: Settings) -> tuple[Stamp, ...]:
    """Look whether a directory can be served, reading no further than needed; whose vectors there seem to be.

    Raises: FileError FILE_NOT_FOUND, PERMISSION_DENIED or FILE_UNREADABLE, where there is no chunk; ConfigError CONFIG_INVALID, where the
    vectors are of another length than is configured.
    """
    if not directory.is_dir():
        raise FileError(
            "FILE_NOT_FOUND",
            f"there is no folder of chunk files at {directory}",
            context={"path": str(directory)},
            suggestions=("Write them with `cortex chunks export`, or name their folder: CORTEX_CHUNKS_DIR.",),
        )
    stamps: dict[Stamp, None] = {}
    found, wrong = False, ""
    for file in list_chunk_files(directory).files:
        with suppress(FileError):  # told when it is read
            reading = Reading(file.path)
            first = next(iter(reading), None)
            if first is None:
                wrong = wrong or (reading.warnings[0] if reading.warnings else "")
                continue
            found = True
            _check_dimensions(file, reading, settings)
            if first.embedding is not None:
                stamps[Stamp("chunks", reading.model, reading.dimensions)] = None
    if not found:
        raise FileError(
            "FILE_UNREADABLE",
            f"no chunk in the files of {directory} can be served{f': {wrong}' if wrong else ''}",
            context={"path": str(directory)},
            suggestions=("Write them anew with the indexer that made them, or with `cortex chunks export`.",),
        )
    return tuple(stamps)


def _check_dimensions(file: ChunkFile, reading: Reading, settings: Settings) -> None:
    wanted = settings.embedding.dimensions
    if wanted and reading.dimensions and reading.dimensions != wanted:
        raise ConfigError(
            "CONFIG_INVALID",
            f"embedding.dimensions is {wanted} ({settings.origin('embedding.dimensions')}), "
            f"but the vectors in {shown(file.name)} have {reading.dimensions}",
            context={"key": "embedding.dimensions", "file": file.name},
            suggestions=("Correct the setting, set it to 0, or embed the chunks anew: `cortex chunks reembed`.",),
        )
