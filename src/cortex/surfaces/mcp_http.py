"""MCP over streamable HTTP at /mcp: one door that every request passes, then the SDK's sessions.

The door refuses, in this order: other paths, a Host or Origin that isn't ours (DNS rebinding), a wrong token, a body that is too
large or no decent JSON. Sessions, streams and revisions are the SDK's. Without a token only loopback is served. Road not taken:
the SDK's OAuth layer, which is for servers with users; here is one token for one person or team.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import anyio
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from cortex.errors import NetworkError
from cortex.surfaces.lines import INVALID_REQUEST, Refusal, parse, without_surrogates
from cortex.surfaces.mcp import CORTEX, Identity, make_server
from cortex.surfaces.mcp_batches import replay
from cortex.surfaces.mcp_sessions import MESSAGE, Sessions
from cortex.surfaces.threads import Threads, end, leave_soon
from cortex.tools import Family

log = logging.getLogger(__name__)

PATH = "/mcp"
MAX_BODY_BYTES = 4 * 1024 * 1024
BODY_SECONDS = 30.0  # for a body to arrive
MAX_SESSIONS = 256
IDLE_SECONDS = 30 * 60.0
MAX_CONNECTIONS = 512
HEAD_SECONDS = 10.0  # for the head of a request to arrive
GRACE_SECONDS = 0.2  # for answers under way when a signal comes


def serve_http(
    families: Sequence[Family],
    host: str,
    port: int,
    token: str | None,
    *,
    ready: Callable[[int], None] | None = None,
    identity: Identity = CORTEX,
) -> int:
    """Serve the families at http://host:port/mcp until a signal, and close them; gives the exit code.

    `ready` is told the port once it listens. Raises: NetworkError ADDRESS_REFUSED.
    """
    threads = Threads()
    with listen(host, port, token) as listener:
        server = _Uvicorn(_config(_app(make_server(families, threads, identity), token or None, is_loopback(host))))
        if ready is not None:
            ready(listener.getsockname()[1])
        anyio.run(server.serve, [listener])
    return end(families, threads)


async def serve_http_within(
    server: Server[Any], listener: socket.socket, host: str, token: str | None, stop: asyncio.Event
) -> None:
    """Serve at a socket inside of a loop that has other things to do, until `stop`; signals are the loop's affair."""
    http = _Guest(_config(_app(server, token or None, is_loopback(host))))

    async def end_when_told() -> None:
        await stop.wait()
        http.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end_when_told)
        await http.serve([listener])
        tasks.cancel_scope.cancel()


def is_loopback(host: str) -> bool:
    """Whether an address or name stays on this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Door:
    """ASGI: refuses what may not or can't be served, and hands on the rest with its body read."""

    def __init__(self, app: ASGIApp, token: str | None, local: bool) -> None:
        self._app = app
        self._token = token
        self._local = local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(Headers(scope=scope), scope["path"])
        if refusal is None and scope["method"] == "POST":
            try:
                body, refusal = await _body(Request(scope, receive))
            except ClientDisconnect:
                return
            message = parse(body)
            if isinstance(message, Refusal):
                refusal = Response(message.line, 400, media_type="application/json")
            if refusal is None:
                scope, receive = {**scope, MESSAGE: message}, replay(without_surrogates(body), receive)
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers, path: str) -> Response | None:
        host = headers.get("host", "")
        if self._local and not is_loopback(_name(f"//{host}")):
            return _refuse(421, "the Host header names another machine")
        origins = [_name(origin) for origin in headers.getlist("origin")]
        if any(origin != _name(f"//{host}") and not is_loopback(origin) for origin in origins):
            return _refuse(403, "requests from other sites are refused")
        if self._token is not None and not _bearer(headers.get("authorization", ""), self._token):
            return _refuse(401, "send `Authorization: Bearer` with the server's token", {"WWW-Authenticate": "Bearer"})
        return None if path.rstrip("/") == PATH else _refuse(404, f"the endpoint is {PATH}")


async def _body(request: Request) -> tuple[bytes, Response | None]:
    """The body of a request, or why it can't be taken."""
    declared = request.headers.get("content-length", "")
    too_large = _refuse(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
    if declared.isdecimal() and int(declared[:20]) > MAX_BODY_BYTES:
        return b"", too_large
    parts, size = [], 0
    with anyio.move_on_after(BODY_SECONDS) as late:
        async for part in request.stream():
            size += len(part)
            if size > MAX_BODY_BYTES:
                return b"", too_large
            parts.append(part)
    if late.cancelled_caught:
        return b"", _refuse(408, "the body did not arrive in time")
    body = b"".join(parts)
    if not body.strip():
        return b"", _refuse(400, "the body is empty")
    return body, None


def _bearer(header: str, token: str) -> bool:
    scheme, _, given = header.partition(" ")
    # Headers arrive decoded as latin-1, whatever the client meant by the bytes.
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), token.encode())


def _name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _refuse(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
    return JSONResponse(error, status, headers=headers)


def _app(server: Server[Any], token: str | None, local: bool) -> ASGIApp:
    sessions = StreamableHTTPSessionManager(
        server,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=MAX_SESSIONS,
        max_request_body_size=MAX_BODY_BYTES,
    )
    inner = Starlette(
        routes=[Mount("/", app=Sessions(sessions.handle_request, MAX_SESSIONS))], lifespan=lambda app: sessions.run()
    )
    return Door(inner, token, local)


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="on",
        http=_Connection,
        ws="none",
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_SECONDS,  # pyright: ignore[reportArgumentType]  a float works and 1 is too long
    )


class _Connection(H11Protocol):
    """A connection that is closed when it begins a request and doesn't come to the end of its head in time."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._late is None:  # whoever sends a byte now and then gets no more time
            self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _Uvicorn(uvicorn.Server):
    """uvicorn that ends on a signal with exit code 0, where the original raises the signal once more."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        leave_soon()
        self.should_exit = True


class _Guest(uvicorn.Server):
    """uvicorn that leaves signals alone."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def listen(host: str, port: int, token: str | None) -> socket.socket:
    """A listening socket. Raises: NetworkError ADDRESS_REFUSED, where others could reach it without a token, or it is taken."""
    if not token and not is_loopback(host):
        raise NetworkError("ADDRESS_REFUSED", f"{host} is reachable from other machines and no token is set")
    name = host.strip("[]")
    try:
        family = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((name, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        raise NetworkError("ADDRESS_REFUSED", f"can't listen on {host}:{port}: {error}") from error
