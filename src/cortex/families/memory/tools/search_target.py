"""Memories as a target of federated search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from cortex.base.types import Cancel, Hit, Page, Query, Source
from cortex.engine.library import Library
from cortex.engine.search.federated import SearchTarget, reject_exact
from cortex.engine.store import MemoryFilter
from cortex.families.memory.databases import MemoryDatabase, databases
from cortex.families.memory.ids import display_id, find_memory
from cortex.families.memory.index_text import text_of
from cortex.families.memory.mirror import copied
from cortex.families.memory.search import sources_of, states_of

FAMILY = "memory"


def place_of(library: Library) -> SearchTarget:
    """Search target over all memories that count as approved."""
    present = databases(library.settings)
    return SearchTarget(
        FAMILY,
        "memories",
        partial(_ask, library, sources_of(library, present, "approved")),
        cite=partial(_cite, library, present),
        opener="get_memory id",
        read=partial(_read, library),
        written=lambda memory_id: find_memory(library, memory_id, "").memory.created / 1000,
    )


def _ask(library: Library, sources: Sequence[Source], query: Query, cancel: Cancel) -> Page:
    reject_exact(query, "memories")
    state = copied(library)
    notes = state.problems
    if state.left:
        notes = (*notes, f"at most {state.left:,} more are not indexed yet")
    if not sources:
        none = "there are no memories yet: write one with `cortex memory add`"
        return Page((), 0, query.mode, notes or (none,))
    states = states_of(library, "approved")
    filters = MemoryFilter(sources=tuple(source.id for source in sources), states=states)
    docs = library.store.memories.docs(filters) if states else None
    page = library.search(query, cancel=cancel, sources=sources, docs=docs)
    return replace(page, notes=(*page.notes, *notes))


def _cite(library: Library, present: Sequence[MemoryDatabase], hit: Hit) -> dict[str, object]:
    record = library.store.memories.by_docs([hit.doc]).get(hit.doc)
    if record is None:
        return {}
    memory = record.memory
    return {"id": display_id(record, present), "title": memory.title, "project": memory.project}


def _read(library: Library, memory_id: str) -> tuple[str, str]:
    record = find_memory(library, memory_id, "")
    return record.memory.title, text_of(record.memory)
