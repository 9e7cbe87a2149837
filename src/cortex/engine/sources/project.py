"""Project around a folder, and its names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cortex.base.paths import find_project_root, main_worktree
from cortex.engine.sources import git

_REPOSITORY = re.compile(r"([^/:\\]+?)(?:\.git)?/*$")


@dataclass(frozen=True, slots=True)
class Project:
    """A project and the names that memories may use for it, the likeliest first."""

    path: Path
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.names[0]


def project_at(folder: Path) -> Project:
    """Find the project around a folder, named after its repository, worktree, remote and folder."""
    try:
        root = find_project_root(folder, Path.home()) or folder
    except (OSError, RuntimeError):
        # An impossible name, or links in a circle.
        return Project(folder, (folder.name,))
    main = main_worktree(root) or root
    repository = (
        _REPOSITORY.search(git.remote(root)) if main != folder or (main / ".git").exists() else None
    )
    names = [main.name, repository[1] if repository else "", root.name, folder.name]
    return Project(root, tuple(dict.fromkeys(name for name in names if name)) or (str(root),))
