"""A connection's read-only library, held open only while a call uses it.

Opened in the background at the start, so that its sources are watched before the first query.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from cortex.base.errors import ConfigError, CortexError
from cortex.base.settings import Settings, load
from cortex.engine.library import Library
from cortex.engine.pool import EnginePool
from cortex.engine.search.federated import SearchTarget

# Time that closing waits for a library that is just being opened.
CLOSE_SECONDS = 5.0

_CLIENT_VARIABLES = ("ACK_MEM_SCOPE", "CORTEX_MEMORY_SCOPE")

log = logging.getLogger(__name__)


def library_settings(variables: Mapping[str, str], *, shared: bool = False) -> Settings:
    """Settings to open a person's library with.

    The memory scope of a single client is left out, so that all clients share one library. `shared`
    is as in `load`.
    """
    kept = {name: value for name, value in variables.items() if name not in _CLIENT_VARIABLES}
    return load(None, environment=kept, shared=shared)


@contextmanager
def borrowed_library(engines: EnginePool, settings: Settings) -> Iterator[Library]:
    """Lend the person's library for one piece of background work, however fresh it is.

    Raises: StoreError and FileError where it can't be opened.
    """
    handle = engines.borrow(settings.home, settings)
    try:
        with engines.use(handle, wait=False) as engine:
            assert isinstance(engine, Library)
            yield engine
    finally:
        engines.give_back(handle)


class LibrarySession:
    """One person's library, for agents."""

    def __init__(self, settings: Settings, engines: EnginePool) -> None:
        self.settings = settings
        self._engines = engines
        self._lent = engines.borrow(settings.home, settings)
        self._closed = threading.Event()
        self._opener = threading.Thread(target=self._open_once, name="open library", daemon=True)

    def start(self) -> None:
        """Open the library in the background."""
        self._opener.start()

    @contextmanager
    def open(self) -> Iterator[Library]:
        """Lend the read-only library for one call; SQLite itself refuses to write.

        Raises: ConfigError WORKSPACE_MISSING while the server is ending; StoreError and FileError
        where it can't be opened.
        """
        if self._closed.is_set():
            raise ConfigError("WORKSPACE_MISSING", "the server is ending")
        with self._engines.use(self._lent) as engine:
            assert isinstance(engine, Library)
            yield engine.reader

    @contextmanager
    def places(
        self, targets: Callable[[Library], Sequence[SearchTarget]]
    ) -> Iterator[Sequence[SearchTarget]]:
        """Open the library and yield its search targets, for one call."""
        with self.open() as library:
            yield targets(library)

    def _open_once(self) -> None:
        try:
            with self.open():
                pass
        except CortexError as error:
            # Each query reports the error itself.
            log.debug("%s", error.message)

    def close(self) -> None:
        """Give the library back."""
        if not self._closed.is_set():
            self._closed.set()
            self._engines.give_back(self._lent)
            if self._opener.is_alive():
                self._opener.join(CLOSE_SECONDS)
