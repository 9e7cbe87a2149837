"""The door of the HTTP server: every request passes it, whatever it is for.

It refuses, in this order: a Host or Origin that isn't ours (DNS rebinding), a wrong token, too many
requests, paths that aren't there, and bodies that are no JSON by their type, too large or too late.
What a body says is judged behind it: by `parse` for MCP, by the API itself for the API. Road not
taken: the SDK's OAuth layer, which is for servers with users; here is one token for one person or
team.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import math
import time
from collections.abc import Callable
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
MESSAGE = "cortex.message"  # in the scope of a POST for MCP: what its body says, as `parse` gave it
BODY = "cortex.body"  # in the scope of a POST for the API: its body
MAX_BODY_BYTES = 4 * 1024 * 1024
BODY_SECONDS = 30.0  # for a body to arrive
MINUTE = 60.0
MAX_CLIENTS = 4096  # whose requests are counted
SAFE_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Site:
    """Where HTTP is served, and for whom."""

    host: str
    port: int
    # That every request must carry; empty: none, on loopback only
    token: str = field(default="", repr=False)
    rate: int = 0  # requests per minute of one client; 0: any number

    @property
    def local(self) -> bool:
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether an address or name stays on this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_origin(headers: Headers, *, local: bool) -> None:
    """Let in what was sent to this server from no other site; `local` is one that listens on
    loopback alone. Raises: Refused.
    """
    host = headers.get("host", "")
    if local and not is_loopback(_name(f"//{host}")):
        raise HttpError(421, "the Host header names another machine")
    origins = [_name(origin) for origin in headers.getlist("origin")]
    if any(origin != _name(f"//{host}") and not is_loopback(origin) for origin in origins):
        raise HttpError(403, "requests from other sites are refused")


class Rates:
    """How many requests each client may still send: a minute's worth at once, then as many as come
    back evenly over time.

    One number per client, the moment at which it will have its whole minute back; the clients seen
    last are kept.
    """

    def __init__(
        self, rate: int, most: int = MAX_CLIENTS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._most = most
        self._clock = clock
        self._whole: dict[object, float] = {}  # longest unseen first

    def wait(self, client: object, requests: int = 1) -> float:
        """Count requests; gives 0, or after how many seconds they would be taken (then they aren't
        counted).
        """
        if not self._rate or requests < 1:
            return 0.0
        now = self._clock()
        before = max(now, self._whole.pop(client, now))
        after = before + min(requests, self._rate) * MINUTE / self._rate
        late = after - now - MINUTE
        taken = late < 0.001
        self._whole[client] = after if taken else before
        if len(self._whole) > self._most:
            del self._whole[next(iter(self._whole))]
        return 0.0 if taken else late

    def give_back(self, client: object) -> None:
        """Take back the count of one request."""
        if client in self._whole:
            self._whole[client] -= MINUTE / self._rate

    def __len__(self) -> int:
        return len(self._whole)


class Guard:
    """Judges by its head whether a request may come in: Host, Origin, token, rate."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._rates = Rates(site.rate)

    def check(self, scope: Scope) -> None:
        """Let a request in. Raises: Refused."""
        headers = Headers(scope=scope)
        check_origin(headers, local=self._site.local)
        # Who has no token is counted apart, so that guessing shuts nobody else out
        self.count(scope)
        if not self._admits(headers):
            raise HttpError(
                401,
                "send `Authorization: Bearer` with the server's token",
                {"WWW-Authenticate": "Bearer"},
            )

    def count(self, scope: Scope, requests: int = 1) -> None:
        """Count requests of a client. Raises: Refused, where they are too many."""
        client = (network_of(scope), self._admits(Headers(scope=scope)))
        if seconds := math.ceil(self._rates.wait(client, requests)):
            error = LimitError(
                "RATE_LIMITED",
                f"more than {self._site.rate} requests in a minute; try again in {seconds} s",
                context={"retry_after_seconds": seconds, "requests_per_minute": self._site.rate},
            )
            raise HttpError(429, error.message, {"Retry-After": str(seconds)}, error)

    def _admits(self, headers: Headers) -> bool:
        return not self._site.token or _bearer(headers.get("authorization", ""), self._site.token)


class Door:
    """ASGI: refuses what may not or can't be served, and hands on the rest with its body read."""

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
                        await Response(message.line, 400, SAFE_HEADERS, "application/json")(
                            scope, receive, send
                        )
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
    """A request that isn't served, with its HTTP status."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: dict[str, str] | None = None,
        error: CortexError | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = SAFE_HEADERS | (headers or {})
        self.error = error or NetworkError("REQUEST_REFUSED", message, context={"status": status})

    def response(self, is_api: bool) -> Response:
        """The answer: the form that errors have for the API, around it a JSON-RPC error for MCP."""
        body = envelope(self.error)
        if not is_api:
            detail = {
                "code": INVALID_REQUEST,
                "message": self.error.message,
                "data": json.loads(body),
            }
            body = json.dumps({"jsonrpc": "2.0", "id": None, "error": detail})
        return Response(body, self.status, self.headers, "application/json")


async def read_body(request: Request, most: int = MAX_BODY_BYTES) -> bytes:
    """The body of a request, of so many bytes at most. Raises: Refused."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # The types that a page of another site may send without asking are others
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
    """Whose requests are counted together: an IPv4 address, or the 64 bits of IPv6 that one
    customer has at least.
    """
    try:
        address = ipaddress.ip_address(scope["client"][0].partition("%")[0])
    except (TypeError, ValueError):  # none, or what a proxy made of it
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return str(getattr(address, "ipv4_mapped", None) or address)


def _bearer(header: str, token: str) -> bool:
    scheme, _, given = header.partition(" ")
    # Headers arrive decoded as latin-1, whatever the client meant by the bytes.
    return scheme.lower() == "bearer" and hmac.compare_digest(
        given.strip().encode("latin-1"), token.encode()
    )


def _name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
