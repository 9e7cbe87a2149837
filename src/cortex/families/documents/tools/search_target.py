"""Documents as a target of federated search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from cortex.base.types import Cancel, Hit, Page, Query
from cortex.engine.library import Library, id_of
from cortex.engine.search.federated import SearchTarget, reject_exact
from cortex.engine.store import Folder
from cortex.families.documents.search import page_of, tuned

FAMILY = "kb"


def targets_of(library: Library) -> list[SearchTarget]:
    """Search target over all folders of a library; none if there are no folders."""
    return [place_of(library)] if library.folders() else []


def place_of(library: Library) -> SearchTarget:
    """Search target over all folders of a library, with the ranking of its settings."""
    folders = library.folders()
    known = {folder.source.id: folder for folder in folders}
    return SearchTarget(
        FAMILY,
        "documents",
        partial(_ask, library, folders),
        {source_id: folder.name for source_id, folder in known.items()},
        partial(_cite, library, known),
        "kb_get_document document_id",
        partial(_read, library),
        lambda document_id: library.document(document_id)[1].mtime_ns / 1e9,
    )


def _ask(library: Library, folders: Sequence[Folder], query: Query, cancel: Cancel) -> Page:
    reject_exact(query, "documents")
    if not folders:
        note = "there are no sources yet: add one with `cortex kb add PATH`"
        return Page((), 0, query.mode, (note,))
    threshold = max(query.threshold, library.settings.kb.rag.min_score)
    tuned_query = replace(tuned(library.settings, query), threshold=threshold)
    sources = [folder.source for folder in folders]
    return library.search(tuned_query, cancel=cancel, sources=sources)


def _cite(library: Library, known: Mapping[int, Folder], hit: Hit) -> dict[str, object]:
    lookup = library.store.content
    place = lookup.places([(hit.doc, hit.chunk)]).get((hit.doc, hit.chunk))
    page = page_of(lookup.text(place.doc.blob), place.chunk) if place else 0
    return {
        "document_id": id_of(known[hit.source], hit.path),
        "section": hit.qualified or None,
        "page": page or None,
    }


def _read(library: Library, document_id: str) -> tuple[str, str]:
    _, doc = library.document(document_id)
    return doc.path, library.store.content.text(doc.blob)
