"""The nouns of Cortex: frozen, slotted, no I/O, standard library only.

Every folder speaks in these. A value that two folders name lives here; what only one folder needs
lives there. Not here: settings (they know where they came from), errors (they have a tree of their
own).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Mode(StrEnum):
    """How a query is answered."""

    HYBRID = "hybrid"
    MEANING = "meaning"
    WORDS = "words"
    EXACT = "exact"
    FULL = "fullworkspace"


@dataclass(frozen=True, slots=True)
class Source:
    """A place that text comes from: a workspace, a folder of documents, chunk files, or a record
    space.
    """

    id: int
    kind: str  # "files", "documents", "chunks", "memories" or "records"
    name: str
    root: str  # absolute path; "" for records


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file that a scan found and that belongs in the index, judged by name and size only."""

    path: str  # relative to the source's root, with "/" on every platform
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was seen and left out, and why ("binary", "secret", "too large", "ignored", ...)."""

    path: str
    reason: str


def count_secrets(skipped: Iterable[Skipped]) -> int:
    """The number of files that were left out because they are secrets, by name or by content."""
    return sum(skip.reason in ("secret", "private key") for skip in skipped)


@dataclass(frozen=True, slots=True)
class Scan:
    """What one look at a source's root found: `files` and `skipped` sorted by path."""

    files: tuple[ScannedFile, ...]
    skipped: tuple[Skipped, ...]


TURN = "turn"  # the kind of a chunk that somebody says in a conversation; its name is who


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
    """What reading and cutting one file gives: its text as stored, and ranges in it."""

    language: str
    text: str
    chunks: tuple[Chunk, ...]
    symbols: tuple[Symbol, ...]
    # The secrets in the text, by line; None where nobody looked
    leaks: tuple[Leak, ...] | None = None


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file whose content can't or shouldn't be indexed ("binary", "minified", "generated", "timed
    out", ...).
    """

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
    """A text on its way in through `engine.put`."""

    source: str  # name of a records source
    path: str  # unique in the source: the record's id
    text: str
    language: str = "markdown"


@dataclass(frozen=True, slots=True)
class Entry:
    """A chunk as a chunk file has it, but for its vector; None is what the file says nothing about."""

    id: str
    chunk_type: str | None
    title: str | None
    text: str
    tags: tuple[str, ...] | None
    metadata: Mapping[str, object] | None
    created_at: str | None
    updated_at: str | None


class MemoryState(StrEnum):
    """How far a memory has been judged."""

    STAGING = "staging"  # nobody has looked at it
    APPROVED = "approved"
    PROMOTED = "promoted"  # counts in every project
    REJECTED = "rejected"
    SUPERSEDED = "superseded"  # another one says it better


@dataclass(frozen=True, slots=True)
class Memory:
    """Something that was learnt: a title to find it by, and what is known."""

    key: str  # unique in its origin
    title: str
    subtitle: str = ""
    facts: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()  # tags
    files: tuple[str, ...] = ()
    text: str = ""  # the whole story, where there is one
    project: str = ""
    session: str = ""
    date: str = ""  # of the session, as YYYY-MM-DD
    created: int = 0  # milliseconds since 1970
    kind: str = ""  # "decision", "bugfix", "discovery", ...
    provenance: str = ""  # who or what brought it


@dataclass(frozen=True, slots=True)
class Citation:
    """A file, or a symbol in it, that a memory speaks of, as it was then."""

    root: str
    path: str  # relative to the root, with "/"
    symbol: str  # qualified; "" for the whole file
    file_hash: bytes
    body_hash: bytes  # of the symbol's text; b"" for the whole file
    commit: str  # "" without git


@dataclass(frozen=True, slots=True)
class Stamp:
    """Which embedder made an index's vectors. Vectors with different stamps are never compared."""

    provider: str
    model: str
    dimensions: int
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """A question to a store."""

    text: str
    mode: Mode = Mode.HYBRID
    limit: int = 50
    offset: int = 0
    threshold: float = 0.0
    extensions: tuple[str, ...] = ()  # lower case, without the dot
    languages: tuple[str, ...] = ()
    path: str = ""  # only files at or below this relative path
    regex: bool = False  # exact mode: `text` is a regular expression
    code: bool = False  # `text` is a code snippet: find what is similar
    # Hits get their text until this many characters are given out; 0 is no limit
    characters: int = 0
    snippets: tuple[
        int, ...
        # Characters of text for the first hit, the second, ..., all others; () is the whole text
    ] = ()
    explain: bool = False  # hits carry their evidence
    # How words and meaning become one order: "auto" adds up evidence, "rrf" adds up ranks
    fusion: str = "auto"
    meaning_weight: float = 1.0  # times what meaning counts in both; 0 is words alone
    diversity: float | None = None  # how much a hit counts against its being new, 0 to 1; None is 1


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer: a chunk of a doc, with the evidence for it."""

    source: int
    doc: int
    chunk: int  # chunk id, 0 for a hit that is no chunk (exact mode)
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
    evidence: tuple[
        tuple[str, float], ...
    ] = ()  # what each part of the evidence adds to the score, where it was asked for
    # Lines whose secrets are left out, and of which kind these are
    redacted: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to a Query: the hits asked for, best first, and how they came about."""

    hits: tuple[Hit, ...]
    total: int  # hits before limit and offset; at least, where a note says that the search stopped
    mode: Mode  # the mode that ran
    notes: tuple[str, ...] = ()  # what a reader should know: degraded mode, indexing under way, ...
    docs: int = 0  # searched
    chunks: int = 0
    cached: bool = False
    # A first index is under way: what isn't here may be in a file that is not read yet
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a long piece of work is."""

    stage: str  # "scanning", "reading", "embedding"
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one run of `engine.index` did."""

    status: str  # "completed", "cancelled", "partial"
    added: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Freshness:
    """How far an index follows its source."""

    state: str  # "ready", "indexing", "error"
    progress: float  # 0 to 1
    last_indexed: str  # RFC 3339, "" before the first run
    error: str = ""


@dataclass(frozen=True, slots=True)
class EmbeddingState:
    """Which embedder is wanted, how far it is, and whose vectors answer meanwhile."""

    provider: str
    model: str  # "" while the embedder hasn't said
    dimensions: int  # 0 while the embedder hasn't said
    costly: bool
    chunks: int  # in the store
    embedded: int  # of these, by the wanted embedder
    answering: str  # provider and model of the vectors that are searched now; "" where words answer
    # Why the wanted vectors aren't searched, or aren't made, as far as that is no matter of time
    problem: str = ""

    @property
    def share(self) -> float:
        """How much is embedded, 0 to 1, rounded down: 1 is everything."""
        return int(10_000 * self.embedded / self.chunks) / 10_000 if self.chunks else 1.0

    def as_json(self) -> dict[str, object]:
        """As status answers tell it, whichever asks."""
        told: dict[str, object] = {
            "provider": self.provider,
            "model": self.model or None,
            "dimensions": self.dimensions or None,
            "share": self.share,
            "answering": self.answering or None,
        }
        return {**told, "problem": self.problem} if self.problem else told


@dataclass(frozen=True, slots=True)
class StoreStats:
    """A store's health in numbers, for status and stats."""

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
        """How many chunks the wanted embedder has embedded."""
        return self.embedding.embedded if self.embedding else 0


@dataclass(frozen=True, slots=True)
class FileView:
    """A file as it is on disk now, with what the index knows of it."""

    path: str
    language: str
    size: int
    modified: str  # RFC 3339
    text: str
    chunks: tuple[Chunk, ...]
    symbols: tuple[Symbol, ...]
    redacted: tuple[tuple[int, str], ...] = ()  # as of a Hit


class Cancel:
    """A flag that one thread raises and long work in another looks at."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        self._event.set()

    def __bool__(self) -> bool:
        return self._event.is_set()


ProgressCallback = Callable[[Progress], None]
