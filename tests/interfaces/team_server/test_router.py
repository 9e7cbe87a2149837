"""Matching requests to routes: methods, queries, bodies, idempotency keys."""

from __future__ import annotations

from cortex.interfaces.team_server.app import ROUTES
from interfaces.team_server.conftest import error_of

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
THREAD = {"title": "How often do we retry?"}


def test_method_that_a_path_lacks_is_refused_with_those_it_has(core, ada):
    for method, path, allowed in (
        ("PUT", "/threads", "GET, POST, HEAD, OPTIONS"),
        ("DELETE", "/threads/thread_1", "GET, PATCH, HEAD, OPTIONS"),
        ("GET", "/search", "POST, OPTIONS"),
        ("GET", "/observations/batch", "POST, OPTIONS"),
    ):
        response = ada.ask(method, path)
        error_of(response, 405, "VALIDATION_ERROR")
        assert response.headers["Allow"] == allowed
    options = ada.ask("OPTIONS", "/threads")
    assert (options.status_code, options.headers["Allow"], options.content) == (
        204,
        "GET, POST, HEAD, OPTIONS",
        b"",
    )
    head = ada.ask("HEAD", "/threads")
    assert (head.status_code, head.content) == (200, b"") and int(
        head.headers["Content-Length"]
    ) > 0
    for path in (
        "/api/v2",
        "/api/v2/",
        "/api/v2/nothing",
        "/api/v2/threads/",
        "/api/v1/threads",
        "/",
        "/api/v2/threads/a/b",
    ):
        error_of(
            core.http.get(path, headers={"Authorization": f"Bearer {ada.token}"}), 404, "NOT_FOUND"
        )
    assert core.http.post("/health").status_code == 405


def test_route_names_and_paths_are_unique():
    assert len({route.name for route in ROUTES}) == len(ROUTES)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_write_without_an_idempotency_key_is_refused_with_a_suggested_one(ada):
    error = ada.refused(400, "VALIDATION_ERROR", ada.ask("POST", "/threads", THREAD, key=None))
    assert (
        error["details"][0]["field"] == "Idempotency-Key"
        and "key_" in error["details"][0]["suggestion"]
    )
    ada.refused(400, "VALIDATION_ERROR", ada.ask("POST", "/threads", THREAD, key="a" * 201))
    ada.refused(403, "SENSITIVE_BLOCKED", ada.ask("POST", "/threads", THREAD, key=SECRET))
    assert ada.get("/threads") == []


QUERIES = [
    ("/threads", "limit=0"),
    ("/threads", "limit=101"),
    ("/threads", "limit=ten"),
    ("/threads", "limit=1&limit=2"),
    ("/threads", "color=red"),
    ("/threads", "status=lost"),
    ("/threads", "since=soon"),
    ("/threads", "a=1&" * 101),
    ("/threads", "tag=" + "x" * 9_000),
    ("/inbox", "include=everything"),
    ("/sync/deltas", "since=5"),
]


def test_malformed_query_is_a_bad_request(ada):
    for path, query in QUERIES:
        response = ada.ask("GET", f"{path}?{query}")
        assert response.status_code == 400, query
        assert response.json()["error"]["code"] in ("VALIDATION_ERROR", "INVALID_FILTER")


BODIES = (
    *(
        b"{",
        b"",
        b"  ",
        b"[]",
        b"5",
        b"null",
        b'"{}"',
        b"\xff",
        b'{"title": NaN}',
        b"[" * 10_000,
        b"title=hi",
    ),
    *(
        b'{"title": ' * 200 + b"1" + b"}" * 200,
        b'{"title": ' + b"9" * 5000 + b"}",
        b'{"title": "a"} x',
    ),
)


def test_body_that_is_no_json_object_is_a_bad_request(core, ada):
    headers = {
        "Authorization": f"Bearer {ada.token}",
        "Idempotency-Key": "k",
        "Content-Type": "application/json",
    }
    for body in BODIES:
        error_of(
            core.http.post("/api/v2/threads", content=body, headers=headers),
            400,
            "VALIDATION_ERROR",
        )
    plain = core.http.post(
        "/api/v2/threads", content=b"{}", headers={**headers, "Content-Type": "text/plain"}
    )
    error_of(plain, 415, "VALIDATION_ERROR")
    surrogate = core.http.post(
        "/api/v2/threads", content=rb'{"title": "cut \ud83e"}', headers=headers
    )
    error_of(surrogate, 400, "VALIDATION_ERROR")


def test_body_over_its_limit_is_refused_and_a_flush_may_be_larger(core, ada):
    headers = {
        "Authorization": f"Bearer {ada.token}",
        "Idempotency-Key": "k",
        "Content-Type": "application/json",
    }
    large = b" " * (4 * 1024 * 1024 + 1)
    error_of(
        core.http.post("/api/v2/threads", content=large, headers=headers), 413, "VALIDATION_ERROR"
    )
    flushed = core.http.post(
        "/api/v2/sync/flush", content=b'{"actions": []}' + large, headers=headers
    )
    assert flushed.json()["data"] == {"results": []}
