"""Plugins of one client: the enabled ones, and the observations that they report.

They are asked when a session starts, periodically, and when it ends. Their observations are stored
like any other from a protocol client: with the permissions of an agent, and rejected if they hold a
secret. Errors of plugins go to the log; no caller waits for them.
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
# Time limit for a plugin that is running when the client disconnects.
END_SECONDS = 10.0

log = logging.getLogger(__name__)

Keep = Callable[[Sequence[Observation]], None]


def open_plugins(settings: Settings, root: Path | None) -> Plugins:
    """Open the plugins that the user's settings enable, each with its own settings."""
    enabled = enabled_by(settings.team.plugins, settings.families.get("plugins"))
    return Plugins(enabled, root, redacted=settings.security.redact != "off")


class Rounds:
    """Background thread that polls the plugins; `keep` stores their observations."""

    def __init__(self, plugins: Plugins, keep: Keep) -> None:
        self._plugins, self._keep = plugins, keep
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plugins", daemon=True)

    def start(self) -> None:
        """Start the thread, unless only built-in plugins are enabled, which report nothing."""
        if set(self._plugins.names()) - set(BUILT_IN):
            self._thread.start()

    def _run(self) -> None:
        """Poll at the start, periodically, and at the end."""
        self._poll(self._plugins.start)
        while not self._ending.wait(PERIOD_SECONDS):
            self._poll(self._plugins.periodic)
        self._poll(self._plugins.stop)

    def _poll(self, ask: Callable[[], tuple[list[Brought], list[str]]]) -> None:
        """Store the observations of one poll and log its warnings."""
        try:
            reported, warnings = ask()
            for warning in warnings:
                log.warning("%s", warning)
            if reported:
                self._keep([_observation(item) for item in reported])
        except CortexError as error:
            log.warning("what plugins brought was not kept: %s", error.message)

    def close(self) -> None:
        """Poll the plugins a last time, and wait for that for a limited time."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)


def _observation(reported: Brought) -> Observation:
    """Convert an observation of a plugin."""
    return Observation(
        reported.title, reported.summary, tags=tuple(reported.tags), source_type="periodic_sync"
    )
