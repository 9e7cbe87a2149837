"""The five document tools, all read-only.

Rendering is in render.py, arguments are in arguments.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
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

# The contract's code for every error within a tool.
SERVER_ERROR = -32000
FAILED = "Search failed: "
# Hits to request per document, to get enough different documents.
HITS_PER_DOCUMENT = 4
MOST_HITS = 200
# Default tokens of a document's part.
DOCUMENT_BUDGET = 8_000

Arguments = TypeVar("Arguments")


def fault_of(error: CortexError) -> Fault:
    """Convert an error within a tool to a request error."""
    return Fault(SERVER_ERROR, error.message)


def _with_failure_prefix(
    run: Callable[[LibrarySession, Arguments, Call], Answer],
) -> Callable[[LibrarySession, Arguments, Call], Answer]:
    """Decorate a search so that its error messages say that the search failed."""

    def search(context: LibrarySession, arguments: Arguments, call: Call) -> Answer:
        try:
            return run(context, arguments, call)
        except Cancelled:
            raise
        except Exception as failure:
            # Every error is reported to the caller as a failed search.
            error = (
                failure if isinstance(failure, CortexError) else unforeseen(failure, run.__name__)
            )
            reported = error_of(error.code, FAILED + error.message, error.context)
            reported.suggestions = error.suggestions
            raise reported from failure

    return search


@_with_failure_prefix
def kb_search(context: LibrarySession, arguments: KbSearchArguments, call: Call) -> Answer:
    """Search documents, with snippets."""
    settings = context.settings
    budget = check_budget(arguments.budget, settings.search.budget)
    query = query_of(settings, arguments.query, arguments.mode, arguments.limit)
    key = repr((query, arguments.source_id))
    offset = read_cursor(key, arguments.cursor)
    with context.open() as library:
        results = find(library, replace(query, offset=offset), arguments.source_id, call.cancel)
    text = render.search_text(arguments.query, results, budget, offset, key)
    return Answer(text, meta=_meta(results), hits=len(results.results))


@_with_failure_prefix
def kb_search_with_context(
    context: LibrarySession, arguments: SearchWithContext, call: Call
) -> Answer:
    """Search documents, with whole passages to answer from."""
    settings = context.settings
    budget = check_budget(arguments.budget, settings.search.budget)
    hits = min(MOST_HITS, arguments.limit * HITS_PER_DOCUMENT)
    query = query_of(settings, arguments.query, arguments.mode, hits)
    with context.open() as library:
        results = find(library, replace(query, snippets=(0,)), arguments.source_id, call.cancel)
        excerpts = excerpts_of(library.store.content, results.results, arguments.limit)
    redacted = [
        (excerpt.result.path, redaction)
        for excerpt in excerpts
        for passage in excerpt.passages
        for redaction in passage.redacted
    ]
    results = replace(results, notes=(*results.notes, *note_of(redacted)))
    text = render.context_text(arguments.query, results, excerpts, budget)
    return Answer(text, meta=_meta(results), hits=len(excerpts))


def _meta(results: DocumentResults) -> dict[str, object]:
    """Metadata for programs beside the text."""
    return {
        "cortex/mode": results.mode,
        "cortex/degraded": results.degraded,
        "cortex/total": results.total,
    }


def kb_list_sources(context: LibrarySession, arguments: ListSources, call: Call) -> Answer:
    """List the sources with their ids."""
    with context.open() as library:
        states = states_of(library, library.folders())
    return Answer(render.sources_text(states))


def kb_get_document(context: LibrarySession, arguments: GetDocument, call: Call) -> Answer:
    """Return a document's text, in parts if it is long."""
    budget = check_budget(arguments.budget, max(DOCUMENT_BUDGET, context.settings.search.budget))
    with context.open() as library:
        folder, doc = library.document(arguments.document_id)
        lookup = library.store.content
        text, title = lookup.text(doc.blob), title_of(lookup, doc)
        notes = note_of((doc.path, redaction) for redaction in lookup.redacted(doc.blob))
    # A cursor is only valid for the same version of the document.
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
    """Return counts, capabilities, and unreadable files."""
    with context.open() as library:
        states = states_of(library, folders_of(library, arguments.source_id))
        overview = overview_of(library, single=arguments.source_id is not None, ask=True)
    return Answer(render.stats_text(overview, states))


_tool = partial(Tool, "kb", writes=False, idempotent=True)


def tools_for(settings: Settings | None = None) -> tuple[Tool, ...]:
    """Tools with the limits and defaults of these settings."""
    search, with_context = (
        (KbSearchArguments, SearchWithContext) if settings is None else searching(settings)
    )
    return (
        _tool(
            "kb_search",
            "Search documents",
            "Use this first to find something in the person's own documents (notes, manuals, "
            "papers, PDF and office files). Answers with title, path, section or page, "
            "document_id and a snippet of each, ranked; read on with kb_get_document.",
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


TOOLS = tools_for()
