"""The plugins of one client: which are on, and the observations that they bring when work begins,
goes on and ends.

What a plugin brings is kept as anything else that comes over a protocol: an observation with the
rights of an agent, refused where it holds a secret. What went wrong with a plugin is in the log;
nobody waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.base.record_model import Observation
from cortex.base.settings import Settings
from cortex.plugins import Observation as Brought
from cortex.plugins import Plugins, enabled_by
from cortex.plugins.registry import BUILT_IN

PERIOD_SECONDS = 900.0
END_SECONDS = 10.0  # for a plugin that is at work when the client goes

log = logging.getLogger(__name__)

Keep = Callable[[Sequence[Observation]], None]


def open_plugins(settings: Settings, root: Path | None) -> Plugins:
    """The plugins that the person's settings name, each with its own part of them."""
    enabled = enabled_by(settings.team.plugins, settings.families.get("plugins"))
    return Plugins(enabled, root, redacted=settings.security.redact != "off")


class Rounds:
    """Asks the plugins when work begins, from time to time, and when it ends; `keep` takes what
    they bring.
    """

    def __init__(self, plugins: Plugins, keep: Keep) -> None:
        self._plugins, self._keep = plugins, keep
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._go, name="plugins", daemon=True)

    def start(self) -> None:
        """Begin, in the background; without any plugin but our own, which brings nothing, there is
        nothing to begin.
        """
        if set(self._plugins.names()) - set(BUILT_IN):
            self._thread.start()

    def _go(self) -> None:
        self._take(self._plugins.start)
        while not self._ending.wait(PERIOD_SECONDS):
            self._take(self._plugins.periodic)
        self._take(self._plugins.stop)

    def _take(self, ask: Callable[[], tuple[list[Brought], list[str]]]) -> None:
        try:
            brought, warnings = ask()
            for warning in warnings:
                log.warning("%s", warning)
            if brought:
                self._keep([_observation(one) for one in brought])
        except CortexError as error:
            log.warning("what plugins brought was not kept: %s", error.message)

    def close(self) -> None:
        """Let the plugins say what they have to at the end, and wait for that a little."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)


def _observation(one: Brought) -> Observation:
    return Observation(one.title, one.summary, tags=tuple(one.tags), source_type="periodic_sync")
