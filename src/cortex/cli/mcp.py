"""`cortex mcp`: serve tools to an agent, on stdio or over HTTP.

Usually the front end in daemon/shim.py has carried the command line to cortexd before anything here is loaded; then the same is
opened there, for the client with its own folder and variables. With --no-sidecar it is served from this process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cortex.cli.families import Asked, Lenders, ask, check_families, open_families
from cortex.cli.options import ProfileOption
from cortex.cli.show import say
from cortex.engines import Engines
from cortex.errors import InputError, NetworkError
from cortex.settings import Settings, environment
from cortex.shelf.shelves import Shelves
from cortex.tools import Family

if TYPE_CHECKING:  # the SDK is loaded once stdout is claimed
    from cortex.surfaces.http_door import Site
    from cortex.surfaces.mcp import Identity

calls = logging.getLogger("cortex.calls")
Tell = Callable[[str], None]
DEFAULT_ADDRESS = ("127.0.0.1", 8765)  # where server.transport is http and no flag says where


class ToolNames(StrEnum):
    """How names of tools are spelled."""

    UNDERSCORE = "underscore"
    DOTTED = "dotted"


def mcp(
    families: Annotated[
        list[str] | None,
        typer.Argument(metavar="FAMILY", help="Families of tools; default: code, memory, team, and what has content."),
    ] = None,
    workspaces: Annotated[
        list[Path] | None,
        typer.Option(
            "--workspace", metavar="PATH", help="A folder to serve; may be repeated. Default: the project here."
        ),
    ] = None,
    http: Annotated[
        str | None, typer.Option("--http", metavar="HOST:PORT", help="Serve MCP at /mcp and a JSON API at /api.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Leave out the tools that write.")] = False,
    tool_names: Annotated[
        ToolNames,
        typer.Option("--tool-names", help="How tools with a dot in their name are listed; both can be called."),
    ] = ToolNames.UNDERSCORE,
    no_sidecar: Annotated[
        bool, typer.Option("--no-sidecar", help="Serve from this process instead of cortexd.")
    ] = False,
    profile: ProfileOption = None,
) -> int:
    """Serve tools over the Model Context Protocol."""
    from cortex.surfaces.stdio import claim

    check_families(families or ())
    stdio = None if http else claim()  # before anything can write to stdout
    variables = environment() | ({"CORTEX_PROFILE": profile} if profile else {})
    asked = ask(families or (), workspaces or [], variables, Path.cwd())
    logging.getLogger().setLevel(log_level(asked).upper())
    site = http_site(http, asked)
    identity = identity_of(asked, tool_names)
    if site is not None:
        from cortex.surfaces.mcp_http import serve_http, serving

        return serve_http(
            _open(asked, read_only), site, ready=lambda port: say(serving(site, port), error=True), identity=identity
        )
    from cortex.surfaces.mcp_stdio import serve_stdio

    return serve_stdio(_open(asked, read_only), stdio, identity)


def log_level(asked: Asked) -> str:
    """What goes to stderr. Where documents alone are served, `mcp.kb.logging` has its say, unless somebody chose `server.logLevel`."""
    settings = asked.settings
    if asked.names != ("kb",) or settings.origin("server.logLevel") != "default":
        return settings.server.log_level
    chosen = asked.person.mcp.kb
    return chosen.logging.level if chosen.logging.to_stderr else "error"


def http_site(http: str | None, asked: Asked) -> Site | None:
    """Where to serve and for whom, if it is HTTP that is wanted. Raises: InputError, NetworkError ADDRESS_REFUSED."""
    if http is None and asked.settings.server.transport != "http":
        return None
    host, port = _address(http) if http else DEFAULT_ADDRESS
    told = [(one.settings, str(one.root)) for one in asked.found]
    return site_at(host, port, told or [(asked.person, "you")])


def site_at(host: str, port: int, told: Sequence[tuple[Settings, str]]) -> Site:
    """Where to serve, with the token and the rate of the first settings; all of them may forbid other machines.

    Raises: NetworkError ADDRESS_REFUSED.
    """
    from cortex.surfaces.http_door import Site, is_loopback

    for settings, where in told:
        if settings.server.local_only and not is_loopback(host):
            raise NetworkError(
                "ADDRESS_REFUSED",
                f"server.localOnly is on for {where}, and {host} is not a loopback address",
                suggestions=(f"Use 127.0.0.1, or turn it off in: {settings.origin('server.localOnly')}.",),
            )
    server = told[0][0].server
    return Site(host, port, server.http_token, server.rate_limit)


def identity_of(asked: Asked, tool_names: ToolNames, tell: Tell | None = None) -> Identity:
    """How the server calls itself and its tools, and who hears of each call; `tell` reaches the stderr of a client of cortexd."""
    from cortex.surfaces.mcp import Identity

    server = asked.settings.server
    trace = _tracer(asked, tell)
    return Identity(server.name, server.version, dotted=tool_names is ToolNames.DOTTED, trace=trace)


def _tracer(asked: Asked, tell: Tell | None) -> Callable[[str, str], None] | None:
    """Logs each call at level debug: all of them by server.logLevel, those of documents by mcp.kb.logging too."""
    settings, documents = asked.settings, asked.person.mcp.kb.logging
    everything = settings.server.log_level == "debug"
    chosen = settings.origin("server.logLevel") != "default"
    # Without cortexd the log is stderr, which is for documents only where they are told to use it.
    kb = documents.level == "debug" and not chosen and (tell is not None or documents.to_stderr)
    if not everything and not kb:
        return None

    def trace(family: str, text: str) -> None:
        if everything or family == "kb":
            # Whatever the level of the process is: a client of cortexd has its own.
            calls.handle(calls.makeRecord(calls.name, logging.DEBUG, __file__, 0, text, (), None))
        if kb and family == "kb" and documents.to_stderr and tell is not None:
            tell(text)

    return trace


def _open(asked: Asked, read_only: bool) -> list[Family]:
    families, left_out = open_families(asked, Lenders(Engines(keep=True), Shelves()), read_only=read_only)
    for warning in (*asked.warnings, *left_out):
        say(f"warning: {warning}", error=True)
    return families


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise InputError("ARGUMENT_INVALID", f"--http wants HOST:PORT, for example 127.0.0.1:8765, not {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


def read_arguments(arguments: Sequence[str]) -> Mapping[str, Any]:
    """What a command line of `cortex mcp` says, by the parameters of `mcp`. Raises: click's UsageError."""
    from cortex.cli import app

    command = typer.main.get_command(app).commands["mcp"]  # type: ignore[attr-defined]
    return command.make_context("cortex mcp", list(arguments)).params
