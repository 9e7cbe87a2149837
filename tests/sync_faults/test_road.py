"""The road between a member and a Core does what it says: which accident loses, doubles or delays
what.
"""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from sync_faults import proxy as road
from sync_faults.proxy import Proxy


class Counting(BaseHTTPRequestHandler):
    """Answers with how many came before, and what it was sent."""

    came: ClassVar[list[bytes]] = []
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.came.append(body)
        said = f"{len(self.came)} {body.decode()}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def came() -> Iterator[list[bytes]]:
    Counting.came = []
    yield Counting.came


@pytest.fixture
def proxy(came) -> Iterator[Proxy]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counting)
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
    """The answer's body, "" where the connection ended before there was one."""
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
        (road.PASS, "200 1 a", [b"a"]),
        (road.REFUSE, "", []),
        (road.HOLE, "", []),
        (road.CUT, "", [b"a"]),
        (road.LATE, "200 1 a", [b"a"]),
        (road.SLOW, "200 1 a", [b"a"]),
        (road.TWICE, "200 1 a", [b"a", b"a"]),
        (road.SECOND, "200 2 a", [b"a", b"a"]),
        (road.ANSWER_TWICE, "200 1 a", [b"a"]),
        (road.BEHIND, "200 1 a", [b"a"]),
        (road.GATE, "502 <h1>wait</h1>\r\n", []),
        (road.LOGIN, "200 <h1>wait</h1>\r\n", []),
    ],
)
def test_an_accident_does_what_it_is_called(proxy, came, accident, answer, arrived):
    proxy.weather = {accident: 1.0}
    assert post(proxy, "a") == answer
    assert came == arrived
    assert proxy.happened == {accident: 1}


def test_half_an_answer_is_none(proxy, came):
    proxy.weather = {road.HALF: 1.0}
    for number in range(1, 20):
        assert post(proxy, "a") in ("", "200 ")  # it ended in its head, or in its body
        assert len(came) == number


def test_a_stray_request_arrives_behind_the_next_one(proxy, came, until):
    proxy.weather = {road.STRAY: 1.0}
    assert post(proxy, "first") == ""
    proxy.weather = {}
    assert post(proxy, "second") == "200 1 second"
    until(lambda: came == [b"second", b"first"])


def test_healing_ends_a_partition_and_brings_what_strayed(proxy, came):
    proxy.weather = {road.STRAY: 1.0}
    post(proxy, "lost")
    proxy.cut_off = road.REFUSE
    assert post(proxy, "away") == ""
    proxy.heal()
    assert post(proxy, "back") == "200 2 back"
    assert came == [b"lost", b"back"]


def test_something_is_done_once_at_the_moment_that_it_is_for(proxy, came):
    seen: list[int] = []
    proxy.at = {
        road.BEFORE: lambda: seen.append(len(came)),
        road.AFTER: lambda: seen.append(len(came)),
    }
    assert post(proxy, "a") == ""  # who was to answer is taken to be gone
    assert post(proxy, "b") == "200 2 b"
    assert seen == [0, 1]


def test_a_server_that_is_away_is_an_ended_connection(proxy):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        proxy.target = gone.getsockname()
    assert post(proxy, "a") == ""
