"""OpenAPI 3.1 document of the tools, built from the table that MCP lists them from.

It knows schemas and descriptions, not the handling of calls. The parts that every document has are
shared with the Core's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cortex.base.errors import CODES
from cortex.interfaces.transports.http.gateway import API_PATH
from cortex.toolkit.tool import Family, Tool, input_schema, spell

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
    """Build the document; `guarded` is true if every request needs the token."""
    paths: dict[str, object] = {
        API_PATH: {"get": _page("listTools", "List the tools", _LIST)},
        f"{API_PATH}/{document}": {
            "get": _page("describeTools", "This document", {"type": "object"})
        },
    }
    for family, tool, name in _tools(families, dotted):
        paths[f"{API_PATH}/{name}"] = {"post": _operation(family, tool, name)}
    return openapi_document(
        "Cortex",
        version,
        "The tools of Cortex, each with its arguments as a JSON object and its answer as another.",
        guarded=guarded,
        tags=[family.name for family in families],
        paths=paths,
        components={"schemas": {"Error": ERROR}, "responses": _errors()},
    )


def openapi_document(
    title: str,
    version: str,
    description: str,
    *,
    guarded: bool,
    tags: Iterable[str],
    paths: Mapping[str, object],
    components: Mapping[str, object],
) -> dict[str, object]:
    """Assemble a document; `guarded` is true if requests need the token."""
    scheme = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": title,
            "version": version,
            "description": description,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}] if guarded else [],
        "tags": [{"name": name} for name in tags],
        "paths": paths,
        "components": {**components, **(scheme if guarded else {})},
    }


def json_content(schema: Mapping[str, object]) -> dict[str, object]:
    """Describe a JSON body."""
    return {"application/json": {"schema": dict(schema)}}


def error_refs(statuses: Iterable[int]) -> dict[str, object]:
    """Refer to the error responses of an operation."""
    return {str(status): {"$ref": f"#/components/responses/Error{status}"} for status in statuses}


def error_response(description: str, *, waits: bool) -> dict[str, object]:
    """Describe the response for an error; `waits` adds the header that says how long."""
    response: dict[str, object] = {
        "description": description,
        "content": json_content({"$ref": "#/components/schemas/Error"}),
    }
    if waits:
        seconds = {"description": "Seconds.", "schema": {"type": "integer"}}
        response["headers"] = {"Retry-After": seconds}
    return response


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
        "requestBody": {"required": True, "content": json_content(input_schema(tool))},
        "responses": {
            "200": {"description": "What the tool answers.", "content": json_content(answer)},
            **error_refs(REFUSALS),
        },
    }


def _page(name: str, summary: str, schema: Mapping[str, object]) -> dict[str, object]:
    return {
        "operationId": name,
        "summary": summary,
        "x-read-only": True,
        "responses": {
            "200": {"description": summary, "content": json_content(schema)},
            **error_refs((401, 403, 421, 429)),
        },
    }


def _errors() -> dict[str, object]:
    responses: dict[str, object] = {}
    for status, meaning in REFUSALS.items():
        codes = ", ".join(f"`{name}`" for name, code in CODES.items() if code.status == status)
        description = f"{meaning} Codes: {codes}." if codes else meaning
        responses[f"Error{status}"] = error_response(description, waits=status == 429)
    return responses
