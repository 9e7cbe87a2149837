"""The library of one connection, as tools get it: for reading only, open for as long as a call uses
it.

Opened in the background at the start, so that its sources are watched before the first question.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from cortex.base.errors import ConfigError, CortexError
from cortex.base.settings import Settings, load
from cortex.engine.library import Library
from cortex.engine.pool import EnginePool

CLOSE_SECONDS = 5.0  # for a library that is just being opened, before nobody waits for it any more

_OF_ONE_CLIENT = ("ACK_MEM_SCOPE", "CORTEX_MEMORY_SCOPE")

log = logging.getLogger(__name__)


def library_settings(variables: Mapping[str, str], *, shared: bool = False) -> Settings:
    """The settings that a person's library is opened with: without the scope that one client is in,
    so that all clients share it.

    `shared` is as in `load`.
    """
    kept = {name: value for name, value in variables.items() if name not in _OF_ONE_CLIENT}
    return load(None, environment=kept, shared=shared)


class LibrarySession:
    """One person's library, for agents."""

    def __init__(self, settings: Settings, engines: EnginePool) -> None:
        self.settings = settings
        self._engines = engines
        self._lent = engines.borrow(settings.home, settings)
        self._closed = threading.Event()
        self._opening = threading.Thread(target=self._try, name="open library", daemon=True)

    def start(self) -> None:
        """Open it in the background."""
        self._opening.start()

    @contextmanager
    def open(self) -> Iterator[Library]:
        """The library for one call, opened so that SQLite itself refuses to write.

        Raises: ConfigError WORKSPACE_MISSING when all is ending; StoreError and FileError, where it
        can't be opened.
        """
        if self._closed.is_set():
            raise ConfigError("WORKSPACE_MISSING", "the server is ending")
        with self._engines.use(self._lent) as engine:
            assert isinstance(engine, Library)
            yield engine.reader

    def _try(self) -> None:
        try:
            with self.open():
                pass
        except CortexError as error:  # each question is told
            log.debug("%s", error.message)

    def close(self) -> None:
        """Give the library back."""
        if not self._closed.is_set():
            self._closed.set()
            self._engines.give_back(self._lent)
            if self._opening.is_alive():
                self._opening.join(CLOSE_SECONDS)
