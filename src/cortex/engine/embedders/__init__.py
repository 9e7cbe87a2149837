"""Text -> vectors: what every embedder can do, and the one door through which the chosen one is
opened.

Knows nothing of chunks, stores or searching. An embedder is optional: without one, search answers
by words. Opening one costs little and can't fail: whatever must be loaded or asked is loaded or
asked by `connect`, which says why where it can't be. Road not taken: a class hierarchy; embedders
share no code, only this shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import urlsplit

from cortex.base.types import Stamp

# Without an embedder nobody needs numpy, and loading it is a tenth of a server's start
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cortex.base.settings import Settings

EmbedMode = Literal["query", "passage"]
QUERY_SECONDS = 5.0  # what a query may take of an embedder: then words answer


class Embedder(Protocol):
    """Turns texts into vectors of length 1, or 0 where it makes nothing of a text; those of queries
    and of passages are compared by cosine.
    """

    @property
    def name(self) -> str:
        """How people know it."""
        ...

    @property
    def costly(self) -> bool:
        """Whether a vector takes time or money worth saving: then it is made in the background, and
        kept once it is made.
        """
        ...

    @property
    def stamp(self) -> Stamp | None:
        """What its vectors are stamped with; None until `connect` has found out. Never waits."""
        ...

    def connect(self) -> Stamp:
        """Load the model or ask the server, once; may wait. Cheap when it is done.

        Raises: CortexError EMBEDDER_UNAVAILABLE, EMBEDDER_REFUSED, EMBEDDER_ANSWER,
        EMBEDDER_CHANGED or EMBEDDER_MISSING.
        """
        ...

    def embed(self, texts: Sequence[str], mode: EmbedMode) -> NDArray[np.float32]:
        """One row for each text, in order; connects where that has not been done.

        Too long a text is cut. Threads may call it at once.

        Raises: as `connect`. A query is given up soon, since words can answer it; passages are
        worth waiting for.
        """
        ...

    def close(self) -> None:
        """Let go of memory and connections; whoever waits in `embed` is told EMBEDDER_UNAVAILABLE
        soon.
        """
        ...


def open_embedder(settings: Settings) -> Embedder | None:
    """The embedder that the settings choose, None where they want none.

    With server.localOnly a server beyond this machine is not used: the model of the distribution
    takes its place.
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
    """The embedder that made vectors with this stamp, where it runs in this process: a server that
    is no longer chosen is not asked.
    """
    if stamp.provider != "onnx":
        return None
    from cortex.engine.embedders.onnx import STAMP, OnnxEmbedder

    return OnnxEmbedder() if stamp == STAMP else None


def leaves(provider: str, settings: Settings) -> bool:
    """Whether a provider's texts go beyond this machine, as it is configured."""
    # Here, because a model that is loaded by itself needs no settings
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
    """The embedder that asks a server: of a provider's limit and limits.network the lower one
    counts.
    """
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
    """The model that is part of the distribution, one for all projects: cheap, always there, what
    answers until a costly one is ready.
    """
    from cortex.engine.embedders.static import StaticEmbedder

    return StaticEmbedder()
