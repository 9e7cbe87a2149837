"""Shared data types of Cortex: frozen, slotted, no I/O, standard library only.

A type that two packages use lives here; one that only a single package needs lives there. Not here:
settings (they know where they came from) and errors (they have a tree of their own).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Mode(StrEnum):
    """Search mode of a query."""

    HYBRID = "hybrid"
    MEANING = "meaning"
    WORDS = "words"
    EXACT = "exact"
    FULL = "fullworkspace"


@dataclass(frozen=True, slots=True)
class Source:
    """A source of text: a workspace, a folder of documents, chunk files, or a record space."""

    id: int
    kind: str  # "files", "documents", "chunks", "memories" or "records"
    name: str
    root: str  # absolute path; "" for records


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file that a scan found and that belongs in the index, by name and size only."""

    path: str  # relative to the source's root, with "/" on every platform
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was left out, and the reason ("binary", "secret", "too large", ...)."""

    path: str
    reason: str


def count_secrets(skipped: Iterable[Skipped]) -> int:
    """Count the files that were left out because they are secrets, by name or by content."""
    return sum(skip.reason in ("secret", "private key") for skip in skipped)


@dataclass(frozen=True, slots=True)
class Scan:
    """Result of scanning a source's root: `files` and `skipped`, sorted by path."""

    files: tuple[ScannedFile, ...]
    skipped: tuple[Skipped, ...]


# The kind of a chunk that is a turn in a conversation; its name is the speaker.
TURN = "turn"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A range of a blob's text.

    `start` and `end` are character offsets, lines count from 1 and are inclusive.
    """

    ordinal: int
    start: int
    end: int
    start_line: int
    end_line: int
    kind: str  # "function", "class", "method", "section", "block", ...
    name: str = ""
    qualified: str = ""  # "Outer.inner"; for Markdown the heading path "Guide > Install"
    signature: str = ""
    doc: str = ""  # first sentence of the doc comment


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition in a blob. `parent` is the qualified name of what it is defined in, or ""."""

    name: str
    qualified: str
    kind: str
    start_line: int
    end_line: int
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Leak:
    """A secret at text[start:end]."""

    name: str  # its kind: "GitHub token"
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Result of reading and chunking one file: its text as stored, and ranges in it."""

    language: str
    text: str
    chunks: tuple[Chunk, ...]
    symbols: tuple[Symbol, ...]
    # The secrets in the text, by line; None where it wasn't scanned.
    leaks: tuple[Leak, ...] | None = None


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file that can't or shouldn't be indexed ("binary", "minified", "timed out", ...)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Doc:
    """A named text in a source as the store remembers it.

    A changed text is a new doc with a new id.
    """

    id: int
    source: int
    path: str
    blob: int
    size: int
    mtime_ns: int
    language: str
    # "" or "test", "example", "vendored", "generated", "docs", "locale": see text.role_of
    role: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A text to be stored through `engine.put`."""

    source: str  # name of a records source
    path: str  # unique in the source: the record's id
    text: str
    language: str = "markdown"


@dataclass(frozen=True, slots=True)
class Entry:
    """A chunk of a chunk file without its vector; None marks a field that the file doesn't have."""

    id: str
    chunk_type: str | None
    title: str | None
    text: str
    tags: tuple[str, ...] | None
    metadata: Mapping[str, object] | None
    created_at: str | None
    updated_at: str | None


class MemoryState(StrEnum):
    """Review state of a memory."""

    STAGING = "staging"  # not reviewed yet
    APPROVED = "approved"
    PROMOTED = "promoted"  # applies in every project
    REJECTED = "rejected"
    SUPERSEDED = "superseded"  # replaced by another memory


@dataclass(frozen=True, slots=True)
class Memory:
    """Something that was learnt: a title to find it by, and its facts."""

    key: str  # unique in its origin
    title: str
    subtitle: str = ""
    facts: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()  # tags
    files: tuple[str, ...] = ()
    text: str = ""  # the full text, where there is one
    project: str = ""
    session: str = ""
    date: str = ""  # of the session, as YYYY-MM-DD
    created: int = 0  # milliseconds since 1970
    kind: str = ""  # "decision", "bugfix", "discovery", ...
    provenance: str = ""  # the person or program that added it


@dataclass(frozen=True, slots=True)
class Citation:
    """A file, or a symbol in it, that a memory refers to, as it was then."""

    root: str
    path: str  # relative to the root, with "/"
    symbol: str  # qualified; "" for the whole file
    file_hash: bytes
    body_hash: bytes  # of the symbol's text; b"" for the whole file
    commit: str  # "" without git


@dataclass(frozen=True, slots=True)
class Stamp:
    """Identity of the embedder of an index's vectors; different stamps are never compared."""

    provider: str
    model: str
    dimensions: int
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """A search query to a store."""

    text: str
    mode: Mode = Mode.HYBRID
    limit: int = 50
    offset: int = 0
    threshold: float = 0.0
    extensions: tuple[str, ...] = ()  # lower case, without the dot
    languages: tuple[str, ...] = ()
    path: str = ""  # only files at or below this relative path
    regex: bool = False  # exact mode: `text` is a regular expression
    code: bool = False  # `text` is a code snippet: find similar code
    # Budget of characters for the texts of all hits; 0 is no limit.
    characters: int = 0
    # Characters of text for the first hit, the second, ..., all others; () is the whole text.
    snippets: tuple[int, ...] = ()
    explain: bool = False  # hits carry their evidence
    # Fusion of lexical and semantic results: "auto" adds up evidence, "rrf" adds up ranks.
    fusion: str = "auto"
    meaning_weight: float = 1.0  # factor of the semantic part in both; 0 is lexical only
    # Weight of relevance against novelty, 0 to 1; None is 1.
    diversity: float | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result: a chunk of a doc, with the evidence for it."""

    source: int
    doc: int
    chunk: int  # chunk id, 0 for a hit that isn't a chunk (exact mode)
    path: str
    start_line: int
    end_line: int
    text: str
    score: float
    relevance: float
    language: str = ""
    kind: str = ""
    name: str = ""
    qualified: str = ""
    signature: str = ""
    why: str = ""  # the strongest evidence in a short phrase
    lines: tuple[int, ...] = ()  # the numbers of the lines in `text`, where it leaves some out
    # Contribution of each part of the evidence to the score, with Query.explain.
    evidence: tuple[tuple[str, float], ...] = ()
    # Lines with redacted secrets, and the kinds of these.
    redacted: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """Result of a Query: the requested hits, best first, and facts about the search."""

    hits: tuple[Hit, ...]
    # Hits before limit and offset; a lower bound where a note says that the search stopped early.
    total: int
    mode: Mode  # the mode that ran
    notes: tuple[str, ...] = ()  # remarks for the reader: degraded mode, indexing under way, ...
    docs: int = 0  # searched
    chunks: int = 0
    cached: bool = False
    # The first indexing run is under way: results may be missing from files not yet read.
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a long-running task."""

    stage: str  # "scanning", "reading", "embedding"
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class IndexReport:
    """Result of one run of `engine.index`."""

    status: str  # "completed", "cancelled", "partial"
    added: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Freshness:
    """Indexing state of a source."""

    state: str  # "ready", "indexing", "error"
    progress: float  # 0 to 1
    last_indexed: str  # RFC 3339, "" before the first run
    error: str = ""


@dataclass(frozen=True, slots=True)
class EmbeddingState:
    """Wanted embedder, its progress, and the vectors that are searched meanwhile."""

    provider: str
    model: str  # "" while unknown
    dimensions: int  # 0 while unknown
    costly: bool
    chunks: int  # in the store
    embedded: int  # of these, by the wanted embedder
    # Provider and model of the vectors that are searched now; "" where search is lexical.
    answering: str
    # Why the wanted vectors aren't searched or aren't made, unless it is only a matter of time.
    problem: str = ""

    @property
    def share(self) -> float:
        """Share of chunks that are embedded, 0 to 1, rounded down: 1 is everything."""
        return int(10_000 * self.embedded / self.chunks) / 10_000 if self.chunks else 1.0

    def as_json(self) -> dict[str, object]:
        """Return the JSON form that all status answers share."""
        status: dict[str, object] = {
            "provider": self.provider,
            "model": self.model or None,
            "dimensions": self.dimensions or None,
            "share": self.share,
            "answering": self.answering or None,
        }
        return {**status, "problem": self.problem} if self.problem else status


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Figures about a store, for status and stats."""

    freshness: Freshness
    holder: bool  # this process holds the lease
    holder_pid: int
    total_files: int
    indexed_files: int
    skipped: tuple[Skipped, ...]
    chunks: int
    disk_bytes: int
    embedding: EmbeddingState | None = None  # None without an embedder
    languages: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)  # small, medium, large
    average_chunk_tokens: float = 0.0
    average_search_ms: float = 0.0
    indexing_seconds: float = 0.0
    cache_bytes: int = 0
    cache_hit_rate: float = 0.0
    last_cleanup: str = ""

    @property
    def embedded_chunks(self) -> int:
        """Number of chunks that the wanted embedder has embedded."""
        return self.embedding.embedded if self.embedding else 0


@dataclass(frozen=True, slots=True)
class FileView:
    """A file as it is on disk now, with its chunks and symbols from the index."""

    path: str
    language: str
    size: int
    modified: str  # RFC 3339
    text: str
    chunks: tuple[Chunk, ...]
    symbols: tuple[Symbol, ...]
    redacted: tuple[tuple[int, str], ...] = ()  # as of a Hit


class Cancel:
    """A cancellation flag that one thread sets and long work in another checks."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        self._event.set()

    def __bool__(self) -> bool:
        return self._event.is_set()


ProgressCallback = Callable[[Progress], None]
