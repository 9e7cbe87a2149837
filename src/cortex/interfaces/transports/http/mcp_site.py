"""HTTP server: MCP over streamable HTTP at /mcp and the JSON API at /api.

The SDK handles sessions, streams and revisions of MCP, uvicorn the connections; this module sets
their limits and their shutdown. Without a token only loopback is served.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from cortex.interfaces.transports.http.gateway import MAX_BODY_BYTES, Gateway, Site
from cortex.interfaces.transports.http.json_api import Api
from cortex.interfaces.transports.http.mcp_sessions import Sessions
from cortex.interfaces.transports.http.uvicorn_server import Guest, Uvicorn, config, listen
from cortex.interfaces.transports.mcp.server import CORTEX, Identity, make_server
from cortex.interfaces.transports.thread_pool import ThreadPool, end
from cortex.toolkit.tool import Family

MAX_SESSIONS = 256
IDLE_SECONDS = 30 * 60.0


def serve_http(
    families: Sequence[Family],
    site: Site,
    *,
    ready: Callable[[int], None] | None = None,
    identity: Identity = CORTEX,
) -> int:
    """Serve the families at /mcp and /api until a signal, and close them; return the exit code.

    `ready` is called with the port once it listens.

    Raises: NetworkError ADDRESS_REFUSED.
    """
    threads = ThreadPool()
    with listen(site) as listener:
        server = Uvicorn(config(_app(families, threads, site, identity), proxied=bool(site.token)))
        if ready is not None:
            ready(listener.getsockname()[1])
        anyio.run(server.serve, [listener])
    return end(families, threads)


async def serve_http_within(
    families: Sequence[Family],
    threads: ThreadPool,
    listener: socket.socket,
    site: Site,
    stop: asyncio.Event,
    identity: Identity = CORTEX,
) -> None:
    """Serve at a socket inside a running event loop, until `stop` is set.

    The loop handles the signals.
    """
    http = Guest(config(_app(families, threads, site, identity), proxied=bool(site.token)))

    async def end_when_told() -> None:
        await stop.wait()
        http.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end_when_told)
        await http.serve([listener])
        tasks.cancel_scope.cancel()


def _app(
    families: Sequence[Family], threads: ThreadPool, site: Site, identity: Identity
) -> ASGIApp:
    server: Server[Any] = make_server(families, threads, identity)
    sessions = StreamableHTTPSessionManager(
        server,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=MAX_SESSIONS,
        max_request_body_size=MAX_BODY_BYTES,
    )
    inner = Starlette(
        routes=[Mount("/", app=Sessions(sessions.handle_request, MAX_SESSIONS))],
        lifespan=lambda app: sessions.run(),
    )
    return Gateway(inner, Api(families, threads, identity, guarded=bool(site.token)), site)


def serving(site: Site, port: int) -> str:
    """Return the message for the user once the server listens."""
    host = f"[{site.host}]" if ":" in site.host else site.host
    return (
        f"serving MCP at http://{host}:{port}/mcp, and the JSON API at /api; press Ctrl-C to stop"
    )
