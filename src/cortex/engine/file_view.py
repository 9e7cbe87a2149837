"""View of a file as it is on disk, with its chunks and symbols; also explains its absence.

Reads the file, the store and, where the text is newer than the store, the worker. Writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cortex.base.errors import FileError
from cortex.base.paths import relative_of, resolve_inside
from cortex.base.redaction import CLEAN, redaction_of
from cortex.base.settings import Settings
from cortex.base.text import rfc3339
from cortex.base.types import Cancel, Cut, FileView, Source, UnreadableFile
from cortex.engine import chunkers
from cortex.engine.indexer import rules_of
from cortex.engine.readers import read
from cortex.engine.sources.scanner import explain, read_bytes, scan_paths
from cortex.engine.store import Store
from cortex.engine.worker.pool import Pool


@dataclass(frozen=True, slots=True)
class FileViews:
    """Views of the files of one source."""

    root: Path
    store: Store
    source: Source
    settings: Settings
    # Not the pool of index runs, which may be busy for minutes.
    pool: Pool

    def relative(self, path: str) -> str:
        """Path relative to the root, with "/". Raises: FileError PATH_OUTSIDE."""
        return relative_of(self.root, resolve_inside(self.root, path))

    def view(self, path: str) -> FileView:
        """Read a file as it is now, with its chunks and symbols.

        Raises: FileError PATH_OUTSIDE, FILE_NOT_FOUND or FILE_UNREADABLE.
        """
        inside = resolve_inside(self.root, path)
        relative = relative_of(self.root, inside)
        if not inside.is_file():
            raise self._missing(relative)
        files = scan_paths(self.root, rules_of(self.settings, self.root), [relative]).files
        if not any(file.path == relative for file in files):
            raise _unreadable(relative, self.explain(relative))
        raw = read_bytes(self.root, relative, self.settings.workspace.max_file_size)
        text = raw if isinstance(raw, UnreadableFile) else read(raw, relative)
        if isinstance(text, UnreadableFile):
            raise (
                self._missing(relative)
                if text.reason == "vanished"
                else _unreadable(relative, text.reason)
            )
        assert isinstance(raw, bytes)
        redaction = redaction_of(text) if self.settings.security.redact != "off" else CLEAN
        cut = self._cut_of(relative, redaction.text if redaction else text, raw)
        try:
            status = inside.stat()
        except OSError as error:
            raise self._missing(relative) from error
        return FileView(
            relative,
            cut.language,
            status.st_size,
            rfc3339(status.st_mtime),
            cut.text,
            cut.chunks,
            cut.symbols,
            redaction.lines,
        )

    def explain(self, path: str) -> str:
        """Explain why a file is or isn't in the index."""
        relative = path if (self.root / path).is_symlink() else self.relative(path)
        for skip in self.store.content.skipped(self.source.id):
            if skip.path == relative:
                return f"left out: {skip.reason}"
        verdict = explain(self.root, rules_of(self.settings, self.root), relative)
        # That is by name and size; the content may say otherwise.
        if verdict.startswith("belongs"):
            raw = read_bytes(self.root, relative, self.settings.workspace.max_file_size)
            text = raw if isinstance(raw, UnreadableFile) else read(raw, relative)
            return f"left out: {text.reason}" if isinstance(text, UnreadableFile) else verdict
        return verdict

    def _cut_of(self, path: str, text: str, raw: bytes) -> Cut:
        """Chunks and symbols of the shown text: stored ones if the text is the same, else new."""
        lookup = self.store.content
        doc = lookup.doc(self.source.id, path)
        if doc is not None and lookup.text(doc.blob) == text:
            chunks = tuple(chunk for _, chunk in lookup.chunks(doc.blob))
            return Cut(doc.language, text, chunks, lookup.symbols(doc.blob))
        sizes = self.settings.indexing
        redacted = self.settings.security.redact != "off"
        cuts = self.pool.cut_all(
            [(path, path, raw)], sizes.chunk_size, sizes.chunk_overlap, Cancel(), redacted=redacted
        )
        for _, outcome in list(cuts):
            if isinstance(outcome, Cut):
                return outcome
        return Cut(chunkers.language_of(path, text[: chunkers.HEAD_CHARACTERS]), text, (), ())

    def _missing(self, path: str) -> FileError:
        kind = (
            "it is a folder"
            if (self.root / path).is_dir()
            else f"there is no such file in {self.root.name}"
        )
        return FileError(
            "FILE_NOT_FOUND", f"{path or '.'} can't be read: {kind}", context={"path": path}
        )


def _unreadable(path: str, reason: str) -> FileError:
    return FileError("FILE_UNREADABLE", f"{path} can't be shown: {reason}", context={"path": path})
