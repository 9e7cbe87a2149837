"""`cortex models serve`: serve the configured embedder to other programs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import ConfigError
from cortex.base.settings import environment, load
from cortex.engine.embedders import open_embedder
from cortex.interfaces.assembly.mcp_server import site_at
from cortex.toolkit.terminal.output import say

DEFAULT_PORT = 8121


def serve(
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="HOST", help="Where to listen; beyond this machine only with a token."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="PORT", min=0, max=65_535, help="The port; 0: any that is free."
        ),
    ] = DEFAULT_PORT,
    until_eof: Annotated[
        bool,
        typer.Option(
            "--until-eof",
            hidden=True,
            help="End with the process that holds the other end of stdin.",
        ),
    ] = False,
) -> int:
    """Serve the embedder of your settings: POST /embed, GET / and GET /model_info."""
    settings = load(None, environment=environment(), user_home=Path.home())
    site = site_at(host.strip("[]"), port, [(settings, "your settings")])
    embedder = open_embedder(settings)
    if embedder is None:
        raise ConfigError(
            "CONFIG_INVALID",
            (
                "no embedder is configured: indexing.embeddingProvider is none, or "
                "indexing.strategies leaves embeddings out"
            ),
            context={"key": "indexing.embeddingProvider"},
        )
    from cortex.interfaces.transports.http.embed_api import serve_embedding

    if until_eof:
        threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()

    def ready(port: int) -> None:
        # The embedder is connected already.
        stamp = embedder.connect()
        address = f"http://{f'[{site.host}]' if ':' in site.host else site.host}:{port}"
        say(
            f"serving {stamp.provider} {stamp.model} at {address}; press Ctrl-C to stop", error=True
        )

    return serve_embedding(embedder, site, ready=ready)


def _end_with_stdin() -> None:
    """End this process when its parent closes the other end of stdin."""
    while sys.stdin.buffer.read(1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
