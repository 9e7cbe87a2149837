"""MCP sessions of HTTP clients, in front of the SDK's: eviction, and permission for batches."""

from __future__ import annotations

from dataclasses import dataclass

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cortex.interfaces.transports.http.gateway import MESSAGE
from cortex.interfaces.transports.jsonrpc import NO_BATCH, RpcBatch, RpcRequest
from cortex.interfaces.transports.jsonrpc_batches import answer_batch, replay
from cortex.interfaces.transports.mcp.server import BATCH_VERSION


@dataclass(slots=True)
class _Session:
    # Requests in progress.
    requests: int = 0
    batches: bool = False


class Sessions:
    """ASGI application that ends the least recently used session to make room for a new one.

    Otherwise clients that connect and disappear would lock out all others until their sessions
    expire.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit
        # Least recently used first.
        self._sessions: dict[str, _Session] = {}
        self._opening = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        id = headers.get(MCP_SESSION_ID_HEADER, "")
        stateless = headers.get(MCP_PROTOCOL_VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS
        message = scope.get(MESSAGE)
        if isinstance(message, RpcBatch) and (
            stateless or not self._sessions.get(id, _Session(batches=bool(id))).batches
        ):
            await Response(NO_BATCH.line, 400, media_type="application/json")(scope, receive, send)
            return
        # The SDK counts it as a session until it is rejected.
        opens = not id and not stateless

        async def watch(said: Message) -> None:
            if said["type"] == "http.response.start":
                opened = Headers(raw=said["headers"]).get(MCP_SESSION_ID_HEADER) if opens else None
                if opened and said["status"] < 400:
                    self._sessions[opened] = _Session(batches=_asks_for_batches(message))
                elif scope["method"] == "DELETE" or said["status"] == 404:
                    self._sessions.pop(id, None)
            await send(said)

        self._opening += opens
        self._count_requests(id, 1)
        try:
            if opens:
                await self._make_room(scope, receive)
            if isinstance(message, RpcBatch):
                await answer_batch(self._app, message, scope, receive, watch)
            else:
                await self._app(scope, receive, watch)
        finally:
            self._opening -= opens
            self._count_requests(id, -1)

    def _count_requests(self, id: str, requests: int) -> None:
        if id in self._sessions:
            session = self._sessions[id] = self._sessions.pop(id)
            session.requests += requests

    async def _make_room(self, scope: Scope, receive: Receive) -> None:
        if len(self._sessions) + self._opening <= self._limit:
            return
        oldest = next((id for id, session in self._sessions.items() if not session.requests), None)
        if oldest is None:
            # All sessions are in use: the SDK rejects the new one.
            return
        del self._sessions[oldest]
        ending = {
            **scope,
            "method": "DELETE",
            "headers": [(MCP_SESSION_ID_HEADER.encode(), oldest.encode())],
        }
        await self._app(ending, replay(b"", receive), _discard)


def _asks_for_batches(message: object) -> bool:
    """True if a handshake negotiates the revision with batches.

    The server accepts every revision that a client may ask for.
    """
    match message:
        case RpcRequest(method="initialize", params={"protocolVersion": version}):
            return version == BATCH_VERSION
    return False


async def _discard(message: Message) -> None:
    pass
