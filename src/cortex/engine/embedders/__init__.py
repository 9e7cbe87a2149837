"""Embedders turn texts into vectors: their protocol, and opening the configured one.

Knows nothing of chunks, stores or search. An embedder is optional: without one, search is lexical.
Opening one is cheap and can't fail; `connect` loads the model or contacts the server, and raises if
it can't. Road not taken: a class hierarchy. Embedders share no code, only this protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import urlsplit

from cortex.base.types import Stamp

# Without an embedder numpy isn't needed, and importing it takes a tenth of a server's start.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cortex.base.settings import Settings

EmbedMode = Literal["query", "passage"]
# Time limit for embedding a query; after that, search is lexical.
QUERY_SECONDS = 5.0


class Embedder(Protocol):
    """Turns texts into vectors of length 1, or 0 if it can't represent a text.

    Vectors of queries and passages are compared by cosine.
    """

    @property
    def name(self) -> str:
        """Name for people."""
        ...

    @property
    def costly(self) -> bool:
        """True if vectors take time or money: they are made in the background and cached."""
        ...

    @property
    def stamp(self) -> Stamp | None:
        """Stamp of its vectors; None until `connect` has determined it. Never waits."""
        ...

    def connect(self) -> Stamp:
        """Load the model or contact the server; may wait. Later calls are cheap.

        Raises: CortexError EMBEDDER_UNAVAILABLE, EMBEDDER_REFUSED, EMBEDDER_ANSWER,
        EMBEDDER_CHANGED or EMBEDDER_MISSING.
        """
        ...

    def embed(self, texts: Sequence[str], mode: EmbedMode) -> NDArray[np.float32]:
        """Return one row for each text, in order; connects first if necessary.

        Text that is too long is cut. Safe to call from several threads.

        Raises: as `connect`. For a query the time limit is short, since lexical search can answer
        it; passages are worth waiting for.
        """
        ...

    def close(self) -> None:
        """Release memory and connections; waiting `embed` calls raise EMBEDDER_UNAVAILABLE soon."""
        ...


def open_embedder(settings: Settings) -> Embedder | None:
    """Open the configured embedder, or return None if the settings want none.

    With server.localOnly a server beyond this machine is not used: the bundled model takes its
    place.
    """
    if "embeddings" not in settings.indexing.strategies:
        return None
    provider = settings.indexing.embedding_provider
    if provider == "none":
        return None
    if provider == "local" or (settings.server.local_only and leaves(provider, settings)):
        return open_local()
    if provider == "onnx":
        from cortex.engine.embedders.onnx import OnnxEmbedder

        return OnnxEmbedder()
    return _open_remote(provider, settings)


def open_again(stamp: Stamp) -> Embedder | None:
    """Reopen the embedder that made vectors with this stamp, if it runs in this process.

    A server that is no longer configured is not contacted.
    """
    if stamp.provider != "onnx":
        return None
    from cortex.engine.embedders.onnx import STAMP, OnnxEmbedder

    return OnnxEmbedder() if stamp == STAMP else None


def leaves(provider: str, settings: Settings) -> bool:
    """True if this provider, as configured, sends texts beyond this machine."""
    # Imported here, because a bundled model needs no settings.
    from cortex.base.settings import stays_here

    servers = settings.providers
    match provider:
        case "openai":
            return not stays_here(servers.openai.base_url)
        case "ollama":
            return not stays_here(servers.ollama.base_url)
        case "cortex-embed":
            return not stays_here(servers.cortex_embed.base_url)
    return False


def _open_remote(provider: str, settings: Settings) -> Embedder:
    """Open the embedder of a server; the lower of a provider's limit and limits.network counts."""
    from cortex.engine.embedders.remote import RemoteEmbedder, RemoteModel
    from cortex.engine.embedders.server_client import EmbeddingServer

    network = settings.limits.network
    openai, ollama, cortex_embed = (
        settings.providers.openai,
        settings.providers.ollama,
        settings.providers.cortex_embed,
    )
    timeout, batch, requests = (
        network.embedding_timeout,
        network.batch_size,
        network.concurrent_requests,
    )
    match provider:
        case "openai":
            url = (
                openai.base_url
                if urlsplit(openai.base_url).path.strip("/")
                else f"{openai.base_url.rstrip('/')}/v1"
            )
            server = EmbeddingServer(provider, url, openai.api_key, timeout)
            model = RemoteModel(
                openai.model, openai.dimensions, min(openai.batch_size, batch), requests
            )
        case "ollama":
            server = EmbeddingServer(
                provider, ollama.base_url, timeout=min(ollama.timeout, timeout)
            )
            model = RemoteModel(ollama.model, batch=batch, requests=requests)
        case _:
            url = cortex_embed.base_url.rstrip("/").removesuffix("/embed")
            server = EmbeddingServer(provider, url, cortex_embed.token, timeout)
            model = RemoteModel(batch=batch, requests=requests)
    return RemoteEmbedder(server, model)


@cache
def open_local() -> Embedder:
    """Open the bundled model, shared by all projects.

    It is cheap and always available, so it answers until a costly embedder is ready.
    """
    from cortex.engine.embedders.static import StaticEmbedder

    return StaticEmbedder()
