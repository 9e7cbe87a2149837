"""The OpenAPI document of a Core: valid, complete, and as the routes are."""

from __future__ import annotations

import json

from openapi_spec_validator import OpenAPIV31SpecValidator

from cortex.base.errors import CODES
from cortex.interfaces.team_server.app import ROUTES, SCHEMAS
from cortex.interfaces.team_server.openapi import MEANINGS, describe
from cortex.interfaces.team_server.responses import API

DOCUMENT = json.loads(json.dumps(describe(ROUTES, SCHEMAS)))


def test_openapi_document_is_valid():
    assert [error.message for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_openapi_document_names_every_route_and_nothing_else():
    listed = {
        (method.upper(), path)
        for path, methods in DOCUMENT["paths"].items()
        for method in methods
        if path not in ("/health", "/metrics", f"{API}/openapi.json")
    }
    assert listed == {(route.method, API + route.path) for route in ROUTES}
    assert (
        len(
            {
                method["operationId"]
                for methods in DOCUMENT["paths"].values()
                for method in methods.values()
            }
        )
        == len(ROUTES) + 3
    )


def test_write_without_keys_of_its_own_requires_an_idempotency_key():
    for route in ROUTES:
        operation = DOCUMENT["paths"][API + route.path][route.method.lower()]
        keyed = any(
            parameter["name"] == "Idempotency-Key" and parameter["required"]
            for parameter in operation["parameters"]
        )
        reads = route.path in (
            "/search",
            "/packs/bootstrap",
            "/packs/context",
            "/sync/visible",
            "/sync/bootstrap",
        )
        assert keyed == (route.method != "GET" and not reads and route.path != "/sync/flush"), (
            route.path
        )


def test_every_schema_reference_resolves():
    def refs(node):
        if isinstance(node, dict):
            yield from ([node["$ref"]] if isinstance(node.get("$ref"), str) else [])
            for part in node.values():
                yield from refs(part)
        elif isinstance(node, list):
            for part in node:
                yield from refs(part)

    for ref in set(refs(DOCUMENT)):
        node = DOCUMENT
        for part in ref.removeprefix("#/").split("/"):
            node = node[part]


def test_the_status_of_every_error_is_documented():
    assert {code.core_answer[1] for code in CODES.values()} <= set(MEANINGS)


def test_document_is_served_without_a_token_and_records_match_its_schemas(core, ada):
    assert core.http.get(f"{API}/openapi.json").json() == DOCUMENT
    thread = ada.post("/threads", {"title": "a", "code_links": [{"path": "a.py", "symbol": "b"}]})
    task = ada.post("/tasks", {"title": "a"})
    draft = ada.post(
        "/drafts", {"type": "task_update", "target_id": task["id"], "patch": {"status": "done"}}
    )
    artifact = ada.post(
        "/artifacts",
        {"title": "a", "evidence_links": [{"type": "url", "ref": "https://example.com"}]},
    )
    for name, row in (
        ("Thread", thread),
        ("Task", task),
        ("Artifact", artifact),
        ("Draft", ada.get(f"/drafts/{draft['id']}")),
    ):
        schema = DOCUMENT["components"]["schemas"][name]
        assert set(row) == set(schema["properties"]) == set(schema["required"])
        check(row, schema)


def check(value, schema) -> None:
    from jsonschema import Draft202012Validator

    assert [error.message for error in Draft202012Validator(schema).iter_errors(value)] == []
