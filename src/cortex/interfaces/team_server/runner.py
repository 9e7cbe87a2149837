"""Run a Core: address, certificate, background work and shutdown.

It listens on loopback by default; elsewhere only with a certificate or behind a proxy that has one,
since tokens must not travel unencrypted. On a signal it accepts no new requests, answers those in
progress and closes everything.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cortex.base.errors import ConfigError, CortexError, InputError, NetworkError
from cortex.base.runtime.process_stats import give_memory_back
from cortex.base.settings import Settings
from cortex.engine.store.records.ledger import Ledger
from cortex.interfaces.team_server.access_log import write_logs
from cortex.interfaces.team_server.app import App, make_app
from cortex.interfaces.team_server.read_replica import ReadReplica
from cortex.interfaces.transports.http.gateway import is_loopback
from cortex.interfaces.transports.http.uvicorn_server import Patient, config, listen_on

# Time for requests in progress at shutdown.
GRACE_SECONDS = 20.0
# Time for threads without a waiting client at shutdown.
CLOSE_SECONDS = 5.0
# Interval for following the ledger without requests.
LOOK_SECONDS = 30.0
CLEAN_SECONDS = 86_400.0

log = logging.getLogger(__name__)


def serve_core(
    ledger: Ledger,
    settings: Settings,
    directory: Path,
    *,
    host: str | None = None,
    port: int | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    behind_proxy: bool = False,
    ready: Callable[[str], None] = lambda address: None,
) -> int:
    """Serve until a signal arrives; `ready` is called with the address.

    `directory` holds the ledger itself or its replica.

    Raises: NetworkError ADDRESS_REFUSED, ConfigError CONFIG_INVALID for a certificate, StoreError.
    """
    where = settings.core.host if host is None else host
    check_address(
        where,
        tls=tls_cert is not None,
        behind_proxy=behind_proxy,
        local_only=settings.server.local_only,
    )
    certificate = _certificate(tls_cert, tls_key)
    with (
        listen_on(where, settings.core.port if port is None else port) as listening,
        _open(ledger, settings, directory) as replica,
    ):
        write_logs(settings.core.log_format, settings.server.log_level)
        app = make_app(replica, ledger, settings, local=is_loopback(where) and not behind_proxy)
        server = Patient(
            config(app, lifespan=False, proxied=behind_proxy, grace=GRACE_SECONDS, tls=certificate)
        )
        ready(address_of(listening, secure=certificate is not None))
        server.run(sockets=[listening])
        _await_threads(app)
    return 0


def check_address(host: str, *, tls: bool, behind_proxy: bool, local_only: bool = False) -> None:
    """Check that tokens don't travel unencrypted to this address.

    Raises: NetworkError ADDRESS_REFUSED.
    """
    if is_loopback(host):
        return
    if local_only:
        raise NetworkError(
            "ADDRESS_REFUSED",
            f"{host} is reachable from other machines, and server.localOnly is on",
        )
    if not tls and not behind_proxy:
        raise NetworkError(
            "ADDRESS_REFUSED",
            f"{host} is reachable from other machines, and tokens would travel in the open",
            suggestions=(
                (
                    "Give a certificate with --tls-cert and --tls-key, say --behind-proxy where "
                    "a proxy has one, or use a loopback address."
                ),
            ),
        )


def address_of(listening: socket.socket, *, secure: bool) -> str:
    """Return the URL of a listening socket."""
    name, port = listening.getsockname()[:2]
    return f"{'https' if secure else 'http'}://{f'[{name}]' if ':' in name else name}:{port}"


def _certificate(cert: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise InputError("ARGUMENT_INVALID", "a certificate and its key belong together: give both")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, _no_password)
    except (OSError, ValueError) as error:
        why = f"the certificate {cert} or its key {key} can't be used: {error}"
        raise ConfigError(
            "CONFIG_INVALID", why, instead=("Give both as PEM, the key without a password.",)
        ) from error
    return cert, key


def _no_password() -> str:
    """Reject an encrypted key: a server can't ask for its password."""
    raise ValueError("the key is encrypted")


@contextmanager
def _open(ledger: Ledger, settings: Settings, directory: Path) -> Iterator[ReadReplica]:
    """Open the replica, bring it up to date and keep it so until the block ends."""
    replica = ReadReplica(settings, ledger, directory)
    stop = threading.Event()
    chores = threading.Thread(target=_run_chores, args=(replica, stop), name="chores", daemon=True)
    try:
        replica.follow()
        replica.warm()
        # The first build of an index leaves 200 MB with 100,000 records.
        give_memory_back()
        chores.start()
        yield replica
    finally:
        stop.set()
        if chores.is_alive():
            chores.join(CLOSE_SECONDS)
        replica.close()


def _run_chores(replica: ReadReplica, stop: threading.Event) -> None:
    """Follow the ledger without requests, free memory, and purge old data once a day."""
    cleaned = time.monotonic()
    while not stop.wait(LOOK_SECONDS):
        try:
            replica.refresh()
            give_memory_back()
            if time.monotonic() - cleaned > CLEAN_SECONDS:
                cleaned = time.monotonic()
                replica.back.clean_up()
        except CortexError as error:
            log.warning("%s", error.message)


def _await_threads(app: App) -> None:
    """Wait a little for threads without a waiting client: they may be writing."""
    deadline = time.monotonic() + CLOSE_SECONDS
    while app.busy and time.monotonic() < deadline:
        time.sleep(0.02)
