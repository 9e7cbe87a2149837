"""The five document tools: what each asks of the library.

Texts are in answers.py, arguments in arguments.py. None of them writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from cortex.base.errors import Cancelled, CortexError, InputError, error_of
from cortex.base.redaction import note_of
from cortex.base.settings import Settings
from cortex.engine.library import id_of
from cortex.engine.library_session import LibrarySession
from cortex.families.documents.passages import excerpts_of
from cortex.families.documents.search import (
    DocumentResults,
    find,
    folders_of,
    mime_type,
    query_of,
    title_of,
)
from cortex.families.documents.status import overview_of, states_of
from cortex.families.documents.tools import render
from cortex.families.documents.tools.arguments import (
    GetDocument,
    KbSearchArguments,
    ListSources,
    SearchWithContext,
    Stats,
    searching,
)
from cortex.toolkit.pagination import check_budget, read_cursor
from cortex.toolkit.tool import Answer, Call, Fault, Tool, unforeseen

SERVER_ERROR = -32000  # what the contract has for whatever goes wrong within a tool
FAILED = "Search failed: "
HITS_PER_DOCUMENT = 4  # that are asked for, so that there are enough of different documents
MOST_HITS = 200
DOCUMENT_BUDGET = 8_000  # tokens of a document at once, where nobody says how many

Arguments = TypeVar("Arguments")


def fault_of(error: CortexError) -> Fault:
    """The error of the request that an error within a tool is."""
    return Fault(SERVER_ERROR, error.message)


def _says_that_it_failed(
    run: Callable[[LibrarySession, Arguments, Call], Answer],
) -> Callable[[LibrarySession, Arguments, Call], Answer]:
    """A search whose errors begin with saying that it is the search that failed."""

    def search(context: LibrarySession, arguments: Arguments, call: Call) -> Answer:
        try:
            return run(context, arguments, call)
        except Cancelled:
            raise
        except Exception as failure:  # whatever it is, the caller is told that the search failed
            error = (
                failure if isinstance(failure, CortexError) else unforeseen(failure, run.__name__)
            )
            told = error_of(error.code, FAILED + error.message, error.context)
            told.suggestions = error.suggestions
            raise told from failure

    return search


@_says_that_it_failed
def kb_search(context: LibrarySession, arguments: KbSearchArguments, call: Call) -> Answer:
    """Find documents, with snippets."""
    settings = context.settings
    budget = check_budget(arguments.budget, settings.search.budget)
    query = query_of(settings, arguments.query, arguments.mode, arguments.limit)
    key = repr((query, arguments.source_id))
    offset = read_cursor(key, arguments.cursor)
    with context.open() as library:
        found = find(library, replace(query, offset=offset), arguments.source_id, call.cancel)
    text = render.search_text(arguments.query, found, budget, offset, key)
    return Answer(text, meta=_meta(found), hits=len(found.results))


@_says_that_it_failed
def kb_search_with_context(
    context: LibrarySession, arguments: SearchWithContext, call: Call
) -> Answer:
    """Find documents, with whole passages to answer from."""
    settings = context.settings
    budget = check_budget(arguments.budget, settings.search.budget)
    hits = min(MOST_HITS, arguments.limit * HITS_PER_DOCUMENT)
    query = query_of(settings, arguments.query, arguments.mode, hits)
    with context.open() as library:
        found = find(library, replace(query, snippets=(0,)), arguments.source_id, call.cancel)
        excerpts = excerpts_of(library.store.lookup, found.results, arguments.limit)
    redacted = [
        (excerpt.result.path, one)
        for excerpt in excerpts
        for passage in excerpt.passages
        for one in passage.redacted
    ]
    found = replace(found, notes=(*found.notes, *note_of(redacted)))
    text = render.context_text(arguments.query, found, excerpts, budget)
    return Answer(text, meta=_meta(found), hits=len(excerpts))


def _meta(found: DocumentResults) -> dict[str, object]:
    """For programs, beside the text."""
    return {
        "cortex/mode": found.mode,
        "cortex/degraded": found.degraded,
        "cortex/total": found.total,
    }


def kb_list_sources(context: LibrarySession, arguments: ListSources, call: Call) -> Answer:
    """The sources, with their ids."""
    with context.open() as library:
        states = states_of(library, library.folders())
    return Answer(render.sources_text(states))


def kb_get_document(context: LibrarySession, arguments: GetDocument, call: Call) -> Answer:
    """A document's text, in parts where it is long."""
    budget = check_budget(arguments.budget, max(DOCUMENT_BUDGET, context.settings.search.budget))
    with context.open() as library:
        folder, doc = library.document(arguments.document_id)
        lookup = library.store.lookup
        text, title = lookup.text(doc.blob), title_of(lookup, doc)
        notes = note_of((doc.path, one) for one in lookup.redacted(doc.blob))
    # The place in another version of it would be another
    key = f"{arguments.document_id}:{doc.blob}"
    try:
        start = read_cursor(key, arguments.cursor)
    except InputError:
        raise InputError(
            "CURSOR_INVALID",
            "this cursor does not belong to this document as it is now: it may have changed",
            suggestions=("Read the document again, without `cursor`.",),
        ) from None
    facts = [
        ("Path", doc.path),
        ("Source", f"{folder.name} (ID: {folder.key})"),
        ("Size", f"{doc.size:,} bytes"),
        ("MIME type", mime_type(doc.path)),
        ("document_id", id_of(folder, doc.path)),
        *(("Note", note) for note in notes),
    ]
    return Answer(render.document_text(facts, title, text, start, budget, key))


def kb_stats(context: LibrarySession, arguments: Stats, call: Call) -> Answer:
    """Counts, capabilities, and what could not be read."""
    with context.open() as library:
        states = states_of(library, folders_of(library, arguments.source_id))
        overview = overview_of(library, single=arguments.source_id is not None, ask=True)
    return Answer(render.stats_text(overview, states))


def tools_for(settings: Settings | None = None) -> tuple[Tool, ...]:
    """The tools, with the limits and defaults of these settings."""
    search, with_context = (
        (KbSearchArguments, SearchWithContext) if settings is None else searching(settings)
    )
    return (
        _tool(
            "kb_search",
            "Search documents",
            "Use this first to find something in the person's own documents (notes, manuals, "
            "papers, PDF and office files). Answers "
            "with title, path, section or page, document_id and a snippet of each, ranked; read "
            "on with kb_get_document.",
            search,
            kb_search,
        ),
        _tool(
            "kb_search_with_context",
            "Search documents with context",
            "Use this instead of kb_search to answer a question from the documents at once: "
            "whole passages, neighbouring ones "
            "merged, as Markdown with citations, within a token budget.",
            with_context,
            kb_search_with_context,
        ),
        _tool(
            "kb_list_sources",
            "List document sources",
            "Use this to see which folders of documents there are, with the IDs that source_id "
            "takes, and how fresh they are.",
            ListSources,
            kb_list_sources,
        ),
        _tool(
            "kb_get_document",
            "Get document",
            "Use this to read a document whole, by the document_id from a search: title, path, "
            "size, MIME type and text. Long ones come in "
            "parts: go on with `cursor`.",
            GetDocument,
            kb_get_document,
        ),
        _tool(
            "kb_stats",
            "Document statistics",
            "Use this to see how much there is, whether search by meaning works, and which "
            "files could not be read.",
            Stats,
            kb_stats,
        ),
    )


def _tool(
    name: str, title: str, description: str, arguments: type, run: Callable[..., Answer]
) -> Tool:
    return Tool("kb", name, title, description, arguments, run, writes=False, idempotent=True)


TOOLS = tools_for()
