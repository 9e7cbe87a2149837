"""Incremental build: bring a generation up to date with the chunk files.

Changed files are read and compared entry by entry, and only differences are written. Runs in a
generation that serves no queries yet. A file that can't be read keeps its known entries and is
named in `problems`.

Of two chunks with the same id the later one wins: the one further down in a file, or the one in the
file with the later name. Files are processed in reverse, so that the winning ids are known when an
earlier file is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from cortex.base.errors import FileError, StoreError
from cortex.base.text import hash_bytes, role_of
from cortex.base.types import Chunk, Cut, Entry, Source, Stamp, Symbol
from cortex.engine.store import Held, Store, Update
from cortex.families.chunkfiles.format import (
    ChunkFile,
    ChunkFileReader,
    Signature,
    Vector,
    WrittenChunk,
    shown,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Provider of vectors that come from files, and the prefix that identifies our own model.
PROVIDER, OWN_MODEL = ("chunks", "cortex-static")
# Vectors per write.
BATCH = 1_000
# Share of changed entries above which the lexical index is rebuilt rather than updated.
REBUILD_SHARE = 1.0
# Up to this many entries the lexical index is always rebuilt: that takes a quarter of a second, and
# no deleted rows distort the scores.
FEW_ENTRIES = 2_000
# Per file.
MAX_WARNINGS = 50
PROSE = "markdown"
_STATES_KEY, _VECTOR_COUNTS_KEY = "chunk files", "chunk vectors"
# Separator between an id and the path of a file, and the end of that key range.
_SEPARATOR, _RANGE_END = "\n/", "\n0"
_DEFINES = re.compile(
    r"^[ \t]*(?:[a-z]+ ){0,4}?"
    r"(func|function|def|fn|class|type|interface|struct|enum|trait|module|protocol|record)[ \t]+"
    r"(?:\([^()\n]*\)[ \t]*)?([A-Za-z_]\w{0,199})",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class FileState:
    """State of a file, as it was when a generation took in its chunks."""

    signature: Signature
    model: str = ""
    dimensions: int = 0
    vectors: int = 0
    # True if some of its chunks don't count, because a later file has chunks with the same ids.
    shadowed: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def stamp(self) -> Stamp | None:
        return stamp_of(self.model, self.dimensions) if self.vectors else None


States = Mapping[str, FileState]


def stamp_of(model: str, dimensions: int) -> Stamp:
    """Stamp of a file's vectors; our own model is "local", which calibrates relevance better."""
    return Stamp("local" if model.startswith(OWN_MODEL) else PROVIDER, model, dimensions)


def stamps_of(states: States) -> tuple[Stamp, ...]:
    """Stamps of all vectors, the most frequent first."""
    counts: dict[Stamp, int] = {}
    for state in states.values():
        if state.stamp is not None:
            counts[state.stamp] = counts.get(state.stamp, 0) + state.vectors
    return tuple(sorted(counts, key=lambda stamp: (-counts[stamp], stamp.model, stamp.dimensions)))


def read_states(store: Store) -> dict[str, FileState]:
    """Read the states of the files that a generation holds, by name."""
    stored = json.loads(store.content.get(_STATES_KEY, "{}"))
    return {
        name: FileState(
            **{
                **fields,
                "signature": tuple(fields["signature"]),
                "warnings": tuple(fields["warnings"]),
            }
        )
        for name, fields in stored.items()
    }


def to_read(
    states: States,
    files: Iterable[ChunkFile],
    failed: Mapping[str, Signature],
    kept: frozenset[str] = frozenset(),
) -> tuple[set[str], set[str]]:
    """Compare the files with their known states.

    Returns the names of the files that have to be read, and of those that are gone and not `kept`.
    A file that failed is not tried again while it is unchanged.
    """
    present = {file.name: file.signature for file in files}
    changed = {
        name
        for name, signature in present.items()
        if failed.get(name) != signature
        and (name not in states or states[name].signature != signature)
    }
    gone = set(states) - set(present) - kept
    # Chunks that another file shadowed may count again.
    if changed or gone:
        changed |= {name for name, state in states.items() if state.shadowed and name in present}
    return changed, gone


@dataclass(slots=True)
class Built:
    """Outcome of a build."""

    states: dict[str, FileState]
    # Files that could not be read, with the reason.
    problems: dict[str, tuple[Signature, str]] = field(default_factory=dict)
    # Entries that were written or removed.
    changes: int = 0
    # Entries that differ only in fields that no index contains.
    refreshed: int = 0


def build(
    store: Store, source: Source, files: Sequence[ChunkFile], changed: set[str], gone: set[str]
) -> Built:
    """Bring a store up to date with the files.

    Raises: StoreError or FileError if the store can't be written.
    """
    built = Built(read_states(store))
    vectors = _Vectors(store)
    present = {file.name for file in files}
    with store.entries.update(source.id) as update:
        for name in gone:
            for held in update.of_file(name):
                update.remove(held)
                vectors.remove(held.chunk)
            del built.states[name]
        # Apply the removals first, so that they block no insertion.
        update.flush()
        for file in sorted(files, key=lambda file: file.name, reverse=True):
            if file.name in changed:
                _read_file(update, vectors, file, present, built)
        built.changes, built.refreshed, seq = update.changes, update.refreshed, update.seq
    store.content.set(
        {_STATES_KEY: json.dumps({name: asdict(state) for name, state in built.states.items()})}
    )
    _update_indexes(store, source, built.changes)
    vectors.finish(seq, set(stamps_of(built.states)))
    store.content.set({_VECTOR_COUNTS_KEY: json.dumps(_count_vectors(store, built.states))})
    return built


def check_vectors(store: Store, states: States) -> None:
    """Load the vectors and check that none is missing.

    Raises: StoreError STORE_CORRUPT.
    """
    if _count_vectors(store, states) != json.loads(store.content.get(_VECTOR_COUNTS_KEY, "[]")):
        raise StoreError("STORE_CORRUPT", "vectors of chunks are missing")


def _count_vectors(store: Store, states: States) -> list[int]:
    return [store.indexes.sets.size(stamp) for stamp in stamps_of(states)]


def _update_indexes(store: Store, source: Source, changes: int) -> None:
    entries = store.content.doc_count(source.id)
    if entries <= FEW_ENTRIES or changes > REBUILD_SHARE * entries:
        store.indexes.rebuild()
    store.indexes.catch_up()


def _read_file(
    update: Update, vectors: _Vectors, file: ChunkFile, present: set[str], built: Built
) -> None:
    vectors.mark()
    states = dict(built.states)
    try:
        with update.file():
            reader = _Reader(update, vectors, file, present, states)
            reader.run()
    except FileError as error:
        vectors.take_back()
        built.problems[file.name] = (file.signature, error.message)
        return
    vectors.keep()
    built.states = states


class _Reader:
    """Import of one file into the store."""

    def __init__(
        self,
        update: Update,
        vectors: _Vectors,
        file: ChunkFile,
        present: set[str],
        states: dict[str, FileState],
    ) -> None:
        self._update, self._vectors, self._file, self._states = update, vectors, file, states
        self._present = present
        self._reading = ChunkFileReader(file.path)
        self._held = {_key_of(held.path): held for held in update.of_file(file.name)}
        self._seen: set[str] = set()
        self._shadowed = False
        self._warnings: list[str] = []
        self._embedded = 0

    def run(self) -> None:
        for written in self._reading:
            self._store_chunk(written)
        for key, held in self._held.items():
            if key not in self._seen:
                self._remove(held)
        self._states[self._file.name] = FileState(
            signature=self._file.signature,
            model=self._reading.model,
            dimensions=self._reading.dimensions,
            vectors=self._embedded,
            shadowed=self._shadowed,
            warnings=tuple([*self._reading.warnings, *self._warnings][:MAX_WARNINGS]),
        )

    def _remove(self, held: Held) -> None:
        self._update.remove(held)
        self._vectors.remove(held.chunk)

    def _store_chunk(self, written: WrittenChunk) -> None:
        entry, vector, name = written.entry, written.embedding, self._file.name
        path = path_of(entry)
        key, _, file = path.partition(_SEPARATOR)
        if key in self._seen:
            self._warn(
                f"{self._reading.name}: the id {shown(entry.id)} occurs twice; the last one counts"
            )
        held = self._held.get(key)
        if (
            held is None
            and (held := self._find_in_other_files(key)) is not None
            and not self._may_replace(held, entry)
        ):
            return
        self._embedded += vector is not None
        self._seen.add(key)
        cut = cut_of(entry)
        digest = self._digest(path, cut, entry, vector)
        if held is not None:
            if held.hash == digest and held.file == name:
                self._update.refresh(held.doc, entry)
                return
            self._remove(held)
        role = role_of(file or key)
        self._held[key] = held = self._update.put(path, role, digest, cut, entry, name)
        if vector is not None:
            self._vectors.add(stamp_of(self._reading.model, len(vector)), held.chunk, vector)

    def _find_in_other_files(self, key: str) -> Held | None:
        candidates = self._update.between(key, f"{key}{_RANGE_END}")
        return next((held for held in candidates if _key_of(held.path) == key), None)

    def _may_replace(self, held: Held, entry: Entry) -> bool:
        """Decide whether a chunk of this file wins over another file with the same id.

        A file that is gone always loses.
        """
        if held.file not in self._present:
            return True
        later = max(held.file, self._file.name)
        self._warn(
            f"the id {shown(entry.id)} is in {shown(held.file)} and in {self._reading.name}; "
            f"the chunk in {shown(later)} counts"
        )
        if later == held.file:
            self._shadowed = True
            return False
        self._states[held.file] = replace(self._states[held.file], shadowed=True)
        return True

    def _digest(self, path: str, cut: Cut, entry: Entry, vector: Vector | None) -> bytes:
        """Hash everything that an index contains."""
        numbers = b"" if vector is None else vector.tobytes()
        fields = (entry.id, entry.chunk_type or "", entry.title or "", *(entry.tags or ()))
        parts = (path, cut.text, cut.language, self._reading.model, *fields)
        return hash_bytes(numbers, repr(parts).encode("utf-8"))

    def _warn(self, warning: str) -> None:
        if len(self._warnings) < MAX_WARNINGS:
            self._warnings.append(warning)


def _ids(chunks: Sequence[int]) -> NDArray[np.int64]:
    # Imported here, so that projects without chunk files don't load numpy.
    import numpy as np

    return np.asarray(chunks, dtype=np.int64)


class _Vectors:
    """Batched writes to the vector indexes, with rollback of one file."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: dict[Stamp, list[tuple[int, Vector]]] = {}
        # Chunk ids of the file that is being read.
        self._added: list[int] = []
        self._removed: list[int] = []
        self._removed_before = 0

    def mark(self) -> None:
        """Begin with a file."""
        self._added, self._removed_before = [], len(self._removed)

    def add(self, stamp: Stamp, chunk: int, vector: Vector) -> None:
        waiting = self._pending.setdefault(stamp, [])
        waiting.append((chunk, vector))
        self._added.append(chunk)
        if len(waiting) >= BATCH:
            self._flush(stamp)

    def remove(self, chunk: int) -> None:
        self._removed.append(chunk)

    def keep(self) -> None:
        """Commit the vectors of the current file."""
        for stamp in self._pending:
            self._flush(stamp)

    def take_back(self) -> None:
        """Roll back the current file: its chunk ids will be assigned again, to other chunks."""
        for waiting in self._pending.values():
            waiting.clear()
        del self._removed[self._removed_before :]
        added = _ids(self._added)
        for stamp in self._stamps():
            self._store.indexes.vectors(stamp).remove(added)

    def finish(self, seq: int, used: set[Stamp]) -> None:
        """Make everything durable and drop the vectors of models that no file names any more."""
        gone = _ids(self._removed)
        for stamp in used:
            vectors = self._store.indexes.vectors(stamp)
            vectors.remove(gone)
            vectors.sync(seq)
        self._store.indexes.sets.keep_only(used)

    def _flush(self, stamp: Stamp) -> None:
        waiting = self._pending[stamp]
        if waiting:
            import numpy as np

            rows = np.stack([vector for _, vector in waiting])
            self._store.indexes.vectors(stamp).add(_ids([chunk for chunk, _ in waiting]), rows)
            waiting.clear()

    def _stamps(self) -> set[Stamp]:
        manifests = self._store.indexes.sets.on_disk()
        return {*self._pending, *(manifest.stamp for manifest in manifests if manifest is not None)}


def path_of(entry: Entry) -> str:
    """Path of an entry in the store: its id, then its file, because ranking looks at paths."""
    name = entry.id if "\n" not in entry.id else hash_bytes(entry.id.encode("utf-8")).hex()
    file = (entry.metadata or {}).get("file_path")
    return f"{name}{_SEPARATOR}{file}" if isinstance(file, str) and file else name


def _key_of(path: str) -> str:
    """Extract the id from a store path."""
    return path.partition(_SEPARATOR)[0]


def cut_of(entry: Entry) -> Cut:
    """Convert an entry to a text with one chunk."""
    lines = entry.text.count("\n") + 1
    kind, title = entry.chunk_type or "", entry.title or ""
    metadata = entry.metadata or {}
    language = metadata.get("language")
    if not isinstance(language, str):
        language = (
            PROSE if kind == "documentation" or metadata.get("source") == "markdown" else "text"
        )
    chunk = Chunk(
        0, 0, len(entry.text), 1, lines, kind, title, title, doc=" ".join(entry.tags or ())
    )
    symbols = _symbols(entry.text) if kind == "definitions" else ()
    return Cut(language, entry.text, (chunk,), symbols)


def _symbols(text: str) -> tuple[Symbol, ...]:
    """Extract the definitions in a text, so that a name finds its definition."""
    symbols: dict[str, Symbol] = {}
    for match in _DEFINES.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        symbols.setdefault(match[2], Symbol(match[2], match[2], match[1], line, line))
    return tuple(symbols.values())
