"""The memories of one connection, as tools get them: the person's library for reading, and where
the client works.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from cortex.base.settings import Settings
from cortex.engine.library_session import LibrarySession
from cortex.engine.pool import EnginePool
from cortex.engine.sources.project import Project, project_at


class Recall(LibrarySession):
    """One person's memories, for agents."""

    def __init__(self, settings: Settings, engines: EnginePool, folder: Path, scope: str) -> None:
        super().__init__(settings, engines)
        self.folder = folder
        self.scope = scope  # that was named, or ""

    @cached_property
    def project(self) -> Project:
        """The project that the client works in."""
        return project_at(self.folder)
