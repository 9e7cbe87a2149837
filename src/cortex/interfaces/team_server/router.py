"""Routes of the Core: their description, their context, and the parsing of requests.

The `routes` package defines the routes. A route is one row: dispatching, permissions, parsing of
query and body, and the OpenAPI document follow from it. A route runs in a thread and may block; the
replica shows it what the viewer may see.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.routing import compile_path

from cortex.base.actors import SERVER
from cortex.base.errors import InputError
from cortex.base.record_model import Actor, Record
from cortex.base.settings import Settings
from cortex.base.text import holds_more
from cortex.base.types import Cancel
from cortex.base.visibility import Viewer
from cortex.engine.store import RecordQueries
from cortex.engine.store.records.ledger import Ledger
from cortex.engine.store.records.principals import Principal
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes.transactions import check_key
from cortex.interfaces.team_server.read_replica import ReadReplica
from cortex.interfaces.team_server.responses import RouteResult
from cortex.interfaces.team_server.write_gateway import RequestScope
from cortex.interfaces.transports.http.gateway import MAX_BODY_BYTES
from cortex.interfaces.transports.jsonrpc import read_object
from cortex.toolkit.tool import Arguments

# Characters of a query string.
MAX_QUERY = 8_000
# Parameters of a query string.
MAX_PARTS = 100
# Limits of a body besides its size. Each invalid value gives a problem of 1 KB: without them, 1 MB
# of ones took 600 MB and 1.7 s.
# Names of the outer object.
MAX_NAMES = 100
# Names of a nested object, such as the grants by subcortex.
MAX_INNER = 1_000
MAX_VALUES = 20_000
ALL, NESTED = b"[{,", b"[{"
# Limits of a body that is passed on without validation; 20,000 changes have less.
PASSED_ON = {NESTED: 150_000, ALL: 1_000_000}


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The parts of a Core."""

    replica: ReadReplica
    ledger: Ledger
    settings: Settings


@dataclass(frozen=True, slots=True)
class RouteContext:
    """A request as a route gets it."""

    core: ServerParts
    principal: Principal
    viewer: Viewer
    visit: RequestScope
    path: Mapping[str, str]
    query: Any
    body: Any
    # Idempotency key of a write.
    key: str
    # The whole request as text, to detect a key that is used for another one.
    payload: str
    cancel: Cancel

    @property
    def replica(self) -> ReadReplica:
        return self.core.replica

    @property
    def records(self) -> RecordQueries:
        """The records that the viewer may see."""
        return self.core.replica.store.records

    @property
    def ledger(self) -> Ledger:
        return self.core.ledger

    @property
    def actor(self) -> Actor:
        return Actor(self.principal.name, self.principal.tier, SERVER)

    def record(self, kind: str) -> Record[Any]:
        """Return the record that the path names.

        Raises: InputError RECORD_UNKNOWN.
        """
        return resolve_ref(self.records, self.path["id"], kind)


@dataclass(frozen=True, slots=True)
class Route:
    """An operation of the HTTP interface."""

    method: str
    # Below /api/v2, with {variables}.
    path: str
    # The operation id.
    name: str
    summary: str
    run: Callable[[RouteContext], RouteResult]
    tag: str
    # The schema of `data`.
    answer: Mapping[str, object]
    query: type[Arguments] = Arguments
    body: type[Arguments] | None = None
    # True for a write, which needs an idempotency key.
    keyed: bool = False
    # True for a paginated list.
    listed: bool = False
    status: int = 200
    tier: int = 0
    most: int = MAX_BODY_BYTES
    # True if it searches, so that new changes have to be indexed first.
    searches: bool = True

    @property
    def writes(self) -> bool:
        """True if it may have to wait for other writers."""
        return self.keyed or not self.searches

    @property
    def needs_body(self) -> bool:
        return self.body is not None and any(
            field.is_required() for field in self.body.model_fields.values()
        )


class Table:
    """Lookup table of routes by path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._by_path: dict[str, tuple[re.Pattern[str], dict[str, Route]]] = {}
        for route in routes:
            entry = self._by_path.setdefault(route.path, (compile_path(route.path)[0], {}))
            entry[1][route.method] = route

    def find(self, path: str) -> tuple[dict[str, Route], dict[str, str]]:
        """Return the routes of a path by method, and the values of its variables.

        A path without variables takes precedence.
        """
        if path in self._by_path and "{" not in path:
            return self._by_path[path][1], {}
        for pattern, methods in self._by_path.values():
            if (match := pattern.fullmatch(path)) is not None:
                return methods, match.groupdict()
        return {}, {}


def permit(route: Route, principal: Principal) -> None:
    """Check that the tier of a principal allows a route.

    Raises: InputError RIGHTS_MISSING.
    """
    if principal.tier < route.tier:
        raise InputError(
            "RIGHTS_MISSING",
            f"{principal.name} (tier {principal.tier}) may not "
            f"{route.summary[0].lower()}{route.summary[1:]}: "
            f"that needs tier {route.tier}",
            context={"tier": principal.tier, "needed": route.tier},
        )


def read_key(route: Route, given: Sequence[str]) -> str:
    """Return the idempotency key of a write.

    Raises: InputError RECORD_INVALID, which suggests a valid key.
    """
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
    """Parse and validate a query string.

    Raises: InputError ARGUMENT_INVALID.
    """
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
    values: dict[str, Any] = {}
    for name, value in pairs:
        field = route.query.model_fields.get(name)
        several = field is not None and "tuple" in str(field.annotation)
        if name in values and not several:
            raise _wrong([{"field": name[:80], "message": "is said twice"}])
        values[name] = (
            [*values.get(name, ()), *filter(None, value.split(","))] if several else value
        )
    try:
        return route.query.model_validate(values, strict=False)
    except ValidationError as error:
        raise _wrong(_problems(error)) from None


def read_body(model: type[BaseModel], body: bytes) -> Any:
    """Parse and validate a body.

    Raises: InputError ARGUMENT_INVALID with all problems.
    """
    try:
        _check_amount(model, body)
        content = read_object(body, halves=False)
        if len(content) > MAX_NAMES:
            raise ValueError(f"the body says more than {MAX_NAMES} things")
        if not getattr(model, "passed_on", False):
            _check_names(content)
    except ValueError as error:
        raise InputError("ARGUMENT_INVALID", str(error), context={"field": "body"}) from None
    try:
        return model.model_validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        raise _wrong(_problems(error)) from None


def _check_amount(model: type[BaseModel], body: bytes) -> None:
    """Check the number of values in a body.

    Raises: ValueError.
    """
    bounds = (
        PASSED_ON
        if getattr(model, "passed_on", False)
        else {ALL: getattr(model, "most_values", MAX_VALUES)}
    )
    for marks, most in bounds.items():
        if holds_more(body, most, marks):
            raise ValueError(
                f"the body holds more than {most:,} "
                f"{'values' if marks == ALL else 'objects and lists'}"
            )


def _check_names(content: object) -> None:
    """Check the number of names of each object in a body.

    Each unknown name becomes a problem in the response, so there have to be few.

    Raises: ValueError.
    """
    pending = [content]
    while pending:
        value = pending.pop()
        if isinstance(value, dict) and len(value) > MAX_INNER:
            raise ValueError(f"an object of the body has more than {MAX_INNER:,} names")
        if isinstance(value, dict | list):
            pending += value.values() if isinstance(value, dict) else value


def payload_of(method: str, path: str, body: Any) -> str:
    """Return the whole request as one text, for the idempotency key."""
    content = body.model_dump_json(exclude_unset=True) if body is not None else ""
    return f"{method} {path} {content}"


def _problems(error: ValidationError) -> list[dict[str, object]]:
    return [
        {
            "field": ".".join(map(str, problem["loc"]))[:200] or "body",
            "message": _plain(problem["type"], problem["msg"]),
        }
        for problem in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def _plain(kind: str, message: str) -> str:
    return {"missing": "is required", "extra_forbidden": "is not known"}.get(kind, message)[:300]


def _wrong(problems: list[dict[str, object]]) -> InputError:
    first = "; ".join(f"`{problem['field']}`: {problem['message']}" for problem in problems[:3])
    return InputError("ARGUMENT_INVALID", first, context={"problems": problems})
