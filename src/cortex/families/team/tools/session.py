"""Session of the team tools for one client: its identity, project, and other search targets.

Reads go through the library's reader; only the write tools open the library itself. Other families
are searched through the targets that they provide, even if their tools are not served to the
client.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cortex.base.actors import agent
from cortex.base.errors import ConfigError, CortexError
from cortex.base.record_model import Actor, Observation
from cortex.base.settings import Settings, Workspace
from cortex.engine.engine import Engine
from cortex.engine.library import Library
from cortex.engine.library_session import LibrarySession
from cortex.engine.pool import EnginePool
from cortex.engine.search.federated import SearchTarget
from cortex.families.team.ids import fresh_key
from cortex.families.team.project_context import NAMES, ProjectContext, read_context
from cortex.families.team.tools.plugins import Rounds
from cortex.families.team.writes.create import create_observations
from cortex.plugins import Plugins
from cortex.toolkit.tool import Family

log = logging.getLogger(__name__)


class TeamSession(LibrarySession):
    """Team records for the agents of one connection."""

    def __init__(
        self,
        settings: Settings,
        engines: EnginePool,
        workspaces: Sequence[Workspace],
        families: Mapping[str, Family],
        served: Sequence[str],
        plugins: Plugins,
        missing: Mapping[str, str],
    ) -> None:
        """Open a session.

        `families` are the other families by name, `served` those with tools that the client has,
        `missing` the reasons why others could not be opened.
        """
        super().__init__(settings, engines)
        self.root: Path | None = workspaces[0].root if workspaces else None
        self._routes: Mapping[str, object] = workspaces[0].settings.families if workspaces else {}
        self._initial_context = self._read_context()
        self.served = tuple(served)
        self.plugins = plugins
        self._rounds = Rounds(plugins, self._store_observations)
        self.families = families
        self.missing = missing
        self._code = [
            engines.borrow(workspace.root, workspace.settings) for workspace in workspaces
        ]

    def start(self) -> None:
        """Open the library in the background and start the plugins."""
        super().start()
        self._rounds.start()

    @property
    def actor(self) -> Actor:
        """The agent that connects over a protocol."""
        return agent(self.settings)

    @property
    def routes(self) -> Mapping[str, object]:
        """The project's current default places, since a person may change them during a session."""
        routes, now = dict(self._routes), self._read_context()
        for name, key in NAMES.items():
            if value := getattr(now, name):
                routes[key] = value
            # The value was in the file at the start and has been removed.
            elif routes.get(key) == getattr(self._initial_context, name):
                routes.pop(key, None)
        return routes

    def _read_context(self) -> ProjectContext:
        """Read the project's defaults; a broken file is ignored, as in all other settings."""
        try:
            return read_context(self.root) if self.root else ProjectContext()
        except CortexError:
            return ProjectContext()

    @contextmanager
    def writing(self) -> Iterator[Library]:
        """Open the library for one write. Raises: as `open`."""
        if self._closed.is_set():
            raise ConfigError("WORKSPACE_MISSING", "the server is ending")
        with self._engines.use(self._lent) as engine:
            assert isinstance(engine, Library)
            yield engine

    @contextmanager
    def others(
        self, families: Sequence[str] | None = None
    ) -> Iterator[tuple[list[SearchTarget], list[str]]]:
        """Yield the search targets of other families for one call, and the failures."""
        places: list[SearchTarget] = []
        failures: list[str] = []
        with ExitStack() as used:
            for name, family in self.families.items():
                if families is not None and name not in families:
                    continue
                try:
                    places += used.enter_context(family.places())
                except CortexError as error:
                    failures.append(f"{name} could not be searched: {error.message}")
            yield places, failures

    @contextmanager
    def code(self) -> Iterator[list[Engine]]:
        """Yield the client's projects that can be opened, for one call and in order."""
        with ExitStack() as used:
            engines: list[Engine] = []
            for lease in self._code:
                try:
                    engines.append(used.enter_context(self._engines.use(lease)))
                # A pack is made of what is available.
                except CortexError:
                    continue
            yield engines

    def _store_observations(self, observations: Sequence[Observation]) -> None:
        """Store the observations of plugins."""
        with self.writing() as library:
            done = create_observations(
                library, observations, actor=self.actor, key=fresh_key(), payload=repr(observations)
            )
        for outcome in done.outcomes:
            if outcome.error is not None:
                log.warning("an observation of a plugin was not kept: %s", outcome.error.message)

    def close(self) -> None:
        """Release all resources."""
        if not self._closed.is_set():
            self._rounds.close()
            self.plugins.close()
            for lease in self._code:
                self._engines.give_back(lease)
        super().close()
