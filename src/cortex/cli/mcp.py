"""`cortex mcp`: serve tools to an agent, on stdio or over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cortex.cli import workspace
from cortex.cli.show import say
from cortex.errors import InputError, NetworkError
from cortex.settings import Workspace
from cortex.tools import Family

if TYPE_CHECKING:  # the SDK is loaded once stdout is claimed
    from cortex.surfaces.mcp import Identity

FAMILIES = ("code",)
DEFAULT_ADDRESS = ("127.0.0.1", 8765)  # where server.transport is http and no flag says where


def mcp(
    families: Annotated[
        list[str] | None,
        typer.Argument(metavar="FAMILY", help="Families of tools; default: all that have content."),
    ] = None,
    workspaces: Annotated[
        list[Path] | None,
        typer.Option(
            "--workspace", metavar="PATH", help="A folder to serve; may be repeated. Default: the project here."
        ),
    ] = None,
    http: Annotated[
        str | None, typer.Option("--http", metavar="HOST:PORT", help="Serve streamable HTTP at /mcp.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Leave out the tools that write.")] = False,
) -> int:
    """Serve tools over the Model Context Protocol."""
    for name in families or ():
        if name not in FAMILIES:
            raise InputError("ARGUMENT_INVALID", f"unknown family {name!r}; known: {', '.join(FAMILIES)}")
    if http:
        host, port = _address(http)
        return _serve_http(host, port, workspace.find(workspaces or []), read_only)
    return _serve_as_set(workspaces or [], read_only)


def _serve_as_set(paths: list[Path], read_only: bool) -> int:
    """Serve as `server.transport` says."""
    from cortex.surfaces.stdio import claim

    stdio = claim()  # before anything can write to stdout
    found = workspace.find(paths)
    if found[0].settings.server.transport == "http":
        return _serve_http(*DEFAULT_ADDRESS, found, read_only)
    opened = _open(found, read_only)
    from cortex.surfaces.mcp_stdio import serve_stdio

    return serve_stdio(opened, stdio, _identity(found))


def _serve_http(host: str, port: int, found: Sequence[Workspace], read_only: bool) -> int:
    from cortex.surfaces.mcp_http import is_loopback, serve_http

    local = [one for one in found if one.settings.server.local_only]
    if local and not is_loopback(host):
        raise NetworkError(
            "ADDRESS_REFUSED",
            f"server.localOnly is on for {local[0].root}, and {host} is not a loopback address",
            suggestions=(f"Use 127.0.0.1, or turn it off in: {local[0].settings.origin('server.localOnly')}.",),
        )
    token = found[0].settings.server.http_token or None
    return serve_http(_open(found, read_only), host, port, token, ready=_say, identity=_identity(found))


def _identity(found: Sequence[Workspace]) -> Identity:
    from cortex.surfaces.mcp import Identity

    server = found[0].settings.server
    return Identity(server.name, server.version)


def _open(found: Sequence[Workspace], read_only: bool) -> list[Family]:
    from cortex.families.code import open_family

    family = open_family(found, keep=True, read_only=read_only)
    family.context.start()
    return [family]


def _say(port: int) -> None:
    say(f"serving MCP at port {port}, path /mcp; press Ctrl-C to stop", error=True)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise InputError("ARGUMENT_INVALID", f"--http wants HOST:PORT, for example 127.0.0.1:8765, not {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)
