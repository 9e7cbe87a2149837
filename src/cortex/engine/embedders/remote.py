"""Embedding by a server: batches, several at once, every answer checked before a number of it is
used.

What is sent how is `dialects.py`'s, the connection `client.py`'s. A query is asked once and given
up soon, because words can answer it; passages are worth several tries. Whether to ask again a
server that failed is up to the caller. Road not taken: asyncio; callers are threads, and a request
that nobody waits for any more may end by itself.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from cortex.base.errors import CortexError
from cortex.base.types import Stamp
from cortex.engine.embedders import QUERY_SECONDS, EmbedMode
from cortex.engine.embedders.server_client import EmbeddingClient, EmbeddingServer, TooMuch
from cortex.engine.embedders.server_protocols import (
    DIALECTS,
    PREFIXES,
    EmbeddingRequest,
    ServerReply,
    read_greeting,
    scheme_of,
)

PASSAGE_TRIES = 5  # some 8 seconds of waiting, more where the server asks for it
SLOW_TRIES = 2  # where it did not answer in time
GREETING_SECONDS = 30.0
MAX_CHARACTERS = 8_000  # of one text; a chunk has some 1,000
MIN_CHARACTERS = 32  # that are still sent where a server finds everything too long
MAX_BATCH_CHARACTERS = 400_000  # of one request
PROBE = "def connect(address): ..."
# Refuses whoever has no key; other servers that speak as it does may need none
KEYED_HOST = "api.openai.com"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """Which model is wanted of a server, and how much may be asked of it."""

    name: str = ""  # empty: the server has one
    dimensions: int = 0  # 0: as the model makes them
    batch: int = 100  # texts in one request
    requests: int = 10  # at once


class RemoteEmbedder:
    """An embedder that is asked over HTTP."""

    costly = True

    def __init__(self, server: EmbeddingServer, model: RemoteModel) -> None:
        self.name = server.provider
        self._dialect = DIALECTS[server.provider]
        self._model = model
        self._most = model.batch  # texts in one request; fewer for a server that is slow
        self._client = EmbeddingClient(server)
        self._lanes = Lanes(
            model.requests, lambda: self._client.error("EMBEDDER_UNAVAILABLE", "was closed")
        )
        self._connecting = threading.Lock()
        self._stamp: Stamp | None = None
        self._served = ""  # the model that the first answer named
        # When it last said that it has this model, where answers don't say so
        self._greeted = -math.inf

    @property
    def stamp(self) -> Stamp | None:
        """What its vectors are stamped with; None until the server has answered once."""
        return self._stamp

    def connect(self) -> Stamp:
        """Ask the server for its model, or for one vector, once."""
        return self._connect(math.inf)

    def embed(self, texts: Sequence[str], mode: EmbedMode) -> NDArray[np.float32]:
        """One row for each text."""
        limit = min(QUERY_SECONDS, self._client.server.timeout)
        deadline = math.inf if mode == "passage" else time.monotonic() + limit
        try:
            stamp = self._connect(deadline)
            self._greet_again(stamp, deadline)
            rows = self._embed(_prepared(texts, mode, stamp), mode, deadline)
        except TimeoutError:
            raise self._client.error(
                "EMBEDDER_UNAVAILABLE", f"did not answer within {limit:g} s"
            ) from None
        return rows if len(rows) else np.zeros((0, stamp.dimensions), dtype=np.float32)

    def close(self) -> None:
        """End all connections; whoever waits for vectors is told so."""
        self._lanes.close()
        self._client.close()

    # -- connecting
    # ----------------------------------------------------------------------------------------------------

    def _left(self, deadline: float) -> float:
        """The seconds that a request may take. Raises: TimeoutError, where none are left."""
        left = min(self._client.server.timeout, deadline - time.monotonic())
        if left <= 0:
            raise TimeoutError
        return left

    def _connect(self, deadline: float) -> Stamp:
        if self._stamp is not None:
            return self._stamp
        server = self._client.server
        if not server.key and urlsplit(server.url).hostname == KEYED_HOST:
            what = "is not asked: there is no key; set CODEINDEX_OPENAI_API_KEY, or providers.openai.apiKey in your config.yml"
            raise self._client.error(
                "EMBEDDER_REFUSED",
                what,
                "Set the key, or choose another indexing.embeddingProvider.",
            )
        timeout = self._left(deadline)
        if not self._connecting.acquire(timeout=timeout):
            raise self._client.error(
                "EMBEDDER_UNAVAILABLE", f"did not answer within {round(timeout, 2):g} s"
            )
        try:
            if self._stamp is None:
                self._stamp = self._find_out(deadline)
            return self._stamp
        finally:
            self._connecting.release()

    def _find_out(self, deadline: float) -> Stamp:
        """Which model the server has, how long its vectors are, and what it wants before a text."""
        if self._dialect.greeting:
            stamp = self._greet(deadline)
            self._greeted = time.monotonic()
            return stamp
        try:
            (found,) = self._lanes.run(
                [lambda: self._request([PROBE], "passage", 1, deadline)], deadline
            )
        except TooMuch as error:
            raise self._client.error(
                "EMBEDDER_REFUSED", f"finds {len(PROBE)} characters too long"
            ) from error
        told, rows = found
        self._served = told.model
        wanted, length = self._model.dimensions, rows.shape[1]
        if wanted and length != wanted:
            what = f"makes vectors of {length} dimensions, and {wanted} are configured"
            raise self._client.error(
                "EMBEDDER_ANSWER", what, "Correct providers.openai.dimensions, or set it to 0."
            )
        different = told.model and _plain(told.model) != _plain(self._model.name)
        # A server that tells a name of its own ("default") has what it was configured for.
        scheme = scheme_of(told.model) or scheme_of(self._model.name)
        return Stamp(self.name, told.model if different else self._model.name, length, scheme)

    def _greet_again(self, stamp: Stamp, deadline: float) -> None:
        """Where answers don't say whose they are, look now and then whether it is still the same
        model; if not, every time.
        """
        if self._dialect.greeting and time.monotonic() > self._greeted + GREETING_SECONDS:
            found = self._greet(deadline)
            if found != stamp:
                self._greeted = -math.inf  # refused until it says that it has the earlier one again
                what = f"has the model {found.model!r} ({found.dimensions} dimensions) now, and had {stamp.model!r}"
                raise self._client.error("EMBEDDER_CHANGED", what)
            self._greeted = time.monotonic()

    def _greet(self, deadline: float) -> Stamp:
        timeout, path = self._left(deadline), self._dialect.greeting
        (said,) = self._lanes.run(
            [lambda: self._client.ask(path, None, tries=1, timeout=timeout)], deadline
        )
        try:
            greeting = read_greeting(said)
        except ValueError as error:
            raise self._client.error(
                "EMBEDDER_ANSWER", f"gives an answer that can't be used: {error}"
            ) from None
        return Stamp(self.name, greeting.model, greeting.dimensions)

    # -- embedding
    # -----------------------------------------------------------------------------------------------------

    def _embed(self, texts: list[str], mode: EmbedMode, deadline: float) -> NDArray[np.float32]:
        tries = PASSAGE_TRIES if mode == "passage" else 1
        jobs = [self._job(batch, mode, tries, deadline) for batch in _batches(texts, self._most)]
        return (
            np.concatenate(self._lanes.run(jobs, deadline))
            if jobs
            else np.zeros((0, 0), dtype=np.float32)
        )

    def _job(
        self, texts: list[str], mode: EmbedMode, tries: int, deadline: float
    ) -> Callable[[], NDArray[np.float32]]:
        return lambda: self._embed_batch(texts, mode, tries, deadline)

    def _embed_batch(
        self, texts: list[str], mode: EmbedMode, tries: int, deadline: float
    ) -> NDArray[np.float32]:
        """The vectors of one request's texts; what is too much for the server is sent by halves,
        what is too long for it is cut.
        """
        try:
            told, rows = self._request(texts, mode, tries, deadline)
        except TooMuch as error:
            if error.slow:
                self._most, tries = max(1, min(self._most, len(texts) // 2)), SLOW_TRIES
            parts = self._halves(texts)
            return np.concatenate(
                [self._embed_batch(part, mode, tries, deadline) for part in parts]
            )
        self._check_same(told, rows)
        return rows

    def _halves(self, texts: list[str]) -> tuple[list[str], ...]:
        """Two halves of the texts, or half of the one text that there is.

        Raises: NetworkError EMBEDDER_REFUSED.
        """
        if len(texts) > 1:
            return texts[: len(texts) // 2], texts[len(texts) // 2 :]
        if len(texts[0]) <= MIN_CHARACTERS:
            raise self._client.error(
                "EMBEDDER_REFUSED", f"finds {len(texts[0])} characters too long"
            )
        return ([texts[0][: len(texts[0]) // 2]],)

    def _request(
        self, texts: list[str], mode: EmbedMode, tries: int, deadline: float
    ) -> tuple[ServerReply, NDArray[np.float32]]:
        wish = EmbeddingRequest(texts, mode, self._model.name, self._model.dimensions)
        answer = self._client.ask(
            self._dialect.path,
            self._dialect.write(wish),
            tries=tries,
            timeout=self._left(deadline),
            divisible=len(texts) > 1,
            resting=self._lanes.lent,
        )
        try:
            told = self._dialect.read(answer)
            # One of ours makes nothing of a question without a word that it knows; with passages
            # that would be a broken server.
            return told, _rows(
                told.vectors, len(texts), zeros=mode == "query" and bool(self._dialect.greeting)
            )
        except ValueError as error:
            raise self._client.error(
                "EMBEDDER_ANSWER", f"gives an answer that can't be used: {error}"
            ) from None

    def _check_same(self, told: ServerReply, rows: NDArray[np.float32]) -> None:
        """Vectors of two models are never compared, so not even one of another model may come in."""
        stamp = self._stamp
        if stamp is not None and rows.shape[1] != stamp.dimensions:
            what = f"makes vectors of {rows.shape[1]} dimensions now, and made some of {stamp.dimensions} before"
            raise self._client.error("EMBEDDER_CHANGED", what)
        if told.model and self._served and _plain(told.model) != _plain(self._served):
            raise self._client.error(
                "EMBEDDER_CHANGED", f"has the model {told.model!r} now, and had {self._served!r}"
            )


class Lanes:
    """At most so many jobs at once, each in a thread of its own that nobody has to wait for; and
    one more for those in a hurry.

    A job with a deadline never queues behind those without: these may take minutes.
    """

    def __init__(self, width: int, closed: Callable[[], CortexError]) -> None:
        self._free = threading.Semaphore(width)
        self._kept = threading.Semaphore(1)  # for jobs with a deadline
        self._closed = closed
        self._is_closed = False
        self._lock = threading.Lock()
        self._running: set[Future[object]] = set()

    def run(self, jobs: Sequence[Callable[[], T]], deadline: float) -> list[T]:
        """What the jobs give, in order; the first error of one ends all that have not begun.

        Raises: TimeoutError at the deadline.
        """
        failed = threading.Event()
        futures = [self._start(job, failed, deadline) for job in jobs if not failed.is_set()]
        if deadline == math.inf:
            return [future.result() for future in futures]
        return [future.result(max(0.0, deadline - time.monotonic())) for future in futures]

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Whoever waits before the next try lends its lane to those in a hurry; others would only
        find the same server busy.
        """
        self._kept.release()
        try:
            yield
        finally:
            self._kept.acquire()

    def close(self) -> None:
        """Let everybody who waits go with an error."""
        with self._lock:
            self._is_closed = True
            running = list(self._running)
        for future in running:
            with suppress(InvalidStateError):
                future.set_exception(self._closed())

    def _take(self, deadline: float) -> threading.Semaphore:
        """A lane, to be released. Raises: TimeoutError at the deadline."""
        if deadline != math.inf and self._free.acquire(blocking=False):
            return self._free
        lane = self._free if deadline == math.inf else self._kept
        while not lane.acquire(timeout=min(0.1, max(0.0, deadline - time.monotonic()))):
            if self._is_closed:
                raise self._closed()
            if time.monotonic() >= deadline:
                raise TimeoutError
        return lane

    def _start(self, job: Callable[[], T], failed: threading.Event, deadline: float) -> Future[T]:
        future: Future[T] = Future()
        lane = self._take(deadline)
        with self._lock:
            if self._is_closed:
                lane.release()
                raise self._closed()
            self._running.add(future)  # type: ignore[arg-type]

        def work() -> None:
            try:
                done = job()
            except BaseException as error:
                failed.set()
                with suppress(InvalidStateError):
                    future.set_exception(error)
            else:
                with suppress(InvalidStateError):
                    future.set_result(done)
            finally:
                lane.release()
                with self._lock:
                    self._running.discard(future)  # type: ignore[arg-type]

        threading.Thread(target=work, name="cortex-embedding", daemon=True).start()
        return future


def _prepared(texts: Sequence[str], mode: EmbedMode, stamp: Stamp) -> list[str]:
    """The texts as they are sent: cut, none of them empty, with what the model wants before them."""
    query, passage = PREFIXES[stamp.prefix] if stamp.prefix else ("", "")
    before = query if mode == "query" else passage
    return [before + (text[:MAX_CHARACTERS] if text.strip() else "-") for text in texts]


def _batches(texts: list[str], most: int) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) >= most or size + len(text) > MAX_BATCH_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def _rows(vectors: Sequence[object], expected: int, *, zeros: bool) -> NDArray[np.float32]:
    """The vectors with length 1, or 0 where that may be.

    Raises: ValueError, if they aren't that many, equally long, and numbers.
    """
    if len(vectors) != expected:
        raise ValueError(f"{len(vectors)} vectors for {expected} texts")
    try:
        found = np.asarray(vectors)
    except ValueError:
        raise ValueError("its vectors have different lengths") from None
    if found.ndim != 2 or found.shape[1] < 1 or found.dtype.kind not in "fiu":
        raise ValueError("its vectors are no lists of numbers")
    norms = np.linalg.norm(found.astype(np.float64), axis=1, keepdims=True)
    if not np.all(np.isfinite(norms)) or not (zeros or np.all(norms > 0)):
        raise ValueError("a vector holds a value that is no finite number, or nothing but zeros")
    return (found / np.where(norms > 0, norms, 1.0)).astype(np.float32)


def _plain(model: str) -> str:
    """A model's name without the folder, ending and tag that servers add to it."""
    return (
        model.lower()
        .replace("\\", "/")
        .rpartition("/")[2]
        .removesuffix(":latest")
        .removesuffix(".gguf")
    )
