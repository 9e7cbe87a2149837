"""How memories look on a terminal and as JSON; opens nothing."""

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
from cortex.families.memory.ids import told_id
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
MAX_ID, MAX_KIND, MAX_PROJECT = 44, 12, 16  # columns of a line
MIN_TITLE = 20


@dataclass(frozen=True, slots=True)
class Whole:
    """All that is known of a memory."""

    one: Remembered
    present: tuple[MemoryDatabase, ...]
    uncurated: str
    session: Session | None
    citations: tuple[tuple[Citation, str], ...]  # each with what changed since
    history: tuple[Decision, ...]


# -- for programs
# ------------------------------------------------------------------------------------------------------


def row_json(
    one: Remembered, present: Sequence[MemoryDatabase], uncurated: str
) -> dict[str, object]:
    """A memory for programs."""
    memory, judgement = one.memory, one.judgement
    return {
        "id": told_id(one, present),
        "title": memory.title,
        "subtitle": memory.subtitle,
        "facts": list(memory.facts),
        "concepts": list(memory.concepts),
        "files": list(memory.files),
        "text": memory.text,
        "kind": memory.kind,
        "project": memory.project,
        "scope": one.scope,
        "session": memory.session,
        "date": memory.date,
        "created_at": moment(memory.created),
        "provenance": memory.provenance,
        "origin": one.origin or "own",
        "state": one.state.value if one.state else uncurated,
        "curated": is_curated(one),
        "reviewed_by": judgement.actor if judgement else "",
        "reviewed_at": rfc3339(judgement.at) if judgement else "",
        "superseded_by": judgement.successor if judgement else "",
    }


def whole_json(whole: Whole) -> dict[str, object]:
    """All of a memory for programs."""
    session = whole.session
    return {
        **row_json(whole.one, whole.present, whole.uncurated),
        "citations": [
            {
                "path": one.path,
                "symbol": one.symbol,
                "root": one.root,
                "commit": one.commit,
                "changed": changed,
            }
            for one, changed in whole.citations
        ],
        "maybe_stale": [changed for _, changed in whole.citations if changed],
        "session_context": {"title": session.title, "overview": session.overview}
        if session
        else None,
        "history": [decision_json(one) for one in whole.history],
    }


def decision_json(one: Decision) -> dict[str, object]:
    """A line of the log for programs."""
    return {
        "at": rfc3339(one.at),
        "action": one.action,
        "before": one.before,
        "after": one.after,
        "actor": one.actor,
        "reason": one.reason,
        "undone": one.undone,
    }


# -- for people
# --------------------------------------------------------------------------------------------------------


def say_rows(
    rows: Sequence[Remembered],
    present: Sequence[MemoryDatabase],
    *,
    stale: Sequence[Sequence[str]] = (),
    error: bool = False,
) -> None:
    """A line for each memory, as wide as the terminal, and below it what changed in the code that
    it cites.
    """
    ids = [cut_to(told_id(row, present), MAX_ID) for row in rows]
    kinds = [cut_to(one.memory.kind, MAX_KIND) for one in rows]
    projects = [cut_to(one.memory.project, MAX_PROJECT) for one in rows]
    widths = [max(map(width_of, column), default=0) for column in (ids, kinds, projects)]
    stream = sys.stderr if error else sys.stdout
    room = shutil.get_terminal_size().columns if stream.isatty() else 0
    for number, (one, id_, kind, project) in enumerate(
        zip(rows, ids, kinds, projects, strict=True)
    ):
        cells = [
            padded(id_, widths[0]),
            padded((moment(one.memory.created) or one.memory.date)[:10], 10),
            MARKS[standing(one)],
        ]
        cells += [
            padded(cell, width)
            for cell, width in ((kind, widths[1]), (project, widths[2]))
            if width
        ]
        begin = " ".join(cells)
        title = " ".join(one.memory.title.split())
        say(
            f"{begin} "
            f"{cut_to(title, max(MIN_TITLE, room - width_of(begin) - 1)) if room else title}",
            error=error,
        )
        for change in stale[number] if stale else ():
            say(f"  maybe stale: {change}", error=error)


def say_marks(rows: Sequence[Remembered], uncurated: str) -> None:
    """What the marks in a list mean, on stderr."""
    used = {standing(row) for row in rows}
    parts = [
        f"{mark} {name}{f' (counts as {uncurated})' if name == UNCURATED else ''}"
        for name, mark in MARKS.items()
        if name in used
    ]
    if parts:
        say(f"marks: {', '.join(parts)}", error=True)


def say_whole(whole: Whole) -> None:
    """All of a memory."""
    one, memory = whole.one, whole.one.memory
    say(memory.title)
    if memory.subtitle:
        say(memory.subtitle)
    say("")
    for label, value in _labelled(whole):
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
    if whole.citations:
        say("")
        say("Cites:")
        for cited, changed in whole.citations:
            symbol = f"#{cited.symbol}" if cited.symbol else ""
            say(f"  {cited.path}{symbol}: {f'maybe stale: {changed}' if changed else 'as it was'}")
    if whole.history:
        say("")
        say("History:")
        for decision in whole.history:
            say(f"  {decision_line(decision)}")
    if one.origin != OWN:
        say("")
        say(
            "It is a row of another product's database, which is only read: what you decide "
            "here lies over it."
        )


def _labelled(whole: Whole) -> list[tuple[str, str]]:
    one, memory, judgement = whole.one, whole.one.memory, whole.one.judgement
    state = (
        one.state.value if one.state else f"nobody has judged it, it counts as {whole.uncurated}"
    )
    reviewed = (
        f", by {judgement.actor} at {rfc3339(judgement.at)}"
        if judgement and is_curated(one)
        else ""
    )
    session = whole.session.title if whole.session else ""
    return [
        ("ID", told_id(one, whole.present)),
        ("State", state + reviewed),
        ("Replaced", f"by {judgement.successor}" if judgement and judgement.successor else ""),
        ("Kind", memory.kind),
        ("Project", memory.project),
        ("Scope", one.scope if one.scope != memory.project else ""),
        ("Tags", ", ".join(memory.concepts)),
        ("Files", ", ".join(memory.files)),
        (
            "Session",
            f"{memory.session}{f': {session}' if session else ''}" if memory.session else "",
        ),
        ("Made", moment(memory.created)),
        ("From", " · ".join(part for part in (memory.provenance, one.origin) if part)),
    ]


def decision_line(one: Decision, about: str = "") -> str:
    """A line of the log: what was done with what, who did it where that wasn't the person, and why."""
    states = (
        "" if one.before == one.after else f"{one.before or 'unjudged'} → {one.after or 'unjudged'}"
    )
    states = one.after if one.action == "add" else states
    by = "" if one.actor == PERSON else f"by {one.actor}"
    undone = "undone" if one.undone and one.action not in ("undo", "delete") else ""
    aside = ", ".join(part for part in (by, one.reason, undone) if part)
    parts = (rfc3339(one.at), padded(one.action, 9), about, states, f"({aside})" if aside else "")
    return " ".join(part for part in parts if part).rstrip()


def is_curated(one: Remembered) -> bool:
    """Whether somebody has decided about a memory."""
    return one.state not in (None, MemoryState.STAGING)


def standing(one: Remembered) -> str:
    """The state of a memory, as MARKS names it."""
    return one.state.value if one.state else UNCURATED


def counted(count: int) -> str:
    """How many memories."""
    return f"{count:,} {'memory' if count == 1 else 'memories'}"
