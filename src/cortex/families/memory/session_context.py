"""What somebody should know who begins to work in a project: its newest memories, what lasts, its
last sessions, and what others learnt.

Half of the places are for what lasts (decisions, pitfalls, what was promoted), half for what is
new. Only reads.
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

LOOKED_AT = 60  # newest memories of a project that the lasting ones are chosen from
SESSIONS = 3
LASTING_KINDS = frozenset(
    {"decision", "gotcha", "security_alert", "security_note", "preference", "convention"}
)
LASTING_CONCEPTS = frozenset({"gotcha", "trade-off", "pattern", "why-it-exists", "decision"})
FRESH_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class SessionContext:
    """What is worth knowing in a project."""

    project: Project
    memories: tuple[Remembered, ...]
    sessions: tuple[Session, ...]
    others: tuple[Remembered, ...]  # of other projects
    notes: tuple[str, ...]
    present: tuple[MemoryDatabase, ...]
    stale: Mapping[Ref, tuple[str, ...]]  # what changed in the code that a memory cites


def context_of(
    library: Library,
    folder: Path,
    *,
    most: int,
    others: bool = True,
    fresh: float = FRESH_SECONDS,
    looking: float = LOOK_SECONDS,
) -> SessionContext:
    """What is worth knowing in the project around a folder, after so many seconds for what was just
    written. Raises: StoreError.

    For so many seconds it is looked into cited files; of the rest it is told that they changed, not
    what in them.
    """
    await_fresh(library, fresh)
    project, present = project_at(folder), databases(library.settings)
    sources = tuple(source.id for source in sources_of(library, present, "approved"))
    lookup = library.store.remembered
    with library.store.reading():
        states = states_of(library, "approved")
        newest = lookup.select(
            MemoryFilter(sources=sources, projects=project.names, promoted=False, states=states),
            LOOKED_AT,
        )
        chosen = _choose(newest, most)
        elsewhere = _elsewhere(library, sources, project, newest, most) if others else ()
    notes: list[str] = []
    if not newest and copied(library).left:
        chosen, notes = _uncopied(library, project, most)
    sessions, problems = _sessions(present, project)
    changes_of = changes_in(library, looking)
    stale = {one.ref: changes for one in (*chosen, *elsewhere) if (changes := changes_of(one))}
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
    """Half of what lasts, the rest of what is newest; newest first."""
    lasting = [one for one in newest if _lasts(one)][: most // 2]
    rest = [one for one in newest if one not in lasting][: most - len(lasting)]
    return tuple(one for one in newest if one in lasting or one in rest)


def _lasts(one: Remembered) -> bool:
    concepts = {concept.casefold() for concept in one.memory.concepts}
    return (
        one.state is MemoryState.PROMOTED
        or one.memory.kind.casefold() in LASTING_KINDS
        or bool(concepts & LASTING_CONCEPTS)
    )


def _elsewhere(
    library: Library,
    sources: tuple[int, ...],
    project: Project,
    own: Sequence[Remembered],
    most: int,
) -> tuple[Remembered, ...]:
    """What was learnt in other projects: what counts everywhere first, then what is about the same."""
    lookup = library.store.remembered
    promoted = lookup.select(
        MemoryFilter(
            sources=sources, states=(MemoryState.PROMOTED.value,), not_projects=project.names
        ),
        most,
    )
    about = {
        concept.casefold() for one in own for concept in one.memory.concepts
    } - LASTING_CONCEPTS
    states = states_of(library, "approved")
    newest = lookup.select(
        MemoryFilter(sources=sources, not_projects=project.names, states=states), LOOKED_AT
    )
    known = {one.ref for one in promoted}
    related = [
        one
        for one in newest
        if one.ref not in known
        and (_lasts(one) or about & {concept.casefold() for concept in one.memory.concepts})
    ]
    return (*promoted, *related)[:most]


def _uncopied(
    library: Library, project: Project, most: int
) -> tuple[tuple[Remembered, ...], list[str]]:
    found = [find(library, MemoryQuery(project=name, limit=most)) for name in project.names]
    ones = {hit.one.ref: hit.one for each in found for hit in each.hits}
    return tuple(ones.values())[:most], [note for each in found for note in each.notes]


def _sessions(
    present: Sequence[MemoryDatabase], project: Project
) -> tuple[tuple[Session, ...], tuple[str, ...]]:
    """The last sessions in the project, newest first, and what could not be read."""
    problems: list[str] = []
    looks = glimpse(
        present, lambda _, opened: opened.sessions(project.names, SESSIONS), tell=problems.append
    )
    found = sorted(
        (session for sessions in looks for session in sessions), key=lambda one: -one.created
    )
    # A session may be in several databases: as the newest tells it
    once = {one.id: one for one in reversed(found)}
    chosen = [one for one in found if once[one.id] is one][:SESSIONS]
    return tuple(map(_without_secrets, chosen)), tuple(problems)


def session_of(present: Sequence[MemoryDatabase], session: str) -> Session | None:
    """What is told of a session, wherever that is known."""
    looks = glimpse(present if session else (), lambda _, opened: opened.session(session))
    return next((_without_secrets(found) for found in looks if found is not None), None)


def _without_secrets(session: Session) -> Session:
    return replace(session, title=redact(session.title)[0], overview=redact(session.overview)[0])
