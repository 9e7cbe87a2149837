"""Search the document library; shared by tools and commands, so that both rank alike.

Only reads. Rendering is in tools/render.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cortex.base.errors import NetworkError
from cortex.base.settings import Settings
from cortex.base.types import Cancel, Chunk, Doc, Hit, Mode, Page, Query
from cortex.engine.library import Library, id_of
from cortex.engine.readers import formats, unpacked_name
from cortex.engine.search import UNKNOWN_WORDS, check_query
from cortex.engine.store import ContentQueries, Folder

MODES: Mapping[str, Mode] = {"hybrid": Mode.HYBRID, "semantic": Mode.MEANING, "fts5": Mode.WORDS}
MODE_NAMES = {mode: name for name, mode in MODES.items()}
# Characters of the first snippet, the second, and all others.
SNIPPETS = (800, 600, 400)
PAGE_END = "\f"
FRONT_MATTER_CHARACTERS = 4_000
_FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---", re.DOTALL | re.MULTILINE)
_TITLE = re.compile(r"""^title:[ \t]*["']?(.+?)["']?[ \t]*\r?$""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """Search hit with its document's metadata."""

    document_id: str
    folder: Folder
    title: str
    path: str
    start_line: int
    end_line: int
    # "" if there is none.
    section: str
    # 0 if the format has no pages.
    page: int
    score: float
    snippet: str
    hit: Hit


@dataclass(frozen=True, slots=True)
class DocumentResults:
    """Page of results."""

    results: tuple[DocumentResult, ...]
    total: int
    # Mode that was used.
    mode: str
    # True if it isn't the requested mode.
    degraded: bool
    notes: tuple[str, ...]


def query_of(settings: Settings, text: str, mode: str, limit: int, offset: int = 0) -> Query:
    """Build a query with the threshold and ranking of the settings."""
    query = Query(
        text,
        mode=MODES[mode],
        limit=limit,
        offset=offset,
        threshold=settings.kb.rag.min_score,
        snippets=SNIPPETS,
    )
    return tuned(settings, query)


def tuned(settings: Settings, query: Query) -> Query:
    """Apply the ranking parameters of the settings to a query."""
    rag = settings.kb.rag
    return replace(
        query,
        mode=Mode.WORDS if query.mode is Mode.HYBRID and not rag.semantic_weight else query.mode,
        fusion=rag.fusion,
        meaning_weight=2 * rag.semantic_weight,
        diversity=rag.mmr_lambda if rag.enable_mmr else None,
    )


def folders_of(library: Library, source: str | None) -> list[Folder]:
    """Folder with this key or name, or all folders. Raises: ConfigError SOURCE_UNKNOWN."""
    return library.folders() if source is None else [library.folder(source)]


def find(
    library: Library, query: Query, source: str | None, cancel: Cancel | None = None
) -> DocumentResults:
    """Search one source, or all.

    Raises: ConfigError SOURCE_UNKNOWN, InputError, LimitError, Cancelled, StoreError; NetworkError
    EMBEDDER_UNAVAILABLE, if semantic search is unavailable and the settings forbid the fallback.
    """
    check_query(query)
    folders = folders_of(library, source)
    if not folders:
        note = "there are no sources yet: a person adds one with `cortex kb add PATH`"
        return DocumentResults((), 0, MODE_NAMES[query.mode], False, (note,))
    page = library.search(query, cancel=cancel, sources=[folder.source for folder in folders])
    degraded = page.mode is not query.mode
    may_degrade = library.settings.mcp.kb.search.semantic_fallback or _has_unknown_words(page)
    if degraded and not may_degrade:
        why = "; ".join(page.notes) or "there are no vectors"
        raise NetworkError(
            "EMBEDDER_UNAVAILABLE",
            f"search by meaning is unavailable, and mcp.kb.search.semantic_fallback is off ({why})",
            instead=("Ask with mode fts5, or see `cortex kb stats`.",),
        )
    builder = _ResultBuilder(library.store.content, folders)
    results = tuple(result for hit in page.hits if (result := builder.result(hit)) is not None)
    notes = (*_notes_of(page, query), *_unfinished(library, folders))
    return DocumentResults(results, page.total, MODE_NAMES[page.mode], degraded, notes)


def _has_unknown_words(page: Page) -> bool:
    """True if the query has no known words, so that missing vectors aren't the cause."""
    return any(note.endswith(UNKNOWN_WORDS) for note in page.notes)


def _notes_of(page: Page, query: Query) -> tuple[str, ...]:
    if page.total or not query.threshold:
        return page.notes
    least = f"nothing reaches the score {query.threshold:g} that kb.rag.min_score asks for"
    return (*(note for note in page.notes if "threshold" not in note), least)


def _unfinished(library: Library, folders: Sequence[Folder]) -> tuple[str, ...]:
    content = library.store.content
    names = [folder.name for folder in folders if not content.get(f"indexed:{folder.source.id}")]
    return (f"not synced completely yet: {', '.join(names)}",) if names else ()


class _ResultBuilder:
    """Builds the results of one answer; each document's title is looked up once."""

    def __init__(self, lookup: ContentQueries, folders: Sequence[Folder]) -> None:
        self._lookup = lookup
        self._folders = {folder.source.id: folder for folder in folders}
        self._titles: dict[int, str] = {}

    def result(self, hit: Hit) -> DocumentResult | None:
        """Convert a hit; None if its document was removed meanwhile."""
        folder = self._folders.get(hit.source)
        place = self._lookup.places([(hit.doc, hit.chunk)]).get((hit.doc, hit.chunk))
        if folder is None or place is None:
            return None
        doc = place.doc
        if doc.id not in self._titles:
            self._titles[doc.id] = title_of(self._lookup, doc)
        return DocumentResult(
            document_id=id_of(folder, doc.path),
            folder=folder,
            title=self._titles[doc.id],
            path=doc.path,
            start_line=hit.start_line,
            end_line=hit.end_line,
            section=hit.qualified,
            page=page_of(self._lookup.text(doc.blob), place.chunk),
            score=hit.relevance,
            snippet=hit.text.replace(PAGE_END, "").strip("\n"),
            hit=hit,
        )


def page_of(text: str, chunk: Chunk) -> int:
    """Page that a chunk begins on, 0 if the text has no pages."""
    return 1 + text.count(PAGE_END, 0, chunk.start) if PAGE_END in text else 0


def title_of(lookup: ContentQueries, doc: Doc) -> str:
    """Title of a document: first heading, else front matter title, else file name."""
    heading = next(
        (symbol.name for symbol in lookup.symbols(doc.blob) if symbol.kind == "section"), ""
    )
    if heading:
        return heading
    front = _FRONT_MATTER.match(lookup.text(doc.blob)[:FRONT_MATTER_CHARACTERS])
    title = _TITLE.search(front[1]) if front else None
    name = doc.path.rpartition("/")[2]
    return title[1] if title else name.rpartition(".")[0] or name


def mime_type(path: str) -> str:
    """MIME type of a document by its name; for a compressed file that of its content."""
    return formats.mime_type(unpacked_name(path).rpartition(".")[2].lower())
