"""The HTTP server: MCP over streamable HTTP at /mcp and the JSON API at /api, behind one door.

Sessions, streams and revisions of MCP are the SDK's, connections uvicorn's; here both get their limits and their end. Without a
token only loopback is served.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from cortex.errors import NetworkError
from cortex.surfaces.http_api import Api
from cortex.surfaces.http_door import MAX_BODY_BYTES, Door, Site
from cortex.surfaces.mcp import CORTEX, Identity, make_server
from cortex.surfaces.mcp_sessions import Sessions
from cortex.surfaces.threads import Threads, end, leave_soon
from cortex.tools import Family

MAX_SESSIONS = 256
IDLE_SECONDS = 30 * 60.0
MAX_CONNECTIONS = 512
HEAD_SECONDS = 10.0  # for the head of a request to arrive
PROXIES = ["127.0.0.1", "::1"]  # that may say for whom they ask
GRACE_SECONDS = 0.2  # for answers under way when a signal comes


def serve_http(
    families: Sequence[Family],
    site: Site,
    *,
    ready: Callable[[int], None] | None = None,
    identity: Identity = CORTEX,
) -> int:
    """Serve the families at the site's /mcp and /api until a signal, and close them; gives the exit code.

    `ready` is told the port once it listens. Raises: NetworkError ADDRESS_REFUSED.
    """
    threads = Threads()
    with listen(site) as listener:
        server = _Uvicorn(_config(_app(families, threads, site, identity), site))
        if ready is not None:
            ready(listener.getsockname()[1])
        anyio.run(server.serve, [listener])
    return end(families, threads)


async def serve_http_within(
    families: Sequence[Family],
    threads: Threads,
    listener: socket.socket,
    site: Site,
    stop: asyncio.Event,
    identity: Identity = CORTEX,
) -> None:
    """Serve at a socket inside of a loop that has other things to do, until `stop`; signals are the loop's affair."""
    http = _Guest(_config(_app(families, threads, site, identity), site))

    async def end_when_told() -> None:
        await stop.wait()
        http.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end_when_told)
        await http.serve([listener])
        tasks.cancel_scope.cancel()


def _app(families: Sequence[Family], threads: Threads, site: Site, identity: Identity) -> ASGIApp:
    server: Server[Any] = make_server(families, threads, identity)
    sessions = StreamableHTTPSessionManager(
        server,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=MAX_SESSIONS,
        max_request_body_size=MAX_BODY_BYTES,
    )
    inner = Starlette(
        routes=[Mount("/", app=Sessions(sessions.handle_request, MAX_SESSIONS))], lifespan=lambda app: sessions.run()
    )
    return Door(inner, Api(families, threads, identity, guarded=bool(site.token)), site)


def _config(app: ASGIApp, site: Site) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="on",
        http=_Connection,
        ws="none",
        server_header=False,
        proxy_headers=bool(site.token),  # behind a proxy there is a token; without one nobody may say who he is
        forwarded_allow_ips=PROXIES,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_SECONDS,  # pyright: ignore[reportArgumentType]  a float works and 1 is too long
    )


class _Connection(H11Protocol):
    """A connection that is closed when it begins a request and doesn't come to the end of its head in time."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Head and body of an answer are two writes; without this the second waits 40 ms for the client's acknowledgement.
        # asyncio does it only for sockets that were made with the protocol's number.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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


def serving(port: int) -> str:
    """What people are told once it listens."""
    return f"serving MCP at port {port}, path /mcp, and the JSON API at /api; press Ctrl-C to stop"


def listen(site: Site) -> socket.socket:
    """A listening socket. Raises: NetworkError ADDRESS_REFUSED, where others could reach it without a token, or it is taken."""
    if not site.token and not site.local:
        raise NetworkError("ADDRESS_REFUSED", f"{site.host} is reachable from other machines and no token is set")
    name = site.host.strip("[]")
    try:
        family = socket.getaddrinfo(name, site.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((name, site.port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        raise NetworkError(
            "ADDRESS_REFUSED",
            f"can't listen on {site.host}:{site.port}: {error}",
            suggestions=("Choose another port, or stop what uses this one.",),
        ) from error
