"""Where memories lie: which databases of other products there are, the scope of each, and which
project somebody is in.

A folder under `scopes/` is a scope; any other database, and what was written here, has one scope
for each project in it. Only looks at names; no database is opened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cortex.base.paths import root_text, without_waiting
from cortex.base.settings import Settings
from cortex.engine.library import has_own_memories
from cortex.engine.sources.project import Project

ACK_FOLDER, CLAUDE_FOLDER = ".ack-mem", ".claude-mem"
DATABASE = "claude-mem.db"
SCOPE_DATABASES = ("memory.db", DATABASE)
MAX_SCOPES = 200
MAX_SETTINGS_BYTES = 1_000_000
_VARIABLE = "CLAUDE_MEM_DATA_DIR"


@dataclass(frozen=True, slots=True)
class MemoryDatabase:
    """A database of another product."""

    path: Path
    scope: str  # of all that is in it; "": the project of each memory

    @property
    def origin(self) -> str:
        """What its memories are known to come from."""
        return root_text(self.path)

    @property
    def vectors(self) -> tuple[Path, ...]:
        """Where its vectors may be."""
        return self.path.parent / "chroma", self.path.parent / "vector-db"


def searched_places(settings: Settings) -> tuple[Path, ...]:
    """Every path where a database is looked for, whether or not there is one; the likeliest first."""
    return tuple(dict.fromkeys(candidate.path for candidate in reversed([*_candidates(settings)])))


def scope_folders(settings: Settings) -> tuple[MemoryDatabase, ...]:
    """The folders under `scopes/`, each as the database that it has or would have."""
    return tuple(candidate for candidate in _candidates(settings) if candidate.scope)


def databases(settings: Settings) -> tuple[MemoryDatabase, ...]:
    """All that there are, in the order in which they are looked for."""
    found: dict[str, MemoryDatabase] = {}
    for candidate in _candidates(settings):
        if candidate.path.is_file():
            real = Path(os.path.realpath(candidate.path))
            found.setdefault(os.path.normcase(str(real)), MemoryDatabase(real, candidate.scope))
    return tuple(found.values())


def _candidates(settings: Settings) -> Iterator[MemoryDatabase]:
    """A path that somebody gave takes the place of the defaults after it."""
    memory, person = settings.memory, Path.home()
    given = bool(memory.database)
    folder = _expand(memory.path) if memory.path else person / ACK_FOLDER
    yield MemoryDatabase(_expand(memory.database) if given else folder / DATABASE, "")
    if memory.path or not given:
        yield from _scopes(folder / "scopes")
    if memory.claude_mem:
        yield MemoryDatabase(_expand(memory.claude_mem) / DATABASE, "")
    elif not given and not memory.path:
        default = person / CLAUDE_FOLDER
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
    """The folder that claude-mem's own settings name instead."""
    try:
        with open(folder / "settings.json", encoding="utf-8-sig", opener=without_waiting) as file:
            said = json.loads(file.read(MAX_SETTINGS_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    for level in (said, said.get("env") if isinstance(said, dict) else None):
        value = level.get(_VARIABLE) if isinstance(level, dict) else None
        if isinstance(value, str) and value.strip():
            return _expand(value.strip())
    return None


def _expand(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:  # a person that there isn't
        return Path(text).absolute()


def has_memories(settings: Settings) -> bool:
    """Whether there is a database of another product, or a memory of the person's own."""
    return bool(databases(settings)) or has_own_memories(settings.home)


def current_scope(named: str, project: Project, known: Iterable[str]) -> str:
    """The scope that somebody is in: the one that was named, else the first of the project's names
    that is a scope.
    """
    if named:
        return named
    scopes = {one.casefold(): one for one in known}
    return next(
        (scopes[name.casefold()] for name in project.names if name.casefold() in scopes),
        project.name,
    )
