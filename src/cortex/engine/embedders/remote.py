"""Embedder over HTTP: concurrent batches, with every answer validated before use.

`server_protocols.py` knows the request formats, `server_client.py` the connection. A query is tried
once and given up soon, because lexical search can answer it; passages are worth several tries. The
caller decides whether to use a server again that failed.

Road not taken: asyncio. Callers are threads, and an abandoned request may end by itself.
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

# Some 8 seconds of waiting, more if the server asks for it.
PASSAGE_TRIES = 5
# For a server that did not answer in time.
SLOW_TRIES = 2
GREETING_SECONDS = 30.0
# Per text; a chunk has some 1,000.
MAX_CHARACTERS = 8_000
# Shortest text that is still sent to a server that rejects longer ones.
MIN_CHARACTERS = 32
# Per request.
MAX_BATCH_CHARACTERS = 400_000
PROBE = "def connect(address): ..."
# This host requires a key; other servers with the same protocol may not.
KEYED_HOST = "api.openai.com"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """Model to use on a server, and limits for the requests."""

    # Empty for a server with only one model.
    name: str = ""
    # 0 for the model's own number of dimensions.
    dimensions: int = 0
    # Texts per request.
    batch: int = 100
    # Concurrent requests.
    requests: int = 10


class RemoteEmbedder:
    """Embedder that asks a server over HTTP."""

    costly = True

    def __init__(self, server: EmbeddingServer, model: RemoteModel) -> None:
        self.name = server.provider
        self._dialect = DIALECTS[server.provider]
        self._model = model
        # Texts per request; lowered for a slow server.
        self._batch_size = model.batch
        self._client = EmbeddingClient(server)
        self._lanes = Lanes(
            model.requests, lambda: self._client.error("EMBEDDER_UNAVAILABLE", "was closed")
        )
        self._connecting = threading.Lock()
        self._stamp: Stamp | None = None
        # The model named by the first answer.
        self._served_model = ""
        # Time of the last greeting with this model, for servers that don't name it in answers.
        self._greeted_at = -math.inf

    @property
    def stamp(self) -> Stamp | None:
        """Stamp of its vectors; None until the server has answered once."""
        return self._stamp

    def connect(self) -> Stamp:
        """Ask the server for its model, or for one vector, once."""
        return self._connect(math.inf)

    def embed(self, texts: Sequence[str], mode: EmbedMode) -> NDArray[np.float32]:
        """Return one row for each text."""
        limit = min(QUERY_SECONDS, self._client.server.timeout)
        deadline = math.inf if mode == "passage" else time.monotonic() + limit
        try:
            stamp = self._connect(deadline)
            self._recheck_model(stamp, deadline)
            rows = self._embed(_prepare(texts, mode, stamp), mode, deadline)
        except TimeoutError:
            raise self._client.error(
                "EMBEDDER_UNAVAILABLE", f"did not answer within {limit:g} s"
            ) from None
        return rows if len(rows) else np.zeros((0, stamp.dimensions), dtype=np.float32)

    def close(self) -> None:
        """Close all connections; waiting calls fail with an error."""
        self._lanes.close()
        self._client.close()

    def _time_left(self, deadline: float) -> float:
        """Seconds that a request may take.

        Raises: TimeoutError if none are left.
        """
        left = min(self._client.server.timeout, deadline - time.monotonic())
        if left <= 0:
            raise TimeoutError
        return left

    def _connect(self, deadline: float) -> Stamp:
        if self._stamp is not None:
            return self._stamp
        server = self._client.server
        if not server.key and urlsplit(server.url).hostname == KEYED_HOST:
            what = (
                "is not asked: there is no key; set CODEINDEX_OPENAI_API_KEY, or "
                "providers.openai.apiKey in your config.yml"
            )
            raise self._client.error(
                "EMBEDDER_REFUSED",
                what,
                "Set the key, or choose another indexing.embeddingProvider.",
            )
        timeout = self._time_left(deadline)
        if not self._connecting.acquire(timeout=timeout):
            raise self._client.error(
                "EMBEDDER_UNAVAILABLE", f"did not answer within {round(timeout, 2):g} s"
            )
        try:
            if self._stamp is None:
                self._stamp = self._detect_model(deadline)
            return self._stamp
        finally:
            self._connecting.release()

    def _detect_model(self, deadline: float) -> Stamp:
        """Determine the server's model, its dimensions and the prefix that it needs."""
        if self._dialect.greeting:
            stamp = self._ask_model(deadline)
            self._greeted_at = time.monotonic()
            return stamp
        try:
            (result,) = self._lanes.run(
                [lambda: self._request([PROBE], "passage", 1, deadline)], deadline
            )
        except TooMuch as error:
            raise self._client.error(
                "EMBEDDER_REFUSED", f"finds {len(PROBE)} characters too long"
            ) from error
        reply, rows = result
        self._served_model = reply.model
        configured, length = self._model.dimensions, rows.shape[1]
        if configured and length != configured:
            what = f"makes vectors of {length} dimensions, and {configured} are configured"
            raise self._client.error(
                "EMBEDDER_ANSWER", what, "Correct providers.openai.dimensions, or set it to 0."
            )
        different = reply.model and _base_name(reply.model) != _base_name(self._model.name)
        # A server that reports a name of its own ("default") has the configured model.
        scheme = scheme_of(reply.model) or scheme_of(self._model.name)
        return Stamp(self.name, reply.model if different else self._model.name, length, scheme)

    def _recheck_model(self, stamp: Stamp, deadline: float) -> None:
        """Check now and then that the server still has the same model.

        For servers that don't name the model in their answers; after a change, every time.
        """
        if self._dialect.greeting and time.monotonic() > self._greeted_at + GREETING_SECONDS:
            current = self._ask_model(deadline)
            if current != stamp:
                # Reject answers until the server reports the earlier model again.
                self._greeted_at = -math.inf
                what = (
                    f"has the model {current.model!r} ({current.dimensions} dimensions) "
                    f"now, and had {stamp.model!r}"
                )
                raise self._client.error("EMBEDDER_CHANGED", what)
            self._greeted_at = time.monotonic()

    def _ask_model(self, deadline: float) -> Stamp:
        timeout, path = self._time_left(deadline), self._dialect.greeting
        (answer,) = self._lanes.run(
            [lambda: self._client.ask(path, None, tries=1, timeout=timeout)], deadline
        )
        try:
            greeting = read_greeting(answer)
        except ValueError as error:
            raise self._client.error(
                "EMBEDDER_ANSWER", f"gives an answer that can't be used: {error}"
            ) from None
        return Stamp(self.name, greeting.model, greeting.dimensions)

    def _embed(self, texts: list[str], mode: EmbedMode, deadline: float) -> NDArray[np.float32]:
        tries = PASSAGE_TRIES if mode == "passage" else 1
        jobs = [
            self._job(batch, mode, tries, deadline) for batch in _batches(texts, self._batch_size)
        ]
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
        """Embed the texts of one request; too many are halved, too long a text is cut."""
        try:
            reply, rows = self._request(texts, mode, tries, deadline)
        except TooMuch as error:
            if error.slow:
                self._batch_size, tries = max(1, min(self._batch_size, len(texts) // 2)), SLOW_TRIES
            parts = self._split(texts)
            return np.concatenate(
                [self._embed_batch(part, mode, tries, deadline) for part in parts]
            )
        self._check_model(reply, rows)
        return rows

    def _split(self, texts: list[str]) -> tuple[list[str], ...]:
        """Split the texts in two, or cut a single text in half.

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
        request = EmbeddingRequest(texts, mode, self._model.name, self._model.dimensions)
        answer = self._client.ask(
            self._dialect.path,
            self._dialect.write(request),
            tries=tries,
            timeout=self._time_left(deadline),
            divisible=len(texts) > 1,
            resting=self._lanes.lent,
        )
        try:
            reply = self._dialect.read(answer)
            # A cortex-embed server returns zeros for a query without a word that it knows; for
            # passages that would be a broken server.
            return reply, _normalize(
                reply.vectors, len(texts), zeros=mode == "query" and bool(self._dialect.greeting)
            )
        except ValueError as error:
            raise self._client.error(
                "EMBEDDER_ANSWER", f"gives an answer that can't be used: {error}"
            ) from None

    def _check_model(self, reply: ServerReply, rows: NDArray[np.float32]) -> None:
        """Reject vectors of another model, because vectors of two models can't be compared.

        Raises: NetworkError EMBEDDER_CHANGED.
        """
        stamp = self._stamp
        if stamp is not None and rows.shape[1] != stamp.dimensions:
            what = (
                f"makes vectors of {rows.shape[1]} dimensions now, and made some of "
                f"{stamp.dimensions} before"
            )
            raise self._client.error("EMBEDDER_CHANGED", what)
        if (
            reply.model
            and self._served_model
            and _base_name(reply.model) != _base_name(self._served_model)
        ):
            raise self._client.error(
                "EMBEDDER_CHANGED",
                f"has the model {reply.model!r} now, and had {self._served_model!r}",
            )


class Lanes:
    """Bounded concurrency: jobs in threads that needn't be joined, plus one urgent slot.

    A job with a deadline never queues behind those without, which may take minutes.
    """

    def __init__(self, width: int, closed: Callable[[], CortexError]) -> None:
        self._free = threading.Semaphore(width)
        # For jobs with a deadline.
        self._urgent = threading.Semaphore(1)
        self._closed = closed
        self._is_closed = False
        self._lock = threading.Lock()
        self._running: set[Future[object]] = set()

    def run(self, jobs: Sequence[Callable[[], T]], deadline: float) -> list[T]:
        """Run the jobs and return their results in order.

        The first error cancels all jobs that have not begun.

        Raises: TimeoutError at the deadline.
        """
        failed = threading.Event()
        futures = [self._start(job, failed, deadline) for job in jobs if not failed.is_set()]
        if deadline == math.inf:
            return [future.result() for future in futures]
        return [future.result(max(0.0, deadline - time.monotonic())) for future in futures]

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Lend the slot of a job that waits for its next try to urgent jobs.

        Jobs without a deadline would only find the same server busy.
        """
        self._urgent.release()
        try:
            yield
        finally:
            self._urgent.acquire()

    def close(self) -> None:
        """Fail all waiting calls."""
        with self._lock:
            self._is_closed = True
            running = list(self._running)
        for future in running:
            with suppress(InvalidStateError):
                future.set_exception(self._closed())

    def _acquire(self, deadline: float) -> threading.Semaphore:
        """Acquire a slot, to be released by the caller.

        Raises: TimeoutError at the deadline.
        """
        if deadline != math.inf and self._free.acquire(blocking=False):
            return self._free
        lane = self._free if deadline == math.inf else self._urgent
        while not lane.acquire(timeout=min(0.1, max(0.0, deadline - time.monotonic()))):
            if self._is_closed:
                raise self._closed()
            if time.monotonic() >= deadline:
                raise TimeoutError
        return lane

    def _start(self, job: Callable[[], T], failed: threading.Event, deadline: float) -> Future[T]:
        future: Future[T] = Future()
        lane = self._acquire(deadline)
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


def _prepare(texts: Sequence[str], mode: EmbedMode, stamp: Stamp) -> list[str]:
    """Prepare texts for sending: cut, never empty, with the prefix of the model."""
    query, passage = PREFIXES[stamp.prefix] if stamp.prefix else ("", "")
    prefix = query if mode == "query" else passage
    return [prefix + (text[:MAX_CHARACTERS] if text.strip() else "-") for text in texts]


def _batches(texts: list[str], max_texts: int) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) >= max_texts or size + len(text) > MAX_BATCH_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def _normalize(vectors: Sequence[object], expected: int, *, zeros: bool) -> NDArray[np.float32]:
    """Normalize vectors to length 1, or 0 if `zeros` allows it.

    Raises: ValueError if they aren't that many, equally long, and finite numbers.
    """
    if len(vectors) != expected:
        raise ValueError(f"{len(vectors)} vectors for {expected} texts")
    try:
        matrix = np.asarray(vectors)
    except ValueError:
        raise ValueError("its vectors have different lengths") from None
    if matrix.ndim != 2 or matrix.shape[1] < 1 or matrix.dtype.kind not in "fiu":
        raise ValueError("its vectors are no lists of numbers")
    norms = np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
    if not np.all(np.isfinite(norms)) or not (zeros or np.all(norms > 0)):
        raise ValueError("a vector holds a value that is no finite number, or nothing but zeros")
    return (matrix / np.where(norms > 0, norms, 1.0)).astype(np.float32)


def _base_name(model: str) -> str:
    """Strip the folder, ending and tag that servers add to a model's name."""
    return (
        model.lower()
        .replace("\\", "/")
        .rpartition("/")[2]
        .removesuffix(":latest")
        .removesuffix(".gguf")
    )
