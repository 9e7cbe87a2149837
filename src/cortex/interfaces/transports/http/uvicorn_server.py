"""Sockets and uvicorn servers for HTTP, with their limits and their shutdown.

Knows no path and no protocol above HTTP; `gateway` decides about access. Without a token only
loopback is listened on.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from cortex.base.errors import NetworkError
from cortex.interfaces.transports.http.gateway import Site
from cortex.interfaces.transports.thread_pool import leave_soon

MAX_CONNECTIONS = 512
# Time limit for receiving the headers of a request.
HEAD_SECONDS = 10.0
# Proxies that may forward a client address, if a token is set.
PROXIES = ["127.0.0.1", "::1"]
# Time for responses in progress when a signal arrives.
GRACE_SECONDS = 0.2


def config(
    app: ASGIApp,
    *,
    lifespan: bool = True,
    proxied: bool = False,
    grace: float = GRACE_SECONDS,
    tls: tuple[Path, Path] | None = None,
) -> uvicorn.Config:
    """Build the uvicorn configuration for an application.

    `proxied` lets a proxy on this machine forward the client address; `tls` are a certificate and
    its key.
    """
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="on" if lifespan else "off",
        http=_Connection,
        ws="none",
        server_header=False,
        proxy_headers=proxied,
        forwarded_allow_ips=PROXIES,
        limit_concurrency=MAX_CONNECTIONS,
        # A float works, and 1 is too long.
        timeout_graceful_shutdown=grace,  # pyright: ignore[reportArgumentType]
        ssl_certfile=tls[0] if tls else None,
        ssl_keyfile=tls[1] if tls else None,
    )


class _Connection(H11Protocol):
    """Connection that is closed if the headers of a request don't arrive in time."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Head and body of an answer are two writes; without this the second waits 40 ms for the
        # client's acknowledgement. asyncio does it only for sockets that were made with the
        # protocol's number.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._update_timer()

    def handle_events(self) -> None:
        super().handle_events()
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        super().connection_lost(exc)

    def _update_timer(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_timer()
        # A byte now and then doesn't extend the time.
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _cancel_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class Uvicorn(uvicorn.Server):
    """uvicorn server that exits with code 0 on a signal; the original raises the signal again."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        leave_soon()
        self.should_exit = True


class Patient(uvicorn.Server):
    """uvicorn server that answers requests in progress on a signal, then exits with code 0.

    A second signal ends it at once.
    """

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


class Guest(uvicorn.Server):
    """uvicorn server that leaves signals to the event loop."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def listen(site: Site) -> socket.socket:
    """Open a listening socket for a site.

    Raises: NetworkError ADDRESS_REFUSED where it is reachable by others without a token, or taken.
    """
    if not site.token and not site.local:
        raise NetworkError(
            "ADDRESS_REFUSED",
            f"{site.host} is reachable from other machines and no token is set",
            suggestions=(
                "Use a loopback address, or set CORTEX_HTTP_TOKEN to serve beyond this machine.",
            ),
        )
    return listen_on(site.host, site.port)


def listen_on(host: str, port: int) -> socket.socket:
    """Open a listening socket, without access checks.

    Raises: NetworkError ADDRESS_REFUSED where the address is taken or invalid.
    """
    name = host.strip("[]")
    try:
        family = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((name, port), family=family, backlog=128)
    except (OSError, OverflowError, UnicodeError) as error:
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        raise NetworkError(
            "ADDRESS_REFUSED",
            f"can't listen on {host}:{port}: {error}",
            suggestions=("Stop what uses this one.",) if taken else (),
        ) from error
