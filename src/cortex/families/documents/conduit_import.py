"""Import a Conduit knowledge base as library folders, and reuse matching vectors.

Sources keep their ids and names. Their documents are indexed again, because this library splits by
sections and keeps pages; so a vector can be reused only for a chunk with the same text, the same
model and the same prefix. Sources that can't be imported are reported with the reason. Knows no
command and no table of Conduit.
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
from cortex.engine.store.index.foreign_vectors import bare_name, keep_vectors
from cortex.families.documents.conduit import ConduitBase, ConduitFolder, open_base

if TYPE_CHECKING:
    import numpy as np

ADDED, PRESENT, GONE, REFUSED = "added", "present", "gone", "refused"
# Characters of a source's name that are kept.
MAX_NAME = 100
_ALIASES = {
    "nomic-embed-text-v1.5": "nomic-embed-text",
    "mxbai-embed-large-v1": "mxbai-embed-large",
}


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """Outcome for one source."""

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
    """Outcome of an import."""

    # Generation of the Conduit base.
    version: int
    sources: tuple[ImportOutcome, ...]
    # Vectors in the base.
    vectors: int
    reused: int
    # Explanation about vectors.
    note: str

    @property
    def complete(self) -> bool:
        """True if every source is in the library now."""
        return all(source.status in (ADDED, PRESENT) for source in self.sources)


def import_conduit(
    library: Library,
    path: Path,
    *,
    progress: ProgressCallback = lambda progress: None,
    cancel: Cancel | None = None,
) -> Imported:
    """Import the sources of a Conduit base and index those with existing folders.

    The base is only read.

    Raises: FileError FILE_NOT_FOUND or IMPORT_UNREADABLE; else as `index`. Sources imported until
    then stay.
    """
    with open_base(path) as base:
        outcomes: list[ImportOutcome] = []
        taken: list[Folder] = []
        for source in base.folders():
            folder, outcome = _import_source(library, source)
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


def _import_source(library: Library, source: ConduitFolder) -> tuple[Folder | None, ImportOutcome]:
    outcome = ImportOutcome(source.id, source.name, source.path, ADDED)
    if "\0" in source.path:
        return None, replace(outcome, status=REFUSED, reason="its path is none")
    try:
        root = root_text(Path(os.path.realpath(Path(source.path).expanduser())))
    except (FileError, RuntimeError) as error:
        # A name that isn't UTF-8, or an unknown user in ~name.
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


def _vectors_of(base: ConduitBase) -> dict[bytes, np.ndarray]:
    """Vectors of the base by the hash of their text."""
    return {hash_bytes(text.encode("utf-8", "replace")): row for text, row in base.vectors()}


def _reuse(
    library: Library, base: ConduitBase, vectors: dict[bytes, np.ndarray], folders: Sequence[Folder]
) -> tuple[int, str]:
    """Store the vectors of identical texts; return their number and a note about the others."""
    theirs, wanted = base.stamp(), library.embedding.wanted
    if theirs is None or not vectors:
        place = (
            "the base holds no vectors" if base.version == 2 else "its vectors are in its Qdrant"
        )
        return 0, f"{place}: they are made here"
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
    if not library.holds_lease():
        return (
            0,
            "another process has the library open, and only that one writes vectors: they are "
            "made anew",
        )
    known = vectors.keys() & _texts_of(library, folders)
    keep_vectors(library.store, ours, {text_hash: vectors[text_hash] for text_hash in known})
    return (
        len(known),
        f"{len(known)} of {len(vectors)} vectors are used again; the others are of texts that "
        "are cut otherwise here",
    )


def _texts_of(library: Library, folders: Sequence[Folder]) -> set[bytes]:
    """Hashes of all chunks in these folders."""
    lookup = library.store.content
    hashes: set[bytes] = set()
    for folder in folders:
        for doc in lookup.docs(folder.source.id):
            text = lookup.text(doc.blob)
            hashes |= {
                hash_bytes(text[chunk.start : chunk.end].encode("utf-8"))
                for _, chunk in lookup.chunks(doc.blob)
            }
    return hashes


def same_model(theirs: Stamp, ours: Stamp) -> bool:
    """True if vectors from there and here are comparable: same model, dimensions and prefix."""
    query, passage = PREFIXES[ours.prefix] if ours.prefix else ("", "")
    if (theirs.dimensions, _base_name(theirs.model)) != (ours.dimensions, _base_name(ours.model)):
        return False
    return not passage if theirs.prefix == "none" else theirs.prefix == scheme_of(passage, query)


def scheme_of(passage: str, query: str) -> str:
    """Conduit's name of a prefix pair: the upper half of its FNV-1a hash."""
    value = 0xCBF29CE484222325
    for byte in f"{passage}\0{query}\0".encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value >> 32:08x}"


def _base_name(model: str) -> str:
    """Name of a model without its publisher and file format."""
    name = bare_name(model).removesuffix(".f16").removesuffix(".f32")
    return _ALIASES.get(name, name)
