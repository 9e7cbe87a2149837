"""Render the results of the memory tools as JSON within a token budget. Knows no store.

The first results are complete; those that don't fit become short rows, to be opened by their ids.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.base.text import TOKEN_CHARACTERS, rfc3339
from cortex.base.types import MemoryState
from cortex.engine.store import Remembered, ScopeCount
from cortex.families.memory.adapters.claude_mem import Session
from cortex.families.memory.databases import MemoryDatabase
from cortex.families.memory.fields import CONTENT, values_of
from cortex.families.memory.ids import display_id
from cortex.families.memory.search import MemoryHit, MemoryResults
from cortex.families.memory.session_context import SessionContext
from cortex.toolkit.pagination import dump, take_fitting, too_small

SUGGESTIONS = (
    "Try broader search terms",
    "Use list_scopes to check available scopes",
    "Recent sessions may not be indexed yet",
)
# Facts of a result, and characters of each; get_memory returns all.
MAX_FACTS, MAX_FACT = 12, 400
# Characters of a session's overview.
MAX_OVERVIEW = 1_500
# Characters of a title and a concept, and concepts, in a short row.
MAX_TITLE, MAX_CONCEPT, CONCEPTS = 120, 40, 3
# Characters.
MIN_TITLE, MAX_NOTE = 60, 600
# Scopes in an answer, and tokens for the notes beside them.
MAX_SCOPES, SCOPES_BUDGET = 100, 4_000
# Characters for the keys of a context's parts and for the omission note.
CONTEXT_KEYS = 200
# Fields of a memory in the order in which they are cut to fit a budget.
CUT_ORDER = (
    *("text", "facts", "files", "concepts", "session_context", "subtitle", "maybe_stale"),
    *("title", "session", "kind", "scope", "project"),
)
# Display name of a scope without a name.
UNNAMED = "unnamed"

Row = dict[str, object]
# Function that lists the changes in the code that a memory cites.
Stale = Callable[[Remembered], Sequence[str]]


def error_text(error: CortexError) -> str:
    """Render an error in this family's format."""
    answer: Row = {
        "error": error.code,
        "message": error.message,
        "suggestions": list(dict.fromkeys(error.suggestions)),
    }
    return dump({**answer, **({"context": error.context} if error.context else {})})


def missing_text(places: Sequence[Path]) -> str:
    """Answer for a missing memory database, with the paths that were searched."""
    return dump(
        {
            "error": "Memory database not found",
            "message": "Run claude-mem to start capturing memories",
            "path": str(places[0]),
            "searched": [str(path) for path in places],
            "suggestions": ["A person can write one without it: `cortex memory add TITLE`"],
        }
    )


def found_text(
    results: MemoryResults, budget: int, cursor: Callable[[int], str], offset: int, stale: Stale
) -> str:
    """Render a page of search results."""
    notes = _notes(results.notes, budget)
    if not results.hits:
        return dump({"results": [], "suggestions": list(SUGGESTIONS), **notes})
    room = budget * TOKEN_CHARACTERS - len(
        dump({"results": [], "total": results.total, "next_cursor": "x" * 40, **notes})
    )
    rows: list[Row] = []
    for index, hit in enumerate(results.hits):
        left = len(results.hits) - index - 1
        row = result_row(hit, results.present, stale(hit.record))
        # Reserve room for a short row of each remaining hit.
        if len(dump(row)) + 1 > room - left * 60:
            row = short_row(hit.record, results.present, shown=hit.shown)
            row["more"] = "get_memory"
        # The first hit is always included.
        if len(dump(row)) + 1 > room and not rows:
            row = {
                "id": row["id"],
                "title": _cut(hit.record.memory.title, MIN_TITLE),
                "more": "get_memory",
            }
        size = len(dump(row)) + 1
        if size > room:
            if rows:
                break
            raise too_small(budget * TOKEN_CHARACTERS - room + size)
        room -= size
        rows.append(row)
    answer: Row = {"results": rows, "total": results.total, **notes}
    if offset + len(rows) < results.total:
        answer["next_cursor"] = cursor(offset + len(rows))
    return dump(answer)


def result_row(hit: MemoryHit, present: Sequence[MemoryDatabase], changes: Sequence[str]) -> Row:
    """Complete row of a search result."""
    memory = hit.record.memory
    facts = memory.facts or _text_as_fact(memory.text, memory.title)
    row: Row = {
        "id": display_id(hit.record, present),
        **values_of(memory, (*CONTENT, "project")),
        "facts": [_cut(fact, MAX_FACT) for fact in facts[:MAX_FACTS]],
        "created_at": rfc3339(memory.created / 1000),
        **_standing(hit.record, hit.shown),
    }
    return {**row, "maybe_stale": list(changes)} if changes else row


def short_row(record: Remembered, present: Sequence[MemoryDatabase], *, shown: bool = True) -> Row:
    """Short row of a memory: enough to decide whether to open it."""
    memory = record.memory
    standing = {key: value for key, value in _standing(record, shown).items() if key != "curated"}
    concepts = [_cut(concept, MAX_CONCEPT) for concept in memory.concepts[:CONCEPTS]]
    return {
        "id": display_id(record, present),
        "title": _cut(memory.title, MAX_TITLE),
        "concepts": concepts,
        **standing,
    }


def memory_text(
    record: Remembered,
    present: Sequence[MemoryDatabase],
    session: Session | None,
    changes: Sequence[str],
    shown: bool,
    budget: int,
) -> str:
    """Render a complete memory; a cut to fit the budget is marked in the answer."""
    memory = record.memory
    row: Row = {
        "id": display_id(record, present),
        **values_of(memory, (*CONTENT, "files", "project", "session", "date")),
        "created_at": rfc3339(memory.created / 1000),
    }
    optional: Row = {
        "kind": memory.kind,
        "text": "" if memory.text.strip() == memory.title else memory.text,
        **_standing(record, shown),
        "superseded_by": record.judgement.successor if record.judgement else "",
        "reviewed_by": record.judgement.actor if record.judgement else "",
        "reviewed_at": rfc3339(record.judgement.at) if record.judgement else "",
        "scope": record.scope if record.scope != memory.project else "",
        "maybe_stale": list(changes),
        "session_context": _session_context(session),
    }
    row |= {key: value for key, value in optional.items() if value not in ("", [], None)}
    return dump(_fitted(row, budget * TOKEN_CHARACTERS))


def _fitted(row: Row, room: int) -> Row:
    """Cut a row to `room` characters.

    The text is cut first, then lists from their ends, the session context, and finally names.
    """
    if len(dump(row)) <= room:
        return row
    row = {**row, "truncated": True}
    for name in CUT_ORDER:
        over = len(dump(row)) - room
        whole = row.get(name)
        if over <= 0:
            break
        if isinstance(whole, str):
            row[name] = _cut(whole, max(0, len(whole) - over - 1))
        elif isinstance(whole, list):
            kept = list(whole)
            while kept and over > 0:
                over -= len(dump(kept.pop())) + 1
            row[name] = kept
        elif whole:
            del row[name]
    if len(dump(row)) > room:
        raise too_small(len(dump(row)))
    return row


def scopes_text(
    counts: Sequence[ScopeCount],
    present: Sequence[MemoryDatabase],
    path_of: Callable[[str], str],
    current: str,
    notes: Sequence[str],
) -> str:
    """Render the scopes with their counts, and the current one.

    If there are too many, only those with the newest memories are listed.
    """
    rows = scope_rows(counts, present, path_of)
    if len(rows) > MAX_SCOPES:
        notes = (
            f"{len(rows) - MAX_SCOPES:,} more scopes have older memories: name one as `scope` "
            "to ask it",
            *notes,
        )
        rows = sorted(rows, key=lambda row: str(row["last_updated"]), reverse=True)[:MAX_SCOPES]
    return dump({"scopes": rows, "current_scope": current, **_notes(notes, SCOPES_BUDGET)})


def scope_rows(
    counts: Sequence[ScopeCount], present: Sequence[MemoryDatabase], path_of: Callable[[str], str]
) -> list[Row]:
    """Rows of the scopes with their counts, by name.

    A scope in several databases is one row, with the path of the database that has most of it.
    Empty scope folders are included.
    """
    scopes: dict[str, list[ScopeCount]] = {}
    empty = (ScopeCount(folder.scope, folder.origin, 0, 0) for folder in present if folder.scope)
    for count in (*counts, *empty):
        scopes.setdefault((count.scope or UNNAMED).casefold(), []).append(count)
    rows: list[Row] = []
    for _, parts in sorted(scopes.items()):
        largest = max(parts, key=lambda part: part.count)
        newest = max(part.newest for part in parts)
        rows.append(
            {
                "name": largest.scope or UNNAMED,
                "path": path_of(largest.origin),
                "memory_count": sum(part.count for part in parts),
                "last_updated": rfc3339(newest / 1000) if newest else "",
            }
        )
    return rows


def context_text(context: SessionContext, budget: int) -> str:
    """Render the context of a project."""
    name, path = _cut(context.project.name, MAX_TITLE), _cut(str(context.project.path), budget)
    answer: Row = {"project": {"name": name, "path": path}}
    notes = _notes(context.notes, budget)
    room = budget * TOKEN_CHARACTERS - len(dump({**answer, **notes})) - CONTEXT_KEYS
    left_off: dict[str, int] = {}
    parts: dict[str, list[Row]] = {
        "recent_memories": [_context_row(record, context) for record in context.memories],
        "recent_sessions": [
            {"id": session.id, "title": _cut(session.title, MAX_TITLE), "date": session.date}
            for session in context.sessions
        ],
        "cross_project_learnings": [
            _context_row(record, context, project=record.memory.project)
            for record in context.others
        ],
    }
    for name, rows in parts.items():
        kept = take_fitting(rows, room)
        room -= sum(len(dump(row)) + 1 for row in kept)
        if len(kept) < len(rows):
            left_off[name] = len(rows) - len(kept)
        answer[name] = kept
    if left_off:
        answer |= {"truncated": True, "left_off": left_off}
    return dump({**answer, **notes})


def _notes(notes: Sequence[str], budget: int) -> Row:
    """Notes that fit into half of the budget; a long one is cut."""
    room, kept = budget * TOKEN_CHARACTERS // 2, list[str]()
    for note in notes:
        text = _cut(note, MAX_NOTE if kept else min(MAX_NOTE, room // 2))
        room -= len(dump(text)) + 1
        if room < 0:
            break
        kept.append(text)
    return {"notes": kept} if kept else {}


def _context_row(record: Remembered, context: SessionContext, **more: str) -> Row:
    row = {**short_row(record, context.present), **more}
    changes = context.stale.get(record.ref)
    return {**row, "maybe_stale": list(changes)} if changes else row


def _standing(record: Remembered, shown: bool) -> Row:
    """Curation state, where it isn't the default of an approved memory."""
    if record.state is None:
        return {**({} if shown else {"status": MemoryState.STAGING.value}), "curated": False}
    return {} if record.state is MemoryState.APPROVED else {"status": record.state.value}


def _session_context(session: Session | None) -> Row | None:
    if session is None:
        return None
    return {"title": session.title, "overview": _cut(session.overview, MAX_OVERVIEW)}


def _text_as_fact(text: str, title: str) -> tuple[str, ...]:
    """Text of a memory without facts, as a single fact."""
    line = " ".join(text.split())
    return (line,) if line and line != title else ()


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: max(0, size - 1)].rstrip() + "…"


@dataclass(frozen=True, slots=True)
class Paths:
    """Display path of an origin, with ~ for the home folder."""

    store: Path

    def __call__(self, origin: str) -> str:
        path = str(Path(origin).parent if origin else self.store)
        home = str(Path.home())
        return f"~{path[len(home) :]}" if path == home or path.startswith(home + os.sep) else path
