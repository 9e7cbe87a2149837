"""The Core over HTTP: who asks, whether they may, what they asked for, and what they are told; as
an ASGI application.

In this order: Host and Origin, the token, the rate, the path, the method, the tier, the key, the
query, the body. What a route does blocks, so it runs in a thread; the event loop never waits.
Whatever comes in, what goes out is an envelope.
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
from cortex.interfaces.transports.http.application import Application, Gone, Incoming, Outgoing
from cortex.interfaces.transports.http.gateway import HttpError
from cortex.interfaces.transports.thread_pool import THREADS, BoundedShare, ThreadPool
from cortex.toolkit.tool import Call, unforeseen

ROUTES: tuple[Route, ...] = (
    *records.ROUTES,
    *workflow.ROUTES,
    *sync.ROUTES,
    *routes_people.ROUTES,
)
SCHEMAS: Mapping[str, Mapping[str, object]] = {**records.SCHEMAS, **sync.SCHEMAS}
HEALTH, METRICS = "/health", "/metrics"
REQUEST_SECONDS = 60.0  # for an answer
HEALTH_SECONDS = 1.0  # for which it is known whether the database answers
PING_SECONDS = 1.0  # for its answer
WRITERS, STRANGERS = THREADS // 2, 2  # threads that they have at most
READERS = 2  # with sixteen a search took twice the CPU, waiting for the interpreter again and again
LOOKS = 3  # at something, while others change who may see it
MAX_METHOD = 20  # characters that are noted of one that somebody made up
UNKNOWN = "unknown"  # in place of a route, where there is none
_OWN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class _Workers:
    """The threads of one event loop: they tell it what they have done.

    Whoever writes may wait in the database for others who do, and whoever isn't known is in no
    hurry: neither keeps those who read from a thread, and nobody keeps whoever asks how it is.
    Those who read have a few, since it is one interpreter that they all want.
    """

    loop: asyncio.AbstractEventLoop
    all: ThreadPool
    reading: ThreadPool
    writing: ThreadPool
    strange: ThreadPool
    watching: ThreadPool


@dataclass(slots=True)
class _Noted:
    """What a log tells of a request."""

    request_id: str
    route: str = UNKNOWN
    principal: str = ""


class App(Application):
    """A Core."""

    def __init__(
        self, core: ServerParts, *, local: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`local` refuses requests that were sent to another name than this machine's: there is no
        other.
        """
        self._core = core
        self._local = local
        self._table = Table(ROUTES)
        self._limits = RateLimits(core.settings.core.rates, clock)
        with suppress(CortexError):  # it is asked again
            self._limits.know(core.ledger.principals.good())
        self._metrics = Metrics()
        self._crew: _Workers | None = None
        self._document = as_bytes(describe(ROUTES, SCHEMAS))  # 133 KB, 3 ms each time
        self._turn, self._working = threading.Lock(), 0  # threads that are at work
        self._pinged = (-HEALTH_SECONDS, False)  # when, and whether it answered
        self._pinging: asyncio.Task[bool] | None = None

    async def respond(self, incoming: Incoming) -> Outgoing:
        """The answer to a request, counted and noted."""
        started = time.perf_counter()
        noted = _Noted(_request_id(incoming))
        self._metrics.under_way += 1
        try:
            told = await self._answer(incoming, noted)
        finally:
            self._metrics.under_way -= 1
        seconds, method = time.perf_counter() - started, incoming.method
        self._metrics.count(method, noted.route, told.status, seconds)
        ms = round(1000 * seconds, 2)
        note(
            ServedRequest(
                noted.request_id, noted.principal, method[:MAX_METHOD], noted.route, told.status, ms
            )
        )
        return told

    async def _answer(self, incoming: Incoming, noted: _Noted) -> Outgoing:
        """An answer to whatever was asked."""
        try:
            return await self._find(incoming, noted)
        except HttpError as refused:
            return refusal(refused, noted.request_id)
        except CortexError as error:
            return failure(error, noted.request_id, _challenge(error))
        except Gone:
            raise
        except Exception as error:
            return failure(unforeseen(error, noted.route), noted.request_id)

    async def _find(self, incoming: Incoming, noted: _Noted) -> Outgoing:
        """What answers at a path, and that."""
        path = incoming.path
        incoming.check_origin(local=self._local)
        if path in (HEALTH, DOCUMENT):
            noted.route = path
            _need_method(incoming, {"GET"})
            if path == HEALTH:
                return await self._health(noted)
            self._limits.count_stranger(incoming.network)
            return Outgoing(200, self._document, {REQUEST_ID: noted.request_id})
        principal = await self._authenticate(incoming)
        noted.principal = principal.name
        self._limits.count(principal)
        if path == METRICS:
            noted.route = path
            _need_method(incoming, {"GET"})
            text = self._metrics.text(await self._run(self._lag, Call(), self._workers().watching))
            return Outgoing(200, text.encode(), {REQUEST_ID: noted.request_id}, CONTENT_TYPE)
        methods, variables = (
            self._table.find(path.removeprefix(API)) if path.startswith(f"{API}/") else ({}, {})
        )
        if not methods:
            raise HttpError(404, f"there is no such path; {DOCUMENT} names those that there are")
        noted.route = API + next(iter(methods.values())).path
        if incoming.method == "OPTIONS":
            return Outgoing(204, headers={"Allow": _allowed(methods), REQUEST_ID: noted.request_id})
        _need_method(incoming, methods)
        return await self._serve(methods[incoming.method], variables, principal, incoming, noted)

    async def _serve(
        self,
        route: Route,
        variables: Mapping[str, str],
        principal: Principal,
        incoming: Incoming,
        noted: _Noted,
    ) -> Outgoing:
        permit(route, principal)
        key = read_key(route, incoming.headers.getlist("idempotency-key"))
        query = read_query(route, incoming.query)
        raw = b"" if route.body is None else await _body_of(incoming, route)
        call = Call()

        # To read and to write megabytes of JSON takes long enough to keep everybody waiting
        def work() -> Outgoing:
            body = None if route.body is None else read_body(route.body, raw)
            told, replayed = self._perform(route, variables, principal, query, body, key, call)
            return answer(told, noted.request_id, replayed=replayed)

        workers = self._workers()
        return await self._run(work, call, workers.writing if route.writes else workers.reading)

    def _perform(
        self,
        route: Route,
        variables: Mapping[str, str],
        principal: Principal,
        query: Any,
        body: Any,
        key: str,
        call: Call,
    ) -> tuple[RouteResult, bool]:
        """Do what a route does, as far as whoever asks may; in a thread.

        What they may see can become less between the two moments in which that and the records are
        looked up: then it is done again. Who writes is judged when they do. Raises: StoreError
        STORE_LOCKED, where that happens each time.
        """
        hall = self._core.hall
        asked_for = payload_of(route.method, route.path.format(**variables), body)
        for _ in range(LOOKS):
            (hall.refresh if route.searches else hall.keep_up)()
            viewer = access_policy.viewer_of(principal, hall.subcortexes())
            with self._at_work(), hall.as_(viewer) as visit:
                asked = RouteContext(
                    self._core,
                    principal,
                    viewer,
                    visit,
                    variables,
                    query,
                    body,
                    key,
                    asked_for,
                    call.cancel,
                )
                told = route.run(asked), visit.replayed
            found = None if route.writes else hall.present.look(principal.name)
            if found is None or found[1] == viewer:
                return told
            principal = found[0]
        raise StoreError("STORE_LOCKED", f"what {principal.name} may see was changed just now")

    def _workers(self) -> _Workers:
        """The threads of this event loop."""
        loop = asyncio.get_running_loop()
        if self._crew is None or self._crew.loop is not loop:
            threads = ThreadPool()
            reading, writing, strange = (
                BoundedShare(threads, most) for most in (READERS, WRITERS, STRANGERS)
            )
            self._crew = _Workers(loop, threads, reading, writing, strange, ThreadPool(1))
        return self._crew

    @property
    def busy(self) -> bool:
        """Whether a thread is at work, whoever waits for it."""
        return self._working > 0

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._turn:
            self._working += 1
        try:
            yield
        finally:
            with self._turn:
                self._working -= 1

    async def _run(self, work: Callable[[], Any], call: Call, threads: ThreadPool) -> Any:
        """What blocking work gives. Raises: LimitError, where it takes too long."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await threads.run(work, call)
        except TimeoutError:
            why = "it took too long; with the same key it can be tried again"
            raise LimitError("SEARCH_TIMEOUT", why) from None

    # -- who asks
    # ------------------------------------------------------------------------------------------------------

    async def _authenticate(self, incoming: Incoming) -> Principal:
        """Whoever asks.

        Raises: NetworkError AUTH_REQUIRED, AUTH_EXPIRED; LimitError, where strangers ask too often.
        """
        scheme, _, token = incoming.headers.get("authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        good, known, put_out, workers = await self._is_good(token), False, {}, self._workers()
        if not good:
            self._limits.count_stranger(incoming.network)
        if is_token(token):
            look = partial(self._look_up, token)
            principal, known, put_out = await self._run(
                look, Call(), workers.all if good else workers.strange
            )
            self._limits.note(token, incoming.network, good=principal is not None)
            if principal is not None:
                return principal
        if put_out:
            raise NetworkError(
                "AUTH_EXPIRED", "whoever has this token may not come in any more", context=put_out
            )
        if known:
            raise NetworkError(
                "AUTH_EXPIRED", "this token counts no more: it was revoked, or its time is over"
            )
        raise NetworkError(
            "AUTH_REQUIRED", "send `Authorization: Bearer` with a token of this Core"
        )

    async def _is_good(self, token: str) -> bool:
        """Whether a token counts, as far as that is known without asking for it: that is for those
        who aren't strangers.
        """
        if self._limits.wants(token):
            with suppress(CortexError):  # whoever asks is told, once they are counted
                self._limits.know(
                    await self._run(self._core.ledger.principals.good, Call(), self._workers().all)
                )
        return self._limits.is_good(token)

    def _look_up(self, token: str) -> tuple[Principal | None, bool, dict[str, str]]:
        """Whose token it is, whether it is or was one, and what its owner is told who was put out.

        That names the ledger and the owner: a home erases what it has only for its own ledger and
        its own person.
        """
        principals = self._core.ledger.principals
        if (found := principals.whose(token)) is not None:
            return found, True, {}
        if name := principals.put_out(token):
            return (
                None,
                True,
                {"reason": "revoked", "epoch": self._core.ledger.epoch(), "name": name},
            )
        return None, principals.is_known(token), {}

    # -- how it is
    # -----------------------------------------------------------------------------------------------------

    async def _health(self, noted: _Noted) -> Outgoing:
        """Whether it could answer; the database is asked once a second at most, and once at a time,
        however many want to know.
        """
        if time.monotonic() - self._pinged[0] >= HEALTH_SECONDS:
            ping = self._pinging
            if ping is None or ping.done() or ping.get_loop() is not asyncio.get_running_loop():
                ping = self._pinging = asyncio.create_task(
                    self._workers().watching.run(self._ping, Call())
                )
            await asyncio.wait({ping}, timeout=PING_SECONDS)
            self._pinged = (time.monotonic(), ping.done() and ping.result())
        answered = self._pinged[1]
        told = {"status": "ok" if answered else "unavailable", "version": VERSION}
        return plain(told, noted.request_id, 200 if answered else 503)

    def _ping(self) -> bool:
        try:
            self._core.ledger.ping()
        except CortexError:
            return False
        return True

    def _lag(self) -> int:
        try:
            return self._core.hall.lag()
        except CortexError:
            return -1


def make_app(
    hall: ReadReplica,
    ledger: Ledger,
    settings: Settings,
    *,
    local: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> App:
    """A Core as an ASGI application."""
    return App(ServerParts(hall, ledger, settings), local=local, clock=clock)


async def _body_of(incoming: Incoming, route: Route) -> bytes:
    """The body of a request; where nothing has to be said, none is one, too."""
    needed = route.body is not None and any(
        field.is_required() for field in route.body.model_fields.values()
    )
    return await incoming.body(route.most) if needed or incoming.has_body else b"{}"


def _need_method(incoming: Incoming, methods: Mapping[str, Route] | set[str]) -> None:
    if incoming.method not in methods:
        raise HttpError(405, f"this path wants {_allowed(methods)}", {"Allow": _allowed(methods)})


def _allowed(methods: Mapping[str, Route] | set[str]) -> str:
    return ", ".join((*sorted(methods), *(("HEAD",) if "GET" in methods else ()), "OPTIONS"))


def _request_id(incoming: Incoming) -> str:
    """What a request is called: as whoever sent it does, where that is a name."""
    given = incoming.headers.get(REQUEST_ID.lower(), "")
    return given if _OWN_ID.fullmatch(given) else f"req_{new_ulid()}"


def _challenge(error: CortexError) -> dict[str, str]:
    return {"WWW-Authenticate": "Bearer"} if error.code in ("AUTH_REQUIRED", "AUTH_EXPIRED") else {}
