"""Export memories in claude-mem's format, with additional fields under a key of our own.

Pure.

A kind that older versions of claude-mem would reject is exported as a discovery, and a memory
without a session gets a placeholder; our own importer restores both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from cortex.base.types import Citation, Memory, MemoryState
from cortex.families.memory.file_import import OURS

# Kinds that every version of claude-mem knows.
KINDS = frozenset({"decision", "bugfix", "feature", "refactor", "discovery", "change"})
ANY_KIND = "discovery"
NO_SESSION = "cortex"


@dataclass(frozen=True, slots=True)
class ExportedMemory:
    """Memory to export, with its curation state."""

    memory: Memory
    state: MemoryState | None = None
    scope: str = ""
    citations: tuple[Citation, ...] = ()
    reviewed_by: str = ""
    reviewed_at: str = ""
    superseded_by: str = ""


def export_of(
    memories: Iterable[ExportedMemory], *, at: int, query: str = "", project: str = ""
) -> dict[str, object]:
    """Build the export document of these memories, made at `at` (milliseconds).

    `query` and `project` record the selection.
    """
    kept = list(memories)
    rows = [_row(row_id, memory) for row_id, memory in enumerate(kept, 1)]
    sessions = _sessions(kept)
    return {
        "exportedAt": _iso(at),
        "exportedAtEpoch": at,
        "query": query,
        "project": project,
        "totalObservations": len(rows),
        "totalSessions": len(sessions),
        "totalSummaries": 0,
        "totalPrompts": 0,
        "observations": rows,
        "sessions": sessions,
        "summaries": [],
        "prompts": [],
    }


def _row(row_id: int, kept: ExportedMemory) -> dict[str, object]:
    memory = kept.memory
    return {
        "id": row_id,
        "memory_session_id": memory.session or NO_SESSION,
        "project": memory.project,
        "text": None,
        "type": memory.kind if memory.kind in KINDS else ANY_KIND,
        "title": memory.title,
        "subtitle": memory.subtitle or None,
        "facts": _array(memory.facts),
        "narrative": memory.text or None,
        "concepts": _array(memory.concepts),
        "files_read": _array(memory.files),
        "files_modified": _array(()),
        "prompt_number": None,
        "discovery_tokens": 0,
        "created_at": _iso(memory.created),
        "created_at_epoch": memory.created,
        OURS: _extension(kept),
    }


def _extension(kept: ExportedMemory) -> dict[str, object]:
    memory = kept.memory
    extension: dict[str, object] = {
        "key": memory.key,
        "state": kept.state,
        "scope": kept.scope,
        "kind": memory.kind,
        "session": memory.session,
        "date": memory.date,
        "provenance": memory.provenance,
        "reviewed_by": kept.reviewed_by,
        "reviewed_at": kept.reviewed_at,
    }
    if kept.superseded_by:
        extension["superseded_by"] = kept.superseded_by
    cited = [
        {
            "root": citation.root,
            "path": citation.path,
            "symbol": citation.symbol,
            "file_hash": citation.file_hash.hex(),
            "body_hash": citation.body_hash.hex(),
            "commit": citation.commit,
        }
        for citation in kept.citations
    ]
    return extension | ({"citations": cited} if cited else {})


def _sessions(kept: list[ExportedMemory]) -> list[dict[str, object]]:
    """One row for each session, which starts with its first memory."""
    first: dict[str, Memory] = {}
    for exported in kept:
        name = exported.memory.session or NO_SESSION
        if name not in first or exported.memory.created < first[name].created:
            first[name] = exported.memory
    return [
        {
            "id": row_id,
            "content_session_id": name,
            "memory_session_id": name,
            "project": memory.project,
            "user_prompt": "",
            "started_at": _iso(memory.created),
            "started_at_epoch": memory.created,
            "completed_at": None,
            "completed_at_epoch": None,
            "status": "completed",
        }
        for row_id, (name, memory) in enumerate(first.items(), 1)
    ]


def _array(parts: tuple[str, ...]) -> str:
    return json.dumps(list(parts), ensure_ascii=False)


def _iso(milliseconds: int) -> str:
    return (
        datetime.fromtimestamp(milliseconds / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
