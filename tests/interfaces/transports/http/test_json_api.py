"""The tools as a JSON API: answers, errors and their status, checks of requests, cancelling."""

import http.client
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from protocol.code_server import check_envelope
from protocol.fuzz_lines import hostile_lines
from protocol.http_client import TOKEN, serving_family


def failure(answer: tuple[int, object], status: int, code: str) -> dict:
    """The error of an answer that must have this status and code."""
    assert answer[0] == status, answer
    error = check_envelope(answer[1])
    assert error["code"] == code
    return error


def test_text_answer_is_wrapped_and_structured_answer_is_unchanged(server):
    assert server.api("echo", {"text": "hi", "howOften": 2}) == (200, {"text": "hi hi"})
    assert server.api("count", {"to": 3}) == (200, {"count": 3})
    assert server.api("echo", {"text": "cut \ud83e"}) == (200, {"text": "cut ?"})
    assert server.api("fail", {"how": "surrogate"}) == (200, {"text": "odd ? name"})


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"a": [1, 2]}', {"a": [1, 2]}),
        ("[1]", {"text": "[1]"}),
        ("5", {"text": "5"}),
        ('{"a": NaN}', {"text": '{"a": NaN}'}),
        ("{", {"text": "{"}),
    ],
)
def test_a_text_that_is_a_json_object_is_the_answer_and_any_other_is_text(server, text, answer):
    assert server.api("echo", {"text": text}) == (200, answer)


def test_an_error_of_a_tool_has_the_form_of_the_family_and_a_status_that_fits(server):
    error = failure(server.api("fail", {"how": "known"}), 404, "FILE_NOT_FOUND")
    assert error["context"] == {"path": "a.py"}
    error = failure(server.api("fail", {"how": "unknown"}), 500, "INTERNAL_ERROR")
    assert "private" not in json.dumps(error)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("echo", {}),
        ("echo", {"text": 5}),
        ("echo", {"text": "a", "how_often": 2}),
        ("echo", {"text": "a", "howOften": 6}),
        ("count", {"to": "3"}),
        ("fail", {"how": None}),
    ],
)
def test_invalid_arguments_are_a_bad_request_that_names_them(server, tool, arguments):
    assert tool in failure(server.api(tool, arguments), 400, "ARGUMENT_INVALID")["message"]


@pytest.mark.parametrize(
    "name", ["ecko", "", "echo/x", "echo%2Fx", "..", "%2e%2e/mcp", "💥".encode().hex(), "a" * 5000]
)
def test_unknown_tool_is_not_found(server, name):
    status, body = server.api(name, {})
    assert status == (405 if not name else 404)
    check_envelope(body)
    if name == "ecko":
        assert "did you mean `echo`" in body["error"]["message"]


def test_method_that_a_path_lacks_is_refused(server):
    for method, path, allowed in (
        ("GET", "/api/echo", "POST"),
        ("PUT", "/api/echo", "POST"),
        ("OPTIONS", "/api/echo", "POST"),
        ("POST", "/api", "GET, HEAD"),
        ("DELETE", "/api/openapi.json", "GET, HEAD"),
    ):
        response, text = server.send(method, b"{}", path=path)
        assert (response.status, response.getheader("allow")) == (405, allowed), path
        assert response.getheader("access-control-allow-origin") is None
        check_envelope(json.loads(text))
    assert server.send("HEAD", path="/api")[0].status == 200
    assert server.send("GET", path="/apis")[0].status == 404


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"{",
            b"",
            b"  ",
            b"[]",
            b"5",
            b"null",
            b'"{}"',
            b"\xff",
            b'{"text": NaN}',
            b"[" * 100_000,
        ),
        *(
            b'{"text": ' * 200 + b"1" + b"}" * 200,
            b'{"text": ' + b"9" * 5000 + b"}",
            b"text=hi",
            b'{"text": "a"} x',
        ),
    ],
)
def test_body_that_is_no_json_object_is_a_bad_request(server, body):
    response, text = server.send("POST", body, path="/api/echo")
    assert response.status == 400
    check_envelope(json.loads(text))
    assert server.api("echo", {"text": "still here"})[0] == 200


def test_a_large_body_is_refused_also_in_chunks(server):
    failure(server.api("echo", b" " * (4 * 1024 * 1024 + 1)), 413, "REQUEST_REFUSED")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(
            "POST", "/api/echo", iter([b"x" * 65_536] * 80), headers, encode_chunked=True
        )
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused while it was still being sent
    finally:
        connection.close()


@pytest.mark.soak
def test_hostile_bodies_are_never_an_error_of_the_server(server, campaign):
    for body in hostile_lines(11, campaign(300, 5_000)):
        response, text = server.send("POST", body, path="/api/echo")
        assert response.status in (200, 400), body[:300]
        assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", ""],
)
@pytest.mark.parametrize("path", ["/api/echo", "/mcp"])
def test_content_type_of_a_cross_site_form_is_refused(server, kind, path):
    response, _ = server.send("POST", b'{"text":"a"}', path=path, Content_Type=kind)
    assert response.status == 415


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_content_type_may_have_a_charset(server, kind):
    response, text = server.send("POST", b'{"text":"a"}', path="/api/echo", Content_Type=kind)
    assert (response.status, json.loads(text)) == (200, {"text": "a"})
    assert response.getheader("content-type") == "application/json"
    assert response.getheader("x-content-type-options") == "nosniff"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:3000"}, 200),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/api/echo"), ("GET", "/api"), ("GET", "/api/openapi.json")]
)
def test_host_and_origin_are_checked(server, method, path, headers, status):
    response, text = server.send(method, b'{"text":"a"}', path=path, **headers)
    assert response.status == status
    if status != 200:
        failure((status, json.loads(text)), status, "REQUEST_REFUSED")


def test_with_a_token_every_request_must_carry_it_and_the_document_says_so(guarded, server):
    for method, path in (
        ("POST", "/api/echo"),
        ("GET", "/api"),
        ("GET", "/api/openapi.json"),
        ("GET", "/api/x"),
    ):
        response, text = guarded.send(method, b"{}", path=path)
        assert response.getheader("www-authenticate") == "Bearer"
        failure((response.status, json.loads(text)), 401, "REQUEST_REFUSED")
    assert guarded.api("echo", {"text": "a"}, authorization="Bearer wrong")[0] == 401
    assert guarded.api("echo", {"text": "a"}, authorization=f"Bearer {TOKEN}") == (
        200,
        {"text": "a"},
    )
    document = json.loads(
        guarded.send("GET", path="/api/openapi.json", authorization=f"Bearer {TOKEN}")[1]
    )
    assert document["security"] == [{"token": []}]
    assert TOKEN not in json.dumps(document, ensure_ascii=False)
    OpenAPIV31SpecValidator(document).validate()
    assert json.loads(server.send("GET", path="/api/openapi.json")[1])["security"] == []


def test_a_client_that_goes_away_cancels_its_call():
    with serving_family() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request("POST", "/api/wait", b"{}", {"Content-Type": "application/json"})
        assert server.api("echo", {"text": "meanwhile"})[0] == 200
        connection.close()
        assert server.api("was_cancelled", {}) == (200, {"text": "True"})


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_signal_ends_the_api_server_within_a_second_during_a_call(tmp_path):
    with serving_family("127.0.0.1", str(tmp_path / "family.closed")) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request("POST", "/api/stubborn", b"{}", {"Content-Type": "application/json"})
        assert server.api("echo", {"text": "meanwhile"})[0] == 200
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0
        assert time.monotonic() - start < 1
        connection.close()


def test_concurrent_calls_get_their_own_answers(server):
    with ThreadPoolExecutor(24) as crowd:
        answers = list(
            crowd.map(lambda number: server.api("echo", {"text": str(number)}), range(240))
        )
    assert answers == [(200, {"text": str(number)}) for number in range(240)]


def test_the_list_has_every_tool_in_the_order_of_the_table(server):
    response, text = server.send("GET", path="/api")
    about = json.loads(text)
    listed = [tool["name"] for tool in server.modern("tools/list", {})[1]["result"]["tools"]]
    assert response.status == 200
    assert [tool["name"] for tool in about["tools"]] == listed
    assert {tool["name"]: tool["readOnly"] for tool in about["tools"]}["chatter"] is False
    assert json.loads(server.send("GET", path="/api/")[1]) == about
    assert server.send("GET", path=about["openapi"])[0].status == 200


@pytest.mark.parametrize("size", [10, 3_000])
def test_no_answer_waits_for_an_acknowledgement(server, size):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    body, seconds = json.dumps({"text": "x" * size}).encode(), []
    for _ in range(30):
        start = time.perf_counter()
        connection.request("POST", "/api/echo", body, {"Content-Type": "application/json"})
        assert connection.getresponse().read()
        seconds.append(time.perf_counter() - start)
    connection.close()
    assert min(seconds) < 0.03  # with Nagle's algorithm each takes 40 ms
