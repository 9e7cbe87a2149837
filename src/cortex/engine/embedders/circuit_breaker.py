"""Circuit breaker for embedders, and standby embedders until the wanted one is ready.

Knows nothing of stores and searches; `engine/embedding_coordinator.py` does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cortex.base.errors import CortexError
from cortex.base.types import Stamp
from cortex.engine.embedders import Embedder, open_again, open_embedder, open_local

if TYPE_CHECKING:
    import numpy as np

    from cortex.base.settings import Settings

# Pause after a failure, doubled after each further one.
REST_SECONDS, LONGEST_REST = 5.0, 300.0


class CircuitBreaker:
    """Embedder that is not called for a while after a failure."""

    def __init__(self, embedder: Embedder) -> None:
        self.costly = embedder.costly
        # Message of the last failure, "" after a success.
        self.problem = ""
        self._embedder = embedder
        self._failures = 0
        self._failed_at = 0.0
        self._rests_until = 0.0

    @property
    def stamp(self) -> Stamp | None:
        """Stamp of its vectors; None until it has connected."""
        return self._embedder.stamp

    @property
    def name(self) -> str:
        """Provider and model, as far as they are known."""
        return name_of(self.stamp) if self.stamp else self._embedder.name

    @property
    def rests(self) -> bool:
        """True while the circuit is open after a failure."""
        return time.monotonic() < self._rests_until

    def connect(self) -> Stamp:
        """Load the model or contact the server.

        Raises: CortexError.
        """
        failures = self._failures
        with self._guard():
            stamp = self._embedder.connect()
        # Only a vector resets the count: a connected embedder contacts no server here.
        self._failures = failures
        return stamp

    def passages(self, texts: list[str]) -> np.ndarray:
        """Embed texts to be found.

        Raises: CortexError.
        """
        with self._guard():
            return self._embedder.embed(texts, "passage")

    def query(self, text: str) -> np.ndarray:
        """Embed a query.

        Raises: CortexError.
        """
        with self._guard():
            return self._embedder.embed([text], "query")[0]

    def close(self) -> None:
        """Release memory and connections."""
        self._embedder.close()

    @contextmanager
    def _guard(self) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        except CortexError as error:
            self.problem = error.message
            rest = REST_SECONDS * 2**self._failures if error.retryable else LONGEST_REST
            self._failures = min(self._failures + 1, 10)
            self._failed_at = time.monotonic()
            self._rests_until = self._failed_at + min(rest, LONGEST_REST)
            raise
        # A call that began before the failure proves nothing about now.
        if self._failed_at <= started:
            self.problem, self._failures, self._rests_until = "", 0, 0.0


class Embedders:
    """The wanted embedder, and others that answer until it is ready.

    The others are opened on demand: the one of earlier vectors, and a cheap one.
    """

    def __init__(
        self,
        wanted: Embedder | None,
        open_standby: Callable[[], Embedder | None] = lambda: None,
        open_earlier: Callable[[Stamp], Embedder | None] = lambda stamp: None,
    ) -> None:
        self.wanted = CircuitBreaker(wanted) if wanted else None
        self._open_standby, self._open_earlier = open_standby, open_earlier
        self._standby: CircuitBreaker | None = None
        self._earlier: dict[Stamp, CircuitBreaker | None] = {}
        self._lock = threading.Lock()

    @property
    def standby(self) -> CircuitBreaker | None:
        """The cheap embedder; None if the wanted one is cheap itself."""
        if self.wanted is None or not self.wanted.costly:
            return None
        with self._lock:
            if self._standby is None and (opened := self._open_standby()) is not None:
                self._standby = CircuitBreaker(opened)
            return self._standby

    def earlier(self, stamp: Stamp) -> CircuitBreaker | None:
        """Return the embedder that made vectors with this stamp, if it may still be used."""
        with self._lock:
            if stamp not in self._earlier:
                opened = self._open_earlier(stamp)
                self._earlier[stamp] = CircuitBreaker(opened) if opened is not None else None
            return self._earlier[stamp]

    def close(self) -> None:
        """Close all embedders."""
        for breaker in (self.wanted, self._standby, *self._earlier.values()):
            if breaker is not None:
                breaker.close()


def name_of(stamp: Stamp) -> str:
    """Format a stamp's provider and model for people."""
    return f"{stamp.provider} {stamp.model}"


def open_embedders(settings: Settings) -> Embedders:
    """Open the configured embedder, with its standbys."""
    return Embedders(open_embedder(settings), open_local, open_again)


def embedder_settings(settings: Settings) -> tuple[object, ...]:
    """Settings that decide which embedder is wanted."""
    indexing = settings.indexing
    return (
        indexing.strategies,
        indexing.embedding_provider,
        settings.providers,
        settings.server.local_only,
    )
