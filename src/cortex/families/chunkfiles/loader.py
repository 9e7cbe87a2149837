"""Current generation of a chunk index, and its replacement by the next one.

One thread loads, any number of threads search. A file that can't be read keeps its old state and
becomes a problem that answers report. So does a file that is gone while the others are unchanged,
since an indexer may be at work or have died. Knows nothing of queries.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cortex.base.errors import CortexError, FileError, LimitError, StoreError
from cortex.base.runtime.process_stats import give_memory_back
from cortex.engine.store.index.maintenance import DEAD_ROWS, DEAD_SHARE
from cortex.families.chunkfiles import generations
from cortex.families.chunkfiles.builder import (
    Built,
    FileState,
    States,
    build,
    check_vectors,
    read_states,
    stamps_of,
    to_read,
)
from cortex.families.chunkfiles.format import ChunkFile, Listing, Signature, list_chunk_files, shown
from cortex.families.chunkfiles.generations import Generation
from cortex.families.chunkfiles.preflight import WRITE_ANEW

# Errors of a damaged generation. It holds only copies of the chunk files, so it can be rebuilt.
DAMAGES = ("STORE_CORRUPT", "INDEX_DAMAGED")

log = logging.getLogger(__name__)


class GenerationLoader:
    """Generations of one chunk index that this process has open."""

    def __init__(self, directory: Path, cortex_home: Path) -> None:
        self.directory = directory
        # File states of the current generation.
        self.states: dict[str, FileState] = {}
        # The reason why there is no generation.
        self.failure: CortexError | None = None
        self._home = generations.home_of(directory.resolve(), cortex_home)
        # Guards `_current` and the uses of generations; held for moments only.
        self._lock = threading.Lock()
        self._current: Generation | None = None
        self._former: list[Generation] = []
        # Unreadable files, with what is wrong with them.
        self._failed: dict[str, tuple[Signature, str]] = {}
        # Why the directory can't be followed, and why the last reload failed.
        self._folder_problem = ""
        self.reload_problem = ""
        self._logged: tuple[str, ...] = ()
        # True once the files have been loaded for the first time.
        self._loaded_once = False
        # Files that are gone, but still answer with their chunks.
        self._missing: frozenset[str] = frozenset()
        # The generation that turned out to be damaged.
        self._damaged: Generation | None = None
        # Warnings about files that are named like chunk files and are none.
        self._listing_warnings: tuple[str, ...] = ()

    @property
    def loaded(self) -> bool:
        """True when there is a generation to search."""
        return self._current is not None

    @property
    def current(self) -> Generation | None:
        """The generation that answers now."""
        return self._current

    @property
    def problems(self) -> tuple[str, ...]:
        """Current problems with the files, one sentence each."""
        by_file = {name: message for name, (_, message) in self._failed.items()}
        for name in self._missing:
            by_file[name] = (
                f"{shown(name)} is gone; its chunks of before are served until another chunk "
                f"file is written"
            )
        general = [problem for problem in (self._folder_problem, self.reload_problem) if problem]
        return (*general, *(by_file[name] for name in sorted(by_file)), *self._listing_warnings)

    def log_problems(self) -> None:
        """Log the problems that are new."""
        problems = self.problems
        for problem in problems:
            if problem not in self._logged:
                log.warning("%s", problem)
        self._logged = problems

    @contextmanager
    def using(self) -> Iterator[Generation]:
        """Borrow the current generation, which stays open for the block."""
        with self._lock:
            generation = self._current
            if generation is None:
                raise self.failure or LimitError("INDEX_BUSY", "the chunk files are not loaded")
            generation.uses += 1
        try:
            yield generation
        finally:
            with self._lock:
                generation.uses -= 1

    def load(self) -> None:
        """Remove the remains of earlier processes and load the current files.

        Raises: CortexError.
        """
        generations.sweep(self._home)
        try:
            self.reload()
        finally:
            self.log_problems()
        self._loaded_once = True
        generations.sweep_unused(self._home)

    def adopt(self) -> bool:
        """Serve the generation of an earlier process until the files have been loaded.

        Returns false if there is none.
        """
        adopted = generations.adopt(self._home)
        if adopted is None:
            return False
        try:
            states = read_states(adopted.store)
            self._warm(adopted, states)
        except (CortexError, ValueError, KeyError, TypeError) as error:
            log.warning("the chunks kept in %s can't be used: %s", adopted.path, error)
            adopted.retire()
            return False
        self._swap(adopted, states)
        return True

    def reload(self) -> bool:
        """Load changed files now; true if anything changed.

        Only one thread at a time may call this.
        """
        listing = self._list()
        if listing is None:
            return False
        if not listing.files and self.states:
            self._folder_problem = (
                f"{self.directory} holds no chunk files any more; what was there before is served"
            )
            return False
        signatures = {file.name: file.signature for file in listing.files}
        self._missing = self._still_served(listing.files)
        changed, gone = to_read(self.states, listing.files, self._failed_before(), self._missing)
        self._forget_failures(signatures, self.states)
        if self._damaged is not None and self._damaged is self._current:
            return self._rebuild_all(listing.files)
        if not changed and not gone:
            return False
        return self._rebuild(listing.files, changed, gone)

    def spoil(self, generation: Generation) -> None:
        """Mark a generation as damaged on disk, so that the next reload rebuilds everything."""
        self._damaged = generation

    def _still_served(self, files: Sequence[ChunkFile]) -> frozenset[str]:
        """Decide which missing files still answer.

        They do until another file is written after they went, or a new one appears, as after a
        rename: then the indexer has finished without them. A start takes the files as they are.
        """
        present = {file.name for file in files}
        missing = frozenset(self.states).difference(present)
        if not self._loaded_once or not present <= set(self.states) | set(self._failed):
            return frozenset()
        changed, _ = to_read(self.states, files, self._failed_before(), missing)
        return missing - self._missing if changed else missing

    def _failed_before(self) -> dict[str, Signature]:
        return {name: signature for name, (signature, _) in self._failed.items()}

    def _forget_failures(self, signatures: Mapping[str, Signature], states: States) -> None:
        """Forget the failures of files that are gone, have changed, or were read since."""
        self._failed = {
            name: (signature, message)
            for name, (signature, message) in self._failed.items()
            if signatures.get(name) == signature
            and (name not in states or states[name].signature != signature)
        }

    def tidy(self) -> bool:
        """Rebuild the lexical index if many of its rows are deleted, which distorts scores.

        Returns true if it was rebuilt. Called after a reload, when no query waits.
        """
        current = self._current
        if current is None:
            return False
        dead, live = (
            int(current.store.content.get("dead", "0")),
            current.store.content.doc_count(current.source.id),
        )
        if dead < DEAD_ROWS or dead < DEAD_SHARE * (dead + live):
            return False
        fresh = generations.begin(self._home, current)
        try:
            fresh.store.indexes.rebuild()
            fresh.publish()
            self._warm(fresh, self.states)
        except BaseException:
            fresh.retire()
            raise
        self._swap(fresh, self.states)
        return True

    def _list(self) -> Listing | None:
        self._folder_problem = ""
        try:
            listing = list_chunk_files(self.directory)
        except FileError as error:
            self._folder_problem = f"{error.message}; what was there before is served"
            return None
        self._listing_warnings = listing.warnings
        return listing

    def _rebuild(self, files: Sequence[ChunkFile], changed: set[str], gone: set[str]) -> bool:
        """Build and publish the next generation; a damaged base is rebuilt from the files."""
        try:
            return self._rebuild_in(
                generations.begin(self._home, self._current), files, changed, gone
            )
        except StoreError as error:
            if error.code not in DAMAGES:
                raise
            log.warning("the chunks are loaded anew: %s", error.message)
        return self._rebuild_all(files)

    def _rebuild_all(self, files: Sequence[ChunkFile]) -> bool:
        everything = {file.name for file in files}
        return self._rebuild_in(
            generations.begin(self._home, None, empty=True), files, everything, set()
        )

    def _rebuild_in(
        self, fresh: Generation, files: Sequence[ChunkFile], changed: set[str], gone: set[str]
    ) -> bool:
        started = time.monotonic()
        try:
            # The generation of another process may be of other files.
            if self._current is None:
                self.states = read_states(fresh.store)
                changed, gone = to_read(self.states, files, self._failed_before())
            built = build(fresh.store, fresh.source, files, changed, gone)
            self._note_built(built, {file.name: file.signature for file in files})
            same = built.states == self.states and self._damaged is not self._current
            # Only unreadable files changed.
            if same and self._current is not None:
                fresh.retire()
                return False
            if not built.states and self._current is None:
                message = f"no chunk file in {self.directory} can be read"
                raise FileError("FILE_UNREADABLE", message, instead=(WRITE_ANEW,))
            fresh.publish()
            self._warm(fresh, built.states)
        except BaseException:
            fresh.retire()
            raise
        self._swap(fresh, built.states)
        log.debug(
            "%s: %d chunks changed, loaded in %.2f s",
            self.directory,
            built.changes,
            time.monotonic() - started,
        )
        return True

    def _note_built(self, built: Built, signatures: Mapping[str, Signature]) -> None:
        """Record the files that could not be read, and log the warnings about the others."""
        self._forget_failures(signatures, built.states)
        failed: dict[str, tuple[Signature, str]] = {}
        for name, (signature, message) in built.problems.items():
            kept = "its chunks are those of before" if name in built.states else "left out"
            failed[name] = signature, f"{message}; {kept}"
        # Replaced as a whole, because queries read it meanwhile.
        self._failed = {**self._failed, **failed}
        for name, state in built.states.items():
            if self.states.get(name) != state:
                for warning in state.warnings:
                    log.warning("%s", warning)

    def _warm(self, generation: Generation, states: States) -> None:
        """Open everything that the first query needs, ahead of it."""
        generation.stamps = stamps_of(states)
        if generation.store.indexes.words() is None and generation.store.indexes.damaged:
            raise StoreError("INDEX_DAMAGED", "the words of chunks are damaged")
        check_vectors(generation.store, states)

    def _swap(self, fresh: Generation, states: dict[str, FileState]) -> None:
        with self._lock:
            former, self._current = self._current, fresh
            self.states = states
            if former is not None:
                self._former.append(former)
        if not self._former or not self.reap():
            # Release the memory that the build took.
            _release_memory()

    def reap(self) -> bool:
        """Close former generations that are no longer in use; true if all are closed."""
        with self._lock:
            unused = [generation for generation in self._former if not generation.uses]
            self._former = [generation for generation in self._former if generation.uses]
        for generation in unused:
            generation.retire()
        if unused:
            _release_memory()
        return not self._former

    def close(self, failure: CortexError) -> None:
        """Close everything; later queries raise `failure`.

        The current generation stays on disk for the next start.
        """
        with self._lock:
            current, self._current = self._current, None
            self.failure = self.failure or failure
        self.reap()
        if current is not None:
            current.close()


def _release_memory() -> None:
    # A store and its parts form reference cycles.
    gc.collect()
    give_memory_back()
