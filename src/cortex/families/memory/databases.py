"""Locate the memory databases of other products, with the scope of each.

Each folder under `scopes/` is a scope; any other database, and our own memories, have one scope for
each project. Only looks at names; no database is opened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cortex.base.paths import root_text, without_waiting
from cortex.base.settings import Settings
from cortex.engine.home_store import has_own_memories
from cortex.engine.sources.project import Project
from cortex.engine.store import OWN

ACK_FOLDER, CLAUDE_FOLDER = ".ack-mem", ".claude-mem"
DATABASE = "claude-mem.db"
SCOPE_DATABASES = ("memory.db", DATABASE)
MAX_SCOPES = 200
MAX_SETTINGS_BYTES = 1_000_000
_VARIABLE = "CLAUDE_MEM_DATA_DIR"


@dataclass(frozen=True, slots=True)
class MemoryDatabase:
    """Database of another product."""

    path: Path
    # Scope of all its memories; "" for the project of each memory.
    scope: str

    @property
    def origin(self) -> str:
        """Origin that its memories are stored under."""
        return root_text(self.path)

    @property
    def vectors(self) -> tuple[Path, ...]:
        """Possible folders of its vectors."""
        return self.path.parent / "chroma", self.path.parent / "vector-db"


def searched_places(settings: Settings) -> tuple[Path, ...]:
    """All paths that are searched for a database, most likely first."""
    return tuple(dict.fromkeys(candidate.path for candidate in reversed([*_candidates(settings)])))


def scope_folders(settings: Settings) -> tuple[MemoryDatabase, ...]:
    """List the folders under `scopes/`, each as the database that it has or would have."""
    return tuple(candidate for candidate in _candidates(settings) if candidate.scope)


def databases(settings: Settings) -> tuple[MemoryDatabase, ...]:
    """List the existing databases in search order."""
    by_path: dict[str, MemoryDatabase] = {}
    for candidate in _candidates(settings):
        if candidate.path.is_file():
            real = Path(os.path.realpath(candidate.path))
            by_path.setdefault(os.path.normcase(str(real)), MemoryDatabase(real, candidate.scope))
    return tuple(by_path.values())


def origins_of(present: Iterable[MemoryDatabase]) -> set[str]:
    """Origins of our own memories and of these databases' memories."""
    return {OWN, *(database.origin for database in present)}


def _candidates(settings: Settings) -> Iterator[MemoryDatabase]:
    """Possible databases; a configured path replaces the defaults after it."""
    memory, home = settings.memory, Path.home()
    given = bool(memory.database)
    folder = _expand(memory.path) if memory.path else home / ACK_FOLDER
    yield MemoryDatabase(_expand(memory.database) if given else folder / DATABASE, "")
    if memory.path or not given:
        yield from _scopes(folder / "scopes")
    if memory.claude_mem:
        yield MemoryDatabase(_expand(memory.claude_mem) / DATABASE, "")
    elif not given and not memory.path:
        default = home / CLAUDE_FOLDER
        yield MemoryDatabase((_moved_to(default) or default) / DATABASE, "")


def _scopes(folder: Path) -> Iterator[MemoryDatabase]:
    try:
        names = sorted(os.listdir(folder))[:MAX_SCOPES]
    except OSError:
        return
    for name in names:
        files = [folder / name / file for file in SCOPE_DATABASES]
        present = next((file for file in files if file.is_file()), None)
        if present is not None or ((folder / name).is_dir() and not name.startswith(".")):
            yield MemoryDatabase(present or files[0], name)


def _moved_to(folder: Path) -> Path | None:
    """Data folder that claude-mem's own settings name instead."""
    try:
        with open(folder / "settings.json", encoding="utf-8-sig", opener=without_waiting) as file:
            settings = json.loads(file.read(MAX_SETTINGS_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    for level in (settings, settings.get("env") if isinstance(settings, dict) else None):
        value = level.get(_VARIABLE) if isinstance(level, dict) else None
        if isinstance(value, str) and value.strip():
            return _expand(value.strip())
    return None


def _expand(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        # The user of a ~name doesn't exist.
        return Path(text).absolute()


def has_memories(settings: Settings) -> bool:
    """True if there is a database of another product, or a memory of our own."""
    return bool(databases(settings)) or has_own_memories(settings.home)


def current_scope(named: str, project: Project, known: Iterable[str]) -> str:
    """Scope of the caller: the named one, else the first project name that is a scope."""
    if named:
        return named
    scopes = {scope.casefold(): scope for scope in known}
    return next(
        (scopes[name.casefold()] for name in project.names if name.casefold() in scopes),
        project.name,
    )
