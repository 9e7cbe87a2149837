"""Embedding by a server: batches, several at once, every answer checked before a number of it is used.

What is sent how is `dialects.py`'s, the connection `client.py`'s. A query is asked once and given up soon, because words can answer it;
passages are worth several tries. Whether to ask again a server that failed is up to the caller. Road not taken: asyncio; callers are
threads, and a request that nobody waits for any more may end by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cortex.embedders import EmbedMode
from cortex.embedders.client import Client, Server, TooMuch
from cortex.embedders.dialects import DIALECTS, Told, Wish, prefixes_of, read_greeting
from cortex.errors import CortexError
from cortex.types import Stamp

PASSAGE_TRIES = 5  # some 8 seconds of waiting, more where the server asks for it
SLOW_TRIES = 2  # where it did not answer in time
QUERY_SECONDS = 5.0
GREETING_SECONDS = 30.0
MAX_CHARACTERS = 8_000  # of one text; a chunk has some 1,000
MIN_CHARACTERS = 32  # that are still sent where a server finds everything too long
MAX_BATCH_CHARACTERS = 400_000  # of one request
PROBE = "def connect(address): ..."
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Model:
    """Which model is wanted of a server, and how much may be asked of it."""

    name: str = ""  # empty: the server has one
    dimensions: int = 0  # 0: as the model makes them
    batch: int = 100  # texts in one request
    requests: int = 10  # at once


class RemoteEmbedder:
    """An embedder that is asked over HTTP."""

    costly = True

    def __init__(self, server: Server, model: Model) -> None:
        self.name = server.provider
        self._dialect = DIALECTS[server.provider]
        self._model = model
        self._most = model.batch  # texts in one request; fewer for a server that is slow
        self._client = Client(server)
        self._lanes = Lanes(model.requests, lambda: self._client.error("EMBEDDER_UNAVAILABLE", "was closed"))
        self._connecting = threading.Lock()
        self._stamp: Stamp | None = None
        self._served = ""  # the model that the first answer named
        self._greeted = 0.0  # when it last said which model it has, where answers don't

    @property
    def stamp(self) -> Stamp | None:
        """What its vectors are stamped with; None until the server has answered once."""
        return self._stamp

    def connect(self) -> Stamp:
        """Ask the server for its model, or for one vector, once."""
        return self._connect(self._client.server.timeout)

    def embed(self, texts: Sequence[str], mode: EmbedMode) -> NDArray[np.float32]:
        """One row for each text."""
        timeout = self._client.server.timeout if mode == "passage" else min(QUERY_SECONDS, self._client.server.timeout)
        stamp = self._connect(timeout)
        self._greet_again(stamp, timeout)
        rows = self._embed(self._prepared(texts, mode, stamp), mode, timeout)
        return rows if len(rows) else np.zeros((0, stamp.dimensions), dtype=np.float32)

    def close(self) -> None:
        """End all connections; whoever waits for vectors is told so."""
        self._lanes.close()
        self._client.close()

    # -- connecting ----------------------------------------------------------------------------------------------------

    def _connect(self, timeout: float) -> Stamp:
        if self._stamp is not None:
            return self._stamp
        if not self._connecting.acquire(timeout=timeout):
            raise self._client.error("EMBEDDER_UNAVAILABLE", f"did not answer within {timeout:g} s")
        try:
            if self._stamp is None:
                self._stamp = self._find_out(timeout)
            return self._stamp
        finally:
            self._connecting.release()

    def _find_out(self, timeout: float) -> Stamp:
        """Which model the server has, and how long its vectors are."""
        if self._dialect.greeting:
            return self._greet(timeout)
        scheme, _, before = prefixes_of(self._model.name)
        try:
            (found,) = self._lanes.run([lambda: self._request([before + PROBE], "passage", 1, timeout)])
        except TooMuch as error:
            raise self._client.error("EMBEDDER_REFUSED", f"finds {len(before + PROBE)} characters too long") from error
        told, rows = found
        self._served = told.model
        wanted, length = self._model.dimensions, rows.shape[1]
        if wanted and length != wanted:
            what = f"makes vectors of {length} dimensions, and {wanted} are configured"
            raise self._client.error("EMBEDDER_ANSWER", what, "Correct providers.openai.dimensions, or set it to 0.")
        different = told.model and _plain(told.model) != _plain(self._model.name)
        return Stamp(self.name, told.model if different else self._model.name, length, scheme)

    def _greet_again(self, stamp: Stamp, timeout: float) -> None:
        """Where answers don't say whose they are, look now and then whether it is still the same model."""
        if self._dialect.greeting and time.monotonic() > self._greeted + GREETING_SECONDS:
            found = self._greet(timeout)
            if found != stamp:
                what = f"has the model {found.model!r} ({found.dimensions} dimensions) now, and had {stamp.model!r}"
                raise self._client.error("EMBEDDER_CHANGED", what)

    def _greet(self, timeout: float) -> Stamp:
        (said,) = self._lanes.run([lambda: self._client.ask(self._dialect.greeting, None, tries=1, timeout=timeout)])
        try:
            greeting = read_greeting(said)
        except ValueError as error:
            raise self._client.error("EMBEDDER_ANSWER", f"gives an answer that can't be used: {error}") from None
        self._greeted = time.monotonic()
        return Stamp(self.name, greeting.model, greeting.dimensions)

    # -- embedding -----------------------------------------------------------------------------------------------------

    def _prepared(self, texts: Sequence[str], mode: EmbedMode, stamp: Stamp) -> list[str]:
        """The texts as they are sent: cut, none of them empty, with what the model wants before them."""
        _, query, passage = prefixes_of(stamp.model) if self._dialect.prefixed else ("", "", "")
        before = query if mode == "query" else passage
        return [before + (text[:MAX_CHARACTERS] if text.strip() else "-") for text in texts]

    def _embed(self, texts: list[str], mode: EmbedMode, timeout: float) -> NDArray[np.float32]:
        tries = PASSAGE_TRIES if mode == "passage" else 1
        jobs = [self._job(batch, mode, tries, timeout) for batch in _batches(texts, self._most)]
        return np.concatenate(self._lanes.run(jobs)) if jobs else np.zeros((0, 0), dtype=np.float32)

    def _job(self, texts: list[str], mode: EmbedMode, tries: int, timeout: float) -> Callable[[], NDArray[np.float32]]:
        return lambda: self._embed_batch(texts, mode, tries, timeout)

    def _embed_batch(self, texts: list[str], mode: EmbedMode, tries: int, timeout: float) -> NDArray[np.float32]:
        """The vectors of one request's texts; what is too much for the server is sent by halves, what is too long for it is cut."""
        try:
            told, rows = self._request(texts, mode, tries, timeout)
        except TooMuch as error:
            if error.slow:
                self._most, tries = max(1, min(self._most, len(texts) // 2)), SLOW_TRIES
            parts = self._halves(texts)
            return np.concatenate([self._embed_batch(part, mode, tries, timeout) for part in parts])
        self._check_same(told, rows)
        return rows

    def _halves(self, texts: list[str]) -> tuple[list[str], ...]:
        """Two halves of the texts, or half of the one text that there is. Raises: NetworkError EMBEDDER_REFUSED."""
        if len(texts) > 1:
            return texts[: len(texts) // 2], texts[len(texts) // 2 :]
        if len(texts[0]) <= MIN_CHARACTERS:
            raise self._client.error("EMBEDDER_REFUSED", f"finds {len(texts[0])} characters too long")
        return ([texts[0][: len(texts[0]) // 2]],)

    def _request(
        self, texts: list[str], mode: EmbedMode, tries: int, timeout: float
    ) -> tuple[Told, NDArray[np.float32]]:
        wish = Wish(texts, mode, self._model.name, self._model.dimensions)
        answer = self._client.ask(
            self._dialect.path, self._dialect.write(wish), tries=tries, timeout=timeout, divisible=len(texts) > 1
        )
        try:
            told = self._dialect.read(answer)
            return told, _rows(told.vectors, len(texts))
        except ValueError as error:
            raise self._client.error("EMBEDDER_ANSWER", f"gives an answer that can't be used: {error}") from None

    def _check_same(self, told: Told, rows: NDArray[np.float32]) -> None:
        """Vectors of two models are never compared, so not even one of another model may come in."""
        stamp = self._stamp
        if stamp is not None and rows.shape[1] != stamp.dimensions:
            what = f"makes vectors of {rows.shape[1]} dimensions now, and made some of {stamp.dimensions} before"
            raise self._client.error("EMBEDDER_CHANGED", what)
        if told.model and self._served and _plain(told.model) != _plain(self._served):
            raise self._client.error("EMBEDDER_CHANGED", f"has the model {told.model!r} now, and had {self._served!r}")


class Lanes:
    """At most so many jobs at once, each in a thread of its own that nobody has to wait for."""

    def __init__(self, width: int, closed: Callable[[], CortexError]) -> None:
        self._free = threading.Semaphore(width)
        self._closed = closed
        self._is_closed = False
        self._lock = threading.Lock()
        self._running: set[Future[object]] = set()

    def run(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """What the jobs give, in order; the first error of one ends all that have not begun."""
        failed = threading.Event()
        futures = [self._start(job, failed) for job in jobs if not failed.is_set()]
        return [future.result() for future in futures]

    def close(self) -> None:
        """Let everybody who waits go with an error."""
        with self._lock:
            self._is_closed = True
            running = list(self._running)
        for future in running:
            with suppress(InvalidStateError):
                future.set_exception(self._closed())

    def _start(self, job: Callable[[], T], failed: threading.Event) -> Future[T]:
        future: Future[T] = Future()
        while not self._free.acquire(timeout=0.1):
            if self._is_closed:
                break
        with self._lock:
            if self._is_closed:
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
                self._free.release()
                with self._lock:
                    self._running.discard(future)  # type: ignore[arg-type]

        threading.Thread(target=work, name="cortex-embedding", daemon=True).start()
        return future


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


def _rows(vectors: Sequence[object], expected: int) -> NDArray[np.float32]:
    """The vectors with length 1. Raises: ValueError, if they aren't that many, equally long, and numbers."""
    if len(vectors) != expected:
        raise ValueError(f"{len(vectors)} vectors for {expected} texts")
    try:
        found = np.asarray(vectors)
    except ValueError:
        raise ValueError("its vectors have different lengths") from None
    if found.ndim != 2 or found.shape[1] < 1 or found.dtype.kind not in "fiu":
        raise ValueError("its vectors are no lists of numbers")
    norms = np.linalg.norm(found.astype(np.float64), axis=1, keepdims=True)
    if not np.all(np.isfinite(norms)) or not np.all(norms > 0):
        raise ValueError("a vector holds a value that is no finite number, or nothing but zeros")
    return (found / norms).astype(np.float32)


def _plain(model: str) -> str:
    """A model's name without the folder, ending and tag that servers add to it."""
    return model.lower().replace("\\", "/").rpartition("/")[2].removesuffix(":latest").removesuffix(".gguf")
