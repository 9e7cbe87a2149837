"""HTTP server for an embedder: `POST /embed`, `GET /` for its health, `GET /model_info`.

Compatible with clients of cortex-embed: the shapes are exactly the same. Errors have the form of
all errors of Cortex. The guard is that of the other HTTP servers. Knows no store and no search.

Road not taken: `/v1/embeddings` as well; better servers exist for that protocol.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial

import anyio
import numpy as np
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cortex.base.errors import CortexError, InputError
from cortex.base.types import Stamp
from cortex.engine.embedders import Embedder, EmbedMode
from cortex.interfaces.transports.http.gateway import (
    Guard,
    HttpError,
    Site,
    json_response,
    read_body,
)
from cortex.interfaces.transports.http.uvicorn_server import Uvicorn, config, listen
from cortex.interfaces.transports.jsonrpc import read_object
from cortex.interfaces.transports.thread_pool import ThreadPool, leave_now
from cortex.toolkit.tool import Call, envelope, unforeseen

EMBED, HEALTH, MODEL = "/embed", "/", "/model_info"
# Texts in one request.
MAX_TEXTS = 2048
# Tokens of one text by provider, where known; a longer text is truncated.
MAX_TOKENS = {"onnx": 256}
USUAL_TOKENS = 512
THREADS = 4
# More decimals than a float32 holds.
DIGITS = 8


class EmbedService:
    """ASGI application that serves one embedder below `/`."""

    def __init__(self, embedder: Embedder, stamp: Stamp, site: Site, threads: ThreadPool) -> None:
        self._embedder = embedder
        self._guard = Guard(site)
        self._threads = threads
        tokens = MAX_TOKENS.get(stamp.provider, USUAL_TOKENS)
        about = {"dimensions": stamp.dimensions, "max_tokens": tokens}
        self._pages: Mapping[str, Mapping[str, object]] = {
            HEALTH: {"status": "ok", "model": stamp.model, **about},
            MODEL: {"name": stamp.model, **about},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            response = await self._respond(scope, receive)
        except ClientDisconnect:
            return
        except HttpError as refused:
            response = refused.response(is_api=True)
        except CortexError as error:
            response = json_response(envelope(error), 503 if error.retryable else 500)
        except Exception as error:
            response = json_response(envelope(unforeseen(error, "embed")), 500)
        await response(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive) -> Response:
        self._guard.check(scope)
        path, method = scope["path"], scope["method"]
        if path in self._pages:
            if method not in ("GET", "HEAD"):
                raise HttpError(405, f"ask for {path} with GET", {"Allow": "GET, HEAD"})
            return _json(self._pages[path])
        if path != EMBED:
            raise HttpError(404, f"the endpoints are {EMBED}, {HEALTH} and {MODEL}")
        if method != "POST":
            raise HttpError(405, f"send texts to {EMBED} with POST", {"Allow": "POST"})
        texts, mode = _parse_request(await read_body(Request(scope, receive)))
        work = partial(self._embedder.embed, texts, mode)
        rows = await self._threads.run(work, Call()) if texts else np.zeros((0, 0))
        return _json({"embeddings": np.round(rows.astype(np.float64), DIGITS).tolist()})


def serve_embedding(embedder: Embedder, site: Site, *, ready: Callable[[int], None]) -> int:
    """Serve an embedder at the site until a signal, and close it; return the exit code.

    `ready` is called with the port once it listens.

    Raises: NetworkError ADDRESS_REFUSED; the errors of `Embedder.connect`.
    """
    threads = ThreadPool(THREADS)
    try:
        with listen(site) as listener:
            app = EmbedService(embedder, embedder.connect(), site, threads)
            server = Uvicorn(config(app, lifespan=False, proxied=bool(site.token)))
            ready(listener.getsockname()[1])
            anyio.run(server.serve, [listener])
    finally:
        embedder.close()
    if threads.running:
        leave_now()
    return 0


def _parse_request(body: bytes) -> tuple[list[str], EmbedMode]:
    """Return the texts and the mode of a request body.

    Raises: HttpError.
    """
    try:
        wanted = read_object(body)
    except ValueError as error:
        raise _refusal(str(error)) from None
    texts, mode = wanted.get("texts"), wanted.get("mode", "passage")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _refusal("`texts` must be a list of texts")
    if len(texts) > MAX_TEXTS:
        raise _refusal(f"`texts` has {len(texts)} texts; send at most {MAX_TEXTS} at once")
    match mode:
        case "query" | "passage":
            return texts, mode
    raise _refusal("`mode` must be query or passage")


def _refusal(what: str) -> HttpError:
    return HttpError(400, what, error=InputError("ARGUMENT_INVALID", what))


def _json(value: Mapping[str, object]) -> Response:
    return json_response(json.dumps(value, ensure_ascii=False, allow_nan=False))
