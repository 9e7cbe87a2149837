"""MCP over streamable HTTP: checks of requests, sessions, the end of the server."""

import http.client
import json
import os
import signal
import time

import pytest

from cortex.base.errors import NetworkError
from cortex.interfaces.transports.http.gateway import Site
from cortex.interfaces.transports.http.mcp_site import serve_http
from interfaces.transports.http.conftest import HELLO, PING, open_session
from protocol.client import MODERN, envelope
from protocol.family import make_family
from protocol.fuzz_lines import hostile_lines
from protocol.http_client import HEADERS, TOKEN, serving_family


def test_the_stateless_revision_needs_no_session(server):
    status, answer = server.modern(
        "tools/call", {"name": "echo", "arguments": {"text": "cut \ud83e"}}
    )
    assert (status, answer["result"]["content"][0]["text"]) == (200, "cut ?")
    assert server.modern("server/discover", {})[1]["result"]["supportedVersions"] == [MODERN]
    status, answer = server.modern("tools/call", {"name": "echo", "arguments": {}})
    assert answer["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example:80"}, 421),
        ({"host": ""}, 421),
        ({"host": "[::1"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://[::"}, 403),
        ({"origin": "http://localhost:3000"}, 200),
        ({"host": "localhost"}, 200),
        ({"host": "[::1]:80"}, 200),
    ],
)
def test_host_and_origin_are_checked(server, headers, status):
    assert server.modern("tools/list", {}, **headers)[0] == status


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"", 400),
        (b"[" * 100_000, 400),
        (b"\xff", 400),
        (b'{"a":NaN}', 400),
        (b"[]", 400),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', 400),
        (b" " * (4 * 1024 * 1024 + 1), 413),
    ],
)
def test_a_bad_body_is_refused_with_its_status(server, body, status):
    assert server.post(body)[0] == status
    assert server.modern("tools/list", {})[0] == 200


@pytest.mark.soak
def test_hostile_bodies_are_refused_and_never_an_error_of_the_server(server, campaign):
    sessions: list[dict[str, str]] = [
        {},
        {"mcp_protocol_version": MODERN},
        {"mcp_session_id": batching_session(server)},
    ]
    for number, body in enumerate(hostile_lines(7, campaign(300, 5_000))):
        response, _ = server.send("POST", body, **sessions[number % 3])
        assert response.status < 500, body[:300]
    assert server.modern("tools/list", {})[0] == 200


def batching_session(server) -> str:
    """A session of the one revision that has batches."""
    hello = HELLO | {"params": HELLO["params"] | {"protocolVersion": "2025-03-26"}}
    return server.send("POST", json.dumps(hello).encode())[0].getheader("mcp-session-id")


def call(id: int | str, tool: str, **rest: object) -> dict:
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": {"name": tool, "arguments": {}, **rest},
    }


NOTE = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def test_the_answers_to_a_batch_are_one_array(server):
    batch = [PING, NOTE, 5, call("a", "echo", arguments={"text": "cut \ud83e"}), call(2, "nothing")]
    response, text = server.send(
        "POST", json.dumps(batch).encode(), mcp_session_id=batching_session(server)
    )
    assert (response.status, response.getheader("content-type")) == (200, "application/json")
    bad, ping, unknown, echo = sorted(json.loads(text), key=lambda answer: str(answer["id"] or ""))
    assert (bad["id"], bad["error"]["code"]) == (None, -32600)
    assert (ping["id"], ping["result"]) == (1, {})
    assert (unknown["id"], unknown["error"]["code"]) == (2, -32602)
    assert (echo["id"], echo["result"]["content"][0]["text"]) == ("a", "cut ?")


def test_progress_of_a_batch_is_streamed_before_the_array(server):
    batch = [PING, call(2, "count", arguments={"to": 10}, _meta={"progressToken": "p"})]
    response, text = server.send(
        "POST", json.dumps(batch).encode(), mcp_session_id=batching_session(server)
    )
    assert (response.status, response.getheader("content-type")) == (200, "text/event-stream")
    *progress, answers = [
        json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")
    ]
    assert progress
    assert {message["params"]["progressToken"] for message in progress} == {"p"}
    assert sorted(answer["id"] for answer in answers) == [1, 2]


def test_a_member_of_a_batch_can_be_cancelled(server):
    session = batching_session(server)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    batch = [PING, call(2, "wait", _meta={"progressToken": "p"})]
    connection.request(
        "POST", "/mcp", json.dumps(batch).encode(), HEADERS | {"mcp-session-id": session}
    )
    response = connection.getresponse()  # begins with the progress
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    assert (
        server.send("POST", json.dumps([cancel]).encode(), mcp_session_id=session)[0].status == 202
    )
    answers = [
        json.loads(line[6:]) for line in response.read().splitlines() if line.startswith(b"data: ")
    ][-1]
    assert {answer["id"]: "result" in answer for answer in answers} == {1: True, 2: False}
    connection.close()


@pytest.mark.parametrize(
    ("batch", "status"),
    [
        ([NOTE, {"jsonrpc": "2.0", "id": 5, "result": {}}], 202),
        ([], 400),
        ([5], 400),
        ([PING] * 101, 400),
        ([HELLO], 400),
        ([HELLO, PING | {"id": 2}], 200),
    ],
)
def test_batch_status_depends_on_its_members(server, batch, status):
    response, _ = server.send(
        "POST", json.dumps(batch).encode(), mcp_session_id=batching_session(server)
    )
    assert response.status == status


def test_a_batch_is_refused_without_a_session_of_its_revision(server):
    body = json.dumps([PING]).encode()
    assert server.post(body)[0] == 400
    assert server.post(body, mcp_session_id=open_session(server))[1]["error"]["code"] == -32600
    assert server.post(body, mcp_session_id="unknown")[0] == 404
    assert (
        server.post(body, mcp_protocol_version=MODERN, mcp_session_id=batching_session(server))[0]
        == 400
    )
    assert server.post(body, Accept="text/plain", mcp_session_id=batching_session(server))[0] == 406


def test_a_chunked_body_is_bounded_too(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    part = b"x" * 65_536
    try:
        connection.request("POST", "/mcp", iter([part] * 80), HEADERS, encode_chunked=True)
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused while it was still being sent
    finally:
        connection.close()
    assert server.modern("tools/list", {})[0] == 200


@pytest.mark.parametrize(
    "origins", [["http://localhost", "http://evil.example"], ["http://evil.example", "null"]]
)
def test_every_origin_is_checked(server, origins):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest("POST", "/mcp")
    for origin in origins:
        connection.putheader("Origin", origin)
    connection.putheader("Content-Length", "0")
    connection.endheaders()
    assert connection.getresponse().status == 403
    connection.close()


def test_other_paths_and_methods_are_refused(server):
    assert server.send("POST", b"{}", path="/")[0].status == 404
    assert server.send("GET", path="/mcp/../x")[0].status == 404
    assert server.send("PUT", b"{}")[0].status == 405


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("", 401),
        ("Bearer wrong", 401),
        (f"Basic {TOKEN}", 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
    ],
)
def test_with_a_token_every_request_must_carry_it(guarded, authorization, status):
    assert guarded.modern("tools/list", {}, authorization=authorization)[0] == status


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.com", ""])
def test_an_address_beyond_this_machine_is_refused_without_a_token(host):
    with pytest.raises(NetworkError) as refused:
        serve_http([make_family()], Site(host, 0))
    assert refused.value.code == "ADDRESS_REFUSED"


def test_beyond_loopback_any_host_name_is_served_with_the_token_only():
    with serving_family("0.0.0.0", TOKEN) as server:
        assert server.modern("tools/list", {}, host="cortex.example")[0] == 401
        authorization = f"Bearer {TOKEN}"
        assert (
            server.modern("tools/list", {}, host="cortex.example", authorization=authorization)[0]
            == 200
        )
        foreign = {
            "host": "cortex.example",
            "origin": "http://evil.example",
            "authorization": authorization,
        }
        assert server.modern("tools/list", {}, **foreign)[0] == 403


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_signal_ends_the_http_server_within_a_second_during_a_call(tmp_path):
    closed = tmp_path / "family.closed"
    with serving_family("127.0.0.1", str(closed)) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        params = {"name": "stubborn", "arguments": {}, "_meta": envelope() | {"progressToken": 1}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = HEADERS | {
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
            "mcp-name": "stubborn",
        }
        connection.request("POST", "/mcp", json.dumps(message).encode(), headers)
        response = connection.getresponse()
        while b"notifications/progress" not in response.readline():
            pass
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0
        assert time.monotonic() - start < 1
        assert closed.exists()
        connection.close()
