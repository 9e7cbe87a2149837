"""Status of the document sources: counts, last sync, unreadable files, semantic search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cortex.base.types import EmbeddingState, Skipped
from cortex.engine.library import FolderState, Library
from cortex.engine.store import Folder

# Reasons for files that aren't documents; files left out for any other reason are reported.
NO_DOCUMENTS = frozenset(
    {
        "binary",
        "secret",
        "private key",
        "minified",
        "generated",
        "lock file",
        "symlink",
        "not a regular file",
    }
)
# Extensions of documents that have no reader.
WITHOUT_READER = frozenset("doc xls ppt odt ods odp mobi pages numbers key rtf".split())


@dataclass(frozen=True, slots=True)
class SourceState:
    """Source with its status."""

    folder: Folder
    figures: FolderState
    # Documents that could not be read.
    unread: tuple[Skipped, ...]
    # Number of files that aren't documents, by reason.
    others: Mapping[str, int]

    @property
    def documents(self) -> int:
        """Number of documents."""
        return self.figures.counts.docs

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return self.figures.counts.chunks

    def as_json(self, *, root: bool) -> dict[str, object]:
        """JSON form; `root` adds the path on disk."""
        folder = self.folder
        return {
            "id": folder.key,
            "name": folder.name,
            **({"path": folder.source.root} if root else {}),
            "documents": self.documents,
            "chunks": self.chunks,
            "size": self.figures.size,
            "lastSync": self.figures.indexed_at or None,
            "watch": folder.watch,
            "include": list(folder.include),
            "exclude": list(folder.exclude),
            "present": self.figures.present,
            "unread": [{"path": file.path, "reason": file.reason} for file in self.unread],
            "leftOut": dict(self.others),
        }


@dataclass(frozen=True, slots=True)
class Overview:
    """Status of the library as a whole."""

    # True if one source was asked for.
    single: bool
    embedding: EmbeddingState | None

    @property
    def meaning(self) -> bool:
        """True if semantic search is available."""
        return bool(self.embedding and self.embedding.answering)

    @property
    def semantic(self) -> str:
        """Availability of semantic search in words, with the model or the reason."""
        state = self.embedding
        if state is None:
            return "off (indexing.embeddingProvider is none)"
        if state.answering and state.share >= 1:
            return f"available ({state.answering})"
        if not state.chunks and not state.problem:
            return "nothing to search yet"
        wanted = " ".join(part for part in (state.provider, state.model) if part)
        why = state.problem or f"{state.share:.0%} embedded by {wanted}"
        return (
            f"available ({state.answering}; {why})" if state.answering else f"unavailable ({why})"
        )


def state_of(library: Library, folder: Folder) -> SourceState:
    """Status of a source."""
    figures = library.state_of(folder)
    return SourceState(folder, figures, *_split(figures.skipped))


def states_of(library: Library, folders: Sequence[Folder]) -> list[SourceState]:
    """Status of several sources from one snapshot."""
    with library.store.reading():
        return [state_of(library, folder) for folder in folders]


def overview_of(library: Library, *, single: bool = False, ask: bool = False) -> Overview:
    """Status of the whole library; with `ask` the embedder may be asked for its model."""
    return Overview(single, library.embedding.status(ask=ask))


def totals_of(states: Sequence[SourceState]) -> dict[str, int]:
    """Documents, chunks and bytes of several sources together."""
    return {
        "documents": sum(state.documents for state in states),
        "chunks": sum(state.chunks for state in states),
        "size": sum(state.figures.size for state in states),
    }


def _split(skipped: Sequence[Skipped]) -> tuple[tuple[Skipped, ...], Mapping[str, int]]:
    """Split skipped files into unreadable documents and counts of the others."""
    unread: list[Skipped] = []
    others: Counter[str] = Counter()
    for file in skipped:
        extension = file.path.rpartition(".")[2].lower()
        if file.reason == "binary" and extension in WITHOUT_READER:
            unread.append(Skipped(file.path, f"nothing reads .{extension} files"))
        elif file.reason in NO_DOCUMENTS:
            others[file.reason] += 1
        else:
            unread.append(file)
    return tuple(unread), others
