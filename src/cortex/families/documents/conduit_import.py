"""What another product has, moved here: its sources become folders of the library, its vectors are
taken where they are the same.

Sources keep their ids and names. Their documents are read anew, since this library cuts by sections
and keeps pages; so a vector can be used again only for a chunk whose text is the same here and
there, by the same model with the same prefix. What can't be taken is told, with the reason. Knows
no command and no table of the other product.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import ConfigError, CortexError, FileError
from cortex.base.paths import root_text
from cortex.base.text import hash_bytes
from cortex.base.types import Cancel, ProgressCallback, Stamp
from cortex.engine.embedders.server_protocols import PREFIXES
from cortex.engine.library import Library
from cortex.engine.store import Folder
from cortex.families.documents.conduit import Base, open_base
from cortex.families.documents.conduit import ConduitFolder as Foreign

if TYPE_CHECKING:
    import numpy as np

ADDED, PRESENT, GONE, REFUSED = "added", "present", "gone", "refused"
MAX_NAME = 100  # characters of a source's name that are kept
PAY_BATCH = 500  # vectors that are kept at once
_ALIASES = {
    "nomic-embed-text-v1.5": "nomic-embed-text",
    "mxbai-embed-large-v1": "mxbai-embed-large",
}


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What became of one source."""

    id: str
    name: str
    path: str
    status: str
    reason: str = ""
    documents: int = 0
    chunks: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did."""

    version: int  # of the other product's base
    sources: tuple[ImportOutcome, ...]
    vectors: int  # that the base has
    reused: int
    note: str  # about vectors

    @property
    def complete(self) -> bool:
        """Whether every source is here now."""
        return all(source.status in (ADDED, PRESENT) for source in self.sources)


def import_conduit(
    library: Library,
    path: Path,
    *,
    progress: ProgressCallback = lambda progress: None,
    cancel: Cancel | None = None,
) -> Imported:
    """Take over the sources of a Conduit base and index those whose folders are there; the base is
    only read.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE; else as `index`. What was taken until
    then stays.
    """
    with open_base(path) as base:
        outcomes: list[ImportOutcome] = []
        taken: list[Folder] = []
        for source in base.folders():
            folder, outcome = _take(library, source)
            if folder is not None:
                library.index(source=folder.source, progress=progress, cancel=cancel)
                state = library.state_of(folder)
                outcome = replace(
                    outcome,
                    documents=state.counts.docs,
                    chunks=state.counts.chunks,
                    skipped=len(state.skipped),
                )
                taken.append(folder)
            outcomes.append(outcome)
        vectors = _vectors_of(base)
        reused, note = _reuse(library, base, vectors, taken)
        if reused:
            library.embedding.embed(
                progress=progress, cancel=Cancel() if cancel is None else cancel
            )
        return Imported(base.version, tuple(outcomes), len(vectors), reused, note)


def _take(library: Library, source: Foreign) -> tuple[Folder | None, ImportOutcome]:
    outcome = ImportOutcome(source.id, source.name, source.path, ADDED)
    if "\0" in source.path:
        return None, replace(outcome, status=REFUSED, reason="its path is none")
    try:
        root = root_text(Path(os.path.realpath(Path(source.path).expanduser())))
    except (FileError, RuntimeError) as error:  # a name that isn't UTF-8, a user that there isn't
        return None, replace(outcome, status=REFUSED, reason=str(error))
    for known in library.folders():
        if known.key == source.id or known.source.root == root:
            return known, replace(outcome, id=known.key, name=known.name, status=PRESENT)
    if not os.path.isdir(root):
        return None, replace(outcome, status=GONE, reason="the folder isn't there any more")
    name = "".join(
        character for character in " ".join(source.name.split()) if character.isprintable()
    )[:MAX_NAME]
    if any(known.name.casefold() == name.casefold() for known in library.folders()):
        name = f"{name} (conduit)"
    try:
        folder = library.add_folder(
            Path(source.path),
            name=name,
            include=source.patterns,
            exclude=source.excludes,
            watch=source.watch,
            key=source.id,
        )
    except ConfigError as error:
        return None, replace(outcome, status=REFUSED, reason=error.message)
    return folder, replace(outcome, name=folder.name)


def _vectors_of(base: Base) -> dict[bytes, np.ndarray]:
    """The base's vectors by the hash of their text."""
    return {hash_bytes(text.encode("utf-8", "replace")): row for text, row in base.vectors()}


def _reuse(
    library: Library, base: Base, vectors: dict[bytes, np.ndarray], folders: Sequence[Folder]
) -> tuple[int, str]:
    """Keep the vectors of texts that are the same here, as paid for; gives how many, and what to
    say of the others.
    """
    theirs, wanted = base.stamp(), library.embedding.wanted
    if theirs is None or not vectors:
        return (
            0,
            "the base holds no vectors: they are made here"
            if base.version == 2
            else "its vectors are in its Qdrant: they are made here",
        )
    if wanted is None:
        return 0, "no embedder is configured here: its vectors are not used"
    try:
        ours = wanted.stamp or wanted.connect()
    except CortexError as error:
        return 0, f"its vectors are not used: {error.message}"
    if not same_model(theirs, ours):
        return (
            0,
            f"its vectors are of {theirs.model}, here {ours.model} is wanted: they are made anew",
        )
    if not wanted.costly:
        return 0, f"vectors of {ours.model} are cheap: they are made anew"
    if not library.holds():
        return (
            0,
            "another process has the library open, and only that one writes vectors: they are "
            "made anew",
        )
    known = sorted(vectors.keys() & _texts_of(library, folders))
    for start in range(0, len(known), PAY_BATCH):
        _keep(library, ours, known[start : start + PAY_BATCH], vectors)
    return (
        len(known),
        f"{len(known)} of {len(vectors)} vectors are used again; the others are of texts that "
        "are cut otherwise here",
    )


def _texts_of(library: Library, folders: Sequence[Folder]) -> set[bytes]:
    """The hashes of all chunks of these folders."""
    lookup = library.store.lookup
    found: set[bytes] = set()
    for folder in folders:
        for doc in lookup.docs(folder.source.id):
            text = lookup.text(doc.blob)
            found |= {
                hash_bytes(text[one.start : one.end].encode("utf-8"))
                for _, one in lookup.chunks(doc.blob)
            }
    return found


def _keep(
    library: Library, stamp: Stamp, hashes: list[bytes], vectors: dict[bytes, np.ndarray]
) -> None:
    import numpy as np

    store = library.store
    rows = np.stack([vectors[one] for one in hashes])
    store.indexes.sets.pay(stamp, store.paid.model(stamp), hashes, rows, [])


def same_model(theirs: Stamp, ours: Stamp) -> bool:
    """Whether passages embedded there and here can be compared: the same weights, as many numbers,
    the same words before a text.
    """
    query, passage = PREFIXES[ours.prefix] if ours.prefix else ("", "")
    same_words = (
        not passage if theirs.prefix == "none" else theirs.prefix == scheme_of(passage, query)
    )
    return (
        _plain(theirs.model) == _plain(ours.model)
        and theirs.dimensions == ours.dimensions
        and same_words
    )


def scheme_of(passage: str, query: str) -> str:
    """What Conduit calls a pair of prefixes: the upper half of their FNV-1a hash."""
    value = 0xCBF29CE484222325
    for byte in f"{passage}\0{query}\0".encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value >> 32:08x}"


def _plain(model: str) -> str:
    """A model's name without where it came from and how it is packed."""
    name = (
        model.lower()
        .replace("\\", "/")
        .rpartition("/")[2]
        .removesuffix(":latest")
        .removesuffix(".gguf")
    )
    name = name.removesuffix(".f16").removesuffix(".f32")
    return _ALIASES.get(name, name)
