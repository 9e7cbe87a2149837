"""Who turns a question into a vector for chunks that somebody else embedded: the configured
endpoint, or a model of our own.

A vector is compared only with those of the same model: the files say which one that is, and the
server which one it has. A server that a file names may be down: then words answer, and say so. One
that the person named just now (a flag, a variable) or calls required must answer.
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
from cortex.engine.search import Meaning

MINILM = frozenset({"all-minilm-l6-v2", "all-minilm-l6-v2-int8"})
TYPED = ("environment ", "flag ", "runtime")  # origins of what somebody has just said
START_SECONDS = 20.0  # for a server of our own to answer
END_SECONDS = 3.0
LOOK_SECONDS = 0.1
PROBE = "connect"  # a word that every model knows

log = logging.getLogger(__name__)

# What to do where an answer by words is none, by the code of the error.
_GO_ON = {
    "EMBEDDER_UNAVAILABLE": "Start the embedding server, or leave out what asks for it: {origin}, embedding.required.",
    "EMBEDDER_CHANGED": "Serve the chunks' model at the endpoint ({origin}), or run `cortex chunks reembed`.",
    "EMBEDDER_MISSING": "Name a server that has the model (embedding.endpoint), or run `cortex chunks reembed`.",
}


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """How a question gets its vector: by whose vectors; where by none, why not."""

    meaning: Meaning | None
    why: str = ""
    code: str = "EMBEDDER_UNAVAILABLE"  # of the error where an answer by words is none
    go_on: str = ""

    def error(self, what: str) -> NetworkError:
        """The error of a question that has to be embedded and can't be."""
        return NetworkError(
            self.code, f"{what}: {self.why}", instead=(self.go_on,) if self.go_on else ()
        )


class Asker:
    """The embedders that questions about one shelf may go to."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._own: dict[str, CircuitBreaker] = {}
        self._child: Child | None = None
        self._address, self._refused = _address(settings)
        self._server = (
            CircuitBreaker(_open_server(settings, self._address)) if self._address else None
        )

    @property
    def required(self) -> bool:
        """Whether an answer by words alone is none: the person named the server just now, or says
        so.
        """
        told = self._settings.origin("embedding.endpoint").startswith(TYPED) and bool(
            self._settings.embedding.endpoint
        )
        return told or self._settings.embedding.required

    def start(self, stamps: Sequence[Stamp]) -> str:
        """Look whether questions can be embedded, and start a server where that is wanted; why not,
        where not.

        Raises: NetworkError, where it is required and can't be.
        """
        if self._server is not None:
            self._start_server()
        choice = self.choose(stamps)
        if choice.meaning is None and self.required and stamps:
            raise choice.error("questions can't be embedded")
        return choice.why

    def choose(self, stamps: Sequence[Stamp]) -> EmbedderChoice:
        """Whose vectors answer; `stamps` are those that there are, the most vectors first."""
        if not stamps:
            return EmbedderChoice(None, "no chunk has a vector")
        reasons: list[str] = []
        codes: list[str] = []
        for stamp in stamps:
            for one in self._fitting(stamp):
                code, why = self._why_not(one, stamp)
                if not why:
                    return EmbedderChoice((stamp, one.query))
                codes.append(code)
                reasons.append(why)
        if self._refused:
            reasons.append(self._refused)
        if not reasons:
            names = " and ".join(
                dict.fromkeys(stamp.model or "a model that no file names" for stamp in stamps)
            )
            reasons.append(f"nobody here can embed a question by {names}")
        reasons.append("`cortex chunks reembed` gives the chunks vectors that need no server")
        # Whoever may answer later comes first: only then is it worth a second try.
        code = min(codes, key=list(_GO_ON).index, default="EMBEDDER_MISSING")
        go_on = _GO_ON[code].format(origin=self._settings.origin("embedding.endpoint"))
        return EmbedderChoice(None, "; ".join(dict.fromkeys(reasons)), code, go_on)

    def _fitting(self, stamp: Stamp) -> list[CircuitBreaker]:
        """Who may be asked for a model's vectors: what the person named first, then what needs no
        network.
        """
        servers = [self._server] if self._server is not None else []
        own = self._own_of(stamp)
        models = [own] if own is not None else []
        return [*servers, *models] if self.required else [*models, *servers]

    def _own_of(self, stamp: Stamp) -> CircuitBreaker | None:
        """The model of our own that has this name."""
        name = plain(stamp.model)
        with self._lock:
            if name not in self._own:
                opened = _open_own(name, stamp.dimensions)
                if opened is None:
                    return None
                self._own[name] = CircuitBreaker(opened)
            return self._own[name]

    def _why_not(self, one: CircuitBreaker, stamp: Stamp) -> tuple[str, str]:
        """Why an embedder can't be asked for a model's vectors, with the code of that error; empty
        where it can.
        """
        if one.stamp is None and (self.required or not one.rests):
            with suppress(CortexError):  # it rests then
                one.query(PROBE)  # connects, and gives up sooner than `connect`: somebody waits
        found, model = one.stamp, stamp.model or self._settings.embedding.model
        if found is None or (one.rests and not self.required):
            return "EMBEDDER_UNAVAILABLE", f"{one.name} can't be asked now ({one.problem})"
        if found.dimensions != stamp.dimensions or not is_same(found.model, model):
            return "EMBEDDER_CHANGED", (
                f"{one.name} ({found.dimensions} dimensions) is not the model of the chunks' vectors, "
                f"{model or 'which no file names'} ({stamp.dimensions})"
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
        """End what was started and let go of connections."""
        if self._child is not None:
            self._child.close()
        for one in (self._server, *self._own.values()):
            if one is not None:
                one.close()


class Child:
    """A `cortex embed serve` of our own: it ends when its standard input does, so also when this
    process is killed.
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        host, port = parts.hostname or "127.0.0.1", parts.port or 80
        command = [
            sys.executable,
            "-m",
            "cortex",
            "embed",
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
        """Wait until it answers, for some time; where it can't begin, words answer as without it."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(CortexError):
                server.query(PROBE)
                return
            time.sleep(LOOK_SECONDS)
        log.warning("the embedding server did not begin to answer")

    def close(self) -> None:
        """End it."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_SECONDS)


def plain(model: str) -> str:
    """A model's name without the folder, ending and tag that servers and indexers add to it."""
    return (
        model.lower()
        .replace("\\", "/")
        .rpartition("/")[2]
        .removesuffix(":latest")
        .removesuffix(".gguf")
    )


def is_same(first: str, second: str) -> bool:
    """Whether two names may be one model's: a file or a server that names none is taken by its
    word.
    """
    if not first or not second:
        return True
    names = {plain(first), plain(second)}
    return len(names) == 1 or names <= MINILM


def _open_own(name: str, dimensions: int) -> Embedder | None:
    if name in MINILM and dimensions == 384:
        from cortex.engine.embedders.onnx import OnnxEmbedder

        return OnnxEmbedder()
    if name.startswith("cortex-static"):
        local = open_local()
        if local.stamp is not None and plain(local.stamp.model) == name:
            return local
    return None


def _address(settings: Settings) -> tuple[str, str]:
    """The address of the configured server, and where it may not be asked, why."""
    address = settings.embedding.endpoint
    if address and settings.server.local_only and not stays_here(address):
        return "", f"server.localOnly is on, and {address} is beyond this machine"
    return address, "" if address else settings.warning_about("embedding.endpoint").removesuffix(
        " (ignored)"
    )


def _open_server(settings: Settings, address: str) -> Embedder:
    """The embedder behind an address. A key goes only where the person configured it to go."""
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
