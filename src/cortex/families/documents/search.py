"""A question to the library and what is told of each hit: the same for the tools and the commands,
so that both rank alike.

Only reads. How an answer is written is in answers.py.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cortex.base.errors import NetworkError
from cortex.base.settings import Settings
from cortex.base.types import Cancel, Chunk, Doc, Hit, Mode, Page, Query
from cortex.engine.library import Library, id_of
from cortex.engine.readers import unpacked_name
from cortex.engine.search import UNKNOWN_WORDS, check_query
from cortex.engine.store import Folder, Lookup

MODES: Mapping[str, Mode] = {"hybrid": Mode.HYBRID, "semantic": Mode.MEANING, "fts5": Mode.WORDS}
MODE_NAMES = {mode: name for name, mode in MODES.items()}
SNIPPETS = (800, 600, 400)  # characters of the first result, the second, all others
PAGE_END = "\f"
FRONT_MATTER_CHARACTERS = 4_000
_FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---", re.DOTALL | re.MULTILINE)
_TITLE = re.compile(r"""^title:[ \t]*["']?(.+?)["']?[ \t]*\r?$""", re.MULTILINE)
_TYPES = mimetypes.MimeTypes(filenames=())  # not what this machine happens to know
_OFFICE = "application/vnd.openxmlformats-officedocument."
_OWN_TYPES = {
    "md": "text/markdown",
    "markdown": "text/markdown",
    "mdx": "text/markdown",
    "rst": "text/x-rst",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "pdf": "application/pdf",
    "docx": f"{_OFFICE}wordprocessingml.document",
    "pptx": f"{_OFFICE}presentationml.presentation",
    "xlsx": f"{_OFFICE}spreadsheetml.sheet",
    "epub": "application/epub+zip",
    "ipynb": "application/x-ipynb+json",
    "ts": "text/x-typescript",
}


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """A hit as it is told."""

    document_id: str
    folder: Folder
    title: str
    path: str
    start_line: int
    end_line: int
    section: str  # "" where there is none
    page: int  # 0 where the format has no pages
    score: float
    snippet: str
    hit: Hit


@dataclass(frozen=True, slots=True)
class DocumentResults:
    """The answer to a question."""

    results: tuple[DocumentResult, ...]
    total: int
    mode: str  # that ran
    degraded: bool  # it isn't the one that was asked for
    notes: tuple[str, ...]


def query_of(settings: Settings, text: str, mode: str, limit: int, offset: int = 0) -> Query:
    """A question as the settings have it answered."""
    asked = Query(
        text,
        mode=MODES[mode],
        limit=limit,
        offset=offset,
        threshold=settings.kb.rag.min_score,
        snippets=SNIPPETS,
    )
    return tuned(settings, asked)


def tuned(settings: Settings, query: Query) -> Query:
    """The question with the order that the settings ask for."""
    rag = settings.kb.rag
    return replace(
        query,
        mode=Mode.WORDS if query.mode is Mode.HYBRID and not rag.semantic_weight else query.mode,
        fusion=rag.fusion,
        meaning_weight=2 * rag.semantic_weight,
        diversity=rag.mmr_lambda if rag.enable_mmr else None,
    )


def folders_of(library: Library, source: str | None) -> list[Folder]:
    """The folder with this key or name, or all. Raises: ConfigError SOURCE_UNKNOWN."""
    return library.folders() if source is None else [library.folder(source)]


def find(
    library: Library, query: Query, source: str | None, cancel: Cancel | None = None
) -> DocumentResults:
    """Ask one source, or all.

    Raises: ConfigError SOURCE_UNKNOWN, InputError, LimitError, Cancelled, StoreError; NetworkError
    EMBEDDER_UNAVAILABLE, where meaning is and the settings want no answer without it.
    """
    check_query(query)
    folders = folders_of(library, source)
    if not folders:
        note = "there are no sources yet: a person adds one with `cortex kb add PATH`"
        return DocumentResults((), 0, MODE_NAMES[query.mode], False, (note,))
    page = library.search(query, cancel=cancel, sources=[folder.source for folder in folders])
    degraded = page.mode is not query.mode
    if (
        degraded
        and not library.settings.mcp.kb.search.semantic_fallback
        and not _is_of_the_query(page)
    ):
        why = "; ".join(page.notes) or "there are no vectors"
        raise NetworkError(
            "EMBEDDER_UNAVAILABLE",
            f"search by meaning is unavailable, and mcp.kb.search.semantic_fallback is off ({why})",
            instead=("Ask with mode fts5, or see `cortex kb stats`.",),
        )
    told = _Told(library.store.lookup, folders)
    results = tuple(result for hit in page.hits if (result := told.result(hit)) is not None)
    notes = (*_told_notes(page, query), *_unfinished(library, folders))
    return DocumentResults(results, page.total, MODE_NAMES[page.mode], degraded, notes)


def _is_of_the_query(page: Page) -> bool:
    """Whether it is the query that nothing can be made of, not the vectors that are missing."""
    return any(note.endswith(UNKNOWN_WORDS) for note in page.notes)


def _told_notes(page: Page, query: Query) -> tuple[str, ...]:
    if page.total or not query.threshold:
        return page.notes
    least = f"nothing reaches the score {query.threshold:g} that kb.rag.min_score asks for"
    return (*(note for note in page.notes if "threshold" not in note), least)


def _unfinished(library: Library, folders: Sequence[Folder]) -> tuple[str, ...]:
    truth = library.store.truth
    names = [folder.name for folder in folders if not truth.get(f"indexed:{folder.source.id}")]
    return (f"not synced completely yet: {', '.join(names)}",) if names else ()


class _Told:
    """What is told of the hits of one answer; the title of a document is found once."""

    def __init__(self, lookup: Lookup, folders: Sequence[Folder]) -> None:
        self._lookup = lookup
        self._folders = {folder.source.id: folder for folder in folders}
        self._titles: dict[int, str] = {}

    def result(self, hit: Hit) -> DocumentResult | None:
        """None where it was removed meanwhile."""
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
    """The page that a chunk begins on, 0 where the text has no pages."""
    return 1 + text.count(PAGE_END, 0, chunk.start) if PAGE_END in text else 0


def title_of(lookup: Lookup, doc: Doc) -> str:
    """What a document calls itself: its first heading, else the title of its front matter, else its
    name.
    """
    heading = next(
        (symbol.name for symbol in lookup.symbols(doc.blob) if symbol.kind == "section"), ""
    )
    if heading:
        return heading
    front = _FRONT_MATTER.match(lookup.text(doc.blob)[:FRONT_MATTER_CHARACTERS])
    found = _TITLE.search(front[1]) if front else None
    name = doc.path.rpartition("/")[2]
    return found[1] if found else name.rpartition(".")[0] or name


def mime_type(path: str) -> str:
    """The type of a document by its name; of a packed one that of what is in it."""
    path = unpacked_name(path)
    extension = path.rpartition(".")[2].lower()
    return _OWN_TYPES.get(extension) or _TYPES.guess_type(f"x.{extension}")[0] or "text/plain"
