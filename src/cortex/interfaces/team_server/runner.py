"""A Core, served: where it listens, with which certificate, what is done in the background, and how
it ends.

On loopback by default; elsewhere only with a certificate, or where somebody says that a proxy has
one: tokens must not travel in the open. At a signal nothing new is taken, what is under way is
answered, and all is closed.
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

GRACE_SECONDS = 20.0  # for what is under way at the end
CLOSE_SECONDS = 5.0  # for threads that nobody waits for any more
LOOK_SECONDS = 30.0  # between two looks at the ledger where nobody asks
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
    """Serve until a signal comes; `ready` is told the address. `directory` is the ledger's own, or
    that of its replica.

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
        _open(ledger, settings, directory) as hall,
    ):
        write_logs(settings.core.log_format, settings.server.log_level)
        app = make_app(hall, ledger, settings, local=is_loopback(where) and not behind_proxy)
        server = Patient(
            config(app, lifespan=False, proxied=behind_proxy, grace=GRACE_SECONDS, tls=certificate)
        )
        ready(address_of(listening, secure=certificate is not None))
        server.run(sockets=[listening])
        _await_threads(app)
    return 0


def check_address(host: str, *, tls: bool, behind_proxy: bool, local_only: bool = False) -> None:
    """Raises: NetworkError ADDRESS_REFUSED, where tokens would travel in the open."""
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
                "Give a certificate with --tls-cert and --tls-key, say --behind-proxy where a proxy has one, or use a loopback address.",
            ),
        )


def address_of(listening: socket.socket, *, secure: bool) -> str:
    """Where a server is reached."""
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
    """A key that wants a password can't be used: nobody is there to type it."""
    raise ValueError("the key is encrypted")


@contextmanager
def _open(ledger: Ledger, settings: Settings, directory: Path) -> Iterator[ReadReplica]:
    """The hall, brought up to date and kept so until the block ends."""
    hall = ReadReplica(settings, ledger, directory)
    ending = threading.Event()
    chores = threading.Thread(target=_keep, args=(hall, ending), name="chores", daemon=True)
    try:
        hall.follow()
        hall.warm()
        # Of an index that was built for the first time: 200 MB with 100,000 records
        give_memory_back()
        chores.start()
        yield hall
    finally:
        ending.set()
        if chores.is_alive():
            chores.join(CLOSE_SECONDS)
        hall.close()


def _keep(hall: ReadReplica, ending: threading.Event) -> None:
    """Follow the ledger where nobody asks, let go of what many at once needed, and drop once a day
    what is older than it is to be kept.
    """
    cleaned = time.monotonic()
    while not ending.wait(LOOK_SECONDS):
        try:
            hall.refresh()
            give_memory_back()
            if time.monotonic() - cleaned > CLEAN_SECONDS:
                cleaned = time.monotonic()
                hall.back.clean_up()
        except CortexError as error:
            log.warning("%s", error.message)


def _await_threads(app: App) -> None:
    """Wait a little for what nobody waits for any more: it may be writing."""
    deadline = time.monotonic() + CLOSE_SECONDS
    while app.busy and time.monotonic() < deadline:
        time.sleep(0.02)
