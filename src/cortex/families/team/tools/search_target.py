"""Records as a target of federated search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cortex.base.record_model import Record
from cortex.base.types import Cancel, Hit, Page, Query
from cortex.engine.library import Library
from cortex.engine.search.federated import SearchTarget, reject_exact
from cortex.families.team.caveats import absence_of
from cortex.families.team.search import RecordQuery, page_of

FAMILY = "team"


def place_of(library: Library, request: RecordQuery | None = None) -> SearchTarget:
    """Return the search target for all indexed records, or those that `asked` selects."""
    narrowed = request or RecordQuery()
    # The records of the hits, for citations.
    known: dict[str, Record[Any]] = {}
    absent: dict[str, str] = {}

    def ask(query: Query, cancel: Cancel) -> Page:
        """Search the records for one page."""
        reject_exact(query, "records")
        page = page_of(library, narrowed, query, cancel)
        absent.update(library.store.outbox.absent())
        known.update(library.store.records.get(hit.path for hit in page.hits))
        # The others were removed since.
        return replace(page, hits=tuple(hit for hit in page.hits if hit.path in known))

    def cite(hit: Hit) -> dict[str, object]:
        """Return the citation of a hit."""
        record = known[hit.path]
        row: dict[str, object] = {
            "id": record.id,
            "type": record.kind,
            "title": record.body.title,
            "state": record.body.state,
        }
        if marks := absence_of(record.id, absent):
            row["warnings"] = list(marks)
        thread = getattr(record.body, "thread", "")
        return {**row, "thread": thread} if thread else row

    return SearchTarget(FAMILY, "records", ask, cite=cite)
