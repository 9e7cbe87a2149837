"""Base class of an HTTP application: a request in, a response out, independent of starlette.

It answers HEAD without a body and drops the response of a disconnected client. Paths and access are
up to the application.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cortex.interfaces.transports.http.gateway import (
    MAX_BODY_BYTES,
    SAFE_HEADERS,
    check_origin,
    network_of,
    read_body,
)

HEAD = "HEAD"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A response."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"


class Gone(Exception):
    """The client disconnected before the response."""


class Incoming:
    """A request with its body unread."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._scope, self._receive = scope, receive
        self.headers = Headers(scope=scope)

    @property
    def method(self) -> str:
        """The method, with HEAD reported as GET."""
        return "GET" if self._scope["method"] == HEAD else self._scope["method"]

    @property
    def path(self) -> str:
        return self._scope["path"]

    @property
    def query(self) -> bytes:
        return self._scope["query_string"]

    @property
    def network(self) -> str:
        """The network that requests are counted by."""
        return network_of(self._scope)

    def check_origin(self, *, local: bool) -> None:
        """Reject requests with a foreign Host or Origin.

        Raises: HttpError.
        """
        check_origin(self.headers, local=local)

    async def body(self, most: int = MAX_BODY_BYTES) -> bytes:
        """Read the body, which has to be JSON.

        Raises: HttpError, Gone.
        """
        try:
            return await read_body(Request(self._scope, self._receive), most)
        except ClientDisconnect:
            raise Gone from None

    @property
    def has_body(self) -> bool:
        """True where the headers announce a body."""
        return self.headers.get("content-length", "0") != "0" or "transfer-encoding" in self.headers


class Application:
    """ASGI application over `respond`."""

    async def respond(self, incoming: Incoming) -> Outgoing:
        """Answer a request.

        Raises: Gone, and nothing else.
        """
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _run_lifespan(receive, send)
        elif scope["type"] == "http":
            try:
                outgoing = await self.respond(Incoming(scope, receive))
            except Gone:
                return
            response = Response(
                outgoing.body,
                outgoing.status,
                {**SAFE_HEADERS, **outgoing.headers},
                outgoing.media_type,
            )
            if scope["method"] == HEAD:
                # The headers keep the length of the omitted body.
                response.body = b""
            await response(scope, receive, send)


async def _run_lifespan(receive: Receive, send: Send) -> None:
    """Acknowledge startup and shutdown; the owner of the resources closes them."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
