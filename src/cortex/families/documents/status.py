"""What there is to know of the sources: counts, the last sync, the files that could not be read,
and whether meaning is searched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cortex.base.types import EmbeddingState, Skipped
from cortex.engine.library import FolderState, Library
from cortex.engine.store import Folder

# Left out because nobody would look for them among documents; every other reason is one to tell.
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
# Documents by their name, though nothing reads them.
WITHOUT_READER = frozenset("doc xls ppt odt ods odp mobi pages numbers key rtf".split())


@dataclass(frozen=True, slots=True)
class SourceState:
    """A source and what is known of it."""

    key: str
    name: str
    root: str
    documents: int
    chunks: int
    size: int  # bytes of its files
    last_sync: str  # RFC 3339, "" before the first
    watch: bool
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    present: bool
    unread: tuple[Skipped, ...]  # documents that could not be read
    others: Mapping[str, int]  # by reason: files that are no documents

    def as_json(self, *, root: bool) -> dict[str, object]:
        """For programs; `root` says where it lies on disk."""
        told: dict[str, object] = {"id": self.key, "name": self.name}
        if root:
            told["path"] = self.root
        return {
            **told,
            "documents": self.documents,
            "chunks": self.chunks,
            "size": self.size,
            "lastSync": self.last_sync or None,
            "watch": self.watch,
            "include": list(self.include),
            "exclude": list(self.exclude),
            "present": self.present,
            "unread": [{"path": one.path, "reason": one.reason} for one in self.unread],
            "leftOut": dict(self.others),
        }


@dataclass(frozen=True, slots=True)
class Overview:
    """What holds for the library as a whole."""

    single: bool  # one source was asked for
    embedding: EmbeddingState | None

    @property
    def meaning(self) -> bool:
        """Whether a search by meaning is answered."""
        return bool(self.embedding and self.embedding.answering)

    @property
    def semantic(self) -> str:
        """In words, whether and by whom."""
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
    """What is known of a source."""
    known: FolderState = library.state_of(folder)
    unread, others = _split(known.skipped)
    return SourceState(
        key=folder.key,
        name=folder.name,
        root=folder.source.root,
        documents=known.counts.docs,
        chunks=known.counts.chunks,
        size=known.size,
        last_sync=known.indexed_at,
        watch=folder.watch,
        include=folder.include,
        exclude=folder.exclude,
        present=known.present,
        unread=unread,
        others=others,
    )


def states_of(library: Library, folders: Sequence[Folder]) -> list[SourceState]:
    """What is known of several, as of one moment."""
    with library.store.reading():
        return [state_of(library, folder) for folder in folders]


def overview_of(library: Library, *, single: bool = False, ask: bool = False) -> Overview:
    """What holds for all; with `ask` an embedder may be asked which model it has."""
    return Overview(single, library.embedding.status(ask=ask))


def _split(skipped: Sequence[Skipped]) -> tuple[tuple[Skipped, ...], dict[str, int]]:
    """The files that are documents and could not be read, and the others counted."""
    unread: list[Skipped] = []
    others: dict[str, int] = {}
    for one in skipped:
        extension = one.path.rpartition(".")[2].lower()
        if one.reason == "binary" and extension in WITHOUT_READER:
            unread.append(Skipped(one.path, f"nothing reads .{extension} files"))
        elif one.reason in NO_DOCUMENTS:
            others[one.reason] = others.get(one.reason, 0) + 1
        else:
            unread.append(one)
    return tuple(unread), others
