"""Embedders for queries over chunks that another program embedded.

Asks the configured endpoint or a model of our own. A query vector is compared only with vectors of
the same model: the files name theirs, and the server names its own. A server that a file names may
be down; then search is lexical and says so. A server that a person named just now (by a flag or
variable) or marked as required must answer.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from cortex.base.errors import CortexError, NetworkError
from cortex.base.settings import Settings, stays_here
from cortex.base.types import Stamp
from cortex.engine.embedders import Embedder, open_local
from cortex.engine.embedders.circuit_breaker import CircuitBreaker
from cortex.engine.search import QueryModel

MINILM = frozenset({"all-minilm-l6-v2", "all-minilm-l6-v2-int8"})
# Origins of settings that a person has just given.
TYPED = ("environment ", "flag ", "runtime")
# Time for a server that we started to answer.
START_SECONDS = 20.0
END_SECONDS = 3.0
LOOK_SECONDS = 0.1
# A word that every model knows.
PROBE = "connect"

log = logging.getLogger(__name__)

# Advice where a lexical answer is not acceptable, by error code.
_ADVICE = {
    "EMBEDDER_UNAVAILABLE": "Start the embedding server, or leave out what asks for it: "
    "{origin}, embedding.required.",
    "EMBEDDER_CHANGED": "Serve the chunks' model at the endpoint ({origin}), or run `cortex "
    "chunks reembed`.",
    "EMBEDDER_MISSING": "Name a server that has the model (embedding.endpoint), or run `cortex "
    "chunks reembed`.",
}


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """Choice of the vectors for a query, or the reason why there are none."""

    model: QueryModel | None
    why: str = ""
    # Code of the error where a lexical answer is not acceptable.
    code: str = "EMBEDDER_UNAVAILABLE"
    go_on: str = ""

    def error(self, what: str) -> NetworkError:
        """Build the error for a query that has to be embedded and can't be."""
        return NetworkError(
            self.code, f"{what}: {self.why}", instead=(self.go_on,) if self.go_on else ()
        )


class QueryEmbedders:
    """Embedders for the queries of one chunk index."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._local_models: dict[str, CircuitBreaker] = {}
        self._child: Child | None = None
        self._address, self._server_problem = _address(settings)
        self._server = (
            CircuitBreaker(_open_server(settings, self._address)) if self._address else None
        )

    @property
    def required(self) -> bool:
        """True if a lexical answer is not acceptable, because a person asked for the server."""
        is_typed = self._settings.origin("embedding.endpoint").startswith(TYPED) and bool(
            self._settings.embedding.endpoint
        )
        return is_typed or self._settings.embedding.required

    def start(self, stamps: Sequence[Stamp]) -> str:
        """Check that queries can be embedded, starting a server if wanted; returns why not, or "".

        Raises: NetworkError if embedding is required and not possible.
        """
        if self._server is not None:
            self._start_server()
        choice = self.choose(stamps)
        if choice.model is None and self.required and stamps:
            raise choice.error("questions can't be embedded")
        return choice.why

    def choose(self, stamps: Sequence[Stamp]) -> EmbedderChoice:
        """Choose the vectors for a query; `stamps` are ordered by their number of vectors."""
        if not stamps:
            return EmbedderChoice(None, "no chunk has a vector")
        reasons: list[str] = []
        codes: list[str] = []
        for stamp in stamps:
            for embedder in self._candidates(stamp):
                code, why = self._why_not(embedder, stamp)
                if not why:
                    return EmbedderChoice((stamp, embedder.query))
                codes.append(code)
                reasons.append(why)
        if self._server_problem:
            reasons.append(self._server_problem)
        if not reasons:
            names = " and ".join(
                dict.fromkeys(stamp.model or "a model that no file names" for stamp in stamps)
            )
            reasons.append(f"no embedder here can embed a question by {names}")
        reasons.append("`cortex chunks reembed` gives the chunks vectors that need no server")
        # An error that may pass comes first: only then is a second try worth it.
        code = min(codes, key=list(_ADVICE).index, default="EMBEDDER_MISSING")
        go_on = _ADVICE[code].format(origin=self._settings.origin("embedding.endpoint"))
        return EmbedderChoice(None, "; ".join(dict.fromkeys(reasons)), code, go_on)

    def _candidates(self, stamp: Stamp) -> list[CircuitBreaker]:
        """Candidates for a model's vectors: a required server first, else local models first."""
        servers = [self._server] if self._server is not None else []
        own = self._local_model(stamp)
        models = [own] if own is not None else []
        return [*servers, *models] if self.required else [*models, *servers]

    def _local_model(self, stamp: Stamp) -> CircuitBreaker | None:
        """Return the local model with this name, opened on first use."""
        name = plain(stamp.model)
        with self._lock:
            if name not in self._local_models:
                opened = _open_local_model(name, stamp.dimensions)
                if opened is None:
                    return None
                self._local_models[name] = CircuitBreaker(opened)
            return self._local_models[name]

    def _why_not(self, embedder: CircuitBreaker, stamp: Stamp) -> tuple[str, str]:
        """Code and reason why an embedder can't provide a model's vectors; empty if it can."""
        if embedder.stamp is None and (self.required or not embedder.rests):
            # A failure opens the circuit breaker, which is checked below.
            with suppress(CortexError):
                # A query connects and gives up sooner than `connect`: a caller is waiting.
                embedder.query(PROBE)
        actual, wanted = embedder.stamp, stamp.model or self._settings.embedding.model
        if actual is None or (embedder.rests and not self.required):
            return "EMBEDDER_UNAVAILABLE", (
                f"{embedder.name} can't be asked now ({embedder.problem})"
            )
        if actual.dimensions != stamp.dimensions or not is_same(actual.model, wanted):
            return "EMBEDDER_CHANGED", (
                f"{embedder.name} ({actual.dimensions} dimensions) is not the model of the "
                f"chunks' vectors, "
                f"{wanted or 'which no file names'} ({stamp.dimensions})"
            )
        return "", ""

    def _start_server(self) -> None:
        assert self._server is not None
        with suppress(CortexError):
            self._server.query(PROBE)
        if self._server.rests and self._settings.embedding.autostart and stays_here(self._address):
            self._child = Child(self._address)
            self._child.await_answer(self._server)

    def close(self) -> None:
        """Stop a server that was started and close all connections."""
        if self._child is not None:
            self._child.close()
        for embedder in (self._server, *self._local_models.values()):
            if embedder is not None:
                embedder.close()


class Child:
    """Our own `cortex models serve` process.

    It ends at the end of its standard input, so also when this process is killed.
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        host, port = parts.hostname or "127.0.0.1", parts.port or 80
        command = [
            sys.executable,
            "-m",
            "cortex",
            "models",
            "serve",
            "--host",
            host,
            "--port",
            str(port),
            "--until-eof",
        ]
        log.info("starting an embedding server at %s", address)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=True,
        )

    def await_answer(self, server: CircuitBreaker) -> None:
        """Wait some time until the server answers; without an answer, search stays lexical."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(CortexError):
                server.query(PROBE)
                return
            time.sleep(LOOK_SECONDS)
        log.warning("the embedding server did not begin to answer")

    def close(self) -> None:
        """Stop the process."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_SECONDS)


def plain(model: str) -> str:
    """Strip the folder, ending and tag that servers and indexers add to a model's name."""
    return (
        model.lower()
        .replace("\\", "/")
        .rpartition("/")[2]
        .removesuffix(":latest")
        .removesuffix(".gguf")
    )


def is_same(first: str, second: str) -> bool:
    """True if two names may mean one model; a missing name matches every model."""
    if not first or not second:
        return True
    names = {plain(first), plain(second)}
    return len(names) == 1 or names <= MINILM


def _open_local_model(name: str, dimensions: int) -> Embedder | None:
    if name in MINILM and dimensions == 384:
        from cortex.engine.embedders.onnx import OnnxEmbedder

        return OnnxEmbedder()
    if name.startswith("cortex-static"):
        local = open_local()
        if local.stamp is not None and plain(local.stamp.model) == name:
            return local
    return None


def _address(settings: Settings) -> tuple[str, str]:
    """Address of the configured server, and the reason if it may not be used."""
    address = settings.embedding.endpoint
    if address and settings.server.local_only and not stays_here(address):
        return "", f"server.localOnly is on, and {address} is beyond this machine"
    return address, "" if address else settings.warning_about("embedding.endpoint").removesuffix(
        " (ignored)"
    )


def _open_server(settings: Settings, address: str) -> Embedder:
    """Open the embedder at an address; keys go only to the host that they were configured for."""
    from cortex.engine.embedders.remote import RemoteEmbedder, RemoteModel
    from cortex.engine.embedders.server_client import EmbeddingServer

    network, openai, cortex_embed = (
        settings.limits.network,
        settings.providers.openai,
        settings.providers.cortex_embed,
    )
    address = address.rstrip("/")
    if settings.embedding.provider == "openai":
        key = openai.api_key if _is_below(address, openai.base_url) else ""
        server = EmbeddingServer(
            "openai", address.removesuffix("/embeddings"), key, network.embedding_timeout
        )
        return RemoteEmbedder(server, RemoteModel(settings.embedding.model or openai.model))
    key = cortex_embed.token if _is_below(address, cortex_embed.base_url) else ""
    return RemoteEmbedder(
        EmbeddingServer(
            "cortex-embed", address.removesuffix("/embed"), key, network.embedding_timeout
        ),
        RemoteModel(),
    )


def _is_below(address: str, base: str) -> bool:
    return f"{address}/".startswith(f"{base.rstrip('/')}/")
