"""Render memories for the terminal and as JSON; opens nothing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cortex.base.text import rfc3339
from cortex.base.types import Citation, MemoryState
from cortex.engine.store import OWN, Decision, Remembered
from cortex.families.memory.adapters.claude_mem import Session
from cortex.families.memory.databases import MemoryDatabase
from cortex.families.memory.fields import CONTENT, values_of
from cortex.families.memory.ids import display_id
from cortex.families.memory.writer import PERSON
from cortex.toolkit.terminal.output import cut_to, moment, padded, say, width_of

UNCURATED = "uncurated"
MARKS = {
    MemoryState.STAGING.value: "?",
    MemoryState.APPROVED.value: "✓",
    MemoryState.PROMOTED.value: "★",
    MemoryState.REJECTED.value: "✗",
    MemoryState.SUPERSEDED.value: "→",
    UNCURATED: "·",
}
# Widths in columns.
MAX_ID, MAX_KIND, MAX_PROJECT = 44, 12, 16
MIN_TITLE = 20


@dataclass(frozen=True, slots=True)
class MemoryDetails:
    """Memory with everything that is known about it."""

    record: Remembered
    present: tuple[MemoryDatabase, ...]
    uncurated: str
    session: Session | None
    # Pairs of a citation and its change since then.
    citations: tuple[tuple[Citation, str], ...]
    history: tuple[Decision, ...]


# -- JSON


def row_json(
    record: Remembered, present: Sequence[MemoryDatabase], uncurated: str
) -> dict[str, object]:
    """Memory as JSON."""
    memory, judgement = record.memory, record.judgement
    return {
        "id": display_id(record, present),
        **values_of(memory, (*CONTENT, "files", "text", "kind", "project")),
        "scope": record.scope,
        **values_of(memory, ("session", "date")),
        "created_at": moment(memory.created),
        "provenance": memory.provenance,
        "origin": record.origin or "own",
        "state": record.state.value if record.state else uncurated,
        "curated": is_curated(record),
        "reviewed_by": judgement.actor if judgement else "",
        "reviewed_at": rfc3339(judgement.at) if judgement else "",
        "superseded_by": judgement.successor if judgement else "",
    }


def details_json(details: MemoryDetails) -> dict[str, object]:
    """Memory as JSON, with citations, session and history."""
    session = details.session
    return {
        **row_json(details.record, details.present, details.uncurated),
        "citations": [
            {
                "path": citation.path,
                "symbol": citation.symbol,
                "root": citation.root,
                "commit": citation.commit,
                "changed": changed,
            }
            for citation, changed in details.citations
        ],
        "maybe_stale": [changed for _, changed in details.citations if changed],
        "session_context": {"title": session.title, "overview": session.overview}
        if session
        else None,
        "history": [decision_json(decision) for decision in details.history],
    }


def decision_json(decision: Decision) -> dict[str, object]:
    """Entry of the audit log as JSON."""
    return {
        "at": rfc3339(decision.at),
        "action": decision.action,
        "before": decision.before,
        "after": decision.after,
        "actor": decision.actor,
        "reason": decision.reason,
        "undone": decision.undone,
    }


# -- terminal


def say_rows(
    rows: Sequence[Remembered],
    present: Sequence[MemoryDatabase],
    *,
    stale: Sequence[Sequence[str]] = (),
) -> None:
    """Print one line for each memory, fitted to the terminal, with changes in cited code below."""
    ids = [cut_to(display_id(row, present), MAX_ID) for row in rows]
    kinds = [cut_to(row.memory.kind, MAX_KIND) for row in rows]
    projects = [cut_to(row.memory.project, MAX_PROJECT) for row in rows]
    widths = [max(map(width_of, column), default=0) for column in (ids, kinds, projects)]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for index, (row, memory_id, kind, project) in enumerate(
        zip(rows, ids, kinds, projects, strict=True)
    ):
        date = padded((moment(row.memory.created) or row.memory.date)[:10], 10)
        cells = [padded(memory_id, widths[0]), date, MARKS[standing(row)]]
        cells += [
            padded(cell, width)
            for cell, width in ((kind, widths[1]), (project, widths[2]))
            if width
        ]
        prefix = " ".join(cells)
        title = " ".join(row.memory.title.split())
        title = cut_to(title, max(MIN_TITLE, room - width_of(prefix) - 1)) if room else title
        say(f"{prefix} {title}")
        for change in stale[index] if stale else ():
            say(f"  maybe stale: {change}")


def say_marks(rows: Sequence[Remembered], uncurated: str) -> None:
    """Print the legend of the marks in a list to stderr."""
    used = {standing(row) for row in rows}
    parts = [
        f"{mark} {name}{f' (counts as {uncurated})' if name == UNCURATED else ''}"
        for name, mark in MARKS.items()
        if name in used
    ]
    if parts:
        say(f"marks: {', '.join(parts)}", error=True)


def say_details(details: MemoryDetails) -> None:
    """Print a complete memory."""
    record, memory = details.record, details.record.memory
    say(memory.title)
    if memory.subtitle:
        say(memory.subtitle)
    say("")
    for label, value in _fields(details):
        if value:
            say(f"{label + ':':<10}{value}")
    if memory.facts:
        say("")
        say("Facts:")
        for fact in memory.facts:
            say("- " + fact.replace("\n", "\n  "), lines=True)
    if memory.text and memory.text.strip() != memory.title:
        say("")
        say(memory.text, lines=True)
    if details.citations:
        say("")
        say("Cites:")
        for cited, changed in details.citations:
            symbol = f"#{cited.symbol}" if cited.symbol else ""
            say(f"  {cited.path}{symbol}: {f'maybe stale: {changed}' if changed else 'as it was'}")
    if details.history:
        say("")
        say("History:")
        for decision in details.history:
            say(f"  {decision_line(decision)}")
    if record.origin != OWN:
        say("")
        say(
            "It is a row of another product's database, which is only read: what you decide "
            "here lies over it."
        )


def _fields(details: MemoryDetails) -> list[tuple[str, str]]:
    record, memory, judgement = details.record, details.record.memory, details.record.judgement
    state = record.state.value if record.state else f"not judged, it counts as {details.uncurated}"
    reviewed = ""
    if judgement and is_curated(record):
        reviewed = f", by {judgement.actor} at {rfc3339(judgement.at)}"
    session = details.session.title if details.session else ""
    return [
        ("ID", display_id(record, details.present)),
        ("State", state + reviewed),
        ("Replaced", f"by {judgement.successor}" if judgement and judgement.successor else ""),
        ("Kind", memory.kind),
        ("Project", memory.project),
        ("Scope", record.scope if record.scope != memory.project else ""),
        ("Tags", ", ".join(memory.concepts)),
        ("Files", ", ".join(memory.files)),
        (
            "Session",
            f"{memory.session}{f': {session}' if session else ''}" if memory.session else "",
        ),
        ("Made", moment(memory.created)),
        ("From", " · ".join(part for part in (memory.provenance, record.origin) if part)),
    ]


def decision_line(decision: Decision, about: str = "") -> str:
    """Line of the audit log: action, subject, states, actor unless a person, and reason."""
    states = f"{decision.before or 'unjudged'} → {decision.after or 'unjudged'}"
    states = "" if decision.before == decision.after else states
    states = decision.after if decision.action == "add" else states
    by = "" if decision.actor == PERSON else f"by {decision.actor}"
    undone = "undone" if decision.undone and decision.action not in ("undo", "delete") else ""
    details = ", ".join(part for part in (by, decision.reason, undone) if part)
    parts = (
        rfc3339(decision.at),
        padded(decision.action, 9),
        about,
        states,
        f"({details})" if details else "",
    )
    return " ".join(part for part in parts if part).rstrip()


def is_curated(record: Remembered) -> bool:
    """True if a decision was made about a memory."""
    return record.state not in (None, MemoryState.STAGING)


def standing(record: Remembered) -> str:
    """State of a memory as a key of MARKS."""
    return record.state.value if record.state else UNCURATED


def counted(count: int) -> str:
    """Number of memories with its noun."""
    return f"{count:,} {'memory' if count == 1 else 'memories'}"
