"""Selection of the tool families that a client gets, and the opening of each.

A client that names no family gets `code`, `memory` and `team`, even if they are empty, so that the
list of tools doesn't change as memories and records are added. `chunks` and `kb` are added if there
is a folder of chunk files or a source of documents. A family that can't be opened is left out, with
a message to the user; the start fails only if it was the one family requested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cortex.base.errors import ConfigError, CortexError, InputError
from cortex.base.settings import Settings, Workspace, load
from cortex.engine.home_store import has_folders, has_records
from cortex.engine.library_session import library_settings
from cortex.engine.pool import EnginePool
from cortex.families import FAMILIES
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.families.memory.databases import has_memories
from cortex.toolkit.terminal import workspace
from cortex.toolkit.tool import Family, list_once

OF_PROJECTS = frozenset({"code", "chunks"})
# Searches all other families.
TEAM = "team"


@dataclass(frozen=True, slots=True)
class ServeRequest:
    """Parsed request of a command line."""

    # Requested families; empty means the default.
    names: tuple[str, ...]
    # Empty if only the user's own families are requested.
    found: tuple[Workspace, ...]
    # Settings without any project's files, and without a scope, so that clients with different
    # scopes share a library.
    person: Settings
    # Scope of memories, "" if none was named.
    scope: str
    cwd: Path
    warnings: tuple[str, ...]

    @property
    def settings(self) -> Settings:
        """Settings that apply to the connection as a whole."""
        return self.found[0].settings if self.found else self.person


@dataclass(frozen=True, slots=True)
class SharedResources:
    """Resources that the clients of one process share."""

    engines: EnginePool
    shelves: ChunkIndexPool

    def close_idle(self, most_bytes: int) -> None:
        """Close what is unused; above `most_bytes` of memory sooner."""
        self.engines.close_idle(most_bytes)
        self.shelves.close_idle(most_bytes)

    def close(self) -> None:
        """Close everything, even if it is in use."""
        self.shelves.close()
        self.engines.close()


def check_families(names: Sequence[str]) -> None:
    """Reject unknown families. Raises: InputError ARGUMENT_INVALID."""
    for name in names:
        if name not in FAMILIES:
            raise InputError(
                "ARGUMENT_INVALID", f"unknown family {name!r}; known: {', '.join(FAMILIES)}"
            )


def resolve_request(
    names: Sequence[str],
    paths: Sequence[Path],
    variables: Mapping[str, str],
    cwd: Path,
    *,
    shared: bool = False,
) -> ServeRequest:
    """Resolve the request of a client with these variables in `cwd`.

    `shared` is set in a process that serves other clients, too.

    Raises: InputError ARGUMENT_INVALID, ConfigError.
    """
    check_families(names)
    person = library_settings(variables, shared=shared)
    scope = load(None, environment=variables).memory.scope
    workspaces: tuple[Workspace, ...] = ()
    warnings = [*person.warnings, *person.unheeded()]
    if not names or (OF_PROJECTS | {TEAM}) & set(names):
        try:
            workspaces, warnings = workspace.find_for(list(paths), variables, cwd, shared=shared)
        except ConfigError as error:
            if (
                OF_PROJECTS & set(names)
                or error.code != "WORKSPACE_MISSING"
                or not (names or _has_own(person))
            ):
                raise
            if not names:
                warnings.append(f"{error.message}: no project is served, only your own knowledge")
    warnings += workspace.home_warnings(person.home)
    return ServeRequest(tuple(names), workspaces, person, scope, cwd, tuple(warnings))


def open_families(
    request: ServeRequest, resources: SharedResources, *, read_only: bool
) -> tuple[list[Family], list[str]]:
    """Open the requested families; return them and messages for the user."""
    default = _default_names(request)
    names = request.names or default
    families: list[Family] = []
    messages: list[str] = []
    missing: dict[str, str] = {}
    for name in names:
        if name == TEAM:
            continue
        try:
            families.append(open_family(name, request, resources, read_only=read_only))
            messages += families[-1].warnings
        except CortexError as error:
            if len(request.names) == 1:
                raise
            missing[name] = error.message
            messages.append(f"{name} is left out: {error.message}")
    if TEAM in names:
        unlisted = [name for name in default if name not in names]
        families.append(_open_team(request, resources, read_only, families, unlisted, missing))
    return list_once(families), messages


def _open_team(
    request: ServeRequest,
    resources: SharedResources,
    read_only: bool,
    beside: Sequence[Family],
    unlisted: Sequence[str],
    missing: dict[str, str],
) -> Family:
    """Open the team family, which also searches the other families.

    Families that weren't requested are opened for its searches, too; their tools aren't listed.
    """
    from cortex.families.team import tools as team

    hidden: list[Family] = []
    for name in unlisted:
        try:
            hidden.append(open_family(name, request, resources, read_only=read_only))
        except CortexError as error:
            missing[name] = error.message
    return team.open_family(
        request.person,
        resources.engines,
        request.found,
        beside,
        hidden,
        missing,
        read_only=read_only,
    )


def _has_own(person: Settings) -> bool:
    return has_folders(person.home) or has_memories(person) or has_records(person.home)


def _default_names(request: ServeRequest) -> list[str]:
    """Return the families of a client that names none."""
    from cortex.families.chunkfiles.tools import has_chunks

    served = {
        "code": bool(request.found),
        "chunks": any(has_chunks(workspace) for workspace in request.found),
        "kb": has_folders(request.person.home),
        "memory": True,
        TEAM: True,
    }
    return [name for name in FAMILIES if served[name]]


def open_family(
    name: str, request: ServeRequest, resources: SharedResources, *, read_only: bool
) -> Family:
    """Open one family other than the team's. Raises: CortexError."""
    match name:
        case "chunks":
            from cortex.families.chunkfiles import tools as chunks

            return chunks.open_family(request.found, resources.shelves)
        case "kb":
            from cortex.families.documents import tools as kb

            return kb.open_family(request.person, resources.engines)
        case "memory":
            from cortex.families.memory import tools as memory

            folder = request.found[0].root if request.found else request.cwd
            return memory.open_family(request.person, resources.engines, folder, request.scope)
        case _:
            from cortex.families.code import tools as code

            family = code.open_family(request.found, resources.engines, read_only=read_only)
            family.context.start()
            return family
