"""JSON-RPC batches over HTTP: each member is a request to the SDK, the answers one array.

Only revision 2025-03-26 has batches, and the SDK has none. Messages before the answer of a member
(progress, keep-alives) are passed on at once; the response is then an event stream that ends with
the array. Otherwise the array is the response. It knows no sessions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import anyio
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cortex.interfaces.transports.jsonrpc import (
    Refusal,
    RpcBatch,
    RpcNotification,
    RpcRequest,
    array,
)

END_OF_EVENT = b"\r\n\r\n"


async def answer_batch(
    app: ASGIApp, batch: RpcBatch, scope: Scope, receive: Receive, send: Send
) -> None:
    """Let `app` answer every member, and send the answers."""
    gathered = _Gathered(send, batch.refusals)

    async def ask(member: RpcRequest | RpcNotification) -> None:
        await app(scope, replay(_body(member), receive), _listener(gathered, member))

    async with anyio.create_task_group() as tasks:
        for member in batch.members:
            if not isinstance(member, Refusal):
                gathered.members += 1
                tasks.start_soon(ask, member)
    if gathered.streaming:
        end = (
            b"event: message\r\ndata: " + array(gathered.answers) + END_OF_EVENT
            if gathered.answers
            else b""
        )
        await send({"type": "http.response.body", "body": end})
    else:
        await gathered.response()(scope, receive, send)


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields a body that was read before, then the real messages."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


@dataclass(slots=True)
class _Gathered:
    """The answers of the members so far."""

    send: Send
    answers: list[bytes]
    members: int = 0
    # Responses to members that were rejected as HTTP requests.
    failures: list[Response] = field(default_factory=list)
    streaming: bool = False

    async def pass_on(self, event: bytes) -> None:
        """Send an event that isn't an answer at once."""
        if not self.streaming:
            self.streaming = True
            headers = [
                (b"content-type", b"text/event-stream"),
                (b"cache-control", b"no-cache, no-transform"),
            ]
            await self.send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.send({"type": "http.response.body", "body": event, "more_body": True})

    def response(self) -> Response:
        """Return the response where nothing has been sent yet."""
        if self.failures and len(self.failures) == self.members:
            # No session, wrong headers: the request as a whole was rejected.
            return self.failures[0]
        if not self.answers:
            return Response(status_code=202)
        return Response(
            array(self.answers), 200 if self.members else 400, media_type="application/json"
        )


def _listener(gathered: _Gathered, member: RpcRequest | RpcNotification) -> Send:
    """Return an ASGI `send` that collects the response to one member."""
    start: Message = {}
    rest = b""

    async def listen(message: Message) -> None:
        nonlocal start, rest
        if message["type"] == "http.response.start":
            start = message
            return
        rest += message.get("body", b"")
        kind = Headers(raw=start["headers"]).get("content-type", "")
        if kind.startswith("text/event-stream"):
            *events, rest = rest.split(END_OF_EVENT)
            for event in events:
                if answer := _answer_in(event):
                    gathered.answers.append(answer)
                else:
                    await gathered.pass_on(event + END_OF_EVENT)
        elif not message.get("more_body"):
            if start["status"] >= 400:
                gathered.failures.append(Response(rest, start["status"], media_type=kind or None))
            if isinstance(member, RpcRequest):
                gathered.answers.append(json.dumps({**json.loads(rest), "id": member.id}).encode())

    return listen


def _answer_in(event: bytes) -> bytes:
    """Return the answer in an event, empty if it has none."""
    content = b"".join(
        line[5:].strip() for line in event.split(b"\r\n") if line.startswith(b"data:")
    )
    try:
        message = json.loads(content)
    except ValueError:
        return b""
    return b"" if "method" in message else content


def _body(member: RpcRequest | RpcNotification) -> bytes:
    message: dict[str, object] = {"jsonrpc": "2.0", "method": member.method}
    if isinstance(member, RpcRequest):
        message["id"] = member.id
    if member.params is not None:
        message["params"] = member.params
    return json.dumps(message).encode()
