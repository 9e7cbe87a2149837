"""Memories as a target of federated search."""

from __future__ import annotations

from cortex.base.errors import InputError
from cortex.base.types import Cancel, Hit, Mode, Page, Query
from cortex.engine.library import Library
from cortex.engine.search.federated import SearchTarget
from cortex.engine.store import MemoryFilter
from cortex.families.memory.databases import databases
from cortex.families.memory.ids import display_id, find_memory
from cortex.families.memory.index_text import text_of
from cortex.families.memory.mirror import copied
from cortex.families.memory.search import sources_of, states_of

FAMILY = "memory"


def place_of(library: Library) -> SearchTarget:
    """Search target over all memories that count as approved."""
    present = databases(library.settings)
    sources = sources_of(library, present, "approved")

    def ask(query: Query, cancel: Cancel) -> Page:
        if query.mode in (Mode.EXACT, Mode.FULL):
            raise InputError(
                "ARGUMENT_INVALID",
                f"memories can't be searched in mode {query.mode.value}: ask code alone",
            )
        state = copied(library)
        notes = (
            *state.problems,
            *((f"at most {state.left:,} more are not indexed yet",) if state.left else ()),
        )
        if not sources:
            return Page(
                (),
                0,
                query.mode,
                notes or ("there are no memories yet: write one with `cortex memory add`",),
            )
        states = states_of(library, "approved")
        filters = MemoryFilter(sources=tuple(source.id for source in sources), states=states)
        docs = library.store.memories.docs(filters) if states else None
        page = library.search(query, cancel=cancel, sources=sources, docs=docs)
        return Page(
            page.hits,
            page.total,
            page.mode,
            (*page.notes, *notes),
            page.docs,
            page.chunks,
            page.cached,
        )

    def cite(hit: Hit) -> dict[str, object]:
        record = library.store.memories.by_docs([hit.doc]).get(hit.doc)
        return (
            {}
            if record is None
            else {
                "id": display_id(record, present),
                "title": record.memory.title,
                "project": record.memory.project,
            }
        )

    def read(memory_id: str) -> tuple[str, str]:
        record = find_memory(library, memory_id, "")
        return record.memory.title, text_of(record.memory)

    def written(memory_id: str) -> float:
        return find_memory(library, memory_id, "").memory.created / 1000

    return SearchTarget(
        FAMILY, "memories", ask, cite=cite, opener="get_memory id", read=read, written=written
    )
