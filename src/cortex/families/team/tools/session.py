"""The team's memory as the tools of one client get it: who asks, from which project, and what else
can be searched.

Reading goes through the library's reader; only the write tools open the library itself. What the
other families have is searched through the places that they hand over, whether their tools are
served beside these or not.
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
    """What a team keeps, for the agents of one connection."""

    def __init__(
        self,
        settings: Settings,
        engines: EnginePool,
        found: Sequence[Workspace],
        families: Mapping[str, Family],
        served: Sequence[str],
        plugins: Plugins,
        missing: Mapping[str, str],
    ) -> None:
        """`families` are the others by their names, `served` those whose tools the client has,
        `missing` why others aren't there.
        """
        super().__init__(settings, engines)
        self.root: Path | None = found[0].root if found else None
        self._routes: Mapping[str, object] = found[0].settings.families if found else {}
        self._said = self._say()
        self.served = tuple(served)
        self.plugins = plugins
        self._rounds = Rounds(plugins, self._keep)
        self.families = families
        self.missing = missing
        self._code = [engines.borrow(workspace.root, workspace.settings) for workspace in found]

    def start(self) -> None:
        """Open it in the background, and let the plugins begin."""
        super().start()
        self._rounds.start()

    @property
    def actor(self) -> Actor:
        """Whoever comes over a protocol."""
        return agent(self.settings)

    @property
    def routes(self) -> Mapping[str, object]:
        """Where the project says that contributions belong, now: a person may say something else
        while a client is connected.
        """
        routes, now = dict(self._routes), self._say()
        for name, key in NAMES.items():
            if value := getattr(now, name):
                routes[key] = value
            elif routes.get(key) == getattr(self._said, name):  # it stood there, and was taken out
                routes.pop(key, None)
        return routes

    def _say(self) -> ProjectContext:
        try:
            return read_context(self.root) if self.root else ProjectContext()
        except CortexError:  # as in all other settings, a broken file says nothing
            return ProjectContext()

    @contextmanager
    def writing(self) -> Iterator[Library]:
        """The library for one write. Raises: as `open`."""
        if self._closed.is_set():
            raise ConfigError("WORKSPACE_MISSING", "the server is ending")
        with self._engines.use(self._lent) as engine:
            assert isinstance(engine, Library)
            yield engine

    @contextmanager
    def others(
        self, families: Sequence[str] | None = None
    ) -> Iterator[tuple[list[SearchTarget], list[str]]]:
        """What else can be searched, of these families or all, for one call; and what could not be
        opened.
        """
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
        """The client's projects for one call, those that can be opened, the first one first."""
        with ExitStack() as used:
            engines: list[Engine] = []
            for one in self._code:
                try:
                    engines.append(used.enter_context(self._engines.use(one)))
                except CortexError:  # a pack is of what there is
                    continue
            yield engines

    def _keep(self, brought: Sequence[Observation]) -> None:
        with self.writing() as library:
            done = create_observations(
                library, brought, actor=self.actor, key=fresh_key(), payload=repr(brought)
            )
        for outcome in done.outcomes:
            if outcome.error is not None:
                log.warning("an observation of a plugin was not kept: %s", outcome.error.message)

    def close(self) -> None:
        """Give everything back."""
        if not self._closed.is_set():
            self._rounds.close()
            self.plugins.close()
            for one in self._code:
                self._engines.give_back(one)
        super().close()
