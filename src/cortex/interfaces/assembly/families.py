"""Which families of tools a client gets, and over what: a project's code and chunk files, the
person's documents and memories.

Without names it gets `code`, `memory` and `team`, though they are empty: which tools there are
never depends on what a home contains. `chunks` and `kb` come with a folder of chunk files and a
source of documents. What can't be opened ends a start that asked for nothing else, and is left out,
with a word to the person, beside other families.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cortex.base.errors import ConfigError, CortexError, InputError
from cortex.base.settings import Settings, Workspace, load
from cortex.engine.library import has_folders, has_records
from cortex.engine.library_session import library_settings
from cortex.engine.pool import EnginePool
from cortex.families import FAMILIES
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.families.memory.databases import has_memories
from cortex.toolkit.terminal import workspace
from cortex.toolkit.tool import Family, list_once

OF_PROJECTS = frozenset({"code", "chunks"})
TEAM = "team"  # which asks all others


@dataclass(frozen=True, slots=True)
class ServeRequest:
    """What a command line asks for."""

    names: tuple[str, ...]  # of families; none is the default
    found: tuple[Workspace, ...]  # none where only what is the person's is asked for
    # What counts without any project's files, and without a scope: so windows of several scopes
    # share a library
    person: Settings
    scope: str  # of memories, "" where nobody named one
    cwd: Path
    warnings: tuple[str, ...]

    @property
    def settings(self) -> Settings:
        """Those that hold for a connection as a whole."""
        return self.found[0].settings if self.found else self.person


@dataclass(frozen=True, slots=True)
class SharedResources:
    """What the clients of one process share."""

    engines: EnginePool
    shelves: ChunkIndexPool

    def close(self) -> None:
        """Close everything, whoever has it."""
        self.shelves.close()
        self.engines.close()


def check_families(names: Sequence[str]) -> None:
    """Refuse families that there aren't. Raises: InputError ARGUMENT_INVALID."""
    for name in names:
        if name not in FAMILIES:
            raise InputError(
                "ARGUMENT_INVALID", f"unknown family {name!r}; known: {', '.join(FAMILIES)}"
            )


def ask(
    names: Sequence[str],
    paths: Sequence[Path],
    variables: Mapping[str, str],
    cwd: Path,
    *,
    shared: bool = False,
) -> ServeRequest:
    """What somebody with these variables, in that folder, asks for; `shared`: of a process that
    serves others, too.

    Raises: InputError ARGUMENT_INVALID, ConfigError.
    """
    check_families(names)
    person = library_settings(variables, shared=shared)
    scope = load(None, environment=variables).memory.scope
    found: tuple[Workspace, ...] = ()
    warnings = [*person.warnings, *person.unheeded()]
    if not names or (OF_PROJECTS | {TEAM}) & set(names):
        try:
            found, warnings = workspace.find_for(list(paths), variables, cwd, shared=shared)
        except ConfigError as error:
            if (
                OF_PROJECTS & set(names)
                or error.code != "WORKSPACE_MISSING"
                or not (names or _has_own(person))
            ):
                raise
            if not names:
                warnings.append(f"{error.message}: only what is yours is served, no project's")
    warnings += workspace.home_warnings(person.home)
    return ServeRequest(tuple(names), found, person, scope, cwd, tuple(warnings))


def open_families(
    asked: ServeRequest, lenders: SharedResources, *, read_only: bool
) -> tuple[list[Family], list[str]]:
    """The families that were asked for, opened in the background, and what a person should know
    about them and those left out.
    """
    default = _default_names(asked)
    names = asked.names or default
    families: list[Family] = []
    messages: list[str] = []
    missing: dict[str, str] = {}
    for name in names:
        if name == TEAM:
            continue
        try:
            families.append(_open(name, asked, lenders, read_only))
            messages += families[-1].warnings
        except CortexError as error:
            if len(asked.names) == 1:
                raise
            missing[name] = error.message
            messages.append(f"{name} is left out: {error.message}")
    if TEAM in names:
        unlisted = [name for name in default if name not in names]
        families.append(_open_team(asked, lenders, read_only, families, unlisted, missing))
    return list_once(families), messages


def _open_team(
    asked: ServeRequest,
    lenders: SharedResources,
    read_only: bool,
    beside: Sequence[Family],
    unlisted: Sequence[str],
    missing: dict[str, str],
) -> Family:
    """The team's family, which searches all that the others have: those beside it, and those whose
    tools nobody asked for.
    """
    from cortex.families.team import tools as team

    hidden: list[Family] = []
    for name in unlisted:
        try:
            hidden.append(_open(name, asked, lenders, read_only))
        except CortexError as error:
            missing[name] = error.message
    return team.open_family(
        asked.person, lenders.engines, asked.found, beside, hidden, missing, read_only=read_only
    )


def _has_own(person: Settings) -> bool:
    return has_folders(person.home) or has_memories(person) or has_records(person.home)


def _default_names(asked: ServeRequest) -> list[str]:
    """The families of a client that names none."""
    from cortex.families.chunkfiles.tools import has_chunks

    served = {
        "code": bool(asked.found),
        "chunks": any(has_chunks(workspace) for workspace in asked.found),
        "kb": has_folders(asked.person.home),
        "memory": True,
        TEAM: True,
    }
    return [name for name in FAMILIES if served[name]]


def _open(name: str, asked: ServeRequest, lenders: SharedResources, read_only: bool) -> Family:
    match name:
        case "chunks":
            from cortex.families.chunkfiles import tools as chunks

            return chunks.open_family(asked.found, lenders.shelves)
        case "kb":
            from cortex.families.documents import tools as kb

            return kb.open_family(asked.person, lenders.engines)
        case "memory":
            from cortex.families.memory import tools as memory

            folder = asked.found[0].root if asked.found else asked.cwd
            return memory.open_family(asked.person, lenders.engines, folder, asked.scope)
        case _:
            from cortex.families.code import tools as code

            family = code.open_family(asked.found, lenders.engines, read_only=read_only)
            family.context.start()
            return family
