"""Gateway of the HTTP server, which every request passes.

It rejects, in this order: a foreign Host or Origin (DNS rebinding), a wrong token, too many
requests, unknown paths, and bodies that are not declared as JSON, too large or too late. The
content of a body is checked behind it: by `parse` for MCP, by the API itself for the API.

Road not taken: the SDK's OAuth layer, which is for servers with users; here is one token for one
person or team.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import anyio
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cortex.base.errors import CortexError, InputError, LimitError, NetworkError
from cortex.interfaces.transports.jsonrpc import (
    INVALID_REQUEST,
    Refusal,
    RpcBatch,
    parse,
    without_surrogates,
)
from cortex.interfaces.transports.jsonrpc_batches import replay
from cortex.toolkit.tool import envelope

MCP_PATH = "/mcp"
API_PATH = "/api"
# Scope key of a POST for MCP: the parsed body.
MESSAGE = "cortex.message"
# Scope key of a POST for the API: the raw body.
BODY = "cortex.body"
MAX_BODY_BYTES = 4 * 1024 * 1024
# Time limit for receiving a body.
BODY_SECONDS = 30.0
MINUTE = 60.0
# Clients with a request counter.
MAX_CLIENTS = 4096
SAFE_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Site:
    """Address, token and rate limit of an HTTP server."""

    host: str
    port: int
    # Token that every request has to carry; empty for none, on loopback only.
    token: str = field(default="", repr=False)
    # Requests per minute of one client; 0 for unlimited.
    rate: int = 0

    @property
    def local(self) -> bool:
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """True for an address or name of this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_origin(headers: Headers, *, local: bool) -> None:
    """Reject requests with a foreign Host or Origin.

    `local` is true for a server that listens on loopback only.

    Raises: HttpError.
    """
    host = headers.get("host", "")
    if local and not is_loopback(_host_name(f"//{host}")):
        raise HttpError(421, "the Host header names another machine")
    origins = [_host_name(origin) for origin in headers.getlist("origin")]
    if any(origin != _host_name(f"//{host}") and not is_loopback(origin) for origin in origins):
        raise HttpError(403, "requests from other sites are refused")


class Rates:
    """Rate limiter per client: a minute's worth at once, then evenly over time.

    It keeps one number per client, the time at which the whole minute is available again, for the
    clients seen last.
    """

    def __init__(
        self, rate: int, most: int = MAX_CLIENTS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._most = most
        self._clock = clock
        # Least recently seen first.
        self._refilled_at: dict[object, float] = {}

    def wait(self, client: object, requests: int = 1) -> float:
        """Count requests; return 0, or the seconds to wait if they exceed the limit.

        Requests beyond the limit aren't counted.
        """
        if not self._rate or requests < 1:
            return 0.0
        now = self._clock()
        before = max(now, self._refilled_at.pop(client, now))
        after = before + min(requests, self._rate) * MINUTE / self._rate
        late = after - now - MINUTE
        taken = late < 0.001
        self._refilled_at[client] = after if taken else before
        if len(self._refilled_at) > self._most:
            del self._refilled_at[next(iter(self._refilled_at))]
        return 0.0 if taken else late

    def check(self, client: object, requests: int = 1) -> None:
        """Count requests.

        Raises: LimitError RATE_LIMITED where they exceed the limit.
        """
        if seconds := math.ceil(self.wait(client, requests)):
            raise LimitError(
                "RATE_LIMITED",
                f"more than {self._rate} requests in a minute; try again in {seconds} s",
                context={"retry_after_seconds": seconds, "requests_per_minute": self._rate},
            )

    def give_back(self, client: object) -> None:
        """Undo the count of one request."""
        if client in self._refilled_at:
            self._refilled_at[client] -= MINUTE / self._rate

    def __len__(self) -> int:
        return len(self._refilled_at)


class Guard:
    """Checks the headers of a request: Host, Origin, token, rate."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._rates = Rates(site.rate)

    def check(self, scope: Scope) -> None:
        """Admit a request.

        Raises: HttpError.
        """
        headers = Headers(scope=scope)
        check_origin(headers, local=self._site.local)
        # Requests without the token are counted apart, so that guessing locks out no other client.
        self.count(scope)
        if not self._admits(headers):
            raise HttpError(
                401,
                "send `Authorization: Bearer` with the server's token",
                {"WWW-Authenticate": "Bearer"},
            )

    def count(self, scope: Scope, requests: int = 1) -> None:
        """Count requests of a client.

        Raises: HttpError where they exceed the rate limit.
        """
        try:
            self._rates.check((network_of(scope), self._admits(Headers(scope=scope))), requests)
        except LimitError as error:
            headers = {"Retry-After": str(error.context["retry_after_seconds"])}
            raise HttpError(429, error.message, headers, error) from None

    def _admits(self, headers: Headers) -> bool:
        return not self._site.token or _has_bearer_token(
            headers.get("authorization", ""), self._site.token
        )


class Gateway:
    """ASGI application that rejects bad requests and passes on the others with their body."""

    def __init__(self, mcp: ASGIApp, api: ASGIApp, site: Site) -> None:
        self._mcp = mcp
        self._api = api
        self._guard = Guard(site)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._mcp(scope, receive, send)
            return
        path = scope["path"]
        is_api = path == API_PATH or path.startswith(f"{API_PATH}/")
        try:
            self._guard.check(scope)
            if not is_api and path.rstrip("/") != MCP_PATH:
                raise HttpError(404, f"the endpoints are {MCP_PATH} and {API_PATH}")
            if scope["method"] == "POST":
                body = await read_body(Request(scope, receive))
                if is_api:
                    scope = {**scope, BODY: body}
                else:
                    message = parse(body)
                    if isinstance(message, Refusal):
                        await json_response(message.line, 400)(scope, receive, send)
                        return
                    if isinstance(message, RpcBatch):
                        self._guard.count(scope, message.requests - 1)
                    scope, receive = (
                        {**scope, MESSAGE: message},
                        replay(without_surrogates(body), receive),
                    )
        except ClientDisconnect:
            return
        except HttpError as refused:
            await refused.response(is_api)(scope, receive, send)
            return
        await (self._api if is_api else self._mcp)(scope, receive, send)


class HttpError(Exception):
    """A rejected request, with its HTTP status."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: dict[str, str] | None = None,
        error: CortexError | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        self.error = error or NetworkError("REQUEST_REFUSED", message, context={"status": status})

    def response(self, is_api: bool) -> Response:
        """Build the response: the API's form of an error, wrapped in JSON-RPC for MCP."""
        body = envelope(self.error)
        if not is_api:
            detail = {
                "code": INVALID_REQUEST,
                "message": self.error.message,
                "data": json.loads(body),
            }
            body = json.dumps({"jsonrpc": "2.0", "id": None, "error": detail})
        return json_response(body, self.status, self.headers)


def json_response(
    body: str | bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Build a response of encoded JSON that no cache keeps."""
    return Response(body, status, {**SAFE_HEADERS, **(headers or {})}, "application/json")


async def read_body(request: Request, most: int = MAX_BODY_BYTES) -> bytes:
    """Read the body of a request, at most `most` bytes.

    Raises: HttpError.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # A page of another site can't send this type without a CORS preflight.
    if kind != "application/json":
        raise HttpError(415, "send the body as `Content-Type: application/json`")
    declared = request.headers.get("content-length", "")
    too_large = HttpError(413, f"the body is larger than {most} bytes")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise too_large
    parts, size = [], 0
    with anyio.move_on_after(BODY_SECONDS) as late:
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise too_large
            parts.append(part)
    if late.cancelled_caught:
        raise HttpError(408, "the body did not arrive in time")
    body = b"".join(parts)
    if not body.strip():
        error = InputError(
            "ARGUMENT_INVALID", "the body is empty; send {} where there is nothing to say"
        )
        raise HttpError(400, error.message, error=error)
    return body


def network_of(scope: Scope) -> str:
    """Return the network that requests are counted by.

    It is an IPv4 address, or the 64-bit prefix that an IPv6 customer has at least.
    """
    try:
        address = ipaddress.ip_address(scope["client"][0].partition("%")[0])
    # No address, or one that a proxy rewrote.
    except (TypeError, ValueError):
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return str(getattr(address, "ipv4_mapped", None) or address)


def _has_bearer_token(header: str, token: str) -> bool:
    scheme, _, given = header.partition(" ")
    # Headers arrive decoded as latin-1, regardless of the encoding of the client.
    return scheme.lower() == "bearer" and hmac.compare_digest(
        given.strip().encode("latin-1"), token.encode()
    )


def _host_name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
