"""The accidents of the proxy between a member and a Core."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from sync_faults import proxy as network
from sync_faults.proxy import Proxy


class CountingHandler(BaseHTTPRequestHandler):
    """Answers each request with its number and body."""

    received: ClassVar[list[bytes]] = []
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append(body)
        answer = f"{len(self.received)} {body.decode()}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def received() -> Iterator[list[bytes]]:
    CountingHandler.received = []
    yield CountingHandler.received


@pytest.fixture
def proxy(received) -> Iterator[Proxy]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), CountingHandler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    made = Proxy(0)
    made.target = ("127.0.0.1", server.server_address[1])
    yield made
    made.close()
    server.shutdown()
    serving.join()
    server.server_close()


def post(proxy: Proxy, body: str) -> str:
    """Send a request; returns status and body, "" if the connection ended before them."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    try:
        connection.request("POST", "/", body)
        answer = connection.getresponse()
        return f"{answer.status} {answer.read().decode()}"
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("accident", "answer", "arrived"),
    [
        (network.PASS, "200 1 a", [b"a"]),
        (network.REFUSE, "", []),
        (network.HOLE, "", []),
        (network.CUT, "", [b"a"]),
        (network.LATE, "200 1 a", [b"a"]),
        (network.SLOW, "200 1 a", [b"a"]),
        (network.TWICE, "200 1 a", [b"a", b"a"]),
        (network.SECOND, "200 2 a", [b"a", b"a"]),
        (network.ANSWER_TWICE, "200 1 a", [b"a"]),
        (network.BEHIND, "200 1 a", [b"a"]),
        (network.GATE, "502 <h1>wait</h1>\r\n", []),
        (network.LOGIN, "200 <h1>wait</h1>\r\n", []),
    ],
)
def test_accident_changes_the_answer_and_the_received_requests(
    proxy, received, accident, answer, arrived
):
    proxy.accident_rates = {accident: 1.0}
    assert post(proxy, "a") == answer
    assert received == arrived
    assert proxy.accidents == {accident: 1}


def test_half_an_answer_ends_the_connection(proxy, received):
    proxy.accident_rates = {network.HALF: 1.0}
    for number in range(1, 20):
        assert post(proxy, "a") in ("", "200 ")  # ended in the head, or in the body
        assert len(received) == number


def test_stray_request_arrives_after_the_next_one(proxy, received, until):
    proxy.accident_rates = {network.STRAY: 1.0}
    assert post(proxy, "first") == ""
    proxy.accident_rates = {}
    assert post(proxy, "second") == "200 1 second"
    until(lambda: received == [b"second", b"first"])


def test_healing_ends_a_partition_and_delivers_stray_requests(proxy, received):
    proxy.accident_rates = {network.STRAY: 1.0}
    post(proxy, "lost")
    proxy.partition = network.REFUSE
    assert post(proxy, "away") == ""
    proxy.heal()
    assert post(proxy, "back") == "200 2 back"
    assert received == [b"lost", b"back"]


def test_hook_is_called_once_at_its_moment(proxy, received):
    seen: list[int] = []
    proxy.hooks = {
        network.BEFORE: lambda: seen.append(len(received)),
        network.AFTER: lambda: seen.append(len(received)),
    }
    assert post(proxy, "a") == ""  # the member may have been killed
    assert post(proxy, "b") == "200 2 b"
    assert seen == [0, 1]


def test_unreachable_server_ends_the_connection(proxy):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        proxy.target = gone.getsockname()
    assert post(proxy, "a") == ""
