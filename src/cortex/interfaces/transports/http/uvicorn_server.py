"""Connections of the HTTP servers: where they listen, and the limits and the end that uvicorn is
given.

Knows no path and no protocol above HTTP; who may ask is `http_door.py`'s. Without a token only
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
HEAD_SECONDS = 10.0  # for the head of a request to arrive
# That may say for whom they ask, where there is a token: without one nobody may
PROXIES = ["127.0.0.1", "::1"]
GRACE_SECONDS = 0.2  # for answers under way when a signal comes


def config(
    app: ASGIApp,
    *,
    lifespan: bool = True,
    proxied: bool = False,
    grace: float = GRACE_SECONDS,
    tls: tuple[Path, Path] | None = None,
) -> uvicorn.Config:
    """How uvicorn is to serve an app; `proxied` lets a proxy on this machine say for whom it asks,
    `tls` are a certificate and its key.
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
        timeout_graceful_shutdown=grace,  # pyright: ignore[reportArgumentType]  a float works and 1 is too long
        ssl_certfile=tls[0] if tls else None,
        ssl_keyfile=tls[1] if tls else None,
    )


class _Connection(H11Protocol):
    """A connection that is closed when it begins a request and doesn't come to the end of its head
    in time.
    """

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Head and body of an answer are two writes; without this the second waits 40 ms for the
        # client's acknowledgement. asyncio does it only for sockets that were made with the
        # protocol's number.
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


class Uvicorn(uvicorn.Server):
    """uvicorn that ends on a signal with exit code 0, where the original raises the signal once
    more.
    """

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        leave_soon()
        self.should_exit = True


class Patient(uvicorn.Server):
    """uvicorn that answers what is under way when a signal comes, and ends with exit code 0; at a
    second one at once.
    """

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


class Guest(uvicorn.Server):
    """uvicorn that leaves signals alone."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def listen(site: Site) -> socket.socket:
    """A listening socket.

    Raises: NetworkError ADDRESS_REFUSED, where others could reach it without a token, or it is
    taken.
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
    """A listening socket, whoever can reach it.

    Raises: NetworkError ADDRESS_REFUSED, where the address is taken or none.
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
