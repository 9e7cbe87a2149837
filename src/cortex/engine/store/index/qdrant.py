"""Client of a Qdrant server that stores vectors: its collections, and backoff after failures.

There is one collection per store and embedder, so that ids of two stores or vectors of two models
never mix. The watermark of a collection is a point in it, written after the rows it covers: it
can't be ahead of them, and is lost with them. Knows nothing of chunks.

Road not taken: a watermark in SQLite, which would still call a collection complete after it was
deleted.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, TypeVar

from cortex.base.errors import NetworkError
from cortex.base.text import hash_bytes
from cortex.base.types import Stamp
from cortex.engine.store.index.vector_index import VectorServerAway

# Importing the client takes a second.
if TYPE_CHECKING:
    from qdrant_client import QdrantClient

# Timeout of one request; then lexical search answers.
TIMEOUT_SECONDS = 5
# Backoff after a failure; doubles with each further one.
REST_SECONDS, LONGEST_REST = 5.0, 60.0
# Time for which the state of a collection is cached.
LOOK_SECONDS = 1.0
# Name of the vector of a point; the mark has none, so that no search returns it.
VECTOR = "chunk"
# Id of the point with the watermark; all other ids are integers.
MARK = str(uuid.UUID(int=0))
UNAVAILABLE = "QDRANT_UNAVAILABLE"
INSTALL = 'pip install "cortex-context[qdrant]"'
T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QdrantMark:
    """Store, embedder and watermark of a collection; `version` changes with every write."""

    store: str
    stamp: Stamp
    watermark: int
    version: str


@dataclass(frozen=True, slots=True)
class QdrantCollection:
    """Collection made by a store; `mark` is None if it was never complete."""

    name: str
    points: int
    mark: QdrantMark | None


class Qdrant:
    """Client of one server; safe for concurrent threads."""

    def __init__(self, url: str, key: str = "", collection: str = "cortex_kb") -> None:
        self.url = url
        self.collection = collection
        self._key = key
        self._lock = threading.Lock()
        self._client: QdrantClient | None = None
        self._problem = ""
        self._failures = 0
        self._rests_until = 0.0
        self._states: dict[str, tuple[float, bool, QdrantMark | None]] = {}

    @property
    def away(self) -> str:
        """Reason why the server can't be asked now, "" if it can or a retry is due."""
        return self._problem if time.monotonic() < self._rests_until else ""

    def ask(self, call: Callable[[QdrantClient], T]) -> T:
        """Call the server and return its answer.

        Raises: NetworkError QDRANT_UNAVAILABLE; at once during backoff.
        """
        if self.away:
            raise self._error(self._problem)
        try:
            answer = call(self._connect())
        except NetworkError:
            raise
        # Any error of the client, its HTTP library or its models: lexical search can answer.
        except Exception as error:
            log.debug("Qdrant failed", exc_info=True)
            raise self.fail(f"Qdrant at {self.url} {_reason(error)}") from None
        self._problem, self._failures = "", 0
        return answer

    def look(self, name: str) -> tuple[bool, QdrantMark | None]:
        """State of a collection, cached briefly: (exists, mark).

        Raises: as `ask`.
        """
        cached = self._states.get(name)
        if cached is not None and time.monotonic() - cached[0] < LOOK_SECONDS:
            return cached[1], cached[2]
        exists, mark = self.ask(lambda client: _read(client, name))
        self._states[name] = (time.monotonic(), exists, mark)
        return exists, mark

    def look_again(self, name: str) -> None:
        """Drop the cached state of a collection."""
        self._states.pop(name, None)

    def make(self, name: str, dimensions: int) -> None:
        """Create an empty collection.

        Raises: as `ask`.
        """
        from qdrant_client import models

        # Searches are exact: a graph would only take memory.
        self.ask(
            lambda client: client.create_collection(
                name,
                vectors_config={
                    VECTOR: models.VectorParams(size=dimensions, distance=models.Distance.COSINE)
                },
                hnsw_config=models.HnswConfigDiff(m=0),
            )
        )
        self._states[name] = (time.monotonic(), True, None)

    def mark(self, name: str, store: str, stamp: Stamp, watermark: int) -> QdrantMark:
        """Store the watermark of a collection.

        Raises: as `ask`.
        """
        from qdrant_client import models

        mark = QdrantMark(store, stamp, watermark, uuid.uuid4().hex)
        payload = {
            "store": store,
            "stamp": list(astuple(stamp)),
            "watermark": watermark,
            "version": mark.version,
        }
        point = models.PointStruct(id=MARK, vector={}, payload=payload)
        self.ask(lambda client: client.upsert(name, [point], wait=True))
        self._states[name] = (time.monotonic(), True, mark)
        return mark

    def name_of(self, store: str, stamp: Stamp) -> str:
        """Name of the collection for a store and an embedder."""
        return f"{self._prefix(store)}{_digest(*(str(part) for part in astuple(stamp)))}"

    def is_of(self, name: str, store: str) -> bool:
        """True if a collection belongs to this store."""
        return name.startswith(self._prefix(store))

    def collections(self, store: str | None = None) -> list[QdrantCollection]:
        """Collections made by this store, or by any.

        Raises: as `ask`.
        """
        prefix = f"{self.collection}_" if store is None else self._prefix(store)
        listed = self.ask(lambda client: client.get_collections()).collections
        collections: list[QdrantCollection] = []
        for name in sorted(entry.name for entry in listed if entry.name.startswith(prefix)):
            exists, mark = self.ask(lambda client, name=name: _read(client, name))
            if exists:
                count = self.ask(lambda client, name=name: client.count(name, exact=True)).count
                collections.append(QdrantCollection(name, count - (mark is not None), mark))
        return collections

    def drop(self, names: Iterable[str]) -> None:
        """Delete collections.

        Raises: as `ask`.
        """
        for name in names:
            self.ask(lambda client, name=name: client.delete_collection(name))
            self.look_again(name)

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _prefix(self, store: str) -> str:
        return f"{self.collection}_{_digest(store)}_"

    def _connect(self) -> QdrantClient:
        with self._lock:
            if self._client is None:
                try:
                    from qdrant_client import QdrantClient
                except ImportError:
                    raise self.fail(
                        "kb.qdrant.url is set, but the client of Qdrant is not installed: "
                        f"{INSTALL}"
                    ) from None
                with warnings.catch_warnings():
                    # The client warns about a key without encryption; docs/qdrant.md does, too.
                    warnings.simplefilter("ignore")
                    self._client = QdrantClient(
                        url=self.url,
                        api_key=self._key or None,
                        timeout=TIMEOUT_SECONDS,
                        check_compatibility=False,
                        # No proxy from the environment may receive the key.
                        trust_env=False,
                    )
            return self._client

    def fail(self, problem: str) -> NetworkError:
        """Start the backoff and return the error to raise."""
        self._problem = problem.replace(self._key, "…") if self._key else problem
        self._rests_until = time.monotonic() + min(LONGEST_REST, REST_SECONDS * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._states.clear()
        return self._error(self._problem)

    def _error(self, problem: str) -> NetworkError:
        return VectorServerAway(UNAVAILABLE, problem, context={"url": self.url})


def _read(client: QdrantClient, name: str) -> tuple[bool, QdrantMark | None]:
    """Read the state of a collection: (exists, mark)."""
    from qdrant_client.http.exceptions import UnexpectedResponse

    try:
        points = client.retrieve(name, [MARK], with_payload=True, with_vectors=False)
    except ValueError:
        # The client's local mode has no status codes.
        if client.collection_exists(name):
            raise
        return False, None
    except UnexpectedResponse as error:
        if error.status_code == 404:
            return False, None
        raise
    payload = (points[0].payload or {}) if points else {}
    try:
        stamp = Stamp(*payload["stamp"])
        return True, QdrantMark(
            str(payload["store"]), stamp, int(payload["watermark"]), str(payload["version"])
        )
    except (KeyError, TypeError, ValueError):
        # No mark yet, or not one of ours.
        return True, None


def _reason(error: Exception) -> str:
    """Describe an error briefly, without any of the request."""
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    if isinstance(error, UnexpectedResponse):
        match error.status_code:
            case 401 | 403:
                return "refuses the key: see kb.qdrant.api_key"
            case 404:
                return "knows no such collection, or is no Qdrant (status 404)"
        return f"answered with the status {error.status_code}"
    source = error.source if isinstance(error, ResponseHandlingException) else error
    if "timeout" in type(source).__name__.lower():
        return f"did not answer within {TIMEOUT_SECONDS} s"
    return f"can't be reached or understood ({type(source).__name__}: {str(source)[:200]})"


def _digest(*parts: str) -> str:
    return hash_bytes(*(part.encode() for part in parts)).hex()[:12]
