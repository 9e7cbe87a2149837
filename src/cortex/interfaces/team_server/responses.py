"""Response envelopes of a Core: `data` with `meta`, or `error` with its code and status.

The table of error codes has the code and the status of each. A record hidden from the viewer
and a missing one give the same 404. Knows no route.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from starlette.responses import Response

from cortex.base.errors import CODES, CortexError
from cortex.interfaces.transports.http.gateway import SAFE_HEADERS, HttpError
from cortex.interfaces.transports.jsonrpc import well_formed

API = "/api/v2"
DOCUMENT = f"{API}/openapi.json"
REPLAYED = "X-Idempotency-Replayed"
REQUEST_ID = "X-Request-Id"
# Default for `Retry-After`.
RETRY_SECONDS = 1
MOST_DETAILS = 20
MAX_MESSAGE = 2_000

# Codes of requests that are rejected before they reach a route, by status.
REFUSED: Mapping[int, str] = {
    401: "AUTH_REQUIRED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RATE_LIMITED",
    503: "SERVER_ERROR",
}
# Context of an error that the message already has, or that clients don't need.
_OMITTED_CONTEXT = frozenset({"near", "retry_after_seconds", "operation"})


@dataclass(frozen=True, slots=True)
class Pagination:
    """Cursor of the next page of a list."""

    # Empty on the last page.
    cursor: str
    limit: int

    @property
    def row(self) -> dict[str, object]:
        return {"cursor": self.cursor or None, "has_more": bool(self.cursor), "limit": self.limit}


@dataclass(frozen=True, slots=True)
class RouteResult:
    """Result of a route, before it is put into an envelope."""

    content: object
    pagination: Pagination | None = None
    status: int = 200
    meta: Mapping[str, object] = field(default_factory=dict)


def answer(result: RouteResult, request_id: str, *, replayed: bool = False) -> Response:
    """Build the response for a result."""
    envelope: dict[str, object] = {
        "data": result.content,
        "meta": {**_meta(request_id), **result.meta},
    }
    if result.pagination is not None:
        envelope["pagination"] = result.pagination.row
    headers = {REPLAYED: "true"} if replayed else {}
    return plain(envelope, request_id, result.status, headers)


def failure(
    error: CortexError, request_id: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Build the response for an error."""
    code, status = code_of(error)
    return _failed(error, code, status, request_id, headers or {})


def refusal(refused: HttpError, request_id: str) -> Response:
    """Build the response for a request that was rejected before it reached a route."""
    code, status = code_of(refused.error)
    if refused.error.code == "REQUEST_REFUSED":
        status = refused.status
        code = REFUSED.get(status, "VALIDATION_ERROR")
    return _failed(refused.error, code, status, request_id, refused.headers)


def code_of(error: CortexError) -> tuple[str, int]:
    """Return the code and the status that represent an error."""
    if error.code == "ARGUMENT_INVALID" and "filter" in error.context:
        return "INVALID_FILTER", 400
    return CODES[error.code].core_answer


def _failed(
    error: CortexError, code: str, status: int, request_id: str, headers: Mapping[str, str]
) -> Response:
    seconds = _retry_after(error, status)
    body = {
        "code": code,
        "message": "the server failed unexpectedly; its log says why"
        if status == 500
        else error.message[:MAX_MESSAGE],
        "details": details_of(error, code),
        **_meta(request_id),
        "retry_after": seconds,
        "help_url": f"{DOCUMENT}#/components/responses/Error{status}",
    }
    waiting = {} if seconds is None else {"Retry-After": str(seconds)}
    return plain({"error": body}, request_id, status, {**headers, **waiting})


def details_of(error: CortexError, code: str) -> list[dict[str, object]]:
    """Return the details of an error: one per problem, or one with its context."""
    problems = error.context.get("problems")
    if isinstance(problems, Sequence) and not isinstance(problems, str):
        return [dict(problem) for problem in problems if isinstance(problem, Mapping)][
            :MOST_DETAILS
        ]
    detail = {
        name: value
        for name, value in error.context.items()
        if name not in _OMITTED_CONTEXT and value not in ("", None, [], {})
    }
    if code != error.code:
        detail["code"] = error.code
    if code not in ("SERVER_ERROR", "RATE_LIMITED"):
        # The last suggestion is about tools and commands.
        own = [suggestion for suggestion in error.suggestions[:-1] if suggestion]
        detail |= {"suggestion": own[0]} if own else {}
    return [detail] if detail and code != "SERVER_ERROR" else []


def _retry_after(error: CortexError, status: int) -> int | None:
    seconds = error.context.get("retry_after_seconds")
    if isinstance(seconds, int | float):
        return max(1, int(seconds))
    return RETRY_SECONDS if status == 503 else None


def _meta(request_id: str) -> dict[str, object]:
    now = datetime.now(UTC)
    return {
        "request_id": request_id,
        "timestamp": now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z",
    }


def as_bytes(content: object) -> bytes:
    """Encode a value as compact JSON."""
    text = json.dumps(
        content, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str
    )
    return well_formed(text).encode()


def plain(
    content: object, request_id: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Build a JSON response without an envelope."""
    return encoded(as_bytes(content), request_id, status, headers)


def encoded(
    body: bytes,
    request_id: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    media_type: str = "application/json",
) -> Response:
    """Build a response with the headers that every response has."""
    every = {**SAFE_HEADERS, **(headers or {}), REQUEST_ID: request_id}
    return Response(body, status, every, media_type)
