"""Session of one connection with the memory tools: the library for reading, and the project."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from cortex.base.settings import Settings
from cortex.engine.library_session import LibrarySession
from cortex.engine.pool import EnginePool
from cortex.engine.sources.project import Project, project_at


class MemorySession(LibrarySession):
    """Memories of one user, as a client's tools read them."""

    def __init__(self, settings: Settings, engines: EnginePool, folder: Path, scope: str) -> None:
        super().__init__(settings, engines)
        self.folder = folder
        # Configured scope, or "".
        self.scope = scope

    @cached_property
    def project(self) -> Project:
        """Project that the client works in."""
        return project_at(self.folder)
