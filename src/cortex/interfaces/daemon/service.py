"""Service of cortexd: its shared resources, its background work, and a session for each client.

Loaded once the socket listens, because it imports most of Cortex.
"""

from __future__ import annotations

import asyncio
import io
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cortex.base.runtime.home import VERSION
from cortex.base.settings import environment, load
from cortex.engine.store.daily_snapshot import back_up_soon
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.interfaces.assembly import mcp_server
from cortex.interfaces.assembly.families import SharedResources, open_families, resolve_request
from cortex.interfaces.assembly.pool import engine_pool
from cortex.interfaces.daemon.server import (
    ClientMessages,
    ClientRefused,
    ClientSession,
    Daemon,
    Hello,
)
from cortex.interfaces.daemon.session_events import session_event_handler, take_in_soon
from cortex.interfaces.daemon.sync_worker import Syncing

# Time for which a project stays open after its last window.
LINGER_SECONDS = 600.0
# Idle time after which a project with windows is closed when memory is short.
REST_SECONDS = 3.0

log = logging.getLogger(__name__)


def serve(
    listener: socket.socket,
    token: str,
    read_arguments: Callable[[Sequence[str]], Mapping[str, Any]],
    still_elected: Callable[[], bool],
    *,
    skip_sync: bool,
) -> None:
    """Serve until this cortexd is idle, or another one is elected."""
    variables = environment()
    own = load(
        None,
        environment={
            name: variables[name] for name in ("CORTEX_HOME", "CORTEX_PROFILE") if name in variables
        },
    )
    engines = engine_pool(keep=True, linger=LINGER_SECONDS, rest=REST_SECONDS)
    resources = SharedResources(engines, ChunkIndexPool(linger=LINGER_SECONDS))
    log.info("cortexd %s at %s", VERSION, own.home)
    # At the start, so that a short-lived cortexd makes the daily snapshot as well.
    back_up_soon(own.home)
    # Files that hooks wrote while no cortexd ran.
    take_in_soon(engines, own)
    syncing = Syncing(engines, own.home, skip_first=skip_sync)
    syncing.start()

    async def run() -> None:
        daemon = Daemon(
            listener,
            opener(resources, read_arguments),
            session_event_handler(engines),
            resources,
            idle=own.server.idle_timeout,
            memory=own.server.memory,
            token=token,
            has_work=syncing.has_work,
        )
        await daemon.run(still_elected)

    asyncio.run(run())
    syncing.close()
    resources.close()
    log.info("cortexd ends")
    logging.shutdown()


def opener(
    resources: SharedResources, read_arguments: Callable[[Sequence[str]], Mapping[str, Any]]
) -> Callable[[Hello], ClientSession]:
    """Make the function that opens a client's session.

    It follows the client's command line and the settings of its folder and variables.
    """

    def open_served(hello: Hello) -> ClientSession:
        try:
            given = read_arguments(hello.arguments)
        except Exception as error:
            # Typer raises click's errors or its own, depending on the version.
            if not hasattr(error, "format_message"):
                raise
            message = io.StringIO()
            error.show(message)  # type: ignore[attr-defined]
            raise ClientRefused(message.getvalue().strip(), 2) from None
        named = given["families"] or (), given["workspaces"] or ()
        asked = resolve_request(*named, hello.variables, Path(hello.cwd), shared=True)
        address = mcp_server.http_site(given["http"], asked)
        opened, left_out = open_families(asked, resources, read_only=bool(given["read_only"]))
        warnings = tuple(f"warning: {warning}" for warning in (*asked.warnings, *left_out))
        log_sink = ClientMessages()
        identity = mcp_server.identity_of(asked, given["tool_names"], log_sink)
        return ClientSession(opened, identity, warnings, address, log_sink)

    return open_served
