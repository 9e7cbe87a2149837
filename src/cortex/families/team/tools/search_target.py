"""The records as a place of a search over several stores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import Record
from cortex.base.types import Cancel, Hit, Mode, Page, Query
from cortex.engine.library import Library
from cortex.engine.search.federated import SearchTarget
from cortex.families.team.caveats import absence_of
from cortex.families.team.search import RecordQuery, page_of

FAMILY = "team"


def place_of(library: Library, asked: RecordQuery | None = None) -> SearchTarget:
    """The records that may answer: all that are found, or those that `asked` narrows them to."""
    narrowed = asked or RecordQuery()
    known: dict[str, Record[Any]] = {}  # that were found
    absent: dict[str, str] = {}

    def ask(query: Query, cancel: Cancel) -> Page:
        if query.mode in (Mode.EXACT, Mode.FULL):
            raise InputError(
                "ARGUMENT_INVALID",
                f"records can't be searched in mode {query.mode.value}: ask code alone",
            )
        page = page_of(library, narrowed, query, cancel)
        absent.update(library.store.outbox.absent())
        known.update(library.store.recorded.get(hit.path for hit in page.hits))
        # Others have gone since
        return replace(page, hits=tuple(hit for hit in page.hits if hit.path in known))

    def cite(hit: Hit) -> dict[str, object]:
        record = known[hit.path]
        told: dict[str, object] = {
            "id": record.id,
            "type": record.kind,
            "title": record.body.title,
            "state": record.body.state,
        }
        if marks := absence_of(record.id, absent):
            told["warnings"] = list(marks)
        thread = getattr(record.body, "thread", "")
        return {**told, "thread": thread} if thread else told

    return SearchTarget(FAMILY, "records", ask, cite=cite)
