"""Embedders that may fail: one that did is left alone for a while, and others stand by for one that
isn't ready.

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

REST_SECONDS, LONGEST_REST = 5.0, 300.0  # after a failure, twice as long after the next


class CircuitBreaker:
    """An embedder that is left alone for a while after it failed."""

    def __init__(self, embedder: Embedder) -> None:
        self.costly = embedder.costly
        self.problem = ""  # what the last failure said, "" where there was none since
        self._embedder = embedder
        self._failures = 0
        self._failed_at = 0.0
        self._rests_until = 0.0

    @property
    def stamp(self) -> Stamp | None:
        """What its vectors are stamped with, None until it has been asked."""
        return self._embedder.stamp

    @property
    def name(self) -> str:
        """Provider and model, as far as they are known."""
        return name_of(self.stamp) if self.stamp else self._embedder.name

    @property
    def rests(self) -> bool:
        """Whether it failed lately."""
        return time.monotonic() < self._rests_until

    def connect(self) -> Stamp:
        """Load the model or ask the server. Raises: CortexError."""
        failures = self._failures
        with self._guard():
            stamp = self._embedder.connect()
        self._failures = failures  # until a vector has come: who is connected needn't ask
        return stamp

    def passages(self, texts: list[str]) -> np.ndarray:
        """The vectors of texts to be found. Raises: CortexError."""
        with self._guard():
            return self._embedder.embed(texts, "passage")

    def query(self, text: str) -> np.ndarray:
        """The vector of a question. Raises: CortexError."""
        with self._guard():
            return self._embedder.embed([text], "query")[0]

    def close(self) -> None:
        """Let go of memory and connections."""
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
        if self._failed_at <= started:  # what began before it failed says nothing about now
            self.problem, self._failures, self._rests_until = "", 0, 0.0


class Embedders:
    """The embedder that is wanted, and those that answer until it is ready, opened when they are
    needed: an earlier one, a cheap one.
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
        """The cheap one, None where the wanted one is cheap itself."""
        if self.wanted is None or not self.wanted.costly:
            return None
        with self._lock:
            if self._standby is None and (opened := self._open_standby()) is not None:
                self._standby = CircuitBreaker(opened)
            return self._standby

    def earlier(self, stamp: Stamp) -> CircuitBreaker | None:
        """The one that made vectors with this stamp, where it may still be asked."""
        with self._lock:
            if stamp not in self._earlier:
                opened = self._open_earlier(stamp)
                self._earlier[stamp] = CircuitBreaker(opened) if opened is not None else None
            return self._earlier[stamp]

    def close(self) -> None:
        """Let go of all."""
        for one in (self.wanted, self._standby, *self._earlier.values()):
            if one is not None:
                one.close()


def name_of(stamp: Stamp) -> str:
    """An embedder as people know it."""
    return f"{stamp.provider} {stamp.model}"


def open_embedders(settings: Settings) -> Embedders:
    """The embedder that the settings choose, with those that stand by for it."""
    return Embedders(open_embedder(settings), open_local, open_again)


def who_embeds(settings: Settings) -> tuple[object, ...]:
    """What decides which embedder is wanted."""
    indexing = settings.indexing
    return (
        indexing.strategies,
        indexing.embedding_provider,
        settings.providers,
        settings.server.local_only,
    )
