"""Configuration of an MCP server by `cortex mcp`: address, identity, log level.

Used by the command where it serves from its own process, and by cortexd for each client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from cortex.base.errors import InputError, NetworkError
from cortex.base.settings import Settings
from cortex.interfaces.assembly.families import ServeRequest

# The SDK is loaded at run time only after stdout is claimed.
if TYPE_CHECKING:
    from cortex.interfaces.transports.http.gateway import Site
    from cortex.interfaces.transports.mcp.server import Identity

calls = logging.getLogger("cortex.calls")
Tell = Callable[[str], None]
# Used where server.transport is http and no flag gives an address.
DEFAULT_ADDRESS = ("127.0.0.1", 8765)


class ToolNames(StrEnum):
    """Spelling of tool names."""

    UNDERSCORE = "underscore"
    DOTTED = "dotted"


def log_level(asked: ServeRequest) -> str:
    """Return the level of the log on stderr.

    Where only documents are served, `mcp.kb.logging` applies, unless `server.logLevel` is set.
    """
    settings = asked.settings
    if asked.names != ("kb",) or settings.origin("server.logLevel") != "default":
        return settings.server.log_level
    chosen = asked.person.mcp.kb
    return chosen.logging.level if chosen.logging.to_stderr else "error"


def http_site(http: str | None, asked: ServeRequest) -> Site | None:
    """Return the address and token to serve over HTTP, None for another transport.

    Raises: InputError, NetworkError ADDRESS_REFUSED.
    """
    if http is None and asked.settings.server.transport != "http":
        return None
    host, port = _address(http) if http else DEFAULT_ADDRESS
    owners = [(workspace.settings, str(workspace.root)) for workspace in asked.found]
    return site_at(host, port, owners or [(asked.person, "you")])


def site_at(host: str, port: int, owners: Sequence[tuple[Settings, str]]) -> Site:
    """Return the address to serve, with the token and the rate limit of the first settings.

    `owners` are settings with a name for messages; each of them may forbid other machines.

    Raises: NetworkError ADDRESS_REFUSED.
    """
    from cortex.interfaces.transports.http.gateway import Site, is_loopback

    for settings, where in owners:
        if settings.server.local_only and not is_loopback(host):
            raise NetworkError(
                "ADDRESS_REFUSED",
                f"server.localOnly is on for {where}, and {host} is not a loopback address",
                suggestions=(
                    f"Use 127.0.0.1, or turn it off in: {settings.origin('server.localOnly')}.",
                ),
            )
    server = owners[0][0].server
    return Site(host, port, server.http_token, server.rate_limit)


def identity_of(asked: ServeRequest, tool_names: ToolNames, tell: Tell | None = None) -> Identity:
    """Return the server's identity, the spelling of its tools, and the tracer of calls.

    `tell` writes to the stderr of a client of cortexd.
    """
    from cortex.interfaces.transports.mcp.server import Identity

    server = asked.settings.server
    trace = _tracer(asked, tell)
    return Identity(server.name, server.version, dotted=tool_names is ToolNames.DOTTED, trace=trace)


def _tracer(asked: ServeRequest, tell: Tell | None) -> Callable[[str, str], None] | None:
    """Build a tracer that logs each call at level debug.

    All calls are logged by server.logLevel, those of documents by mcp.kb.logging, too.
    """
    settings, documents = asked.settings, asked.person.mcp.kb.logging
    everything = settings.server.log_level == "debug"
    chosen = settings.origin("server.logLevel") != "default"
    # Without cortexd the log is stderr, which documents use only with mcp.kb.logging.to_stderr.
    kb = documents.level == "debug" and not chosen and (tell is not None or documents.to_stderr)
    if not everything and not kb:
        return None

    def trace(family: str, text: str) -> None:
        if everything or family == "kb":
            # Bypasses the level of the process: a client of cortexd has its own.
            calls.handle(calls.makeRecord(calls.name, logging.DEBUG, __file__, 0, text, (), None))
        if kb and family == "kb" and documents.to_stderr and tell is not None:
            tell(text)

    return trace


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise InputError(
            "ARGUMENT_INVALID", f"--http wants HOST:PORT, for example 127.0.0.1:8765, not {text!r}"
        )
    return host.strip("[]") or "127.0.0.1", int(port)
