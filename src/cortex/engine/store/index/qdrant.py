"""A Qdrant server that keeps vectors instead of a file: the connection, its collections, and
leaving it alone for a while after it failed.

One collection for each store and embedder, so that ids of two stores or vectors of two models never
meet. How far a collection has come is a point within it, written after the rows that it tells of:
it can't be ahead of them, and is lost with them. Knows nothing of chunks. Road not taken: a
watermark in SQLite, which would go on saying that a collection is complete after somebody deleted
it.
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

if TYPE_CHECKING:  # loading it takes a second
    from qdrant_client import QdrantClient

TIMEOUT_SECONDS = 5  # of one request: then words answer
REST_SECONDS, LONGEST_REST = 5.0, 60.0  # after a failure, twice as long after the next
LOOK_SECONDS = 1.0  # how long it is believed what was read of a collection's state
VECTOR = "chunk"  # the name of the vector of a point; the mark has none, so that no search finds it
MARK = str(uuid.UUID(int=0))  # the id of that point; all others are numbers
UNAVAILABLE = "QDRANT_UNAVAILABLE"
INSTALL = 'pip install "cortex-context[qdrant]"'
T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QdrantMark:
    """What a collection says of itself: whose vectors of which store it holds, and up to where;
    `version` is new with every change.
    """

    store: str
    stamp: Stamp
    watermark: int
    version: str


@dataclass(frozen=True, slots=True)
class QdrantCollection:
    """A collection that was made by a store; `mark` is None where it was never complete."""

    name: str
    points: int
    mark: QdrantMark | None


class Qdrant:
    """One server; threads may use it at once."""

    def __init__(self, url: str, key: str = "", collection: str = "cortex_kb") -> None:
        self.url = url
        self.collection = collection
        self._key = key
        self._lock = threading.Lock()
        self._client: QdrantClient | None = None
        self._problem = ""
        self._failures = 0
        self._rests_until = 0.0
        self._looked: dict[str, tuple[float, bool, QdrantMark | None]] = {}

    @property
    def away(self) -> str:
        """Why it can't be asked now; empty where it can, or where it is time to try again."""
        return self._problem if time.monotonic() < self._rests_until else ""

    def ask(self, call: Callable[[QdrantClient], T]) -> T:
        """What the server answers.

        Raises: NetworkError QDRANT_UNAVAILABLE; at once, while it rests.
        """
        if self.away:
            raise self._error(self._problem)
        try:
            answer = call(self._connect())
        except NetworkError:
            raise
        # Of the client, its HTTP library and its models: whatever it is, words can answer
        except Exception as error:
            log.debug("Qdrant failed", exc_info=True)
            raise self.fail(f"Qdrant at {self.url} {_reason(error)}") from None
        self._problem, self._failures = "", 0
        return answer

    def look(self, name: str) -> tuple[bool, QdrantMark | None]:
        """Whether there is such a collection, and what it says of itself, as it was a moment ago.

        Raises: as `ask`.
        """
        looked = self._looked.get(name)
        if looked is not None and time.monotonic() - looked[0] < LOOK_SECONDS:
            return looked[1], looked[2]
        there, mark = self.ask(lambda client: _read(client, name))
        self._looked[name] = (time.monotonic(), there, mark)
        return there, mark

    def look_again(self, name: str) -> None:
        """Believe nothing of what was read of a collection."""
        self._looked.pop(name, None)

    def make(self, name: str, dimensions: int) -> None:
        """Make an empty collection. Raises: as `ask`."""
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
        self._looked[name] = (time.monotonic(), True, None)

    def mark(self, name: str, store: str, stamp: Stamp, watermark: int) -> QdrantMark:
        """Say up to where a collection is complete. Raises: as `ask`."""
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
        self._looked[name] = (time.monotonic(), True, mark)
        return mark

    def name_of(self, store: str, stamp: Stamp) -> str:
        """The collection of a store's vectors by one embedder."""
        return f"{self._prefix(store)}{_digest(*(str(part) for part in astuple(stamp)))}"

    def is_of(self, name: str, store: str) -> bool:
        """Whether a collection is this store's."""
        return name.startswith(self._prefix(store))

    def collections(self, store: str | None = None) -> list[QdrantCollection]:
        """The collections that a store has made here, or any. Raises: as `ask`."""
        prefix = f"{self.collection}_" if store is None else self._prefix(store)
        listed = self.ask(lambda client: client.get_collections()).collections
        found: list[QdrantCollection] = []
        for name in sorted(one.name for one in listed if one.name.startswith(prefix)):
            there, mark = self.ask(lambda client, name=name: _read(client, name))
            if there:
                count = self.ask(lambda client, name=name: client.count(name, exact=True)).count
                found.append(QdrantCollection(name, count - (mark is not None), mark))
        return found

    def drop(self, names: Iterable[str]) -> None:
        """Delete collections. Raises: as `ask`."""
        for name in names:
            self.ask(lambda client, name=name: client.delete_collection(name))
            self.look_again(name)

    def close(self) -> None:
        """End the connection; it is made anew where somebody asks again."""
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
                        f"kb.qdrant.url is set, and the client of Qdrant is not installed: {INSTALL}"
                    ) from None
                with warnings.catch_warnings():
                    # A key without encryption: docs/qdrant.md says it
                    warnings.simplefilter("ignore")
                    self._client = QdrantClient(
                        url=self.url,
                        api_key=self._key or None,
                        timeout=TIMEOUT_SECONDS,
                        check_compatibility=False,
                        trust_env=False,  # no proxy of the environment gets the key
                    )
            return self._client

    def fail(self, problem: str) -> NetworkError:
        """The error that says so; the server is left alone for a while."""
        self._problem = problem.replace(self._key, "…") if self._key else problem
        self._rests_until = time.monotonic() + min(LONGEST_REST, REST_SECONDS * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._looked.clear()
        return self._error(self._problem)

    def _error(self, problem: str) -> NetworkError:
        return NetworkError(UNAVAILABLE, problem, context={"url": self.url})


def _read(client: QdrantClient, name: str) -> tuple[bool, QdrantMark | None]:
    """Whether there is such a collection, and its mark."""
    from qdrant_client.http.exceptions import UnexpectedResponse

    try:
        points = client.retrieve(name, [MARK], with_payload=True, with_vectors=False)
    except ValueError:  # the client's local mode, which has no statuses
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
    except (KeyError, TypeError, ValueError):  # none yet, or none of ours
        return True, None


def _reason(error: Exception) -> str:
    """What went wrong, in a few words and without any of what was sent."""
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
