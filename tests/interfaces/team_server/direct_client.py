"""An ASGI client in this process that enters its loop's thread once for each request.

Starlette's own client, otherwise the same, enters it seven times, so that an answer can be read
while it is made; no test needs that.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import anyio
import httpx2
from starlette.testclient import TestClient

ADDRESS = "http://127.0.0.1"


class DirectClient(TestClient):
    """A client that has a loop in a thread of its own while it is entered."""

    def __init__(self, app: Any) -> None:
        super().__init__(app, base_url=ADDRESS)
        self._transport = _DirectTransport(self)


class _DirectTransport(httpx2.BaseTransport):
    def __init__(self, client: DirectClient) -> None:
        self._client = client

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        assert self._client.portal is not None, "it was not entered"
        status, headers, body = self._client.portal.call(
            _ask, self._client.app, _scope(request), request.read()
        )
        content = b"" if request.method == "HEAD" else body
        return httpx2.Response(
            status, headers=headers, stream=httpx2.ByteStream(content), request=request
        )


def _scope(request: httpx2.Request) -> dict[str, Any]:
    url = request.url
    return {
        "type": "http",
        "http_version": "1.1",
        "method": request.method,
        "path": url.path,
        "raw_path": url.raw_path.partition(b"?")[0],
        "root_path": "",
        "scheme": url.scheme,
        "query_string": url.query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("testclient", 50000),
        "server": (url.host, url.port or 80),
        "state": {},
    }


async def _ask(
    app: Any, scope: dict[str, Any], body: bytes
) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body of an answer."""
    answered = anyio.Event()
    waiting = [body]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if waiting:
            return {"type": "http.request", "body": waiting.pop()}
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        assert (message["type"] == "http.response.start") == (not sent), "a start, and then a body"
        assert not answered.is_set(), "an answer ends once"
        sent.append(message)
        if sent[1:] and not message.get("more_body"):
            answered.set()

    await app(scope, receive, send)
    assert answered.is_set(), "no whole answer"
    return (
        sent[0]["status"],
        sent[0]["headers"],
        b"".join(message.get("body", b"") for message in sent[1:]),
    )
