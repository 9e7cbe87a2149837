"""`cortex mcp`: serve tools to an agent, on stdio or over HTTP.

Usually the shim in daemon/shim.py has passed the command line to cortexd before anything here is
loaded; cortexd then opens the same for the client, with its folder and variables. With --no-sidecar
it is served from this process.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cortex.base.settings import environment
from cortex.families import FAMILIES
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.interfaces.assembly.families import (
    ServeRequest,
    SharedResources,
    check_families,
    open_families,
    resolve_request,
)
from cortex.interfaces.assembly.mcp_server import ToolNames, http_site, identity_of, log_level
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.terminal.options import ProfileOption
from cortex.toolkit.terminal.output import say
from cortex.toolkit.tool import Family


def _first_words(incomplete: str) -> list[str]:
    """Complete a family, or a command that begins with `mcp`."""
    return [word for word in (*FAMILIES, "status", "logs") if word.startswith(incomplete)]


def mcp(
    families: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FAMILY",
            autocompletion=_first_words,
            help="Families of tools; default: code, memory, team, and what has content.",
        ),
    ] = None,
    workspaces: Annotated[
        list[Path] | None,
        typer.Option(
            "--workspace",
            metavar="PATH",
            help="A folder to serve; may be repeated. Default: the project here.",
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http", metavar="HOST:PORT", help="Serve MCP at /mcp and a JSON API at /api."
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Leave out the tools that write.")
    ] = False,
    tool_names: Annotated[
        ToolNames,
        typer.Option(
            "--tool-names",
            help="How tools with a dot in their name are listed; both can be called.",
        ),
    ] = ToolNames.UNDERSCORE,
    no_sidecar: Annotated[
        bool, typer.Option("--no-sidecar", help="Serve from this process instead of cortexd.")
    ] = False,
    profile: ProfileOption = None,
) -> int:
    """Serve tools over the Model Context Protocol."""
    from cortex.interfaces.transports.mcp.std_streams import claim

    check_families(families or ())
    # Before any code can write to stdout.
    stdio = None if http else claim()
    variables = environment() | ({"CORTEX_PROFILE": profile} if profile else {})
    request = resolve_request(families or (), workspaces or [], variables, Path.cwd())
    logging.getLogger().setLevel(log_level(request).upper())
    site = http_site(http, request)
    identity = identity_of(request, tool_names)
    if site is not None:
        from cortex.interfaces.transports.http.mcp_site import serve_http, serving

        return serve_http(
            _open(request, read_only),
            site,
            ready=lambda port: say(serving(site, port), error=True),
            identity=identity,
        )
    from cortex.interfaces.transports.mcp.stdio import serve_stdio

    return serve_stdio(_open(request, read_only), stdio, identity)


def _open(request: ServeRequest, read_only: bool) -> list[Family]:
    families, left_out = open_families(
        request, SharedResources(engine_pool(keep=True), ChunkIndexPool()), read_only=read_only
    )
    for warning in (*request.warnings, *left_out):
        say(f"warning: {warning}", error=True)
    return families


def read_arguments(arguments: Sequence[str]) -> Mapping[str, Any]:
    """Parse a command line of `cortex mcp` into the parameters of `mcp`.

    Raises: click's UsageError.
    """
    from cortex.interfaces.cli import HELP, app

    command = typer.main.get_command(app).commands["mcp"]  # type: ignore[attr-defined]
    return command.make_context("cortex mcp", list(arguments), help_option_names=list(HELP)).params
