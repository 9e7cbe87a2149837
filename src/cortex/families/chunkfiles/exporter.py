"""An index becomes chunk files that other programs read: symbols, definitions, values and
documentation, with vectors.

    with Engine(root, settings) as engine:
        Exporter(engine, folder).export()

Works from what the index holds; nothing is read or cut in here but documents, which are cut as
`chunking` says. What a file says is in `entries.py`, how it is written in `files.py`, vectors for
files of others are made anew in `reembedding.py`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import Cancelled
from cortex.base.settings import Settings
from cortex.base.types import Cancel, Doc, Entry, Progress, ProgressCallback, UnreadableFile
from cortex.engine.embedders import open_embedder, open_local
from cortex.engine.embedders.circuit_breaker import CircuitBreaker
from cortex.engine.engine import Engine
from cortex.engine.sources.gitignore import Patterns
from cortex.engine.sources.scanner import read_bytes
from cortex.families.chunkfiles import export_files as files
from cortex.families.chunkfiles.export_entries import DOCUMENTATION, DOCUMENTS, Sizes, entries_of
from cortex.families.chunkfiles.export_files import NAMES, ExportModel, check_ours
from cortex.families.chunkfiles.format import WrittenFile
from cortex.families.chunkfiles.index import chunks_dir
from cortex.families.chunkfiles.reembedder import Reembedded, reembed

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Exporter", "Reembedded", "Report", "check_ours", "embedder_for", "folder_of", "reembed"]

BATCH = 64  # texts that are embedded at once


@dataclass(frozen=True, slots=True)
class Report:
    """What one export did."""

    folder: str
    model: str
    dimensions: int
    chunks: Mapping[str, int]  # by chunk type
    embedded: int  # texts that had no vector yet
    written: tuple[str, ...]  # names of files; those that would be the same are left alone
    left_out: int  # chunks that the model makes nothing of
    files: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Made:
    """What was made of one doc."""

    doc: Doc
    checksum: str
    entries: tuple[Entry, ...]


class Exporter:
    """The chunk files of one engine in one folder; kept, it makes only what changed since."""

    def __init__(self, engine: Engine, folder: Path, *, force: bool = False) -> None:
        """Raises: ConfigError CHUNKS_FOREIGN, where another program's files are in `folder`, unless
        `force`.
        """
        if not force:
            check_ours(folder)
        self._engine = engine
        self.folder = folder
        self._made: dict[str, _Made] = {}  # by path
        self._made_by: tuple[Sizes, str] | None = None  # the settings that entries depend on
        self._standing: dict[str, dict[str, WrittenFile]] = {}  # by chunk type and id
        self._model = ExportModel("", 0)
        self._told: tuple[object, object] = ({}, {})  # what generator-output.json says of files
        self._seq = -1  # of the store when it was exported

    def is_due(self) -> bool:
        """Whether the index, or the settings that decide what is written, have changed since the
        last export.
        """
        return self._engine.store.truth.seq() != self._seq or self._made_by != _made_by(
            self._engine.settings
        )

    def export(
        self, *, progress: ProgressCallback = lambda progress: None, cancel: Cancel | None = None
    ) -> Report:
        """Bring the chunk files up to date with the index; only those whose content changes are
        written.

        Raises: CortexError, where the embedder fails; FileError; LimitError INDEX_BUSY; Cancelled.
        Then all files are as they were.
        """
        started, seq = time.monotonic(), self._engine.store.truth.seq()
        embedder = self._engine.embedding.wanted or CircuitBreaker(open_local())
        stamp = embedder.stamp or embedder.connect()
        model = ExportModel(stamp.model, stamp.dimensions)
        with files.writing(self.folder):
            self._recall(model)
            self._make()
            wanted = self._by_kind()
            vectors, embedded = self._embed(
                wanted, embedder, progress, Cancel() if cancel is None else cancel
            )
            left_out = sum(
                entry.text not in vectors for entries in wanted.values() for entry in entries
            )
            written = tuple(self._bring(kind, entries, vectors) for kind, entries in wanted.items())
            names = tuple(name for name in written if name)
            seconds = time.monotonic() - started
            self._tell(bool(names), seconds)
        self._seq = seq
        counts = {kind: len(standing) for kind, standing in self._standing.items()}
        return Report(
            str(self.folder),
            model.name,
            model.dimensions,
            counts,
            embedded,
            names,
            left_out,
            len(self._made),
            seconds,
        )

    def _recall(self, model: ExportModel) -> None:
        """Know what stands in the files, and say whose they are before the first of them is
        written.
        """
        if model == self._model and (self.folder / files.OUTPUT).exists():
            return
        ours = files.is_ours(self.folder)
        self._standing = {
            kind: files.read_written(self.folder, kind, model) if ours else {} for kind in NAMES
        }
        self._model, self._told = model, files.read_told(self.folder)
        if not ours or not (self.folder / files.OUTPUT).exists():
            self._tell(True, 0.0)

    def _make(self) -> None:
        """Entries of every doc; those of docs that are the same stay."""
        engine, settings = self._engine, self._engine.settings
        sizes, covered = _sizes(settings), _covered(settings)
        made_by = _made_by(settings)
        if made_by != self._made_by:
            self._made, self._made_by = {}, made_by
        before, self._made = self._made, {}
        lookup = engine.store.lookup
        for doc in lookup.docs(engine.source.id):
            if not covered(doc):
                continue
            made = before.get(doc.path)
            if made is None or made.doc.blob != doc.blob:
                text = lookup.text(doc.blob)
                entries = tuple(entries_of(doc, text, lookup.symbols(doc.blob), sizes))
                made = _Made(doc, self._checksum(doc, text), entries)
            self._made[doc.path] = replace(made, doc=doc)

    def _checksum(self, doc: Doc, text: str) -> str:
        """Of the file as it is on disk, as long as that is what was indexed; else of its text."""
        raw = read_bytes(self._engine.root, doc.path, max(doc.size, 1))
        whole = (
            text.encode("utf-8", "surrogatepass")
            if isinstance(raw, UnreadableFile) or len(raw) != doc.size
            else raw
        )
        return hashlib.sha256(whole).hexdigest()

    def _by_kind(self) -> dict[str, list[Entry]]:
        wanted: dict[str, list[Entry]] = {kind: [] for kind in NAMES}
        for made in self._made.values():
            for entry in made.entries:
                wanted[entry.chunk_type or ""].append(entry)
        return wanted

    def _embed(
        self,
        wanted: Mapping[str, Sequence[Entry]],
        embedder: CircuitBreaker,
        progress: ProgressCallback,
        cancel: Cancel,
    ) -> tuple[dict[str, np.ndarray], int]:
        """The vector of every text, and how many of them had to be made; texts that the model makes
        nothing of have none.
        """
        known = {
            one.entry.text: one.embedding
            for standing in self._standing.values()
            for one in standing.values()
            if one.embedding is not None
        }
        titles = {
            entry.text: entry.title or ""
            for entries in wanted.values()
            for entry in entries
            if entry.text not in known
        }
        missing = list(titles)
        for start in range(0, len(missing), BATCH):
            if cancel:
                raise Cancelled
            texts = missing[start : start + BATCH]
            rows = embedder.passages(texts)
            for text, row in zip(texts, rows, strict=True):
                # Readers divide by a vector's length: one of length 0 is no vector. The title has
                # words at least.
                row = row if row.any() else embedder.passages([titles[text]])[0]
                if row.any():
                    known[text] = row
            progress(Progress("embedding", start + len(texts), len(missing)))
        return known, len(missing)

    def _bring(self, kind: str, entries: Sequence[Entry], vectors: Mapping[str, np.ndarray]) -> str:
        """Write the file of a kind, where it would be another one; gives its name then, else
        nothing.
        """
        standing, moment = self._standing[kind], files.now()
        new: dict[str, WrittenFile] = {}
        for entry in entries:
            old = standing.get(entry.id)
            if old is not None and replace(old.entry, created_at=None, updated_at=None) == entry:
                new[entry.id] = old
            elif entry.text in vectors:
                created = old.entry.created_at if old else moment
                timed = replace(entry, created_at=created, updated_at=moment)
                new[entry.id] = WrittenFile(timed, vectors[entry.text])
        same = list(new) == list(standing) and all(new[name] is standing[name] for name in new)
        if same and (self.folder / NAMES[kind]).exists():
            return ""
        files.replace(
            self.folder, NAMES[kind], files.render(kind, self._model, moment, new.values())
        )
        self._standing[kind] = new
        return NAMES[kind]

    def _tell(self, changed: bool, seconds: float) -> None:
        """Write generator-output.json, where it would say anything else than before."""
        made = self._made.values()
        checksums = {one.doc.path: one.checksum for one in made}
        times = {one.doc.path: files.moment(one.doc.mtime_ns) for one in made}
        if (
            not changed
            and (checksums, times) == self._told
            and (self.folder / files.OUTPUT).exists()
        ):
            return
        documents = [
            one for one in made if any(entry.chunk_type == DOCUMENTATION for entry in one.entries)
        ]
        chunks = {kind: len(standing) for kind, standing in self._standing.items()}
        output = {
            "version": files.VERSION,
            "dimensions": self._model.dimensions,
            "generated_at": files.now(),
            "file_checksums": checksums,
            "file_mtimes": times,
            "stats": {
                "docs_processed": len(documents),
                "code_files_processed": sum(bool(one.entries) for one in made) - len(documents),
                "total_doc_chunks": chunks[DOCUMENTATION],
                "total_code_chunks": sum(chunks.values()) - chunks[DOCUMENTATION],
                "processing_time_seconds": round(seconds, 3),
            },
            "generator": files.GENERATOR,
        }
        files.replace(self.folder, files.OUTPUT, [files.indented(output)])
        self._told = (checksums, times)


def embedder_for(settings: Settings) -> CircuitBreaker:
    """Who embeds for chunk files: whoever does for an index; where it has words only, the model
    that comes along, since they need vectors.
    """
    return CircuitBreaker(open_embedder(settings) or open_local())


def folder_of(settings: Settings, root: Path, chosen: Path | None = None) -> Path:
    """Where the chunk files of a project are: the chosen folder, or what `server.chunksDir` names.

    Raises: FileError PATH_OUTSIDE, where a folder in the project leads out of it.
    """
    return chunks_dir(root, settings) if chosen is None else chosen


def _made_by(settings: Settings) -> tuple[Sizes, str]:
    """The settings that the entries of a doc depend on."""
    return _sizes(settings), settings.security.redact


def _sizes(settings: Settings) -> Sizes:
    chunking = settings.chunking
    return Sizes(
        chunking.doc_chunk_size,
        chunking.doc_overlap,
        chunking.code_chunk_size,
        chunking.overlap,
        chunking.strategies,
    )


def _covered(settings: Settings) -> Callable[[Doc], bool]:
    """Whether chunk files are to cover a doc, by `paths.code` and `paths.docs`; without patterns
    they cover all.
    """
    code, docs = Patterns(settings.paths.code), Patterns(settings.paths.docs)

    def covers(doc: Doc) -> bool:
        patterns = docs if doc.language in DOCUMENTS else code
        return not patterns or patterns.verdict(doc.path, is_folder=False) is True

    return covers
