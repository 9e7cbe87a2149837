"""A server with a short head timeout and few sessions."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from protocol import http_client
from protocol.client import FAMILY
from protocol.http_client import Server

NARROW = """
import runpy, sys
import cortex.interfaces.transports.http.uvicorn_server as http_server
import cortex.interfaces.transports.http.mcp_site as surface
http_server.HEAD_SECONDS, surface.MAX_SESSIONS = 0.5, 4
sys.argv = [sys.argv[1], "http", "0"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}


@pytest.fixture(scope="module")
def narrow() -> Iterator[Server]:
    """A server with a short head timeout and few sessions."""
    with http_client.serving([sys.executable, "-c", NARROW, str(FAMILY)]) as server:
        yield server


def open_session(server: Server) -> str | None:
    """The id of a new session."""
    response, _ = server.send("POST", json.dumps(HELLO).encode())
    assert response.status == 200
    return response.getheader("mcp-session-id")
