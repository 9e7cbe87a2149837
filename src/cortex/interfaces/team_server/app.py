"""The team server (Core) over HTTP, as an ASGI application.

A request passes these checks in order: Host and Origin, token, rate limit, path, method, tier,
idempotency key, query, body. Handlers block, so they run in threads; the event loop never waits.
Every response is an envelope, errors included.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from cortex.base.errors import CortexError, LimitError, NetworkError, StoreError
from cortex.base.runtime.home import VERSION
from cortex.base.settings import Settings
from cortex.engine.store.records.ledger import Ledger
from cortex.engine.store.records.principals import Principal, is_token
from cortex.families.team.ids import new_ulid
from cortex.interfaces.team_server import access_policy
from cortex.interfaces.team_server.access_log import ServedRequest, note
from cortex.interfaces.team_server.metrics import CONTENT_TYPE, Metrics
from cortex.interfaces.team_server.openapi import describe
from cortex.interfaces.team_server.rate_limits import RateLimits
from cortex.interfaces.team_server.read_replica import ReadReplica
from cortex.interfaces.team_server.responses import (
    API,
    DOCUMENT,
    REQUEST_ID,
    RouteResult,
    answer,
    as_bytes,
    encoded,
    failure,
    plain,
    refusal,
)
from cortex.interfaces.team_server.router import (
    Route,
    RouteContext,
    ServerParts,
    Table,
    payload_of,
    permit,
    read_body,
    read_key,
    read_query,
)
from cortex.interfaces.team_server.routes import principals as routes_people
from cortex.interfaces.team_server.routes import records, sync, workflow
from cortex.interfaces.transports.http import gateway
from cortex.interfaces.transports.http.gateway import HttpError, check_origin, network_of
from cortex.interfaces.transports.thread_pool import THREADS, BoundedShare, ThreadPool
from cortex.toolkit.tool import Call, unforeseen

ROUTES: tuple[Route, ...] = (*records.ROUTES, *workflow.ROUTES, *sync.ROUTES, *routes_people.ROUTES)
SCHEMAS: Mapping[str, Mapping[str, object]] = {**records.SCHEMAS, **sync.SCHEMAS}
HEALTH, METRICS = "/health", "/metrics"
# Time limit of a request.
REQUEST_SECONDS = 60.0
# Time for which a health check of the database is reused.
HEALTH_SECONDS = 1.0
# Time limit of a health check.
PING_SECONDS = 1.0
# Most threads for writers and for unauthenticated clients ("strangers").
WRITERS, STRANGERS = THREADS // 2, 2
# Most threads for readers. With sixteen, a search took twice the CPU, contending for the
# interpreter lock.
READERS = 2
# Attempts to read while the access of the principal changes.
READ_ATTEMPTS = 3
# Most characters of a method in the access log; a client may send any text.
MAX_METHOD = 20
_VALID_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class _Workers:
    """The thread pools of one event loop.

    Neither writers, which may wait in the database for each other, nor unauthenticated clients,
    which have low priority, take a thread from readers. Readers share a few threads, since they
    contend for one interpreter. Health checks have a thread of their own.
    """

    loop: asyncio.AbstractEventLoop
    all: ThreadPool
    reading: ThreadPool
    writing: ThreadPool
    strangers: ThreadPool
    health: ThreadPool


class App:
    """The ASGI application of a Core.

    Paths are matched here and not by starlette's router, because only a client with a token learns
    which paths exist.
    """

    def __init__(
        self, core: ServerParts, *, local: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Create the application of a Core.

        `local` rejects requests to any host name but those of this machine.
        """
        self._core = core
        self._local = local
        self._table = Table(ROUTES)
        self._limits = RateLimits(core.settings.core.rates, clock)
        # If this fails, the tokens are read with the next request.
        with suppress(CortexError):
            self._limits.know(core.ledger.principals.good())
        self._metrics = Metrics()
        self._worker_pools: _Workers | None = None
        # The OpenAPI document: 133 KB, 3 ms to build.
        self._document = as_bytes(describe(ROUTES, SCHEMAS))
        # Number of threads that run a handler, guarded by the lock.
        self._working_lock, self._working = threading.Lock(), 0
        # Time and result of the last health check.
        self._last_ping = (-HEALTH_SECONDS, False)
        self._ping_task: asyncio.Task[bool] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            # The owner of the resources opens and closes them.
            await Router().lifespan(scope, receive, send)
        elif scope["type"] == "http":
            with suppress(ClientDisconnect):
                response = await self._respond(Request(scope, receive))
                if scope["method"] == "HEAD":
                    # The headers keep the length of the omitted body.
                    response.body = b""
                await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        """Answer a request, count it and write it to the access log.

        Raises: ClientDisconnect.
        """
        started = time.perf_counter()
        served = ServedRequest(_request_id(request), method=_method_of(request)[:MAX_METHOD])
        self._metrics.under_way += 1
        try:
            response = await self._respond_or_fail(request, served)
        finally:
            self._metrics.under_way -= 1
        seconds = time.perf_counter() - started
        self._metrics.count(_method_of(request), served.route, response.status_code, seconds)
        served.status, served.ms = response.status_code, round(1000 * seconds, 2)
        note(served)
        return response

    async def _respond_or_fail(self, request: Request, served: ServedRequest) -> Response:
        """Answer a request; turn every error into a response."""
        try:
            return await self._dispatch(request, served)
        except HttpError as refused:
            return refusal(refused, served.request_id)
        except CortexError as error:
            return failure(error, served.request_id, _challenge(error))
        except ClientDisconnect:
            raise
        except Exception as error:
            return failure(unforeseen(error, served.route), served.request_id)

    async def _dispatch(self, request: Request, served: ServedRequest) -> Response:
        """Authenticate a request and run the handler of its path."""
        path, method = request.scope["path"], _method_of(request)
        check_origin(request.headers, local=self._local)
        if path in (HEALTH, DOCUMENT):
            served.route = path
            _need_method(method, {"GET"})
            if path == HEALTH:
                return await self._health(served.request_id)
            self._limits.count_stranger(network_of(request.scope))
            return encoded(self._document, served.request_id)
        principal = await self._authenticate(request)
        served.principal = principal.name
        self._limits.count(principal)
        if path == METRICS:
            served.route = path
            _need_method(method, {"GET"})
            text = self._metrics.text(await self._run(self._lag, Call(), self._workers().health))
            return encoded(text.encode(), served.request_id, media_type=CONTENT_TYPE)
        methods, variables = (
            self._table.find(path.removeprefix(API)) if path.startswith(f"{API}/") else ({}, {})
        )
        if not methods:
            raise HttpError(404, f"there is no such path; {DOCUMENT} lists all paths")
        served.route = API + next(iter(methods.values())).path
        if method == "OPTIONS":
            return encoded(b"", served.request_id, 204, {"Allow": _allowed(methods)})
        _need_method(method, methods)
        return await self._serve(methods[method], variables, principal, request, served.request_id)

    async def _serve(
        self,
        route: Route,
        variables: Mapping[str, str],
        principal: Principal,
        request: Request,
        request_id: str,
    ) -> Response:
        permit(route, principal)
        key = read_key(route, request.headers.getlist("idempotency-key"))
        query = read_query(route, request.scope["query_string"])
        raw = b"" if route.body is None else await _body_of(request, route)
        call = Call()

        # Parsing and writing megabytes of JSON would block the event loop.
        def work() -> Response:
            body = None if route.body is None else read_body(route.body, raw)
            context_of = partial(
                RouteContext,
                self._core,
                path=variables,
                query=query,
                body=body,
                key=key,
                payload=payload_of(route.method, route.path.format(**variables), body),
                cancel=call.cancel,
            )
            result, replayed = self._perform(route, principal, context_of)
            return answer(result, request_id, replayed=replayed)

        workers = self._workers()
        return await self._run(work, call, workers.writing if route.writes else workers.reading)

    def _perform(
        self, route: Route, principal: Principal, context_of: Callable[..., RouteContext]
    ) -> tuple[RouteResult, bool]:
        """Run a route with the principal's access; called in a thread.

        A reader's access may shrink while the records are read: then the route is run again. A
        writer's access is checked inside the write transaction.

        Raises: StoreError STORE_LOCKED if the access changes on every attempt.
        """
        replica = self._core.replica
        for _ in range(READ_ATTEMPTS):
            (replica.refresh if route.searches else replica.keep_up)()
            viewer = access_policy.viewer_of(principal, replica.subcortexes())
            with self._at_work(), replica.viewed_by(viewer) as visit:
                context = context_of(principal=principal, viewer=viewer, visit=visit)
                result = route.run(context), visit.replayed
            access = None if route.writes else replica.present.look(principal.name)
            if access is None or access[1] == viewer:
                return result
            principal = access[0]
        raise StoreError("STORE_LOCKED", f"the access of {principal.name} is being changed")

    def _workers(self) -> _Workers:
        """Return the thread pools of the running event loop."""
        loop = asyncio.get_running_loop()
        if self._worker_pools is None or self._worker_pools.loop is not loop:
            threads = ThreadPool()
            reading, writing, strangers = (
                BoundedShare(threads, most) for most in (READERS, WRITERS, STRANGERS)
            )
            self._worker_pools = _Workers(loop, threads, reading, writing, strangers, ThreadPool(1))
        return self._worker_pools

    @property
    def busy(self) -> bool:
        """True while a thread runs a handler, even if its client is gone."""
        return self._working > 0

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._working_lock:
            self._working += 1
        try:
            yield
        finally:
            with self._working_lock:
                self._working -= 1

    async def _run(self, work: Callable[[], Any], call: Call, threads: ThreadPool) -> Any:
        """Run blocking work in a thread pool.

        Raises: LimitError SEARCH_TIMEOUT if it exceeds the time limit.
        """
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await threads.run(work, call)
        except TimeoutError:
            message = "the request took too long; it may be repeated with the same idempotency key"
            raise LimitError("SEARCH_TIMEOUT", message) from None

    # -- authentication

    async def _authenticate(self, request: Request) -> Principal:
        """Return the principal of the request's token.

        Raises: NetworkError AUTH_REQUIRED, AUTH_EXPIRED; LimitError RATE_LIMITED if
        unauthenticated clients of this network exceed their rate limit.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        network, workers = network_of(request.scope), self._workers()
        good = await self._is_good(token)
        if not good:
            self._limits.count_stranger(network)
        found: Principal | NetworkError = NetworkError(
            "AUTH_REQUIRED", "send `Authorization: Bearer` with a token of this Core"
        )
        if is_token(token):
            look = partial(self._look_up, token, found)
            found = await self._run(look, Call(), workers.all if good else workers.strangers)
            self._limits.note(token, network, good=isinstance(found, Principal))
        if isinstance(found, NetworkError):
            raise found
        return found

    async def _is_good(self, token: str) -> bool:
        """True if the cached list of valid tokens has this token.

        The list is reloaded now and then, so that owners of new tokens don't count as strangers.
        """
        if self._limits.wants(token):
            # The lookup of the token reports the error, after the request was counted.
            with suppress(CortexError):
                self._limits.know(
                    await self._run(self._core.ledger.principals.good, Call(), self._workers().all)
                )
        return self._limits.is_good(token)

    def _look_up(self, token: str, unknown: NetworkError) -> Principal | NetworkError:
        """Return the principal of a token, or the error to answer with; `unknown` is the default.

        The error for a revoked principal names the ledger and the principal, because a client
        erases its replica only if both are its own.
        """
        principals = self._core.ledger.principals
        if (principal := principals.by_token(token)) is not None:
            return principal
        if name := principals.name_of_revoked(token):
            context = {"reason": "revoked", "epoch": self._core.ledger.epoch(), "name": name}
            message = "the principal of this token was revoked"
            return NetworkError("AUTH_EXPIRED", message, context=context)
        if principals.is_known(token):
            message = "this token was revoked or has expired"
            return NetworkError("AUTH_EXPIRED", message)
        return unknown

    # -- health

    async def _health(self, request_id: str) -> Response:
        """Report whether the database answers.

        However many requests there are, it is asked at most once a second, one question at a time.
        """
        if time.monotonic() - self._last_ping[0] >= HEALTH_SECONDS:
            ping = self._ping_task
            if ping is None or ping.done() or ping.get_loop() is not asyncio.get_running_loop():
                ping = self._ping_task = asyncio.create_task(
                    self._workers().health.run(self._ping, Call())
                )
            await asyncio.wait({ping}, timeout=PING_SECONDS)
            self._last_ping = (time.monotonic(), ping.done() and ping.result())
        answered = self._last_ping[1]
        status = {"status": "ok" if answered else "unavailable", "version": VERSION}
        return plain(status, request_id, 200 if answered else 503)

    def _ping(self) -> bool:
        try:
            self._core.ledger.ping()
        except CortexError:
            return False
        return True

    def _lag(self) -> int:
        try:
            return self._core.replica.lag()
        except CortexError:
            return -1


def make_app(
    replica: ReadReplica,
    ledger: Ledger,
    settings: Settings,
    *,
    local: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> App:
    """Build the ASGI application of a Core."""
    return App(ServerParts(replica, ledger, settings), local=local, clock=clock)


async def _body_of(request: Request, route: Route) -> bytes:
    """Return the body of a request; `{}` where none was sent and none is required."""
    headers = request.headers
    announced = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if announced or route.needs_body:
        return await gateway.read_body(request, route.most)
    return b"{}"


def _method_of(request: Request) -> str:
    """Return the method of a request, with HEAD as GET."""
    return "GET" if request.method == "HEAD" else request.method


def _need_method(method: str, methods: Mapping[str, Route] | set[str]) -> None:
    if method not in methods:
        raise HttpError(405, f"this path allows {_allowed(methods)}", {"Allow": _allowed(methods)})


def _allowed(methods: Mapping[str, Route] | set[str]) -> str:
    return ", ".join((*sorted(methods), *(("HEAD",) if "GET" in methods else ()), "OPTIONS"))


def _request_id(request: Request) -> str:
    """Return the request id sent by the client, if valid, else a new one."""
    given = request.headers.get(REQUEST_ID.lower(), "")
    return given if _VALID_REQUEST_ID.fullmatch(given) else f"req_{new_ulid()}"


def _challenge(error: CortexError) -> dict[str, str]:
    return {"WWW-Authenticate": "Bearer"} if error.code in ("AUTH_REQUIRED", "AUTH_EXPIRED") else {}
