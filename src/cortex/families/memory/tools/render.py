"""What the memory tools say: JSON as their contract has it, within a budget. Knows no store.

The first results come whole; what doesn't fit the budget comes as a short row, to be opened by its
id.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.base.text import TOKEN_CHARACTERS, rfc3339
from cortex.base.types import MemoryState
from cortex.engine.store import Remembered, ScopeCount
from cortex.families.memory.adapters.claude_mem import Session
from cortex.families.memory.databases import MemoryDatabase
from cortex.families.memory.ids import told_id
from cortex.families.memory.search import MemoryHit, MemoryResults
from cortex.families.memory.session_context import SessionContext
from cortex.toolkit.pagination import too_small

SUGGESTIONS = (
    "Try broader search terms",
    "Use list_scopes to check available scopes",
    "Recent sessions may not be indexed yet",
)
MAX_FACTS, MAX_FACT = 12, 400  # of a result; get_memory has all
MAX_OVERVIEW = 1_500  # characters of a session
MAX_TITLE, MAX_CONCEPT, CONCEPTS = 120, 40, 3  # characters, and concepts, in a short row
MIN_TITLE, MAX_NOTE = 60, 600  # characters
MAX_SCOPES, SCOPES_BUDGET = 100, 4_000  # scopes that are told; tokens of the notes beside them
CONTEXT_KEYS = 200  # characters of the names of a context's parts, and of what was left off
UNNAMED = "unnamed"  # a scope without a name

Row = dict[str, object]
Stale = Callable[[Remembered], Sequence[str]]  # what changed since in the code that a memory cites


def dumped(answer: Mapping[str, object]) -> str:
    """The JSON of an answer, as short as it can be."""
    return dumped_part(answer)


def dumped_part(part: object) -> str:
    """The JSON of a part of an answer."""
    return json.dumps(part, ensure_ascii=False, separators=(",", ":"))


def error_text(error: CortexError) -> str:
    """An error as this family tells it."""
    told: Row = {
        "error": error.code,
        "message": error.message,
        "suggestions": list(dict.fromkeys(error.suggestions)),
    }
    return dumped({**told, **({"context": error.context} if error.context else {})})


def missing_text(places: Sequence[Path]) -> str:
    """That there are no memories anywhere, and where they would be."""
    return dumped(
        {
            "error": "Memory database not found",
            "message": "Run claude-mem to start capturing memories",
            "path": str(places[0]),
            "searched": [str(place) for place in places],
            "suggestions": ["A person can write one without it: `cortex memory add TITLE`"],
        }
    )


def found_text(
    found: MemoryResults, budget: int, cursor: Callable[[int], str], offset: int, stale: Stale
) -> str:
    """The answer to a question."""
    notes = _notes(found.notes, budget)
    if not found.hits:
        return dumped({"results": [], "suggestions": list(SUGGESTIONS), **notes})
    room = budget * TOKEN_CHARACTERS - len(
        dumped({"results": [], "total": found.total, "next_cursor": "x" * 40, **notes})
    )
    rows: list[Row] = []
    for number, hit in enumerate(found.hits):
        left = len(found.hits) - number - 1
        row = result_row(hit, found.present, stale(hit.one))
        if len(dumped(row)) + 1 > room - left * 60:  # so that the others have room for a short row
            row = short_row(hit.one, found.present, shown=hit.shown)
            row["more"] = "get_memory"
        if len(dumped(row)) + 1 > room and not rows:  # the first one is always told
            row = {
                "id": row["id"],
                "title": _cut(hit.one.memory.title, MIN_TITLE),
                "more": "get_memory",
            }
        size = len(dumped(row)) + 1
        if size > room:
            if rows:
                break
            raise too_small(budget * TOKEN_CHARACTERS - room + size)
        room -= size
        rows.append(row)
    answer: Row = {"results": rows, "total": found.total, **notes}
    if offset + len(rows) < found.total:
        answer["next_cursor"] = cursor(offset + len(rows))
    return dumped(answer)


def result_row(hit: MemoryHit, present: Sequence[MemoryDatabase], changes: Sequence[str]) -> Row:
    """A memory among the results."""
    memory = hit.one.memory
    row: Row = {
        "id": told_id(hit.one, present),
        "title": memory.title,
        "subtitle": memory.subtitle,
        "facts": [
            _cut(fact, MAX_FACT)
            for fact in (memory.facts or _story(memory.text, memory.title))[:MAX_FACTS]
        ],
        "concepts": list(memory.concepts),
        "project": memory.project,
        "created_at": rfc3339(memory.created / 1000),
        **_standing(hit.one, hit.shown),
    }
    return {**row, "maybe_stale": list(changes)} if changes else row


def short_row(one: Remembered, present: Sequence[MemoryDatabase], *, shown: bool = True) -> Row:
    """A memory in a list: enough to decide whether to open it."""
    memory = one.memory
    standing = {key: value for key, value in _standing(one, shown).items() if key != "curated"}
    concepts = [_cut(concept, MAX_CONCEPT) for concept in memory.concepts[:CONCEPTS]]
    return {
        "id": told_id(one, present),
        "title": _cut(memory.title, MAX_TITLE),
        "concepts": concepts,
        **standing,
    }


def memory_text(
    one: Remembered,
    present: Sequence[MemoryDatabase],
    session: Session | None,
    changes: Sequence[str],
    shown: bool,
    budget: int,
) -> str:
    """All of a memory; what doesn't fit the budget is cut, the story first, and the answer says so."""
    memory = one.memory
    row: Row = {
        "id": told_id(one, present),
        "title": memory.title,
        "subtitle": memory.subtitle,
        "facts": list(memory.facts),
        "concepts": list(memory.concepts),
        "files": list(memory.files),
        "project": memory.project,
        "session": memory.session,
        "date": memory.date,
        "created_at": rfc3339(memory.created / 1000),
    }
    optional: Row = {
        "kind": memory.kind,
        "text": "" if memory.text.strip() == memory.title else memory.text,
        **_standing(one, shown),
        "superseded_by": one.judgement.successor if one.judgement else "",
        "reviewed_by": one.judgement.actor if one.judgement else "",
        "reviewed_at": rfc3339(one.judgement.at) if one.judgement else "",
        "scope": one.scope if one.scope != memory.project else "",
        "maybe_stale": list(changes),
        "session_context": _session_context(session),
    }
    row |= {key: value for key, value in optional.items() if value not in ("", [], None)}
    return dumped(_fitted(row, budget * TOKEN_CHARACTERS))


def _fitted(row: Row, room: int) -> Row:
    """A row cut to so many characters: its story, then lists from their ends, what is told of its
    session, and names at last.
    """
    if len(dumped(row)) <= room:
        return row
    row = {**row, "truncated": True}
    long = (
        "text",
        "facts",
        "files",
        "concepts",
        "session_context",
        "subtitle",
        "maybe_stale",
        "title",
    )
    for name in (*long, "session", "kind", "scope", "project"):
        over = len(dumped(row)) - room
        whole = row.get(name)
        if over <= 0:
            break
        if isinstance(whole, str):
            row[name] = _cut(whole, max(0, len(whole) - over - 1))
        elif isinstance(whole, list):
            kept = list(whole)
            while kept and over > 0:
                over -= len(dumped_part(kept.pop())) + 1
            row[name] = kept
        elif whole:
            del row[name]
    if len(dumped(row)) > room:
        raise too_small(len(dumped(row)))
    return row


def scopes_text(
    counts: Sequence[ScopeCount],
    present: Sequence[MemoryDatabase],
    path_of: Callable[[str], str],
    current: str,
    notes: Sequence[str],
) -> str:
    """The scopes with what is in them, and the current one; of very many those with the newest
    memories.
    """
    rows = scope_rows(counts, present, path_of)
    if len(rows) > MAX_SCOPES:
        notes = (
            f"{len(rows) - MAX_SCOPES:,} more scopes have older memories: name one as `scope` "
            "to ask it",
            *notes,
        )
        rows = sorted(rows, key=lambda row: str(row["last_updated"]), reverse=True)[:MAX_SCOPES]
    return dumped({"scopes": rows, "current_scope": current, **_notes(notes, SCOPES_BUDGET)})


def scope_rows(
    counts: Sequence[ScopeCount], present: Sequence[MemoryDatabase], path_of: Callable[[str], str]
) -> list[Row]:
    """The scopes with what is in them, by name; one that several databases have is one scope, where
    it has most.

    A folder for a scope is one, though nothing is in it yet.
    """
    scopes: dict[str, list[ScopeCount]] = {}
    for one in (
        *counts,
        *(ScopeCount(one.scope, one.origin, 0, 0) for one in present if one.scope),
    ):
        scopes.setdefault((one.scope or UNNAMED).casefold(), []).append(one)
    rows: list[Row] = []
    for _, parts in sorted(scopes.items()):
        largest, newest = max(parts, key=lambda one: one.count), max(part.newest for part in parts)
        rows.append(
            {
                "name": largest.scope or UNNAMED,
                "path": path_of(largest.origin),
                "memory_count": sum(one.count for one in parts),
                "last_updated": rfc3339(newest / 1000) if newest else "",
            }
        )
    return rows


def context_text(context: SessionContext, budget: int) -> str:
    """What is worth knowing in a project."""
    name, path = _cut(context.project.name, MAX_TITLE), _cut(str(context.project.path), budget)
    answer: Row = {"project": {"name": name, "path": path}}
    notes = _notes(context.notes, budget)
    room = budget * TOKEN_CHARACTERS - len(dumped({**answer, **notes})) - CONTEXT_KEYS
    left_off: dict[str, int] = {}
    parts: tuple[tuple[str, list[Row]], ...] = (
        ("recent_memories", [_listed(memory, context) for memory in context.memories]),
        (
            "recent_sessions",
            [
                {"id": session.id, "title": _cut(session.title, MAX_TITLE), "date": session.date}
                for session in context.sessions
            ],
        ),
        ("cross_project_learnings", [_with_project(other, context) for other in context.others]),
    )
    for name, rows in parts:
        kept: list[Row] = []
        for row in rows:
            size = len(dumped(row)) + 1
            if size > room:
                left_off[name] = len(rows) - len(kept)
                break
            room -= size
            kept.append(row)
        answer[name] = kept
    if left_off:
        answer |= {"truncated": True, "left_off": left_off}
    return dumped({**answer, **notes})


def _notes(notes: Sequence[str], budget: int) -> Row:
    """As many of the notes as half of the budget has room for; one that is too long is cut."""
    room, kept = budget * TOKEN_CHARACTERS // 2, list[str]()
    for note in notes:
        told = _cut(note, MAX_NOTE if kept else min(MAX_NOTE, room // 2))
        room -= len(dumped_part(told)) + 1
        if room < 0:
            break
        kept.append(told)
    return {"notes": kept} if kept else {}


def _listed(one: Remembered, context: SessionContext) -> Row:
    return {**short_row(one, context.present), **_stale(one, context)}


def _with_project(one: Remembered, context: SessionContext) -> Row:
    return {
        **short_row(one, context.present),
        "project": one.memory.project,
        **_stale(one, context),
    }


def _stale(one: Remembered, context: SessionContext) -> Row:
    changes = context.stale.get(one.ref)
    return {"maybe_stale": list(changes)} if changes else {}


def _standing(one: Remembered, shown: bool) -> Row:
    """How far a memory was judged, where that isn't what one expects: approved by somebody."""
    if one.state is None:
        return {**({} if shown else {"status": MemoryState.STAGING.value}), "curated": False}
    return {} if one.state is MemoryState.APPROVED else {"status": one.state.value}


def _session_context(session: Session | None) -> Row | None:
    if session is None:
        return None
    return {"title": session.title, "overview": _cut(session.overview, MAX_OVERVIEW)}


def _story(text: str, title: str) -> tuple[str, ...]:
    """What a memory without facts says, as one."""
    story = " ".join(text.split())
    return (story,) if story and story != title else ()


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: max(0, size - 1)].rstrip() + "…"


@dataclass(frozen=True, slots=True)
class Paths:
    """Where an origin lies, as a person would write it."""

    store: Path

    def __call__(self, origin: str) -> str:
        path = str(Path(origin).parent if origin else self.store)
        home = str(Path.home())
        return f"~{path[len(home) :]}" if path == home or path.startswith(home + os.sep) else path
