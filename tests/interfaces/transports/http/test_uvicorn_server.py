"""The HTTP server: taken addresses, and limits on the time for a request head."""

import http.client
import json
import socket
import time

import pytest

from cortex.base.errors import NetworkError
from cortex.interfaces.transports.http.gateway import Site
from cortex.interfaces.transports.http.mcp_site import serve_http
from protocol.client import MODERN, envelope
from protocol.family import make_family
from protocol.http_client import HEADERS


def test_taken_address_is_refused_with_the_reason(server):
    with pytest.raises(NetworkError) as refused:
        serve_http([make_family()], Site("127.0.0.1", server.port))
    assert str(server.port) in refused.value.message


@pytest.mark.parametrize("first", [b"", b"GET /mcp HTTP/1.1\r\nHost: loc"])
def test_connection_with_an_unfinished_request_head_is_closed(narrow, first):
    with socket.create_connection(("127.0.0.1", narrow.port), timeout=10) as connection:
        connection.sendall(first)
        assert connection.recv(100) == b""


def test_slow_request_head_gets_no_more_time_per_byte_or_request(narrow):
    with socket.create_connection(("127.0.0.1", narrow.port), timeout=10) as connection:
        connection.sendall(b"PUT /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        assert connection.recv(10_000).startswith(b"HTTP/1.1 405")
        connection.settimeout(0.05)
        # The server's own time for a connection that rests is five seconds
        give_up = time.monotonic() + 4
        closed = False
        while not closed and time.monotonic() < give_up:
            try:
                connection.sendall(b"x")
                closed = connection.recv(1000) == b""
            except TimeoutError:
                pass
            except OSError:
                closed = True
        assert closed


def test_answer_may_take_longer_than_a_request_head(narrow):
    params = {"name": "stubborn", "arguments": {}, "_meta": envelope() | {"progressToken": 1}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = HEADERS | {
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": "stubborn",
    }
    connection = http.client.HTTPConnection("127.0.0.1", narrow.port, timeout=1.5)
    connection.request("POST", "/mcp", json.dumps(message).encode(), headers)
    response = connection.getresponse()
    with pytest.raises(TimeoutError):  # it is still open, and nothing comes
        while response.readline():
            pass
    response.close()
    connection.close()
