"""Documents as a target of federated search."""

from __future__ import annotations

from dataclasses import replace

from cortex.base.errors import InputError
from cortex.base.types import Cancel, Hit, Mode, Page, Query
from cortex.engine.library import Library, id_of
from cortex.engine.search.federated import SearchTarget
from cortex.families.documents.search import page_of, tuned

FAMILY = "kb"


def place_of(library: Library) -> SearchTarget:
    """Search target over all folders of a library, with the ranking of its settings."""
    folders = library.folders()

    def ask(query: Query, cancel: Cancel) -> Page:
        if query.mode in (Mode.EXACT, Mode.FULL):
            raise InputError(
                "ARGUMENT_INVALID",
                f"documents can't be searched in mode {query.mode.value}: ask code alone",
            )
        if not folders:
            return Page(
                (), 0, query.mode, ("there are no sources yet: add one with `cortex kb add PATH`",)
            )
        tuned_query = replace(
            tuned(library.settings, query),
            threshold=max(query.threshold, library.settings.kb.rag.min_score),
        )
        return library.search(
            tuned_query, cancel=cancel, sources=[folder.source for folder in folders]
        )

    known = {folder.source.id: folder for folder in folders}

    def cite(hit: Hit) -> dict[str, object]:
        lookup = library.store.content
        place = lookup.places([(hit.doc, hit.chunk)]).get((hit.doc, hit.chunk))
        page = page_of(lookup.text(place.doc.blob), place.chunk) if place else 0
        return {
            "document_id": id_of(known[hit.source], hit.path),
            "section": hit.qualified or None,
            "page": page or None,
        }

    def read(document_id: str) -> tuple[str, str]:
        _, doc = library.document(document_id)
        return doc.path, library.store.content.text(doc.blob)

    def written(document_id: str) -> float:
        return library.document(document_id)[1].mtime_ns / 1e9

    names = {source_id: folder.name for source_id, folder in known.items()}
    return SearchTarget(
        FAMILY, "documents", ask, names, cite, "kb_get_document document_id", read, written
    )
