"""An application over HTTP without the library that carries it: a request comes in as a noun, and
an answer goes out as another.

It ends HEAD without a body, and forgets who went away before the answer. Which paths there are, and
who may ask, is the application's.
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
    """An answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"


class Gone(Exception):
    """Whoever asked doesn't wait for the answer any more."""


class Incoming:
    """A request, its body unread."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._scope, self._receive = scope, receive
        self.headers = Headers(scope=scope)

    @property
    def method(self) -> str:
        """What is asked for; HEAD asks for the same as GET, but not to be told it."""
        return "GET" if self._scope["method"] == HEAD else self._scope["method"]

    @property
    def path(self) -> str:
        return self._scope["path"]

    @property
    def query(self) -> bytes:
        return self._scope["query_string"]

    @property
    def network(self) -> str:
        """Where it comes from, as far as requests are counted together."""
        return network_of(self._scope)

    def check_origin(self, *, local: bool) -> None:
        """Let in what was sent to this server from no other site. Raises: Refused."""
        check_origin(self.headers, local=local)

    async def body(self, most: int = MAX_BODY_BYTES) -> bytes:
        """Its body, as JSON. Raises: Refused, Gone."""
        try:
            return await read_body(Request(self._scope, self._receive), most)
        except ClientDisconnect:
            raise Gone from None

    @property
    def has_body(self) -> bool:
        """Whether it says that it has one."""
        return self.headers.get("content-length", "0") != "0" or "transfer-encoding" in self.headers


class Application:
    """ASGI: whatever `respond` answers."""

    async def respond(self, incoming: Incoming) -> Outgoing:
        """The answer to a request. Raises: Gone, and nothing else."""
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            try:
                told = await self.respond(Incoming(scope, receive))
            except Gone:
                return
            response = Response(
                told.body, told.status, {**SAFE_HEADERS, **told.headers}, told.media_type
            )
            if scope["method"] == HEAD:
                response.body = b""  # its headers tell how long it would have been
            await response(scope, receive, send)


async def _live(receive: Receive, send: Send) -> None:
    """There is nothing to do when a server begins and ends: whoever opened what an application
    needs closes it.
    """
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
