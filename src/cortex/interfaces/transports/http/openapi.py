"""OpenAPI 3.1 document of the tools, built from the table that MCP lists them from.

It knows schemas and descriptions, not the handling of calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cortex.base.errors import CODES
from cortex.interfaces.transports.http.gateway import API_PATH
from cortex.toolkit.tool import Family, Tool, input_schema, spell

OPENAPI = "3.1.0"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Rejections by the gateway and the API itself, besides the errors of the tools.
REFUSALS: Mapping[int, str] = {
    400: "The body is empty or no JSON object, or an argument doesn't fit.",
    401: "The token is missing or wrong.",
    403: (
        "The request comes from another site, the file is none that may be read, or nothing of "
        "the kind may be written."
    ),
    404: (
        "There is no such tool (`ARGUMENT_INVALID`), file, workspace, source, document, memory "
        "or record."
    ),
    405: "The path wants another method.",
    408: "The body did not arrive in time.",
    409: (
        "Another run is under way, the record was changed meanwhile, or the key stands for "
        "another write."
    ),
    413: "The body is too large.",
    415: "The body isn't sent as `application/json`.",
    421: "The Host header names another machine.",
    429: "Too many requests, or too many forced runs; `Retry-After` says how long to wait.",
    500: "Something is wrong on the server's side.",
    503: "Not now: the same request may succeed later.",
    504: "It took too long.",
}

ERROR: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "category": {"type": "string"},
                "severity": {"type": "string"},
                "retryable": {
                    "type": "boolean",
                    "description": "Whether the same request may succeed later.",
                },
                "context": {"type": "object", "description": "Facts for programs."},
                "suggestions": {"type": "array", "items": {"type": "string"}},
                "timestamp": {"type": "string", "format": "date-time"},
            },
            "required": ["code", "message"],
        }
    },
}


def list_tools(families: Sequence[Family], *, dotted: bool) -> list[dict[str, object]]:
    """Summarize every tool, in the order of the table."""
    return [
        {
            "name": name,
            "title": tool.title,
            "description": tool.description,
            "family": family.name,
            "readOnly": not tool.writes,
            "path": f"{API_PATH}/{name}",
        }
        for family, tool, name in _tools(families, dotted)
    ]


def describe(
    families: Sequence[Family], version: str, *, dotted: bool, guarded: bool, document: str
) -> dict[str, object]:
    """Build the document; `guarded` is true where every request needs the token."""
    paths: dict[str, object] = {
        API_PATH: {"get": _page("listTools", "List the tools", _LIST)},
        f"{API_PATH}/{document}": {
            "get": _page("describeTools", "This document", {"type": "object"})
        },
    }
    for family, tool, name in _tools(families, dotted):
        paths[f"{API_PATH}/{name}"] = {"post": _operation(family, tool, name)}
    components: dict[str, object] = {"schemas": {"Error": ERROR}, "responses": _errors()}
    if guarded:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": OPENAPI,
        "jsonSchemaDialect": DIALECT,
        "info": {
            "title": "Cortex",
            "version": version,
            "description": (
                "The tools of Cortex, each with its arguments as a JSON object and its answer "
                "as another."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}] if guarded else [],
        "tags": [{"name": family.name} for family in families],
        "paths": paths,
        "components": components,
    }


_LIST: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "version": {"type": "string"},
        "openapi": {"type": "string"},
        "tools": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "title": {"type": "string"},
                    "description": {"type": "string"},
                    "family": {"type": "string"},
                    "readOnly": {"type": "boolean"},
                    "path": {"type": "string"},
                },
            },
        },
    },
}


def _tools(families: Sequence[Family], dotted: bool) -> list[tuple[Family, Tool, str]]:
    return [
        (family, tool, spell(tool.name, dotted=dotted))
        for family in families
        for tool in family.tools
    ]


def _operation(family: Family, tool: Tool, name: str) -> dict[str, object]:
    answer = tool.output_schema or {"type": "object"}
    return {
        "operationId": name,
        "summary": tool.title,
        "description": tool.description,
        "tags": [family.name],
        "x-read-only": not tool.writes,
        "requestBody": {"required": True, "content": _json(input_schema(tool))},
        "responses": {
            "200": {"description": "What the tool answers.", "content": _json(answer)},
            **_refusals(),
        },
    }


def _page(name: str, summary: str, schema: Mapping[str, object]) -> dict[str, object]:
    refused = {
        status: response
        for status, response in _refusals().items()
        if status in ("401", "403", "421", "429")
    }
    return {
        "operationId": name,
        "summary": summary,
        "x-read-only": True,
        "responses": {"200": {"description": summary, "content": _json(schema)}, **refused},
    }


def _refusals() -> dict[str, object]:
    return {str(status): {"$ref": f"#/components/responses/Error{status}"} for status in REFUSALS}


def _errors() -> dict[str, object]:
    responses: dict[str, object] = {}
    for status, meaning in REFUSALS.items():
        codes = ", ".join(f"`{name}`" for name, code in CODES.items() if code.status == status)
        response: dict[str, object] = {
            "description": f"{meaning} Codes: {codes}." if codes else meaning,
            "content": _json({"$ref": "#/components/schemas/Error"}),
        }
        if status == 429:
            response["headers"] = {
                "Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}
            }
        responses[f"Error{status}"] = response
    return responses


def _json(schema: Mapping[str, object]) -> dict[str, object]:
    return {"application/json": {"schema": dict(schema)}}
