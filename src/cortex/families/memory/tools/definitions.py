"""The four memory tools, all read-only.

Rendering is in render.py, arguments are in arguments.py.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from cortex.base.errors import InputError
from cortex.engine.library import Library
from cortex.engine.store import OWN, SHOWN
from cortex.families.memory.databases import (
    current_scope,
    databases,
    scope_folders,
    searched_places,
)
from cortex.families.memory.ids import find_memory
from cortex.families.memory.mirror import copied
from cortex.families.memory.search import MemoryQuery, await_fresh, find, sources_of
from cortex.families.memory.session_context import context_of, session_of
from cortex.families.memory.staleness import changes_in
from cortex.families.memory.states import name_of
from cortex.families.memory.tools import render
from cortex.families.memory.tools.arguments import GetContext, GetMemory, ListScopes, QueryMemories
from cortex.families.memory.tools.session import MemorySession
from cortex.toolkit.pagination import check_budget, make_cursor, read_cursor
from cortex.toolkit.tool import Answer, Call, Tool

# Default budgets in tokens.
QUERY_BUDGET = 2_000
CONTEXT_BUDGET = 1_000
MEMORY_BUDGET = 4_000
# Time that a list of scopes waits for rows that were not counted yet.
COUNT_SECONDS = 2.0


def query_memories(context: MemorySession, arguments: QueryMemories, call: Call) -> Answer:
    """Search memories."""
    budget = check_budget(arguments.budget, QUERY_BUDGET)
    key = repr(
        (arguments.query, arguments.tags, arguments.project, arguments.scope, arguments.status)
    )
    offset = read_cursor(key, arguments.cursor)
    query = MemoryQuery(
        query=arguments.query or "",
        tags=arguments.tags or (),
        project=arguments.project or "",
        scope=arguments.scope or "",
        status=arguments.status,
        limit=arguments.limit,
        offset=offset,
        near=context.project.names,
    )
    with context.open() as library:
        if _has_none(library):
            return _missing(library)
        results = find(library, query, call.cancel)
        text = render.found_text(
            results, budget, partial(make_cursor, key), offset, changes_in(library)
        )
    meta = {
        "cortex/total": results.total,
        **({"cortex/mode": results.mode.value} if results.mode else {}),
    }
    return Answer(text, meta=meta, hits=results.total)


def get_memory(context: MemorySession, arguments: GetMemory, call: Call) -> Answer:
    """Return a complete memory."""
    budget = check_budget(arguments.budget, MEMORY_BUDGET)
    with context.open() as library:
        if _has_none(library):
            return _missing(library)
        record = find_memory(library, arguments.id, arguments.scope or "")
        present = databases(library.settings)
        shown = name_of(record.state, library.settings.memory.uncurated) == SHOWN
        session = session_of(present, record.memory.session)
        return Answer(
            render.memory_text(record, present, session, changes_in(library)(record), shown, budget)
        )


def list_scopes(context: MemorySession, arguments: ListScopes, call: Call) -> Answer:
    """List the scopes."""
    with context.open() as library:
        folders = scope_folders(library.settings)
        if _has_none(library) and not folders:
            return _missing(library)
        await_fresh(library, COUNT_SECONDS)
        present = databases(library.settings)
        sources = sources_of(library, present, "all")
        counts = library.store.memories.scopes([source.id for source in sources])
        state = copied(library)
    current = current_scope(context.scope, context.project, [count.scope for count in counts])
    notes = [
        *state.problems,
        *([f"at most {state.left:,} more are being indexed"] if state.left else []),
    ]
    return Answer(
        render.scopes_text(
            counts, (*present, *folders), render.Paths(context.settings.home), current, notes
        )
    )


def get_context(context: MemorySession, arguments: GetContext, call: Call) -> Answer:
    """Return the context of a project."""
    budget = check_budget(arguments.budget, CONTEXT_BUDGET)
    folder = (
        _folder(context.folder, arguments.project_path)
        if arguments.project_path
        else context.folder
    )
    with context.open() as library:
        if _has_none(library):
            return _missing(library)
        project_context = context_of(
            library, folder, most=arguments.max_memories, others=arguments.include_cross_project
        )
    if not os.path.isdir(folder):
        note = (
            "project_path is not a folder here; these are memories of a project called "
            f"{project_context.project.name}"
        )
        project_context = replace(project_context, notes=(note, *project_context.notes))
    return Answer(render.context_text(project_context, budget))


def _folder(here: Path, path: str) -> Path:
    """Resolve the folder that a client names. Raises: InputError ARGUMENT_INVALID."""
    if "\0" in path:
        raise InputError("ARGUMENT_INVALID", "project_path is no path of a folder")
    # The result must not depend on whether the folder exists.
    return Path(os.path.abspath(here / os.path.expanduser(path)))


def _has_none(library: Library) -> bool:
    return not databases(library.settings) and not library.store.memories.has(OWN)


def _missing(library: Library) -> Answer:
    # For clients that check the error code.
    error = InputError("MEMORY_UNKNOWN", "there are no memories")
    return Answer(render.missing_text(searched_places(library.settings)), failed=True, error=error)


_tool = partial(Tool, "memory", writes=False, idempotent=True)

TOOLS = (
    _tool(
        "query_memories",
        "Query memories",
        "Search memories from Tier-2 storage. Use when you encounter a problem or need guidance "
        "on a specific technology, pattern, or "
        "gotcha. Without a query: the newest.",
        QueryMemories,
        query_memories,
    ),
    _tool(
        "get_memory",
        "Get memory",
        "Get full details of a memory by ID. Use after query_memories to get complete context.",
        GetMemory,
        get_memory,
    ),
    _tool(
        "list_scopes",
        "List memory scopes",
        "List available memory scopes and their statistics.",
        ListScopes,
        list_scopes,
    ),
    _tool(
        "get_context",
        "Get project context",
        "Get context for current project including recent memories, decisions, and learnings. "
        "Use at session start.",
        GetContext,
        get_context,
    ),
)
