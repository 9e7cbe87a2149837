"""Which generation of a shelf is current, and how the next one takes its place.

One thread loads, any number ask. What can't be read keeps its old state and is a problem that
answers tell; so does a file that is gone while the others are as they were, since an indexer may be
at work or have died. Knows nothing of questions.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Iterator, Sequence
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
from cortex.families.chunkfiles.format import (
    ENDING,
    ChunkFile,
    Listing,
    Signature,
    list_chunk_files,
    shown,
)
from cortex.families.chunkfiles.generations import Generation
from cortex.families.chunkfiles.preflight import WRITE_ANEW

DAMAGES = ("STORE_CORRUPT", "INDEX_DAMAGED")  # a generation is a copy of the chunk files, whole

log = logging.getLogger(__name__)


class Loading:
    """The generations of one shelf that this process has."""

    def __init__(self, directory: Path, cortex_home: Path) -> None:
        self.directory = directory
        self.states: dict[str, FileState] = {}  # of the current generation
        self.failure: CortexError | None = None  # why there is none
        self._home = generations.home_of(directory.resolve(), cortex_home)
        self._lock = threading.Lock()  # of which generation is current; held for moments
        self._current: Generation | None = None
        self._former: list[Generation] = []
        self._failed: dict[str, Signature] = {}
        self._problems: dict[str, str] = {}  # by file; "" is the directory
        self._following = False  # whether the files have been looked at before
        # Files that are gone, and whose chunks still answer
        self._missing: frozenset[str] = frozenset()
        self._spoiled: Generation | None = None  # that turned out to be damaged
        self._strange: tuple[str, ...] = ()  # what is no chunk file though it is called like one

    @property
    def loaded(self) -> bool:
        """Whether there is something to ask."""
        return self._current is not None

    @property
    def current(self) -> Generation | None:
        """The generation that answers now."""
        return self._current

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the files as they are now, one sentence each."""
        return (*(self._problems[name] for name in sorted(self._problems)), *self._strange)

    @contextmanager
    def using(self) -> Iterator[Generation]:
        """The current generation, which stays open for the block."""
        while True:
            with self._lock:
                generation = self._current
            if generation is None:
                raise self.failure or LimitError("INDEX_BUSY", "the chunk files are not loaded")
            with generation.use() as usable:
                if usable:
                    yield generation
                    return

    def load(self) -> None:
        """Remove what earlier processes left, and bring what there is up to date.

        Raises: CortexError.
        """
        generations.sweep(self._home)
        self.reload()
        self._following = True
        generations.sweep_unused(self._home)

    def adopt(self) -> bool:
        """Let what an earlier process left answer, until the files have been looked at; false where
        there is nothing.
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
        """Look at the files now, and take up what changed; true where something did.

        One thread at a time.
        """
        listing = self._list()
        if listing is None:
            return False
        if not listing.files and self.states:
            self.problem(
                "",
                f"{self.directory} holds no chunk files any more; what was there before is served",
            )
            return False
        self._note_missing(listing.files)
        changed, gone = to_read(self.states, listing.files, self._failed, self._missing)
        if self._spoiled is not None and self._spoiled is self._current:
            return self._rebuild_all(listing.files)
        if not changed and not gone:
            return False
        return self._rebuild(listing.files, changed, gone)

    def spoil(self, generation: Generation) -> None:
        """Have everything loaded anew at the next look: what is on disk of this generation is
        damaged.
        """
        self._spoiled = generation

    def _note_missing(self, files: Sequence[ChunkFile]) -> None:
        """Decide which files that are gone still answer, and say so.

        They do until another file is written later than they went, or a new one comes, as when a
        file is renamed: then whoever writes the files is done without them. A start takes the files
        as they are.
        """
        present = {file.name for file in files}
        missing = frozenset(self.states).difference(present)
        changed, _ = to_read(self.states, files, self._failed, missing)
        if not self._following or not present <= set(self.states) | set(self._failed):
            kept = frozenset[str]()
        else:
            kept = missing - self._missing if changed else missing
        back = self._missing & present
        for name in [name for name in self._problems if name.endswith(ENDING)]:
            if name in back or (name not in present and name not in kept):
                del self._problems[name]
        for name in kept:
            self.problem(
                name,
                f"{shown(name)} is gone; its chunks of before are served until another chunk file is written",
            )
        self._missing = kept

    def tidy(self) -> bool:
        """Write the words anew where much of what they hold is dead, which bends scores; true where
        that was so. After a reload: nobody waits.
        """
        current = self._current
        if current is None:
            return False
        dead, live = (
            int(current.store.truth.get("dead", "0")),
            current.store.truth.size(current.source.id),
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
        try:
            listing = list_chunk_files(self.directory)
        except FileError as error:
            self.problem("", f"{error.message}; what was there before is served")
            return None
        if listing.files:
            self._problems.pop("", None)
        for warning in listing.warnings:
            if warning not in self._strange:
                log.warning("%s", warning)
        self._strange = listing.warnings
        return listing

    def _rebuild(self, files: Sequence[ChunkFile], changed: set[str], gone: set[str]) -> bool:
        """Build the next generation and let it answer; what is damaged in the last one is left
        behind.
        """
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
            if self._current is None:  # what another process has may be of other files
                self.states = read_states(fresh.store)
                changed, gone = to_read(self.states, files, self._failed)
            built = build(fresh.store, fresh.source, files, changed, gone)
            self._note_built(built, {file.name: file.signature for file in files})
            same = built.states == self.states and self._spoiled is not self._current
            if same and self._current is not None:  # nothing but files that can't be read
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
        log.info(
            "%s: %d chunks changed, loaded in %.2f s",
            self.directory,
            built.changes,
            time.monotonic() - started,
        )
        return True

    def _note_built(self, built: Built, signatures: dict[str, Signature]) -> None:
        """Remember and log which files could not be read."""
        for name in list(self._problems):
            if (
                name.endswith(ENDING)
                and name not in built.problems
                and self._failed.get(name) != signatures.get(name)
            ):
                del self._problems[name]
        for name, (signature, message) in built.problems.items():
            kept = "its chunks are those of before" if name in built.states else "left out"
            self._failed[name] = signature
            self.problem(name, f"{message}; {kept}")
        for name, state in built.states.items():
            if name not in built.problems:
                self._failed.pop(name, None)
            if self.states.get(name) != state:
                for warning in state.warnings:
                    log.warning("%s", warning)

    def _warm(self, generation: Generation, states: States) -> None:
        """Open what the first question needs, before there is one."""
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
            _give_back()  # what the building took

    def reap(self) -> bool:
        """Close the former generations that nobody uses any more; true where all are."""
        before = len(self._former)
        self._former = [one for one in self._former if not one.retire()]
        if len(self._former) < before:
            _give_back()
        return not self._former

    def problem(self, name: str, message: str) -> None:
        """Remember and log what is wrong, once."""
        if self._problems.get(name) != message:
            log.warning("%s", message)
            self._problems[name] = message

    def solved(self, name: str) -> None:
        """What was wrong there no longer is."""
        self._problems.pop(name, None)

    def close(self, failure: CortexError) -> None:
        """Close everything; the current generation stays on the disk for the next start, and who
        asks is told why.
        """
        with self._lock:
            current, self._current = self._current, None
            self.failure = self.failure or failure
        for one in self._former:
            one.retire()
        if current is not None:
            current.close()


def _give_back() -> None:
    gc.collect()  # a store and its parts know one another
    give_memory_back()
