"""Memories as an export that claude-mem can import: its rows, and under a key of ours what its
columns can't say. Pure.

A kind that its older versions would refuse is told as a discovery, a memory without a session gets
one; both are as they were when we read the file again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from cortex.base.types import Citation, Memory, MemoryState
from cortex.families.memory.file_import import OURS

# That every version knows
KINDS = frozenset({"decision", "bugfix", "feature", "refactor", "discovery", "change"})
ANY_KIND = "discovery"
NO_SESSION = "cortex"


@dataclass(frozen=True, slots=True)
class ExportedMemory:
    """A memory on its way out, with what was decided about it."""

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
    """The export of these memories, made at that millisecond; `query` and `project` are what they
    were chosen by.
    """
    kept = list(memories)
    rows = [_row(number, one) for number, one in enumerate(kept, 1)]
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


def _row(number: int, kept: ExportedMemory) -> dict[str, object]:
    memory = kept.memory
    return {
        "id": number,
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
        OURS: _ours(kept),
    }


def _ours(kept: ExportedMemory) -> dict[str, object]:
    memory = kept.memory
    told: dict[str, object] = {
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
        told["superseded_by"] = kept.superseded_by
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
    return told | ({"citations": cited} if cited else {})


def _sessions(kept: list[ExportedMemory]) -> list[dict[str, object]]:
    """A row for each session that a memory is of, begun when its first memory was made."""
    first: dict[str, Memory] = {}
    for one in kept:
        name = one.memory.session or NO_SESSION
        if name not in first or one.memory.created < first[name].created:
            first[name] = one.memory
    return [
        {
            "id": number,
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
        for number, (name, memory) in enumerate(first.items(), 1)
    ]


def _array(parts: tuple[str, ...]) -> str:
    return json.dumps(list(parts), ensure_ascii=False)


def _iso(milliseconds: int) -> str:
    return (
        datetime.fromtimestamp(milliseconds / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
