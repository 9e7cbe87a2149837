"""What a route of the Core is, what it gets and how what was sent is read.

Which routes there are is told by `routes_*`.

A route is a row: from it come the dispatching, the rights, the reading of query and body, and the
OpenAPI document. It runs in a thread and may block; the hall shows it what whoever asks may see.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

from cortex.base.actors import SERVER
from cortex.base.errors import InputError
from cortex.base.record_model import Actor
from cortex.base.settings import Settings
from cortex.base.text import holds_more
from cortex.base.types import Cancel
from cortex.base.visibility import Viewer
from cortex.engine.store.records.ledger import Ledger
from cortex.engine.store.records.principals import Principal
from cortex.families.team.writes.transactions import check_key
from cortex.interfaces.team_server.read_replica import ReadReplica
from cortex.interfaces.team_server.responses import RouteResult
from cortex.interfaces.team_server.write_gateway import RequestScope
from cortex.interfaces.transports.http.gateway import MAX_BODY_BYTES
from cortex.interfaces.transports.jsonrpc import read_object
from cortex.toolkit.tool import Arguments

MAX_QUERY = 8_000  # characters
MAX_PARTS = 100  # of a query
# What a body may hold, however large it is: each part that doesn't fit is a problem of 1 KB, so
# that 1 MB of ones took 600 MB and 1.7 s.
MAX_NAMES = 100  # of what is said
MAX_INNER = 1_000  # names of an object in it, as grants by subcortex
MAX_VALUES = 20_000
ALL, NESTED = b"[{,", b"[{"
PASSED_ON = {NESTED: 150_000, ALL: 1_000_000}  # of what is only passed on: 20,000 changes have less
_VARIABLE = re.compile(r"\{(\w+)\}")

NoArguments = Arguments


@dataclass(frozen=True, slots=True)
class ServerParts:
    """What a Core consists of."""

    hall: ReadReplica
    ledger: Ledger
    settings: Settings


@dataclass(frozen=True, slots=True)
class RouteContext:
    """A request, as a route gets it."""

    core: ServerParts
    principal: Principal
    viewer: Viewer
    visit: RequestScope
    path: Mapping[str, str]
    query: Any
    body: Any
    key: str  # of a write
    payload: str  # all that was asked, for the key
    cancel: Cancel

    @property
    def hall(self) -> ReadReplica:
        return self.core.hall

    @property
    def actor(self) -> Actor:
        return Actor(self.principal.name, self.principal.tier, SERVER)


@dataclass(frozen=True, slots=True)
class Route:
    """One thing that can be asked for."""

    method: str
    path: str  # below /api/v2, with {variables}
    name: str  # of the operation
    summary: str
    run: Callable[[RouteContext], RouteResult]
    tag: str
    answer: Mapping[str, object]  # the schema of `data`
    query: type[Arguments] = NoArguments
    body: type[Arguments] | None = None
    keyed: bool = False  # it writes, and needs a key
    listed: bool = False  # it answers in pages
    status: int = 200
    tier: int = 0
    most: int = MAX_BODY_BYTES
    searches: bool = True  # it may ask for what was written just now by what it says

    @property
    def pattern(self) -> re.Pattern[str]:
        parts = (
            part if number % 2 == 0 else f"(?P<{part}>[^/]+)"
            for number, part in enumerate(self._parts())
        )
        return re.compile(
            "".join(re.escape(one) if not one.startswith("(?P<") else one for one in parts)
        )

    @property
    def writes(self) -> bool:
        """Whether it may have to wait for others who write."""
        return self.keyed or not self.searches

    @property
    def variables(self) -> list[str]:
        return _VARIABLE.findall(self.path)

    def _parts(self) -> list[str]:
        return _VARIABLE.split(self.path)


class Table:
    """The routes, found by their path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self._found: dict[str, tuple[re.Pattern[str], dict[str, Route]]] = {}
        for route in routes:
            self._found.setdefault(route.path, (route.pattern, {}))[1][route.method] = route

    def find(self, path: str) -> tuple[dict[str, Route], dict[str, str]]:
        """The routes of a path by their methods, and what stands in place of its variables; a path
        without any comes first.
        """
        if path in self._found and "{" not in path:
            return self._found[path][1], {}
        for pattern, methods in self._found.values():
            if (match := pattern.fullmatch(path)) is not None:
                return methods, match.groupdict()
        return {}, {}


def permit(route: Route, principal: Principal) -> None:
    """Let somebody ask for something at all. Raises: InputError RIGHTS_MISSING."""
    if principal.tier < route.tier:
        raise InputError(
            "RIGHTS_MISSING",
            f"{principal.name} (tier {principal.tier}) may not {route.summary[0].lower()}{route.summary[1:]}: "
            f"that needs tier {route.tier}",
            context={"tier": principal.tier, "needed": route.tier},
        )


def read_key(route: Route, given: Sequence[str]) -> str:
    """The key of a write. Raises: InputError RECORD_INVALID with one that could be used."""
    if not route.keyed:
        return ""
    if len(given) > 1:
        raise InputError(
            "RECORD_INVALID", "send one Idempotency-Key", context={"field": "Idempotency-Key"}
        )
    try:
        check_key(given[0].strip() if given else "")
    except InputError as error:
        message = error.message.replace("an `idempotency_key`", "a header `Idempotency-Key`")
        raise InputError(
            error.code,
            message,
            context={"field": "Idempotency-Key"},
            suggestions=tuple(
                suggestion.replace(
                    "Call it again with idempotency_key", "Send it again with Idempotency-Key:"
                )
                for suggestion in error.suggestions[:1]
            ),
        ) from None
    return given[0].strip()


def read_query(route: Route, query: bytes) -> Any:
    """What a query string says. Raises: InputError ARGUMENT_INVALID."""
    try:
        pairs = parse_qsl(
            query[:MAX_QUERY].decode("ascii", "replace"),
            keep_blank_values=True,
            max_num_fields=MAX_PARTS,
        )
    except ValueError:
        raise InputError("ARGUMENT_INVALID", f"a query has at most {MAX_PARTS} parts") from None
    if len(query) > MAX_QUERY:
        raise InputError("ARGUMENT_INVALID", f"a query has at most {MAX_QUERY} characters")
    told: dict[str, Any] = {}
    for name, value in pairs:
        field = route.query.model_fields.get(name)
        several = field is not None and "tuple" in str(field.annotation)
        if name in told and not several:
            raise _wrong([{"field": name[:80], "message": "is said twice"}])
        told[name] = [*told.get(name, ()), *filter(None, value.split(","))] if several else value
    try:
        return route.query.model_validate(told, strict=False)
    except ValidationError as error:
        raise _wrong(_problems(error)) from None


def read_body(model: type[BaseModel], body: bytes) -> Any:
    """What a body says. Raises: InputError ARGUMENT_INVALID with all that doesn't fit."""
    try:
        _check_amount(model, body)
        told = read_object(body, halves=False)
        if len(told) > MAX_NAMES:
            raise ValueError(f"the body says more than {MAX_NAMES} things")
        if not getattr(model, "passed_on", False):
            _check_names(told)
    except ValueError as error:
        raise InputError("ARGUMENT_INVALID", str(error), context={"field": "body"}) from None
    try:
        return model.model_validate_json(json.dumps(told), strict=True)
    except ValidationError as error:
        raise _wrong(_problems(error)) from None


def _check_amount(model: type[BaseModel], body: bytes) -> None:
    """Raises: ValueError for more than anybody has to say."""
    bounds = (
        PASSED_ON
        if getattr(model, "passed_on", False)
        else {ALL: getattr(model, "most_values", MAX_VALUES)}
    )
    for marks, most in bounds.items():
        if holds_more(body, most, marks):
            raise ValueError(
                f"the body holds more than {most:,} {'values' if marks == ALL else 'objects and lists'}"
            )


def _check_names(told: object) -> None:
    """Raises: ValueError for an object in which more is said than anywhere may be: of each name
    that isn't known a problem is told.
    """
    waiting = [told]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict) and len(one) > MAX_INNER:
            raise ValueError(f"an object of the body has more than {MAX_INNER:,} names")
        if isinstance(one, dict | list):
            waiting += one.values() if isinstance(one, dict) else one


def payload_of(method: str, path: str, body: Any) -> str:
    """All that was asked, as one text."""
    told = body.model_dump_json(exclude_unset=True) if body is not None else ""
    return f"{method} {path} {told}"


def _problems(error: ValidationError) -> list[dict[str, object]]:
    return [
        {
            "field": ".".join(map(str, one["loc"]))[:200] or "body",
            "message": _plain(one["type"], one["msg"]),
        }
        for one in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def _plain(kind: str, message: str) -> str:
    return {"missing": "is required", "extra_forbidden": "is not known"}.get(kind, message)[:300]


def _wrong(problems: list[dict[str, object]]) -> InputError:
    first = "; ".join(f"`{problem['field']}`: {problem['message']}" for problem in problems[:3])
    return InputError("ARGUMENT_INVALID", first, context={"problems": problems})
