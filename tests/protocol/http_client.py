"""A foreign client of MCP over HTTP, and the servers that it speaks to."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import forking
from protocol.client import FAMILY, MODERN, envelope

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
TOKEN = "sesame-🦀"
PORT = re.compile(rb"(?:ready |port |://\S+:)(\d+)")


class Server:
    """A running server and the port that it listens on."""

    def __init__(self, process: subprocess.Popen, port: int) -> None:
        self.process = process
        self.port = port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def send(self, method: str, body: bytes = b"", path: str = "/mcp", **headers: str):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        given = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(
            method, path, body, {name: value.encode() for name, value in given.items()}
        )
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response, text

    def post(self, message: object, **headers: str) -> tuple[int, dict]:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        response, text = self.send("POST", body, **headers)
        return response.status, last_message(response, text)

    def api(self, tool: str, arguments: object, **headers: str) -> tuple[int, dict]:
        """The JSON API's answer to a tool's arguments."""
        body = arguments if isinstance(arguments, bytes) else json.dumps(arguments).encode()
        response, text = self.send("POST", body, path=f"/api/{tool}", **headers)
        return response.status, json.loads(text)

    def modern(self, method: str, params: dict, **headers: str) -> tuple[int, dict]:
        name = {"mcp_name": params["name"]} if "name" in params else {}
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": method,
            "params": params | {"_meta": envelope()},
        }
        return self.post(message, mcp_protocol_version=MODERN, mcp_method=method, **name, **headers)


def last_message(response: http.client.HTTPResponse, text: str) -> dict:
    """The message of a response, as JSON or as the last event of a stream."""
    if response.getheader("content-type", "").startswith("text/event-stream"):
        text = [line[6:] for line in text.splitlines() if line.startswith("data: ")][-1]
    return json.loads(text) if text else {}


@contextmanager
def serving_family(*arguments: str) -> Iterator[Server]:
    """The test family over HTTP."""
    with serving([sys.executable, str(FAMILY), "http", "0", *arguments]) as server:
        yield server


@contextmanager
def serving(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A server that says its port on stderr and nothing on stdout; killed at the end unless it has
    ended.
    """
    process = forking.Popen([*argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        said = next((found for line in process.stderr if (found := PORT.search(line))), None)
        assert said is not None, "the server ended before it listened"
        yield Server(process, int(said[1]))
    finally:
        process.kill()
        printed = process.stdout.read()
        process.wait()
        process.stdout.close()
        process.stderr.close()
    assert printed == b""
