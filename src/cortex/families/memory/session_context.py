"""Select the memories and sessions that matter at the start of work in a project.

Half of the places are for lasting memories (decisions, pitfalls, promoted ones), half for the
newest; then come the last sessions and memories of other projects. Only reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cortex.base.secret_scanner import redact
from cortex.base.types import MemoryState
from cortex.engine.library import Library
from cortex.engine.sources.project import Project, project_at
from cortex.engine.store import MemoryFilter, Ref, Remembered
from cortex.families.memory.adapters.claude_mem import Session
from cortex.families.memory.databases import MemoryDatabase, databases
from cortex.families.memory.mirror import copied
from cortex.families.memory.search import MemoryQuery, await_fresh, find, sources_of, states_of
from cortex.families.memory.staleness import LOOK_SECONDS, changes_in
from cortex.families.memory.uncopied_rows import glimpse

# Newest memories of a project that the lasting ones are chosen from.
LOOKED_AT = 60
SESSIONS = 3
LASTING_KINDS = frozenset(
    {"decision", "gotcha", "security_alert", "security_note", "preference", "convention"}
)
LASTING_CONCEPTS = frozenset({"gotcha", "trade-off", "pattern", "why-it-exists", "decision"})
FRESH_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Selected memories and sessions of a project."""

    project: Project
    memories: tuple[Remembered, ...]
    sessions: tuple[Session, ...]
    # Memories of other projects.
    others: tuple[Remembered, ...]
    notes: tuple[str, ...]
    present: tuple[MemoryDatabase, ...]
    # Changes in the code that a memory cites.
    stale: Mapping[Ref, tuple[str, ...]]


def context_of(
    library: Library,
    folder: Path,
    *,
    most: int,
    others: bool = True,
    fresh: float = FRESH_SECONDS,
    looking: float = LOOK_SECONDS,
) -> SessionContext:
    """Build the context of the project around a folder. Raises: StoreError.

    `fresh` is the time in seconds to wait for rows that were just written. For `looking` seconds
    cited files are read; after that only the fact that they changed is reported.
    """
    await_fresh(library, fresh)
    project, present = project_at(folder), databases(library.settings)
    sources = tuple(source.id for source in sources_of(library, present, "approved"))
    lookup = library.store.memories
    with library.store.reading():
        states = states_of(library, "approved")
        own = MemoryFilter(sources=sources, projects=project.names, promoted=False, states=states)
        newest = lookup.select(own, LOOKED_AT)
        chosen = _choose(newest, most)
        elsewhere = _elsewhere(library, sources, project, newest, most) if others else ()
    notes: list[str] = []
    if not newest and copied(library).left:
        chosen, notes = _uncopied(library, project, most)
    sessions, problems = _sessions(present, project)
    changes_of = changes_in(library, looking)
    stale = {
        record.ref: changes for record in (*chosen, *elsewhere) if (changes := changes_of(record))
    }
    return SessionContext(
        project,
        chosen,
        sessions,
        elsewhere,
        tuple(dict.fromkeys((*notes, *problems))),
        present,
        stale,
    )


def _choose(newest: Sequence[Remembered], most: int) -> tuple[Remembered, ...]:
    """Select lasting memories for half of the places and the newest for the rest, newest first."""
    lasting = [record for record in newest if _is_lasting(record)][: most // 2]
    rest = [record for record in newest if record not in lasting][: most - len(lasting)]
    return tuple(record for record in newest if record in lasting or record in rest)


def _is_lasting(record: Remembered) -> bool:
    return (
        record.state is MemoryState.PROMOTED
        or record.memory.kind.casefold() in LASTING_KINDS
        or bool(_concepts(record) & LASTING_CONCEPTS)
    )


def _concepts(record: Remembered) -> set[str]:
    return {concept.casefold() for concept in record.memory.concepts}


def _elsewhere(
    library: Library,
    sources: tuple[int, ...],
    project: Project,
    own: Sequence[Remembered],
    most: int,
) -> tuple[Remembered, ...]:
    """Memories of other projects: promoted ones first, then related ones."""
    lookup = library.store.memories
    elsewhere = MemoryFilter(sources=sources, not_projects=project.names)
    promoted = lookup.select(replace(elsewhere, states=(MemoryState.PROMOTED.value,)), most)
    newest = lookup.select(replace(elsewhere, states=states_of(library, "approved")), LOOKED_AT)
    about = {concept for record in own for concept in _concepts(record)} - LASTING_CONCEPTS
    known = {record.ref for record in promoted}
    related = [
        record
        for record in newest
        if record.ref not in known and (_is_lasting(record) or about & _concepts(record))
    ]
    return (*promoted, *related)[:most]


def _uncopied(
    library: Library, project: Project, most: int
) -> tuple[tuple[Remembered, ...], list[str]]:
    results = [find(library, MemoryQuery(project=name, limit=most)) for name in project.names]
    records = {hit.record.ref: hit.record for result in results for hit in result.hits}
    return tuple(records.values())[:most], [note for result in results for note in result.notes]


def _sessions(
    present: Sequence[MemoryDatabase], project: Project
) -> tuple[tuple[Session, ...], tuple[str, ...]]:
    """Last sessions of the project, newest first, and the read problems."""
    problems: list[str] = []
    looks = glimpse(
        present, lambda _, opened: opened.sessions(project.names, SESSIONS), report=problems.append
    )
    newest = sorted(
        (session for sessions in looks for session in sessions),
        key=lambda session: -session.created,
    )
    # A session may be in several databases: the newest version counts.
    by_id = {session.id: session for session in reversed(newest)}
    chosen = [session for session in newest if by_id[session.id] is session][:SESSIONS]
    return tuple(map(_without_secrets, chosen)), tuple(problems)


def session_of(present: Sequence[MemoryDatabase], session: str) -> Session | None:
    """Look up a session in all databases."""
    looks = glimpse(present if session else (), lambda _, opened: opened.session(session))
    return next((_without_secrets(known) for known in looks if known is not None), None)


def _without_secrets(session: Session) -> Session:
    return replace(session, title=redact(session.title)[0], overview=redact(session.overview)[0])
