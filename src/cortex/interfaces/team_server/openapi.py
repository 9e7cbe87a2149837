"""OpenAPI 3.1 document of the Core, built from the routing table.

It knows schemas and routes, not the handling of requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.routing import compile_path

from cortex.base.errors import CODES
from cortex.base.runtime.home import VERSION
from cortex.interfaces.team_server.responses import API, DOCUMENT, REFUSED, REPLAYED, REQUEST_ID
from cortex.interfaces.team_server.router import Route
from cortex.interfaces.transports.http.openapi import (
    error_refs,
    error_response,
    json_content,
    openapi_document,
)
from cortex.toolkit.tool import schema_of

MEANINGS: Mapping[int, str] = {
    400: "A parameter, the key or the body doesn't fit.",
    401: "The token is missing, unknown or over.",
    403: (
        "The principal may not do this, the text holds a secret, or the request comes from "
        "another site."
    ),
    404: "It doesn't exist, or isn't visible to the principal.",
    405: "The path wants another method.",
    408: "The body did not arrive in time.",
    409: "The record was changed meanwhile, or the key stands for another write.",
    410: "What was pulled can't be gone on from.",
    413: "The body is too large.",
    415: "The body isn't sent as `application/json`.",
    421: "The Host header names another machine.",
    429: "Too many requests; `Retry-After` says how long to wait.",
    500: "Something is wrong on the server's side.",
    503: "Not now: the same request may succeed later.",
}
_TEXT: Mapping[str, object] = {"type": "string"}
_MOMENT: Mapping[str, object] = {"type": "string", "format": "date-time"}
ERROR: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": _TEXT,
                "message": _TEXT,
                "details": {"type": "array", "items": {"type": "object"}},
                "request_id": _TEXT,
                "timestamp": _MOMENT,
                "retry_after": {"type": ["integer", "null"], "description": "Seconds."},
                "help_url": _TEXT,
            },
            "required": [
                "code",
                "message",
                "details",
                "request_id",
                "timestamp",
                "retry_after",
                "help_url",
            ],
        }
    },
    "required": ["error"],
}
META: Mapping[str, object] = {
    "type": "object",
    "properties": {"request_id": _TEXT, "timestamp": _MOMENT},
    "required": ["request_id", "timestamp"],
}
PAGINATION: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "cursor": {"type": ["string", "null"]},
        "has_more": {"type": "boolean"},
        "limit": {"type": "integer"},
    },
    "required": ["cursor", "has_more", "limit"],
}


def describe(
    routes: Sequence[Route], schemas: Mapping[str, Mapping[str, object]]
) -> dict[str, object]:
    """Build the document of these routes; `schemas` are the schemas that they refer to."""
    paths: dict[str, dict[str, object]] = {
        "/health": {
            "get": _page(
                "health", "Whether it could answer", {"type": "object"}, security=[], away=True
            )
        },
        "/metrics": {
            "get": _page("metrics", "Figures in Prometheus' text format", _TEXT, kind="text/plain")
        },
        DOCUMENT: {"get": _page("describe", "This document", {"type": "object"}, security=[])},
    }
    for route in routes:
        paths.setdefault(API + route.path, {})[route.method.lower()] = _operation(route)
    return openapi_document(
        "Cortex Core",
        VERSION,
        "What a team keeps: records, searches and packs over them, and what homes sync with.",
        guarded=True,
        tags=dict.fromkeys(route.tag for route in routes),
        paths=paths,
        components={
            "schemas": {**schemas, "Error": ERROR, "Meta": META, "Pagination": PAGINATION},
            "responses": {f"Error{status}": _error(status) for status in MEANINGS},
        },
    )


def _operation(route: Route) -> dict[str, object]:
    properties: dict[str, object] = {
        "data": route.answer,
        "meta": {"$ref": "#/components/schemas/Meta"},
    }
    if route.listed:
        properties["pagination"] = {"$ref": "#/components/schemas/Pagination"}
    response: dict[str, object] = {
        "description": route.summary,
        "content": json_content(
            {"type": "object", "properties": properties, "required": list(properties)}
        ),
        "headers": _headers(route),
    }
    run = route.run
    doc = run.__doc__ or getattr(run, "func", run).__doc__ or ""
    parameters = [*_path_parameters(route), *_query_parameters(route), *_key_parameter(route)]
    operation: dict[str, object] = {
        "operationId": route.name,
        "summary": route.summary,
        "description": f"{doc.splitlines()[0]}"
        + (f" Needs tier {route.tier}." if route.tier else ""),
        "tags": [route.tag],
        "parameters": parameters,
        "responses": {str(route.status): response, **_refusals(route)},
    }
    if route.body is not None:
        content = json_content(schema_of(route.body))
        operation["requestBody"] = {"required": route.needs_body, "content": content}
    return operation


def _headers(route: Route) -> dict[str, object]:
    headers: dict[str, object] = {
        REQUEST_ID: {"description": "What the request is called in the log.", "schema": _TEXT}
    }
    if route.keyed:
        headers[REPLAYED] = {
            "description": "`true` where that had been done before.",
            "schema": _TEXT,
        }
    return headers


def _path_parameters(route: Route) -> list[dict[str, object]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in compile_path(route.path)[2]
    ]


def _query_parameters(route: Route) -> list[dict[str, object]]:
    schema = schema_of(route.query)
    parameters: list[dict[str, object]] = []
    for name, property_schema in schema.get("properties", {}).items():
        described = {
            key: property_schema[key] for key in ("description",) if key in property_schema
        }
        bare = {key: value for key, value in property_schema.items() if key not in described}
        required = name in schema.get("required", ())
        parameters.append(
            {"name": name, "in": "query", "required": required, "schema": bare, **described}
        )
    return parameters


def _key_parameter(route: Route) -> list[dict[str, object]]:
    if not route.keyed:
        return []
    schema = {"type": "string", "pattern": "^[!-~]{1,200}$", "minLength": 1, "maxLength": 200}
    meaning = "One of its own for each write; the same one makes a retry harmless."
    return [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": True,
            "description": meaning,
            "schema": schema,
        }
    ]


def _refusals(route: Route) -> dict[str, object]:
    statuses = [400, 401, 403, 404, 421, 429, 500, 503]
    statuses += [408, 413, 415] if route.body is not None else []
    statuses += [409] if route.keyed else []
    statuses += [410] if route.name == "syncDeltas" else []
    return error_refs(sorted(statuses))


def _error(status: int) -> dict[str, object]:
    answers = (code.core_answer for code in CODES.values() if code.core)
    codes = dict.fromkeys(code for code, other in answers if other == status)
    codes |= {REFUSED[status]: None} if status in REFUSED else {}
    codes = codes or {"SERVER_ERROR" if status >= 500 else "VALIDATION_ERROR": None}
    description = f"{MEANINGS[status]} Codes: {', '.join(f'`{code}`' for code in codes)}."
    return error_response(description, waits=status in (429, 503))


def _page(
    name: str,
    summary: str,
    schema: Mapping[str, object],
    *,
    kind: str = "application/json",
    security: list[object] | None = None,
    away: bool = False,
) -> dict[str, object]:
    content = {kind: {"schema": dict(schema)}}
    responses: dict[str, object] = {"200": {"description": summary, "content": content}}
    if away:
        responses["503"] = {"description": "The database doesn't answer.", "content": content}
    responses |= error_refs((403, 421) if security == [] else (401, 403, 421, 429))
    operation: dict[str, object] = {"operationId": name, "summary": summary, "responses": responses}
    return operation if security is None else {**operation, "security": security}
