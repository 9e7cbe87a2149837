"""Export of an index as chunk files: symbols, definitions, values and docs, with vectors.

    with Engine(root, settings) as engine:
        Exporter(engine, folder).export()

Works from the contents of the index; only documents are chunked again here, as the `chunking`
settings say. `export_entries.py` builds the entries, `export_files.py` writes the files, and
`reembedder.py` gives new vectors to the files of other programs.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.settings import Settings
from cortex.base.types import Cancel, Doc, Entry, ProgressCallback, UnreadableFile
from cortex.engine.embedders import open_embedder, open_local
from cortex.engine.embedders.circuit_breaker import CircuitBreaker
from cortex.engine.engine import Engine
from cortex.engine.sources.gitignore import Patterns
from cortex.engine.sources.scanner import read_bytes
from cortex.families.chunkfiles import export_files as files
from cortex.families.chunkfiles.export_entries import DOCUMENTATION, DOCUMENTS, Sizes, entries_of
from cortex.families.chunkfiles.export_files import NAMES, ExportModel, check_ours
from cortex.families.chunkfiles.format import WrittenChunk
from cortex.families.chunkfiles.index import chunks_dir
from cortex.families.chunkfiles.reembedder import Reembedded, embed_texts, reembed

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Exporter", "Reembedded", "Report", "check_ours", "embedder_for", "folder_of", "reembed"]


@dataclass(frozen=True, slots=True)
class Report:
    """Outcome of one export."""

    folder: str
    model: str
    dimensions: int
    chunks: Mapping[str, int]  # by chunk type
    # Texts that had no vector yet.
    embedded: int
    # Names of the files that changed; the others are left alone.
    written: tuple[str, ...]
    # Chunks for which the model gives no vector.
    left_out: int
    files: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Made:
    """Entries made from one doc."""

    doc: Doc
    checksum: str
    entries: tuple[Entry, ...]


class Exporter:
    """Export of one engine's index to one folder; reused, it makes only what changed since."""

    def __init__(self, engine: Engine, folder: Path, *, force: bool = False) -> None:
        """Prepare the export.

        Raises: ConfigError CHUNKS_FOREIGN if another program's files are in `folder`, unless
        `force`.
        """
        if not force:
            check_ours(folder)
        self._engine = engine
        self.folder = folder
        self._made: dict[str, _Made] = {}  # by path
        # The settings that the entries depend on.
        self._entry_settings: tuple[Sizes, str] | None = None
        self._existing: dict[str, dict[str, WrittenChunk]] = {}  # by chunk type and id
        self._model = ExportModel("", 0)
        # Checksums and times of files as in generator-output.json.
        self._output_files: tuple[object, object] = ({}, {})
        # Sequence number of the store at the last export.
        self._seq = -1

    def is_due(self) -> bool:
        """True if the index or the relevant settings have changed since the last export."""
        return (
            self._engine.store.content.seq() != self._seq
            or self._entry_settings != _entry_settings(self._engine.settings)
        )

    def export(
        self, *, progress: ProgressCallback = lambda progress: None, cancel: Cancel | None = None
    ) -> Report:
        """Bring the chunk files up to date with the index; unchanged files are not written.

        Raises: CortexError if the embedder fails; FileError; LimitError INDEX_BUSY; Cancelled. Then
        all files are as they were.
        """
        started, seq = time.monotonic(), self._engine.store.content.seq()
        embedder = self._engine.embedding.wanted or CircuitBreaker(open_local())
        stamp = embedder.stamp or embedder.connect()
        model = ExportModel(stamp.model, stamp.dimensions)
        with files.writing(self.folder):
            self._read_existing(model)
            self._make_entries()
            entries_by_kind = self._by_kind()
            vectors, embedded = self._embed(
                entries_by_kind, embedder, progress, Cancel() if cancel is None else cancel
            )
            left_out = sum(
                entry.text not in vectors
                for entries in entries_by_kind.values()
                for entry in entries
            )
            written = tuple(
                self._write_kind(kind, entries, vectors)
                for kind, entries in entries_by_kind.items()
            )
            names = tuple(name for name in written if name)
            seconds = time.monotonic() - started
            self._write_output(bool(names), seconds)
        self._seq = seq
        counts = {kind: len(standing) for kind, standing in self._existing.items()}
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

    def _read_existing(self, model: ExportModel) -> None:
        """Read the existing files, and mark the folder as ours before the first one is written."""
        if model == self._model and (self.folder / files.OUTPUT).exists():
            return
        ours = files.is_ours(self.folder)
        self._existing = {
            kind: files.read_written(self.folder, kind, model) if ours else {} for kind in NAMES
        }
        self._model, self._output_files = model, files.read_told(self.folder)
        if not ours or not (self.folder / files.OUTPUT).exists():
            self._write_output(True, 0.0)

    def _make_entries(self) -> None:
        """Make the entries of every doc; those of unchanged docs are kept."""
        engine, settings = self._engine, self._engine.settings
        sizes, covered = _sizes(settings), _covered(settings)
        made_by = _entry_settings(settings)
        if made_by != self._entry_settings:
            self._made, self._entry_settings = {}, made_by
        before, self._made = self._made, {}
        lookup = engine.store.content
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
        """Hash the file on disk if it is still the indexed one, else the indexed text."""
        raw = read_bytes(self._engine.root, doc.path, max(doc.size, 1))
        content = (
            text.encode("utf-8", "surrogatepass")
            if isinstance(raw, UnreadableFile) or len(raw) != doc.size
            else raw
        )
        return hashlib.sha256(content).hexdigest()

    def _by_kind(self) -> dict[str, list[Entry]]:
        entries_by_kind: dict[str, list[Entry]] = {kind: [] for kind in NAMES}
        for made in self._made.values():
            for entry in made.entries:
                entries_by_kind[entry.chunk_type or ""].append(entry)
        return entries_by_kind

    def _embed(
        self,
        entries_by_kind: Mapping[str, Sequence[Entry]],
        embedder: CircuitBreaker,
        progress: ProgressCallback,
        cancel: Cancel,
    ) -> tuple[dict[str, np.ndarray], int]:
        """Embed every text that has no vector yet.

        Returns the vectors by text, and the number of new ones; texts that the model can't embed
        have none.
        """
        known = {
            written.entry.text: written.embedding
            for standing in self._existing.values()
            for written in standing.values()
            if written.embedding is not None
        }
        titles = {
            entry.text: entry.title or ""
            for entries in entries_by_kind.values()
            for entry in entries
            if entry.text not in known
        }
        # A title has words at least.
        rows = embed_texts(list(titles.items()), embedder, progress, cancel)
        known.update((text, row) for text, row in zip(titles, rows, strict=True) if row.any())
        return known, len(titles)

    def _write_kind(
        self, kind: str, entries: Sequence[Entry], vectors: Mapping[str, np.ndarray]
    ) -> str:
        """Write the file of a kind if its contents changed.

        Returns its name, or "" if it is unchanged.
        """
        standing, now = self._existing[kind], files.now()
        new: dict[str, WrittenChunk] = {}
        for entry in entries:
            old = standing.get(entry.id)
            if old is not None and replace(old.entry, created_at=None, updated_at=None) == entry:
                new[entry.id] = old
            elif entry.text in vectors:
                created = old.entry.created_at if old else now
                timed = replace(entry, created_at=created, updated_at=now)
                new[entry.id] = WrittenChunk(timed, vectors[entry.text])
        same = list(new) == list(standing) and all(new[name] is standing[name] for name in new)
        if same and (self.folder / NAMES[kind]).exists():
            return ""
        files.replace(self.folder, NAMES[kind], files.render(kind, self._model, now, new.values()))
        self._existing[kind] = new
        return NAMES[kind]

    def _write_output(self, changed: bool, seconds: float) -> None:
        """Write generator-output.json if it would differ from the existing one."""
        made = self._made.values()
        checksums = {source.doc.path: source.checksum for source in made}
        times = {source.doc.path: files.moment(source.doc.mtime_ns) for source in made}
        if (
            not changed
            and (checksums, times) == self._output_files
            and (self.folder / files.OUTPUT).exists()
        ):
            return
        documents = [
            source
            for source in made
            if any(entry.chunk_type == DOCUMENTATION for entry in source.entries)
        ]
        chunks = {kind: len(standing) for kind, standing in self._existing.items()}
        output = {
            "version": files.VERSION,
            "dimensions": self._model.dimensions,
            "generated_at": files.now(),
            "file_checksums": checksums,
            "file_mtimes": times,
            "stats": {
                "docs_processed": len(documents),
                "code_files_processed": sum(bool(source.entries) for source in made)
                - len(documents),
                "total_doc_chunks": chunks[DOCUMENTATION],
                "total_code_chunks": sum(chunks.values()) - chunks[DOCUMENTATION],
                "processing_time_seconds": round(seconds, 3),
            },
            "generator": files.GENERATOR,
        }
        files.replace(self.folder, files.OUTPUT, [files.indented(output)])
        self._output_files = (checksums, times)


def embedder_for(settings: Settings) -> CircuitBreaker:
    """Open the embedder for chunk files: the index's own, or the bundled model if it has none.

    Chunk files always need vectors.
    """
    return CircuitBreaker(open_embedder(settings) or open_local())


def folder_of(settings: Settings, root: Path, chosen: Path | None = None) -> Path:
    """Resolve the folder of a project's chunk files: the chosen one, or `server.chunksDir`.

    Raises: FileError PATH_OUTSIDE if a folder in the project leads out of it.
    """
    return chunks_dir(root, settings) if chosen is None else chosen


def _entry_settings(settings: Settings) -> tuple[Sizes, str]:
    """Settings that the entries of a doc depend on."""
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
    """Build a filter for docs by `paths.code` and `paths.docs`; without patterns all pass."""
    code, docs = Patterns(settings.paths.code), Patterns(settings.paths.docs)

    def covers(doc: Doc) -> bool:
        patterns = docs if doc.language in DOCUMENTS else code
        return not patterns or patterns.verdict(doc.path, is_folder=False) is True

    return covers
