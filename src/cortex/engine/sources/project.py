"""The project around a folder, and the names it is known by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cortex.base.paths import find_project_root, main_worktree
from cortex.engine.sources import git

_REPOSITORY = re.compile(r"([^/:\\]+?)(?:\.git)?/*$")


@dataclass(frozen=True, slots=True)
class Project:
    """A project and the names that memories may know it by, the likeliest first."""

    path: Path
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.names[0]


def project_at(folder: Path) -> Project:
    """Find the project around a folder, named after its repository, worktree, remote and folder."""
    try:
        root = find_project_root(folder, Path.home()) or folder
    except (OSError, RuntimeError):  # no folder can have that name, or links lead in a circle
        return Project(folder, (folder.name,))
    main = main_worktree(root) or root
    found = (
        _REPOSITORY.search(git.remote(root)) if main != folder or (main / ".git").exists() else None
    )
    names = [main.name, found[1] if found else "", root.name, folder.name]
    return Project(root, tuple(dict.fromkeys(name for name in names if name)) or (str(root),))
