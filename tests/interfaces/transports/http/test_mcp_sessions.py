"""Sessions of MCP over HTTP: bounded in number, never taken from a client at work."""

import http.client
import json
import sys
from concurrent.futures import ThreadPoolExecutor

from interfaces.transports.http.conftest import HELLO, NARROW, PING, open_session
from protocol import http_client
from protocol.client import FAMILY
from protocol.http_client import HEADERS


def test_session_initializes_calls_a_tool_and_ends(server):
    response, text = server.send("POST", json.dumps(HELLO).encode())
    session = response.getheader("mcp-session-id")
    assert '"protocolVersion":"2025-06-18"' in text
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "hi"}},
    }
    status, answer = server.post(call, mcp_session_id=session)
    assert (status, answer["result"]["content"][0]["text"]) == (200, "hi")
    assert server.send("DELETE", mcp_session_id=session)[0].status == 200
    assert server.post(call, mcp_session_id=session)[0] == 404


def test_abandoned_sessions_make_room_for_new_ones_unlike_those_in_use(narrow):
    listening, working = open_session(narrow), open_session(narrow)
    stream = http.client.HTTPConnection("127.0.0.1", narrow.port, timeout=10)
    stream.request("GET", "/mcp", headers=HEADERS | {"mcp-session-id": listening})
    assert stream.getresponse().status == 200
    abandoned = []
    for _ in range(20):
        abandoned.append(open_session(narrow))
        assert narrow.post(PING, mcp_session_id=working)[0] == 200
        assert narrow.modern("tools/list", {})[0] == 200
    assert narrow.post(PING, mcp_session_id=listening)[0] == 200
    assert narrow.post(PING, mcp_session_id=abandoned[-1])[0] == 200
    assert narrow.post(PING, mcp_session_id=abandoned[0])[0] == 404
    with ThreadPoolExecutor(2) as crowd:
        assert None not in crowd.map(lambda _: open_session(narrow), range(40))
    stream.close()


def test_busy_sessions_are_never_evicted():
    with http_client.serving([sys.executable, "-c", NARROW, str(FAMILY)]) as server:
        streams = []
        for _ in range(4):
            stream = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            stream.request(
                "GET", "/mcp", headers=HEADERS | {"mcp-session-id": open_session(server)}
            )
            assert stream.getresponse().status == 200
            streams.append(stream)
        assert server.post(HELLO)[0] == 503
        assert server.modern("tools/list", {})[0] == 200
        for stream in streams:
            stream.close()
